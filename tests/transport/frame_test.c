/* SPDX-License-Identifier: Apache-2.0 */
/* frame_test.c - frames and records as bytes. */
#include "transport/frame.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum {
    SLOT = 1024
};

Test(frame, writes_what_the_protocol_says)
{
    uint8_t slot[SLOT];
    static const uint8_t body[] = {0xaa, 0xbb};
    static const uint8_t expected[] = {
        34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* prefix: 34 sealed bytes, zeros */
        3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0,  /* acked: 3 message records, 7 + 2^40 bulk records */
        5, 1, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,  /* STATUS, flags 1, 2 bytes, call 9 */
        0xaa, 0xbb,
    };
    struct sl_frame frame;

    memset(slot, 0xff, sizeof(slot));
    sl_frame_begin(&frame, slot, SLOT);
    cr_assert(sl_frame_is_empty(&frame));
    sl_frame_add(&frame, &(struct sl_record){.type = 5, .flags = 1, .call = 9, .body = body, .bytes = 2});
    cr_assert_not(sl_frame_is_empty(&frame));
    cr_assert_eq(sl_frame_finish(&frame, 3, 7 + (1ULL << 40)), 34);
    cr_assert_arr_eq(slot, expected, sizeof(expected));
}

Test(frame, holds_records_up_to_its_last_byte)
{
    uint8_t slot[SLOT], body[SLOT] = {0};
    struct sl_frame frame;
    size_t room;

    sl_frame_begin(&frame, slot, SLOT);
    room = sl_frame_room(&frame);
    cr_assert_eq(room, SLOT - SL_FRAME_OVERHEAD - SL_RECORD_HEAD_BYTES);
    sl_frame_add(&frame, &(struct sl_record){.type = 2, .call = 1, .body = body, .bytes = room});
    cr_assert_eq(sl_frame_room(&frame), 0);
    cr_assert_eq(sl_frame_finish(&frame, 0, 0), SLOT - SL_PREFIX_BYTES - SL_TAG_BYTES);
}

Test(frame, invariant_9_refuses_a_prefix_whose_length_lies)
{
    uint8_t prefix[SL_PREFIX_BYTES] = {0};
    size_t sealed;

    for (uint64_t length = 0; length <= UINT32_MAX; length = length * 2 + 1) {
        bool fits = length >= SL_FRAME_HEAD_BYTES && length <= SLOT - SL_PREFIX_BYTES - SL_TAG_BYTES;
        sl_put32(prefix, (uint32_t)length);
        cr_assert_eq(sl_prefix_parse(prefix, SLOT, &sealed) == SEALANE_OK, fits, "%llu", (unsigned long long)length);
    }
    sl_put32(prefix, 100);
    for (int bit = 32; bit < 128; bit++) {
        prefix[bit / 8] = (uint8_t)(1 << (bit % 8));
        cr_assert_eq(sl_prefix_parse(prefix, SLOT, &sealed), SEALANE_DATA_LOSS, "bit %d", bit);
        prefix[bit / 8] = 0;
    }
}

Test(frame, invariant_9_never_reads_a_record_past_the_end)
{
    /* Every length of a two-record plaintext, cut anywhere, each in memory of just that size. */
    uint8_t slot[SLOT], body[5] = {1, 2, 3, 4, 5};
    struct sl_frame frame;
    size_t whole;

    sl_frame_begin(&frame, slot, SLOT);
    sl_frame_add(&frame, &(struct sl_record){.type = 2, .call = 1, .body = body, .bytes = 5});
    sl_frame_add(&frame, &(struct sl_record){.type = 4, .call = 2});
    whole = sl_frame_finish(&frame, 0, 0) - SL_FRAME_HEAD_BYTES;
    for (size_t cut = 0; cut <= whole; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        struct sl_cursor cursor = {.at = copy, .left = cut};
        struct sl_record record;
        int records = 0;

        memcpy(copy, slot + SL_PREFIX_BYTES + SL_FRAME_HEAD_BYTES, cut);
        while (sl_record_next(&cursor, &record))
            records++;
        cr_assert_eq(cursor.bad, cut != 0 && cut != SL_RECORD_HEAD_BYTES + 5 && cut != whole, "cut at %zu", cut);
        cr_assert_leq(records, 2);
        free(copy);
    }
}

Test(frame, refuses_a_record_whose_zero_is_not_zero)
{
    uint8_t record_bytes[SL_RECORD_HEAD_BYTES] = {4, 0, 1, 0};
    struct sl_cursor cursor = {.at = record_bytes, .left = sizeof(record_bytes)};
    struct sl_record record;

    cr_assert_not(sl_record_next(&cursor, &record));
    cr_assert(cursor.bad);
}

Test(frame, bulk_records_survive_the_round_trip)
{
    struct sl_run run = {.call = 7, .part = 3, .count = 2, .offset = 1ULL << 40, .bytes = 65537, .seq = 99}, read;
    uint8_t body[SL_BULK_BODY_BYTES];
    struct sl_record record = {.type = SL_RECORD_BULK, .call = 7, .body = body, .bytes = sizeof(body)};

    sl_run_write(&run, body);
    cr_assert_eq(sl_run_parse(&record, 65536, &read), SEALANE_OK);
    cr_assert(read.call == 7 && read.part == 3 && read.count == 2 && read.offset == 1ULL << 40 && read.bytes == 65537 &&
              read.seq == 99);
}

static enum sealane_status parse(uint32_t count, uint64_t bytes, uint64_t offset)
{
    struct sl_run run = {.count = count, .bytes = bytes, .offset = offset}, read;
    uint8_t body[SL_BULK_BODY_BYTES];
    struct sl_record record = {.type = SL_RECORD_BULK, .body = body, .bytes = sizeof(body)};

    sl_run_write(&run, body);
    return sl_run_parse(&record, 65536, &read);
}

Test(frame, invariant_9_refuses_bulk_records_whose_numbers_lie)
{
    cr_assert_eq(parse(1, 1, 0), SEALANE_OK);
    cr_assert_eq(parse(1, 65536, 0), SEALANE_OK);
    cr_assert_eq(parse(1, 0, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(parse(0, 0, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(parse(1, 65537, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(parse(2, 65536, 0), SEALANE_DATA_LOSS, "the second chunk would be empty");
    cr_assert_eq(parse(UINT32_MAX, UINT64_MAX, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(parse(1, 65536, UINT64_MAX - 100), SEALANE_DATA_LOSS, "the end wraps");
}
