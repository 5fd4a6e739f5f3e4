/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - finding tensors through protobuf-c's descriptors, and checking them. */
#include "rpc/tensor.h"

#include "transport/bytes.h"

#include <stdatomic.h>
#include <stdio.h>

/* ---- sizes ---- */

size_t sealane_dtype_bytes(Sealane__DType dtype)
{
    switch (dtype) {
    case SEALANE__DTYPE__DTYPE_F8_E4M3:
    case SEALANE__DTYPE__DTYPE_F8_E5M2:
    case SEALANE__DTYPE__DTYPE_I8:
    case SEALANE__DTYPE__DTYPE_U8:
    case SEALANE__DTYPE__DTYPE_BOOL:
        return 1;
    case SEALANE__DTYPE__DTYPE_F16:
    case SEALANE__DTYPE__DTYPE_BF16:
    case SEALANE__DTYPE__DTYPE_I16:
    case SEALANE__DTYPE__DTYPE_U16:
        return 2;
    case SEALANE__DTYPE__DTYPE_F32:
    case SEALANE__DTYPE__DTYPE_I32:
    case SEALANE__DTYPE__DTYPE_U32:
        return 4;
    case SEALANE__DTYPE__DTYPE_F64:
    case SEALANE__DTYPE__DTYPE_I64:
    case SEALANE__DTYPE__DTYPE_U64:
        return 8;
    default:
        return 0;
    }
}

SEALANE_RESULT sealane_tensor_bytes(const Sealane__Tensor *tensor, uint64_t *bytes_p)
{
    uint64_t bytes = sealane_dtype_bytes(tensor->dtype);

    if (bytes == 0)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a tensor has dtype %d, which is none of sealane.DType's",
                       (int)tensor->dtype);
    for (size_t i = 0; i < tensor->n_shape; i++) {
        if (tensor->shape[i] ==
            0) { /* wherever it stands: the others may be as large as they like */
            *bytes_p = 0;
            return SEALANE_OK;
        }
    }
    for (size_t i = 0; i < tensor->n_shape; i++) {
        if (bytes > (UINT64_C(1) << 63) / tensor->shape[i])
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a tensor's shape of %zu dimensions has more than 2^63 bytes",
                           tensor->n_shape);
        bytes *= tensor->shape[i];
    }
    *bytes_p = bytes;
    return SEALANE_OK;
}

/* ---- which types hold tensors ---- */

enum {
    CACHE_SIZE = 512, /* types; beyond that answers are worked out each time */
    VISIT_MAX = 256
};

static _Atomic uintptr_t cache[CACHE_SIZE]; /* descriptor | answer in bit 0 */

struct visits {
    const ProtobufCMessageDescriptor *types[VISIT_MAX];
    size_t count;
};

static bool is_tensor(const ProtobufCMessageDescriptor *type)
{
    return type == &sealane__tensor__descriptor;
}

/* Each type once, breadth first: types may contain themselves. */
static bool search(const ProtobufCMessageDescriptor *type)
{
    struct visits visits = {.types = {type}, .count = 1};

    for (size_t v = 0; v < visits.count; v++) {
        if (is_tensor(visits.types[v]))
            return true;
        for (unsigned f = 0; f < visits.types[v]->n_fields; f++) {
            const ProtobufCFieldDescriptor *field = &visits.types[v]->fields[f];
            size_t known = 0;

            if (field->type != PROTOBUF_C_TYPE_MESSAGE)
                continue;
            while (known < visits.count && visits.types[known] != field->descriptor)
                known++;
            if (known < visits.count)
                continue;
            if (visits.count == VISIT_MAX)
                return true; /* too many to say no: looking costs time, missing one costs the data */
            visits.types[visits.count++] = field->descriptor;
        }
    }
    return false;
}

bool sl_type_has_tensors(const ProtobufCMessageDescriptor *type)
{
    uintptr_t key = (uintptr_t)type;
    size_t at = (key >> 4) * 0x9E3779B1u % CACHE_SIZE;

    for (size_t probe = 0; probe < 8; probe++) {
        _Atomic uintptr_t *entry = &cache[(at + probe) % CACHE_SIZE];
        uintptr_t seen = atomic_load_explicit(entry, memory_order_relaxed);

        if ((seen & ~(uintptr_t)1) == key)
            return seen & 1;
        if (seen == 0) {
            bool answer = search(type);
            (void)atomic_compare_exchange_strong(entry, &seen, key | (answer ? 1u : 0u));
            return answer;
        }
    }
    return search(type);
}

/* ---- fields and paths ---- */

/* One message field of a message: its elements, which may be absent. */
struct elements {
    ProtobufCMessage **at;
    size_t count;
};

static struct elements field_elements(const ProtobufCMessage *message,
                                      const ProtobufCFieldDescriptor *field)
{
    uint8_t *base = (uint8_t *)(uintptr_t)message;
    ProtobufCMessage **single = (ProtobufCMessage **)(void *)(base + field->offset);
    struct elements none = {NULL, 0};

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count;

        memcpy(&count, base + field->quantifier_offset, sizeof(count));
        return (struct elements){*(ProtobufCMessage ***)(void *)(base + field->offset), count};
    }
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;

        memcpy(&which, base + field->quantifier_offset, sizeof(which));
        if (which != field->id)
            return none;
    }
    return *single ? (struct elements){single, 1} : none;
}

/* Deeper steps are counted, not kept: a tensor there is refused. */
static void path_push(struct sl_path *path, const ProtobufCFieldDescriptor *field, size_t index)
{
    if (path->count < SL_PATH_STEPS)
        path->steps[path->count] = (struct sl_step){field->id, (uint32_t)index};
    path->count++;
}

void sl_path_text(const ProtobufCMessageDescriptor *type, const struct sl_path *path, char *text,
                  size_t size)
{
    size_t used = 0;

    (void)snprintf(text, size, "(the message itself)");
    for (unsigned s = 0; type && s < path->count && s < SL_PATH_STEPS && used < size; s++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(type, path->steps[s].field);
        bool repeats = field && field->label == PROTOBUF_C_LABEL_REPEATED;
        const char *dot = s > 0 ? "." : "";

        if (!field)
            used += (size_t)snprintf(text + used, size - used, "%s%u", dot, path->steps[s].field);
        else if (repeats)
            used += (size_t)snprintf(text + used, size - used, "%s%s[%u]", dot, field->name,
                                     path->steps[s].index);
        else
            used += (size_t)snprintf(text + used, size - used, "%s%s", dot, field->name);
        type = field && field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
    }
}

/* Where a walk through a message is. */
struct place {
    const ProtobufCMessageDescriptor *root;
    struct sl_path path;
};

struct place_text {
    char at[128];
};

static struct place_text place_text(const struct place *place)
{
    struct place_text text;

    sl_path_text(place->root, &place->path, text.at, sizeof(text.at));
    return text;
}

/* Shape and type against `bytes` of data. A tensor with nothing set at all is allowed: absent data. */
static SEALANE_RESULT check_bytes(const Sealane__Tensor *tensor, const struct place *place)
{
    uint64_t bytes = 0;

    if (tensor->dtype == SEALANE__DTYPE__DTYPE_UNSPECIFIED && tensor->n_shape == 0 &&
        tensor->data.len == 0)
        return SEALANE_OK;
    if (sealane_tensor_bytes(tensor, &bytes) != SEALANE_OK)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s: %s", place_text(place).at,
                       sealane_last_error()->message);
    if (bytes != tensor->data.len)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "field %s: a tensor's shape and dtype make %llu bytes, its data has %zu",
                       place_text(place).at, (unsigned long long)bytes, tensor->data.len);
    return SEALANE_OK;
}

/* ---- taking tensors out ---- */

struct walk {
    struct sl_call_arena *arena;
    struct sl_leavings *leavings;
    struct place place;
};

static SEALANE_RESULT strip(struct walk *walk, const ProtobufCMessage *message,
                            const ProtobufCMessage **stripped_p);

static SEALANE_RESULT no_memory(void)
{
    return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory to pack a message");
}

static SEALANE_RESULT check_leaving(const struct walk *walk, const Sealane__Tensor *tensor)
{
    SL_TRY(check_bytes(tensor, &walk->place));
    if (tensor->data.len > 0 && !tensor->data.data)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s: a tensor of %zu bytes points nowhere",
                       place_text(&walk->place).at, tensor->data.len);
    if (walk->place.path.count > SL_PATH_STEPS)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "field %s: a tensor is nested deeper than %d levels",
                       place_text(&walk->place).at, SL_PATH_STEPS);
    if (tensor->data.len > 0 && walk->leavings->count == SL_PARTS_MAX)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "a message has more than %d tensors",
                       SL_PARTS_MAX);
    return SEALANE_OK;
}

static SEALANE_RESULT leave(struct walk *walk, const Sealane__Tensor *tensor)
{
    struct sl_leavings *leavings = walk->leavings;
    struct sl_leaving *leaving = sl_call_arena_alloc(walk->arena, sizeof(*leaving));

    if (!leaving)
        return no_memory();
    *leaving = (struct sl_leaving){.path = walk->place.path,
                                   .part = {tensor->data.data, tensor->data.len}};
    if (leavings->last)
        leavings->last->next = leaving;
    else
        leavings->first = leaving;
    leavings->last = leaving;
    leavings->count++;
    return SEALANE_OK;
}

static SEALANE_RESULT strip_tensor(struct walk *walk, const ProtobufCMessage *message,
                                   const ProtobufCMessage **stripped_p)
{
    const Sealane__Tensor *tensor = (const Sealane__Tensor *)(const void *)message;
    Sealane__Tensor *clone;

    SL_TRY(check_leaving(walk, tensor));
    if (tensor->data.len > 0)
        SL_TRY(leave(walk, tensor));
    clone = sl_call_arena_alloc(walk->arena, sizeof(*clone));
    if (!clone)
        return no_memory();
    memcpy(clone, tensor, sizeof(*clone));
    clone->data = (ProtobufCBinaryData){0, NULL};
    *stripped_p = &clone->base;
    return SEALANE_OK;
}

static SEALANE_RESULT strip_field(struct walk *walk, ProtobufCMessage *clone,
                                  const ProtobufCFieldDescriptor *field)
{
    struct elements elements = field_elements(clone, field);
    const ProtobufCMessage **to;

    if (elements.count == 0)
        return SEALANE_OK;
    if (elements.count > UINT32_MAX ||
        !(to = sl_call_arena_alloc(walk->arena, elements.count * sizeof(ProtobufCMessage *))))
        return no_memory();
    for (size_t i = 0; i < elements.count; i++) {
        path_push(&walk->place.path, field, i);
        if (!elements.at[i])
            return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s is NULL",
                           place_text(&walk->place).at);
        SL_TRY(strip(walk, elements.at[i], &to[i]));
        walk->place.path.count--;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        memcpy((uint8_t *)clone + field->offset, &to, sizeof(to));
    else
        memcpy((uint8_t *)clone + field->offset, &to[0], sizeof(to[0]));
    return SEALANE_OK;
}

/* The receiver refuses what is nested deeper; here it also ends the walk through a message that contains itself. */
static SEALANE_RESULT strip(struct walk *walk, const ProtobufCMessage *message,
                            const ProtobufCMessage **stripped_p)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    ProtobufCMessage *clone;

    if (is_tensor(type))
        return strip_tensor(walk, message, stripped_p);
    if (!sl_type_has_tensors(type)) {
        *stripped_p = message;
        return SEALANE_OK;
    }
    if (walk->place.path.count >= SL_DEPTH_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a %s is nested deeper than %d levels", type->name,
                       SL_DEPTH_MAX);
    clone = sl_call_arena_alloc(walk->arena, type->sizeof_message);
    if (!clone)
        return no_memory();
    memcpy(clone, message, type->sizeof_message);
    for (unsigned f = 0; f < type->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &type->fields[f];

        if (field->type == PROTOBUF_C_TYPE_MESSAGE && sl_type_has_tensors(field->descriptor))
            SL_TRY(strip_field(walk, clone, field));
    }
    *stripped_p = clone;
    return SEALANE_OK;
}

SEALANE_RESULT sl_tensors_take_out(struct sl_call_arena *arena, const ProtobufCMessage *message,
                                   const ProtobufCMessage **stripped_p,
                                   struct sl_leavings *leavings)
{
    struct walk walk = {.arena = arena,
                        .leavings = leavings,
                        .place = {.root = message->descriptor}};

    *leavings = (struct sl_leavings){.count = 0};
    return strip(&walk, message, stripped_p);
}

/* ---- putting tensors in ---- */

SEALANE_RESULT sl_tensor_at(ProtobufCMessage *message, const struct sl_path *path,
                            Sealane__Tensor **tensor_p)
{
    struct place place = {.root = message->descriptor, .path = *path};

    for (unsigned s = 0; s < path->count; s++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(message->descriptor, path->steps[s].field);
        struct elements elements;

        if (!field) {
            *tensor_p = NULL; /* a field of a newer contract */
            return SEALANE_OK;
        }
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a tensor is said to be in field %s, but %s is no message",
                           place_text(&place).at, field->name);
        elements = field_elements(message, field);
        if (path->steps[s].index >= elements.count)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a tensor is said to be in field %s, but there are %zu of %s",
                           place_text(&place).at, elements.count, field->name);
        message = elements.at[path->steps[s].index];
    }
    if (!is_tensor(message->descriptor))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a tensor is said to be in field %s, where there is a %s",
                       place_text(&place).at, message->descriptor->name);
    *tensor_p = (Sealane__Tensor *)(void *)message;
    return SEALANE_OK;
}

typedef enum sealane_status visit(const Sealane__Tensor *tensor, const struct place *place);

/* An unpacked message: its nesting was bounded before. */
static SEALANE_RESULT each_tensor(const ProtobufCMessage *message, struct place *place,
                                  visit *function)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    if (is_tensor(type))
        return function((const Sealane__Tensor *)(const void *)message, place);
    if (!sl_type_has_tensors(type))
        return SEALANE_OK;
    for (unsigned f = 0; f < type->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &type->fields[f];
        struct elements elements;

        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        elements = field_elements(message, field);
        for (size_t i = 0; i < elements.count; i++) {
            path_push(&place->path, field, i);
            SL_TRY(each_tensor(elements.at[i], place, function));
            place->path.count--;
        }
    }
    return SEALANE_OK;
}

static enum sealane_status is_empty(const Sealane__Tensor *tensor, const struct place *place)
{
    if (tensor->data.len > 0)
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "field %s: a tensor came with %zu bytes inside the message, expected them beside it",
            place_text(place).at, tensor->data.len);
    return SEALANE_OK;
}

SEALANE_RESULT sl_tensors_check_empty(const ProtobufCMessage *message)
{
    return each_tensor(message, &(struct place){.root = message->descriptor}, is_empty);
}

SEALANE_RESULT sl_tensors_check_filled(const ProtobufCMessage *message)
{
    return each_tensor(message, &(struct place){.root = message->descriptor}, check_bytes);
}
