/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - the CPU's AEAD: AES-256-GCM, AES-128-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439),
 * with 96-bit nonces and 128-bit tags only.
 *
 * One implementation is linked: seal_ipsecmb.c (amd64, Intel's ipsec-mb), seal_openssl.c (elsewhere) or,
 * in the unsealed bench library alone, seal_plain.c, which copies. Callers must hand private memory to
 * open: every AEAD library reads ciphertext twice, and memory that a peer can still write would pass a
 * tag check with changed plaintext. Nothing here blocks or allocates but sl_aead_key_new.
 */
#ifndef SL_SEAL_H
#define SL_SEAL_H

#include "transport/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_NONCE_BYTES = 12,
    SL_TAG_BYTES = 16,
    SL_AEAD_KEY_MAX = 32
};

/* The numbers travel in HELLO. 0 is the unsealed bench library's and is refused by the product. */
enum sl_aead {
    SL_AEAD_PLAIN = 0,
    SL_AEAD_AES_256_GCM = 1,
    SL_AEAD_AES_128_GCM = 2,
    SL_AEAD_CHACHA20_POLY1305 = 3
};

/* What this build can seal with, best first for host memory on this CPU. */
extern const enum sl_aead sl_aead_supported[];
extern const size_t sl_aead_supported_count;

/* "AES-256-GCM" and so on; "unknown" for others. */
const char *sl_aead_name(enum sl_aead aead);

/* Key length in bytes: 32, 16, 32; 0 for values that this build cannot seal with. */
size_t sl_aead_key_bytes(enum sl_aead aead);

/* A key with all that is derived from it (round keys, powers of H). */
struct sl_aead_key;

/* Makes a key from sl_aead_key_bytes(aead) bytes at `key`, which are copied. UNIMPLEMENTED for an AEAD
 * that this build lacks, RESOURCE_EXHAUSTED without memory. Free with sl_aead_key_free. */
SEALANE_RESULT sl_aead_key_new(enum sl_aead aead, const uint8_t *key, struct sl_aead_key **key_p);

/* Replaces the key material in place (same AEAD): no allocation, the old material is overwritten. */
void sl_aead_key_set(struct sl_aead_key *key, const uint8_t *bytes);

/* Wipes and frees. NULL is fine. */
void sl_aead_key_free(struct sl_aead_key *key);

/* One AEAD operation's operands; `bytes` of plaintext and of ciphertext are equal. `out` may equal `in`;
 * any other overlap is not allowed. */
struct sl_aead_io {
    const uint8_t *nonce; /* SL_NONCE_BYTES */
    const uint8_t *aad;   /* may be NULL when aad_bytes is 0 */
    size_t aad_bytes;
    const uint8_t *in;
    uint8_t *out;
    size_t bytes;
};

/* Encrypts in to out and writes the tag. Cannot fail. `out` must be private memory: what is read back from it is what the tag
 * speaks for. */
void sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES]);

/* Verifies and decrypts in to out. False: the tag did not match and out was wiped to zero. The tag is
 * compared in constant time. `in` and `tag` must be private memory. */
SEALANE_MUST_USE bool sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                                   const uint8_t tag[SL_TAG_BYTES]);

/* Overwrites secrets so that the compiler cannot leave it out. */
void sl_wipe(void *secret, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
