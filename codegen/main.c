/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - protoc-gen-sealane: a CodeGeneratorRequest on standard input, a CodeGeneratorResponse on standard output.
 *
 *   protoc --plugin=protoc-gen-sealane=PATH --sealane_out=DIR x.proto   writes x.pb-c.[ch] (messages) and x.sealane.[ch] (stubs)
 *
 * Errors in a .proto go into the response, as protoc wants it; status 1 and stderr are for requests that cannot be read.
 */
#include "codegen/clash.h"
#include "codegen/emit.h"
#include "codegen/messages.h"
#include "codegen/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_BYTES_MAX ((size_t)256 << 20)
#define READ_BYTES        ((size_t)64 << 10)

/* Their C is in the Sealane library, with the headers that generated code includes; a second copy would not link. */
static const char *const in_library[] = {
    "google/protobuf/any.proto",
    "google/protobuf/api.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/empty.proto",
    "google/protobuf/field_mask.proto",
    "google/protobuf/source_context.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/type.proto",
    "google/protobuf/wrappers.proto",
    "sealane/tensor.proto",
};

static int fail(const char *why)
{
    fprintf(stderr, "protoc-gen-sealane: %s\n", why);
    return EXIT_FAILURE;
}

/* NULL, or why the input cannot be had. */
static const char *read_input(struct sl_text *input)
{
    size_t count;
    while ((count = fread(sl_text_room(input, READ_BYTES), 1, READ_BYTES, stdin)) > 0) {
        input->length += count;
        if (input->length > REQUEST_BYTES_MAX)
            return "the request is larger than 256 MiB";
    }
    return ferror(stdin) ? strerror(errno) : NULL;
}

static const char *write_response(struct sl_arena *arena, const sl_response *response)
{
    size_t bytes = google__protobuf__compiler__code_generator_response__get_packed_size(response);
    uint8_t *output = sl_arena_alloc(arena, bytes);
    google__protobuf__compiler__code_generator_response__pack(response, output);
    if (fwrite(output, 1, bytes, stdout) != bytes || fflush(stdout) != 0)
        return sl_arena_print(arena, "standard output: %s", strerror(errno));
    return NULL;
}

static void check_request(const sl_request *request, struct sl_report *report)
{
    const char *first = request->n_file_to_generate ? request->file_to_generate[0] : "request";
    if (request->parameter && *request->parameter)
        sl_report_file(report, first,
                       "unknown parameter \"%s\"; protoc-gen-sealane knows none so far",
                       request->parameter);
    for (size_t i = 0; i < request->n_file_to_generate; i++) {
        for (size_t k = 0; k < sizeof in_library / sizeof *in_library; k++) {
            if (strcmp(request->file_to_generate[i], in_library[k]) == 0)
                sl_report_file(
                    report, in_library[k],
                    "its C is in the Sealane library already; import it, do not generate it");
        }
    }
}

static void add_file(sl_response *response, char *name, struct sl_text *text)
{
    sl_response_file *file = sl_arena_alloc(text->arena, sizeof *file);
    google__protobuf__compiler__code_generator_response__file__init(file);
    file->name = name;
    file->content = sl_text_string(text);
    response->file[response->n_file++] = file;
}

static void emit_files(const struct sl_model *model, sl_response *response)
{
    struct sl_arena *arena = model->arena;
    response->file = sl_arena_array(arena, 2 * model->file_count, sizeof *response->file);
    for (size_t i = 0; i < model->file_count; i++) {
        const struct sl_model_file *file = &model->files[i];
        struct sl_text header = {.arena = arena};
        struct sl_text source = {.arena = arena};
        if (!file->generated)
            continue;
        sl_emit_header(&header, file);
        sl_emit_source(&source, file);
        add_file(response, sl_arena_print(arena, "%s.sealane.h", file->stem), &header);
        add_file(response, sl_arena_print(arena, "%s.sealane.c", file->stem), &source);
    }
}

static void append_files(struct sl_arena *arena, sl_response *response, const sl_response *more)
{
    size_t count = response->n_file + more->n_file;
    sl_response_file **files = sl_arena_array(arena, count, sizeof *files);
    for (size_t i = 0; i < response->n_file; i++)
        files[i] = response->file[i];
    for (size_t i = 0; i < more->n_file; i++)
        files[response->n_file + i] = more->file[i];
    response->file = files;
    response->n_file = count;
}

/* Stubs first, then messages: rewriting spoils the descriptors for us. */
static void generate(struct sl_arena *arena, sl_request *request, sl_response *response,
                     struct sl_report *report)
{
    struct sl_model model;
    struct sl_repairs repairs = {.arena = arena, .braced = {.arena = arena}};
    sl_model_build(&model, arena, request, report);
    sl_clash_find(&model, report);
    if (report->count == 0)
        emit_files(&model, response);
    sl_rewrite(&model, &repairs, report);
    if (report->count > 0 || request->n_file_to_generate == 0)
        return;
    const sl_response *messages = sl_messages_generate(request, &repairs, report);
    if (messages)
        append_files(arena, response, messages);
}

static const char *run(struct sl_arena *arena)
{
    struct sl_text input = {.arena = arena};
    struct sl_report report = {.text = {.arena = arena}};
    const char *why = read_input(&input);
    if (why)
        return why;
    sl_request *request =
        sl_request_parse(arena, (const uint8_t *)sl_text_string(&input), input.length, &why);
    if (!request)
        return why;
    sl_response response = GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__INIT;
    response.has_supported_features = 1;
    response.supported_features =
        GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__FEATURE__FEATURE_PROTO3_OPTIONAL;
    check_request(request, &report);
    if (report.count == 0)
        generate(arena, request, &response, &report);
    if (report.count > 0) {
        response.n_file = 0;
        response.error = sl_text_string(&report.text);
    }
    return write_response(arena, &response);
}

int main(void)
{
    struct sl_arena arena;
    sl_arena_init(&arena);
    const char *why = run(&arena);
    int status = why ? fail(why) : EXIT_SUCCESS;
    sl_arena_free(&arena);
    return status;
}
