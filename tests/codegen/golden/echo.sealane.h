/* Made by protoc-gen-sealane from echo.proto. Do not edit. */
#ifndef SEALANE_GENERATED_echo_2eproto
#define SEALANE_GENERATED_echo_2eproto

#include <sealane.h>

#include "echo.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- service echo.v1.Echo ----
 *
 * Says back what it hears.
 *
 * A second paragraph. It tries * / to get out.
 */
extern const struct sealane_service echo_v1_echo__service;

/* One function per method; NULL answers UNIMPLEMENTED. `request` is the call's until it was
 * answered, with the method's __reply or with sealane_call_fail, before the function returns
 * or later. */
struct echo_v1_echo__handlers {
    void (*say)(struct sealane_call *call, const Echo__V1__SayRequest *request, void *user);
    void (*say_twice)(struct sealane_call *call, const Echo__V1__SayRequest *request, void *user);
};

/* Adds the service to a server. `handlers` is copied; `user` is borrowed until the server's
 * end and handed to each handler. */
SEALANE_RESULT echo_v1_echo__register(struct sealane_server *server,
    const struct echo_v1_echo__handlers *handlers, void *user);

/* ---- rpc Echo.Say ----
 *
 * Says it once.
 */
/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until
 * sealane_call_free(*call_p). */
SEALANE_RESULT echo_v1_echo_say(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    const Echo__V1__SayReply **reply_p, struct sealane_call **call_p);

/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and
 * the call are freed when done returns, unless it called sealane_call_keep. Tensors of
 * `request` are borrowed until done. */
typedef void echo_v1_echo_say__done(struct sealane_call *call, enum sealane_status status,
    const Echo__V1__SayReply *reply, void *user);
SEALANE_RESULT echo_v1_echo_say__start(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    echo_v1_echo_say__done *done, void *user, struct sealane_call **call_p);

/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the
 * call's end. */
SEALANE_RESULT echo_v1_echo_say__reply(struct sealane_call *call, const Echo__V1__SayReply *reply);

/* ---- rpc Echo.SayTwice ----
 *
 * Deprecated.
 */
/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until
 * sealane_call_free(*call_p). */
SEALANE_RESULT echo_v1_echo_say_twice(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    const Echo__V1__SayReply **reply_p, struct sealane_call **call_p);

/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and
 * the call are freed when done returns, unless it called sealane_call_keep. Tensors of
 * `request` are borrowed until done. */
typedef void echo_v1_echo_say_twice__done(struct sealane_call *call, enum sealane_status status,
    const Echo__V1__SayReply *reply, void *user);
SEALANE_RESULT echo_v1_echo_say_twice__start(struct sealane_channel *channel,
    const Echo__V1__SayRequest *request, const struct sealane_call_options *options,
    echo_v1_echo_say_twice__done *done, void *user, struct sealane_call **call_p);

/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the
 * call's end. */
SEALANE_RESULT echo_v1_echo_say_twice__reply(struct sealane_call *call, const Echo__V1__SayReply *reply);

#ifdef __cplusplus
}
#endif
#endif
