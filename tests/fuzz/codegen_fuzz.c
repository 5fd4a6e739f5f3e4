/* SPDX-License-Identifier: Apache-2.0 */
/* codegen_fuzz.c - any bytes as a CodeGeneratorRequest: parsed, modelled, emitted, rewritten and packed again; no child is run.
 */
#include "codegen/clash.h"
#include "codegen/emit.h"
#include "codegen/rewrite.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void emit_all(const struct sl_model *model)
{
    for (size_t i = 0; i < model->file_count; i++) {
        struct sl_text text = {.arena = model->arena};
        if (!model->files[i].generated)
            continue;
        sl_emit_header(&text, &model->files[i]);
        sl_emit_source(&text, &model->files[i]);
        struct sl_repairs repairs = {.arena = model->arena, .braced = {.arena = model->arena}};
        sl_repair(&repairs, sl_text_string(&text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sl_arena arena;
    struct sl_model model;
    const char *why = NULL;
    sl_arena_init(&arena);
    struct sl_report report = {.text = {.arena = &arena}};
    struct sl_repairs repairs = {.arena = &arena, .braced = {.arena = &arena}};
    sl_request *request = sl_request_parse(&arena, data, bytes, &why);
    if (request) {
        sl_model_build(&model, &arena, request, &report);
        sl_clash_find(&model, &report);
        if (report.count == 0)
            emit_all(&model);
        sl_rewrite(&model, &repairs, &report);
        size_t size = google__protobuf__compiler__code_generator_request__get_packed_size(request);
        google__protobuf__compiler__code_generator_request__pack(request,
                                                                 sl_arena_alloc(&arena, size));
    }
    sl_arena_free(&arena);
    return 0;
}
