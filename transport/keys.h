/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - from the TLS exporter's secret to the key and iv of any seq of any ring.
 *
 * Labels are HKDF-Expand-Label of RFC 8446 7.1 over SHA-384 (prefix "tls13 " included, so the RFC 8448
 * vectors test this code). PROTOCOL.md "Keys" has the label strings:
 *
 *   S[ring,direction,0]   = Expand-Label(exporter, "sl lane", {direction, ring, aead}, 48)
 *   S[..., e+1]           = Expand-Label(S[..., e], "sl next", "", 48)
 *   key = Expand-Label(S[..., e], "key", "", key bytes)    iv = Expand-Label(S[..., e], "iv", "", 12)
 *   nonce of seq          = iv XOR (0^32 || big-endian 64-bit seq)            (RFC 8446 5.3)
 *   epoch of seq          = seq >> shift
 *
 * A table holds the keys of epochs e and e+1; e+2 replaces e once nothing of e can be used any more.
 * Secrets are wiped when they are replaced and at sl_keys_clear.
 */
#ifndef SL_KEYS_H
#define SL_KEYS_H

#include "transport/seal.h"

enum {
    SL_SECRET_BYTES = 48, /* SHA-384 */
    SL_HASH_BYTES = 48
};

enum sl_direction {
    SL_CLIENT_TO_SERVER = 0,
    SL_SERVER_TO_CLIENT = 1
};

struct sl_keys {
    enum sl_aead aead;
    unsigned shift;             /* epoch = seq >> shift */
    uint64_t epoch;             /* the older of the two epochs held */
    struct sl_aead_key *key[2]; /* [epoch & 1] */
    uint8_t iv[2][SL_NONCE_BYTES];
    uint8_t next[SL_SECRET_BYTES]; /* S of epoch + 2 */
};

/* Derives epochs 0 and 1 for one ring of one direction. `secret` is SL_SECRET_BYTES from the exporter. After a failure there
 * is nothing to clear. */
SEALANE_RESULT sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                            enum sl_direction direction, unsigned ring, enum sl_aead aead,
                            unsigned shift);

/* The key of `seq`, whose epoch must be keys->epoch or the one after (asserted), and its nonce. */
struct sl_aead_key *sl_keys_at(const struct sl_keys *keys, uint64_t seq,
                               uint8_t nonce[SL_NONCE_BYTES]);

/* Tells that nothing below `seq` will be sealed or opened any more: when that leaves epoch e behind, e's
 * key is overwritten by that of e+2. Called often; does nothing most times. */
SEALANE_RESULT sl_keys_done_below(struct sl_keys *keys, uint64_t seq);

/* Wipes everything. A zeroed struct is fine. */
void sl_keys_clear(struct sl_keys *keys);

struct sl_piece {
    const void *at;
    size_t bytes;
};

/* HKDF of RFC 5869 with SHA-384 or SHA-256 (hash_bytes 48 or 32; a prk has that many bytes). OUT_OF_RANGE for other hashes
 * and for more than 255 hashes of output. */
SEALANE_RESULT sl_hkdf_extract(size_t hash_bytes, const struct sl_piece *salt,
                               const struct sl_piece *secret, uint8_t *prk);
SEALANE_RESULT sl_hkdf_expand(size_t hash_bytes, const uint8_t *prk, const struct sl_piece *info,
                              uint8_t *out, size_t bytes);

/* HKDF-Expand-Label of RFC 8446 7.1, with at most 249 bytes of label and 255 of context. */
SEALANE_RESULT sl_expand_label(size_t hash_bytes, const uint8_t *secret, const char *label,
                               const uint8_t *context, size_t context_bytes, uint8_t *out,
                               size_t bytes);

/* A running SHA-384 over pieces: transcript hashes. */
SEALANE_RESULT sl_hash(const struct sl_piece *pieces, size_t count, uint8_t hash[SL_HASH_BYTES]);

/* Fills with random bytes of the operating system's generator. */
SEALANE_RESULT sl_random(void *to, size_t bytes);

#endif
