/* SPDX-License-Identifier: Apache-2.0 */
/* refusals_test.c - every way in which a TLS handshake must fail, and what both ends then say: the judging one names the field seen
 * and wanted, the other one the alert by its RFC 8446 name and the certificate that it had shown. With SEALANE_TEST_LINK=verbs each
 * quarrel is also had by two nodes over RDMA: the last alert reaches its reader before the link's end does. */
#include "tests/support/certs.h"
#include "tests/support/rdma.h"
#include "tests/support/tls_pair.h"
#include "transport/lane.h"
#include "transport/node.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DAY = 86400
};

/* What one end brings: its certificate, who it trusts, whom it wants. */
struct side {
    const char *ca, *name, *wanted;
};

struct quarrel {
    struct side client,
        server;      /* wanted: the client's name for the server, the server's allowed peer */
    long load_shift; /* the clock while the certificates are loaded */
};

struct outcome {
    char client[512], server[512];
};

/* ---- over a link ---- */

static enum sealane_status told(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    char *why = owner;

    (void)lane;
    cr_assert_neq(event->kind, SL_LANE_READY, "the lane came up");
    if (event->kind == SL_LANE_CLOSED && why) {
        cr_assert_eq(event->status, SEALANE_UNAUTHENTICATED);
        (void)snprintf(why, 512, "%.*s", (int)event->count, (const char *)event->bytes);
    }
    return SEALANE_OK;
}

/* The client's words are the same, but for the time of the day at their end. */
static void quarrel_over_verbs(struct sealane_credentials *client,
                               struct sealane_credentials *server, const char *wanted,
                               const char *why)
{
    const struct sealane_node_options polled = {.polled = true};
    struct sl_lane_options options = {.on_event = told, .credentials = server, .link = "verbs"};
    struct sealane_node *nodes[2];
    struct sl_listener *listener;
    struct sl_lane *lane;
    const char *clock = strstr(why, ", now ");
    size_t count = clock ? (size_t)(clock - why) : strlen(why) + 1;
    char address[64], said[512] = "";

    cr_assert(rdma_address(address, sizeof(address), 0), "no RDMA device has an address");
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sealane_node_new(&polled, &nodes[i]), SEALANE_OK);
    cr_assert_eq(sl_node_listen(nodes[0], address, &options, &listener), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    options.credentials = client;
    options.server_name = wanted;
    options.owner = said;
    cr_assert_eq(sl_node_connect(nodes[1], address, &options, &lane), SEALANE_OK);
    for (int i = 0; i < 10000 && !said[0]; i++) {
        cr_assert_eq(sealane_node_poll(nodes[i % 2], i % 2), SEALANE_OK);
    }
    cr_assert_eq(strncmp(said, why, count), 0, "over memory: %s\nover verbs: %s", why, said);
    for (int i = 1; i >= 0; i--)
        sealane_node_free(nodes[i]);
}

static struct outcome quarrel(const struct quarrel *quarrel)
{
    struct sealane_credentials *client, *server;
    struct tls_pair pair = {.piece = 0};
    struct outcome outcome;

    certs_clock_shift(quarrel->load_shift);
    client = certs_load(quarrel->client.ca, quarrel->client.name, NULL);
    server = certs_load(quarrel->server.ca, quarrel->server.name, quarrel->server.wanted);
    certs_clock_shift(0);
    pair.client.ours =
        tls_ours(client, quarrel->client.wanted ? quarrel->client.wanted : "dns:server.test");
    pair.server.ours = tls_ours(server, NULL);
    tls_pair_run(&pair);
    cr_assert_eq(pair.client.status, SEALANE_UNAUTHENTICATED, "client: %d %s", pair.client.status,
                 pair.client.why);
    cr_assert_eq(pair.server.status, SEALANE_UNAUTHENTICATED, "server: %d %s", pair.server.status,
                 pair.server.why);
    (void)snprintf(outcome.client, sizeof(outcome.client), "%s", pair.client.why);
    (void)snprintf(outcome.server, sizeof(outcome.server), "%s", pair.server.why);
    tls_pair_free(&pair);
    if (rdma_wanted())
        quarrel_over_verbs(client, server,
                           quarrel->client.wanted ? quarrel->client.wanted : "dns:server.test",
                           outcome.client);
    sealane_credentials_free(client);
    sealane_credentials_free(server);
    return outcome;
}

static void says(const char *text, const char *const *words)
{
    for (; *words; words++)
        cr_assert(strstr(text, *words), "expected \"%s\" in: %s", *words, text);
}
#define SAYS(text, ...) says((text), (const char *const[]){__VA_ARGS__, NULL})

static const struct side good_client = {"root-p256", "good/client-p256", NULL};
static const struct side good_server = {"root-p256", "good/server-p256", NULL};

/* ---- who issued it, and when ---- */

Test(refusals, client_of_another_authority)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "good/client-rsa2048", NULL},
                                  .server = good_server});

    SAYS(outcome.server, "client certificate", "issuer \"CN=Test Intermediate rsa2048\"",
         "root-p256.pem");
    SAYS(
        outcome.client,
        "the server refused our certificate \"uri:spiffe://cluster.test/ns/default/sa/client\" of ",
        "good/client-rsa2048.pem", "alert unknown_ca (48)");
}

Test(refusals, server_of_another_authority)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = good_client,
                                  .server = {"root-p256", "good/server-rsa2048", NULL}});

    SAYS(outcome.client, "server certificate", "issuer \"CN=Test Intermediate rsa2048\"",
         "root-p256.pem");
    SAYS(outcome.server, "the client refused our certificate", "good/server-rsa2048.pem",
         "alert unknown_ca (48)");
}

Test(refusals, authority_that_bears_the_right_name)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "bad/wrong-ca-client", NULL},
                                  .server = good_server});

    SAYS(outcome.server, "client certificate");
    SAYS(outcome.client, "the server refused our certificate", "bad/wrong-ca-client.pem",
         "alert unknown_ca (48)");
}

Test(refusals, expired_client)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "bad/expired-client", NULL},
                                  .server = good_server,
                                  .load_shift = -10 * DAY});

    SAYS(outcome.server, "client certificate \"CN=client.test\": expired: notAfter 20",
         " UTC, now 20");
    SAYS(outcome.client, "the server refused our certificate", "bad/expired-client.pem",
         "alert certificate_expired (45)");
}

Test(refusals, expired_server)
{
    struct outcome outcome = quarrel(&(struct quarrel){.client = good_client,
                                                       .server = {"root-p256", "bad/expired", NULL},
                                                       .load_shift = -10 * DAY});

    SAYS(outcome.client, "server certificate \"CN=server.test\": expired: notAfter 20",
         " UTC, now 20");
    SAYS(outcome.server, "the client refused our certificate", "bad/expired.pem",
         "alert certificate_expired (45)");
}

Test(refusals, client_not_yet_valid)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "bad/future-client", NULL},
                                  .server = good_server,
                                  .load_shift = 1900L * DAY});

    SAYS(outcome.server, "client certificate \"CN=client.test\": not yet valid: notBefore 20",
         " UTC, now 20");
    SAYS(outcome.client, "the server refused our certificate", "bad/future-client.pem",
         "alert certificate_expired (45)");
}

Test(refusals, server_not_yet_valid)
{
    struct outcome outcome = quarrel(&(struct quarrel){.client = good_client,
                                                       .server = {"root-p256", "bad/future", NULL},
                                                       .load_shift = 1900L * DAY});

    SAYS(outcome.client, "server certificate \"CN=server.test\": not yet valid: notBefore 20",
         " UTC, now 20");
    SAYS(outcome.server, "the client refused our certificate", "bad/future.pem",
         "alert certificate_expired (45)");
}

/* ---- its names ---- */

Test(refusals, server_of_another_dns_name)
{
    struct outcome outcome = quarrel(
        &(struct quarrel){.client = good_client, .server = {"root-p256", "bad/wrong-name", NULL}});

    SAYS(
        outcome.client,
        "server certificate \"CN=server.test\": subjectAltName has DNS:other.test, IP:192.0.2.1, URI:spiffe://",
        "wanted DNS:server.test");
    SAYS(outcome.server, "the client refused our certificate", "bad/wrong-name.pem",
         "alert bad_certificate (42)");
}

Test(refusals, server_of_another_address)
{
    struct side client = good_client;
    struct outcome outcome;

    client.wanted = "ip:127.0.0.1";
    outcome =
        quarrel(&(struct quarrel){.client = client, .server = {"root-p256", "bad/wrong-ip", NULL}});
    SAYS(outcome.client, "subjectAltName has DNS:server.test, IP:192.0.2.1, wanted IP:127.0.0.1");
    SAYS(outcome.server, "the client refused our certificate", "bad/wrong-ip.pem",
         "alert bad_certificate (42)");
    client.wanted = "ip:::2";
    outcome = quarrel(&(struct quarrel){.client = client, .server = good_server});
    SAYS(outcome.client, "IP:::1", "wanted IP:::2");
}

Test(refusals, server_of_another_uri)
{
    struct side client = good_client;
    struct outcome outcome;

    client.wanted = "uri:spiffe://cluster.test/ns/default/sa/other";
    outcome = quarrel(&(struct quarrel){.client = client, .server = good_server});
    SAYS(outcome.client, "URI:spiffe://cluster.test/ns/default/sa/server",
         "wanted URI:spiffe://cluster.test/ns/default/sa/other");
    SAYS(outcome.server, "the client refused our certificate", "good/server-p256.pem",
         "alert bad_certificate (42)");
}

static void client_not_allowed(const char *allowed, const char *text)
{
    struct side server = good_server;
    struct outcome outcome;

    server.wanted = allowed;
    outcome = quarrel(&(struct quarrel){.client = good_client, .server = server});
    SAYS(
        outcome.server,
        "client certificate \"CN=client.test\": subjectAltName has DNS:client.test, IP:127.0.0.1, URI:spiffe://",
        text);
    SAYS(outcome.client, "the server refused our certificate", "good/client-p256.pem",
         "alert bad_certificate (42)");
}

Test(refusals, client_of_a_dns_name_that_is_not_allowed)
{
    client_not_allowed("dns:other.test", "wanted DNS:other.test of allowed_peers");
}

Test(refusals, client_of_an_address_that_is_not_allowed)
{
    client_not_allowed("ip:192.0.2.7", "wanted IP:192.0.2.7 of allowed_peers");
}

Test(refusals, client_of_a_uri_that_is_not_allowed)
{
    client_not_allowed("uri:spiffe://cluster.test/ns/other",
                       "wanted URI:spiffe://cluster.test/ns/other of allowed_peers");
}

/* ---- what it is for ---- */

Test(refusals, client_with_the_extended_key_usage_of_a_server)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "bad/wrong-eku-client", NULL},
                                  .server = good_server});

    SAYS(
        outcome.server,
        "client certificate \"CN=client.test\": extendedKeyUsage has serverAuth, wanted clientAuth");
    SAYS(outcome.client, "the server refused our certificate", "bad/wrong-eku-client.pem",
         "alert bad_certificate (42)");
}

Test(refusals, server_with_the_extended_key_usage_of_a_client)
{
    struct outcome outcome = quarrel(
        &(struct quarrel){.client = good_client, .server = {"root-p256", "bad/wrong-eku", NULL}});

    SAYS(
        outcome.client,
        "server certificate \"CN=server.test\": extendedKeyUsage has clientAuth, wanted serverAuth");
    SAYS(outcome.server, "the client refused our certificate", "bad/wrong-eku.pem",
         "alert bad_certificate (42)");
}

Test(refusals, client_whose_key_usage_lacks_digital_signature)
{
    struct outcome outcome =
        quarrel(&(struct quarrel){.client = {"root-p256", "bad/wrong-ku-client", NULL},
                                  .server = good_server});

    SAYS(outcome.server, "client certificate \"CN=client.test\": keyUsage lacks digitalSignature");
    SAYS(outcome.client, "the server refused our certificate", "bad/wrong-ku-client.pem",
         "alert bad_certificate (42)");
}

Test(refusals, server_whose_key_usage_lacks_digital_signature)
{
    struct outcome outcome = quarrel(
        &(struct quarrel){.client = good_client, .server = {"root-p256", "bad/wrong-ku", NULL}});

    SAYS(outcome.client, "server certificate \"CN=server.test\": keyUsage lacks digitalSignature");
    SAYS(outcome.server, "the client refused our certificate", "bad/wrong-ku.pem",
         "alert bad_certificate (42)");
}

/* ---- peers that are not ours ---- */

struct foreign {
    struct tls_pair pair;
    struct sealane_credentials *credentials;
};

static struct foreign foreign(const struct tls_peer_options *options)
{
    bool server = options->server;
    struct foreign foreign = {
        .credentials =
            certs_load("root-p256", server ? "good/client-p256" : "good/server-p256", NULL)};

    if (server) {
        foreign.pair.client.ours = tls_ours(foreign.credentials, "dns:server.test");
        foreign.pair.server.peer = tls_peer_new(options);
    } else {
        foreign.pair.client.peer = tls_peer_new(options);
        foreign.pair.server.ours = tls_ours(foreign.credentials, NULL);
    }
    tls_pair_run(&foreign.pair);
    return foreign;
}

static void foreign_free(struct foreign *foreign)
{
    tls_pair_free(&foreign->pair);
    sealane_credentials_free(foreign->credentials);
}

Test(refusals, a_peer_that_keeps_the_rules_is_not_refused)
{
    struct foreign client =
        foreign(&(struct tls_peer_options){.alpn = "sealane/1", .certificate = "good/client-p256"});
    struct foreign server = foreign(&(struct tls_peer_options){
        .server = true, .alpn = "sealane/1", .certificate = "good/server-p256"});

    cr_assert_eq(client.pair.server.status, SEALANE_OK, "%s", client.pair.server.why);
    cr_assert_eq(tls_peer_error(client.pair.client.peer), 0);
    cr_assert_eq(server.pair.client.status, SEALANE_OK, "%s", server.pair.client.why);
    foreign_free(&client);
    foreign_free(&server);
}

Test(refusals, client_without_a_certificate)
{
    struct foreign it = foreign(&(struct tls_peer_options){.alpn = "sealane/1"});

    cr_assert_eq(it.pair.server.status, SEALANE_UNAUTHENTICATED);
    SAYS(it.pair.server.why, "the client sent no certificate", "root-p256.pem");
    cr_assert_neq(tls_peer_error(it.pair.client.peer), 0, "the client must learn it");
    foreign_free(&it);
}

Test(refusals, client_of_tls_1_2)
{
    struct foreign it =
        foreign(&(struct tls_peer_options){.tls_1_2 = true, .certificate = "good/client-p256"});

    cr_assert_eq(it.pair.server.status, SEALANE_UNAUTHENTICATED, "%s", it.pair.server.why);
    SAYS(it.pair.server.why, "the client does not offer TLS 1.3");
    cr_assert_neq(tls_peer_error(it.pair.client.peer), 0);
    foreign_free(&it);
}

Test(refusals, server_of_tls_1_2)
{
    struct foreign it = foreign(&(struct tls_peer_options){
        .server = true, .tls_1_2 = true, .certificate = "good/server-p256"});

    cr_assert_eq(it.pair.client.status, SEALANE_UNAUTHENTICATED, "%s", it.pair.client.why);
    SAYS(
        it.pair.client.why,
        "the server ended the handshake: alert handshake_failure (40); we speak TLS 1.3 with TLS_CHACHA20_POLY1305_SHA256 ");
    foreign_free(&it);
}

Test(refusals, client_that_offers_integrity_without_encryption_only)
{
    struct foreign it = foreign(&(struct tls_peer_options){
        .suites = "TLS13-SHA256-SHA256", .alpn = "sealane/1", .certificate = "good/client-p256"});

    cr_assert_eq(it.pair.server.status, SEALANE_UNAUTHENTICATED, "%s", it.pair.server.why);
    SAYS(
        it.pair.server.why,
        "the client offers none of the accepted suites TLS_CHACHA20_POLY1305_SHA256 and TLS_AES_256_GCM_SHA384");
    cr_assert_neq(tls_peer_error(it.pair.client.peer), 0);
    foreign_free(&it);
}

Test(refusals, server_that_has_integrity_without_encryption_only)
{
    struct foreign it = foreign(&(struct tls_peer_options){.server = true,
                                                           .suites = "TLS13-SHA256-SHA256",
                                                           .alpn = "sealane/1",
                                                           .certificate = "good/server-p256"});

    cr_assert_eq(it.pair.client.status, SEALANE_UNAUTHENTICATED, "%s", it.pair.client.why);
    SAYS(it.pair.client.why, "the server ended the handshake: alert handshake_failure (40)");
    foreign_free(&it);
}

Test(refusals, peers_of_another_application_protocol)
{
    struct foreign client =
        foreign(&(struct tls_peer_options){.alpn = "h2", .certificate = "good/client-p256"});
    struct foreign server = foreign(&(
        struct tls_peer_options){.server = true, .alpn = "h2", .certificate = "good/server-p256"});

    cr_assert_eq(client.pair.server.status, SEALANE_UNAUTHENTICATED);
    SAYS(client.pair.server.why, "\"sealane/1\"", "ALPN");
    cr_assert_neq(tls_peer_error(client.pair.client.peer), 0);
    cr_assert_eq(server.pair.client.status, SEALANE_UNAUTHENTICATED);
    SAYS(server.pair.client.why, "\"sealane/1\"", "ALPN");
    foreign_free(&client);
    foreign_free(&server);
}

Test(refusals, peers_of_no_application_protocol)
{
    struct foreign client = foreign(&(struct tls_peer_options){.certificate = "good/client-p256"});
    struct foreign server =
        foreign(&(struct tls_peer_options){.server = true, .certificate = "good/server-p256"});

    cr_assert_eq(client.pair.server.status, SEALANE_UNAUTHENTICATED);
    SAYS(client.pair.server.why, "\"sealane/1\"", "ALPN");
    cr_assert_neq(tls_peer_error(client.pair.client.peer), 0, "the client must learn it");
    cr_assert_eq(server.pair.client.status, SEALANE_UNAUTHENTICATED);
    SAYS(server.pair.client.why, "\"sealane/1\"", "ALPN");
    foreign_free(&client);
    foreign_free(&server);
}

static void plaintext_to(bool server, const char *bytes, const char *words)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/server-p256", NULL);
    struct sl_handshake *handshake = tls_ours(credentials, server ? NULL : "dns:server.test");
    const uint8_t *alert;
    size_t count;

    if (!server)
        cr_assert_eq(sl_handshake_advance(handshake), SL_AGAIN);
    count = sl_handshake_pending(handshake, &alert);
    sl_handshake_sent(handshake, count);
    sl_handshake_feed(handshake, (const uint8_t *)bytes, strlen(bytes));
    cr_assert_eq(sl_handshake_advance(handshake), SEALANE_UNAUTHENTICATED);
    SAYS(sealane_last_error()->message, words);
    count = sl_handshake_pending(handshake, &alert);
    cr_assert(count == 7 && alert[0] == 21 && alert[6] == 10, "an alert for the peer");
    sl_handshake_free(handshake);
    sealane_credentials_free(credentials);
}

Test(refusals, peers_that_speak_plaintext)
{
    plaintext_to(
        true, "GET / HTTP/1.1\r\n\r\n",
        "the peer does not speak TLS: its first byte is 0x47, expected a TLS handshake record (22)");
    plaintext_to(true, "PRI * HTTP/2.0\r\n\r\n", "its first byte is 0x50");
    plaintext_to(false, "HTTP/1.1 400 Bad Request\r\n\r\n", "its first byte is 0x48");
    plaintext_to(false, "SSH-2.0-OpenSSH_9.2\r\n", "its first byte is 0x53");
}

/* ---- all of index.tsv ---- */

static enum sealane_status judge(const struct certs_case *one, char why[512])
{
    const char *wanted = strcmp(one->verify, "-") == 0 ? NULL : one->verify;
    bool server = strcmp(one->role, "server") == 0;
    struct sealane_credentials *credentials =
        certs_load(one->ca, server ? "good/client-p256" : "good/server-p256",
                   server ? NULL : wanted);
    struct tls_peer *peer = tls_peer_new(&(
        struct tls_peer_options){.server = server, .alpn = "sealane/1", .certificate = one->chain});
    struct sl_handshake *ours = tls_ours(credentials, !server  ? NULL
                                                      : wanted ? wanted
                                                               : "dns:server.test");
    struct tls_pair pair = {.piece = 0};
    enum sealane_status status;

    *(server ? &pair.server : &pair.client) = (struct tls_end){.peer = peer};
    *(server ? &pair.client : &pair.server) = (struct tls_end){.ours = ours};
    tls_pair_run(&pair);
    status = server ? pair.client.status : pair.server.status;
    (void)snprintf(why, 512, "%s", server ? pair.client.why : pair.server.why);
    cr_assert(status == SEALANE_OK || tls_peer_error(peer) != 0, "%s must learn that it is refused",
              one->name);
    tls_pair_free(&pair);
    sealane_credentials_free(credentials);
    return status;
}

Test(refusals, judges_every_case_of_the_index_as_it_says)
{
    static struct certs_case cases[CERTS_CASES_MAX];
    size_t count = certs_cases(cases), refused = 0;

    for (size_t i = 0; i < count; i++) {
        bool accept = strcmp(cases[i].expect, "accept") == 0;
        char why[512] = "";
        enum sealane_status status = judge(&cases[i], why);

        cr_expect_eq(status, accept ? SEALANE_OK : SEALANE_UNAUTHENTICATED, "%s: wanted %s: %d %s",
                     cases[i].name, cases[i].expect, status, why);
        cr_expect(accept || strlen(why) > 20, "%s: no words", cases[i].name);
        if (!accept && getenv("REFUSALS_SHOW"))
            fprintf(stderr, "%-20s %s\n", cases[i].name, why);
        refused += !accept;
    }
    cr_assert(count >= 55 && refused >= 38, "%zu cases, %zu to be refused", count, refused);
}
