/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names matched by their type (RFC 9525). */
#include "transport/names.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- wanted names ---- */

static bool ip_parse(const char *text, struct sl_name *name)
{
    if (inet_pton(AF_INET, text, name->ip) == 1)
        name->ip_bytes = 4;
    else if (inet_pton(AF_INET6, text, name->ip) == 1)
        name->ip_bytes = 16;
    else
        return false;
    name->type = SL_NAME_IP;
    return true;
}

/* Letters, digits, '-', '_' in labels that are not empty: no wildcard, as that is for the certificate to say. */
static bool is_host(const char *text)
{
    size_t label = 0;

    for (const char *at = text; *at; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');

        if (*at == '.' && label == 0)
            return false;
        if (*at != '.' && !letter && !(*at >= '0' && *at <= '9') && *at != '-' && *at != '_')
            return false;
        label = *at == '.' ? 0 : label + 1;
    }
    return label > 0;
}

static SEALANE_RESULT name_fill(const char *text, const char *value, bool typed,
                                struct sl_name *name)
{
    if (value[0] == '\0' || strlen(value) >= sizeof(name->text))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the name \"%s\" is empty or longer than %zu bytes", text,
                       sizeof(name->text) - 1);
    (void)snprintf(name->text, sizeof(name->text), "%s", value);
    if (name->type == SL_NAME_IP || (!typed && ip_parse(value, name))) {
        if (!ip_parse(value, name))
            return SL_FAIL(SEALANE_INVALID_ARGUMENT, "\"%s\" is not an IPv4 or IPv6 address",
                           value);
        return SEALANE_OK;
    }
    if (!typed && strchr(value, ':'))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the name \"%s\" has no known type: expected dns:, ip: or uri:", text);
    if (name->type == SL_NAME_URI && !strchr(value, ':'))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "\"%s\" is not a URI: it has no scheme", value);
    if (name->type == SL_NAME_DNS && !is_host(value))
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "\"%s\" is not a host name (letters, digits, '-' and '_' between single dots)", value);
    return SEALANE_OK;
}

SEALANE_RESULT sl_name_parse(const char *text, struct sl_name *name_p)
{
    static const struct {
        const char *prefix;
        enum sl_name_type type;
    } types[] = {{"dns:", SL_NAME_DNS}, {"ip:", SL_NAME_IP}, {"uri:", SL_NAME_URI}};
    struct sl_name name = {.type = SL_NAME_DNS};
    size_t skip = 0;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strncmp(text, types[i].prefix, strlen(types[i].prefix)) == 0) {
            skip = strlen(types[i].prefix);
            name.type = types[i].type;
        }
    }
    SL_TRY(name_fill(text, text + skip, skip > 0, &name));
    *name_p = name;
    return SEALANE_OK;
}

/* ---- matching ---- */

static bool dns_matches(const struct sl_alt_name *seen, const char *wanted)
{
    const char *pattern = (const char *)seen->at, *rest = strchr(wanted, '.');
    size_t length = strlen(wanted);

    if (seen->bytes == length && strncasecmp(pattern, wanted, length) == 0)
        return true;
    /* "*.a.b" stands for one whole left-most label, and only above at least two more */
    if (seen->bytes < 5 || pattern[0] != '*' || pattern[1] != '.' || !rest)
        return false;
    if (memchr(pattern + 1, '*', seen->bytes - 1) || !memchr(pattern + 2, '.', seen->bytes - 2))
        return false;
    return strlen(rest) == seen->bytes - 1 && strncasecmp(pattern + 1, rest, seen->bytes - 1) == 0;
}

/* What stands below an allowed URI: segments of plain letters, none empty and none of dots alone, so that no reader of the
 * path can see it elsewhere than below. */
static bool is_plain_path(const uint8_t *at, size_t bytes)
{
    size_t segment = 0, dots = 0;

    for (size_t i = 0; i <= bytes; i++) {
        if (i == bytes || at[i] == '/') {
            if (i > 0 && (segment == 0 || (segment == dots && dots <= 2)))
                return false;
            segment = dots = 0;
            continue;
        }
        if (at[i] == '%' || at[i] == '?' || at[i] == '#' || at[i] == '\\')
            return false;
        segment++;
        dots += at[i] == '.';
    }
    return true;
}

static bool has_dot_segments(const struct sl_alt_name *seen)
{
    for (size_t i = 0; i + 1 < seen->bytes; i++) {
        size_t end = i + 1;

        if (seen->at[i] != '/')
            continue;
        while (end < seen->bytes && seen->at[end] == '.')
            end++;
        if ((end == i + 2 || end == i + 3) && (end == seen->bytes || seen->at[end] == '/'))
            return true;
    }
    return false;
}

static bool uri_matches(const struct sl_alt_name *seen, const char *wanted, bool prefix)
{
    size_t length = strlen(wanted);

    if (seen->bytes < length || memcmp(seen->at, wanted, length) != 0 || has_dot_segments(seen))
        return false;
    if (seen->bytes == length)
        return true;
    if (wanted[length - 1] == '/')
        length--;
    return prefix && seen->at[length] == '/' &&
           is_plain_path(seen->at + length, seen->bytes - length);
}

/* A spiffe id is the only URI of its certificate (X.509-SVID 2). */
static bool is_ambiguous(const struct sl_certificate *certificate)
{
    size_t uris = 0, ids = 0;

    for (size_t i = 0; i < certificate->name_count; i++) {
        const struct sl_alt_name *name = &certificate->names[i];

        uris += name->type == SL_NAME_URI;
        ids += name->type == SL_NAME_URI && name->bytes >= 9 &&
               strncasecmp((const char *)name->at, "spiffe://", 9) == 0;
    }
    return ids > 0 && uris > 1;
}

bool sl_certificate_has(const struct sl_certificate *certificate, const struct sl_name *name,
                        bool prefix)
{
    if (name->type == SL_NAME_URI && is_ambiguous(certificate))
        return false;
    for (size_t i = 0; i < certificate->name_count; i++) {
        const struct sl_alt_name *seen = &certificate->names[i];

        if (seen->type != name->type)
            continue;
        if (name->type == SL_NAME_IP && seen->bytes == name->ip_bytes &&
            memcmp(seen->at, name->ip, seen->bytes) == 0)
            return true;
        if (name->type == SL_NAME_DNS && dns_matches(seen, name->text))
            return true;
        if (name->type == SL_NAME_URI && uri_matches(seen, name->text, prefix))
            return true;
    }
    return false;
}

/* ---- for people ---- */

static const char *const san_prefix[] = {
    [SL_NAME_DNS] = "DNS:", [SL_NAME_IP] = "IP:", [SL_NAME_URI] = "URI:"};

/* The parser lets only printable text through, and addresses of 4 or 16 bytes. */
static void value_text(const struct sl_alt_name *name, char *text, size_t size)
{
    if (name->type != SL_NAME_IP)
        (void)snprintf(text, size, "%.*s", (int)name->bytes, (const char *)name->at);
    else if (!inet_ntop(name->bytes == 4 ? AF_INET : AF_INET6, name->at, text, (socklen_t)size))
        (void)snprintf(text, size, "(%zu bytes)", name->bytes);
}

void sl_name_text(const struct sl_name *name, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s%s", san_prefix[name->type], name->text);
}

void sl_certificate_identity(const struct sl_certificate *certificate, char *text, size_t bytes)
{
    static const enum sl_name_type order[] = {SL_NAME_URI, SL_NAME_DNS, SL_NAME_IP};
    static const char *const prefix[] = {
        [SL_NAME_DNS] = "dns:", [SL_NAME_IP] = "ip:", [SL_NAME_URI] = "uri:"};
    char value[SL_NAME_TEXT];

    for (size_t o = 0; o < 3; o++) {
        for (size_t i = 0; i < certificate->name_count; i++) {
            if (certificate->names[i].type != order[o] ||
                (order[o] == SL_NAME_URI && is_ambiguous(certificate)))
                continue;
            value_text(&certificate->names[i], value, sizeof(value));
            (void)snprintf(text, bytes, "%s%s", prefix[order[o]], value);
            return;
        }
    }
    (void)snprintf(text, bytes, "subject:%s", certificate->subject);
}

void sl_certificate_list(const struct sl_certificate *certificate, char *text, size_t bytes)
{
    char value[SL_NAME_TEXT];
    size_t used = 0;

    (void)snprintf(text, bytes, "nothing");
    for (size_t i = 0; i < certificate->name_count && used + 8 < bytes; i++) {
        int wrote;

        value_text(&certificate->names[i], value, sizeof(value));
        wrote = snprintf(text + used, bytes - used, "%s%s%s", i ? ", " : "",
                         san_prefix[certificate->names[i].type], value);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}
