/* SPDX-License-Identifier: Apache-2.0 */
/* vector_files.h - reads the files of tests/vectors: Wycheproof's and our own JSON, NIST's .rsp. A file that cannot be read or
 * understood fails the test that asked for it. */
#ifndef VECTOR_FILES_H
#define VECTOR_FILES_H

#include "transport/seal.h"

#include <jansson.h>

struct vector_bytes {
    uint8_t *at; /* never NULL */
    size_t count;
};

struct aead_vector {
    const char *file;
    long id;
    enum sl_aead aead;
    struct vector_bytes key, nonce, aad, message, ciphertext, tag;
    struct vector_bytes ciphertext_sha256; /* 32 bytes: there is no ciphertext, its hash instead */
    bool valid;                            /* else only: must be refused */
};

/* What happened to a file's vectors. */
struct vector_count {
    unsigned run;
    unsigned other_nonce, other_tag, other_key; /* excluded: not 96 bit, not 128 bit, AES-192 */
    unsigned no_aead; /* excluded: vectors of a part, such as Poly1305 alone */
};

/* Calls judge for each vector of the file with a nonce of 96 bit, a tag of 128 bit and a key that this build can have. */
struct vector_count vectors_each(const char *file, void (*judge)(const struct aead_vector *vector));

unsigned vectors_excluded(const struct vector_count *count);

/* The file's JSON; json_decref it. */
json_t *vectors_json(const char *file);

/* Hex of a member, which must be there; free(at). */
struct vector_bytes vectors_hex(const json_t *object, const char *member);

/* The tests of a file, whether they lie in groups or not: for (i = 0; (test = vectors_test(root, i)) != NULL; i++) */
const json_t *vectors_test(const json_t *root, size_t index);

#endif
