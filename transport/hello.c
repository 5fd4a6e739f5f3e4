/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - HELLO and RINGS as bytes, and the transcript hash. */
#include "transport/hello.h"

#include "transport/bytes.h"

enum {
    SLOTS_MIN = 8,
    SLOTS_MAX = 16384, /* an immediate of 31 bits would allow more; nobody needs it */
    SLOT_BYTES_MIN = 1024,
    SLOT_BYTES_MAX = 65536,
    SHIFT_MAX = 40
};

SEALANE_RESULT sl_geometry_check(const struct sl_hello_geometry *g)
{
    if (g->message_slot_bytes < SLOT_BYTES_MIN || g->message_slot_bytes > SLOT_BYTES_MAX ||
        g->message_slot_bytes % 64 != 0)
        return SL_FAIL(SEALANE_OUT_OF_RANGE,
                       "message_slot_bytes is %u, expected a multiple of 64 from %d to %d",
                       g->message_slot_bytes, SLOT_BYTES_MIN, SLOT_BYTES_MAX);
    if (g->message_slots < SLOTS_MIN || g->message_slots > SLOTS_MAX)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "message_slots is %u, expected %d to %d",
                       g->message_slots, SLOTS_MIN, SLOTS_MAX);
    if (g->bulk_chunk_bytes != 16384 && g->bulk_chunk_bytes != 65536)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "bulk_chunk_bytes is %u, expected 16384 or 65536",
                       g->bulk_chunk_bytes);
    if (g->bulk_slots < SLOTS_MIN || g->bulk_slots > SLOTS_MAX)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "bulk_slots is %u, expected %d to %d", g->bulk_slots,
                       SLOTS_MIN, SLOTS_MAX);
    return SEALANE_OK;
}

static void geometry_write(const struct sl_hello_geometry *geometry, uint8_t *at)
{
    sl_put32(at, geometry->message_slot_bytes);
    sl_put32(at + 4, geometry->message_slots);
    sl_put32(at + 8, geometry->bulk_chunk_bytes);
    sl_put32(at + 12, geometry->bulk_slots);
}

static void geometry_read(struct sl_cursor *cursor, struct sl_hello_geometry *geometry)
{
    geometry->message_slot_bytes = sl_cursor_u32(cursor);
    geometry->message_slots = sl_cursor_u32(cursor);
    geometry->bulk_chunk_bytes = sl_cursor_u32(cursor);
    geometry->bulk_slots = sl_cursor_u32(cursor);
}

static void copy_out(struct sl_cursor *cursor, void *to, size_t bytes)
{
    const uint8_t *at = sl_cursor_take(cursor, bytes);

    if (at)
        memcpy(to, at, bytes);
}

void sl_hello_write_client(const struct sl_hello *hello, struct sl_hello_bytes *out)
{
    uint8_t *at = out->at;

    memset(at, 0, SL_HELLO_CLIENT_BYTES);
    sl_put16(at, SL_HELLO_VERSION);
    at[2] = hello->aead_count;
    memcpy(at + 4, hello->aeads, SL_HELLO_AEADS_MAX);
    memcpy(at + 12, hello->random, SL_HELLO_RANDOM_BYTES);
    geometry_write(&hello->geometry, at + 44);
    sl_put32(at + 60, hello->max_calls);
    sl_put32(at + 64, hello->eager_bytes);
    memcpy(at + 68, hello->shift, SL_RING_COUNT);
    out->count = SL_HELLO_CLIENT_BYTES;
}

void sl_hello_write_server(const struct sl_hello *hello, struct sl_hello_bytes *out)
{
    size_t text = strlen(hello->text);
    uint8_t *at = out->at;

    sl_put16(at, SL_HELLO_VERSION);
    memcpy(at + 2, hello->aead, SL_RING_COUNT);
    sl_put32(at + 4, hello->refusal);
    memcpy(at + 8, hello->random, SL_HELLO_RANDOM_BYTES);
    geometry_write(&hello->geometry, at + 40);
    sl_put32(at + 56, hello->max_calls);
    sl_put32(at + 60, hello->eager_bytes);
    memcpy(at + 64, hello->shift, SL_RING_COUNT);
    sl_put16(at + 66, (uint16_t)text);
    memcpy(at + 68, hello->grant, sizeof(hello->grant));
    memcpy(at + SL_HELLO_SERVER_BYTES, hello->text, text);
    out->count = SL_HELLO_SERVER_BYTES + text;
}

void sl_rings_write(const struct sl_hello *hello, struct sl_hello_bytes *out)
{
    memcpy(out->at, hello->grant, sizeof(hello->grant));
    out->count = sizeof(hello->grant);
}

static SEALANE_RESULT check_common(const struct sl_hello *hello, unsigned version)
{
    if (version != SL_HELLO_VERSION)
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "peer speaks lane protocol version %u, expected %d",
                       version, SL_HELLO_VERSION);
    if (hello->shift[0] > SHIFT_MAX || hello->shift[1] > SHIFT_MAX)
        return SL_FAIL(SEALANE_OUT_OF_RANGE,
                       "peer's epoch shifts are %u and %u, expected at most %d", hello->shift[0],
                       hello->shift[1], SHIFT_MAX);
    if (hello->max_calls == 0)
        return SL_FAIL(SEALANE_OUT_OF_RANGE,
                       "peer allows 0 calls on the lane, expected at least 1");
    return sl_geometry_check(&hello->geometry);
}

SEALANE_RESULT sl_hello_parse_client(const uint8_t *bytes, size_t count, struct sl_hello *hello)
{
    struct sl_cursor cursor = {.at = bytes, .left = count};
    unsigned version = sl_cursor_u16(&cursor);
    unsigned zero;

    hello->aead_count = sl_cursor_u8(&cursor);
    zero = sl_cursor_u8(&cursor);
    copy_out(&cursor, hello->aeads, SL_HELLO_AEADS_MAX);
    copy_out(&cursor, hello->random, SL_HELLO_RANDOM_BYTES);
    geometry_read(&cursor, &hello->geometry);
    hello->max_calls = sl_cursor_u32(&cursor);
    hello->eager_bytes = sl_cursor_u32(&cursor);
    copy_out(&cursor, hello->shift, SL_RING_COUNT);
    zero |= sl_cursor_u16(&cursor);
    if (cursor.bad || cursor.left != 0 || zero != 0)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "client HELLO has %zu bytes, expected %d and zeros where they must be",
                       count, SL_HELLO_CLIENT_BYTES);
    if (hello->aead_count == 0 || hello->aead_count > SL_HELLO_AEADS_MAX)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "client HELLO offers %u AEADs, expected 1 to %d",
                       hello->aead_count, SL_HELLO_AEADS_MAX);
    return check_common(hello, version);
}

SEALANE_RESULT sl_hello_parse_server(const uint8_t *bytes, size_t count, struct sl_hello *hello)
{
    struct sl_cursor cursor = {.at = bytes, .left = count};
    unsigned version = sl_cursor_u16(&cursor);
    size_t text;

    copy_out(&cursor, hello->aead, SL_RING_COUNT);
    hello->refusal = sl_cursor_u32(&cursor);
    copy_out(&cursor, hello->random, SL_HELLO_RANDOM_BYTES);
    geometry_read(&cursor, &hello->geometry);
    hello->max_calls = sl_cursor_u32(&cursor);
    hello->eager_bytes = sl_cursor_u32(&cursor);
    copy_out(&cursor, hello->shift, SL_RING_COUNT);
    text = sl_cursor_u16(&cursor);
    copy_out(&cursor, hello->grant, sizeof(hello->grant));
    if (cursor.bad || text > SL_HELLO_TEXT_MAX || cursor.left != text)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "server HELLO has %zu bytes of which %zu are said to be text", count, text);
    copy_out(&cursor, hello->text, text);
    hello->text[text] = '\0';
    return check_common(hello, version);
}

SEALANE_RESULT sl_rings_parse(const uint8_t *bytes, size_t count, struct sl_hello *hello)
{
    if (count != SL_RINGS_BYTES)
        return SL_FAIL(SEALANE_DATA_LOSS, "client RINGS has %zu bytes, expected %d", count,
                       SL_RINGS_BYTES);
    memcpy(hello->grant, bytes, SL_RINGS_BYTES);
    return SEALANE_OK;
}

SEALANE_RESULT sl_hello_transcript(const struct sl_hello_bytes messages[3],
                                   const uint8_t *client_leaf, const uint8_t *server_leaf,
                                   uint8_t hash[SL_HASH_BYTES])
{
    static const char label[] = "sealane lane v1";
    static const char alpn[] = "sealane/1";
    const struct sl_piece pieces[] = {
        {label, sizeof(label) - 1},
        {messages[0].at, messages[0].count},
        {messages[1].at, messages[1].count},
        {messages[2].at, messages[2].count},
        {client_leaf, SL_FINGERPRINT_BYTES},
        {server_leaf, SL_FINGERPRINT_BYTES},
        {alpn, sizeof(alpn) - 1},
    };

    return sl_hash(pieces, sizeof(pieces) / sizeof(pieces[0]), hash);
}
