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
    /* Which RDMA device link verbs uses: "mlx5_0", or "mlx5_0:1" for a port of it; NULL or "": whichever an address leads to.
     * Connections then leave from an address of that device and port, and none is accepted through another; links local and tcp
     * do not mind. On InfiniBand the addresses of a port are those of its IPoIB netdevs. Copied. sealane_rdma_list tells which devices there are. */
    const char *rdma_device;
};

/* Makes a node; options may be NULL. INVALID_ARGUMENT for an rdma_device that is no name of a device, UNIMPLEMENTED for one in a
 * build without RDMA links; one that is not there is told where it is used, as devices come and
 * go. RESOURCE_EXHAUSTED when the system refuses memory, a thread or descriptors. */
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

/* ---- RDMA devices ---- */

/* A GID of a port of an RDMA device (an address of its table: IBTA 4.1.1; on RoCE the IP address of its netdev). */
struct sealane_rdma_gid {
    char device[64];     /* "mlx5_0" */
    uint32_t port;       /* from 1; 0 when the device could not be asked */
    char netdev[16];     /* "eth0"; empty when there is none */
    char state[16];      /* of the port: "ACTIVE", "DOWN", ... */
    char link_layer[16]; /* "Ethernet", "InfiniBand" */
    char rate[64];       /* "100 Gb/sec (4X EDR)"; empty when it is not known */
    uint32_t mtu_bytes;
    uint32_t max_message_bytes;
    uint32_t max_work_requests; /* of a queue pair */
    uint32_t max_regions;
    int32_t
        index; /* in the port's table; -1 when this row is about a port that has none, or a device that cannot be asked */
    char gid[46];  /* "::ffff:10.0.0.1" */
    char type[16]; /* "RoCE v2", "RoCE v1", "InfiniBand" */
    bool used;     /* lanes may go by it */
    char why[160]; /* why not, or only when */
};

/* Tells of each RDMA device, port and GID of this host, and whether link verbs would use it with this rdma_device (as in
 * sealane_node_options; NULL: any). `tell` is called within the call, `user` is handed to it; what it gets is valid during the call only.
 * OK with no row on a host without devices; NOT_FOUND, behind all rows, when the rdma_device is not there; INVALID_ARGUMENT for one that is
 * no name; UNIMPLEMENTED in a build without RDMA links. */
SEALANE_API SEALANE_RESULT sealane_rdma_list(const char *rdma_device,
                                             void (*tell)(void *user,
                                                          const struct sealane_rdma_gid *gid),
                                             void *user);

/* ---- what a lane's security is ---- */

struct sealane_security {
    char peer[256];        /* verified name of the peer: "uri:…", "dns:…" or "ip:…" */
    char tls_suite[48];    /* "TLS_AES_256_GCM_SHA384" */
    char message_aead[32]; /* AEAD of the message ring we send on: "AES-256-GCM" */
    char bulk_aead[32];    /* AEAD of the bulk ring we send on */
    char link[16];         /* "local", "verbs", "tcp" */
    char bulk_ring
        [16]; /* where tensors come to: "host", or a device's memory, by "dma-buf" or "peermem" */
    uint64_t sealed_bytes; /* plaintext bytes sealed on this lane so far */
    uint64_t opened_bytes; /* plaintext bytes verified and opened on this lane so far */
};

#ifdef __cplusplus
}
#endif
#endif
