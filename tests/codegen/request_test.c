/* SPDX-License-Identifier: Apache-2.0 */
/* request_test.c - what sl_request_parse lets through, and what it refuses before anything trusts it. */
#include "codegen/request.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct sl_arena arena;
static sl_file file;
static sl_file *files[] = {&file};
static sl_message message;
static sl_message *messages[] = {&message};
static char *names[] = {(char *)"x.proto"};
static sl_request request;

static void begin(void)
{
    sl_arena_init(&arena);
    google__protobuf__compiler__code_generator_request__init(&request);
    google__protobuf__file_descriptor_proto__init(&file);
    google__protobuf__descriptor_proto__init(&message);
    message.name = (char *)"M";
    file.name = names[0];
    file.n_message_type = 1;
    file.message_type = messages;
    request.n_proto_file = 1;
    request.proto_file = files;
    request.n_file_to_generate = 1;
    request.file_to_generate = names;
}

static void end(void)
{
    sl_arena_free(&arena);
}

TestSuite(request, .init = begin, .fini = end);

/* NULL when the request, packed, is accepted; else why not. */
static const char *fault(void)
{
    size_t bytes = google__protobuf__compiler__code_generator_request__get_packed_size(&request);
    uint8_t *data = sl_arena_alloc(&arena, bytes);
    const char *why = NULL;
    google__protobuf__compiler__code_generator_request__pack(&request, data);
    sl_request *parsed = sl_request_parse(&arena, data, bytes, &why);
    cr_assert(eq(int, parsed == NULL, why != NULL));
    return why;
}

static void is_refused(const char *words)
{
    const char *why = fault();
    cr_assert(why && strstr(why, words), "%s", why ? why : "accepted");
}

static void nest(int levels)
{
    sl_message *at = &message;
    for (int i = 0; i < levels; i++) {
        sl_message *inner = sl_arena_alloc(&arena, sizeof *inner);
        google__protobuf__descriptor_proto__init(inner);
        inner->name = (char *)"N";
        at->n_nested_type = 1;
        at->nested_type = sl_arena_alloc(&arena, sizeof *at->nested_type);
        at->nested_type[0] = inner;
        at = inner;
    }
}

Test(request, accepts_what_protoc_makes)
{
    cr_assert(eq(ptr, (void *)fault(), NULL));
}

Test(request, accepts_nesting_within_the_limit)
{
    nest(98);
    cr_assert(eq(ptr, (void *)fault(), NULL));
}

Test(request, refuses_deeper_nesting_before_protobuf_c_recurses)
{
    nest(99);
    is_refused("is no CodeGeneratorRequest");
    nest(5000);
    is_refused("is no CodeGeneratorRequest");
}

Test(request, refuses_declarations_without_a_name_of_c)
{
    message.name = NULL;
    is_refused("descriptor 0");
    message.name = (char *)"a b";
    is_refused("descriptor 0");
    message.name = (char *)"a.b";
    is_refused("descriptor 0");
}

Test(request, refuses_file_names_that_would_break_an_include)
{
    names[0] = file.name = (char *)"x\".proto";
    is_refused("descriptor 0");
    names[0] = file.name = (char *)"x\n.proto";
    is_refused("descriptor 0");
}

Test(request, refuses_a_file_to_generate_without_descriptor)
{
    names[0] = (char *)"y.proto";
    is_refused("lacks the descriptor of file 0");
}

Test(request, refuses_an_import_that_does_not_come_before)
{
    char *imports[] = {(char *)"x.proto"};
    file.n_dependency = 1;
    file.dependency = imports;
    is_refused("descriptor 0");
}

Test(request, refuses_the_same_file_twice)
{
    sl_file *twice[] = {&file, &file};
    request.n_proto_file = 2;
    request.proto_file = twice;
    is_refused("descriptor 1");
}

Test(request, refuses_indices_that_lead_nowhere)
{
    sl_field field = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__INIT;
    sl_field *fields[] = {&field};
    field.name = (char *)"f";
    field.has_number = field.has_label = field.has_type = 1;
    field.number = 1;
    field.label = SL_LABEL(OPTIONAL);
    field.type = SL_TYPE(INT32);
    message.n_field = 1;
    message.field = fields;
    cr_assert(eq(ptr, (void *)fault(), NULL));
    field.has_oneof_index = 1;
    is_refused("descriptor 0");
    field.oneof_index = -1;
    is_refused("descriptor 0");
}
