/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - see messages.h; child.h has the process. */
#include "codegen/messages.h"
#include "codegen/child.h"

#include <string.h>

#define GENERATOR "protoc-gen-c"

static const char *find_generator(struct sl_arena *arena)
{
    const char *path = sl_child_find(arena, GENERATOR);
    const char *compiler = path ? NULL : sl_child_find(arena, "protoc-c");
    return compiler ? sl_child_beside(arena, compiler, GENERATOR) : path;
}

/* One run. NULL with *why_p in words. */
static sl_response *generate(struct sl_arena *arena, const char *program, const sl_request *request,
                             const char **why_p)
{
    size_t bytes = google__protobuf__compiler__code_generator_request__get_packed_size(request);
    uint8_t *input = sl_arena_alloc(arena, bytes);
    google__protobuf__compiler__code_generator_request__pack(request, input);
    struct sl_text output = {.arena = arena};
    const struct sl_child_input in = {input, bytes};
    *why_p = sl_child_run(program, in, &output);
    if (*why_p)
        return NULL;
    sl_response *response = google__protobuf__compiler__code_generator_response__unpack(
        &arena->allocator, output.length, (const uint8_t *)sl_text_string(&output));
    if (!response)
        *why_p = "answered with bytes that are no CodeGeneratorResponse";
    else if (response->error && *response->error)
        *why_p = response->error;
    return *why_p ? NULL : response;
}

/* The run over all files failed: which file is it? */
static void report_failure(const sl_request *request, const char *program, const char *why,
                           struct sl_report *report)
{
    size_t before = report->count;
    for (size_t i = 0; request->n_file_to_generate > 1 && i < request->n_file_to_generate; i++) {
        sl_request one = *request;
        one.n_file_to_generate = 1;
        one.file_to_generate = &request->file_to_generate[i];
        const char *alone = NULL;
        generate(report->text.arena, program, &one, &alone);
        if (alone)
            sl_report_file(report, request->file_to_generate[i], GENERATOR " %s", alone);
    }
    for (size_t i = 0; report->count == before && i < request->n_file_to_generate; i++)
        sl_report_file(report, request->file_to_generate[i], GENERATOR " %s", why);
}

const sl_response *sl_messages_generate(sl_request *request, const struct sl_repairs *repairs,
                                        struct sl_report *report)
{
    struct sl_arena *arena = report->text.arena;
    const char *program = find_generator(arena);
    if (!program) {
        sl_report_file(report, request->file_to_generate[0],
                       GENERATOR
                       " is not on PATH; it makes the message code (Debian: protobuf-c-compiler)");
        return NULL;
    }
    const char *why = NULL;
    sl_response *response = generate(arena, program, request, &why);
    if (!response) {
        report_failure(request, program, why, report);
        return NULL;
    }
    for (size_t i = 0; i < response->n_file; i++) {
        if (response->file[i]->content)
            response->file[i]->content = sl_repair(repairs, response->file[i]->content);
    }
    return response;
}
