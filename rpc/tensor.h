/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - sealane.Tensor fields, wherever they stand in a message: found, taken out before packing, put back after unpacking. */
#ifndef SL_TENSOR_H
#define SL_TENSOR_H

#include "rpc/arena.h"
#include "transport/lane.h"

#include <sealane.h>

enum {
    SL_PATH_STEPS = 32,  /* nesting of a tensor in its message */
    SL_PARTS_MAX = 4096, /* tensors of one message */
    SL_DEPTH_MAX = 100   /* nesting of any message: protobuf's own limit in C++ */
};

/* Where a tensor stands: field numbers from the outermost message inwards, each with its index (0 for fields that do not repeat). */
struct sl_step {
    uint32_t field;
    uint32_t index;
};

struct sl_path {
    uint8_t count;
    struct sl_step steps[SL_PATH_STEPS];
};

/* A tensor that leaves. */
struct sl_leaving {
    struct sl_leaving *next;
    struct sl_path path;
    struct sl_part part;
};

struct sl_leavings {
    struct sl_leaving *first, *last;
    size_t count;
};

/* True when a message of this type can hold a tensor. Remembered per type. */
bool sl_type_has_tensors(const ProtobufCMessageDescriptor *type);

/* What shall be packed in the message's place: the message itself when it holds no tensor, else clones of the messages on the way
 * to tensors, whose data is empty; the user's message is never written to. Clones come from the arena. INVALID_ARGUMENT names
 * the field whose shape, type and bytes disagree. */
SEALANE_RESULT sl_tensors_take_out(struct sl_call_arena *arena, const ProtobufCMessage *message,
                                   const ProtobufCMessage **stripped_p,
                                   struct sl_leavings *leavings);

/* The tensor at a path of an unpacked message. OK with NULL: this side does not know such a field. INVALID_ARGUMENT: the path leads to
 * something else. */
SEALANE_RESULT sl_tensor_at(ProtobufCMessage *message, const struct sl_path *path,
                            Sealane__Tensor **tensor_p);

/* "groups[2].weights", for people. */
void sl_path_text(const ProtobufCMessageDescriptor *type, const struct sl_path *path, char *text,
                  size_t size);

/* Before parts are put in: INVALID_ARGUMENT when a tensor came with field 3. */
SEALANE_RESULT sl_tensors_check_empty(const ProtobufCMessage *message);

/* After parts were put in (data.len set): INVALID_ARGUMENT when shape, type and bytes of one disagree. */
SEALANE_RESULT sl_tensors_check_filled(const ProtobufCMessage *message);

#endif
