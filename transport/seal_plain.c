/* SPDX-License-Identifier: Apache-2.0 */
/* seal_plain.c - copies where the product seals: what the rest of the path costs. Only bench/ links this file. It offers AEAD 0
 * in HELLO, which the product neither offers nor accepts. */
#include "transport/seal.h"

#include <stdlib.h>
#include <string.h>

const enum sl_aead sl_aead_supported[] = {SL_AEAD_PLAIN};
const size_t sl_aead_supported_count = 1;

struct sl_aead_key {
    uint8_t nothing;
};

const char *sl_aead_name(enum sl_aead aead)
{
    return aead == SL_AEAD_PLAIN ? "PLAIN (unsealed)" : "unknown";
}

size_t sl_aead_key_bytes(enum sl_aead aead)
{
    return aead == SL_AEAD_PLAIN ? SL_AEAD_KEY_MAX : 0;
}

SEALANE_RESULT sl_aead_key_new(enum sl_aead aead, const uint8_t *key, struct sl_aead_key **key_p)
{
    (void)key;
    if (aead != SL_AEAD_PLAIN)
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "the unsealed bench library cannot seal with AEAD %d",
                       (int)aead);
    *key_p = calloc(1, sizeof(**key_p));
    return *key_p ? SEALANE_OK : SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a key");
}

void sl_aead_key_set(struct sl_aead_key *key, const uint8_t *bytes)
{
    (void)key;
    (void)bytes;
}

void sl_aead_key_free(struct sl_aead_key *key)
{
    free(key);
}

static void copy(const struct sl_aead_io *io)
{
    if (io->out != io->in && io->bytes > 0)
        memcpy(io->out, io->in, io->bytes);
}

void sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES])
{
    (void)key;
    copy(io);
    memset(tag, 0, SL_TAG_BYTES);
}

bool sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                  const uint8_t tag[SL_TAG_BYTES])
{
    static const uint8_t zero[SL_TAG_BYTES];

    (void)key;
    if (memcmp(tag, zero, SL_TAG_BYTES) == 0) {
        copy(io);
        return true;
    }
    sl_wipe(io->out, io->bytes);
    return false;
}

void sl_wipe(void *secret, size_t bytes)
{
    if (bytes > 0)
        explicit_bzero(secret, bytes);
}
