/* SPDX-License-Identifier: Apache-2.0 */
/* certificate_fuzz.c - any bytes before the reader of certificates, and what it read before everybody who uses that. */
#include "transport/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* An identity with a type is a name that the certificate really has: nothing else in it may look like one. */
static void check_identity(const struct sl_certificate *certificate)
{
    char text[SL_NAME_TEXT + 8];
    bool found = false;

    sl_certificate_identity(certificate, text, sizeof(text));
    must(text[0] != '\0' && strlen(text) < sizeof(text) - 1, "an identity is empty or cut");
    if (strncmp(text, "uri:", 4) != 0 && strncmp(text, "dns:", 4) != 0 &&
        strncmp(text, "ip:", 3) != 0)
        return;
    for (size_t i = 0; i < certificate->name_count; i++) {
        const struct sl_alt_name *name = &certificate->names[i];
        const char *value = strchr(text, ':') + 1;

        found |= name->type == SL_NAME_IP
                     ? text[0] == 'i'
                     : strlen(value) == name->bytes && memcmp(value, name->at, name->bytes) == 0;
    }
    must(found, "an identity that is none of the certificate's names");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct sl_name wanted[] = {
        {.type = SL_NAME_DNS, .text = "a.pool.test"},
        {.type = SL_NAME_URI, .text = "spiffe://a.test"},
        {.type = SL_NAME_IP, .ip = {127, 0, 0, 1}, .ip_bytes = 4}};
    struct sl_certificate certificate;
    char text[100];

    if (!sl_certificate_parse(data, bytes, &certificate))
        return 0;
    must(certificate.name_count <= SL_NAMES_MAX, "too many names");
    check_identity(&certificate);
    sl_certificate_list(&certificate, text, sizeof(text));
    must(strlen(text) < sizeof(text), "a list without end");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        must(!sl_certificate_has(&certificate, &wanted[i], false) ||
                 sl_certificate_has(&certificate, &wanted[i], true),
             "a name matches exactly and not as a prefix");
    if (sl_certificate_check_usage(&certificate, true) == SEALANE_OK)
        must(!certificate.is_ca, "a CA certificate may act as a server");
    must(sl_certificate_check_dates(&certificate, "server") != SEALANE_INTERNAL,
         "the clock is broken");
    return 0;
}
