/* SPDX-License-Identifier: Apache-2.0 */
/* sealane_transport.h - the door of transport/: nodes, credentials, and what a lane's security is.
 *
 * A node is one thread's world: it moves lanes and calls. By default it runs a thread of its own; a polled node
 * is moved by whoever calls sealane_node_poll, always the same thread. Everything made on a node belongs to it.
 */
#ifndef SEALANE_TRANSPORT_H
#define SEALANE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sealane_status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sealane_node;
struct sealane_credentials;

/* ---- credentials: who am I, whom do I trust, which ciphers may be used ---- */

/* The AEADs of the data path; the numbers travel in HELLO. */
enum sealane_aead {
    SEALANE_AES_256_GCM = 1,      /* NIST SP 800-38D */
    SEALANE_AES_128_GCM = 2,      /* NIST SP 800-38D */
    SEALANE_CHACHA20_POLY1305 = 3 /* RFC 8439 */
};

struct sealane_credentials_options {
    const char *ca_file;          /* PEM: the authorities trusted to name peers; required */
    const char *certificate_file; /* PEM chain, leaf first; required */
    const char *key_file;         /* PEM private key of the leaf; required */

    /* Names a peer's certificate must carry one of: "dns:worker-0.test", "ip:10.0.0.7", "uri:spiffe://cluster.test/worker"
     * (a uri entry also matches below it at a '/' boundary). None: any certificate of the CA is accepted. */
    const char *const *allowed_peers;
    size_t allowed_peer_count;

    /* AEADs that may be used, best first. None: all that the build has. { SEALANE_AES_256_GCM } is the FIPS-like choice. */
    const enum sealane_aead *aeads;
    size_t aead_count;
};

/* Loads and checks the files. Everything in options is copied. INVALID_ARGUMENT when something required is missing or a
 * name's type is unknown, NOT_FOUND when a file cannot be read, FAILED_PRECONDITION when the key is not the certificate's
 * or an authority or certificate does not load (expired ones included); the message names the file. */
SEALANE_API SEALANE_RESULT sealane_credentials_new(
    const struct sealane_credentials_options *options, struct sealane_credentials **credentials_p);

/* Wipes and frees. Channels and servers that use them must be gone. NULL is fine. */
SEALANE_API void sealane_credentials_free(struct sealane_credentials *credentials);

/* ---- node ---- */

struct sealane_node_options {
    bool polled; /* no thread: the caller moves the node with sealane_node_poll */
    uint32_t
        spin_us; /* how long the node's own thread busy-polls after the last event before it sleeps; default 20 */
};

/* Makes a node; options may be NULL. RESOURCE_EXHAUSTED when the system refuses memory, a thread or descriptors. */
SEALANE_API SEALANE_RESULT sealane_node_new(const struct sealane_node_options *options,
                                            struct sealane_node **node_p);

/* Ends and frees every channel and server of the node (their pointers are dead then: do not free them after this), ends their
 * lanes and calls (CANCELLED), joins its thread, frees. Calls that were handed out stay until sealane_call_free. Not from a
 * handler or callback of the node (that answers by a log line and does nothing). NULL is fine. */
SEALANE_API void sealane_node_free(struct sealane_node *node);

/* Polled nodes only, always from the same thread: moves everything once; sleeps at most timeout_ms for something to
 * do (0: not at all, -1: until something comes). Handlers and callbacks run inside. FAILED_PRECONDITION on a node with its
 * own thread, from another thread, or from inside a handler or callback. */
SEALANE_API SEALANE_RESULT sealane_node_poll(struct sealane_node *node, int timeout_ms);

/* ---- what a lane's security is ---- */

struct sealane_security {
    char peer[256];        /* verified name of the peer: "uri:…", "dns:…" or "ip:…" */
    char tls_suite[48];    /* "TLS_AES_256_GCM_SHA384" */
    char message_aead[32]; /* AEAD of the message ring we send on: "AES-256-GCM" */
    char bulk_aead[32];    /* AEAD of the bulk ring we send on */
    char link[16];         /* "local", "verbs", "tcp" */
    char bulk_ring[16];    /* where tensors come to: "host", or a device's memory, by "dma-buf" or "peermem" */
    uint64_t sealed_bytes; /* plaintext bytes sealed on this lane so far */
    uint64_t opened_bytes; /* plaintext bytes verified and opened on this lane so far */
};

#ifdef __cplusplus
}
#endif
#endif
