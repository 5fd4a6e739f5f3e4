/* SPDX-License-Identifier: Apache-2.0 */
/* second_opinion.c - transport/seal_openssl.c once more, under other names, to stand beside the linked AEAD. */
#define sl_aead_supported       second_aead_supported
#define sl_aead_supported_count second_aead_supported_count
#define sl_aead_key_new         second_aead_key_new
#define sl_aead_key_set         second_aead_key_set
#define sl_aead_key_free        second_aead_key_free
#define sl_aead_seal            second_aead_seal
#define sl_aead_open            second_aead_open

#include "tests/support/second_opinion.h"
#include "transport/seal_openssl.c"

const struct seal_backend second_opinion = {
    .name = "libcrypto",
    .key_new = sl_aead_key_new,
    .key_set = sl_aead_key_set,
    .key_free = sl_aead_key_free,
    .seal = sl_aead_seal,
    .open = sl_aead_open,
};
