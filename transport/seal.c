/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - what the product's AEAD implementations share: names, key lengths, wiping. */
#include "transport/seal.h"

#include <string.h>

const char *sl_aead_name(enum sl_aead aead)
{
    switch (aead) {
    case SL_AEAD_AES_256_GCM:
        return "AES-256-GCM";
    case SL_AEAD_AES_128_GCM:
        return "AES-128-GCM";
    case SL_AEAD_CHACHA20_POLY1305:
        return "ChaCha20-Poly1305";
    default:
        return "unknown";
    }
}

size_t sl_aead_key_bytes(enum sl_aead aead)
{
    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        if (sl_aead_supported[i] == aead)
            return aead == SL_AEAD_AES_128_GCM ? 16 : 32;
    }
    return 0;
}

void sl_wipe(void *secret, size_t bytes)
{
    if (bytes > 0) /* explicit_bzero does not allow NULL, an empty message does */
        explicit_bzero(secret, bytes);
}
