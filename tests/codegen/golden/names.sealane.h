/* Made by protoc-gen-sealane from names.proto. Do not edit. */
#ifndef SEALANE_GENERATED_names_2eproto
#define SEALANE_GENERATED_names_2eproto

#include <sealane.h>

#include "names.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- service Kw ---- */
extern const struct sealane_service kw__service;

/* One function per method; NULL answers UNIMPLEMENTED. `request` is the call's until it was
 * answered, with the method's __reply or with sealane_call_fail, before the function returns
 * or later. */
struct kw__handlers {
    void (*delete_rpc)(struct sealane_call *call, const Request *request, void *user);
    void (*delete_rpc2)(struct sealane_call *call, const Request__Inner *request, void *user);
};

/* Adds the service to a server. `handlers` is copied; `user` is borrowed until the server's
 * end and handed to each handler. */
SEALANE_RESULT kw__register(struct sealane_server *server,
    const struct kw__handlers *handlers, void *user);

/* ---- rpc Kw.Delete ---- */
/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until
 * sealane_call_free(*call_p). */
SEALANE_RESULT kw_delete(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    const Request__Inner **reply_p, struct sealane_call **call_p);

/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and
 * the call are freed when done returns, unless it called sealane_call_keep. Tensors of
 * `request` are borrowed until done. */
typedef void kw_delete__done(struct sealane_call *call, enum sealane_status status,
    const Request__Inner *reply, void *user);
SEALANE_RESULT kw_delete__start(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    kw_delete__done *done, void *user, struct sealane_call **call_p);

/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the
 * call's end. */
SEALANE_RESULT kw_delete__reply(struct sealane_call *call, const Request__Inner *reply);

/* ---- rpc Kw.delete ---- */
/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until
 * sealane_call_free(*call_p). */
SEALANE_RESULT kw_delete_rpc(struct sealane_channel *channel,
    const Request__Inner *request, const struct sealane_call_options *options,
    const Request **reply_p, struct sealane_call **call_p);

/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and
 * the call are freed when done returns, unless it called sealane_call_keep. Tensors of
 * `request` are borrowed until done. */
typedef void kw_delete_rpc__done(struct sealane_call *call, enum sealane_status status,
    const Request *reply, void *user);
SEALANE_RESULT kw_delete_rpc__start(struct sealane_channel *channel,
    const Request__Inner *request, const struct sealane_call_options *options,
    kw_delete_rpc__done *done, void *user, struct sealane_call **call_p);

/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the
 * call's end. */
SEALANE_RESULT kw_delete_rpc__reply(struct sealane_call *call, const Request *reply);

/* ---- service Pthread ---- */
extern const struct sealane_service pthread__service;

/* One function per method; NULL answers UNIMPLEMENTED. `request` is the call's until it was
 * answered, with the method's __reply or with sealane_call_fail, before the function returns
 * or later. */
struct pthread__handlers {
    void (*create)(struct sealane_call *call, const Request *request, void *user);
};

/* Adds the service to a server. `handlers` is copied; `user` is borrowed until the server's
 * end and handed to each handler. */
SEALANE_RESULT pthread__register(struct sealane_server *server,
    const struct pthread__handlers *handlers, void *user);

/* ---- rpc Pthread.Create ---- */
/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until
 * sealane_call_free(*call_p). */
SEALANE_RESULT pthread_create_rpc(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    const Request **reply_p, struct sealane_call **call_p);

/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and
 * the call are freed when done returns, unless it called sealane_call_keep. Tensors of
 * `request` are borrowed until done. */
typedef void pthread_create_rpc__done(struct sealane_call *call, enum sealane_status status,
    const Request *reply, void *user);
SEALANE_RESULT pthread_create_rpc__start(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    pthread_create_rpc__done *done, void *user, struct sealane_call **call_p);

/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the
 * call's end. */
SEALANE_RESULT pthread_create_rpc__reply(struct sealane_call *call, const Request *reply);

/* ---- service Nothing ---- */
extern const struct sealane_service nothing__service;

/* One function per method; NULL answers UNIMPLEMENTED. `request` is the call's until it was
 * answered, with the method's __reply or with sealane_call_fail, before the function returns
 * or later. */
struct nothing__handlers {
    void (*none)(void); /* the service has no methods */
};

/* Adds the service to a server. `handlers` is copied; `user` is borrowed until the server's
 * end and handed to each handler. */
SEALANE_RESULT nothing__register(struct sealane_server *server,
    const struct nothing__handlers *handlers, void *user);

#ifdef __cplusplus
}
#endif
#endif
