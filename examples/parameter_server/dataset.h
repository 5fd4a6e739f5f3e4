/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - labelled images to learn from and to be judged by. */
#ifndef PARAMETER_SERVER_DATASET_H
#define PARAMETER_SERVER_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct examples {
    size_t count;
    size_t pixels;   /* of one image */
    size_t classes;  /* one more than the largest label */
    uint8_t *images; /* count * pixels */
    uint8_t *labels; /* count */
};

struct dataset {
    struct examples train, test;
    char name[32]; /* for displays */
};

/* Four IDX files in `folder`, named as MNIST's are, with or without ".gz". False, with one line in `error`, when one is missing
 * or damaged or when they do not belong together. Release with dataset_free. */
bool dataset_read(const char *folder, char error[512], struct dataset *dataset_p);

/* Are the files there, and readable? Those that `files` names, or those of dataset_read(folder) when files[0] is NULL. Else one
 * line in `error`. */
bool dataset_is_there(const char *folder, const char *const files[4], char error[512]);

/* Any IDX sets: {train images, train labels, test images, test labels}. */
bool dataset_read_files(const char *const paths[4], char error[512], struct dataset *dataset_p);

/* 2000 + 500 images of 8x8 in 10 classes: ten patterns with noise on them. The same each time; for tests, needs no file. */
bool dataset_synthetic(char error[512], struct dataset *dataset_p);

void dataset_free(struct dataset *dataset);

/* Copies `count` examples, those that order[0..count) names, to x (count * pixels, in 0..1) and labels. */
void examples_gather(const struct examples *examples, const uint32_t *order, size_t count, float *x,
                     uint8_t *labels);

/* order[0..count) = the order of epoch `epoch`: a permutation that follows from seed and epoch alone. */
void examples_shuffle(uint64_t seed, size_t epoch, size_t count, uint32_t *order);

#endif
