/* SPDX-License-Identifier: Apache-2.0 */
/* names_test.c - names matched by their type, and the reader of certificates on hostile bytes. */
#include "tests/support/certs.h"
#include "transport/names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- wanted names ---- */

static void parses(const char *text, enum sl_name_type type, const char *value)
{
    struct sl_name name;

    cr_assert_eq(sl_name_parse(text, &name), SEALANE_OK, "%s: %s", text,
                 sealane_last_error()->message);
    cr_assert_eq(name.type, type, "%s", text);
    cr_assert_str_eq(name.text, value);
}

Test(names, reads_a_wanted_name_of_each_type)
{
    parses("dns:server.test", SL_NAME_DNS, "server.test");
    parses("server.test", SL_NAME_DNS, "server.test");
    parses("localhost", SL_NAME_DNS, "localhost");
    parses("dns:10.0.0.7", SL_NAME_DNS, "10.0.0.7");
    parses("10.0.0.7", SL_NAME_IP, "10.0.0.7");
    parses("ip:10.0.0.7", SL_NAME_IP, "10.0.0.7");
    parses("ip:::1", SL_NAME_IP, "::1");
    parses("::1", SL_NAME_IP, "::1");
    parses("uri:spiffe://cluster.test/worker", SL_NAME_URI, "spiffe://cluster.test/worker");
}

Test(names, refuses_a_wanted_name_that_cannot_be_one)
{
    static const char *const bad[] = {
        "",
        "dns:",
        "ip:",
        "uri:",
        "ip:server.test",
        "ip:10.0.0",
        "ip:10.0.0.7.8",
        "ip:127.1",
        "http://server.test",
        "DNS:server.test",
        "dns:*.pool.test",
        "*",
        "dns:.test",
        "dns:a..test",
        "dns:server.test.",
        "dns:a b",
        "dns:a/b",
        "uri:worker",
        "dns:a:b",
    };
    struct sl_name name;
    char longest[SL_NAME_TEXT + 10] = "dns:";

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(sl_name_parse(bad[i], &name), SEALANE_INVALID_ARGUMENT, "\"%s\"", bad[i]);
    memset(longest + 4, 'a', SL_NAME_TEXT - 1);
    cr_assert_eq(sl_name_parse(longest, &name), SEALANE_OK);
    longest[4 + SL_NAME_TEXT - 1] = 'a';
    cr_assert_eq(sl_name_parse(longest, &name), SEALANE_INVALID_ARGUMENT);
}

/* ---- matching ---- */

static struct sl_certificate with(const char *const *texts)
{
    static struct sl_name held[8];
    struct sl_certificate certificate = {.subject = "CN=server.test"};

    for (size_t i = 0; texts[i]; i++) {
        const char *value = strchr(texts[i], ':') + 1;
        struct sl_alt_name *name = &certificate.names[certificate.name_count++];

        if (strncmp(texts[i], "ip:", 3) == 0) {
            cr_assert_eq(sl_name_parse(texts[i], &held[i]), SEALANE_OK);
            *name = (struct sl_alt_name){SL_NAME_IP, held[i].ip, held[i].ip_bytes};
            continue;
        }
        *name = (struct sl_alt_name){texts[i][0] == 'd' ? SL_NAME_DNS : SL_NAME_URI,
                                     (const uint8_t *)value, strlen(value)};
    }
    return certificate;
}
#define WITH(...) with((const char *const[]){__VA_ARGS__, NULL})

static bool has(const struct sl_certificate *certificate, const char *wanted, bool prefix)
{
    struct sl_name name;

    cr_assert_eq(sl_name_parse(wanted, &name), SEALANE_OK, "%s", wanted);
    return sl_certificate_has(certificate, &name, prefix);
}

struct match {
    const char *seen, *wanted;
    bool matches;
};

static void all_match(const struct match *matches, size_t count, bool prefix)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_certificate certificate = WITH(matches[i].seen);

        cr_expect_eq(has(&certificate, matches[i].wanted, prefix), matches[i].matches,
                     "seen %s, wanted %s: should %smatch", matches[i].seen, matches[i].wanted,
                     matches[i].matches ? "" : "not ");
    }
}
#define ALL_MATCH(matches, prefix) \
    all_match((matches), sizeof(matches) / sizeof((matches)[0]), (prefix))

Test(names, dns_names_match_without_case_and_by_one_left_most_wildcard)
{
    static const struct match matches[] = {
        {"dns:server.test", "dns:server.test", true},
        {"dns:SERVER.Test", "dns:server.tEST", true},
        {"dns:server.test", "dns:server.tes", false},
        {"dns:server.test", "dns:erver.test", false},
        {"dns:server.test", "dns:a.server.test", false},
        {"dns:*.pool.test", "dns:a.pool.test", true},
        {"dns:*.POOL.test", "dns:A.pool.TEST", true},
        {"dns:*.pool.test", "dns:a.b.pool.test", false},
        {"dns:*.pool.test", "dns:pool.test", false},
        {"dns:*.pool.test", "dns:apool.test", false},
        {"dns:*.test", "dns:server.test", false},
        {"dns:*.test", "dns:test", false},
        {"dns:*", "dns:localhost", false},
        {"dns:*.", "dns:localhost", false},
        {"dns:a*.pool.test", "dns:ab.pool.test", false},
        {"dns:*a.pool.test", "dns:ba.pool.test", false},
        {"dns:*.*.pool.test", "dns:a.b.pool.test", false},
        {"dns:a.*.test", "dns:a.b.test", false},
        {"dns:server.test.", "dns:server.test", false},
    };

    ALL_MATCH(matches, false);
}

Test(names, types_never_stand_for_one_another)
{
    static const struct match matches[] = {
        {"dns:10.0.0.7", "ip:10.0.0.7", false},
        {"ip:10.0.0.7", "dns:10.0.0.7", false},
        {"uri:server.test:", "dns:server.test", false},
        {"dns:spiffe://a", "uri:spiffe://a", false},
        {"ip:10.0.0.7", "ip:10.0.0.7", true},
        {"ip:10.0.0.7", "ip:10.0.0.8", false},
        {"ip:::1", "ip:::1", true},
        {"ip:::1", "ip:0:0:0:0:0:0:0:1", true},
        {"ip:::ffff:10.0.0.7", "ip:10.0.0.7", false},
    };
    struct sl_certificate none = WITH("uri:x:y");

    ALL_MATCH(matches, false);
    cr_assert_not(has(&none, "dns:server.test", false), "the common name never counts");
}

Test(names, uris_match_exactly)
{
    static const struct match matches[] = {
        {"uri:spiffe://a.test/worker", "uri:spiffe://a.test/worker", true},
        {"uri:spiffe://a.test/worker/0", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/Worker", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker2", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/x/../worker", "uri:spiffe://a.test/x/../worker", false},
        {"uri:spiffe://a.test/./worker", "uri:spiffe://a.test/./worker", false},
        {"uri:spiffe://a.test/worker/..", "uri:spiffe://a.test/worker/..", false},
        {"uri:spiffe://a.test/...", "uri:spiffe://a.test/...", true},
        {"uri:spiffe://a.test/.a", "uri:spiffe://a.test/.a", true},
    };

    ALL_MATCH(matches, false);
}

Test(names, allowed_uris_also_match_below_them_at_a_slash)
{
    static const struct match matches[] = {
        {"uri:spiffe://a.test/worker", "uri:spiffe://a.test/worker", true},
        {"uri:spiffe://a.test/worker/0", "uri:spiffe://a.test/worker", true},
        {"uri:spiffe://a.test/worker/0", "uri:spiffe://a.test/worker/", true},
        {"uri:spiffe://a.test/worker/0/1.5_x-y", "uri:spiffe://a.test", true},
        {"uri:spiffe://a.test/worker2", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test.evil/worker", "uri:spiffe://a.test", false},
        {"uri:spiffe://a.test/worker/../admin", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/..", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/.", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/%2e%2e/admin", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/0?x", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/0#x", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/..\\admin", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker//0", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/worker/", "uri:spiffe://a.test/worker", false},
        {"uri:spiffe://a.test/", "uri:spiffe://a.test/worker", false},
        {"dns:a.test", "dns:test", false},
    };

    ALL_MATCH(matches, true);
}

Test(names, a_spiffe_id_must_be_the_only_uri)
{
    struct sl_certificate two =
        WITH("uri:spiffe://a.test/x", "uri:spiffe://a.test/admin", "dns:x.test");
    struct sl_certificate mixed = WITH("uri:SPIFFE://a.test/x", "uri:https://a.test/x");
    struct sl_certificate plain = WITH("uri:https://a.test/x", "uri:https://a.test/y");
    char text[100];

    cr_assert_not(has(&two, "uri:spiffe://a.test/x", false));
    cr_assert(has(&two, "dns:x.test", false));
    cr_assert_not(has(&mixed, "uri:https://a.test/x", false));
    cr_assert(has(&plain, "uri:https://a.test/y", false));
    sl_certificate_identity(&two, text, sizeof(text));
    cr_assert_str_eq(text, "dns:x.test", "which of two ids it is nobody knows");
}

Test(names, writes_names_for_people)
{
    struct sl_certificate certificate = WITH("dns:x.test", "ip:10.0.0.7", "ip:fe80::1",
                                             "uri:spiffe://a.test/x"),
                          none = WITH(NULL);
    struct sl_certificate address = WITH("ip:10.0.0.7");
    char text[100];

    sl_certificate_list(&certificate, text, sizeof(text));
    cr_assert_str_eq(text, "DNS:x.test, IP:10.0.0.7, IP:fe80::1, URI:spiffe://a.test/x");
    sl_certificate_identity(&certificate, text, sizeof(text));
    cr_assert_str_eq(text, "uri:spiffe://a.test/x");
    sl_certificate_identity(&address, text, sizeof(text));
    cr_assert_str_eq(text, "ip:10.0.0.7");
    sl_certificate_list(&none, text, sizeof(text));
    cr_assert_str_eq(text, "nothing");
    sl_certificate_identity(&none, text, sizeof(text));
    cr_assert_str_eq(text, "subject:CN=server.test",
                     "it may not look like a name of the certificate");
    for (size_t room = 1; room < 40; room++) {
        char *tight = malloc(room);

        sl_certificate_list(&certificate, tight, room);
        cr_assert(strlen(tight) < room);
        free(tight);
    }
}

/* ---- certificates ---- */

struct made {
    uint8_t at[8192];
    size_t bytes;
};

static void put(struct made *to, uint8_t tag, const void *body, size_t bytes)
{
    uint8_t head[4] = {tag, 0x82, (uint8_t)(bytes >> 8), (uint8_t)bytes};

    cr_assert(to->bytes + 4 + bytes <= sizeof(to->at));
    memcpy(to->at + to->bytes, head, 4);
    memcpy(to->at + to->bytes + 4, body, bytes);
    to->bytes += 4 + bytes;
}

static void wrap(struct made *to, uint8_t tag)
{
    struct made inner = *to;

    to->bytes = 0;
    put(to, tag, inner.at, inner.bytes);
}

static void extension(struct made *list, const char *oid, const struct made *body)
{
    static struct made one;

    one.bytes = 0;
    put(&one, 0x06, oid, 3);
    put(&one, 0x04, body->at, body->bytes);
    wrap(&one, 0x30);
    memcpy(list->at + list->bytes, one.at, one.bytes);
    list->bytes += one.bytes;
}

static const char oid_ecdsa_sha256[] = "\x2a\x86\x48\xce\x3d\x04\x03\x02";

struct plan {
    const char *time, *inner, *outer; /* NULL: good ones */
    const struct made *extensions;
};

static void algorithm(struct made *to, const char *oid)
{
    static struct made one;

    one.bytes = 0;
    put(&one, 0x06, oid ? oid : oid_ecdsa_sha256, strlen(oid ? oid : oid_ecdsa_sha256));
    put(to, 0x30, one.at, one.bytes);
}

static struct made make(const struct plan *plan)
{
    static struct made tbs, part, whole;
    const char *time = plan->time ? plan->time : "20260101000000Z";

    tbs.bytes = part.bytes = whole.bytes = 0;
    put(&tbs, 0x02, "\1", 1);
    algorithm(&tbs, plan->inner);
    put(&tbs, 0x30, "", 0);
    put(&part, strlen(time) == 15 ? 0x18 : 0x17, time, strlen(time));
    put(&part, 0x18, "20270101000000Z", 15);
    put(&tbs, 0x30, part.at, part.bytes);
    put(&tbs, 0x30, "", 0);
    part.bytes = 0;
    put(&part, 0x30, "", 0);
    put(&part, 0x03, "\0\4xy", 4);
    put(&tbs, 0x30, part.at, part.bytes);
    if (plan->extensions) {
        part = *plan->extensions;
        wrap(&part, 0x30);
        put(&tbs, 0xa3, part.at, part.bytes);
    }
    put(&whole, 0x30, tbs.at, tbs.bytes);
    algorithm(&whole, plan->outer);
    put(&whole, 0x03, "\0x", 2);
    wrap(&whole, 0x30);
    return whole;
}

static bool reads(const struct plan *plan, struct sl_certificate *certificate_p)
{
    struct made made = make(plan);
    uint8_t *exact = malloc(made.bytes); /* of just this size: the sanitizer sees a read past it */
    bool good;

    memcpy(exact, made.at, made.bytes);
    good = sl_certificate_parse(exact, made.bytes, certificate_p);
    free(exact);
    return good;
}

static const char oid_names[] = "\x55\x1d\x11", oid_key_usage[] = "\x55\x1d\x0f";

static bool reads_name(uint8_t tag, const char *name, size_t bytes)
{
    static struct made body, list;
    struct sl_certificate certificate;

    body.bytes = list.bytes = 0;
    put(&body, tag, name, bytes);
    wrap(&body, 0x30);
    extension(&list, oid_names, &body);
    return reads(&(struct plan){.extensions = &list}, &certificate);
}

Test(names, reads_the_names_of_a_certificate_only_when_they_are_what_their_type_says)
{
    char longest[SL_NAME_TEXT];

    memset(longest, 'a', sizeof(longest));
    cr_assert(reads_name(0x82, "server.test", 11));
    cr_assert(reads_name(0x82, longest, SL_NAME_TEXT - 1));
    cr_assert(reads_name(0x87, "\12\0\0\7", 4));
    cr_assert(reads_name(0x81, "a\0b", 3), "a mailbox is nothing that we match");
    cr_assert_not(reads_name(0x82, longest, SL_NAME_TEXT));
    cr_assert_not(reads_name(0x82, "server.test\0.evil.test", 22));
    cr_assert_not(reads_name(0x86, "spiffe://a\nb", 12));
    cr_assert_not(reads_name(0x82, "a b", 3));
    cr_assert_not(reads_name(0x82, "caf\xc3\xa9", 5));
    cr_assert_not(reads_name(0x82, "", 0));
    cr_assert_not(reads_name(0x87, "\12\0\0\7\0", 5));
    cr_assert_not(reads_name(0x87, "", 0));
}

Test(names, invariant_9_refuses_more_names_than_there_is_room_for)
{
    static struct made body, list;
    struct sl_certificate certificate;

    for (size_t count = SL_NAMES_MAX; count <= SL_NAMES_MAX + 1; count++) {
        body.bytes = list.bytes = 0;
        for (size_t i = 0; i < count; i++)
            put(&body, 0x82, "a.test", 6);
        wrap(&body, 0x30);
        extension(&list, oid_names, &body);
        cr_assert_eq(reads(&(struct plan){.extensions = &list}, &certificate),
                     count == SL_NAMES_MAX);
    }
    cr_assert_eq(certificate.name_count, SL_NAMES_MAX);
}

Test(names, refuses_an_extension_that_comes_twice)
{
    static struct made bits, list;
    struct sl_certificate certificate;

    put(&bits, 0x03, "\7\x80", 2);
    extension(&list, oid_key_usage, &bits);
    cr_assert(reads(&(struct plan){.extensions = &list}, &certificate));
    cr_assert(certificate.has_key_usage && certificate.digital_signature);
    extension(&list, oid_key_usage, &bits);
    cr_assert_not(reads(&(struct plan){.extensions = &list}, &certificate));
}

Test(names, reads_both_forms_of_time)
{
    static const char *const bad[] = {"20260101000000",  "2601010000Z",       "20260101000000+",
                                      "2026010100000xZ", "260101000000+0100", ""};
    struct sl_certificate certificate;

    cr_assert(reads(&(struct plan){.time = "20260101000000Z"}, &certificate));
    cr_assert_str_eq(certificate.not_before, "20260101000000Z");
    cr_assert(reads(&(struct plan){.time = "260101000000Z"}, &certificate));
    cr_assert_str_eq(certificate.not_before, "20260101000000Z");
    cr_assert(reads(&(struct plan){.time = "500101000000Z"}, &certificate));
    cr_assert_str_eq(certificate.not_before, "19500101000000Z");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(reads(&(struct plan){.time = bad[i]}, &certificate), "%s", bad[i]);
}

Test(names, knows_strong_signatures_by_name_and_no_other)
{
    static const struct {
        const char *oid;
        bool strong;
    } algorithms[] = {
        {"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", true},  /* RSA with SHA-256 */
        {"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", true},  /* RSA with SHA-512 */
        {"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", false}, /* RSA with SHA-1 */
        {"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", false}, /* RSA with MD5 */
        {"\x2a\x86\x48\xce\x3d\x04\x03\x03", true},      /* ECDSA with SHA-384 */
        {"\x2a\x86\x48\xce\x3d\x04\x03\x01", false},     /* ECDSA with SHA-224 */
        {"\x2a\x86\x48\xce\x3d\x04\x01", false},         /* ECDSA with SHA-1 */
        {"\x2b\x65\x70", true},                          /* Ed25519 */
    };
    struct sl_certificate certificate;

    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        cr_assert(reads(&(struct plan){.inner = algorithms[i].oid, .outer = algorithms[i].oid},
                        &certificate));
        cr_assert_eq(certificate.strong_signature, algorithms[i].strong, "%zu", i);
        cr_assert_eq(sl_certificate_check_signature(&certificate, "server"),
                     algorithms[i].strong ? SEALANE_OK : SEALANE_UNAUTHENTICATED);
    }
    cr_assert_not(reads(&(struct plan){.inner = algorithms[0].oid}, &certificate),
                  "it says another one inside than outside");
}

Test(names, judges_dates_to_the_second)
{
    struct sl_certificate certificate = {.subject = "CN=x",
                                         .not_before = "20260101000000Z",
                                         .not_after = "20260101000010Z"};
    const long first = 1767225600 - (long)time(NULL);

    for (long second = -1; second <= 11; second++) {
        certs_clock_shift(first + second);
        cr_assert_eq(sl_certificate_check_dates(&certificate, "server"),
                     second < 0 || second > 10 ? SEALANE_UNAUTHENTICATED : SEALANE_OK, "%ld",
                     second);
    }
    cr_assert_str_eq(
        sealane_last_error()->message,
        "server certificate \"CN=x\": expired: notAfter 2026-01-01 00:00:10 UTC, now 2026-01-01 00:00:11 UTC");
}

/* ---- a real certificate, damaged ---- */

static size_t real(uint8_t *der, size_t room)
{
    char path[CERTS_PATH];
    FILE *file = fopen(certs_path("good/server-p256.der", path), "rb");
    size_t bytes;

    cr_assert(file, "%s", path);
    bytes = fread(der, 1, room, file);
    (void)fclose(file);
    return bytes;
}

Test(names, reads_a_real_certificate)
{
    static uint8_t der[4096];
    struct sl_certificate certificate;
    char text[300];

    cr_assert(sl_certificate_parse(der, real(der, sizeof(der)), &certificate));
    cr_assert_str_eq(certificate.subject, "CN=server.test");
    cr_assert_str_eq(certificate.issuer, "CN=Test Intermediate p256");
    cr_assert(certificate.server_auth && !certificate.client_auth &&
              certificate.digital_signature && !certificate.is_ca);
    cr_assert(certificate.strong_signature);
    sl_certificate_list(&certificate, text, sizeof(text));
    cr_assert_str_eq(text, "DNS:server.test, DNS:*.pool.test, DNS:localhost, IP:127.0.0.1, IP:::1, "
                           "URI:spiffe://cluster.test/ns/default/sa/server");
}

Test(names, invariant_9_reads_no_certificate_that_is_cut_or_longer)
{
    static uint8_t der[4096];
    size_t bytes = real(der, sizeof(der));
    struct sl_certificate certificate;

    for (size_t cut = 0; cut <= bytes + 1; cut++) {
        uint8_t *exact = calloc(1, cut + 1);

        memcpy(exact + 1, der, cut); /* ends where the memory ends */
        cr_assert_eq(sl_certificate_parse(exact + 1, cut, &certificate), cut == bytes,
                     "%zu of %zu bytes", cut, bytes);
        free(exact);
    }
}

Test(names, survives_every_byte_of_a_certificate_changed)
{
    static uint8_t der[4096];
    size_t bytes = real(der, sizeof(der)), refused = 0;
    uint8_t *exact = malloc(bytes);
    struct sl_certificate certificate;
    char text[300];

    for (size_t at = 0; at < bytes; at++) {
        for (unsigned change = 1; change < 256; change += 2) {
            memcpy(exact, der, bytes);
            exact[at] ^= (uint8_t)change;
            if (!sl_certificate_parse(exact, bytes, &certificate)) {
                refused++;
                continue;
            }
            sl_certificate_list(&certificate, text, sizeof(text));
            sl_certificate_identity(&certificate, text, sizeof(text));
        }
    }
    cr_assert(refused > 5000, "%zu", refused);
    free(exact);
}
