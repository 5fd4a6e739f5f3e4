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
        if (tensor->shape[i] == 0) {
            bytes = 0;
            break;
        }
        if (bytes > (UINT64_C(1) << 63) / tensor->shape[i])
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a tensor's shape of %zu dimensions has more than 2^63 bytes",
                           tensor->n_shape);
        bytes *= tensor->shape[i];
    }
    *bytes_p = bytes;
    return SEALANE_OK;
}

/* A tensor with nothing set at all is allowed: absent data. */
static SEALANE_RESULT check_bytes(const Sealane__Tensor *tensor, const char *field)
{
    uint64_t bytes = 0;

    if (tensor->dtype == SEALANE__DTYPE__DTYPE_UNSPECIFIED && tensor->n_shape == 0 &&
        tensor->data.len == 0)
        return SEALANE_OK;
    if (sealane_tensor_bytes(tensor, &bytes) != SEALANE_OK)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s: %s", field,
                       sealane_last_error()->message);
    if (bytes != tensor->data.len)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "field %s: a tensor's shape and dtype make %llu bytes, its data has %zu",
                       field, (unsigned long long)bytes, tensor->data.len);
    if (bytes > 0 && !tensor->data.data)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s: a tensor of %llu bytes points nowhere",
                       field, (unsigned long long)bytes);
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

/* ---- walking ---- */

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

struct walk {
    struct sl_arena *arena;
    struct sl_leavings *leavings;
    struct sl_path path;
};

static SEALANE_RESULT strip(struct walk *walk, const ProtobufCMessage *message,
                            const ProtobufCMessage **stripped_p);

static void path_text(const struct walk *walk, const char *name, char text[64])
{
    if (walk->path.count > 1)
        (void)snprintf(text, 64, "%.40s (%u levels deep)", name, walk->path.count);
    else
        (void)snprintf(text, 64, "%.60s", name);
}

static SEALANE_RESULT no_memory(void)
{
    return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory to pack a message");
}

static SEALANE_RESULT strip_tensor(struct walk *walk, const ProtobufCMessage *message,
                                   const ProtobufCMessage **stripped_p)
{
    Sealane__Tensor *clone = sl_arena_alloc(walk->arena, sizeof(*clone));
    struct sl_leaving *leaving = sl_arena_alloc(walk->arena, sizeof(*leaving));

    if (!clone || !leaving)
        return no_memory();
    if (walk->leavings->count == SL_PARTS_MAX)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "a message has more than %d tensors",
                       SL_PARTS_MAX);
    memcpy(clone, message, sizeof(*clone));
    *leaving = (struct sl_leaving){.path = walk->path, .part = {clone->data.data, clone->data.len}};
    if (clone->data.len > 0) {
        if (walk->leavings->last)
            walk->leavings->last->next = leaving;
        else
            walk->leavings->first = leaving;
        walk->leavings->last = leaving;
        walk->leavings->count++;
    }
    clone->data = (ProtobufCBinaryData){0, NULL};
    *stripped_p = &clone->base;
    return SEALANE_OK;
}

/* The element at `index` of a field, stripped. */
static SEALANE_RESULT strip_element(struct walk *walk, const ProtobufCFieldDescriptor *field,
                                    size_t index, const ProtobufCMessage *element,
                                    const ProtobufCMessage **stripped_p)
{
    enum sealane_status status;
    char name[64];

    if (!element || walk->path.count == SL_PATH_STEPS)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "field %s has %s", field->name,
                       element ? "tensors nested deeper than 32 levels"
                               : "an element that is NULL");
    walk->path.steps[walk->path.count++] = (struct sl_step){field->id, (uint32_t)index};
    if (is_tensor(element->descriptor)) {
        path_text(walk, field->name, name);
        status = check_bytes((const Sealane__Tensor *)(const void *)element, name);
        if (status == SEALANE_OK)
            status = strip_tensor(walk, element, stripped_p);
    } else {
        status = strip(walk, element, stripped_p);
    }
    walk->path.count--;
    return status;
}

static SEALANE_RESULT strip_field(struct walk *walk, ProtobufCMessage *clone,
                                  const ProtobufCFieldDescriptor *field)
{
    struct elements elements = field_elements(clone, field);
    const ProtobufCMessage **to;

    if (elements.count == 0)
        return SEALANE_OK;
    if (elements.count > UINT32_MAX ||
        !(to = sl_arena_alloc(walk->arena, elements.count * sizeof(ProtobufCMessage *))))
        return no_memory();
    for (size_t i = 0; i < elements.count; i++)
        SL_TRY(strip_element(walk, field, i, elements.at[i], &to[i]));
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        memcpy((uint8_t *)clone + field->offset, &to, sizeof(to));
    else
        memcpy((uint8_t *)clone + field->offset, &to[0], sizeof(to[0]));
    return SEALANE_OK;
}

static SEALANE_RESULT strip(struct walk *walk, const ProtobufCMessage *message,
                            const ProtobufCMessage **stripped_p)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    ProtobufCMessage *clone;

    if (!sl_type_has_tensors(type)) {
        *stripped_p = message;
        return SEALANE_OK;
    }
    clone = sl_arena_alloc(walk->arena, type->sizeof_message);
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

SEALANE_RESULT sl_tensors_take_out(struct sl_arena *arena, const ProtobufCMessage *message,
                                   const ProtobufCMessage **stripped_p,
                                   struct sl_leavings *leavings)
{
    struct walk walk = {.arena = arena, .leavings = leavings};

    *leavings = (struct sl_leavings){.count = 0};
    if (is_tensor(
            message->descriptor)) { /* a method whose request is a Tensor itself: the empty path */
        SL_TRY(check_bytes((const Sealane__Tensor *)(const void *)message, "(the message itself)"));
        return strip_tensor(&walk, message, stripped_p);
    }
    return strip(&walk, message, stripped_p);
}

SEALANE_RESULT sl_tensor_at(ProtobufCMessage *message, const struct sl_path *path,
                            Sealane__Tensor **tensor_p)
{
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
                           "a tensor is said to be in field %s, which is no message", field->name);
        elements = field_elements(message, field);
        if (path->steps[s].index >= elements.count || !elements.at[path->steps[s].index])
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a tensor is said to be in element %u of field %s, which has %zu",
                           path->steps[s].index, field->name, elements.count);
        message = elements.at[path->steps[s].index];
    }
    if (!is_tensor(message->descriptor))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a tensor is said to be where there is a %s",
                       message->descriptor->name);
    *tensor_p = (Sealane__Tensor *)(void *)message;
    return SEALANE_OK;
}

typedef enum sealane_status visit(const Sealane__Tensor *tensor, const char *field);

static SEALANE_RESULT each_tensor(ProtobufCMessage *message, const char *field_name,
                                  visit *function)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    if (is_tensor(type))
        return function((const Sealane__Tensor *)(void *)message, field_name);
    if (!sl_type_has_tensors(type))
        return SEALANE_OK;
    for (unsigned f = 0; f < type->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &type->fields[f];
        struct elements elements;

        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        elements = field_elements(message, field);
        for (size_t i = 0; i < elements.count; i++)
            SL_TRY(each_tensor(elements.at[i], field->name, function));
    }
    return SEALANE_OK;
}

static enum sealane_status is_empty(const Sealane__Tensor *tensor, const char *field)
{
    if (tensor->data.len > 0)
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "field %s: a tensor came with %zu bytes inside the message, expected them beside it",
            field, tensor->data.len);
    return SEALANE_OK;
}

SEALANE_RESULT sl_tensors_check_empty(ProtobufCMessage *message)
{
    return each_tensor(message, "(the message itself)", is_empty);
}

/* data.data may not be set yet: only the number of bytes is compared. */
static enum sealane_status is_filled(const Sealane__Tensor *tensor, const char *field)
{
    Sealane__Tensor copy = *tensor;
    static uint8_t somewhere;

    copy.data.data = &somewhere;
    return check_bytes(&copy, field);
}

SEALANE_RESULT sl_tensors_check_filled(ProtobufCMessage *message)
{
    return each_tensor(message, "(the message itself)", is_filled);
}

/* ---- wire bytes ---- */

static uint64_t read_varint(struct sl_cursor *cursor)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = sl_cursor_u8(cursor);

        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    cursor->bad = true;
    return 0;
}

static SEALANE_RESULT wire_check(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth);

static SEALANE_RESULT wire_field(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth)
{
    uint64_t key = read_varint(cursor);
    const ProtobufCFieldDescriptor *field;
    struct sl_cursor inner;

    switch (key & 7) {
    case 0:
        (void)read_varint(cursor);
        return SEALANE_OK;
    case 1:
        (void)sl_cursor_take(cursor, 8);
        return SEALANE_OK;
    case 5:
        (void)sl_cursor_take(cursor, 4);
        return SEALANE_OK;
    case 2:
        inner = (struct sl_cursor){.left = (size_t)read_varint(cursor)};
        inner.at = sl_cursor_take(cursor, inner.left);
        field = cursor->bad || key >> 3 > INT32_MAX
                    ? NULL
                    : protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3));
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
            return wire_check(field->descriptor, &inner, depth + 1);
        return SEALANE_OK;
    default:
        cursor->bad = true;
        return SEALANE_OK;
    }
}

static SEALANE_RESULT wire_check(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth)
{
    if (depth > SL_DEPTH_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a message is nested deeper than %d levels",
                       SL_DEPTH_MAX);
    while (cursor->left > 0 && !cursor->bad)
        SL_TRY(wire_field(type, cursor, depth));
    if (cursor->bad)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "the bytes of a %s are no protobuf", type->name);
    return SEALANE_OK;
}

SEALANE_RESULT sl_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                             size_t count)
{
    struct sl_cursor cursor = {.at = bytes, .left = count};
    return wire_check(type, &cursor, 1);
}
