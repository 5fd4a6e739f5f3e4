/* Made by protoc-gen-sealane from echo.proto. Do not edit. */
#include "echo.sealane.h"

static const struct sealane_method echo_v1_echo__methods[] = {
    {"/echo.v1.Echo/Say",
     &echo__v1__say_request__descriptor,
     &echo__v1__say_reply__descriptor},
    {"/echo.v1.Echo/SayTwice",
     &echo__v1__say_request__descriptor,
     &echo__v1__say_reply__descriptor},
};

const struct sealane_service echo_v1_echo__service = {"echo.v1.Echo", echo_v1_echo__methods, 2};

SEALANE_RESULT echo_v1_echo_say(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    const Echo__V1__SayReply **reply_p, struct sealane_call **call_p)
{
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status = sealane_unary_call(channel, &echo_v1_echo__methods[0],
        (const ProtobufCMessage *)request, options, &reply, call_p);
    *reply_p = (const Echo__V1__SayReply *)reply;
    return status;
}

static void echo_v1_echo_say__deliver(struct sealane_call *call,
    enum sealane_status status, const ProtobufCMessage *reply,
    sealane_function *done, void *user)
{
    ((echo_v1_echo_say__done *)done)(call, status, (const Echo__V1__SayReply *)reply, user);
}

SEALANE_RESULT echo_v1_echo_say__start(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    echo_v1_echo_say__done *done, void *user, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {echo_v1_echo_say__deliver,
        (sealane_function *)done, user};
    return sealane_unary_start(channel, &echo_v1_echo__methods[0],
        (const ProtobufCMessage *)request, options, &completion, call_p);
}

static void echo_v1_echo_say__invoke(struct sealane_call *call,
    const ProtobufCMessage *request, sealane_function *function, void *user)
{
    typedef void handler(struct sealane_call *, const Echo__V1__SayRequest *, void *);
    ((handler *)function)(call, (const Echo__V1__SayRequest *)request, user);
}

SEALANE_RESULT echo_v1_echo_say__reply(struct sealane_call *call, const Echo__V1__SayReply *reply)
{
    return sealane_call_reply(call, (const ProtobufCMessage *)reply);
}

SEALANE_RESULT echo_v1_echo_say_twice(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    const Echo__V1__SayReply **reply_p, struct sealane_call **call_p)
{
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status = sealane_unary_call(channel, &echo_v1_echo__methods[1],
        (const ProtobufCMessage *)request, options, &reply, call_p);
    *reply_p = (const Echo__V1__SayReply *)reply;
    return status;
}

static void echo_v1_echo_say_twice__deliver(struct sealane_call *call,
    enum sealane_status status, const ProtobufCMessage *reply,
    sealane_function *done, void *user)
{
    ((echo_v1_echo_say_twice__done *)done)(call, status, (const Echo__V1__SayReply *)reply, user);
}

SEALANE_RESULT echo_v1_echo_say_twice__start(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    echo_v1_echo_say_twice__done *done, void *user, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {echo_v1_echo_say_twice__deliver,
        (sealane_function *)done, user};
    return sealane_unary_start(channel, &echo_v1_echo__methods[1],
        (const ProtobufCMessage *)request, options, &completion, call_p);
}

static void echo_v1_echo_say_twice__invoke(struct sealane_call *call,
    const ProtobufCMessage *request, sealane_function *function, void *user)
{
    typedef void handler(struct sealane_call *, const Echo__V1__SayRequest *, void *);
    ((handler *)function)(call, (const Echo__V1__SayRequest *)request, user);
}

SEALANE_RESULT echo_v1_echo_say_twice__reply(struct sealane_call *call, const Echo__V1__SayReply *reply)
{
    return sealane_call_reply(call, (const ProtobufCMessage *)reply);
}

SEALANE_RESULT echo_v1_echo__register(struct sealane_server *server,
    const struct echo_v1_echo__handlers *handlers, void *user)
{
    const struct sealane_handler table[] = {
        {echo_v1_echo_say__invoke, (sealane_function *)handlers->say},
        {echo_v1_echo_say_twice__invoke, (sealane_function *)handlers->say_twice},
    };
    return sealane_server_add(server, &echo_v1_echo__service, table, user);
}

