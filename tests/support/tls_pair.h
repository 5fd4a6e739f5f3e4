/* SPDX-License-Identifier: Apache-2.0 */
/* tls_pair.h - two ends of a TLS session in one process: our handshake, or a peer of the TLS library that keeps no rule of ours. */
#ifndef TLS_PAIR_H
#define TLS_PAIR_H

#include "transport/handshake.h"

/* A peer that trusts everybody and says what the test wants. */
struct tls_peer_options {
    bool server;
    bool tls_1_2;
    const char *suites;      /* NULL: those of sealane */
    const char *alpn;        /* NULL: none */
    const char *certificate; /* "good/client-p256", NULL: none */
};
struct tls_peer;
struct tls_peer *tls_peer_new(const struct tls_peer_options *options);

/* What the peer may be after a run: 0 when it thinks it is connected, else the library's error. */
int tls_peer_error(const struct tls_peer *peer);
void tls_peer_free(struct tls_peer *peer);

/* One end: exactly one of the two is set. */
struct tls_end {
    struct sl_handshake *ours;
    struct tls_peer *peer;
    enum sealane_status status; /* of ours, after its last advance */
    char why[512];
};

struct tls_pair {
    struct tls_end client, server;
    size_t piece; /* bytes at a time; 0: all that there is */

    /* Called on what the client (or server) sent, to damage it; may be NULL. */
    void (*damage)(struct tls_pair *pair, bool from_client, uint8_t *bytes, size_t count);
    void *argument;
};

struct sl_handshake *tls_ours(struct sealane_credentials *credentials, const char *server_name);

/* Moves bytes until neither end has any to send. */
void tls_pair_run(struct tls_pair *pair);
void tls_pair_free(struct tls_pair *pair);

#endif
