/* Made by protoc-gen-sealane from names.proto. Do not edit. */
#include "names.sealane.h"

static const struct sealane_method kw__methods[] = {
    {"/Kw/Delete",
     &request__descriptor,
     &request__inner__descriptor},
    {"/Kw/delete",
     &request__inner__descriptor,
     &request__descriptor},
};

const struct sealane_service kw__service = {"Kw", kw__methods, 2};

SEALANE_RESULT kw_delete(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    const Request__Inner **reply_p, struct sealane_call **call_p)
{
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status = sealane_unary_call(channel, &kw__methods[0],
        (const ProtobufCMessage *)request, options, &reply, call_p);
    *reply_p = (const Request__Inner *)reply;
    return status;
}

static void kw_delete__deliver(struct sealane_call *call,
    enum sealane_status status, const ProtobufCMessage *reply,
    sealane_function *done, void *user)
{
    ((kw_delete__done *)done)(call, status, (const Request__Inner *)reply, user);
}

SEALANE_RESULT kw_delete__start(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    kw_delete__done *done, void *user, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {kw_delete__deliver,
        (sealane_function *)done, user};
    return sealane_unary_start(channel, &kw__methods[0],
        (const ProtobufCMessage *)request, options, &completion, call_p);
}

static void kw_delete__invoke(struct sealane_call *call,
    const ProtobufCMessage *request, sealane_function *function, void *user)
{
    typedef void handler(struct sealane_call *, const Request *, void *);
    ((handler *)function)(call, (const Request *)request, user);
}

SEALANE_RESULT kw_delete__reply(struct sealane_call *call, const Request__Inner *reply)
{
    return sealane_call_reply(call, (const ProtobufCMessage *)reply);
}

SEALANE_RESULT kw_delete_rpc(struct sealane_channel *channel,
    const Request__Inner *request, const struct sealane_call_options *options,
    const Request **reply_p, struct sealane_call **call_p)
{
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status = sealane_unary_call(channel, &kw__methods[1],
        (const ProtobufCMessage *)request, options, &reply, call_p);
    *reply_p = (const Request *)reply;
    return status;
}

static void kw_delete_rpc__deliver(struct sealane_call *call,
    enum sealane_status status, const ProtobufCMessage *reply,
    sealane_function *done, void *user)
{
    ((kw_delete_rpc__done *)done)(call, status, (const Request *)reply, user);
}

SEALANE_RESULT kw_delete_rpc__start(struct sealane_channel *channel,
    const Request__Inner *request, const struct sealane_call_options *options,
    kw_delete_rpc__done *done, void *user, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {kw_delete_rpc__deliver,
        (sealane_function *)done, user};
    return sealane_unary_start(channel, &kw__methods[1],
        (const ProtobufCMessage *)request, options, &completion, call_p);
}

static void kw_delete_rpc__invoke(struct sealane_call *call,
    const ProtobufCMessage *request, sealane_function *function, void *user)
{
    typedef void handler(struct sealane_call *, const Request__Inner *, void *);
    ((handler *)function)(call, (const Request__Inner *)request, user);
}

SEALANE_RESULT kw_delete_rpc__reply(struct sealane_call *call, const Request *reply)
{
    return sealane_call_reply(call, (const ProtobufCMessage *)reply);
}

SEALANE_RESULT kw__register(struct sealane_server *server,
    const struct kw__handlers *handlers, void *user)
{
    const struct sealane_handler table[] = {
        {kw_delete__invoke, (sealane_function *)handlers->delete_rpc},
        {kw_delete_rpc__invoke, (sealane_function *)handlers->delete_rpc2},
    };
    return sealane_server_add(server, &kw__service, table, user);
}

static const struct sealane_method pthread__methods[] = {
    {"/Pthread/Create",
     &request__descriptor,
     &request__descriptor},
};

const struct sealane_service pthread__service = {"Pthread", pthread__methods, 1};

SEALANE_RESULT pthread_create_rpc(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    const Request **reply_p, struct sealane_call **call_p)
{
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status = sealane_unary_call(channel, &pthread__methods[0],
        (const ProtobufCMessage *)request, options, &reply, call_p);
    *reply_p = (const Request *)reply;
    return status;
}

static void pthread_create_rpc__deliver(struct sealane_call *call,
    enum sealane_status status, const ProtobufCMessage *reply,
    sealane_function *done, void *user)
{
    ((pthread_create_rpc__done *)done)(call, status, (const Request *)reply, user);
}

SEALANE_RESULT pthread_create_rpc__start(struct sealane_channel *channel,
    const Request *request, const struct sealane_call_options *options,
    pthread_create_rpc__done *done, void *user, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {pthread_create_rpc__deliver,
        (sealane_function *)done, user};
    return sealane_unary_start(channel, &pthread__methods[0],
        (const ProtobufCMessage *)request, options, &completion, call_p);
}

static void pthread_create_rpc__invoke(struct sealane_call *call,
    const ProtobufCMessage *request, sealane_function *function, void *user)
{
    typedef void handler(struct sealane_call *, const Request *, void *);
    ((handler *)function)(call, (const Request *)request, user);
}

SEALANE_RESULT pthread_create_rpc__reply(struct sealane_call *call, const Request *reply)
{
    return sealane_call_reply(call, (const ProtobufCMessage *)reply);
}

SEALANE_RESULT pthread__register(struct sealane_server *server,
    const struct pthread__handlers *handlers, void *user)
{
    const struct sealane_handler table[] = {
        {pthread_create_rpc__invoke, (sealane_function *)handlers->create},
    };
    return sealane_server_add(server, &pthread__service, table, user);
}

const struct sealane_service nothing__service = {"Nothing", NULL, 0};

SEALANE_RESULT nothing__register(struct sealane_server *server,
    const struct nothing__handlers *handlers, void *user)
{
    (void)handlers;
    return sealane_server_add(server, &nothing__service, NULL, user);
}

