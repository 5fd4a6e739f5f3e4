/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.h - what a certificate says, by our own bounded reading of its DER, and whether it may be used at all.
 *
 * wolfSSL 5.5.4 gives no certificate object for Ed25519 leaves and checks neither keyUsage nor the hash of a signature. Input is
 * hostile: nothing is read past its end, nothing is believed.
 */
#ifndef SL_CERTIFICATE_H
#define SL_CERTIFICATE_H

#include "transport/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_NAMES_MAX = 64,  /* names of one certificate; more are refused */
    SL_NAME_TEXT = 256, /* with its NUL; longer names are refused */
    SL_TIME_TEXT = 16   /* YYYYMMDDHHMMSSZ: the order of text is the order of time */
};

enum sl_name_type {
    SL_NAME_DNS,
    SL_NAME_IP,
    SL_NAME_URI
};

/* A name in a certificate: borrowed bytes of its DER. */
struct sl_alt_name {
    enum sl_name_type type;
    const uint8_t *at;
    size_t bytes;
};

struct sl_certificate {
    char subject[160]; /* "CN=…", printable, for people only */
    char issuer[160];
    char not_before[SL_TIME_TEXT];
    char not_after[SL_TIME_TEXT];
    struct sl_alt_name names[SL_NAMES_MAX];
    size_t name_count;
    const uint8_t
        *public_key; /* borrowed: the bits of subjectPublicKey; a point when it begins with 4 */
    size_t public_key_bytes;
    bool strong_signature; /* signed over SHA-256, -384 or -512, or with Ed25519 */
    bool is_ca;
    bool has_key_usage, digital_signature;
    bool has_extended_usage, server_auth, client_auth;
};

/* False when it is not the DER of an X.509 certificate, carries more names than SL_NAMES_MAX, or one that is not printable
 * text (a NUL inside a name has fooled many). */
SEALANE_MUST_USE bool sl_certificate_parse(const uint8_t *der, size_t bytes,
                                           struct sl_certificate *certificate_p);

/* What to say then, after "server certificate". */
#define SL_CERTIFICATE_UNREADABLE "not X.509 with at most 64 names, all of printable text"

/* UNAUTHENTICATED naming the field seen and wanted: when the leaf may not act as `server` (or client), when now is not within
 * its dates, when it is signed by weak means. `who` begins the text: "server", "client" or "our own". */
SEALANE_RESULT sl_certificate_check_usage(const struct sl_certificate *certificate, bool server);
SEALANE_RESULT sl_certificate_check_dates(const struct sl_certificate *certificate,
                                          const char *who);
SEALANE_RESULT sl_certificate_check_signature(const struct sl_certificate *certificate,
                                              const char *who);

#endif
