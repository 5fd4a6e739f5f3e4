/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - a channel and a server on a fake node. */
#include "tests/rpc/world.h"

#include "rpc/channel.h"
#include "transport/bytes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* rpc only hands credentials on. */
static struct sealane_credentials *some_credentials(void)
{
    static int somewhere;

    return (struct sealane_credentials *)(void *)&somewhere;
}

struct world world_open(const struct sealane_channel_options *channel_options,
                        const struct sealane_server_options *server_options)
{
    struct world world = {.node = fake_node_new(true)};
    struct sealane_channel_options channel =
        channel_options ? *channel_options : (struct sealane_channel_options){0};
    struct sealane_server_options server =
        server_options ? *server_options : (struct sealane_server_options){0};

    channel.credentials = server.credentials = some_credentials();
    channel.server_name = "dns:fake.test";
    cr_assert_eq(sealane_channel_new(world.node, "unix:/fake", &channel, &world.channel),
                 SEALANE_OK);
    cr_assert_eq(sealane_server_new(world.node, &server, &world.server), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(world.server, "unix:/fake"), SEALANE_OK);
    return world;
}

void world_close(struct world *world)
{
    sealane_channel_free(world->channel);
    sealane_server_free(world->server);
    sealane_node_free(world->node);
}

/* ---- calls ---- */

static void deliver(struct sealane_call *call, enum sealane_status status,
                    const ProtobufCMessage *reply, sealane_function *done, void *user)
{
    struct outcome *outcome = user;

    cr_assert_null(done);
    outcome->count++;
    outcome->status = status;
    (void)snprintf(outcome->text, sizeof(outcome->text), "%s", sealane_call_message(call));
    cr_assert_eq(reply != NULL, status == SEALANE_OK);
    if (outcome->keep) {
        sealane_call_keep(call);
        outcome->kept = call;
        outcome->reply = reply;
    }
    if (outcome->then)
        outcome->then(outcome);
}

enum sealane_status world_try(struct sealane_channel *channel, const struct sealane_method *method,
                              const ProtobufCMessage *request, uint32_t timeout_ms,
                              struct outcome *outcome, struct sealane_call **call_p)
{
    const struct sealane_completion completion = {.deliver = deliver, .user = outcome};
    const struct sealane_call_options options = {.timeout_ms = timeout_ms};

    return sealane_unary_start(channel, method ? method : &cases_v1_cases__service.methods[0],
                               request, &options, &completion, call_p);
}

struct sealane_call *world_start(struct sealane_channel *channel, const ProtobufCMessage *request,
                                 uint32_t timeout_ms, struct outcome *outcome)
{
    struct sealane_call *call;

    cr_assert_eq(world_try(channel, NULL, request, timeout_ms, outcome, &call), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    /* The channel looks for a way in a turn of the node; inside a callback that is the turn after. */
    if (!sl_node_is_inside(channel->node))
        cr_assert_eq(sealane_node_poll(channel->node, 0), SEALANE_OK);
    return call;
}

struct sl_lane *world_lane(struct world *world)
{
    struct sl_lane *lane = fake_lane(world->node);

    cr_assert_not_null(lane);
    cr_assert_eq(fake_ready(lane), SEALANE_OK);
    return lane;
}

/* ---- messages ---- */

struct packed_message *message_new(const char *path, uint64_t timeout_ns,
                                   const ProtobufCMessage *message)
{
    struct packed_message *made =
        aligned_alloc(64, (sizeof(*made) + 63) / 64 * 64); /* the arena's alignment */
    const struct sl_pack_options options = {.method = path,
                                            .timeout_ns = timeout_ns,
                                            .max_message_bytes = UINT32_MAX};

    sl_call_arena_init(&made->arena, SIZE_MAX);
    cr_assert_eq(sl_codec_pack(&made->arena, message, &options, &made->packed), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return made;
}

struct packed_message *message_saying(const char *path, const ProtobufCMessage *message,
                                      const struct said_part *parts, unsigned count)
{
    struct packed_message *made = message_new(path, 0, message);
    size_t path_bytes = path ? strlen(path) : 0, head = SL_HEAD_FIXED + path_bytes;
    size_t old_head = sl_get32(made->packed.bytes), body = made->packed.count - old_head;
    uint8_t *bytes, *at;

    for (unsigned p = 0; p < count; p++)
        head += 9 + (size_t)parts[p].path.count * 8;
    bytes = sl_call_arena_alloc(&made->arena, head + body);
    memcpy(bytes, made->packed.bytes, SL_HEAD_FIXED + path_bytes);
    memcpy(bytes + head, made->packed.bytes + old_head, body);
    sl_put32(bytes, (uint32_t)head);
    sl_put16(bytes + 18, (uint16_t)count);
    at = bytes + SL_HEAD_FIXED + path_bytes;
    for (unsigned p = 0; p < count; p++) {
        sl_put64(at, parts[p].bytes);
        at[8] = parts[p].path.count;
        at += 9;
        for (unsigned s = 0; s < parts[p].path.count; s++, at += 8) {
            sl_put32(at, parts[p].path.steps[s].field);
            sl_put32(at + 4, parts[p].path.steps[s].index);
        }
    }
    made->packed.bytes = bytes;
    made->packed.count = head + body;
    return made;
}

void message_free(struct packed_message *message)
{
    sl_call_arena_clear(&message->arena);
    free(message);
}

enum sealane_status message_give(struct sl_lane *lane, uint64_t call, uint8_t flags,
                                 struct packed_message *message)
{
    return fake_message(lane, call, flags | SL_MESSAGE_FIRST | SL_MESSAGE_LAST,
                        message->packed.bytes, message->packed.count);
}
