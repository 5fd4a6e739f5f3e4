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

enum {
    KEY_ALIGNMENT = 64, /* the library loads round keys and powers of H in whole cache lines */
    CACHE_LINE = 64,
    LARGE_MIN = 16 * 1024,
    PIECE = 4096,
    AHEAD = 8192 /* of a large plaintext's piece */
};

struct sl_aead_key {
    _Alignas(KEY_ALIGNMENT) struct gcm_key_data gcm; /* AES: round keys and powers of H */
    uint8_t raw[SL_AEAD_KEY_MAX];                    /* ChaCha20-Poly1305: the key */
    enum sl_aead aead;
};

static IMB_MGR *manager; /* NULL when it could not be made; never written after that */
static pthread_once_t manager_once = PTHREAD_ONCE_INIT;

/* Chooses code for this CPU, from AVX-512 with VAES down to SSE without AES instructions. */
static void manager_make(void)
{
    IMB_MGR *made = alloc_mb_mgr(0);

    if (!made)
        return;
    init_mb_mgr_auto(made, NULL);
    if (imb_get_errno(made) == 0)
        manager = made;
    else
        free_mb_mgr(made);
}

SEALANE_RESULT sl_aead_key_new(enum sl_aead aead, const uint8_t *key, struct sl_aead_key **key_p)
{
    struct sl_aead_key *made;

    if (sl_aead_key_bytes(aead) == 0)
        return SL_FAIL(SEALANE_UNIMPLEMENTED,
                       "AEAD %d was asked for, this build has AES-GCM and ChaCha20-Poly1305",
                       (int)aead);
    (void)pthread_once(&manager_once, manager_make);
    if (!manager)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "ipsec-mb did not start on this CPU");
    made = aligned_alloc(KEY_ALIGNMENT, sizeof(*made));
    if (!made)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a key of %zu bytes",
                       sizeof(*made));
    made->aead = aead;
    sl_aead_key_set(made, key);
    *key_p = made;
    return SEALANE_OK;
}

void sl_aead_key_set(struct sl_aead_key *key, const uint8_t *bytes)
{
    switch (key->aead) {
    case SL_AEAD_AES_256_GCM:
        IMB_AES256_GCM_PRE(manager, bytes, &key->gcm);
        break;
    case SL_AEAD_AES_128_GCM:
        IMB_AES128_GCM_PRE(manager, bytes, &key->gcm);
        break;
    default:
        memcpy(key->raw, bytes, sizeof(key->raw));
        break;
    }
}

void sl_aead_key_free(struct sl_aead_key *key)
{
    if (!key)
        return;
    sl_wipe(key, sizeof(*key));
    free(key);
}

/* In the functions below `run` decides the direction; the contexts hold keystream and the one-time key of Poly1305. */
static void gcm(const struct sl_aead_key *key, aes_gcm_enc_dec_t run, const struct sl_aead_io *io,
                uint8_t tag[SL_TAG_BYTES])
{
    struct gcm_context_data context;

    run(&key->gcm, &context, io->out, io->in, io->bytes, io->nonce, io->aad, io->aad_bytes, tag,
        SL_TAG_BYTES);
    sl_wipe(&context, sizeof(context));
}

/* What comes after a plaintext is asked for, too: mostly it is the next chunk's. Asking never faults. */
static void fetch(const uint8_t *from, size_t offset)
{
    for (size_t line = 0; line < PIECE; line += CACHE_LINE)
        __builtin_prefetch((const void *)((uintptr_t)from + offset + line), 0, 2);
}

/* Large plaintexts come from memory rather than from a cache, and AES is faster than what the processor fetches by itself: in
 * pieces, each asked for ahead of its turn, a chunk takes a quarter less time. */
static void gcm_seal_large(const struct sl_aead_key *key, const struct sl_aead_io *io,
                           uint8_t tag[SL_TAG_BYTES])
{
    bool long_key = key->aead == SL_AEAD_AES_256_GCM;
    aes_gcm_init_t init = long_key ? manager->gcm256_init : manager->gcm128_init;
    aes_gcm_enc_dec_update_t update =
        long_key ? manager->gcm256_enc_update : manager->gcm128_enc_update;
    aes_gcm_enc_dec_finalize_t finalize =
        long_key ? manager->gcm256_enc_finalize : manager->gcm128_enc_finalize;
    struct gcm_context_data context;

    init(&key->gcm, &context, io->nonce, io->aad, io->aad_bytes);
    for (size_t at = 0; at < io->bytes; at += PIECE) {
        size_t left = io->bytes - at;

        fetch(io->in, at + AHEAD);
        update(&key->gcm, &context, io->out + at, io->in + at, left < PIECE ? left : PIECE);
    }
    finalize(&key->gcm, &context, tag, SL_TAG_BYTES);
    sl_wipe(&context, sizeof(context));
}

static void chacha(const struct sl_aead_key *key, chacha_poly_enc_dec_update_t run,
                   const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES])
{
    struct chacha20_poly1305_context_data context;

    IMB_CHACHA20_POLY1305_INIT(manager, key->raw, &context, io->nonce, io->aad, io->aad_bytes);
    run(key->raw, &context, io->out, io->in, io->bytes);
    IMB_CHACHA20_POLY1305_ENC_FINALIZE(manager, &context, tag, SL_TAG_BYTES);
    sl_wipe(&context, sizeof(context));
}

void sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES])
{
    if (key->aead != SL_AEAD_CHACHA20_POLY1305 && io->bytes >= LARGE_MIN)
        gcm_seal_large(key, io, tag);
    else if (key->aead == SL_AEAD_AES_256_GCM)
        gcm(key, manager->gcm256_enc, io, tag);
    else if (key->aead == SL_AEAD_AES_128_GCM)
        gcm(key, manager->gcm128_enc, io, tag);
    else
        chacha(key, manager->chacha20_poly1305_enc_update, io, tag);
}

bool sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                  const uint8_t tag[SL_TAG_BYTES])
{
    uint8_t expected[SL_TAG_BYTES];
    unsigned difference = 0;

    if (key->aead == SL_AEAD_AES_256_GCM)
        gcm(key, manager->gcm256_dec, io, expected);
    else if (key->aead == SL_AEAD_AES_128_GCM)
        gcm(key, manager->gcm128_dec, io, expected);
    else
        chacha(key, manager->chacha20_poly1305_dec_update, io, expected);
    for (int i = 0; i < SL_TAG_BYTES; i++)
        difference |= (unsigned)(expected[i] ^ tag[i]);
    sl_wipe(expected, sizeof(expected)); /* a refused tag's right value would be a forgery */
    if (difference == 0)
        return true;
    sl_wipe(io->out, io->bytes);
    return false;
}
