/* SPDX-License-Identifier: Apache-2.0 */
/* seal_ipsecmb.c - the CPU AEAD by Intel's ipsec-mb (amd64). Its direct functions keep all state in the caller's key and on
 * the stack, so one manager, which only holds the table of functions for this CPU, serves every thread. */
#include "transport/seal.h"

#include <intel-ipsec-mb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const enum sl_aead sl_aead_supported[] = {SL_AEAD_AES_256_GCM, SL_AEAD_CHACHA20_POLY1305,
                                          SL_AEAD_AES_128_GCM};
const size_t sl_aead_supported_count = sizeof(sl_aead_supported) / sizeof(sl_aead_supported[0]);

struct sl_aead_key {
    struct gcm_key_data gcm; /* first: it wants 64-byte alignment */
    uint8_t raw[SL_AEAD_KEY_MAX];
    enum sl_aead aead;
};

static IMB_MGR *manager;
static pthread_once_t manager_made = PTHREAD_ONCE_INIT;

static void manager_make(void)
{
    IMB_ARCH arch;

    manager = alloc_mb_mgr(0);
    if (manager)
        init_mb_mgr_auto(manager, &arch);
}

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
    switch (aead) {
    case SL_AEAD_AES_128_GCM:
        return 16;
    case SL_AEAD_AES_256_GCM:
    case SL_AEAD_CHACHA20_POLY1305:
        return 32;
    default:
        return 0;
    }
}

void sl_wipe(void *secret, size_t bytes)
{
    explicit_bzero(secret, bytes);
}

SEALANE_RESULT sl_aead_key_new(enum sl_aead aead, const uint8_t *bytes, struct sl_aead_key **key_p)
{
    struct sl_aead_key *key;

    if (sl_aead_key_bytes(aead) == 0)
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "this build cannot seal with AEAD %d", (int)aead);
    (void)pthread_once(&manager_made, manager_make);
    key = aligned_alloc(64, (sizeof(*key) + 63) / 64 * 64);
    if (!key || !manager) {
        free(key);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a key");
    }
    memset(key, 0, sizeof(*key));
    key->aead = aead;
    sl_aead_key_set(key, bytes);
    *key_p = key;
    return SEALANE_OK;
}

void sl_aead_key_set(struct sl_aead_key *key, const uint8_t *bytes)
{
    memcpy(key->raw, bytes, sl_aead_key_bytes(key->aead));
    if (key->aead == SL_AEAD_AES_256_GCM)
        IMB_AES256_GCM_PRE(manager, key->raw, &key->gcm);
    else if (key->aead == SL_AEAD_AES_128_GCM)
        IMB_AES128_GCM_PRE(manager, key->raw, &key->gcm);
}

void sl_aead_key_free(struct sl_aead_key *key)
{
    if (!key)
        return;
    sl_wipe(key, sizeof(*key));
    free(key);
}

void sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES])
{
    struct chacha20_poly1305_context_data poly;
    struct gcm_context_data gcm;

    switch (key->aead) {
    case SL_AEAD_AES_256_GCM:
        IMB_AES256_GCM_ENC(manager, &key->gcm, &gcm, io->out, io->in, io->bytes, io->nonce, io->aad,
                           io->aad_bytes, tag, SL_TAG_BYTES);
        break;
    case SL_AEAD_AES_128_GCM:
        IMB_AES128_GCM_ENC(manager, &key->gcm, &gcm, io->out, io->in, io->bytes, io->nonce, io->aad,
                           io->aad_bytes, tag, SL_TAG_BYTES);
        break;
    default:
        IMB_CHACHA20_POLY1305_INIT(manager, key->raw, &poly, io->nonce, io->aad, io->aad_bytes);
        IMB_CHACHA20_POLY1305_ENC_UPDATE(manager, key->raw, &poly, io->out, io->in, io->bytes);
        IMB_CHACHA20_POLY1305_ENC_FINALIZE(manager, &poly, tag, SL_TAG_BYTES);
        break;
    }
}

bool sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                  const uint8_t tag[SL_TAG_BYTES])
{
    struct chacha20_poly1305_context_data poly;
    struct gcm_context_data gcm;
    uint8_t computed[SL_TAG_BYTES], difference = 0;

    switch (key->aead) {
    case SL_AEAD_AES_256_GCM:
        IMB_AES256_GCM_DEC(manager, &key->gcm, &gcm, io->out, io->in, io->bytes, io->nonce, io->aad,
                           io->aad_bytes, computed, SL_TAG_BYTES);
        break;
    case SL_AEAD_AES_128_GCM:
        IMB_AES128_GCM_DEC(manager, &key->gcm, &gcm, io->out, io->in, io->bytes, io->nonce, io->aad,
                           io->aad_bytes, computed, SL_TAG_BYTES);
        break;
    default:
        IMB_CHACHA20_POLY1305_INIT(manager, key->raw, &poly, io->nonce, io->aad, io->aad_bytes);
        IMB_CHACHA20_POLY1305_DEC_UPDATE(manager, key->raw, &poly, io->out, io->in, io->bytes);
        IMB_CHACHA20_POLY1305_DEC_FINALIZE(manager, &poly, computed, SL_TAG_BYTES);
        break;
    }
    for (int i = 0; i < SL_TAG_BYTES; i++)
        difference |= (uint8_t)(computed[i] ^ tag[i]);
    if (difference == 0)
        return true;
    sl_wipe(io->out, io->bytes);
    return false;
}
