/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - the IDX reader; zlib's gzread reads plain files too. */
#include "idx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* No set of images of this format comes near; a damaged header does. */
#define IDX_BYTES_MAX ((uint64_t)4 << 30)

enum {
    READ_AT_ONCE = 1 << 20,
    TYPE_U8 = 8
};

__attribute__((format(printf, 2, 3))) static bool refuse(char error[512], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error, 512, format, args);
    va_end(args);
    return false;
}

static bool read_all(gzFile file, const char *path, uint8_t *to, size_t bytes, char error[512])
{
    for (size_t done = 0; done < bytes;) {
        unsigned want = bytes - done < READ_AT_ONCE ? (unsigned)(bytes - done) : READ_AT_ONCE;
        int got = gzread(file, to + done, want);
        int code;

        if (got < 0)
            return refuse(error, "%s", gzerror(file, &code)); /* names the file */
        if (got == 0)
            return refuse(error, "%s: truncated: %zu bytes missing of %zu", path, bytes - done,
                          bytes);
        done += (size_t)got;
    }
    return true;
}

static uint32_t big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool read_head(gzFile file, const char *path, unsigned dimensions, char error[512],
                      struct idx *idx)
{
    uint8_t head[4];

    if (!read_all(file, path, head, sizeof(head), error))
        return false;
    if (head[0] != 0 || head[1] != 0 || head[2] != TYPE_U8)
        return refuse(error, "%s: not an IDX file of bytes: begins with %08x, expected %08x", path,
                      big_endian(head), TYPE_U8 << 8 | dimensions);
    if (head[3] != dimensions)
        return refuse(error, "%s: has %u dimensions, expected %u", path, head[3], dimensions);
    idx->dimensions = dimensions;
    idx->bytes = 1;
    for (unsigned d = 0; d < dimensions; d++) {
        uint8_t size[4];

        if (!read_all(file, path, size, sizeof(size), error))
            return false;
        idx->sizes[d] = big_endian(size);
        if (idx->sizes[d] == 0)
            return refuse(error, "%s: dimension %u is 0", path, d);
        if (idx->sizes[d] > IDX_BYTES_MAX / idx->bytes)
            return refuse(error, "%s: says it is larger than %llu bytes", path,
                          (unsigned long long)IDX_BYTES_MAX);
        idx->bytes *= idx->sizes[d];
    }
    return true;
}

static bool read_body(gzFile file, const char *path, char error[512], struct idx *idx)
{
    uint8_t more;

    idx->data = malloc(idx->bytes); /* NOLINT: not 0, read_head saw to it */
    if (!idx->data)
        return refuse(error, "%s: no memory for %zu bytes", path, idx->bytes);
    if (!read_all(file, path, idx->data, idx->bytes, error))
        return false;
    if (gzread(file, &more, 1) != 0)
        return refuse(error, "%s: longer than the %zu bytes it says, or damaged at its end", path,
                      idx->bytes);
    return true;
}

bool idx_read(const char *path, unsigned dimensions, char error[512], struct idx *idx_p)
{
    struct idx idx = {0};
    gzFile file;
    bool good;

    if (dimensions < 1 || dimensions > IDX_DIMENSIONS_MAX)
        return refuse(error, "%s: %u dimensions asked for, at most %u", path, dimensions,
                      IDX_DIMENSIONS_MAX);
    errno = 0;
    file = gzopen(path, "rb");
    if (!file)
        return refuse(error, "%s: %s", path, errno ? strerror(errno) : "no memory");
    good = read_head(file, path, dimensions, error, &idx) && read_body(file, path, error, &idx);
    (void)gzclose(file);
    if (!good) {
        idx_free(&idx);
        return false;
    }
    *idx_p = idx;
    return true;
}

void idx_free(struct idx *idx)
{
    free(idx->data);
    *idx = (struct idx){0};
}
