/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - the key schedule, on wolfCrypt's HMAC and SHA-2. HKDF's own loop is here and not wolfCrypt's, which leaves the last
 * block of output, a key, on the stack. */
#include "transport/keys.h"

#include <wolfssl/options.h> /* before every other header of wolfSSL */

#include <wolfssl/wolfcrypt/hmac.h>
#include <wolfssl/wolfcrypt/sha512.h>

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum {
    LABEL_MAX = 255,
    CONTEXT_MAX = 255,
    BLOCKS_MAX = 255 /* RFC 5869 2.3 */
};

/* ---- HKDF ---- */

static SEALANE_RESULT hmac_begin(size_t hash_bytes, const void *key, size_t key_bytes, Hmac *hmac_p)
{
    static const uint8_t none[1]; /* wolfCrypt hands even an empty key to memcpy */
    int result;

    if (hash_bytes != SL_HASH_BYTES && hash_bytes != 32)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "a hash of %zu bytes, only 48 and 32 are known",
                       hash_bytes);
    result = wc_HmacInit(hmac_p, NULL, INVALID_DEVID);
    if (result == 0)
        result = wc_HmacSetKey(hmac_p, hash_bytes == SL_HASH_BYTES ? WC_SHA384 : WC_SHA256,
                               key_bytes > 0 ? key : none, (word32)key_bytes);
    if (result != 0)
        return SL_FAIL_CAUSE(SEALANE_INTERNAL, result, "HMAC took no key: wolfCrypt %d", result);
    return SEALANE_OK;
}

/* One HMAC over pieces; the key stays for the next. */
static SEALANE_RESULT hmac_of(Hmac *hmac, const struct sl_piece *pieces, size_t count,
                              uint8_t *digest)
{
    int result = 0;

    for (size_t i = 0; result == 0 && i < count; i++) {
        if (pieces[i].bytes > 0)
            result = wc_HmacUpdate(hmac, pieces[i].at, (word32)pieces[i].bytes);
    }
    if (result == 0)
        result = wc_HmacFinal(hmac, digest);
    if (result != 0)
        return SL_FAIL_CAUSE(SEALANE_INTERNAL, result, "HMAC failed: wolfCrypt %d", result);
    return SEALANE_OK;
}

static void hmac_end(Hmac *hmac)
{
    wc_HmacFree(hmac);
    sl_wipe(hmac, sizeof(*hmac));
}

SEALANE_RESULT sl_hkdf_extract(size_t hash_bytes, const struct sl_piece *salt,
                               const struct sl_piece *secret, uint8_t *prk)
{
    enum sealane_status status;
    Hmac hmac;

    SL_TRY(hmac_begin(hash_bytes, salt->at, salt->bytes, &hmac));
    status = hmac_of(&hmac, secret, 1, prk);
    hmac_end(&hmac);
    return status;
}

SEALANE_RESULT sl_hkdf_expand(size_t hash_bytes, const uint8_t *prk, const struct sl_piece *info,
                              uint8_t *out, size_t bytes)
{
    enum sealane_status status = SEALANE_OK;
    uint8_t block[SL_HASH_BYTES], number = 0;
    struct sl_piece pieces[3] = {{block, 0}, *info, {&number, 1}}; /* T(n-1) | info | n */
    Hmac hmac;

    if (bytes > BLOCKS_MAX * hash_bytes)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "%zu bytes of HKDF output were asked for, at most %zu",
                       bytes, BLOCKS_MAX * hash_bytes);
    SL_TRY(hmac_begin(hash_bytes, prk, hash_bytes, &hmac));
    for (size_t done = 0; status == SEALANE_OK && done < bytes; done += hash_bytes) {
        number++;
        status = hmac_of(&hmac, pieces, 3, block);
        pieces[0].bytes = hash_bytes;
        if (status == SEALANE_OK)
            memcpy(out + done, block, bytes - done < hash_bytes ? bytes - done : hash_bytes);
    }
    hmac_end(&hmac);
    sl_wipe(block, sizeof(block));
    return status;
}

SEALANE_RESULT sl_expand_label(size_t hash_bytes, const uint8_t *secret, const char *label,
                               const uint8_t *context, size_t context_bytes, uint8_t *out,
                               size_t bytes)
{
    static const char prefix[6] = "tls13 "; /* not a string: no NUL */
    uint8_t text[2 + 1 + LABEL_MAX + 1 + CONTEXT_MAX];
    size_t label_bytes = strlen(label), at = 3 + sizeof(prefix) + label_bytes;

    if (sizeof(prefix) + label_bytes > LABEL_MAX || context_bytes > CONTEXT_MAX)
        return SL_FAIL(SEALANE_OUT_OF_RANGE,
                       "an HKDF label of %zu and a context of %zu bytes, at most 249 and 255",
                       label_bytes, context_bytes);
    text[0] = (uint8_t)(bytes >> 8); /* sl_hkdf_expand bounds bytes to 255 * 48 */
    text[1] = (uint8_t)bytes;
    text[2] = (uint8_t)(sizeof(prefix) + label_bytes);
    memcpy(text + 3, prefix, sizeof(prefix));
    memcpy(text + 3 + sizeof(prefix), label, label_bytes);
    text[at++] = (uint8_t)context_bytes;
    if (context_bytes > 0)
        memcpy(text + at, context, context_bytes);
    return sl_hkdf_expand(hash_bytes, secret, &(struct sl_piece){text, at + context_bytes}, out,
                          bytes);
}

/* ---- hash, random ---- */

SEALANE_RESULT sl_hash(const struct sl_piece *pieces, size_t count, uint8_t hash[SL_HASH_BYTES])
{
    wc_Sha384 sha;
    int result = wc_InitSha384(&sha);

    for (size_t i = 0; result == 0 && i < count; i++) {
        if (pieces[i].bytes > 0)
            result = wc_Sha384Update(&sha, pieces[i].at, (word32)pieces[i].bytes);
    }
    if (result == 0)
        result = wc_Sha384Final(&sha, hash);
    wc_Sha384Free(&sha);
    if (result != 0)
        return SL_FAIL_CAUSE(SEALANE_INTERNAL, result, "SHA-384 failed: wolfCrypt %d", result);
    return SEALANE_OK;
}

SEALANE_RESULT sl_random(void *to, size_t bytes)
{
    uint8_t *at = to;

    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);

        if (got < 0 && errno != EINTR)
            return SL_FAIL_CAUSE(SEALANE_INTERNAL, errno, "the system gave no random bytes: %s",
                                 strerror(errno));
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        }
    }
    return SEALANE_OK;
}

/* ---- the table ---- */

/* What one epoch's secret gives. */
struct epoch {
    uint8_t key[SL_AEAD_KEY_MAX];
    uint8_t iv[SL_NONCE_BYTES];
    uint8_t next[SL_SECRET_BYTES];
};

static SEALANE_RESULT epoch_derive(const struct sl_keys *keys, struct epoch *epoch_p)
{
    const uint8_t *secret = keys->next;

    SL_TRY(sl_expand_label(SL_HASH_BYTES, secret, "key", NULL, 0, epoch_p->key,
                           sl_aead_key_bytes(keys->aead)));
    SL_TRY(sl_expand_label(SL_HASH_BYTES, secret, "iv", NULL, 0, epoch_p->iv, SL_NONCE_BYTES));
    return sl_expand_label(SL_HASH_BYTES, secret, "sl next", NULL, 0, epoch_p->next,
                           SL_SECRET_BYTES);
}

/* Puts the epoch of `next` into the table, over the one two before it, and moves `next` on. All or nothing. */
static SEALANE_RESULT epoch_step(struct sl_keys *keys, unsigned slot)
{
    struct epoch epoch;
    enum sealane_status status = epoch_derive(keys, &epoch);

    if (status == SEALANE_OK && keys->key[slot])
        sl_aead_key_set(keys->key[slot], epoch.key);
    else if (status == SEALANE_OK)
        status = sl_aead_key_new(keys->aead, epoch.key, &keys->key[slot]);
    if (status == SEALANE_OK) {
        memcpy(keys->iv[slot], epoch.iv, sizeof(epoch.iv));
        memcpy(keys->next, epoch.next, sizeof(epoch.next));
    }
    sl_wipe(&epoch, sizeof(epoch));
    return status;
}

SEALANE_RESULT sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                            enum sl_direction direction, unsigned ring, enum sl_aead aead,
                            unsigned shift)
{
    const uint8_t context[3] = {(uint8_t)direction, (uint8_t)ring, (uint8_t)aead};
    enum sealane_status status;

    *keys = (struct sl_keys){.aead = aead, .shift = shift};
    status = sl_expand_label(SL_HASH_BYTES, secret, "sl lane", context, sizeof(context), keys->next,
                             SL_SECRET_BYTES);
    for (unsigned slot = 0; status == SEALANE_OK && slot < 2; slot++)
        status = epoch_step(keys, slot);
    if (status != SEALANE_OK)
        sl_keys_clear(keys);
    return status;
}

struct sl_aead_key *sl_keys_at(const struct sl_keys *keys, uint64_t seq,
                               uint8_t nonce[SL_NONCE_BYTES])
{
    uint64_t epoch = seq >> keys->shift, low;
    const uint8_t *iv = keys->iv[epoch & 1];

    assert(epoch - keys->epoch <= 1);
    memcpy(&low, iv + 4, sizeof(low));
    low ^= htobe64(seq);
    memcpy(nonce, iv, 4);
    memcpy(nonce + 4, &low, sizeof(low));
    return keys->key[epoch & 1];
}

SEALANE_RESULT sl_keys_done_below(struct sl_keys *keys, uint64_t seq)
{
    while (keys->epoch < seq >> keys->shift) {
        SL_TRY(epoch_step(keys, keys->epoch & 1)); /* e + 2 has the place of e */
        keys->epoch++;
    }
    return SEALANE_OK;
}

void sl_keys_clear(struct sl_keys *keys)
{
    sl_aead_key_free(keys->key[0]);
    sl_aead_key_free(keys->key[1]);
    sl_wipe(keys, sizeof(*keys));
}
