/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - what tests of rpc/ have in common: a channel and a server on a fake node, calls that remember how they ended, and messages
 * as a peer would send them. */
#ifndef WORLD_H
#define WORLD_H

#include "cases.sealane.h"
#include "rpc/codec.h"
#include "tests/support/lane_fake.h"

struct world {
    struct sealane_node *node;
    struct sealane_channel *channel;
    struct sealane_server *server;
};

/* Options may be NULL; credentials and names are filled in. A polled node; lanes by hand until fake_join. */
struct world world_open(const struct sealane_channel_options *channel_options,
                        const struct sealane_server_options *server_options);
void world_close(struct world *world);

/* How a call ended. */
struct outcome {
    unsigned count; /* it must end once */
    enum sealane_status status;
    char text[SL_STATUS_TEXT_MAX + 1];
    bool keep;
    struct sealane_call *kept;
    const ProtobufCMessage *reply; /* when kept */
    void (*then)(struct outcome *outcome);
    void *user;
};

/* Starts a call of Cases.Echo, or of `method`. Fails the test when it is refused. */
struct sealane_call *world_start(struct sealane_channel *channel, const ProtobufCMessage *request,
                                 uint32_t timeout_ms, struct outcome *outcome);
enum sealane_status world_try(struct sealane_channel *channel, const struct sealane_method *method,
                              const ProtobufCMessage *request, uint32_t timeout_ms,
                              struct outcome *outcome, struct sealane_call **call_p);

/* The channel's lane, made and READY; the call that asked for it is `outcome`'s. */
struct sl_lane *world_lane(struct world *world);

/* A message as a peer packs it. */
struct packed_message {
    struct sl_call_arena arena;
    struct sl_packed packed;
};
struct packed_message *message_new(const char *path, uint64_t timeout_ns,
                                   const ProtobufCMessage *message);

/* With a head that says these parts, whatever the message holds. */
struct said_part {
    uint64_t bytes;
    struct sl_path path;
};
struct packed_message *message_saying(const char *path, const ProtobufCMessage *message,
                                      const struct said_part *parts, unsigned count);
void message_free(struct packed_message *message);

/* Sends it whole. */
enum sealane_status message_give(struct sl_lane *lane, uint64_t call, uint8_t flags,
                                 struct packed_message *message);

#define TENSOR(dtype_, shape_, data_, bytes_)                                         \
    ((Sealane__Tensor){.base = PROTOBUF_C_MESSAGE_INIT(&sealane__tensor__descriptor), \
                       .dtype = SEALANE__DTYPE__DTYPE_##dtype_,                       \
                       .n_shape = sizeof(shape_) / sizeof((shape_)[0]),               \
                       .shape = (shape_),                                             \
                       .data = {(bytes_), (uint8_t *)(data_)}})

#endif
