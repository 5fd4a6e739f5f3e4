/* SPDX-License-Identifier: Apache-2.0 */
/* hello_test.c - HELLO and RINGS as bytes. */
#include "transport/hello.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_hello sample(void)
{
    struct sl_hello hello = {.geometry = {8192, 128, 65536, 64}, .max_calls = 10, .eager_bytes = 20, .shift = {21, 18},
                             .aeads = {1, 3, 2}, .aead_count = 3, .aead = {1, 3}};

    memset(hello.random, 0x5a, sizeof(hello.random));
    memset(hello.grant, 0x11, sizeof(hello.grant));
    (void)snprintf(hello.text, sizeof(hello.text), "no room");
    return hello;
}

Test(hello, client_round_trip)
{
    struct sl_hello hello = sample(), read = {0};
    struct sl_hello_bytes bytes;

    sl_hello_write_client(&hello, &bytes);
    cr_assert_eq(bytes.count, SL_HELLO_CLIENT_BYTES);
    cr_assert_eq(sl_hello_parse_client(bytes.at, bytes.count, &read), SEALANE_OK);
    cr_assert_arr_eq(read.aeads, hello.aeads, 8);
    cr_assert_arr_eq(read.random, hello.random, 32);
    cr_assert(read.aead_count == 3 && read.max_calls == 10 && read.eager_bytes == 20 && read.shift[0] == 21 && read.shift[1] == 18);
    cr_assert(read.geometry.message_slot_bytes == 8192 && read.geometry.bulk_slots == 64);
}

Test(hello, server_round_trip)
{
    struct sl_hello hello = sample(), read = {0};
    struct sl_hello_bytes bytes;

    hello.refusal = SEALANE_RESOURCE_EXHAUSTED;
    sl_hello_write_server(&hello, &bytes);
    cr_assert_eq(sl_hello_parse_server(bytes.at, bytes.count, &read), SEALANE_OK);
    cr_assert_str_eq(read.text, "no room");
    cr_assert(read.refusal == 8 && read.aead[0] == 1 && read.aead[1] == 3);
    cr_assert_arr_eq(read.grant, hello.grant, sizeof(read.grant));
}

Test(hello, invariant_9_every_other_length_is_refused)
{
    struct sl_hello hello = sample(), read;
    struct sl_hello_bytes client, server;

    sl_hello_write_client(&hello, &client);
    sl_hello_write_server(&hello, &server);
    for (size_t cut = 0; cut < server.count + 4; cut++) {
        uint8_t *copy = calloc(1, cut + 1); /* of just this size: the sanitizer sees a read past it */

        memcpy(copy, client.at, cut < client.count ? cut : client.count);
        cr_assert_eq(sl_hello_parse_client(copy, cut, &read) == SEALANE_OK, cut == client.count, "client %zu", cut);
        memcpy(copy, server.at, cut < server.count ? cut : server.count);
        cr_assert_eq(sl_hello_parse_server(copy, cut, &read) == SEALANE_OK, cut == server.count, "server %zu", cut);
        cr_assert_eq(sl_rings_parse(copy, cut, &read) == SEALANE_OK, cut == SL_RINGS_BYTES);
        free(copy);
    }
}

static enum sealane_status parse_changed(size_t at, uint32_t value)
{
    struct sl_hello hello = sample(), read;
    struct sl_hello_bytes bytes;

    sl_hello_write_client(&hello, &bytes);
    bytes.at[at] = (uint8_t)value;
    bytes.at[at + 1] = (uint8_t)(value >> 8);
    bytes.at[at + 2] = (uint8_t)(value >> 16);
    bytes.at[at + 3] = (uint8_t)(value >> 24);
    return sl_hello_parse_client(bytes.at, bytes.count, &read);
}

Test(hello, invariant_9_geometry_outside_the_limits_is_refused)
{
    cr_assert_eq(parse_changed(44, 8192), SEALANE_OK);
    cr_assert_eq(parse_changed(44, 8193), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(44, 0), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(44, 1u << 31), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(48, 7), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(48, UINT32_MAX), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(52, 65535), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(56, 0), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(60, 0), SEALANE_OUT_OF_RANGE, "no calls at all");
    cr_assert_eq(parse_changed(68, 41), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(68, 0x00010000), SEALANE_DATA_LOSS, "a zero that is not");
    cr_assert_eq(parse_changed(0, 2 | 3 << 16), SEALANE_UNIMPLEMENTED);
    cr_assert_eq(parse_changed(0, 1 | 9 << 16), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(parse_changed(0, 1 | 0 << 16), SEALANE_OUT_OF_RANGE);
}

Test(hello, transcript_changes_with_every_byte_of_every_piece)
{
    struct sl_hello hello = sample();
    struct sl_hello_bytes messages[3];
    uint8_t leaf[2][SL_FINGERPRINT_BYTES] = {{1}, {2}}, first[SL_HASH_BYTES], other[SL_HASH_BYTES];

    sl_hello_write_client(&hello, &messages[0]);
    sl_hello_write_server(&hello, &messages[1]);
    sl_rings_write(&hello, &messages[2]);
    cr_assert_eq(sl_hello_transcript(messages, leaf[0], leaf[1], first), SEALANE_OK);
    for (int m = 0; m < 3; m++) {
        for (size_t i = 0; i < messages[m].count; i++) {
            messages[m].at[i] ^= 1;
            cr_assert_eq(sl_hello_transcript(messages, leaf[0], leaf[1], other), SEALANE_OK);
            cr_assert_arr_neq(first, other, SL_HASH_BYTES);
            messages[m].at[i] ^= 1;
        }
    }
    cr_assert_eq(sl_hello_transcript(messages, leaf[1], leaf[0], other), SEALANE_OK);
    cr_assert_arr_neq(first, other, SL_HASH_BYTES, "client and server certificates are not interchangeable");
}
