/* SPDX-License-Identifier: Apache-2.0 */
/* codec_test.c - heads, and protobuf bytes that come from outside. */
#include "cases.pb-c.h"
#include "rpc/codec.h"
#include "transport/bytes.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct sl_call_arena *arena;

static void open_arena(void)
{
    arena = aligned_alloc(64, (sizeof(*arena) + 63) / 64 * 64);
    sl_call_arena_init(arena, 4 << 20);
}

static void close_arena(void)
{
    sl_call_arena_clear(arena);
    free(arena);
}

TestSuite(codec, .init = open_arena, .fini = close_arena);

static struct sl_packed pack(const void *message, const char *method)
{
    const struct sl_pack_options options = {.method = method,
                                            .timeout_ns = method ? 5000 : 0,
                                            .max_message_bytes = 1 << 20};
    struct sl_packed packed;

    cr_assert_eq(sl_codec_pack(arena, message, &options, &packed), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return packed;
}

static Cases__V1__Everything *sample(void)
{
    static Cases__V1__Everything message = CASES__V1__EVERYTHING__INIT;
    static Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    static uint64_t shape[] = {2, 3};
    static uint8_t data[6] = "tensor";

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 2;
    tensor.shape = shape;
    tensor.data = (ProtobufCBinaryData){6, data};
    message.name = "name";
    message.plain = &tensor;
    return &message;
}

/* ---- heads ---- */

Test(codec, writes_the_bytes_that_codec_h_shows)
{
    static const uint8_t expected[] = {
        41,   0,    0,    0,                       /* head bytes */
        14,   0,    0,    0,                       /* message bytes */
        0x88, 0x13, 0,    0,   0,    0,   0, 0,    /* 5000 ns */
        4,    0,    1,    0,                       /* path bytes, parts */
        '/',  'a',  '/',  'b',                     /* path */
        6,    0,    0,    0,   0,    0,   0, 0, 1, /* a part of 6 bytes, 1 step */
        3,    0,    0,    0,   0,    0,   0, 0,    /* field 3, index 0 */
        0x0a, 4,    'n',  'a', 'm',  'e',          /* name */
        0x1a, 6,    0x08, 11,  0x12, 2,   2, 3};   /* plain: dtype, shape, no data */
    struct sl_packed packed = pack(sample(), "/a/b");

    cr_assert_eq(packed.count, sizeof(expected), "%zu bytes", packed.count);
    cr_assert_eq(packed.part_count, 1);
    cr_assert_eq(memcmp(packed.bytes, expected, sizeof(expected)), 0);
}

Test(codec, reads_what_it_wrote)
{
    struct sl_packed packed = pack(sample(), "/cases.v1.Cases/Echo");
    struct sl_head head;
    struct sl_path path;

    sl_head_set_timeout(packed.bytes, 123456789012345);
    cr_assert_eq(sl_head_parse(packed.bytes, packed.count, &head), SEALANE_OK);
    cr_assert_eq(head.timeout_ns, 123456789012345);
    cr_assert_eq(head.path_bytes, 20);
    cr_assert_eq(memcmp(head.path, "/cases.v1.Cases/Echo", 20), 0);
    cr_assert_eq(head.part_count, 1);
    cr_assert_eq(sl_head_next_part(&head, &path), 6);
    cr_assert_eq(path.count, 1);
    cr_assert_eq(path.steps[0].field, 3);
    cr_assert_eq(path.steps[0].index, 0);
}

Test(codec, replies_have_no_path_and_no_deadline)
{
    struct sl_packed packed = pack(sample(), NULL);
    struct sl_head head;

    cr_assert_eq(sl_head_parse(packed.bytes, packed.count, &head), SEALANE_OK);
    cr_assert_eq(head.timeout_ns, 0);
    cr_assert_eq(head.path_bytes, 0);
}

static enum sealane_status parse(const uint8_t *bytes, size_t count)
{
    uint8_t *exact = malloc(count + (count == 0)); /* reading past the end shows */
    struct sl_head head;
    enum sealane_status status;

    memcpy(exact, bytes, count);
    status = sl_head_parse(exact, count, &head);
    free(exact);
    return status;
}

Test(codec, invariant_9_refuses_heads_that_lie)
{
    struct sl_packed good = pack(sample(), "/a/b");
    uint8_t bad[256];
    static const struct lie {
        const char *what;
        size_t at;
        uint32_t value;
    } lies[] = {
        {"a head of 0", 0, 0},
        {"a head shorter than its fixed part", 0, 19},
        {"a head one byte shorter", 0, 40},
        {"a head one byte longer", 0, 42},
        {"a head of 4 GiB", 0, UINT32_MAX},
        {"a message one byte longer", 4, 15},
        {"a message one byte shorter", 4, 13},
        {"a message of 4 GiB", 4, UINT32_MAX},
        {"a path that is longer", 16, 5 | 1 << 16},
        {"a path that is shorter", 16, 3 | 1 << 16},
        {"a path of 64 KiB", 16, 0xffff | 1 << 16},
        {"no part", 16, 4},
        {"two parts", 16, 4 | 2 << 16},
        {"65535 parts", 16, 4u | 0xffffu << 16},
        {"a part of 0 bytes", 24, 0},
        {"a part of two steps", 32, 2},
        {"a part of no step", 32, 0},
        {"a part of 255 steps", 32, 255},
    };

    cr_assert_eq(parse(good.bytes, good.count), SEALANE_OK);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        memcpy(bad, good.bytes, good.count);
        if (lies[i].at == 32)
            bad[32] = (uint8_t)lies[i].value;
        else
            sl_put32(bad + lies[i].at, lies[i].value);
        cr_assert_eq(parse(bad, good.count), SEALANE_DATA_LOSS, "%s", lies[i].what);
    }
    for (int off = -1; off <= 1; off += 2) { /* the sum is right */
        memcpy(bad, good.bytes, good.count);
        sl_put32(bad, (uint32_t)(41 + off));
        sl_put32(bad + 4, (uint32_t)(14 - off));
        cr_assert_eq(parse(bad, good.count), SEALANE_DATA_LOSS, "a head %d bytes off", off);
    }
    for (size_t count = 0; count < good.count; count++)
        cr_assert_eq(parse(good.bytes, count), SEALANE_DATA_LOSS, "cut at %zu", count);
}

Test(codec, refuses_a_path_longer_than_1024_bytes_in_a_head)
{
    static uint8_t bytes[SL_HEAD_FIXED + 1025];

    sl_put32(bytes, sizeof(bytes));
    sl_put16(bytes + 16, 1025);
    cr_assert_eq(parse(bytes, sizeof(bytes)), SEALANE_DATA_LOSS);
    sl_put32(bytes, sizeof(bytes) - 1);
    sl_put16(bytes + 16, 1024);
    cr_assert_eq(parse(bytes, sizeof(bytes) - 1), SEALANE_OK);
}

Test(codec, accepts_the_largest_head_that_may_be)
{
    uint8_t *bytes = calloc(1, SL_HEAD_MAX), *at = bytes + SL_HEAD_FIXED + SL_METHOD_PATH_MAX;

    sl_put32(bytes, SL_HEAD_MAX);
    sl_put16(bytes + 16, SL_METHOD_PATH_MAX);
    sl_put16(bytes + 18, SL_PARTS_MAX);
    for (unsigned p = 0; p < SL_PARTS_MAX; p++, at += 9 + SL_PATH_STEPS * 8) {
        at[0] = 1;
        at[8] = SL_PATH_STEPS;
    }
    cr_assert_eq(parse(bytes, SL_HEAD_MAX), SEALANE_OK);
    free(bytes);
}

Test(codec, sizes_at_the_front_are_bounded)
{
    static const uint8_t bytes[8] = {20, 0, 0, 0, 1, 0, 0, 0};
    uint32_t head, message;

    cr_assert_eq(sl_head_sizes(bytes, 8, &head, &message), SEALANE_OK);
    cr_assert_eq(head, 20);
    cr_assert_eq(message, 1);
    cr_assert_eq(sl_head_sizes(bytes, 7, &head, &message), SEALANE_DATA_LOSS);
}

/* ---- packing ---- */

Test(codec, refuses_to_pack_more_than_max_message_bytes)
{
    Cases__V1__Everything message = CASES__V1__EVERYTHING__INIT;
    struct sl_pack_options options = {.max_message_bytes = 100};
    static uint8_t blob[200];
    struct sl_packed packed;

    message.blob = (ProtobufCBinaryData){98, blob};
    cr_assert_eq(sl_codec_pack(arena, &message.base, &options, &packed), SEALANE_OK);
    message.blob.len = 99;
    cr_assert_eq(sl_codec_pack(arena, &message.base, &options, &packed),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "101 bytes, max_message_bytes"), "%s",
                       sealane_last_error()->message);
}

Test(codec, refuses_a_method_path_that_no_head_can_hold)
{
    static char path[SL_METHOD_PATH_MAX + 2];
    struct sl_pack_options options = {.method = path, .max_message_bytes = 100};
    Cases__V1__Tree message = CASES__V1__TREE__INIT;
    struct sl_packed packed;

    memset(path, 'x', sizeof(path) - 1);
    cr_assert_eq(sl_codec_pack(arena, &message.base, &options, &packed), SEALANE_INVALID_ARGUMENT);
}

/* ---- unpacking ---- */

static enum sealane_status unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                  size_t count)
{
    uint8_t *exact = malloc(count + (count == 0));
    ProtobufCMessage *message;
    enum sealane_status status;

    memcpy(exact, bytes, count);
    status = sl_codec_unpack(arena, type, exact, count, &message);
    free(exact);
    return status;
}

/* `levels` trees in each other: a message that is one field 2 after the other, from the inside out. */
static size_t nest(unsigned levels, uint8_t *bytes, size_t size)
{
    uint8_t *at = bytes + size;
    size_t count = 0;

    for (unsigned i = 1; i < levels; i++) {
        uint8_t length[10];
        size_t n = 0;

        for (size_t rest = count; n == 0 || rest > 0; rest >>= 7)
            length[n++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        at -= n + 1;
        at[0] = 2 << 3 | 2;
        memcpy(at + 1, length, n);
        count += n + 1;
    }
    memmove(bytes, at, count);
    return count;
}

Test(codec, invariant_9_refuses_a_message_nested_10000_levels_deep)
{
    static uint8_t bytes[100000];

    cr_assert_eq(unpack(&cases__v1__tree__descriptor, bytes, nest(100, bytes, sizeof(bytes))),
                 SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert_eq(unpack(&cases__v1__tree__descriptor, bytes, nest(101, bytes, sizeof(bytes))),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(unpack(&cases__v1__tree__descriptor, bytes, nest(10000, bytes, sizeof(bytes))),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message, "deeper than 100 levels"));
}

Test(codec, refuses_bytes_that_are_no_protobuf)
{
    static const struct garbage {
        const char *what;
        size_t count;
        uint8_t bytes[12];
    } garbage[] = {
        {"half a varint", 1, {0x80}},
        {"a key without a value", 1, {0x08}},
        {"a varint of 11 bytes", 12, {0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}},
        {"a length past the end", 3, {0x12, 2, 0}},
        {"a length of 2^63", 11, {0x12, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1}},
        {"a group", 2, {0x0b, 0x0c}},
        {"wire type 7", 1, {0x0f}},
        {"half a fixed64", 4, {0x79, 0, 0, 0}},
        {"half a fixed32", 3, {0x7d, 0, 0}},
        {"garbage in a child", 4, {0x12, 2, 0x08, 0x80}},
        {"a child that is a varint", 2, {0x10, 1}},
    };

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
        cr_assert_eq(unpack(&cases__v1__tree__descriptor, garbage[i].bytes, garbage[i].count),
                     SEALANE_INVALID_ARGUMENT, "%s", garbage[i].what);
    cr_assert_eq(unpack(&cases__v1__tree__descriptor, garbage[0].bytes, 0), SEALANE_OK, "nothing");
}

Test(codec, invariant_9_bounds_the_memory_that_a_message_unpacks_to)
{
    static uint8_t bytes[1 << 20]; /* nothing but empty children: 80 bytes and more for two */

    for (size_t i = 0; i < sizeof(bytes); i += 2)
        bytes[i] = 2 << 3 | 2;
    cr_assert_eq(unpack(&cases__v1__tree__descriptor, bytes, 10000), SEALANE_OK);
    cr_assert_eq(unpack(&cases__v1__tree__descriptor, bytes, sizeof(bytes)),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_leq(arena->total, 6 << 20);
    cr_assert_not_null(strstr(sealane_last_error()->message, "max_message_bytes"), "%s",
                       sealane_last_error()->message);
}
