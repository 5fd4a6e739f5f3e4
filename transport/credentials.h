/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h - what struct sealane_credentials holds, for the handshake and for HELLO. wolfSSL's context is made anew for each
 * handshake: intermediates that a peer sends stay in a context's store, and must not serve the next peer. */
#ifndef SL_CREDENTIALS_H
#define SL_CREDENTIALS_H

#include "transport/handshake.h"
#include "transport/names.h"

struct WOLFSSL_CTX;

/* AEADs that may be used, best first: the user's list without those that this build lacks. */
const enum sl_aead *sl_credentials_aeads(const struct sealane_credentials *credentials,
                                         size_t *count_p);

/* A fresh context with everything pinned, for one handshake; free with wolfSSL_CTX_free. */
SEALANE_RESULT sl_credentials_context(const struct sealane_credentials *credentials, bool server,
                                      struct WOLFSSL_CTX **context_p);

/* SHA-256 of our own leaf's DER. */
const uint8_t *sl_credentials_fingerprint(const struct sealane_credentials *credentials);

/* For messages: "\"uri:…\" of /path/cert.pem", and the path of the authorities. */
const char *sl_credentials_label(const struct sealane_credentials *credentials);
const char *sl_credentials_ca_file(const struct sealane_credentials *credentials);

/* UNAUTHENTICATED naming what was seen and wanted ("client certificate ..." for `who` "client") when allowed_peers has none of the certificate's names. */
SEALANE_RESULT sl_credentials_allow(const struct sealane_credentials *credentials,
                                    const struct sl_certificate *certificate, const char *who);

#endif
