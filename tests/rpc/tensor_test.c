/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_test.c - tensors found in messages, taken out and put back. */
#include "cases.pb-c.h"
#include "rpc/tensor.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct sl_call_arena *arena;

static void open_arena(void)
{
    arena = aligned_alloc(64, (sizeof(*arena) + 63) / 64 * 64);
    sl_call_arena_init(arena, 1 << 20);
}

static void close_arena(void)
{
    sl_call_arena_clear(arena);
    free(arena);
}

TestSuite(tensor, .init = open_arena, .fini = close_arena);

static Sealane__Tensor *tensor_new(size_t floats)
{
    Sealane__Tensor *tensor = sl_call_arena_alloc(arena, sizeof(*tensor));
    uint64_t *shape = sl_call_arena_alloc(arena, sizeof(*shape));

    sealane__tensor__init(tensor);
    *shape = floats;
    tensor->dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor->n_shape = 1;
    tensor->shape = shape;
    tensor->data.len = floats * 4;
    tensor->data.data = sl_call_arena_alloc(arena, floats * 4 + 1);
    memset(tensor->data.data, (int)floats, floats * 4);
    return tensor;
}

static Cases__V1__Layer *layer_new(Sealane__Tensor *weights, Cases__V1__Layer *inner)
{
    Cases__V1__Layer *layer = sl_call_arena_alloc(arena, sizeof(*layer));

    cases__v1__layer__init(layer);
    layer->weights = weights;
    layer->inner = inner;
    return layer;
}

/* A chain of `levels` layers; the innermost holds the tensor, which may be NULL. */
static Cases__V1__Layer *chain_new(unsigned levels, Sealane__Tensor *tensor)
{
    Cases__V1__Layer *layer = layer_new(tensor, NULL);

    for (unsigned i = 1; i < levels; i++)
        layer = layer_new(NULL, layer);
    return layer;
}

/* ---- sizes ---- */

static uint64_t bytes_of(Sealane__DType dtype, size_t dimensions, uint64_t *shape,
                         enum sealane_status *status_p)
{
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    uint64_t bytes = 77;

    tensor.dtype = dtype;
    tensor.n_shape = dimensions;
    tensor.shape = shape;
    *status_p = sealane_tensor_bytes(&tensor, &bytes);
    return bytes;
}

Test(tensor, knows_the_bytes_of_every_dtype)
{
    static const size_t expected[] = {0, 4, 8, 2, 2, 1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 1};

    for (int dtype = 0; dtype <= 15; dtype++)
        cr_assert_eq(sealane_dtype_bytes((Sealane__DType)dtype), expected[dtype], "dtype %d",
                     dtype);
    cr_assert_eq(sealane_dtype_bytes((Sealane__DType)16), 0);
    cr_assert_eq(sealane_dtype_bytes((Sealane__DType)-1), 0);
}

Test(tensor, multiplies_shape_and_dtype)
{
    uint64_t shape[] = {2, 3, 5};
    enum sealane_status status;

    cr_assert_eq(bytes_of(SEALANE__DTYPE__DTYPE_BF16, 3, shape, &status), 60);
    cr_assert_eq(status, SEALANE_OK);
    cr_assert_eq(bytes_of(SEALANE__DTYPE__DTYPE_I64, 0, NULL, &status), 8, "a scalar");
}

Test(tensor, has_no_bytes_when_a_dimension_is_0_wherever_it_stands)
{
    uint64_t shape[3][3] = {{0, UINT64_MAX, UINT64_MAX},
                            {UINT64_MAX, 0, UINT64_MAX},
                            {UINT64_MAX, UINT64_MAX, 0}};

    for (int i = 0; i < 3; i++) {
        enum sealane_status status;

        cr_assert_eq(bytes_of(SEALANE__DTYPE__DTYPE_F64, 3, shape[i], &status), 0);
        cr_assert_eq(status, SEALANE_OK);
    }
}

Test(tensor, refuses_shapes_that_overflow)
{
    uint64_t most[] = {UINT64_C(1) << 60}, more[] = {(UINT64_C(1) << 60) + 1},
             twice[] = {UINT64_C(1) << 32, UINT64_C(1) << 32}, wraps[] = {UINT64_MAX, UINT64_MAX};
    enum sealane_status status;

    cr_assert_eq(bytes_of(SEALANE__DTYPE__DTYPE_F64, 1, most, &status), UINT64_C(1) << 63);
    cr_assert_eq(status, SEALANE_OK);
    cr_assert_eq(bytes_of(SEALANE__DTYPE__DTYPE_F64, 1, more, &status), 77, "untouched");
    cr_assert_eq(status, SEALANE_INVALID_ARGUMENT);
    (void)bytes_of(SEALANE__DTYPE__DTYPE_U8, 2, twice, &status);
    cr_assert_eq(status, SEALANE_INVALID_ARGUMENT);
    (void)bytes_of(SEALANE__DTYPE__DTYPE_U8, 2, wraps, &status);
    cr_assert_eq(status, SEALANE_INVALID_ARGUMENT);
    (void)bytes_of(SEALANE__DTYPE__DTYPE_UNSPECIFIED, 1, most, &status);
    cr_assert_eq(status, SEALANE_INVALID_ARGUMENT);
}

Test(tensor, knows_which_types_can_hold_tensors)
{
    for (int again = 0; again < 2; again++) { /* worked out, then remembered */
        cr_assert(sl_type_has_tensors(&sealane__tensor__descriptor));
        cr_assert(sl_type_has_tensors(&cases__v1__everything__descriptor));
        cr_assert(sl_type_has_tensors(&cases__v1__layer__descriptor));
        cr_assert_not(sl_type_has_tensors(&cases__v1__tree__descriptor));
        cr_assert_not(sl_type_has_tensors(&cases__v1__forged__descriptor));
    }
}

/* ---- taking out ---- */

static enum sealane_status take(const void *message, const ProtobufCMessage **stripped_p,
                                struct sl_leavings *leavings)
{
    return sl_tensors_take_out(arena, message, stripped_p, leavings);
}

static void expect_path(const struct sl_leaving *leaving, const ProtobufCMessageDescriptor *type,
                        const char *expected, const Sealane__Tensor *tensor)
{
    char text[128];

    cr_assert_not_null(leaving, "%s is missing", expected);
    sl_path_text(type, &leaving->path, text, sizeof(text));
    cr_assert_str_eq(text, expected);
    cr_assert_eq(leaving->part.data, tensor->data.data, "%s was copied", expected);
    cr_assert_eq(leaving->part.bytes, tensor->data.len);
}

struct filled {
    Cases__V1__Everything message;
    Sealane__Tensor *many[2];
    Cases__V1__Layer *layers[2];
    Cases__V1__Everything__NamedEntry entry, *entries[1];
};

static struct filled *everything_new(void)
{
    struct filled *f = sl_call_arena_alloc(arena, sizeof(*f));

    cases__v1__everything__init(&f->message);
    f->message.name = "everything";
    f->message.plain = tensor_new(1);
    f->many[0] = tensor_new(2);
    f->many[1] = tensor_new(3);
    f->message.n_many = 2;
    f->message.many = f->many;
    f->message.layer = layer_new(tensor_new(4), layer_new(tensor_new(5), NULL));
    f->layers[0] = layer_new(NULL, NULL);
    f->layers[1] = layer_new(tensor_new(6), NULL);
    f->message.n_layers = 2;
    f->message.layers = f->layers;
    cases__v1__everything__named_entry__init(&f->entry);
    f->entry.key = "k";
    f->entry.value = tensor_new(7);
    f->entries[0] = &f->entry;
    f->message.n_named = 1;
    f->message.named = f->entries;
    f->message.choice_case = CASES__V1__EVERYTHING__CHOICE_CHOSEN;
    f->message.chosen = tensor_new(8);
    return f;
}

Test(tensor, is_found_wherever_it_stands)
{
    const ProtobufCMessageDescriptor *type = &cases__v1__everything__descriptor;
    struct filled *f = everything_new();
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;
    const struct sl_leaving *at;

    cr_assert_eq(take(&f->message, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(leavings.count, 8);
    at = leavings.first;
    expect_path(at, type, "plain", f->message.plain);
    expect_path(at = at->next, type, "many[0]", f->many[0]);
    expect_path(at = at->next, type, "many[1]", f->many[1]);
    expect_path(at = at->next, type, "layer.weights", f->message.layer->weights);
    expect_path(at = at->next, type, "layer.inner.weights", f->message.layer->inner->weights);
    expect_path(at = at->next, type, "layers[1].weights", f->layers[1]->weights);
    expect_path(at = at->next, type, "named[0].value", f->entry.value);
    expect_path(at = at->next, type, "chosen", f->message.chosen);
    cr_assert_null(at->next);
}

Test(tensor, leaves_the_users_message_as_it_was)
{
    struct filled *f = everything_new(), before = *f;
    Cases__V1__Layer layer = *f->message.layer, inner = *f->message.layer->inner;
    Sealane__Tensor plain = *f->message.plain, value = *f->entry.value;
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    cr_assert_eq(take(&f->message, &stripped, &leavings), SEALANE_OK);
    cr_assert_neq(stripped, &f->message.base);
    cr_assert_eq(memcmp(&before, f, sizeof(before)), 0);
    cr_assert_eq(memcmp(&layer, f->message.layer, sizeof(layer)), 0);
    cr_assert_eq(memcmp(&inner, f->message.layer->inner, sizeof(inner)), 0);
    cr_assert_eq(memcmp(&plain, f->message.plain, sizeof(plain)), 0);
    cr_assert_eq(memcmp(&value, f->entry.value, sizeof(value)), 0);
}

Test(tensor, never_goes_through_protobuf_encoding)
{
    struct filled *f = everything_new();
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;
    Cases__V1__Everything *back;
    uint8_t *packed;
    size_t bytes;

    f->message.plain = tensor_new(1000);
    cr_assert_eq(take(&f->message, &stripped, &leavings), SEALANE_OK);
    bytes = protobuf_c_message_get_packed_size(stripped);
    cr_assert_lt(bytes, 200);
    packed = sl_call_arena_alloc(arena, bytes);
    cr_assert_eq(protobuf_c_message_pack(stripped, packed), bytes);
    back = cases__v1__everything__unpack(&arena->allocator, bytes, packed);
    cr_assert_not_null(back);
    cr_assert_eq(sl_tensors_check_empty(&back->base), SEALANE_OK);
    cr_assert_eq(back->plain->shape[0], 1000);
    cr_assert_eq(back->layer->inner->weights->shape[0], 5);
    cr_assert_str_eq(back->name, "everything");
}

Test(tensor, of_a_oneof_that_holds_something_else_is_not_looked_at)
{
    Cases__V1__Everything message = CASES__V1__EVERYTHING__INIT;
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    message.choice_case = CASES__V1__EVERYTHING__CHOICE_INSTEAD;
    message.instead = "a string, not a tensor";
    cr_assert_eq(take(&message, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(leavings.count, 0);
    cr_assert_str_eq(((const Cases__V1__Everything *)(const void *)stripped)->instead,
                     "a string, not a tensor");
}

Test(tensor, may_be_the_whole_message)
{
    Sealane__Tensor *tensor = tensor_new(3);
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    cr_assert_eq(take(tensor, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(leavings.count, 1);
    cr_assert_eq(leavings.first->path.count, 0);
}

Test(tensor, free_messages_are_packed_as_they_are)
{
    Cases__V1__Tree tree = CASES__V1__TREE__INIT;
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    cr_assert_eq(take(&tree, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(stripped, &tree.base);
}

Test(tensor, without_bytes_is_no_part)
{
    Cases__V1__Everything message = CASES__V1__EVERYTHING__INIT;
    Sealane__Tensor unset = SEALANE__TENSOR__INIT;
    Sealane__Tensor *many[] = {&unset, tensor_new(0)};
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    message.n_many = 2;
    message.many = many;
    cr_assert_eq(take(&message, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(leavings.count, 0);
}

static void expect_refusal(const void *message, enum sealane_status status, const char *says)
{
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    cr_assert_eq(take(message, &stripped, &leavings), status);
    cr_assert_not_null(strstr(sealane_last_error()->message, says), "%s does not say %s",
                       sealane_last_error()->message, says);
}

Test(tensor, whose_shape_and_bytes_disagree_is_named_with_both_numbers)
{
    struct filled *f = everything_new();

    f->message.layer->inner->weights->data.len = 19;
    expect_refusal(&f->message, SEALANE_INVALID_ARGUMENT,
                   "field layer.inner.weights: a tensor's shape and dtype make 20 bytes, its data "
                   "has 19");
    f->message.layer->inner->weights->data.len = 20;
    f->entry.value->shape[0] = 1;
    expect_refusal(&f->message, SEALANE_INVALID_ARGUMENT, "field named[0].value");
}

Test(tensor, that_points_nowhere_or_has_no_dtype_is_refused)
{
    struct filled *f = everything_new();

    f->many[1]->data.data = NULL;
    expect_refusal(&f->message, SEALANE_INVALID_ARGUMENT, "many[1]: a tensor of 12 bytes points");
    f->many[1] = tensor_new(3);
    f->many[1]->dtype = (Sealane__DType)99;
    expect_refusal(&f->message, SEALANE_INVALID_ARGUMENT, "dtype 99");
}

Test(tensor, in_an_element_that_is_null_is_refused)
{
    struct filled *f = everything_new();

    f->layers[0] = NULL;
    expect_refusal(&f->message, SEALANE_INVALID_ARGUMENT, "field layers[0] is NULL");
}

Test(tensor, may_be_nested_32_levels_deep_and_no_deeper)
{
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    cr_assert_eq(take(chain_new(32, tensor_new(1)), &stripped, &leavings), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(leavings.first->path.count, 32);
    expect_refusal(chain_new(33, tensor_new(1)), SEALANE_INVALID_ARGUMENT, "deeper than 32 levels");
    cr_assert_eq(take(chain_new(90, NULL), &stripped, &leavings), SEALANE_OK,
                 "without a tensor down there depth does not matter: %s",
                 sealane_last_error()->message);
}

Test(tensor, search_ends_in_a_message_that_contains_itself)
{
    Cases__V1__Layer *layer = layer_new(NULL, NULL);

    layer->inner = layer;
    expect_refusal(layer, SEALANE_INVALID_ARGUMENT, "deeper than 100 levels");
}

Test(tensor, number_4097_is_refused)
{
    Cases__V1__Everything message = CASES__V1__EVERYTHING__INIT;
    Sealane__Tensor **many = sl_call_arena_alloc(arena, 4097 * sizeof(Sealane__Tensor *));
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;

    for (int i = 0; i < 4097; i++)
        many[i] = tensor_new(1);
    message.many = many;
    message.n_many = 4096;
    cr_assert_eq(take(&message, &stripped, &leavings), SEALANE_OK);
    cr_assert_eq(leavings.count, 4096);
    message.n_many = 4097;
    expect_refusal(&message, SEALANE_RESOURCE_EXHAUSTED, "more than 4096 tensors");
}

/* ---- putting in ---- */

static enum sealane_status find(void *message, Sealane__Tensor **tensor_p, unsigned count,
                                const struct sl_step *steps)
{
    struct sl_path path = {.count = (uint8_t)count};

    *tensor_p = (Sealane__Tensor *)1;
    memcpy(path.steps, steps, count * sizeof(*steps));
    return sl_tensor_at(message, &path, tensor_p);
}

#define STEPS(...)                                                                             \
    sizeof((struct sl_step[]){__VA_ARGS__}) / sizeof(struct sl_step), (const struct sl_step[]) \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

Test(tensor, is_found_by_its_path)
{
    struct filled *f = everything_new();
    Sealane__Tensor *tensor;

    cr_assert_eq(find(&f->message, &tensor, STEPS({4, 1})), SEALANE_OK);
    cr_assert_eq(tensor, f->many[1]);
    cr_assert_eq(find(&f->message, &tensor, STEPS({5, 0}, {3, 0}, {2, 0})), SEALANE_OK);
    cr_assert_eq(tensor, f->message.layer->inner->weights);
    cr_assert_eq(find(&f->message, &tensor, STEPS({7, 0}, {2, 0})), SEALANE_OK);
    cr_assert_eq(tensor, f->entry.value);
    cr_assert_eq(find(&f->message, &tensor, STEPS({8, 0})), SEALANE_OK);
    cr_assert_eq(tensor, f->message.chosen);
}

Test(tensor, in_a_field_that_is_not_known_is_nobodys)
{
    struct filled *f = everything_new();
    Sealane__Tensor *tensor;

    cr_assert_eq(find(&f->message, &tensor, STEPS({77, 0})), SEALANE_OK);
    cr_assert_null(tensor);
    cr_assert_eq(find(&f->message, &tensor, STEPS({5, 0}, {4000000000u, 9})), SEALANE_OK);
    cr_assert_null(tensor);
}

Test(tensor, path_to_something_else_is_refused)
{
    struct filled *f = everything_new();
    Sealane__Tensor *tensor;

    cr_assert_eq(find(&f->message, &tensor, STEPS({1, 0})), SEALANE_INVALID_ARGUMENT, "a string");
    cr_assert_eq(find(&f->message, &tensor, STEPS({5, 0})), SEALANE_INVALID_ARGUMENT, "a Layer");
    cr_assert_eq(find(&f->message, &tensor, 0, (const struct sl_step[]){{0, 0}}),
                 SEALANE_INVALID_ARGUMENT, "the message itself");
    cr_assert_eq(find(&f->message, &tensor, STEPS({4, 2})), SEALANE_INVALID_ARGUMENT, "too far");
    cr_assert_not_null(strstr(sealane_last_error()->message, "many[2], but there are 2"), "%s",
                       sealane_last_error()->message);
    cr_assert_eq(find(&f->message, &tensor, STEPS({3, 1})), SEALANE_INVALID_ARGUMENT,
                 "there is one");
    cr_assert_eq(find(&f->message, &tensor, STEPS({3, 0}, {2, 0})), SEALANE_INVALID_ARGUMENT,
                 "into a tensor");
    cr_assert_eq(find(&f->message, &tensor, STEPS({10, 0})), SEALANE_INVALID_ARGUMENT,
                 "the oneof holds another");
    cr_assert_eq(tensor, (Sealane__Tensor *)1, "untouched");
}

Test(tensor, checks_name_what_they_found)
{
    struct filled *f = everything_new();

    cr_assert_eq(sl_tensors_check_filled(&f->message.base), SEALANE_OK);
    cr_assert_eq(sl_tensors_check_empty(&f->message.base), SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message, "field plain: a tensor came with 4"));
    f->layers[1]->weights->data.len = 0;
    cr_assert_eq(sl_tensors_check_filled(&f->message.base), SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message,
                              "field layers[1].weights: a tensor's shape and dtype make 24 bytes, "
                              "its data has 0"),
                       "%s", sealane_last_error()->message);
}
