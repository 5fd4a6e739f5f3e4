/* SPDX-License-Identifier: Apache-2.0 */
/* unsealed.c - transport/seal_plain.c under other names, to be tested in a program that is linked with a real AEAD. */
#define sl_aead_supported       unsealed_supported
#define sl_aead_supported_count unsealed_supported_count
#define sl_aead_name            unsealed_name
#define sl_aead_key_bytes       unsealed_key_bytes
#define sl_aead_key_new         unsealed_key_new
#define sl_aead_key_set         unsealed_key_set
#define sl_aead_key_free        unsealed_key_free
#define sl_aead_seal            unsealed_seal
#define sl_aead_open            unsealed_open
#define sl_wipe                 unsealed_wipe

#include "tests/support/second_opinion.h"
#include "transport/seal_plain.c"

const struct seal_backend unsealed = {
    .name = "the bench library's copy",
    .key_new = sl_aead_key_new,
    .key_set = sl_aead_key_set,
    .key_free = sl_aead_key_free,
    .seal = sl_aead_seal,
    .open = sl_aead_open,
};
