/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - builds the model in four passes over the files: types, then per file imports, options and services. */
#include "codegen/model.h"
#include "codegen/comment.h"
#include "codegen/names.h"

#include <string.h>

#define COMMENT_BYTES_MAX 4000

/* ---- types ---- */

struct type_scope {
    struct sl_model *model;
    const struct sl_model_file *file;
};

static void add_type(const struct type_scope *scope, const char *name, bool is_enum)
{
    struct sl_arena *arena = scope->model->arena;
    const char *package = scope->file->proto->package ? scope->file->proto->package : "";
    const char *inner = name + strlen(package); /* begins with a dot where there is a package */
    const char *c_name = sl_arena_print(arena, "%s.%s", scope->file->c_package, inner);
    struct sl_model_type *type = sl_arena_alloc(arena, sizeof *type);
    *type = (struct sl_model_type){.file = scope->file,
                                   .name = name,
                                   .c_type = sl_names_type(arena, c_name),
                                   .c_lower = sl_names_lower(arena, c_name),
                                   .c_upper = sl_names_upper(arena, c_name),
                                   .is_enum = is_enum};
    sl_table_add(&scope->model->types, sl_arena_print(arena, ".%s", name), type);
}

static const char *qualify(struct sl_arena *arena, const char *outer, const char *name)
{
    return *outer ? sl_arena_print(arena, "%s.%s", outer, name) : name;
}

static void add_message(const struct type_scope *scope, const char *outer,
                        const sl_message *message)
{
    struct sl_arena *arena = scope->model->arena;
    const char *name = qualify(arena, outer, message->name);
    add_type(scope, name, false);
    for (size_t i = 0; i < message->n_enum_type; i++)
        add_type(scope, qualify(arena, name, message->enum_type[i]->name), true);
    for (size_t i = 0; i < message->n_nested_type; i++)
        add_message(scope, name, message->nested_type[i]);
}

static void add_types(struct sl_model *model, const struct sl_model_file *file)
{
    struct type_scope scope = {model, file};
    const char *package = file->proto->package ? file->proto->package : "";
    for (size_t i = 0; i < file->proto->n_message_type; i++)
        add_message(&scope, package, file->proto->message_type[i]);
    for (size_t i = 0; i < file->proto->n_enum_type; i++)
        add_type(&scope, qualify(model->arena, package, file->proto->enum_type[i]->name), true);
}

/* ---- files ---- */

static void link_imports(struct sl_model *model, struct sl_model_file *file,
                         const struct sl_table *files)
{
    const sl_file *proto = file->proto;
    file->import_count = proto->n_dependency;
    file->imports = sl_arena_array(model->arena, proto->n_dependency, sizeof *file->imports);
    for (size_t i = 0; i < proto->n_dependency; i++) {
        size_t index =
            (size_t)((const struct sl_model_file *)sl_table_get(files, proto->dependency[i]) -
                     model->files);
        file->imports[i] = &model->files[index];
    }
}

static void mark_public(const struct sl_model *model, const struct sl_model_file *file, bool *marks)
{
    bool *mark = &marks[file - model->files];
    if (*mark)
        return;
    *mark = true;
    for (size_t i = 0; i < file->proto->n_public_dependency; i++)
        mark_public(model, file->imports[file->proto->public_dependency[i]], marks);
}

bool *sl_model_public(const struct sl_model *model, const struct sl_model_file *file)
{
    bool *marks = sl_arena_array(model->arena, model->file_count, sizeof *marks);
    mark_public(model, file, marks);
    return marks;
}

static void mark_all_imports(const struct sl_model *model, const struct sl_model_file *file,
                             bool *marks)
{
    bool *mark = &marks[file - model->files];
    if (*mark)
        return;
    *mark = true;
    for (size_t i = 0; i < file->import_count; i++)
        mark_all_imports(model, file->imports[i], marks);
}

static void fill_file(struct sl_model *model, struct sl_model_file *file, struct sl_report *report)
{
    sl_file *proto = file->proto;
    file->stem = sl_names_file_stem(model->arena, proto->name);
    file->options = sl_request_file_options(model->arena, proto);
    file->c_package =
        file->options.c_package ? file->options.c_package : (proto->package ? proto->package : "");
    if (file->options.c_package && !sl_names_is_dotted(file->options.c_package))
        sl_report_file(report, proto->name,
                       "option (pb_c_file).c_package = \"%s\" is no package name",
                       file->options.c_package);
}

static void fill_files(struct sl_model *model, sl_request *request, struct sl_report *report)
{
    struct sl_table by_name = {.arena = model->arena};
    model->file_count = request->n_proto_file;
    model->files = sl_arena_array(model->arena, model->file_count, sizeof *model->files);
    for (size_t i = 0; i < model->file_count; i++) {
        struct sl_model_file *file = &model->files[i];
        file->proto = request->proto_file[i];
        fill_file(model, file, report);
        sl_table_add(&by_name, file->proto->name, file);
        link_imports(model, file, &by_name);
        add_types(model, file);
    }
    for (size_t i = 0; i < request->n_file_to_generate; i++) {
        const struct sl_model_file *file = sl_table_get(&by_name, request->file_to_generate[i]);
        model->files[file - model->files].generated = true;
    }
}

/* ---- services ---- */

typedef bool is_taken(const char *name);

static bool never_taken(const char *name)
{
    (void)name;
    return false;
}

/* The first of name, name_rpc, name_rpc2, … that is free; it is then `owner`'s. Nobody keeps names that end so. */
static const char *claim(struct sl_table *table, const char *name, is_taken *is_kept,
                         const void *owner)
{
    if (!is_kept(name) && !sl_table_add(table, name, owner))
        return name;
    const char *candidate = sl_arena_print(table->arena, "%s_rpc", name);
    for (unsigned n = 2; sl_table_add(table, candidate, owner); n++)
        candidate = sl_arena_print(table->arena, "%s_rpc%u", name, n);
    return candidate;
}

/* The names claimed by what a file sees, imports at any depth first. */
struct claims {
    struct sl_table services;
    struct sl_table methods;
};

static const struct sl_model_type *find_message(const struct sl_model *model, const char *name,
                                                const struct sl_place *place,
                                                struct sl_report *report)
{
    const struct sl_model_type *type = sl_table_get(&model->types, name);
    if (type && !type->is_enum)
        return type;
    sl_report_at(report, place, "message type %s is not in the request", name + 1);
    return NULL;
}

static const char *comment_at(const struct sl_model *model, const struct sl_place *place)
{
    const sl_location *location = sl_place_find(place);
    return sl_comment_clean(model->arena, location ? location->leading_comments : NULL,
                            COMMENT_BYTES_MAX);
}

static void fill_method(const struct sl_model *model, struct sl_model_method *method,
                        const struct sl_place *place, struct sl_report *report)
{
    const sl_method *proto = place->file->service[place->parent->index]->method[place->index];
    method->name = proto->name;
    method->deprecated = proto->options && proto->options->deprecated;
    method->comment = comment_at(model, place);
    if (proto->client_streaming || proto->server_streaming)
        sl_report_at(report, place,
                     "method %s streams; sealane generates unary methods only so far", proto->name);
    method->request = find_message(model, proto->input_type, place, report);
    method->reply = find_message(model, proto->output_type, place, report);
}

static void fill_service(const struct sl_model *model, struct sl_model_service *service,
                         const struct sl_place *place, struct claims *claims)
{
    struct sl_arena *arena = model->arena;
    const sl_service *proto = place->file->service[place->index];
    const char *package = place->file->package ? place->file->package : "";
    service->name = proto->name;
    service->full_name = qualify(arena, package, proto->name);
    service->stem =
        claim(&claims->services, sl_names_snake(arena, service->full_name), never_taken, service);
    service->deprecated = proto->options && proto->options->deprecated;
    service->method_count = proto->n_method;
    service->methods = sl_arena_array(arena, proto->n_method, sizeof *service->methods);
    struct sl_table members = {.arena = arena};
    for (size_t i = 0; i < proto->n_method; i++) {
        struct sl_model_method *method = &service->methods[i];
        const char *name = sl_names_snake(arena, proto->method[i]->name);
        method->stem = claim(&claims->methods, sl_arena_print(arena, "%s_%s", service->stem, name),
                             sl_names_is_function_taken, service);
        method->member = claim(&members, name, sl_names_is_word, method);
    }
}

/* Comments and types are looked up only where code will be made of them. */
static void fill_generated(const struct sl_model *model, struct sl_model_service *service,
                           const struct sl_place *place, struct sl_report *report)
{
    service->comment = comment_at(model, place);
    for (size_t i = 0; i < service->method_count; i++) {
        struct sl_place at = {place->file, place, SL_SERVICE_METHOD, i};
        fill_method(model, &service->methods[i], &at, report);
    }
}

static void claim_imported(const struct sl_model *model, const struct sl_model_file *file,
                           struct claims *claims)
{
    bool *marks = sl_arena_array(model->arena, model->file_count, sizeof *marks);
    mark_all_imports(model, file, marks);
    for (size_t i = 0; i < model->file_count; i++) {
        const struct sl_model_file *other = &model->files[i];
        for (size_t s = 0; marks[i] && other != file && s < other->service_count; s++) {
            const struct sl_model_service *service = &other->services[s];
            sl_table_add(&claims->services, service->stem, service);
            for (size_t m = 0; m < service->method_count; m++)
                sl_table_add(&claims->methods, service->methods[m].stem, service);
        }
    }
}

static void fill_services(const struct sl_model *model, struct sl_model_file *file,
                          struct sl_report *report)
{
    const sl_file *proto = file->proto;
    struct claims claims = {{.arena = model->arena}, {.arena = model->arena}};
    if (proto->n_service == 0)
        return;
    claim_imported(model, file, &claims);
    file->services = sl_arena_array(model->arena, proto->n_service, sizeof *file->services);
    for (size_t i = 0; i < proto->n_service; i++) {
        struct sl_place place = {proto, NULL, SL_FILE_SERVICE, i};
        fill_service(model, &file->services[i], &place, &claims);
        file->service_count++;
        if (file->generated)
            fill_generated(model, &file->services[i], &place, report);
    }
}

/* Files that do not import each other may still be linked together: one stem has one owner. */
static void check_stems(const struct sl_model *model, struct sl_report *report)
{
    struct sl_table stems = {.arena = model->arena};
    for (size_t f = 0; f < model->file_count; f++) {
        const struct sl_model_file *file = &model->files[f];
        for (size_t s = 0; s < file->service_count; s++) {
            const struct sl_model_service *service = &file->services[s];
            const char *stem = sl_arena_print(model->arena, "%s__service", service->stem);
            const struct sl_model_service *other = sl_table_add(&stems, stem, service);
            for (size_t m = 0; !other && m < service->method_count; m++) {
                stem = service->methods[m].stem;
                other = sl_table_add(&stems, stem, service);
                other = other == service ? NULL : other;
            }
            struct sl_place place = {file->proto, NULL, SL_FILE_SERVICE, s};
            if (other)
                sl_report_at(report, &place, "services %s and %s would both make %s in C",
                             other->full_name, service->full_name, stem);
        }
    }
}

void sl_model_build(struct sl_model *model, struct sl_arena *arena, sl_request *request,
                    struct sl_report *report)
{
    *model = (struct sl_model){.arena = arena, .types = {.arena = arena}};
    fill_files(model, request, report);
    for (size_t i = 0; i < model->file_count; i++)
        fill_services(model, &model->files[i], report);
    check_stems(model, report);
}
