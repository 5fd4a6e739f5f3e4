/* SPDX-License-Identifier: Apache-2.0 */
/* door.c - a loopback in place of rpc/: what generated code calls, over one call at a time and protobuf-c's own encoding.
 *
 * Requests and replies are packed and unpacked on the way, so that a check also proves that generated descriptors work.
 */
#include <sealane.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 16

struct sealane_call {
    ProtobufCMessage *reply; /* NULL: the handler did not answer */
};

static struct {
    const struct sealane_service *service;
    struct sealane_handler *handlers;
    void *user;
} services[SERVICES_MAX];
static size_t service_count;

static ProtobufCMessage *through_the_wire(const ProtobufCMessageDescriptor *descriptor,
                                          const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *wire = malloc(bytes + 1);
    if (!wire)
        return NULL;
    protobuf_c_message_pack(message, wire);
    ProtobufCMessage *copy = protobuf_c_message_unpack(descriptor, NULL, bytes, wire);
    free(wire);
    return copy;
}

enum sealane_status sealane_server_add(struct sealane_server *server,
                                       const struct sealane_service *service,
                                       const struct sealane_handler *handlers, void *user)
{
    (void)server;
    if (service_count == SERVICES_MAX)
        return SEALANE_RESOURCE_EXHAUSTED;
    size_t bytes = service->method_count * sizeof *handlers;
    services[service_count].service = service;
    services[service_count].handlers = malloc(bytes + 1);
    services[service_count].user = user;
    if (!services[service_count].handlers)
        return SEALANE_RESOURCE_EXHAUSTED;
    if (bytes)
        memcpy(services[service_count].handlers, handlers, bytes);
    service_count++;
    return SEALANE_OK;
}

static enum sealane_status handle(struct sealane_call *call, const struct sealane_method *method,
                                  const ProtobufCMessage *request)
{
    for (size_t s = 0; s < service_count; s++) {
        for (size_t m = 0; m < services[s].service->method_count; m++) {
            if (strcmp(services[s].service->methods[m].path, method->path) != 0)
                continue;
            const struct sealane_handler *handler = &services[s].handlers[m];
            if (!handler->function)
                return SEALANE_UNIMPLEMENTED;
            ProtobufCMessage *received = through_the_wire(method->request, request);
            if (!received)
                return SEALANE_INTERNAL;
            handler->invoke(call, received, handler->function, services[s].user);
            protobuf_c_message_free_unpacked(received, NULL);
            return call->reply ? SEALANE_OK : SEALANE_CANCELLED;
        }
    }
    return SEALANE_UNIMPLEMENTED;
}

enum sealane_status sealane_call_reply(struct sealane_call *call, const ProtobufCMessage *reply)
{
    call->reply = through_the_wire(reply->descriptor, reply);
    return call->reply ? SEALANE_OK : SEALANE_INTERNAL;
}

void sealane_call_free(struct sealane_call *call)
{
    if (call && call->reply)
        protobuf_c_message_free_unpacked(call->reply, NULL);
    free(call);
}

enum sealane_status sealane_unary_call(struct sealane_channel *channel,
                                       const struct sealane_method *method,
                                       const ProtobufCMessage *request,
                                       const struct sealane_call_options *options,
                                       const ProtobufCMessage **reply_p,
                                       struct sealane_call **call_p)
{
    (void)channel;
    (void)options;
    *call_p = calloc(1, sizeof **call_p);
    enum sealane_status status =
        *call_p ? handle(*call_p, method, request) : SEALANE_RESOURCE_EXHAUSTED;
    if (status == SEALANE_OK) {
        *reply_p = (*call_p)->reply;
        return status;
    }
    sealane_call_free(*call_p);
    *call_p = NULL;
    *reply_p = NULL;
    return status;
}

enum sealane_status sealane_unary_start(struct sealane_channel *channel,
                                        const struct sealane_method *method,
                                        const ProtobufCMessage *request,
                                        const struct sealane_call_options *options,
                                        const struct sealane_completion *completion,
                                        struct sealane_call **call_p)
{
    struct sealane_call *call = NULL;
    const ProtobufCMessage *reply = NULL;
    enum sealane_status status =
        sealane_unary_call(channel, method, request, options, &reply, &call);
    completion->deliver(call, status, reply, completion->done, completion->user);
    sealane_call_free(call);
    if (call_p)
        *call_p = NULL;
    return SEALANE_OK;
}
