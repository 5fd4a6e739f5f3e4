/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c - see rewrite.h. */
#include "codegen/rewrite.h"
#include "codegen/comment.h"
#include "codegen/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rewriting {
    const struct sl_model *model;
    const struct sl_model_file *file;
    struct sl_repairs *repairs;
    struct sl_report *report;
};

/* ---- default values ---- */

static const char *float_literal(struct sl_arena *arena, const char *value, bool is_double)
{
    const char *suffix = is_double ? "" : "f";
    double number = is_double ? strtod(value, NULL) : (double)strtof(value, NULL);
    if (isnan(number))
        return sl_arena_print(arena, "(0.0%s / 0.0%s)", suffix, suffix);
    if (isinf(number))
        return sl_arena_print(arena, "(%s1.0%s / 0.0%s)", signbit(number) ? "-" : "", suffix,
                              suffix);
    char *digits = sl_arena_print(arena, "%.*g", is_double ? 17 : 9, number);
    return sl_arena_print(arena, "%s%s%s", digits, strpbrk(digits, ".e") ? "" : ".0", suffix);
}

static void rewrite_default(const struct rewriting *rewriting, sl_field *field,
                            const struct sl_place *place)
{
    bool is_double = field->type == SL_TYPE(DOUBLE);
    if (!field->default_value || (!is_double && field->type != SL_TYPE(FLOAT)))
        return;
    const char *literal = float_literal(rewriting->model->arena, field->default_value, is_double);
    field->default_value = sl_repair_mark(rewriting->repairs, literal);
    if (!field->default_value)
        sl_report_at(rewriting->report, place, "field %s: too many default values in one run",
                     field->name);
}

/* ---- fields ---- */

/* Names of one struct. Members of C and declarations of the .proto are different worlds in one table: the latter have a "." */
struct members {
    struct sl_table taken;
    const char *base;
    const sl_message *message;
};

static bool is_free(const struct members *members, const char *name)
{
    return !sl_table_get(&members->taken, name);
}

static void take(struct members *members, const char *name)
{
    sl_table_add(&members->taken, name, members);
}

static const char *proto_name(struct sl_arena *arena, const char *name)
{
    return sl_arena_print(arena, ".%s", name);
}

static void take_declared(struct sl_arena *arena, struct members *members)
{
    const sl_message *message = members->message;
    for (size_t i = 0; i < message->n_nested_type; i++)
        take(members, proto_name(arena, message->nested_type[i]->name));
    for (size_t i = 0; i < message->n_enum_type; i++) {
        const sl_enum *declared = message->enum_type[i];
        take(members, proto_name(arena, declared->name));
        for (size_t v = 0; v < declared->n_value; v++)
            take(members, proto_name(arena, declared->value[v]->name));
    }
    for (size_t i = 0; i < message->n_field; i++)
        take(members, proto_name(arena, message->field[i]->name));
    for (size_t i = 0; i < message->n_oneof_decl; i++)
        take(members, proto_name(arena, message->oneof_decl[i]->name));
}

/* The member that stands beside a field: n_x, has_x, or NULL. */
static const char *companion(struct sl_arena *arena, const sl_file *file, const sl_field *field,
                             const char *member)
{
    if (field->label == SL_LABEL(REPEATED))
        return sl_arena_print(arena, "n_%s", member);
    bool proto2 = !file->syntax || strcmp(file->syntax, "proto2") == 0;
    bool pointer = field->type == SL_TYPE(MESSAGE) ||
                   (field->type == SL_TYPE(STRING) && !sl_request_string_as_bytes(field));
    if (!proto2 || field->label != SL_LABEL(OPTIONAL) || field->has_oneof_index || pointer)
        return NULL;
    return sl_arena_print(arena, "has_%s", member);
}

/* Symbols of file scope that begin with the message's name and end with the field's: the constant of its oneof's case, and its
 * default value. NULL when there is none. */
static const char *case_constant(struct sl_arena *arena, const struct members *members,
                                 const sl_field *field, const char *name)
{
    if (!field->has_oneof_index)
        return NULL;
    const char *oneof = members->message->oneof_decl[field->oneof_index]->name;
    return sl_arena_print(arena, "case %s_%s", sl_names_upper(arena, oneof),
                          sl_names_upper(arena, name));
}

static const char *default_symbol(struct sl_arena *arena, const sl_field *field, const char *name)
{
    return field->default_value ? sl_arena_print(arena, "default %s", sl_names_lower(arena, name))
                                : NULL;
}

/* Tries a name for the field; takes all that comes with it when everything is free. */
static bool try_name(const struct rewriting *rewriting, struct members *members,
                     const sl_field *field, const char *name)
{
    struct sl_arena *arena = rewriting->model->arena;
    const char *member = sl_names_field(arena, name);
    const char *names[] = {member, companion(arena, rewriting->file->proto, field, member),
                           case_constant(arena, members, field, name),
                           default_symbol(arena, field, name)};
    const size_t count = sizeof names / sizeof *names;
    if (sl_names_is_word(member))
        return false;
    if (strcmp(name, field->name) != 0 && !is_free(members, proto_name(arena, name)))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (names[i] && !is_free(members, names[i]))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (names[i])
            take(members, names[i]);
    }
    take(members, proto_name(arena, name));
    return true;
}

static void rename_oneofs(const struct rewriting *rewriting, struct members *members)
{
    struct sl_arena *arena = rewriting->model->arena;
    for (size_t i = 0; i < members->message->n_oneof_decl; i++) {
        sl_oneof *oneof = members->message->oneof_decl[i];
        char *name = oneof->name;
        const char *member = sl_arena_print(arena, "%s_case", sl_names_lower(arena, name));
        while (!is_free(members, member)) {
            do
                name = sl_arena_print(arena, "%s_", name);
            while (!is_free(members, proto_name(arena, name)));
            member = sl_arena_print(arena, "%s_case", sl_names_lower(arena, name));
        }
        oneof->name = name;
        take(members, member);
        take(members, proto_name(arena, name));
    }
}

static void rename_fields(const struct rewriting *rewriting, const sl_message *message)
{
    struct sl_arena *arena = rewriting->model->arena;
    struct members members = {.taken = {.arena = arena},
                              .base = sl_request_base_name(arena, message),
                              .message = message};
    take(&members, members.base);
    take_declared(arena, &members);
    rename_oneofs(rewriting, &members);
    for (size_t i = 0; i < message->n_field; i++) {
        sl_field *field = message->field[i];
        char *name = field->name;
        while (!try_name(rewriting, &members, field, name))
            name = sl_arena_print(arena, "%s_", name);
        field->name = name;
    }
}

/* protobuf-c starts a oneof's union with {0}; where its first member is a struct, -Wmissing-braces of the user's compiler objects. */
static void note_braces(const struct rewriting *rewriting, const sl_message *message,
                        const struct sl_model_type *type)
{
    struct sl_arena *arena = rewriting->model->arena;
    bool *seen = sl_arena_array(arena, message->n_oneof_decl, sizeof *seen);
    for (size_t i = 0; i < message->n_field; i++) {
        const sl_field *field = message->field[i];
        if (!field->has_oneof_index || seen[field->oneof_index])
            continue;
        seen[field->oneof_index] = true;
        if (field->type != SL_TYPE(BYTES) && !sl_request_string_as_bytes(field))
            continue;
        const char *oneof = message->oneof_decl[field->oneof_index]->name;
        sl_table_add(&rewriting->repairs->braced,
                     sl_arena_print(arena, "%s__%s__NOT_SET", type->c_upper,
                                    sl_names_upper(arena, oneof)),
                     message);
    }
}

/* ---- messages ---- */

static void clear_proto3_optional(sl_message *message)
{
    message->n_extension = 0;
    message->n_reserved_name = 0; /* a renamed field may be called so */
    for (size_t i = 0; i < message->n_field; i++)
        message->field[i]->has_proto3_optional = 0;
    for (size_t i = 0; i < message->n_nested_type; i++)
        clear_proto3_optional(message->nested_type[i]);
}

static void rewrite_message(const struct rewriting *rewriting, const sl_message *message,
                            const char *outer, struct sl_place place)
{
    struct sl_arena *arena = rewriting->model->arena;
    const char *name = sl_arena_print(arena, "%s.%s", outer, message->name);
    rename_fields(rewriting, message);
    note_braces(rewriting, message, sl_table_get(&rewriting->model->types, name));
    for (size_t i = 0; i < message->n_field; i++) {
        struct sl_place at = {place.file, &place, SL_MESSAGE_FIELD, i};
        if (message->field[i]->type == SL_TYPE(GROUP))
            sl_report_at(rewriting->report, &at,
                         "field %s is a group; protobuf-c has none, use a message field",
                         message->field[i]->name);
        rewrite_default(rewriting, message->field[i], &at);
    }
    for (size_t i = 0; i < message->n_nested_type; i++)
        rewrite_message(rewriting, message->nested_type[i], name,
                        (struct sl_place){place.file, &place, SL_MESSAGE_NESTED, i});
}

/* ---- files ---- */

static void mark_used(const struct sl_model *model, const char *type_name, bool *used)
{
    const struct sl_model_type *type = type_name ? sl_table_get(&model->types, type_name) : NULL;
    if (type)
        used[type->file - model->files] = true;
}

static void mark_used_by_message(const struct sl_model *model, const sl_message *message,
                                 bool *used)
{
    for (size_t i = 0; i < message->n_field; i++)
        mark_used(model, message->field[i]->type_name, used);
    for (size_t i = 0; i < message->n_nested_type; i++)
        mark_used_by_message(model, message->nested_type[i], used);
}

/* Files whose types the file's messages and methods use. */
static bool *files_used(const struct sl_model *model, const sl_file *file)
{
    bool *used = sl_arena_array(model->arena, model->file_count, sizeof *used);
    for (size_t i = 0; i < file->n_message_type; i++)
        mark_used_by_message(model, file->message_type[i], used);
    for (size_t i = 0; i < file->n_service; i++) {
        for (size_t m = 0; m < file->service[i]->n_method; m++) {
            mark_used(model, file->service[i]->method[m]->input_type, used);
            mark_used(model, file->service[i]->method[m]->output_type, used);
        }
    }
    return used;
}

static bool is_public(const sl_file *file, size_t dependency)
{
    for (size_t i = 0; i < file->n_public_dependency; i++) {
        if ((size_t)file->public_dependency[i] == dependency)
            return true;
    }
    return false;
}

static bool serves(const struct sl_model *model, const struct sl_model_file *import,
                   const bool *used)
{
    const bool *marks = sl_model_public(model, import);
    for (size_t i = 0; i < model->file_count; i++) {
        if (marks[i] && used[i])
            return true;
    }
    return false;
}

static void drop_imports(const struct rewriting *rewriting)
{
    sl_file *file = rewriting->file->proto;
    const bool *used = files_used(rewriting->model, file);
    size_t kept = 0;
    size_t kept_public = 0;
    for (size_t i = 0; i < file->n_dependency; i++) {
        bool public = is_public(file, i);
        if (!public && !serves(rewriting->model, rewriting->file->imports[i], used))
            continue;
        file->dependency[kept] = file->dependency[i];
        if (public)
            file->public_dependency[kept_public++] = (int32_t)kept;
        kept++;
    }
    file->n_dependency = kept;
    file->n_public_dependency = kept_public;
    file->n_weak_dependency = 0;
}

static void clean(struct sl_arena *arena, char **comment)
{
    if (*comment)
        *comment = sl_comment_clean(arena, *comment, SIZE_MAX / 4);
}

static void clean_comments(struct sl_arena *arena, const sl_file *file)
{
    const Google__Protobuf__SourceCodeInfo *info = file->source_code_info;
    for (size_t i = 0; info && i < info->n_location; i++) {
        sl_location *location = info->location[i];
        clean(arena, &location->leading_comments);
        clean(arena, &location->trailing_comments);
        for (size_t d = 0; d < location->n_leading_detached_comments; d++)
            clean(arena, &location->leading_detached_comments[d]);
    }
}

static void rewrite_file(const struct rewriting *rewriting)
{
    sl_file *file = rewriting->file->proto;
    if (rewriting->file->options.use_oneof_field_name)
        sl_report_file(
            rewriting->report, file->name,
            "option (pb_c_file).use_oneof_field_name is not supported: protoc-gen-c dies of it");
    if (rewriting->file->options.no_generate && file->n_service)
        sl_report_file(rewriting->report, file->name,
                       "option (pb_c_file).no_generate leaves its services without message types");
    const char *outer = file->package && *file->package
                            ? sl_arena_print(rewriting->model->arena, ".%s", file->package)
                            : "";
    for (size_t i = 0; i < file->n_message_type; i++)
        rewrite_message(rewriting, file->message_type[i], outer,
                        (struct sl_place){file, NULL, SL_FILE_MESSAGE, i});
    drop_imports(rewriting);
    clean_comments(rewriting->model->arena, file);
}

void sl_rewrite(const struct sl_model *model, struct sl_repairs *repairs, struct sl_report *report)
{
    for (size_t i = 0; i < model->file_count; i++) {
        struct rewriting rewriting = {model, &model->files[i], repairs, report};
        if (model->files[i].generated)
            rewrite_file(&rewriting);
    }
    for (size_t i = 0; i < model->file_count; i++) {
        sl_file *file = model->files[i].proto;
        file->n_service = 0;
        file->n_extension = 0;
        for (size_t m = 0; m < file->n_message_type; m++)
            clear_proto3_optional(file->message_type[m]);
    }
}
