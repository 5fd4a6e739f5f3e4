/* SPDX-License-Identifier: Apache-2.0 */
/* aead.h - the GPU's AEAD: ChaCha20-Poly1305 (RFC 8439), AES-256-GCM and AES-128-GCM (NIST SP 800-38D), with 96-bit nonces and
 * 128-bit tags, in batches of chunks; bit for bit what transport/seal.h makes.
 *
 * A launch takes a batch: chunks of any length and alignment, of any keys of one AEAD. Ciphertext is fetched from memory once, and
 * that fetch feeds both the MAC and the XOR, so a writer that changes it meanwhile cannot have one thing judged and another one
 * used. No branch and no address depends on a secret, but for the lane-private replicated tables of AES. One chunk's bad tag never
 * touches another's; its destination is wiped before the launch is done.
 *
 * Keys live in a table in device memory, put there by copies, never by kernel parameters.
 */
#ifndef SL_GPU_AEAD_H
#define SL_GPU_AEAD_H

#include "transport/seal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_GPU_AAD_MAX =
        16 /* bytes of a chunk's AAD: a message frame's prefix; bulk chunks have none */
};

enum sl_gpu_verdict {
    SL_GPU_PENDING = 0,
    SL_GPU_DONE = 1,
    SL_GPU_BAD_TAG = 2 /* open only; `out` was wiped */
};

/* One chunk, as kernels read it: 96 bytes, an array of them in memory that the device reads (pinned and mapped, or its own). */
struct sl_gpu_job {
    const uint8_t *in; /* device address */
    uint8_t *out;      /* device address; seal: may equal in. open: never on a ring */
    uint8_t *tag;      /* device address, SL_TAG_BYTES: seal writes it, open reads it once */
    uint64_t bytes;
    uint32_t key;       /* slot of the key table */
    uint32_t aad_bytes; /* at most SL_GPU_AAD_MAX */
    uint8_t aad[SL_GPU_AAD_MAX];
    uint8_t nonce[SL_NONCE_BYTES];
    uint32_t first_item; /* filled by the launch: how many work items the jobs before it have */
    uint32_t span_shift; /* filled by the launch: how large its work items are */
    uint32_t reserved[5];
};

/* What one AEAD needs on one device: its key table, and scratch for chunks that several warps share. Opaque; made and used by one
 * thread; the launches of one are on one stream. */
struct sl_gpu_aead;

/* `slots` keys. `sms`: how many multiprocessors a launch may take, 0 for all. The device is the current one. RESOURCE_EXHAUSTED
 * without memory, UNIMPLEMENTED for an AEAD or a device that this build has no kernel for. */
SEALANE_RESULT sl_gpu_aead_new(enum sl_aead aead, uint32_t slots, uint32_t sms,
                               struct sl_gpu_aead **gpu_p);

/* Wipes the table and frees. No launch may be running. NULL is fine. */
void sl_gpu_aead_free(struct sl_gpu_aead *gpu);

/* Puts sl_aead_key_bytes(aead) bytes into a slot, in the order of the stream (a cudaStream_t): launches behind it see the new key,
 * those before it the old one. The bytes are copied before it returns, and the copy is wiped when the device has it. */
SEALANE_RESULT sl_gpu_aead_key_set(struct sl_gpu_aead *gpu, uint32_t slot, const uint8_t *key,
                                   void *stream);

/* Overwrites a slot with zeros in the order of the stream. */
SEALANE_RESULT sl_gpu_aead_key_wipe(struct sl_gpu_aead *gpu, uint32_t slot, void *stream);

/* Seals or opens `count` jobs by one launch in the order of the stream. `jobs` and `verdicts` (one each, enum sl_gpu_verdict) are
 * device-readable, -writable memory that the host reads and writes too (pinned and mapped): first_item is filled here, by the host.
 * Borrowed until the stream has passed the launch. The verdicts are all written by then; nothing the peer can write holds them.
 * INVALID_ARGUMENT for a job that no launch can take (too long for the AEAD's counter: RFC 8439 2.8, SP 800-38D 5.2.1.1). */
SEALANE_RESULT sl_gpu_seal(struct sl_gpu_aead *gpu, struct sl_gpu_job *jobs, uint32_t *verdicts,
                           size_t count, void *stream);
SEALANE_RESULT sl_gpu_open(struct sl_gpu_aead *gpu, struct sl_gpu_job *jobs, uint32_t *verdicts,
                           size_t count, void *stream);

#ifdef __cplusplus
}
#endif
#endif
