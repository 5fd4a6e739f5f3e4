/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - the key schedule, on wolfCrypt's HMAC and SHA-384. */
#include "transport/keys.h"

#include <wolfssl/options.h> /* before every other header of wolfSSL */

#include <wolfssl/wolfcrypt/hmac.h>
#include <wolfssl/wolfcrypt/sha512.h>

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

SEALANE_RESULT sl_expand_label(size_t hash_bytes, const uint8_t *secret, const char *label,
                               const uint8_t *context, size_t context_bytes, uint8_t *out,
                               size_t bytes)
{
    uint8_t info[2 + 1 + 255 + 1 + 255]; /* RFC 8446 7.1: length, label, context */
    size_t label_bytes = strlen(label) + 6, at = 0;
    int type = hash_bytes == 48 ? WC_SHA384 : WC_SHA256;
    int result;

    if (label_bytes > 255 || context_bytes > 255 || bytes > 255 * hash_bytes ||
        (hash_bytes != 48 && hash_bytes != 32))
        return SL_FAIL(SEALANE_OUT_OF_RANGE,
                       "HKDF-Expand-Label of %zu label, %zu context and %zu output bytes",
                       label_bytes, context_bytes, bytes);
    info[at++] = (uint8_t)(bytes >> 8);
    info[at++] = (uint8_t)bytes;
    info[at++] = (uint8_t)label_bytes;
    memcpy(info + at, "tls13 ", 6);
    memcpy(info + at + 6, label, label_bytes - 6);
    at += label_bytes;
    info[at++] = (uint8_t)context_bytes;
    if (context_bytes > 0)
        memcpy(info + at, context, context_bytes);
    at += context_bytes;
    result = wc_HKDF_Expand(type, secret, (word32)hash_bytes, info, (word32)at, out, (word32)bytes);
    if (result != 0)
        return SL_FAIL_CAUSE(SEALANE_INTERNAL, result, "HKDF failed: wolfCrypt %d", result);
    return SEALANE_OK;
}

SEALANE_RESULT sl_hash(const struct sl_piece *pieces, size_t count, uint8_t hash[SL_HASH_BYTES])
{
    wc_Sha384 sha;
    int result = wc_InitSha384(&sha);

    for (size_t i = 0; result == 0 && i < count; i++)
        result = wc_Sha384Update(&sha, pieces[i].at, (word32)pieces[i].bytes);
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
            return SL_FAIL_CAUSE(SEALANE_INTERNAL, errno, "no random bytes: errno %d", errno);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        }
    }
    return SEALANE_OK;
}

/* Moves `next` on by one epoch: its key and iv go to the slot of `epoch`. */
static SEALANE_RESULT epoch_step(struct sl_keys *keys, uint64_t epoch)
{
    uint8_t key[SL_AEAD_KEY_MAX], following[SL_SECRET_BYTES];
    unsigned slot = epoch & 1;
    enum sealane_status status = sl_expand_label(SL_HASH_BYTES, keys->next, "key", NULL, 0, key,
                                                 sl_aead_key_bytes(keys->aead));

    if (status == SEALANE_OK)
        status = sl_expand_label(SL_HASH_BYTES, keys->next, "iv", NULL, 0, keys->iv[slot],
                                 SL_NONCE_BYTES);
    if (status == SEALANE_OK)
        status = sl_expand_label(SL_HASH_BYTES, keys->next, "sl next", NULL, 0, following,
                                 sizeof(following));
    if (status == SEALANE_OK && keys->key[slot])
        sl_aead_key_set(keys->key[slot], key);
    else if (status == SEALANE_OK)
        status = sl_aead_key_new(keys->aead, key, &keys->key[slot]);
    if (status == SEALANE_OK)
        memcpy(keys->next, following, sizeof(following));
    sl_wipe(key, sizeof(key));
    sl_wipe(following, sizeof(following));
    return status;
}

SEALANE_RESULT sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                            enum sl_direction direction, unsigned ring, enum sl_aead aead,
                            unsigned shift)
{
    const uint8_t context[3] = {(uint8_t)direction, (uint8_t)ring, (uint8_t)aead};

    *keys = (struct sl_keys){.aead = aead, .shift = shift};
    SL_TRY(sl_expand_label(SL_HASH_BYTES, secret, "sl lane", context, sizeof(context), keys->next,
                           SL_SECRET_BYTES));
    SL_TRY(epoch_step(keys, 0));
    return epoch_step(keys, 1);
}

struct sl_aead_key *sl_keys_at(const struct sl_keys *keys, uint64_t seq,
                               uint8_t nonce[SL_NONCE_BYTES])
{
    uint64_t epoch = seq >> keys->shift;

    assert(epoch == keys->epoch || epoch == keys->epoch + 1);
    memcpy(nonce, keys->iv[epoch & 1], SL_NONCE_BYTES);
    for (int i = 0; i < 8; i++)
        nonce[SL_NONCE_BYTES - 1 - i] ^= (uint8_t)(seq >> (8 * i));
    return keys->key[epoch & 1];
}

SEALANE_RESULT sl_keys_done_below(struct sl_keys *keys, uint64_t seq)
{
    while ((seq >> keys->shift) > keys->epoch) {
        SL_TRY(epoch_step(keys, keys->epoch + 2));
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
