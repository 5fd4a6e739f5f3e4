/* SPDX-License-Identifier: Apache-2.0 */
/* chacha20_poly1305.cuh - the arithmetic of ChaCha20 and Poly1305 (RFC 8439) as one lane of a warp does it. Plain C++ on a CPU too:
 * tests/gpu/chacha_core_test.cc runs it over all vectors without a GPU.
 *
 * Poly1305. A number modulo p = 2^130 - 5 is kept in five limbs of 26 bits (somewhat more between steps). The message is never cut
 * into limbs: its 32-bit words are multiplied with limbs of 2^(32 i) r^k, which are prepared once a chunk. A batch is 128 blocks of
 * 16 bytes; lane l of 32 takes the blocks l, l + 32, l + 64 and l + 96 of each, so that h becomes
 * h r^128 + b0 r^96 + b1 r^64 + b2 r^32 + b3, and what the lanes have is joined at the end by r^1 to r^16. No branch and no address
 * depends on a secret.
 */
#ifndef SL_GPU_CHACHA20_POLY1305_CUH
#define SL_GPU_CHACHA20_POLY1305_CUH

#include <stdint.h>

#ifdef __CUDACC__
#define SL_LANE __host__ __device__ __forceinline__
#else
#define SL_LANE static inline
#endif
#ifdef __CUDA_ARCH__
#define SL_UNROLL _Pragma("unroll")
#define SL_LOOP   _Pragma("unroll 1")
#else
#define SL_UNROLL
#define SL_LOOP
#endif

enum {
    SL_LANES = 32,
    SL_BLOCK_BYTES = 16,   /* of Poly1305 */
    SL_BATCH_BLOCKS = 128, /* 32 lanes, 4 each */
    SL_BATCH_BYTES = SL_BATCH_BLOCKS * SL_BLOCK_BYTES,
    SL_LIMBS = 5,
    SL_LIMB_BITS = 26,
    SL_LIMB_MASK = (1 << SL_LIMB_BITS) - 1,
    SL_POWERS = 8, /* r^(2^k), k = 0 to 7 */
    SL_ROWS = 3    /* of four blocks, all but the last are multiplied */
};

struct alignas(16) sl_block { /* 16 bytes of message, ciphertext or key stream */
    uint32_t word[4];
};

/* A factor: its limbs, and five times each but the first, for what wraps around 2^130. */
struct alignas(16) sl_factor {
    uint32_t limb[SL_LIMBS];
    uint32_t five[SL_LIMBS - 1];
    uint32_t unused[3];
};

/* What the MAC of one chunk needs. Secret. */
struct alignas(16) sl_poly_key {
    sl_block row[SL_ROWS]
                [SL_LIMBS]; /* row j, limb l: that limb of 2^(32 i) r^(96 - 32 j), i = 0 to 3 */
    uint64_t high[SL_LIMBS +
                  1]; /* 2^128 (r^96 + r^64 + r^32 + 1): the bit above each of four whole blocks */
    sl_factor power[SL_POWERS];
    sl_block pad; /* s of RFC 8439 2.5 */
};

/* ---- ChaCha20 ---- */

SL_LANE uint32_t sl_rotate(uint32_t word, int bits)
{
    return (word << bits) | (word >> (32 - bits));
}

/* The 32 bits of high:low that begin at `bit`. */
SL_LANE uint32_t sl_funnel(uint32_t low, uint32_t high, int bit)
{
    return (low >> bit) | (high << (32 - bit));
}

SL_LANE void sl_quarter(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d)
{
    a += b;
    d = sl_rotate(d ^ a, 16);
    c += d;
    b = sl_rotate(b ^ c, 12);
    a += b;
    d = sl_rotate(d ^ a, 8);
    c += d;
    b = sl_rotate(b ^ c, 7);
}

SL_LANE void sl_chacha_state(uint32_t x[16], const uint32_t key[8], uint32_t counter,
                             const uint32_t nonce[3])
{
    x[0] = 0x61707865;
    x[1] = 0x3320646e;
    x[2] = 0x79622d32;
    x[3] = 0x6b206574;
    SL_UNROLL
    for (int i = 0; i < 8; i++)
        x[4 + i] = key[i];
    x[12] = counter;
    x[13] = nonce[0];
    x[14] = nonce[1];
    x[15] = nonce[2];
}

/* One block of key stream, 64 bytes. */
SL_LANE void sl_chacha_block(uint32_t x[16], const uint32_t key[8], uint32_t counter,
                             const uint32_t nonce[3])
{
    sl_chacha_state(x, key, counter, nonce);
    SL_UNROLL
    for (int i = 0; i < 10; i++) {
        sl_quarter(x[0], x[4], x[8], x[12]);
        sl_quarter(x[1], x[5], x[9], x[13]);
        sl_quarter(x[2], x[6], x[10], x[14]);
        sl_quarter(x[3], x[7], x[11], x[15]);
        sl_quarter(x[0], x[5], x[10], x[15]);
        sl_quarter(x[1], x[6], x[11], x[12]);
        sl_quarter(x[2], x[7], x[8], x[13]);
        sl_quarter(x[3], x[4], x[9], x[14]);
    }
    x[0] += 0x61707865;
    x[1] += 0x3320646e;
    x[2] += 0x79622d32;
    x[3] += 0x6b206574;
    SL_UNROLL
    for (int i = 0; i < 8; i++)
        x[4 + i] += key[i];
    x[12] += counter;
    x[13] += nonce[0];
    x[14] += nonce[1];
    x[15] += nonce[2];
}

/* ---- numbers modulo p ---- */

/* a += h * r. Limbs of h below 2^29, of r below 2^27: a grows by less than 2^58. */
SL_LANE void sl_poly_add_product(uint64_t a[SL_LIMBS], const uint32_t h[SL_LIMBS],
                                 const sl_factor &r)
{
    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++) {
        SL_UNROLL
        for (int k = 0; k < SL_LIMBS; k++) {
            uint32_t factor = k <= i ? r.limb[i - k] : r.five[SL_LIMBS - 1 + i - k];

            a[i] += (uint64_t)h[k] * factor;
        }
    }
}

/* One step of carrying, all limbs at once: limbs below 2^29 from sums below 2^63. */
SL_LANE void sl_poly_settle(uint32_t h[SL_LIMBS], const uint64_t a[SL_LIMBS])
{
    uint32_t low[SL_LIMBS], middle[SL_LIMBS], high[SL_LIMBS];

    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++) {
        uint32_t under = (uint32_t)a[i], over = (uint32_t)(a[i] >> 32);

        low[i] = under & SL_LIMB_MASK;
        middle[i] = sl_funnel(under, over, SL_LIMB_BITS) & SL_LIMB_MASK;
        high[i] = over >> (2 * SL_LIMB_BITS - 32);
    }
    h[0] = low[0] + 5 * (middle[4] + high[3]);
    h[1] = low[1] + middle[0] + 5 * high[4];
    h[2] = low[2] + middle[1] + high[0];
    h[3] = low[3] + middle[2] + high[1];
    h[4] = low[4] + middle[3] + high[2];
}

/* Carries from limb to limb: limbs of 26 bits, but for one that may be 2^26 + a few. */
SL_LANE void sl_poly_carry(uint32_t h[SL_LIMBS], const uint64_t a[SL_LIMBS])
{
    uint64_t carry = 0;

    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++) {
        carry += a[i];
        h[i] = (uint32_t)carry & SL_LIMB_MASK;
        carry >>= SL_LIMB_BITS;
    }
    carry = carry * 5 + h[0];
    h[0] = (uint32_t)carry & SL_LIMB_MASK;
    h[1] += (uint32_t)(carry >> SL_LIMB_BITS);
    h[2] += h[1] >> SL_LIMB_BITS;
    h[1] &= SL_LIMB_MASK;
}

SL_LANE void sl_poly_factor(sl_factor &r, const uint32_t h[SL_LIMBS])
{
    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++)
        r.limb[i] = h[i];
    SL_UNROLL
    for (int i = 1; i < SL_LIMBS; i++)
        r.five[i - 1] = 5 * h[i];
}

/* h *= r, carried out. */
SL_LANE void sl_poly_multiply(uint32_t h[SL_LIMBS], const sl_factor &r)
{
    uint64_t a[SL_LIMBS] = {0, 0, 0, 0, 0};

    sl_poly_add_product(a, h, r);
    sl_poly_carry(h, a);
}

/* h = h * r + other, settled only. */
SL_LANE void sl_poly_step(uint32_t h[SL_LIMBS], const sl_factor &r, const uint32_t other[SL_LIMBS])
{
    uint64_t a[SL_LIMBS];

    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++)
        a[i] = other[i];
    sl_poly_add_product(a, h, r);
    sl_poly_settle(h, a);
}

SL_LANE void sl_factor_square(sl_factor &r)
{
    uint32_t h[SL_LIMBS];

    SL_UNROLL
    for (int i = 0; i < SL_LIMBS; i++)
        h[i] = r.limb[i];
    sl_poly_multiply(h, r);
    sl_poly_factor(r, h);
}

/* A block as limbs; `whole` is 1 for a block, whose bit 128 is then set, and 0 for none. */
SL_LANE void sl_poly_limbs(uint32_t h[SL_LIMBS], const sl_block &block, uint32_t whole)
{
    const uint32_t *w = block.word;

    h[0] = w[0] & SL_LIMB_MASK;
    h[1] = sl_funnel(w[0], w[1], 26) & SL_LIMB_MASK;
    h[2] = sl_funnel(w[1], w[2], 20) & SL_LIMB_MASK;
    h[3] = sl_funnel(w[2], w[3], 14) & SL_LIMB_MASK;
    h[4] = (w[3] >> 8) | whole << 24;
}

/* ---- the key of one chunk ---- */

/* t *= 2^32 */
SL_LANE void sl_poly_shift_word(uint32_t t[SL_LIMBS])
{
    uint64_t a[SL_LIMBS] = {(uint64_t)t[4] * (5 << 6), (uint64_t)t[0] << 6, (uint64_t)t[1] << 6,
                            (uint64_t)t[2] << 6, (uint64_t)t[3] << 6};

    sl_poly_carry(t, a);
}

/* Fills row j from its power of r, and adds what the bit above a block is worth in it. */
SL_LANE void sl_poly_row(sl_poly_key &key, int row, const uint32_t power[SL_LIMBS],
                         uint64_t high[SL_LIMBS])
{
    uint32_t t[SL_LIMBS];

    for (int l = 0; l < SL_LIMBS; l++)
        t[l] = power[l];
    for (int i = 0; i < 4; i++) {
        for (int l = 0; l < SL_LIMBS; l++)
            key.row[row][l].word[i] = t[l];
        sl_poly_shift_word(t);
    }
    for (int l = 0; l < SL_LIMBS; l++)
        high[l] += t[l];
}

/* From block 0 of the chunk's key stream (RFC 8439 2.6). */
SL_LANE void sl_poly_key_make(sl_poly_key &key, const uint32_t stream[16])
{
    sl_block clamped = {{stream[0] & 0x0fffffff, stream[1] & 0x0ffffffc, stream[2] & 0x0ffffffc,
                         stream[3] & 0x0ffffffc}};
    uint64_t high[SL_LIMBS] = {0, 0, 0, 0, 1 << 24};
    uint32_t h[SL_LIMBS], product[SL_LIMBS];
    sl_factor r;

    for (int i = 0; i < 4; i++)
        key.pad.word[i] = stream[4 + i];
    sl_poly_limbs(h, clamped, 0);
    sl_poly_factor(r, h);
    SL_LOOP
    for (int k = 0; k < SL_POWERS; k++) {
        key.power[k] = r;
        if (k == 5) {
            sl_poly_row(key, 2, r.limb, high);
            for (int l = 0; l < SL_LIMBS; l++)
                product[l] = r.limb[l];
        }
        if (k == 6) {
            sl_poly_row(key, 1, r.limb, high);
            sl_poly_multiply(product, r);
        }
        sl_factor_square(r);
    }
    sl_poly_row(key, 0, product, high);
    for (int l = 0; l < SL_LIMBS; l++)
        key.high[l] = high[l];
    key.high[SL_LIMBS] = 0;
}

/* ---- the MAC ---- */

/* A whole batch: the lane's four blocks. Sums stay below 2^63: 2^58 of h, and 12 words of 32 bits times 27. */
SL_LANE void sl_poly_batch(uint32_t h[SL_LIMBS], const sl_block block[4], const sl_poly_key &key)
{
    const sl_factor r = key.power[SL_POWERS - 1];
    const uint32_t *last = block[3].word;
    uint64_t a[SL_LIMBS];

    SL_UNROLL
    for (int l = 0; l < SL_LIMBS; l++)
        a[l] = key.high[l];
    sl_poly_add_product(a, h, r);
    SL_UNROLL
    for (int j = 0; j < SL_ROWS; j++) {
        SL_UNROLL
        for (int l = 0; l < SL_LIMBS; l++) {
            const sl_block factor = key.row[j][l];

            SL_UNROLL
            for (int i = 0; i < 4; i++)
                a[l] += (uint64_t)block[j].word[i] * factor.word[i];
        }
    }
    a[0] += last[0];
    a[1] += (uint64_t)last[1] << 6;
    a[2] += (uint64_t)last[2] << 12;
    a[3] += (uint64_t)last[3] << 18;
    sl_poly_settle(h, a);
}

/* h *= r^blocks, blocks below 256. The count is public. */
SL_LANE void sl_poly_ahead(uint32_t h[SL_LIMBS], const sl_poly_key &key, uint32_t blocks)
{
    SL_LOOP
    for (int k = 0; k < SL_POWERS; k++) {
        if (blocks >> k & 1)
            sl_poly_multiply(h, key.power[k]);
    }
}

/* The MAC's last steps, on the sum of all lanes: the block of lengths, one more r, the whole reduction, the pad. */
SL_LANE sl_block sl_poly_finish(uint32_t h[SL_LIMBS], const sl_poly_key &key, uint32_t aad_bytes,
                                uint64_t bytes)
{
    const sl_block lengths = {{aad_bytes, 0, (uint32_t)bytes, (uint32_t)(bytes >> 32)}};
    uint32_t other[SL_LIMBS], above = 5, mask;
    uint64_t a[SL_LIMBS], sum = 0;
    sl_block tag;

    sl_poly_limbs(other, lengths, 1);
    sl_poly_step(h, key.power[0], other);
    sl_poly_multiply(h, key.power[0]);
    SL_UNROLL
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < SL_LIMBS; i++)
            a[i] = h[i];
        sl_poly_carry(h, a);
    }
    /* h + 5 reaches 2^130 exactly when h >= p; then h - p is it without that bit. */
    for (int i = 0; i < SL_LIMBS; i++) {
        above += h[i];
        other[i] = above & SL_LIMB_MASK;
        above >>= SL_LIMB_BITS;
    }
    mask = 0 - above;
    for (int i = 0; i < SL_LIMBS; i++)
        h[i] = (h[i] & ~mask) | (other[i] & mask);
    tag.word[0] = h[0] | h[1] << 26;
    tag.word[1] = h[1] >> 6 | h[2] << 20;
    tag.word[2] = h[2] >> 12 | h[3] << 14;
    tag.word[3] = h[3] >> 18 | h[4] << 8;
    SL_UNROLL
    for (int i = 0; i < 4; i++) {
        sum += (uint64_t)tag.word[i] + key.pad.word[i];
        tag.word[i] = (uint32_t)sum;
        sum >>= 32;
    }
    return tag;
}

#endif
