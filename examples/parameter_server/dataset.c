/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - where images come from, and the order in which they are shown. */
#include "dataset.h"

#include "idx.h"
#include "random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SYNTHETIC_TRAIN = 2000,
    SYNTHETIC_TEST = 500,
    SYNTHETIC_PIXELS = 64,
    SYNTHETIC_CLASSES = 10,
    SYNTHETIC_SEED = 2718
};

static void examples_free(struct examples *examples)
{
    free(examples->images);
    free(examples->labels);
    *examples = (struct examples){0};
}

void dataset_free(struct dataset *dataset)
{
    examples_free(&dataset->train);
    examples_free(&dataset->test);
}

static size_t classes_of(const uint8_t *labels, size_t count)
{
    size_t classes = 0;

    for (size_t i = 0; i < count; i++)
        if (labels[i] >= classes)
            classes = labels[i] + (size_t)1;
    return classes;
}

static bool read_examples(const char *images_path, const char *labels_path, char error[512],
                          struct examples *examples_p)
{
    struct idx images, labels;

    if (!idx_read(images_path, 3, error, &images))
        return false;
    if (!idx_read(labels_path, 1, error, &labels)) {
        idx_free(&images);
        return false;
    }
    if (images.sizes[0] != labels.sizes[0]) {
        (void)snprintf(error, 512, "%s has %zu images, %s has %zu labels", images_path,
                       images.sizes[0], labels_path, labels.sizes[0]);
        idx_free(&images);
        idx_free(&labels);
        return false;
    }
    *examples_p = (struct examples){.count = images.sizes[0],
                                    .pixels = images.sizes[1] * images.sizes[2],
                                    .classes = classes_of(labels.data, labels.bytes),
                                    .images = images.data,
                                    .labels = labels.data};
    return true;
}

static bool belong_together(const struct dataset *dataset, const char *const paths[4],
                            char error[512])
{
    const struct examples *train = &dataset->train, *test = &dataset->test;

    if (train->pixels != test->pixels)
        (void)snprintf(error, 512, "%s has %zu pixels in an image, %s has %zu", paths[0],
                       train->pixels, paths[2], test->pixels);
    else if (test->classes > train->classes)
        (void)snprintf(error, 512, "%s has labels up to %zu, %s only up to %zu", paths[3],
                       test->classes - 1, paths[1], train->classes - 1);
    else if (train->count > UINT32_MAX || test->count > UINT32_MAX)
        (void)snprintf(error, 512, "%s or %s has more than 2^32 images", paths[0], paths[2]);
    else
        return true;
    return false;
}

bool dataset_read_files(const char *const paths[4], char error[512], struct dataset *dataset_p)
{
    struct dataset dataset = {.name = "IDX files"};

    if (!read_examples(paths[0], paths[1], error, &dataset.train))
        return false;
    if (!read_examples(paths[2], paths[3], error, &dataset.test) ||
        !belong_together(&dataset, paths, error)) {
        dataset_free(&dataset);
        return false;
    }
    *dataset_p = dataset;
    return true;
}

struct four_paths {
    char texts[4][4096];
    const char *paths[4];
};

static bool paths_in(const char *folder, char error[512], struct four_paths *four)
{
    static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

    for (int i = 0; i < 4; i++) {
        char *text = four->texts[i];
        int length = snprintf(text, sizeof(four->texts[i]), "%s/%s.gz", folder, names[i]);

        if (length < 0 || (size_t)length >= sizeof(four->texts[i])) {
            (void)snprintf(error, 512, "the path of the data folder is too long");
            return false;
        }
        if (access(text, F_OK) != 0)
            text[length - 3] = '\0'; /* not gzipped, then */
        four->paths[i] = text;
    }
    return true;
}

bool dataset_is_there(const char *folder, const char *const files[4], char error[512])
{
    struct four_paths four;

    if (!files[0]) {
        if (!paths_in(folder, error, &four))
            return false;
        files = four.paths;
    }
    for (int i = 0; i < 4; i++) {
        if (access(files[i], R_OK) == 0)
            continue;
        (void)snprintf(error, 512, "%.400s: %s", files[i], strerror(errno));
        return false;
    }
    return true;
}

bool dataset_read(const char *folder, char error[512], struct dataset *dataset_p)
{
    const char *slash = strrchr(folder, '/');
    struct four_paths four;

    if (!paths_in(folder, error, &four) || !dataset_read_files(four.paths, error, dataset_p))
        return false;
    (void)snprintf(dataset_p->name, sizeof(dataset_p->name), "%s", slash ? slash + 1 : folder);
    return true;
}

/* ---- the built-in set ---- */

/* A pixel of a class's pattern is dark or bright; noise moves it by up to 0.4 of the range, and two patterns differ in about half
 * of the pixels, so a straight line separates the classes. */
static uint8_t synthetic_pixel(size_t class, size_t example, size_t pixel)
{
    bool bright = random_at(SYNTHETIC_SEED, class * SYNTHETIC_PIXELS + pixel) & 1;
    float noise = random_sign(SYNTHETIC_SEED + 1, example * SYNTHETIC_PIXELS + pixel);
    float value = (bright ? 0.6f : 0.4f) + 0.399f * noise;

    return (uint8_t)(255.0f * value);
}

static bool synthetic_examples(size_t first, size_t count, struct examples *examples)
{
    *examples = (struct examples){.count = count,
                                  .pixels = SYNTHETIC_PIXELS,
                                  .classes = SYNTHETIC_CLASSES,
                                  .images = malloc(count * SYNTHETIC_PIXELS),
                                  .labels = malloc(count)};
    if (!examples->images || !examples->labels)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t class = (first + i) % SYNTHETIC_CLASSES;

        examples->labels[i] = (uint8_t) class;
        for (size_t p = 0; p < SYNTHETIC_PIXELS; p++)
            examples->images[i * SYNTHETIC_PIXELS + p] = synthetic_pixel(class, first + i, p);
    }
    return true;
}

bool dataset_synthetic(char error[512], struct dataset *dataset_p)
{
    struct dataset dataset = {.name = "synthetic"};

    if (!synthetic_examples(0, SYNTHETIC_TRAIN, &dataset.train) ||
        !synthetic_examples(SYNTHETIC_TRAIN, SYNTHETIC_TEST, &dataset.test)) {
        dataset_free(&dataset);
        (void)snprintf(error, 512, "no memory for the synthetic set");
        return false;
    }
    *dataset_p = dataset;
    return true;
}

/* ---- showing ---- */

void examples_gather(const struct examples *examples, const uint32_t *order, size_t count, float *x,
                     uint8_t *labels)
{
    const size_t pixels = examples->pixels;

    for (size_t i = 0; i < count; i++) {
        const uint8_t *image = examples->images + order[i] * pixels;

        for (size_t p = 0; p < pixels; p++)
            x[i * pixels + p] = (float)image[p] / 255.0f;
        labels[i] = examples->labels[order[i]];
    }
}

void examples_shuffle(uint64_t seed, size_t epoch, size_t count, uint32_t *order)
{
    uint64_t key = random_at(seed, epoch);

    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = random_at(key, i) % i;
        uint32_t swap = order[i - 1];

        order[i - 1] = order[j];
        order[j] = swap;
    }
}
