/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - whether a certificate is who was wanted.
 *
 * Matching is by type (RFC 9525): a DNS name is never an address or a URI, the common name never counts. wolfSSL 5.5.4's own
 * check is blind to types, so it is not used.
 */
#ifndef SL_NAMES_H
#define SL_NAMES_H

#include "transport/certificate.h"

/* A name that is wanted. */
struct sl_name {
    enum sl_name_type type;
    char text[SL_NAME_TEXT]; /* without its type; DNS and URI as given, IP in the usual form */
    uint8_t ip[16];
    size_t ip_bytes; /* 4 or 16 */
};

/* "dns:…", "ip:…", "uri:…"; bare text reads as an address when it is one, else as DNS. A wanted name has no wildcard.
 * INVALID_ARGUMENT says what is wrong. */
SEALANE_RESULT sl_name_parse(const char *text, struct sl_name *name_p);

/* True when one of the certificate's names is the wanted one: DNS case-insensitively, a certificate's left-most "*" label (of at
 * least three) stands for one label; addresses as bytes; URIs exactly, or below `name` at a '/' when `prefix` is set. URIs with dot
 * segments, and spiffe ids that are not the only URI of their certificate, match nothing. */
bool sl_certificate_has(const struct sl_certificate *certificate, const struct sl_name *name,
                        bool prefix);

/* "uri:…", "dns:…" or "ip:…": the name by which a peer is known, in that order of preference; "subject:CN=…" without any. */
void sl_certificate_identity(const struct sl_certificate *certificate, char *text, size_t bytes);

/* "DNS:a.test, URI:spiffe://…" for messages; "nothing" when there is none. */
void sl_certificate_list(const struct sl_certificate *certificate, char *text, size_t bytes);

/* "DNS:a.test" of a wanted name. */
void sl_name_text(const struct sl_name *name, char *text, size_t bytes);

#endif
