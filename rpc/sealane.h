/* SPDX-License-Identifier: Apache-2.0 */
/* sealane.h - the door: channels, servers and calls.
 *
 * A .proto file becomes typed stubs (x.sealane.h) by protoc-gen-sealane; the stubs call what stands here. In short:
 *
 *   client   sealane_credentials_new, sealane_node_new, sealane_channel_new; then per call
 *            status = echo_v1_echo_say(channel, &request, NULL, &reply, &call); … sealane_call_free(call);
 *   server   sealane_server_new, echo_v1_echo__register(server, &handlers, user), sealane_server_listen;
 *            a handler answers with echo_v1_echo_say__reply(call, &reply) or sealane_call_fail(call, status, "why"), before it
 *            returns or later, from any thread.
 *
 * Threads: channels, servers and calls of a node with its own thread may be used from any thread. Those of a polled node
 * are used from the polling thread, or from others while that thread polls. A blocking call made inside a handler or callback of
 * the same node answers FAILED_PRECONDITION (it would wait for itself).
 *
 * Memory: each pointer is "copied", "borrowed until …", "the call's until …" or "the caller's, release with …".
 */
#ifndef SEALANE_H
#define SEALANE_H

#include <protobuf-c/protobuf-c.h>
#include <sealane/tensor.pb-c.h>
#include <sealane_transport.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sealane_channel;
struct sealane_server;
struct sealane_call;

/* A function pointer on its way through generic code; only generated code, which knows its true type, calls it. */
typedef void sealane_function(void);

/* ---- what generated code describes ---- */

struct sealane_method {
    const char *path; /* "/package.Service/Method", as in gRPC */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *reply;
};

struct sealane_service {
    const char *name; /* "package.Service" */
    const struct sealane_method *methods;
    size_t method_count;
};

/* ---- channel: the client's end ---- */

/* Zero or NULL means the default that stands behind each field. */
struct sealane_channel_options {
    struct sealane_credentials *credentials; /* required; borrowed until the channel's end */
    const char *
        server_name; /* name that the server's certificate must carry: "dns:…", "ip:…", "uri:…", or bare (an address when
                                it reads as one, else DNS). The target's host; required for unix targets; copied */
    const char *link; /* the best: carrier to use, "local", "verbs" or "tcp"; copied */
    uint32_t
        max_message_bytes; /* 4 MiB: largest protobuf message, sent or received (tensors do not count) */
    uint64_t max_tensor_bytes; /* 16 GiB: largest sum of the tensors of one message, received */
    uint64_t
        tensor_memory_bytes; /* 64 GiB: memory for arriving tensors of all calls together; when short, calls wait in turn */
    uint32_t max_calls; /* 4096: calls at a time on the lane (the server's limit counts too) */
    uint32_t connect_timeout_ms; /* 5000: of each way that is tried */
    uint32_t
        backoff_ms; /* 1000: pause after a failed attempt; 1.6 times as long after each further one, +-20 % */
    uint32_t backoff_max_ms; /* 120000 */
    uint32_t
        dead_after_ms; /* 20000: a lane on which nothing came for this long although the server was pinged is lost. A polled
                          node must be polled at least every half of it, and no handler may keep its node's thread for longer */
    uint32_t max_lane_age_ms; /* a day: an older lane is replaced by a new one, with new keys */
    uint32_t lane_grace_ms;   /* 600000: how long calls may still run on a replaced lane */
    bool small_rings; /* 16 KiB chunks and short rings: for many channels of little traffic each */
    uint32_t
        epoch_shift; /* tests: log2 of records per key; 0: keys change every 16 GiB at the latest */
};

/* Makes a channel to `target`: "host:port" (host is a name, "1.2.3.4" or "[::1]"), or on the same host "unix:/path" or
 * "unix-abstract:name". A server at a host:port of this host is reached over link local by itself, else over tcp. Connects at the first
 * call, or at sealane_channel_connect; connects again at the first call after a loss. After a failed attempt calls fail at once, with
 * its reason, until the pause is over. Options are copied. INVALID_ARGUMENT names what is missing or malformed; UNIMPLEMENTED for
 * targets that no built-in link handles. */
SEALANE_API SEALANE_RESULT sealane_channel_new(struct sealane_node *node, const char *target,
                                               const struct sealane_channel_options *options,
                                               struct sealane_channel **channel_p);

/* Connects, as soon as the pause after a failed attempt is over, and waits. How the attempt failed, or the one before it when timeout_ms
 * are over before there is another: UNAVAILABLE (no server, carrier broke, unknown name), UNAUTHENTICATED (a certificate was refused; the message says
 * by whom and which field), DEADLINE_EXCEEDED after timeout_ms, FAILED_PRECONDITION inside a handler or callback. */
SEALANE_API SEALANE_RESULT sealane_channel_connect(struct sealane_channel *channel,
                                                   uint32_t timeout_ms);

/* gRPC's connectivity states, with its numbers (grpc/impl/connectivity_state.h). */
enum sealane_connectivity {
    SEALANE_CHANNEL_IDLE = 0, /* no lane, and nobody asked for one */
    SEALANE_CHANNEL_CONNECTING = 1,
    SEALANE_CHANNEL_READY = 2,
    SEALANE_CHANNEL_TRANSIENT_FAILURE =
        3, /* the last attempt failed; the pause before the next one runs */
    SEALANE_CHANNEL_SHUTDOWN = 4
};

/* The state now. Any thread. */
SEALANE_API enum sealane_connectivity sealane_channel_state(const struct sealane_channel *channel);

/* Has `function` told of the state whenever it has changed, on the node's thread; of states that last less than a turn it hears
 * nothing. `why` is how the last attempt failed or the last lane was lost, "" when READY; valid during the call. NULL ends it. */
typedef void sealane_channel_state_function(void *user, enum sealane_connectivity state,
                                            const char *why);
SEALANE_API void sealane_channel_on_state(struct sealane_channel *channel,
                                          sealane_channel_state_function *function, void *user);

/* What protects the channel's lane, and which link carries it. FAILED_PRECONDITION while there is none. */
SEALANE_API SEALANE_RESULT sealane_channel_security(struct sealane_channel *channel,
                                                    struct sealane_security *security_p);

/* Ends the channel's calls with CANCELLED (their callbacks run before this returns), then frees. Blocks until the node's thread
 * did it. Not from a handler or callback of its node (that answers by a log line and does nothing). NULL is fine. */
SEALANE_API void sealane_channel_free(struct sealane_channel *channel);

/* ---- calls, client side; typed stubs wrap the first two ---- */

struct sealane_call_options {
    uint32_t
        timeout_ms; /* deadline from now; 0: none. Ends the call at both ends with DEADLINE_EXCEEDED */
};

/* Casts `done` to its true type and calls it; generated. `reply` is NULL unless status is OK. */
typedef void sealane_deliver(struct sealane_call *call, enum sealane_status status,
                             const ProtobufCMessage *reply, sealane_function *done, void *user);

/* Calls and waits. `request` and its tensors are borrowed until this returns. On OK the reply is the call's until
 * sealane_call_free(*call_p), which the caller owes; on failure both outputs are NULL and sealane_last_error has the message.
 * Failures: the server's own status; CANCELLED; DEADLINE_EXCEEDED; UNAVAILABLE (after the request left it does not say whether it
 * ran); UNAUTHENTICATED; RESOURCE_EXHAUSTED (the message names the option); INVALID_ARGUMENT (the request is not initialised, or a
 * tensor's shape, type and bytes disagree); INTERNAL (the reply cannot be parsed); FAILED_PRECONDITION inside a handler or callback of the node. */
SEALANE_API SEALANE_RESULT sealane_unary_call(struct sealane_channel *channel,
                                              const struct sealane_method *method,
                                              const ProtobufCMessage *request,
                                              const struct sealane_call_options *options,
                                              const ProtobufCMessage **reply_p,
                                              struct sealane_call **call_p);

/* What a completion callback needs; copied. */
struct sealane_completion {
    sealane_deliver *deliver;
    sealane_function *done;
    void *user;
};

/* Starts a call; `deliver` runs exactly once, on the node's thread, never inside this function. `request` is packed before this
 * returns; its tensors' data is borrowed until done. The call, the reply in it included, is freed when done returns unless
 * done called sealane_call_keep. When this fails nothing was started and done never runs.
 * *call_p (may be NULL) can be cancelled until done has begun to run. */
SEALANE_API SEALANE_RESULT sealane_unary_start(struct sealane_channel *channel,
                                               const struct sealane_method *method,
                                               const ProtobufCMessage *request,
                                               const struct sealane_call_options *options,
                                               const struct sealane_completion *completion,
                                               struct sealane_call **call_p);

/* Inside done: the call and its reply stay until sealane_call_free. */
SEALANE_API void sealane_call_keep(struct sealane_call *call);

/* Frees a call that sealane_unary_call handed out or that was kept, and all that lives in it. Any thread. NULL is fine. */
SEALANE_API void sealane_call_free(struct sealane_call *call);

/* Client: gives the call up; it ends CANCELLED unless its end was decided before. Any thread, but only while the call is there: until `done`
 * has begun to run, or, when done calls sealane_call_keep, until sealane_call_free. Who may cancel late keeps the call in done and frees
 * it when nobody can cancel any more. */
SEALANE_API void sealane_call_cancel(struct sealane_call *call);

/* ---- calls, either side ---- */

/* Memory that lives as long as the call, 64-byte aligned, for the thread that handles the call. NULL when there is none. The
 * natural place for tensors of a reply: a server's call ends only when nothing reads them any more. */
SEALANE_API void *sealane_call_alloc(struct sealane_call *call, size_t bytes);

/* The message of the call's status; "" while it has none. The call's until it is freed. */
SEALANE_API const char *sealane_call_message(const struct sealane_call *call);

/* Milliseconds until the deadline; INT64_MAX without one; 0 or less when it passed. */
SEALANE_API int64_t sealane_call_remaining_ms(const struct sealane_call *call);

/* What protects the lane that the call came on: the verified peer, TLS suite, AEADs, link. */
SEALANE_API void sealane_call_security(const struct sealane_call *call,
                                       struct sealane_security *security_p);

/* ---- server ---- */

struct sealane_server_options {
    struct sealane_credentials *credentials; /* required; borrowed until the server's end */
    const char *link;           /* all: listen for this carrier only, "local", "verbs" or "tcp"; copied */
    uint32_t max_message_bytes; /* as for channels */
    uint64_t max_tensor_bytes;  /* largest sum of the tensors of one request */
    uint64_t
        tensor_memory_bytes; /* for arriving tensors of all lanes; when short, calls wait in turn until their deadline */
    uint32_t max_calls;            /* 4096: calls at a time of one lane */
    uint32_t handshake_timeout_ms; /* 5000 */
    uint32_t dead_after_ms;        /* 20000: as for channels */
    bool small_rings;
    uint32_t epoch_shift;
};

/* Options are copied. INVALID_ARGUMENT names what is missing. */
SEALANE_API SEALANE_RESULT sealane_server_new(struct sealane_node *node,
                                              const struct sealane_server_options *options,
                                              struct sealane_server **server_p);

/* Casts `function` to its true type and calls it; generated. */
typedef void sealane_invoke(struct sealane_call *call, const ProtobufCMessage *request,
                            sealane_function *function, void *user);

/* One per method of the service, in the order of its table. A NULL function answers UNIMPLEMENTED. */
struct sealane_handler {
    sealane_invoke *invoke;
    sealane_function *function;
};

/* Adds a service; generated __register calls it. Before or after listen. `service` is borrowed until the server's end,
 * handlers are copied, `user` is handed to each. ALREADY_EXISTS when a service of that name is there. */
SEALANE_API SEALANE_RESULT sealane_server_add(struct sealane_server *server,
                                              const struct sealane_service *service,
                                              const struct sealane_handler *handlers, void *user);

/* Starts to accept at `address`: "host:port" (every address of host; ":port" all addresses; port 0 a free one), with an abstract
 * AF_UNIX twin of each for clients of this host, or "unix:/path", "unix-abstract:name". May be called for several addresses. Blocks while
 * a name is looked up. INVALID_ARGUMENT for a malformed address, ALREADY_EXISTS when somebody listens there, NOT_FOUND for an address
 * that is not this host's, UNAVAILABLE for a name that is not known. */
SEALANE_API SEALANE_RESULT sealane_server_listen(struct sealane_server *server,
                                                 const char *address);

/* Where the sealane_server_listen number `index` (from 0) listens, with the real port: "127.0.0.1:43210". OUT_OF_RANGE past the last,
 * INVALID_ARGUMENT when `bytes` are too few (128 are always enough). */
SEALANE_API SEALANE_RESULT sealane_server_address(struct sealane_server *server, size_t index,
                                                  char *address, size_t bytes);

/* Told of each lane that came up or ended, for logs and displays; runs on the node's thread. `why` is "" when it came up. */
typedef void sealane_server_lane_function(void *user, const struct sealane_security *security,
                                          bool up, const char *why);
SEALANE_API void sealane_server_on_lane(struct sealane_server *server,
                                        sealane_server_lane_function *function, void *user);

/* Stops accepting, ends every lane and call (their memory stays until the handlers answered), frees. Blocks until the node's
 * thread did it. Not from a handler or callback of its node (that answers by a log line and does nothing). NULL is fine. */
SEALANE_API void sealane_server_free(struct sealane_server *server);

/* ---- answering a call ---- */

/* Answers. The message is packed before this returns; data of its tensors is borrowed until the call's end: use
 * sealane_call_alloc, or memory that outlives the call and is told to stop being read by sealane_call_on_end. Any thread, once.
 * After this the call must not be touched except from on_end. INVALID_ARGUMENT (tensor), RESOURCE_EXHAUSTED (message larger
 * than max_message_bytes): the call was then answered with that status. OK also when the client gave up meanwhile. */
SEALANE_API SEALANE_RESULT sealane_call_reply(struct sealane_call *call,
                                              const ProtobufCMessage *reply);

/* Answers with a status other than OK and a message of UTF-8 text (512 bytes at most, then cut). OK, or a number that is none of the 17,
 * becomes UNKNOWN. Any thread, once. */
SEALANE_API SEALANE_PRINTF(3, 4) void sealane_call_fail(struct sealane_call *call,
                                                        enum sealane_status status,
                                                        const char *format, ...);

/* Inside a handler before answering: has function(user) run on the node's thread (on the answering one once the server is gone) when
 * the call has ended and nothing of the reply is borrowed any more. */
SEALANE_API void sealane_call_on_end(struct sealane_call *call, void (*function)(void *user),
                                     void *user);

/* True when the answer is not wanted any more (client cancelled, deadline passed, lane lost); the handler still answers. Any thread. */
SEALANE_API bool sealane_call_is_over(const struct sealane_call *call);

/* ---- tensors ---- */

/* Bytes of one element; 0 for an unknown dtype. */
SEALANE_API size_t sealane_dtype_bytes(Sealane__DType dtype);

/* Product of shape times dtype, overflow-checked: INVALID_ARGUMENT when the dtype is unknown or the product passes 2^63. A
 * tensor without shape is a scalar: one element. */
SEALANE_API SEALANE_RESULT sealane_tensor_bytes(const Sealane__Tensor *tensor, uint64_t *bytes_p);

#ifdef __cplusplus
}
#endif
#endif
