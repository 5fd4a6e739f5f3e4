/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_idx_test.c - IDX files, whole and damaged, and the sets made of them. */
#include "examples/parameter_server/dataset.h"
#include "examples/parameter_server/idx.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64], error[512];

static void begin(void)
{
    (void)strcpy(folder, "/tmp/sealane-idx-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void end(void)
{
    static const char *const names[] = {"a", "train-images-idx3-ubyte.gz",
                                        "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte.gz"};
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    cr_assert_eq(rmdir(folder), 0);
}

TestSuite(parameter_server_idx, .init = begin, .fini = end);

static const char *path_of(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t count, bool zipped)
{
    gzFile file = gzopen(path_of(name), zipped ? "wb" : "wbT");

    cr_assert_not_null(file);
    cr_assert_eq(gzwrite(file, bytes, (unsigned)count), (int)count);
    cr_assert_eq(gzclose(file), Z_OK);
}

/* An IDX file of 1 or 3 dimensions whose bytes are 0, 1, 2, … modulo `modulus`. */
static size_t make_idx(uint8_t *to, unsigned dimensions, const uint8_t *sizes, unsigned modulus)
{
    size_t at = 4, bytes = 1;

    memcpy(to, (const uint8_t[]){0, 0, 8, (uint8_t)dimensions}, 4);
    for (unsigned d = 0; d < dimensions; d++) {
        memcpy(to + at, (const uint8_t[]){0, 0, 0, sizes[d]}, 4);
        at += 4;
        bytes *= sizes[d];
    }
    for (size_t i = 0; i < bytes; i++)
        to[at + i] = (uint8_t)(i % modulus);
    return at + bytes;
}

static void check_refused(const void *bytes, size_t count, const char *why)
{
    struct idx idx;

    write_file("a", bytes, count, false);
    cr_assert(!idx_read(path_of("a"), 3, error, &idx));
    cr_assert_not_null(strstr(error, why), "\"%s\" does not say \"%s\"", error, why);
    cr_assert_not_null(strstr(error, path_of("a")), "\"%s\" does not name the file", error);
}

Test(parameter_server_idx, reads_plain_and_gzipped_files_alike)
{
    uint8_t file[400];
    size_t bytes = make_idx(file, 3, (const uint8_t[]){5, 4, 6}, 251);

    for (int zipped = 0; zipped <= 1; zipped++) {
        struct idx idx;

        write_file("a", file, bytes, zipped);
        cr_assert(idx_read(path_of("a"), 3, error, &idx), "%s", error);
        cr_assert_eq(idx.bytes, 120);
        cr_assert(idx.sizes[0] == 5 && idx.sizes[1] == 4 && idx.sizes[2] == 6);
        cr_assert_eq(memcmp(idx.data, file + 16, 120), 0);
        idx_free(&idx);
    }
}

Test(parameter_server_idx, refuses_a_wrong_magic_number_and_shows_it)
{
    uint8_t file[400];
    size_t bytes = make_idx(file, 3, (const uint8_t[]){5, 4, 6}, 251);

    file[2] = 0x0d; /* floats */
    check_refused(file, bytes, "begins with 00000d03, expected 00000803");
    check_refused("no IDX file at all, but text", 28, "not an IDX file of bytes");
}

Test(parameter_server_idx, refuses_other_numbers_of_dimensions)
{
    uint8_t file[400];

    check_refused(file, make_idx(file, 1, (const uint8_t[]){9}, 251),
                  "has 1 dimensions, expected 3");
    check_refused(file, make_idx(file, 2, (const uint8_t[]){9, 9}, 251),
                  "has 2 dimensions, expected 3");
}

Test(parameter_server_idx, refuses_every_truncation_and_a_byte_too_many)
{
    uint8_t file[400];
    size_t bytes = make_idx(file, 3, (const uint8_t[]){5, 4, 6}, 251);

    for (size_t cut = 0; cut < bytes; cut++)
        check_refused(file, cut, "truncated");
    check_refused(file, bytes + 1, "longer than the 120 bytes it says");
}

Test(parameter_server_idx, refuses_empty_and_absurd_sizes_without_allocating_them)
{
    uint8_t file[400];

    check_refused(file, make_idx(file, 3, (const uint8_t[]){5, 0, 6}, 251), "dimension 1 is 0");
    (void)make_idx(file, 3, (const uint8_t[]){5, 4, 6}, 251);
    memset(file + 4, 0xff, 12);
    check_refused(file, 16, "larger than");
}

Test(parameter_server_idx, refuses_a_damaged_or_cut_gzip_file)
{
    static uint8_t file[70000], zipped[80000];
    struct idx idx;
    size_t bytes;
    FILE *plain;

    (void)make_idx(file, 3, (const uint8_t[]){250, 16, 17}, 251);
    write_file("a", file, 16 + 250 * 16 * 17, true);
    plain = fopen(path_of("a"), "rb");
    bytes = fread(zipped, 1, sizeof(zipped), plain);
    (void)fclose(plain);
    zipped[bytes - 6] ^= 1; /* the checksum */
    check_refused(zipped, bytes, "incorrect data check");
    zipped[bytes - 6] ^= 1;
    write_file("a", zipped, bytes / 2, false);
    cr_assert(!idx_read(path_of("a"), 3, error, &idx));
}

Test(parameter_server_idx, names_the_file_that_is_missing)
{
    struct idx idx;
    struct dataset dataset;

    cr_assert(!idx_read(path_of("none"), 1, error, &idx));
    cr_assert_not_null(strstr(error, "none: No such file"), "%s", error);
    cr_assert(!dataset_read(folder, error, &dataset));
    cr_assert_not_null(strstr(error, "train-images-idx3-ubyte: No such file"), "%s", error);
}

/* ---- sets ---- */

static void write_set(uint8_t test_labels)
{
    uint8_t file[400];

    write_file("train-images-idx3-ubyte.gz", file,
               make_idx(file, 3, (const uint8_t[]){6, 3, 4}, 251), true);
    write_file("train-labels-idx1-ubyte", file, make_idx(file, 1, (const uint8_t[]){6}, 3), false);
    write_file("t10k-images-idx3-ubyte", file, make_idx(file, 3, (const uint8_t[]){4, 3, 4}, 251),
               false);
    write_file("t10k-labels-idx1-ubyte.gz", file,
               make_idx(file, 1, (const uint8_t[]){test_labels}, 3), true);
}

Test(parameter_server_idx, reads_a_folder_of_four_files_gzipped_or_not)
{
    struct dataset dataset;
    float x[12];
    uint8_t label;

    write_set(4);
    cr_assert(dataset_read(folder, error, &dataset), "%s", error);
    cr_assert(dataset.train.count == 6 && dataset.test.count == 4);
    cr_assert(dataset.train.pixels == 12 && dataset.train.classes == 3);
    examples_gather(&dataset.train, (const uint32_t[]){5}, 1, x, &label);
    cr_assert_eq(label, 2);
    cr_assert_float_eq(x[1], 61.0 / 255.0, 1e-6);
    dataset_free(&dataset);
}

Test(parameter_server_idx, refuses_images_and_labels_that_do_not_belong_together)
{
    struct dataset dataset;

    write_set(3);
    cr_assert(!dataset_read(folder, error, &dataset));
    cr_assert_not_null(strstr(error, "has 4 images"), "%s", error);
    cr_assert_not_null(strstr(error, "has 3 labels"), "%s", error);
}

Test(parameter_server_idx, shuffles_to_a_permutation_that_seed_and_epoch_decide)
{
    uint32_t a[1000], b[1000];
    bool seen[1000] = {false};

    examples_shuffle(1, 2, 1000, a);
    examples_shuffle(1, 2, 1000, b);
    cr_assert_eq(memcmp(a, b, sizeof(a)), 0);
    for (size_t i = 0; i < 1000; i++)
        seen[a[i]] = true;
    for (size_t i = 0; i < 1000; i++)
        cr_assert(seen[i], "%zu is missing", i);
    examples_shuffle(1, 3, 1000, b);
    cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}
