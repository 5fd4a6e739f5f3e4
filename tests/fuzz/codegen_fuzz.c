/* SPDX-License-Identifier: Apache-2.0 */
/* codegen_fuzz.c - any bytes as a CodeGeneratorRequest: parsed, modelled, emitted, rewritten and packed again; no child is run.
 *
 * With libFuzzer:  tests/fuzz/run_codegen_fuzz.sh (clang)
 * Without:         the test codegen.corpus replays files and directories named on the command line (SL_FUZZ_REPLAY).
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

#ifdef SL_FUZZ_REPLAY
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0 when it was read and survived. */
static int replay(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t count = fread(bytes, 1, sizeof bytes, file);
    int failed = ferror(file) || !feof(file);
    fclose(file);
    if (failed) {
        fprintf(stderr, "%s: cannot be read, or larger than 1 MiB\n", path);
        return 1;
    }
    /* A copy of exactly that size: reading past the end is seen. */
    uint8_t *exact = malloc(count + (count == 0));
    if (!exact)
        return 1;
    memcpy(exact, bytes, count);
    LLVMFuzzerTestOneInput(exact, count);
    free(exact);
    return 0;
}

int main(int count, char **names)
{
    int replayed = 0;
    int failed = 0;
    for (int i = 1; i < count; i++) {
        DIR *directory = opendir(names[i]);
        for (struct dirent *entry = directory ? readdir(directory) : NULL; entry;
             entry = readdir(directory)) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", names[i], entry->d_name);
            failed += replay(path);
            replayed++;
        }
        if (!directory) {
            perror(names[i]);
            failed++;
        } else {
            closedir(directory);
        }
    }
    printf("%d replayed, %d failed\n", replayed, failed);
    return failed || replayed == 0;
}
#endif
