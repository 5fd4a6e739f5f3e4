/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - reads IDX files of bytes, the format of MNIST and its relatives, gzipped or plain.
 *
 * An IDX file is: u32 0x000008DD (big-endian; 08 = unsigned bytes, DD = number of dimensions), DD sizes as big-endian u32, then
 * the bytes, last dimension fastest.
 */
#ifndef PARAMETER_SERVER_IDX_H
#define PARAMETER_SERVER_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IDX_DIMENSIONS_MAX = 4
};

struct idx {
    unsigned dimensions;
    size_t sizes[IDX_DIMENSIONS_MAX];
    size_t bytes; /* the product of sizes */
    uint8_t *data;
};

/* False, with one line of text in `error`, when the file cannot be read, is no IDX file of bytes with `dimensions`
 * dimensions, is shorter or longer than it says, or says more than 4 GiB. Release with idx_free. */
bool idx_read(const char *path, unsigned dimensions, char error[512], struct idx *idx_p);
void idx_free(struct idx *idx);

#endif
