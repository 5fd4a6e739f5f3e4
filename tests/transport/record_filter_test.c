/* SPDX-License-Identifier: Apache-2.0 */
/* record_filter_test.c - what the filter lets through to the TLS library, and each thing that it does not. */
#include "tests/support/certs.h"
#include "tests/support/tls_pair.h"
#include "transport/record_filter.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANGE = 20,
    ALERT = 21,
    HANDSHAKE = 22,
    DATA = 23
};

struct stream {
    uint8_t at[100 * 1024];
    size_t count;
};

/* Appends a record whose body begins with `head` and goes on in zeros. */
static void record(struct stream *stream, unsigned type, size_t length, const char *head,
                   size_t head_bytes)
{
    uint8_t *to = stream->at + stream->count;

    cr_assert(stream->count + 5 + length <= sizeof(stream->at));
    memset(to, 0, 5 + length);
    to[0] = (uint8_t)type;
    to[1] = 3;
    to[2] = 3;
    to[3] = (uint8_t)(length >> 8);
    to[4] = (uint8_t)length;
    memcpy(to + 5, head, head_bytes);
    stream->count += 5 + length;
}

static void hello(struct stream *stream, bool client, size_t body)
{
    char head[4] = {client ? 1 : 2, 0, (char)(body >> 8), (char)body};

    record(stream, HANDSHAKE, body + 4, head, 4);
}

static void data(struct stream *stream, size_t length)
{
    record(stream, DATA, length, "", 0);
}

/* The verdict must be the same for pieces of any size. */
static enum sealane_status look(const struct stream *stream, bool server)
{
    static const size_t pieces[] = {1, 2, 3, 5, 7, 4096, 1 << 20};
    enum sealane_status first = SEALANE_OK;

    for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
        struct sl_record_filter filter = {.server = server};
        enum sealane_status status = SEALANE_OK;

        for (size_t at = 0, step; status == SEALANE_OK && at < stream->count; at += step) {
            step = stream->count - at < pieces[p] ? stream->count - at : pieces[p];
            status = sl_record_filter_look(&filter, stream->at + at, step);
        }
        if (p == 0)
            first = status;
        cr_assert_eq(status, first, "pieces of %zu", pieces[p]);
    }
    return first;
}

static void refused(const struct stream *stream, bool server, const char *words)
{
    enum sealane_status status = look(stream, server);

    cr_assert_eq(status, SEALANE_DATA_LOSS, "%d, wanted: %s", status, words);
    cr_assert(strstr(sealane_last_error()->message, words), "wanted \"%s\" in: %s", words,
              sealane_last_error()->message);
}

/* ---- let through ---- */

Test(record_filter, lets_a_handshake_of_either_role_through)
{
    static struct stream client, server;

    hello(&client, true, 300);
    record(&client, CHANGE, 1, "\1", 1);
    hello(&client, true, 400); /* the second one, after a HelloRetryRequest */
    data(&client, 17);
    data(&client, 16384 + 256);
    cr_assert_eq(look(&client, true), SEALANE_OK);
    hello(&server, false, 90);
    record(&server, CHANGE, 1, "\1", 1);
    hello(&server, false, 90);
    data(&server, 1000);
    cr_assert_eq(look(&server, false), SEALANE_OK);
}

Test(record_filter, lets_an_alert_through_before_protected_records)
{
    static struct stream stream;

    record(&stream, ALERT, 2, "\2\x28", 2);
    cr_assert_eq(look(&stream, false), SEALANE_OK);
    cr_assert_eq(look(&stream, true), SEALANE_OK);
}

Test(record_filter, lets_a_client_hello_of_just_the_limit_through)
{
    static struct stream stream;

    hello(&stream, true, SL_FILTER_CLIENT_HELLO_MAX - 4);
    cr_assert_eq(look(&stream, true), SEALANE_OK);
}

/* ---- refused ---- */

/* CVE-2024-0901's pattern: wolfSSL 5.5.4 reads 64 KiB past its buffer on a protected record that holds nothing but a tag. */
Test(record_filter, refuses_a_protected_record_that_holds_only_a_tag)
{
    for (size_t length = 0; length < 17; length++) {
        static struct stream stream;

        stream.count = 0;
        hello(&stream, true, 300);
        data(&stream, length);
        refused(&stream, true, "a TLS record of type 23 has");
    }
}

/* CVE-2023-6937's pattern: messages that should be protected ride unprotected behind the ServerHello, in its record. */
Test(record_filter, refuses_a_second_message_in_a_plaintext_record)
{
    static struct stream stream;

    record(&stream, HANDSHAKE, 200, "\2\0\0\x5a", 4);
    refused(&stream, false, "expected just one message");
}

Test(record_filter, refuses_a_plaintext_message_that_is_not_a_hello)
{
    static struct stream stream;

    hello(&stream, false, 90);
    record(&stream, HANDSHAKE, 104, "\x0b\0\0\x64", 4); /* Certificate, as TLS 1.2 sends it */
    refused(&stream, false, "has type 11, expected ServerHello (2)");
}

Test(record_filter, refuses_a_client_s_message_from_a_server_and_the_reverse)
{
    static struct stream client, server;

    hello(&client, true, 90);
    refused(&client, false, "expected ServerHello (2)");
    hello(&server, false, 90);
    refused(&server, true, "expected ClientHello (1)");
}

Test(record_filter, refuses_plaintext_after_protected_records)
{
    static struct stream hello_after, alert_after;

    hello(&hello_after, true, 90);
    data(&hello_after, 100);
    hello_after.at[hello_after.count] = 0;
    hello(&hello_after, true, 90);
    refused(&hello_after, true, "type 22 came after protected ones");
    hello(&alert_after, true, 90);
    data(&alert_after, 100);
    record(&alert_after, ALERT, 2, "\2\x28", 2);
    refused(&alert_after, true, "type 21 came after protected ones");
}

Test(record_filter, refuses_a_client_hello_above_4_KiB)
{
    static struct stream stream;

    hello(&stream, true, SL_FILTER_CLIENT_HELLO_MAX - 3);
    refused(&stream, true, "a TLS record of type 22 has 4097 bytes, expected 4 to 4096");
}

Test(record_filter, invariant_9_refuses_lengths_out_of_bounds)
{
    static const struct {
        unsigned type;
        size_t length;
    } bad[] = {{HANDSHAKE, 0}, {HANDSHAKE, 3}, {HANDSHAKE, 16385}, {DATA, 16384 + 257},
               {DATA, 65535},  {ALERT, 0},     {ALERT, 1},         {ALERT, 3},
               {CHANGE, 0},    {CHANGE, 2}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        static struct stream stream;

        stream.count = 0;
        hello(&stream, false, 90);
        record(&stream, bad[i].type, bad[i].length, "\1", bad[i].length > 0);
        refused(&stream, false, "a TLS record of type");
    }
}

Test(record_filter, invariant_9_refuses_more_than_64_KiB_of_handshake)
{
    static struct stream stream;

    hello(&stream, false, 90);
    for (int i = 0; i < 4; i++)
        data(&stream, 16384);
    refused(&stream, false, "more than 65536 bytes");
}

Test(record_filter, refuses_a_change_cipher_spec_that_is_not_one)
{
    static struct stream value, twice;

    hello(&value, false, 90);
    record(&value, CHANGE, 1, "\2", 1);
    refused(&value, false, "holds 2, expected 1");
    hello(&twice, false, 90);
    record(&twice, CHANGE, 1, "\1", 1);
    record(&twice, CHANGE, 1, "\1", 1);
    refused(&twice, false, "a second change_cipher_spec");
}

Test(record_filter, refuses_unknown_types_and_versions)
{
    for (unsigned type = 0; type < 256; type++) {
        static struct stream stream;

        if (type >= 20 && type <= 23)
            continue;
        stream.count = 0;
        hello(&stream, true, 90);
        record(&stream, type, 17, "", 0);
        refused(&stream, true, "expected 20 to 23");
    }
    for (unsigned version = 0; version < 256; version++) {
        static struct stream stream;

        stream.count = 0;
        hello(&stream, true, 90);
        stream.at[1] = (uint8_t)version;
        cr_assert_eq(look(&stream, true) == SEALANE_OK, version == 3);
        stream.at[1] = 3;
        stream.at[2] = (uint8_t)version;
        cr_assert_eq(look(&stream, true) == SEALANE_OK, version >= 1 && version <= 4);
    }
}

Test(record_filter, says_at_the_first_byte_that_a_peer_speaks_no_TLS)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        struct sl_record_filter filter = {.server = true};
        uint8_t first = (uint8_t)byte;
        enum sealane_status status = sl_record_filter_look(&filter, &first, 1);

        cr_assert_eq(status,
                     byte == ALERT || byte == HANDSHAKE ? SEALANE_OK : SEALANE_UNAUTHENTICATED,
                     "%u", byte);
    }
}

/* ---- in front of wolfSSL: the same attacks on real sessions ---- */

static void last_record_becomes_a_tag(struct tls_pair *pair, bool from_client, uint8_t *bytes,
                                      size_t count)
{
    (void)pair;
    if (!from_client || count < 21 || bytes[0] == HANDSHAKE)
        return;
    for (size_t at = 0; at + 5 <= count; at += 5 + ((size_t)bytes[at + 3] << 8 | bytes[at + 4])) {
        if (bytes[at] == DATA) {
            bytes[at + 3] = 0;
            bytes[at + 4] = 16;
        }
    }
}

/* The client has the handshake keys and no certificate: whoever it is, it gets this far. */
Test(record_filter, stops_the_tag_only_record_of_a_client_that_has_the_keys)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/server-p256", NULL);
    struct tls_pair pair = {.damage = last_record_becomes_a_tag};

    pair.client.peer = tls_peer_new(&(struct tls_peer_options){.alpn = "sealane/1"});
    pair.server.ours = tls_ours(credentials, NULL);
    tls_pair_run(&pair);
    cr_assert_eq(pair.server.status, SEALANE_DATA_LOSS, "%d %s", pair.server.status,
                 pair.server.why);
    cr_assert(strstr(pair.server.why, "a TLS record of type 23 has 16 bytes, expected 17 to 16640"),
              "%s", pair.server.why);
    tls_pair_free(&pair);
    sealane_credentials_free(credentials);
}

static void server_hello_grows(struct tls_pair *pair, bool from_client, uint8_t *bytes,
                               size_t count)
{
    size_t length = (size_t)bytes[3] << 8 | bytes[4];

    (void)pair;
    if (from_client || count < length + 10 || bytes[0] != HANDSHAKE)
        return;
    length += 5; /* what follows counts as a part of this record */
    bytes[3] = (uint8_t)(length >> 8);
    bytes[4] = (uint8_t)length;
}

Test(record_filter, stops_plaintext_behind_a_real_server_hello)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/client-p256", NULL);
    struct tls_pair pair = {.damage = server_hello_grows};

    pair.client.ours = tls_ours(credentials, "dns:server.test");
    pair.server.peer = tls_peer_new(&(struct tls_peer_options){
        .server = true, .alpn = "sealane/1", .certificate = "good/server-p256"});
    tls_pair_run(&pair);
    cr_assert_eq(pair.client.status, SEALANE_DATA_LOSS, "%d %s", pair.client.status,
                 pair.client.why);
    cr_assert(strstr(pair.client.why, "expected just one message"), "%s", pair.client.why);
    tls_pair_free(&pair);
    sealane_credentials_free(credentials);
}

/* ---- any bytes ---- */

static uint64_t seed = 88172645463325252u;

static uint8_t random_byte(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint8_t)(seed >> 32);
}

/* Every other stream begins as TLS does, or few would get past its first byte. */
Test(record_filter, survives_1000_random_streams_before_a_real_server_and_client)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/server-p256", NULL);
    size_t refused_count = 0;

    for (int i = 0; i < 1000; i++) {
        struct sl_handshake *handshake = tls_ours(credentials, i % 2 ? NULL : "dns:server.test");
        size_t bytes = 1 + (size_t)random_byte() * 8;
        uint8_t *stream = malloc(bytes); /* of just this size: the sanitizer sees a read past it */
        enum sealane_status status = SL_AGAIN;

        if (i % 2 == 0)
            status = sl_handshake_advance(handshake);
        for (size_t at = 0; at < bytes; at++)
            stream[at] = random_byte();
        if (i % 4 < 2 && bytes > 9) {
            memcpy(stream, "\x16\3\3\0\0\0\0\0\0", 9);
            stream[4] = (uint8_t)(bytes < 200 ? bytes - 5 : 200);
            stream[5] = i % 2 ? 1 : 2;
            stream[8] = (uint8_t)(stream[4] - 4);
        }
        sl_handshake_feed(handshake, stream, bytes);
        status = sl_handshake_advance(handshake);
        cr_assert_neq(status, SEALANE_OK);
        refused_count += status != SL_AGAIN;
        sl_handshake_free(handshake);
        free(stream);
    }
    cr_assert(refused_count > 900, "%zu refused", refused_count);
    sealane_credentials_free(credentials);
}

static void one_byte_changes(struct tls_pair *pair, bool from_client, uint8_t *bytes, size_t count)
{
    size_t *left = pair->argument;

    (void)from_client;
    if (*left < count)
        bytes[*left] ^= (uint8_t)(1u << (random_byte() & 7));
    *left = *left < count ? SIZE_MAX : *left - count;
}

/* A changed byte may end the handshake or, in a version field that nobody looks at, do nothing: never may the two ends hold
 * different keys and both think that they are connected. */
Test(record_filter, survives_1000_mutated_handshakes)
{
    struct sealane_credentials *client = certs_load("root-p256", "good/client-p256", NULL);
    struct sealane_credentials *server = certs_load("root-p256", "good/server-p256", NULL);
    uint8_t context[SL_HASH_BYTES] = {0}, secrets[2][SL_SECRET_BYTES];
    size_t ended = 0;

    for (int i = 0; i < 1000; i++) {
        size_t at = ((size_t)random_byte() << 8 | random_byte()) % 3000;
        struct tls_pair pair = {.damage = one_byte_changes,
                                .argument = &at,
                                .piece = random_byte() % 3 * 50};

        pair.client.ours = tls_ours(client, "dns:server.test");
        pair.server.ours = tls_ours(server, NULL);
        tls_pair_run(&pair);
        if (pair.client.status == SEALANE_OK && pair.server.status == SEALANE_OK) {
            cr_assert_eq(sl_handshake_export(pair.client.ours, context, secrets[0]), SEALANE_OK);
            cr_assert_eq(sl_handshake_export(pair.server.ours, context, secrets[1]), SEALANE_OK);
            cr_assert_arr_eq(secrets[0], secrets[1], SL_SECRET_BYTES);
        } else {
            cr_assert_neq(pair.server.status, SEALANE_OK,
                          "the server may never believe a changed handshake");
            ended++;
        }
        tls_pair_free(&pair);
    }
    cr_assert(ended > 500, "%zu ended", ended);
    sealane_credentials_free(client);
    sealane_credentials_free(server);
}
