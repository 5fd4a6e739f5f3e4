/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.h - TLS 1.3 with mutual certificates, by wolfSSL, without any I/O of its own.
 *
 * A handshake is fed the link's bytes and gives bytes for the link. Everything that costs CPU happens in
 * sl_handshake_advance, which the node runs on its helper thread: while it runs nobody else touches the object.
 * Everything is pinned: version 1.3, suites, groups, verify mode, ALPN "sealane/1", no tickets, no PSK. Our record
 * filter stands in front of wolfSSL. After SECURED both sides exchange whole messages (HELLO, RINGS) inside TLS; then
 * the exporter is used once and the session is freed.
 */
#ifndef SL_HANDSHAKE_H
#define SL_HANDSHAKE_H

#include "transport/keys.h"

#include <sealane_transport.h>

enum {
    SL_TLS_MESSAGE_MAX = 4096, /* largest message inside TLS */
    SL_FINGERPRINT_BYTES = 32  /* SHA-256 of a leaf certificate's DER */
};

struct sl_handshake;

struct sl_handshake_options {
    struct sealane_credentials *credentials; /* borrowed until sl_handshake_free */
    bool server;
    const char *
        server_name; /* client: the name the server's certificate must carry, "dns:x", "ip:x", "uri:x" or bare;
                                copied. NULL only when server */
};

SEALANE_RESULT sl_handshake_new(const struct sl_handshake_options *options,
                                struct sl_handshake **handshake_p);

/* Wipes and frees. NULL is fine. */
void sl_handshake_free(struct sl_handshake *handshake);

/* Appends bytes that came from the link. At most 64 KiB wait unread: more is a protocol error that the next
 * advance reports. */
void sl_handshake_feed(struct sl_handshake *handshake, const uint8_t *bytes, size_t count);

/* Does what can be done with what was fed: SL_AGAIN needs more bytes, SEALANE_OK is secured (again and again; each
 * call decrypts what was fed since), UNAUTHENTICATED and others are final and sl_last_error has the text: who judged,
 * the field seen and the field wanted, or the peer's alert by its RFC 8446 name and which certificate of ours it had
 * been shown. Bytes to send may be there after a failure too (the alert): send them before the link is dropped. */
SEALANE_RESULT sl_handshake_advance(struct sl_handshake *handshake);

/* Bytes for the link; `sl_handshake_sent` tells how many of them went out. */
size_t sl_handshake_pending(const struct sl_handshake *handshake, const uint8_t **bytes_p);
void sl_handshake_sent(struct sl_handshake *handshake, size_t count);

/* After SECURED. One message, at most SL_TLS_MESSAGE_MAX, is sent inside TLS (length-prefixed); its bytes come out of
 * pending. */
SEALANE_RESULT sl_handshake_write(struct sl_handshake *handshake, const uint8_t *message,
                                  size_t bytes);

/* After SECURED. The next whole message of the peer into `message` (SL_TLS_MESSAGE_MAX): SL_AGAIN when there is none
 * yet; DATA_LOSS when the length lies. */
SEALANE_RESULT sl_handshake_read(struct sl_handshake *handshake, uint8_t *message, size_t *bytes_p);

/* RFC 8446 7.5 exporter, label "EXPORTER-sealane-lane-v1" over `context`. Once, after SECURED. */
SEALANE_RESULT sl_handshake_export(struct sl_handshake *handshake,
                                   const uint8_t context[SL_HASH_BYTES],
                                   uint8_t secret[SL_SECRET_BYTES]);

/* After SECURED: SHA-256 of the leaf certificates. */
void sl_handshake_fingerprints(const struct sl_handshake *handshake,
                               uint8_t client[SL_FINGERPRINT_BYTES],
                               uint8_t server[SL_FINGERPRINT_BYTES]);

/* After SECURED: the peer's identity for people and for authorisation ("uri:spiffe://cluster.test/worker/0", else the
 * first dns: or ip: name) and the TLS suite ("TLS_AES_256_GCM_SHA384"). Valid until free. */
const char *sl_handshake_peer(const struct sl_handshake *handshake);
const char *sl_handshake_suite(const struct sl_handshake *handshake);

/* Releases what the TLS library keeps for the calling thread. */
void sl_handshake_thread_end(void);

#endif
