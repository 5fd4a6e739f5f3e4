/* SPDX-License-Identifier: Apache-2.0 */
/* seal_openssl.c - the CPU AEAD by OpenSSL's libcrypto: where ipsec-mb does not run, and the tests' second opinion.
 *
 * A key owns one context per direction, prepared once; an operation changes only the nonce, so it allocates
 * nothing. Where libcrypto reports a failure that its documentation does not foresee, seal gives zeros and open
 * refuses: nothing leaves in clear and nothing unverified comes in. */
#include "transport/seal.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

const enum sl_aead sl_aead_supported[] = {SL_AEAD_AES_256_GCM, SL_AEAD_CHACHA20_POLY1305,
                                          SL_AEAD_AES_128_GCM};
const size_t sl_aead_supported_count = sizeof(sl_aead_supported) / sizeof(sl_aead_supported[0]);

enum {
    PIECE_MAX = 1 << 30 /* EVP counts in int; a multiple of both ciphers' blocks */
};

struct sl_aead_key {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *sealing, *opening;
    bool ready; /* the last key was taken by both contexts */
};

SEALANE_RESULT sl_aead_key_new(enum sl_aead aead, const uint8_t *key, struct sl_aead_key **key_p)
{
    struct sl_aead_key *made;

    if (sl_aead_key_bytes(aead) == 0)
        return SL_FAIL(SEALANE_UNIMPLEMENTED,
                       "AEAD %d was asked for, this build has AES-GCM and ChaCha20-Poly1305",
                       (int)aead);
    made = calloc(1, sizeof(*made));
    if (made) {
        made->cipher = EVP_CIPHER_fetch(NULL, sl_aead_name(aead), NULL);
        made->sealing = EVP_CIPHER_CTX_new();
        made->opening = EVP_CIPHER_CTX_new();
    }
    if (made && made->cipher && made->sealing && made->opening)
        sl_aead_key_set(made, key);
    if (!made || !made->ready) {
        sl_aead_key_free(made);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "libcrypto made no key for %s",
                       sl_aead_name(aead));
    }
    *key_p = made;
    return SEALANE_OK;
}

void sl_aead_key_set(struct sl_aead_key *key, const uint8_t *bytes)
{
    key->ready = EVP_EncryptInit_ex2(key->sealing, key->cipher, bytes, NULL, NULL) == 1 &&
                 EVP_DecryptInit_ex2(key->opening, key->cipher, bytes, NULL, NULL) == 1;
}

void sl_aead_key_free(struct sl_aead_key *key)
{
    if (!key)
        return;
    EVP_CIPHER_CTX_free(key->sealing); /* libcrypto wipes what it frees */
    EVP_CIPHER_CTX_free(key->opening);
    EVP_CIPHER_free(key->cipher);
    free(key);
}

/* Feeds bytes to a context; associated data when `out` is NULL. */
static bool feed(EVP_CIPHER_CTX *context, uint8_t *out, const uint8_t *in, size_t bytes)
{
    while (bytes > 0) {
        int piece = bytes < PIECE_MAX ? (int)bytes : PIECE_MAX;
        int written;

        if (EVP_CipherUpdate(context, out, &written, in, piece) != 1)
            return false;
        in += piece;
        out = out ? out + piece : NULL;
        bytes -= (size_t)piece;
    }
    return true;
}

void sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES])
{
    uint8_t rest[EVP_MAX_BLOCK_LENGTH]; /* both are stream ciphers: nothing is written here */
    int written;

    if (key->ready && EVP_EncryptInit_ex2(key->sealing, NULL, NULL, io->nonce, NULL) == 1 &&
        feed(key->sealing, NULL, io->aad, io->aad_bytes) &&
        feed(key->sealing, io->out, io->in, io->bytes) &&
        EVP_EncryptFinal_ex(key->sealing, rest, &written) == 1 &&
        EVP_CIPHER_CTX_ctrl(key->sealing, EVP_CTRL_AEAD_GET_TAG, SL_TAG_BYTES, tag) == 1)
        return;
    sl_wipe(io->out, io->bytes);
    sl_wipe(tag, SL_TAG_BYTES);
}

bool sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                  const uint8_t tag[SL_TAG_BYTES])
{
    uint8_t rest[EVP_MAX_BLOCK_LENGTH], wanted[SL_TAG_BYTES];
    int written;

    memcpy(wanted, tag, sizeof(wanted)); /* the control call takes no const */
    if (key->ready && EVP_DecryptInit_ex2(key->opening, NULL, NULL, io->nonce, NULL) == 1 &&
        EVP_CIPHER_CTX_ctrl(key->opening, EVP_CTRL_AEAD_SET_TAG, SL_TAG_BYTES, wanted) == 1 &&
        feed(key->opening, NULL, io->aad, io->aad_bytes) &&
        feed(key->opening, io->out, io->in, io->bytes) &&
        EVP_DecryptFinal_ex(key->opening, rest, &written) == 1)
        return true;
    sl_wipe(io->out, io->bytes);
    return false;
}
