/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - little-endian words in wire memory. Wire data is read and written through these, never by
 * casting a struct onto memory. The cursor refuses to read past its end and remembers that it did. */
#ifndef SL_BYTES_H
#define SL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void sl_put16(uint8_t *to, uint16_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static inline void sl_put32(uint8_t *to, uint32_t value)
{
    sl_put16(to, (uint16_t)value);
    sl_put16(to + 2, (uint16_t)(value >> 16));
}

static inline void sl_put64(uint8_t *to, uint64_t value)
{
    sl_put32(to, (uint32_t)value);
    sl_put32(to + 4, (uint32_t)(value >> 32));
}

static inline uint16_t sl_get16(const uint8_t *from)
{
    return (uint16_t)(from[0] | (from[1] << 8));
}

static inline uint32_t sl_get32(const uint8_t *from)
{
    return sl_get16(from) | ((uint32_t)sl_get16(from + 2) << 16);
}

static inline uint64_t sl_get64(const uint8_t *from)
{
    return sl_get32(from) | ((uint64_t)sl_get32(from + 4) << 32);
}

/* One of 2^log2 buckets for an id that a peer chose. `secret` is random and the peer does not know it, so that it cannot choose ids
 * which share a bucket (multiplicative hashing; made odd so that no bit of an id is lost). */
static inline size_t sl_spread(uint64_t id, uint64_t secret, unsigned log2)
{
    return (size_t)((id * (secret | 1)) >> (64 - log2));
}

/* Reads private bytes front to back. After the first read past the end `bad` stays set and every read
 * gives zero or NULL, so a parser may check once, at its end. */
struct sl_cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static inline const uint8_t *sl_cursor_take(struct sl_cursor *cursor, size_t bytes)
{
    const uint8_t *at = cursor->at;

    if (cursor->bad || bytes > cursor->left) {
        cursor->bad = true;
        return NULL;
    }
    cursor->at += bytes;
    cursor->left -= bytes;
    return at;
}

static inline uint8_t sl_cursor_u8(struct sl_cursor *cursor)
{
    const uint8_t *at = sl_cursor_take(cursor, 1);
    return at ? *at : 0;
}

static inline uint16_t sl_cursor_u16(struct sl_cursor *cursor)
{
    const uint8_t *at = sl_cursor_take(cursor, 2);
    return at ? sl_get16(at) : 0;
}

static inline uint32_t sl_cursor_u32(struct sl_cursor *cursor)
{
    const uint8_t *at = sl_cursor_take(cursor, 4);
    return at ? sl_get32(at) : 0;
}

static inline uint64_t sl_cursor_u64(struct sl_cursor *cursor)
{
    const uint8_t *at = sl_cursor_take(cursor, 8);
    return at ? sl_get64(at) : 0;
}

#endif
