/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - main() of a fuzz target without libFuzzer: each file of the folders named on the command line is one input. */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    INPUT_MAX = 1 << 20
};

/* False when the file cannot be read whole. */
static bool replay(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");

    if (!file) {
        perror(path);
        return false;
    }
    size_t count = fread(bytes, 1, sizeof(bytes), file);
    bool whole = !ferror(file) && feof(file);
    (void)fclose(file);
    if (!whole) {
        (void)fprintf(stderr, "%s: cannot be read, or has %d bytes or more\n", path, INPUT_MAX);
        return false;
    }
    /* A copy of exactly that size, so that reading past its end is seen. */
    uint8_t *exact = malloc(count > 0 ? count : 1);
    if (!exact) {
        perror(path);
        return false;
    }
    memcpy(exact, bytes, count);
    (void)LLVMFuzzerTestOneInput(exact, count);
    free(exact);
    return true;
}

static void replay_folder(const char *folder, int *passed, int *failed)
{
    DIR *directory = opendir(folder);
    char path[PATH_MAX];

    if (!directory) {
        perror(folder);
        (*failed)++;
        return;
    }
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        *(replay(path) ? passed : failed) += 1;
    }
    (void)closedir(directory);
}

int main(int count, char **folders)
{
    int passed = 0;
    int failed = 0;

    for (int i = 1; i < count; i++)
        replay_folder(folders[i], &passed, &failed);
    printf("%d inputs replayed, %d could not be read\n", passed, failed);
    return failed > 0 || passed == 0; /* an empty corpus proves nothing */
}
