/* SPDX-License-Identifier: Apache-2.0 */
/* intake.c - a message on its way in: pieces are gathered, protobuf is unpacked, memory for its tensors is reserved (all of them
 * or none), and a handler or callback hears of it only when every byte was verified. */
#include "rpc/call.h"

#include <string.h>

enum {
    ARENA_PART_MAX = 65536 /* smaller tensors live in the arena */
};

/* ---- gathering ---- */

static SEALANE_RESULT begin(struct sealane_call *call, const struct sl_lane_event *event,
                            enum sl_took *took_p)
{
    struct sl_intake *intake = &call->intake;
    uint32_t head_bytes, message_bytes;

    SL_TRY(sl_head_sizes(event->bytes, event->count, &head_bytes, &message_bytes));
    intake->want = (size_t)head_bytes + message_bytes;
    if (message_bytes <= call->gate->limits.max_message_bytes)
        return SEALANE_OK;
    intake->refused = true;
    *took_p = SL_TOOK_TOO_MUCH;
    (void)SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                  "a message of %u bytes came, max_message_bytes allows %u", message_bytes,
                  call->gate->limits.max_message_bytes);
    return SEALANE_OK;
}

static bool gather(struct sealane_call *call, const struct sl_lane_event *event)
{
    struct sl_intake *intake = &call->intake;

    if (!intake->buffer)
        intake->buffer = sl_call_arena_alloc(&call->arena, intake->want);
    if (!intake->buffer) {
        (void)SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes",
                      intake->want);
        return false;
    }
    memcpy(intake->buffer + intake->have, event->bytes, event->count);
    intake->have += event->count;
    return true;
}

SEALANE_RESULT sl_intake_take(struct sealane_call *call, const struct sl_lane_event *event,
                              enum sl_took *took_p, struct sl_message_bytes *whole_p)
{
    struct sl_intake *intake = &call->intake;
    bool first = event->flags & SL_MESSAGE_FIRST, last = event->flags & SL_MESSAGE_LAST;

    *took_p = SL_TOOK_NOTHING;
    if (first != (intake->want == 0))
        return SL_FAIL(SEALANE_DATA_LOSS, "call %llu: a message %s", (unsigned long long)call->id,
                       first ? "began twice" : "goes on without having begun");
    if (first)
        SL_TRY(begin(call, event, took_p));
    if (intake->refused)
        return SEALANE_OK;
    if (event->count > intake->want - intake->have ||
        (last && event->count < intake->want - intake->have))
        return SL_FAIL(SEALANE_DATA_LOSS, "call %llu: a message of %zu bytes came as %zu",
                       (unsigned long long)call->id, intake->want, intake->have + event->count);
    *took_p = last ? SL_TOOK_ALL : SL_TOOK_PART;
    *whole_p = (struct sl_message_bytes){event->bytes, event->count};
    if (first && last)
        return SEALANE_OK; /* one piece is read where it is */
    if (!gather(call, event)) {
        intake->refused = true;
        *took_p = SL_TOOK_TOO_MUCH;
        return SEALANE_OK;
    }
    *whole_p = (struct sl_message_bytes){intake->buffer, intake->have};
    return SEALANE_OK;
}

/* ---- parts ---- */

static SEALANE_RESULT part_assign(struct sealane_call *call, struct sl_arrival *part,
                                  const struct sl_path *path)
{
    char text[128];

    SL_TRY(sl_tensor_at(call->intake.message, path, &part->tensor));
    if (!part->tensor)
        return SEALANE_OK;
    if (part->tensor->data.len != 0) {
        sl_path_text(call->intake.message->descriptor, path, text, sizeof(text));
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "two tensors are said to be in field %s", text);
    }
    if (part->bytes > SIZE_MAX)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "a tensor of %llu bytes does not fit this machine",
                       (unsigned long long)part->bytes);
    part->tensor->data.len = (size_t)part->bytes;
    call->intake.left += part->bytes;
    return SEALANE_OK;
}

/* Reads the table of parts and checks it against the message. The total is what the peer sees: parts that are skipped count. */
static SEALANE_RESULT parts_assign(struct sealane_call *call, struct sl_head *head,
                                   uint64_t *total_p)
{
    struct sl_intake *intake = &call->intake;
    struct sl_arrival *parts =
        sl_call_arena_alloc(&call->arena, (head->part_count + 1u) * sizeof(*parts));
    uint64_t total = 0;

    if (!parts)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %u tensors", head->part_count);
    SL_TRY(sl_tensors_check_empty(intake->message));
    for (unsigned p = 0; p < head->part_count; p++) {
        struct sl_path path;

        parts[p] = (struct sl_arrival){.bytes = sl_head_next_part(head, &path)};
        if (parts[p].bytes > UINT64_MAX - total)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "the tensors of a message have more than 2^64 bytes");
        total += parts[p].bytes;
        SL_TRY(part_assign(call, &parts[p], &path));
    }
    SL_TRY(sl_tensors_check_filled(intake->message));
    intake->parts = parts;
    intake->part_count = head->part_count;
    *total_p = total;
    return SEALANE_OK;
}

static SEALANE_RESULT part_alloc(struct sealane_call *call, struct sl_arrival *part)
{
    if (!part->tensor)
        return SEALANE_OK;
    if (part->bytes <= ARENA_PART_MAX)
        part->at = sl_call_arena_alloc(&call->arena, (size_t)(part->bytes + 63) / 64 * 64);
    if (!part->at) {
        part->at = sl_gate_alloc(call->gate, (size_t)part->bytes);
        part->pooled = part->at != NULL;
    }
    if (!part->at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a tensor of %llu bytes",
                       (unsigned long long)part->bytes);
    part->tensor->data.data = part->at;
    return SEALANE_OK;
}

static SEALANE_RESULT parts_alloc(struct sealane_call *call)
{
    for (size_t i = 0; i < call->intake.part_count; i++)
        SL_TRY(part_alloc(call, &call->intake.parts[i]));
    call->intake.ready = true;
    return SEALANE_OK;
}

static struct sealane_call *call_of_waiter(struct sl_waiter *waiter)
{
    return (struct sealane_call *)(void *)((char *)waiter -
                                           offsetof(struct sealane_call, intake.waiter));
}

static void fail_with_last_error(struct sealane_call *call)
{
    if (call->channel)
        sl_client_fail(call, sealane_last_error()->status, sealane_last_error()->message);
    else
        sl_server_fail(call, sealane_last_error()->status, sealane_last_error()->message);
}

/* Others wait for the memory that this call holds, and its bytes do not come. */
static void stalled(struct sl_waiter *waiter)
{
    (void)SL_FAIL(
        SEALANE_ABORTED,
        "tensors of %llu bytes were announced and made no progress while other calls wait for memory "
        "(tensor_memory_bytes)",
        (unsigned long long)waiter->bytes);
    fail_with_last_error(call_of_waiter(waiter));
}

/* The line has come to this call. */
static void granted(struct sl_waiter *waiter)
{
    struct sealane_call *call = call_of_waiter(waiter);
    enum sealane_status status;

    call->intake.reserved = waiter->bytes;
    status = parts_alloc(call);
    if (status == SEALANE_OK)
        status = sl_lane_allow(call->lane, call->id);
    if (status != SEALANE_OK)
        fail_with_last_error(call);
}

static SEALANE_RESULT check_limits(const struct sl_gate *gate, uint64_t bytes)
{
    if (bytes > gate->limits.max_tensor_bytes)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "the tensors of a message have %llu bytes, max_tensor_bytes allows %llu",
                       (unsigned long long)bytes,
                       (unsigned long long)gate->limits.max_tensor_bytes);
    if (bytes > gate->limits.tensor_memory_bytes)
        return SL_FAIL(
            SEALANE_RESOURCE_EXHAUSTED,
            "the tensors of a message have %llu bytes, tensor_memory_bytes is %llu for all calls",
            (unsigned long long)bytes, (unsigned long long)gate->limits.tensor_memory_bytes);
    return SEALANE_OK;
}

/* Memory for the parts that are kept: now, or when the line has come to this call. */
static SEALANE_RESULT reserve_and_allow(struct sealane_call *call)
{
    struct sl_intake *intake = &call->intake;

    intake->waiter.bytes = intake->left;
    intake->waiter.granted = granted;
    intake->waiter.stalled = stalled;
    if (intake->left > 0 && !sl_gate_reserve(call->gate, &intake->waiter))
        return SEALANE_OK;
    intake->reserved = intake->left;
    SL_TRY(parts_alloc(call));
    return sl_lane_allow(call->lane, call->id);
}

SEALANE_RESULT sl_intake_open(struct sealane_call *call, struct sl_head *head, const uint8_t *bytes,
                              const ProtobufCMessageDescriptor *type)
{
    uint64_t total = 0;

    SL_TRY(sl_codec_unpack(&call->arena, type, bytes + head->head_bytes, head->message_bytes,
                           &call->intake.message));
    if (head->part_count > 0 || sl_type_has_tensors(type))
        SL_TRY(parts_assign(call, head, &total));
    SL_TRY(check_limits(call->gate, call->intake.left));
    return total > sl_lane_eager_bytes(call->lane) ? reserve_and_allow(call) : parts_alloc(call);
}

bool sl_intake_is_whole(const struct sl_intake *intake)
{
    return intake->message != NULL && intake->left == 0;
}

/* Chunks of a part come in order and without gaps, so that no byte of a tensor is left unwritten. */
SEALANE_RESULT sl_intake_place(struct sealane_call *call, struct sl_lane_event *event)
{
    struct sl_intake *intake = &call->intake;
    struct sl_arrival *part;

    if (!intake->ready || event->part >= intake->part_count)
        return SL_FAIL(SEALANE_DATA_LOSS, "call %llu: bytes of tensor %u came, %s",
                       (unsigned long long)call->id, event->part,
                       intake->ready ? "which was not announced" : "which may not come yet");
    part = &intake->parts[event->part];
    if (event->offset != part->placed || event->count > part->bytes - part->placed)
        return SL_FAIL(
            SEALANE_DATA_LOSS,
            "call %llu: %zu bytes at %llu of tensor %u came, expected offset %llu of %llu",
            (unsigned long long)call->id, event->count, (unsigned long long)event->offset,
            event->part, (unsigned long long)part->placed, (unsigned long long)part->bytes);
    part->placed += event->count;
    if (!part->tensor)
        return SEALANE_OK;
    event->place = part->at + event->offset;
    intake->placing++;
    return SEALANE_OK;
}

void sl_intake_filled(struct sealane_call *call, const struct sl_lane_event *event)
{
    struct sl_intake *intake = &call->intake;

    intake->placing--;
    intake->parts[event->part].filled += event->count;
    intake->left -= event->count;
    sl_gate_moved(call->gate, &intake->waiter);
    if (intake->left == 0)
        sl_gate_filled(call->gate, &intake->waiter);
}
