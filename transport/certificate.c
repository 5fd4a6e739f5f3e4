/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.c - a bounded reader of X.509 DER (RFC 5280). */
#include "transport/certificate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- DER ---- */

enum {
    TAG_BOOLEAN = 0x01,
    TAG_BITS = 0x03,
    TAG_OCTETS = 0x04,
    TAG_OID = 0x06,
    TAG_UTC_TIME = 0x17,
    TAG_SEQUENCE = 0x30,
    TAG_SET = 0x31,
    TAG_DNS = 0x82, /* of GeneralName, RFC 5280 4.2.1.6 */
    TAG_URI = 0x86,
    TAG_IP = 0x87,
    TAG_VERSION = 0xa0,
    TAG_EXTENSIONS = 0xa3
};

struct der {
    const uint8_t *at;
    size_t left;
};

/* The next element; false at the end or when its length lies. */
static bool der_next(struct der *der, uint8_t *tag_p, struct der *body_p)
{
    size_t length, head = 2, count;

    if (der->left < 2)
        return false;
    length = der->at[1];
    if (length & 0x80) {
        count = length & 0x7f;
        if (count == 0 || count > 3 || der->left < 2 + count)
            return false;
        length = 0;
        for (size_t i = 0; i < count; i++)
            length = length << 8 | der->at[2 + i];
        head += count;
    }
    if (length > der->left - head)
        return false;
    *tag_p = der->at[0];
    *body_p = (struct der){der->at + head, length};
    der->at += head + length;
    der->left -= head + length;
    return true;
}

static bool der_expect(struct der *der, uint8_t tag, struct der *body_p)
{
    uint8_t seen;
    return der_next(der, &seen, body_p) && seen == tag;
}

static bool der_equals(const struct der *der, const char *bytes, size_t count)
{
    return der->left == count && memcmp(der->at, bytes, count) == 0;
}

static void printable(const uint8_t *at, size_t bytes, char *text, size_t size)
{
    size_t i;

    for (i = 0; i < bytes && i + 1 < size; i++)
        text[i] = at[i] >= 0x20 && at[i] < 0x7f ? (char)at[i] : '?';
    text[i] = '\0';
}

/* The common name, or the last attribute when there is none. */
static bool read_subject(struct der name, char *text, size_t size)
{
    struct der set, pair, oid, value;
    uint8_t tag;

    (void)snprintf(text, size, "(empty)");
    while (name.left > 0) {
        if (!der_expect(&name, TAG_SET, &set) || !der_expect(&set, TAG_SEQUENCE, &pair) ||
            !der_expect(&pair, TAG_OID, &oid) || !der_next(&pair, &tag, &value))
            return false;
        if (der_equals(&oid, "\x55\x04\x03", 3)) {
            (void)snprintf(text, size, "CN=");
            printable(value.at, value.left, text + 3, size - 3);
            return true;
        }
        (void)snprintf(text, size, "?="); /* never bare: an organisation may be called "uri:…" */
        printable(value.at, value.left, text + 2, size - 2);
    }
    return true;
}

/* UTCTime writes two digits of the year, GeneralizedTime four; both end in seconds and Z (RFC 5280 4.1.2.5). */
static bool read_time(struct der *validity, char text[SL_TIME_TEXT])
{
    struct der value;
    uint8_t tag;
    size_t century;

    if (!der_next(validity, &tag, &value))
        return false;
    century = tag == TAG_UTC_TIME ? 2 : 0;
    if (value.left + century != SL_TIME_TEXT - 1)
        return false;
    if (century > 0)
        memcpy(text, value.at[0] >= '5' ? "19" : "20", century);
    memcpy(text + century, value.at, value.left);
    text[SL_TIME_TEXT - 1] = '\0';
    return strspn(text, "0123456789") == SL_TIME_TEXT - 2 && text[SL_TIME_TEXT - 2] == 'Z';
}

static bool is_text(const struct der *name)
{
    for (size_t i = 0; i < name->left; i++) {
        if (name->at[i] <= 0x20 || name->at[i] >= 0x7f)
            return false;
    }
    return name->left > 0 && name->left < SL_NAME_TEXT;
}

static bool read_name(uint8_t tag, const struct der *name, struct sl_certificate *certificate)
{
    struct sl_alt_name to = {.at = name->at, .bytes = name->left};

    if (tag == TAG_DNS || tag == TAG_URI) {
        to.type = tag == TAG_DNS ? SL_NAME_DNS : SL_NAME_URI;
        if (!is_text(name))
            return false;
    } else if (tag == TAG_IP) {
        to.type = SL_NAME_IP;
        if (name->left != 4 && name->left != 16)
            return false;
    } else {
        return true; /* a mailbox, a directory name: nothing that we match */
    }
    if (certificate->name_count == SL_NAMES_MAX)
        return false;
    certificate->names[certificate->name_count++] = to;
    return true;
}

static bool read_names(struct der body, struct sl_certificate *certificate)
{
    struct der list, name;
    uint8_t tag;

    if (certificate->name_count > 0 || !der_expect(&body, TAG_SEQUENCE, &list))
        return false;
    while (list.left > 0) {
        if (!der_next(&list, &tag, &name) || !read_name(tag, &name, certificate))
            return false;
    }
    return true;
}

static bool read_extended_usage(struct der body, struct sl_certificate *certificate)
{
    struct der list, oid;

    if (certificate->has_extended_usage || !der_expect(&body, TAG_SEQUENCE, &list))
        return false;
    certificate->has_extended_usage = true;
    while (list.left > 0) {
        if (!der_expect(&list, TAG_OID, &oid))
            return false;
        certificate->server_auth |= der_equals(&oid, "\x2b\x06\x01\x05\x05\x07\x03\x01", 8);
        certificate->client_auth |= der_equals(&oid, "\x2b\x06\x01\x05\x05\x07\x03\x02", 8);
    }
    return true;
}

static bool read_key_usage(struct der body, struct sl_certificate *certificate)
{
    struct der bits;

    if (certificate->has_key_usage || !der_expect(&body, TAG_BITS, &bits) || bits.left < 1)
        return false;
    certificate->has_key_usage = true;
    certificate->digital_signature = bits.left >= 2 && (bits.at[1] & 0x80) != 0;
    return true;
}

static bool read_constraints(struct der body, struct sl_certificate *certificate)
{
    struct der inner, flag;

    if (!der_expect(&body, TAG_SEQUENCE, &inner))
        return false;
    if (inner.left > 0 && der_expect(&inner, TAG_BOOLEAN, &flag))
        certificate->is_ca |= flag.left != 1 || flag.at[0] != 0;
    return true;
}

/* None may come twice (RFC 5280 4.2): which one counts would be a matter of opinion. */
static bool read_extension(const struct der *oid, struct der body,
                           struct sl_certificate *certificate)
{
    if (der_equals(oid, "\x55\x1d\x11", 3))
        return read_names(body, certificate);
    if (der_equals(oid, "\x55\x1d\x25", 3))
        return read_extended_usage(body, certificate);
    if (der_equals(oid, "\x55\x1d\x0f", 3))
        return read_key_usage(body, certificate);
    if (der_equals(oid, "\x55\x1d\x13", 3))
        return read_constraints(body, certificate);
    return true;
}

static bool read_extensions(struct der extensions, struct sl_certificate *certificate)
{
    struct der list, extension, oid, body;
    uint8_t tag;

    if (!der_expect(&extensions, TAG_SEQUENCE, &list))
        return false;
    while (list.left > 0) {
        if (!der_expect(&list, TAG_SEQUENCE, &extension) ||
            !der_expect(&extension, TAG_OID, &oid) || !der_next(&extension, &tag, &body))
            return false;
        if (tag == TAG_BOOLEAN && !der_next(&extension, &tag, &body)) /* critical */
            return false;
        if (tag != TAG_OCTETS || !read_extension(&oid, body, certificate))
            return false;
    }
    return true;
}

/* A list of what is good, as what is bad grows: RSA and ECDSA with SHA-256, -384 or -512, Ed25519 (RFC 4055, 5758, 8410). */
static bool is_strong(struct der algorithm)
{
    static const char rsa[] = "\x2a\x86\x48\x86\xf7\x0d\x01\x01",
                      ecdsa[] = "\x2a\x86\x48\xce\x3d\x04\x03";
    struct der oid;

    if (!der_expect(&algorithm, TAG_OID, &oid))
        return false;
    if (oid.left == 9 && memcmp(oid.at, rsa, 8) == 0)
        return oid.at[8] >= 0x0b && oid.at[8] <= 0x0d;
    if (oid.left == 8 && memcmp(oid.at, ecdsa, 7) == 0)
        return oid.at[7] >= 2 && oid.at[7] <= 4;
    return der_equals(&oid, "\x2b\x65\x70", 3);
}

static bool read_validity(struct der *tbs, struct sl_certificate *certificate)
{
    struct der validity;

    return der_expect(tbs, TAG_SEQUENCE, &validity) &&
           read_time(&validity, certificate->not_before) &&
           read_time(&validity, certificate->not_after);
}

static bool read_subjects(struct der *tbs, struct sl_certificate *certificate)
{
    struct der name;

    if (!der_expect(tbs, TAG_SEQUENCE, &name) ||
        !read_subject(name, certificate->issuer, sizeof(certificate->issuer)))
        return false;
    if (!read_validity(tbs, certificate))
        return false;
    return der_expect(tbs, TAG_SEQUENCE, &name) &&
           read_subject(name, certificate->subject, sizeof(certificate->subject));
}

static bool read_public_key(struct der *tbs, struct sl_certificate *certificate)
{
    struct der info, algorithm, bits;

    if (!der_expect(tbs, TAG_SEQUENCE, &info) || !der_expect(&info, TAG_SEQUENCE, &algorithm) ||
        !der_expect(&info, TAG_BITS, &bits) || bits.left < 2 || bits.at[0] != 0)
        return false;
    certificate->public_key = bits.at + 1;
    certificate->public_key_bytes = bits.left - 1;
    return true;
}

/* TBSCertificate, RFC 5280 4.1.2: version, serial, algorithm, issuer, validity, subject, key, extensions. */
static bool read_tbs(struct der tbs, struct der *algorithm_p, struct sl_certificate *certificate)
{
    struct der body;
    uint8_t tag;

    if (!der_next(&tbs, &tag, &body) || (tag == TAG_VERSION && !der_next(&tbs, &tag, &body)))
        return false;
    if (!der_expect(&tbs, TAG_SEQUENCE, algorithm_p) || !read_subjects(&tbs, certificate) ||
        !read_public_key(&tbs, certificate))
        return false;
    while (tbs.left > 0) {
        if (!der_next(&tbs, &tag, &body) ||
            (tag == TAG_EXTENSIONS && !read_extensions(body, certificate)))
            return false;
    }
    return true;
}

/* The algorithm stands inside what is signed and outside: the same one, or the certificate lies. */
static bool read_certificate(struct der outer, struct sl_certificate *certificate)
{
    struct der whole, tbs, inside, outside;

    if (!der_expect(&outer, TAG_SEQUENCE, &whole) || outer.left > 0 ||
        !der_expect(&whole, TAG_SEQUENCE, &tbs) || !read_tbs(tbs, &inside, certificate) ||
        !der_expect(&whole, TAG_SEQUENCE, &outside))
        return false;
    if (inside.left != outside.left || memcmp(inside.at, outside.at, inside.left) != 0)
        return false;
    certificate->strong_signature = is_strong(inside);
    return true;
}

bool sl_certificate_parse(const uint8_t *der, size_t bytes, struct sl_certificate *certificate_p)
{
    struct sl_certificate certificate = {.name_count = 0};

    if (!read_certificate((struct der){der, bytes}, &certificate))
        return false;
    *certificate_p = certificate;
    return true;
}

/* ---- judging ---- */

SEALANE_RESULT sl_certificate_check_usage(const struct sl_certificate *certificate, bool server)
{
    const char *who = server ? "server" : "client", *subject = certificate->subject;
    bool fits = server ? certificate->server_auth : certificate->client_auth;

    if (certificate->is_ca)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": basicConstraints has CA:TRUE, wanted CA:FALSE", who,
                       subject);
    if (certificate->has_key_usage && !certificate->digital_signature)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": keyUsage lacks digitalSignature, wanted with it",
                       who, subject);
    if (certificate->has_extended_usage && !fits)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": extendedKeyUsage has %s, wanted %s", who, subject,
                       certificate->server_auth   ? "serverAuth"
                       : certificate->client_auth ? "clientAuth"
                                                  : "other purposes",
                       server ? "serverAuth" : "clientAuth");
    return SEALANE_OK;
}

/* "20261130021953Z" -> "2026-11-30 02:19:53 UTC" */
static const char *time_for_people(const char *time, char text[32])
{
    (void)snprintf(text, 32, "%.4s-%.2s-%.2s %.2s:%.2s:%.2s UTC", time, time + 4, time + 6,
                   time + 8, time + 10, time + 12);
    return text;
}

SEALANE_RESULT sl_certificate_check_dates(const struct sl_certificate *certificate, const char *who)
{
    char now[SL_TIME_TEXT], seen[32], today[32];
    time_t seconds = time(NULL);
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) || strftime(now, sizeof(now), "%Y%m%d%H%M%SZ", &parts) == 0)
        return SL_FAIL(SEALANE_INTERNAL, "the clock says no date that has four digits of a year");
    if (strcmp(now, certificate->not_after) > 0)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": expired: notAfter %s, now %s", who,
                       certificate->subject, time_for_people(certificate->not_after, seen),
                       time_for_people(now, today));
    if (strcmp(now, certificate->not_before) < 0)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": not yet valid: notBefore %s, now %s", who,
                       certificate->subject, time_for_people(certificate->not_before, seen),
                       time_for_people(now, today));
    return SEALANE_OK;
}

SEALANE_RESULT sl_certificate_check_signature(const struct sl_certificate *certificate,
                                              const char *who)
{
    if (!certificate->strong_signature)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "%s certificate \"%s\": signatureAlgorithm is another, wanted RSA or ECDSA "
                       "with SHA-256, -384 or -512, or Ed25519",
                       who, certificate->subject);
    return SEALANE_OK;
}
