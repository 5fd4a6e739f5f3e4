/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - see request.h. */
#include "codegen/request.h"
#include "codegen/names.h"
#include "codegen/wire.h"

#include <string.h>

#define NESTING_MAX        100
#define PROTOBUF_C_OPTIONS 1019 /* the extension number of all options of protobuf-c.proto */

static bool nesting_ok(const ProtobufCMessageDescriptor *descriptor, struct sl_wire wire, int left)
{
    struct sl_wire_field field;
    int got;
    while ((got = sl_wire_next(&wire, &field)) > 0) {
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(descriptor, field.number);
        if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE || field.type != SL_WIRE_BYTES)
            continue;
        struct sl_wire inner = {field.data, field.data + field.value};
        if (left == 0 || !nesting_ok(known->descriptor, inner, left - 1))
            return false;
    }
    return got == 0;
}

static bool is_identifier(const char *text)
{
    return text && sl_names_is_dotted(text) && !strchr(text, '.');
}

static bool is_type_name(const char *text)
{
    return text && text[0] == '.' && sl_names_is_dotted(text + 1);
}

/* File names become #include lines. */
static bool is_file_name(const char *text)
{
    if (!text || !*text)
        return false;
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\' || *text == 0x7f)
            return false;
    }
    return true;
}

static bool enum_ok(const sl_enum *declared)
{
    for (size_t i = 0; i < declared->n_value; i++) {
        if (!is_identifier(declared->value[i]->name))
            return false;
    }
    return is_identifier(declared->name) && declared->n_value > 0;
}

static bool field_ok(const sl_field *field, size_t oneof_count)
{
    if (!is_identifier(field->name) || !field->has_number || !field->has_label || !field->has_type)
        return false;
    if (field->has_oneof_index &&
        (field->oneof_index < 0 || (size_t)field->oneof_index >= oneof_count))
        return false;
    bool named = field->type == SL_TYPE(MESSAGE) || field->type == SL_TYPE(ENUM) ||
                 field->type == SL_TYPE(GROUP);
    return named ? is_type_name(field->type_name) : !field->type_name;
}

static bool message_ok(const sl_message *message)
{
    bool ok = is_identifier(message->name);
    for (size_t i = 0; ok && i < message->n_field; i++)
        ok = field_ok(message->field[i], message->n_oneof_decl);
    for (size_t i = 0; ok && i < message->n_oneof_decl; i++)
        ok = is_identifier(message->oneof_decl[i]->name);
    for (size_t i = 0; ok && i < message->n_enum_type; i++)
        ok = enum_ok(message->enum_type[i]);
    for (size_t i = 0; ok && i < message->n_nested_type; i++)
        ok = message_ok(message->nested_type[i]);
    return ok;
}

static bool service_ok(const sl_service *service)
{
    for (size_t i = 0; i < service->n_method; i++) {
        const sl_method *method = service->method[i];
        if (!is_identifier(method->name) || !is_type_name(method->input_type) ||
            !is_type_name(method->output_type))
            return false;
    }
    return is_identifier(service->name);
}

static bool dependencies_ok(const sl_file *file, const struct sl_table *earlier)
{
    for (size_t i = 0; i < file->n_dependency; i++) {
        if (!sl_table_get(earlier, file->dependency[i]))
            return false;
    }
    for (size_t i = 0; i < file->n_public_dependency; i++) {
        if (file->public_dependency[i] < 0 ||
            (size_t)file->public_dependency[i] >= file->n_dependency)
            return false;
    }
    return true;
}

static bool file_ok(const sl_file *file, const struct sl_table *earlier)
{
    bool ok = is_file_name(file->name) && dependencies_ok(file, earlier) &&
              (!file->package || !*file->package || sl_names_is_dotted(file->package));
    for (size_t i = 0; ok && i < file->n_message_type; i++)
        ok = message_ok(file->message_type[i]);
    for (size_t i = 0; ok && i < file->n_enum_type; i++)
        ok = enum_ok(file->enum_type[i]);
    for (size_t i = 0; ok && i < file->n_service; i++)
        ok = service_ok(file->service[i]);
    return ok;
}

static const char *find_fault(struct sl_arena *arena, const sl_request *request)
{
    struct sl_table files = {.arena = arena};
    for (size_t i = 0; i < request->n_proto_file; i++) {
        const sl_file *file = request->proto_file[i];
        if (!file_ok(file, &files) || sl_table_add(&files, file->name, file))
            return sl_arena_print(arena, "descriptor %zu of the request is not what protoc makes",
                                  i);
    }
    for (size_t i = 0; i < request->n_file_to_generate; i++) {
        if (!sl_table_get(&files, request->file_to_generate[i]))
            return sl_arena_print(arena, "the request lacks the descriptor of file %zu to generate",
                                  i);
    }
    return NULL;
}

sl_request *sl_request_parse(struct sl_arena *arena, const uint8_t *data, size_t bytes,
                             const char **why_p)
{
    const ProtobufCMessageDescriptor *descriptor =
        &google__protobuf__compiler__code_generator_request__descriptor;
    struct sl_wire wire = {data, data + bytes};
    ProtobufCMessage *message = NULL;
    if (nesting_ok(descriptor, wire, NESTING_MAX))
        message = protobuf_c_message_unpack(descriptor, &arena->allocator, bytes, data);
    if (!message) {
        *why_p = sl_arena_print(arena,
                                "standard input (%zu bytes) is no CodeGeneratorRequest; "
                                "this program is run by protoc --sealane_out=DIR",
                                bytes);
        return NULL;
    }
    sl_request *request = (sl_request *)message;
    *why_p = find_fault(arena, request);
    return *why_p ? NULL : request;
}

/* Looks for field `number` inside protobuf-c's option message, which came as an unknown field. The last one counts. */
static bool find_option(const ProtobufCMessage *options, uint32_t number,
                        struct sl_wire_field *field_p)
{
    bool found = false;
    for (unsigned i = 0; options && i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *unknown = &options->unknown_fields[i];
        if (unknown->tag != PROTOBUF_C_OPTIONS ||
            unknown->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            continue;
        /* protobuf-c keeps the length in front of the bytes. */
        struct sl_wire wire = {unknown->data, unknown->data + unknown->len};
        while (wire.at < wire.end && *wire.at++ & 0x80)
            ;
        struct sl_wire_field field;
        while (sl_wire_next(&wire, &field) > 0) {
            if (field.number == number) {
                *field_p = field;
                found = true;
            }
        }
    }
    return found;
}

static bool flag_option(const ProtobufCMessage *options, uint32_t number)
{
    struct sl_wire_field field;
    return find_option(options, number, &field) && field.type == SL_WIRE_VARINT && field.value;
}

static const char *string_option(struct sl_arena *arena, const ProtobufCMessage *options,
                                 uint32_t number)
{
    struct sl_wire_field field;
    if (!find_option(options, number, &field) || field.type != SL_WIRE_BYTES)
        return NULL;
    struct sl_text text = {.arena = arena};
    sl_text_add_bytes(&text, (const char *)field.data, (size_t)field.value);
    return sl_text_string(&text);
}

struct sl_file_options sl_request_file_options(struct sl_arena *arena, const sl_file *file)
{
    const ProtobufCMessage *options = file->options ? &file->options->base : NULL;
    return (struct sl_file_options){.no_generate = flag_option(options, 1),
                                    .use_oneof_field_name = flag_option(options, 5),
                                    .c_package = string_option(arena, options, 6)};
}

const char *sl_request_base_name(struct sl_arena *arena, const sl_message *message)
{
    const ProtobufCMessage *options = message->options ? &message->options->base : NULL;
    const char *name = string_option(arena, options, 3);
    return name ? name : "base";
}

bool sl_request_string_as_bytes(const sl_field *field)
{
    return field->options && flag_option(&field->options->base, 1);
}
