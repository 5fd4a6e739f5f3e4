/* SPDX-License-Identifier: Apache-2.0 */
/* handshake_test.c - two ends that agree: certificates of every kind, messages, the exporter, what an observer can ask. */
#include "tests/support/certs.h"
#include "tests/support/tls_pair.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char server_name[] = "dns:server.test";

struct meeting {
    struct sealane_credentials *client_credentials, *server_credentials;
    struct tls_pair pair;
};

static void meet(struct meeting *meeting, size_t piece)
{
    meeting->pair.piece = piece;
    meeting->pair.client.ours = tls_ours(meeting->client_credentials, server_name);
    meeting->pair.server.ours = tls_ours(meeting->server_credentials, NULL);
    tls_pair_run(&meeting->pair);
    cr_assert_eq(meeting->pair.client.status, SEALANE_OK, "%s", meeting->pair.client.why);
    cr_assert_eq(meeting->pair.server.status, SEALANE_OK, "%s", meeting->pair.server.why);
}

static struct meeting meet_p256(size_t piece)
{
    struct meeting meeting = {
        .client_credentials = certs_load("root-p256", "good/client-p256", NULL),
        .server_credentials = certs_load("root-p256", "good/server-p256", NULL)};

    meet(&meeting, piece);
    return meeting;
}

static void part(struct meeting *meeting)
{
    tls_pair_free(&meeting->pair);
    sealane_credentials_free(meeting->client_credentials);
    sealane_credentials_free(meeting->server_credentials);
}

static void exports(struct meeting *meeting, uint8_t context_byte,
                    uint8_t secrets[2][SL_SECRET_BYTES])
{
    uint8_t context[SL_HASH_BYTES];

    memset(context, context_byte, sizeof(context));
    cr_assert_eq(sl_handshake_export(meeting->pair.client.ours, context, secrets[0]), SEALANE_OK);
    cr_assert_eq(sl_handshake_export(meeting->pair.server.ours, context, secrets[1]), SEALANE_OK);
}

struct kind {
    char ca[40], client[40], server[40];
};

ParameterizedTestParameters(handshake, secures_with_certificates_of_every_kind)
{
    static struct kind kinds[] = {
        {"root-p256", "good/client-p256", "good/server-p256"},
        {"root-p256", "good/p384-client", "good/p384-leaf"},
        {"root-rsa2048", "good/client-rsa2048", "good/server-rsa2048"},
        {"root-ed25519", "good/client-ed25519", "good/server-ed25519"},
    };

    return cr_make_param_array(struct kind, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

ParameterizedTest(struct kind *kind, handshake, secures_with_certificates_of_every_kind)
{
    struct meeting meeting = {.client_credentials = certs_load(kind->ca, kind->client, NULL),
                              .server_credentials = certs_load(kind->ca, kind->server, NULL)};
    uint8_t secrets[2][SL_SECRET_BYTES];

    meet(&meeting, 0);
    cr_assert_str_eq(sl_handshake_peer(meeting.pair.client.ours),
                     "uri:spiffe://cluster.test/ns/default/sa/server");
    cr_assert_str_eq(sl_handshake_peer(meeting.pair.server.ours),
                     "uri:spiffe://cluster.test/ns/default/sa/client");
    cr_assert_str_eq(sl_handshake_suite(meeting.pair.client.ours), "TLS_CHACHA20_POLY1305_SHA256");
    cr_assert_str_eq(sl_handshake_suite(meeting.pair.server.ours), "TLS_CHACHA20_POLY1305_SHA256");
    exports(&meeting, 1, secrets);
    cr_assert_arr_eq(secrets[0], secrets[1], SL_SECRET_BYTES);
    part(&meeting);
}

Test(handshake, takes_its_bytes_one_at_a_time)
{
    struct meeting meeting = meet_p256(1);
    uint8_t secrets[2][SL_SECRET_BYTES];

    exports(&meeting, 1, secrets);
    cr_assert_arr_eq(secrets[0], secrets[1], SL_SECRET_BYTES);
    part(&meeting);
}

Test(handshake, exports_other_secrets_for_other_contexts_and_sessions)
{
    struct meeting first = meet_p256(0), second = meet_p256(0), third = meet_p256(0);
    uint8_t a[2][SL_SECRET_BYTES], b[2][SL_SECRET_BYTES], zero[SL_SECRET_BYTES] = {0};
    uint8_t context[2][SL_HASH_BYTES] = {{1}, {2}}, own[2][SL_SECRET_BYTES];

    exports(&first, 1, a);
    exports(&second, 1, b);
    cr_assert_arr_neq(a[0], b[0], SL_SECRET_BYTES, "two sessions");
    cr_assert_arr_neq(a[0], zero, SL_SECRET_BYTES);
    cr_assert_eq(sl_handshake_export(third.pair.client.ours, context[0], own[0]), SEALANE_OK);
    cr_assert_eq(sl_handshake_export(third.pair.server.ours, context[1], own[1]), SEALANE_OK);
    cr_assert_arr_neq(own[0], own[1], SL_SECRET_BYTES, "two contexts");
    part(&first);
    part(&second);
    part(&third);
}

Test(handshake, exports_once_and_then_the_session_is_over)
{
    struct meeting meeting = meet_p256(0);
    uint8_t secrets[2][SL_SECRET_BYTES], context[SL_HASH_BYTES] = {0};

    exports(&meeting, 1, secrets);
    cr_assert_eq(sl_handshake_export(meeting.pair.client.ours, context, secrets[0]),
                 SEALANE_FAILED_PRECONDITION);
    cr_assert_eq(sl_handshake_write(meeting.pair.client.ours, context, 1),
                 SEALANE_FAILED_PRECONDITION);
    cr_assert_eq(sl_handshake_advance(meeting.pair.client.ours), SEALANE_FAILED_PRECONDITION);
    cr_assert_str_eq(sl_handshake_suite(meeting.pair.client.ours), "TLS_CHACHA20_POLY1305_SHA256");
    part(&meeting);
}

Test(handshake, gives_no_secret_and_takes_no_message_before_it_is_secured)
{
    struct meeting meeting = {.client_credentials =
                                  certs_load("root-p256", "good/client-p256", NULL)};
    uint8_t secret[SL_SECRET_BYTES], context[SL_HASH_BYTES] = {0}, message[SL_TLS_MESSAGE_MAX];
    size_t bytes;

    meeting.pair.client.ours = tls_ours(meeting.client_credentials, server_name);
    for (int advanced = 0; advanced < 2; advanced++) {
        cr_assert_eq(sl_handshake_export(meeting.pair.client.ours, context, secret),
                     SEALANE_FAILED_PRECONDITION);
        cr_assert_eq(sl_handshake_write(meeting.pair.client.ours, context, 1),
                     SEALANE_FAILED_PRECONDITION);
        cr_assert_eq(sl_handshake_read(meeting.pair.client.ours, message, &bytes), SL_AGAIN);
        cr_assert_eq(sl_handshake_advance(meeting.pair.client.ours), SL_AGAIN);
    }
    part(&meeting);
}

static void carry(struct meeting *meeting, bool from_client, size_t bytes)
{
    struct tls_end *from = from_client ? &meeting->pair.client : &meeting->pair.server;
    struct tls_end *to = from_client ? &meeting->pair.server : &meeting->pair.client;
    uint8_t sent[SL_TLS_MESSAGE_MAX], got[SL_TLS_MESSAGE_MAX];
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        sent[i] = (uint8_t)(i * 7 + bytes);
    cr_assert_eq(sl_handshake_write(from->ours, sent, bytes), SEALANE_OK);
    tls_pair_run(&meeting->pair);
    cr_assert_eq(sl_handshake_read(to->ours, got, &count), SEALANE_OK, "%zu bytes", bytes);
    cr_assert_eq(count, bytes);
    cr_assert(bytes == 0 || memcmp(got, sent, bytes) == 0);
    cr_assert_eq(sl_handshake_read(to->ours, got, &count), SL_AGAIN);
}

Test(handshake, carries_whole_messages_of_every_size_both_ways)
{
    static const size_t sizes[] = {
        0, 1, 2, 255, 256, 1000, SL_TLS_MESSAGE_MAX - 1, SL_TLS_MESSAGE_MAX};

    for (size_t piece = 0; piece <= 7; piece += 7) {
        struct meeting meeting = meet_p256(piece);

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            carry(&meeting, i % 2 == 0, sizes[i]);
        part(&meeting);
    }
}

Test(handshake, refuses_to_write_a_message_above_the_limit)
{
    struct meeting meeting = meet_p256(0);
    uint8_t message[SL_TLS_MESSAGE_MAX + 1] = {0};

    cr_assert_eq(sl_handshake_write(meeting.pair.client.ours, message, sizeof(message)),
                 SEALANE_INVALID_ARGUMENT);
    part(&meeting);
}

Test(handshake, keeps_two_messages_that_came_together_apart)
{
    struct meeting meeting = meet_p256(0);
    uint8_t got[SL_TLS_MESSAGE_MAX];
    size_t bytes;

    cr_assert_eq(sl_handshake_write(meeting.pair.server.ours, (const uint8_t *)"one", 3),
                 SEALANE_OK);
    cr_assert_eq(sl_handshake_write(meeting.pair.server.ours, (const uint8_t *)"second", 6),
                 SEALANE_OK);
    tls_pair_run(&meeting.pair);
    cr_assert_eq(sl_handshake_read(meeting.pair.client.ours, got, &bytes), SEALANE_OK);
    cr_assert(bytes == 3 && memcmp(got, "one", 3) == 0);
    cr_assert_eq(sl_handshake_read(meeting.pair.client.ours, got, &bytes), SEALANE_OK);
    cr_assert(bytes == 6 && memcmp(got, "second", 6) == 0);
    part(&meeting);
}

Test(handshake, tells_both_ends_the_same_two_fingerprints)
{
    struct meeting meeting = meet_p256(0);
    uint8_t seen[2][2][SL_FINGERPRINT_BYTES];

    sl_handshake_fingerprints(meeting.pair.client.ours, seen[0][0], seen[0][1]);
    sl_handshake_fingerprints(meeting.pair.server.ours, seen[1][0], seen[1][1]);
    cr_assert_arr_eq(seen[0], seen[1], sizeof(seen[0]));
    cr_assert_arr_neq(seen[0][0], seen[0][1], SL_FINGERPRINT_BYTES);
    part(&meeting);
}

Test(handshake, needs_the_server_s_name_in_a_client)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/client-p256", NULL);
    struct sl_handshake_options options = {.credentials = credentials};
    struct sl_handshake *handshake = NULL;

    cr_assert_eq(sl_handshake_new(&options, &handshake), SEALANE_INVALID_ARGUMENT);
    options.server_name = "http://server.test";
    cr_assert_eq(sl_handshake_new(&options, &handshake), SEALANE_INVALID_ARGUMENT);
    cr_assert_null(handshake);
    sealane_credentials_free(credentials);
}

Test(handshake, ends_when_more_than_64_KiB_wait_unread)
{
    struct meeting meeting = {.client_credentials =
                                  certs_load("root-p256", "good/client-p256", NULL)};
    static uint8_t bytes[65537];

    meeting.pair.client.ours = tls_ours(meeting.client_credentials, server_name);
    sl_handshake_feed(meeting.pair.client.ours, bytes, sizeof(bytes));
    cr_assert_eq(sl_handshake_advance(meeting.pair.client.ours), SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_eq(sl_handshake_advance(meeting.pair.client.ours), SEALANE_RESOURCE_EXHAUSTED);
    part(&meeting);
}

/* A context keeps the intermediates that a peer sent: the next one must bring its own. */
Test(handshake, learns_nothing_from_one_peer_for_the_next)
{
    struct meeting meeting = meet_p256(0);
    struct tls_pair second = {
        .client = {.ours = tls_ours(meeting.client_credentials, server_name)},
        .server = {.peer = tls_peer_new(&(struct tls_peer_options){
                       .server = true, .alpn = "sealane/1", .certificate = "bad/no-intermediate"})},
    };

    tls_pair_run(&second);
    cr_assert_eq(second.client.status, SEALANE_UNAUTHENTICATED);
    tls_pair_free(&second);
    part(&meeting);
}
