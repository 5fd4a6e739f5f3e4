/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c - templates. A stub fills a table and calls one function of rpc/; whatever decides anything is there, not here. */
#include "codegen/emit.h"
#include "codegen/comment.h"
#include "codegen/names.h"

#include <string.h>

/* ---- comments ---- */

/* Adds the lines of a clean comment, each with " *" in front. */
static void emit_lines(struct sl_text *text, const char *comment)
{
    while (*comment) {
        size_t length = strcspn(comment, "\n");
        sl_text_add(text, length && *comment != ' ' ? " * " : " *");
        sl_text_add_bytes(text, comment, length);
        sl_text_add(text, "\n");
        comment += length + (comment[length] == '\n');
    }
}

static void emit_comment(struct sl_text *text, const char *title, const char *comment,
                         bool deprecated)
{
    sl_text_print(text, "/* %s", title);
    if (*comment || deprecated)
        sl_text_add(text, "\n *\n");
    emit_lines(text, comment);
    if (deprecated)
        sl_text_add(text, " * Deprecated.\n");
    sl_text_add(text, " */\n");
}

static void emit_banner(struct sl_text *text, const struct sl_model_file *file)
{
    sl_text_print(text, "/* Made by protoc-gen-sealane from %s. Do not edit. */\n",
                  sl_comment_clean(text->arena, file->proto->name, 1000));
}

/* ---- x.sealane.h ---- */

static void emit_handlers(struct sl_text *text, const struct sl_model_service *service)
{
    sl_text_print(
        text,
        "/* One function per method; NULL answers UNIMPLEMENTED. `request` is the call's until it was\n"
        " * answered, with the method's __reply or with sealane_call_fail, before the function returns\n"
        " * or later. */\n"
        "struct %s__handlers {\n",
        service->stem);
    for (size_t i = 0; i < service->method_count; i++) {
        const struct sl_model_method *method = &service->methods[i];
        sl_text_print(text,
                      "    void (*%s)(struct sealane_call *call, const %s *request, void *user);\n",
                      method->member, method->request->c_type);
    }
    if (service->method_count == 0)
        sl_text_add(text, "    void (*none)(void); /* the service has no methods */\n");
    sl_text_add(text, "};\n\n");
}

static void emit_service_declarations(struct sl_text *text, const struct sl_model_service *service)
{
    const char *title = sl_arena_print(text->arena, "---- service %s ----", service->full_name);
    emit_comment(text, title, service->comment, service->deprecated);
    sl_text_print(text, "extern const struct sealane_service %s__service;\n\n", service->stem);
    emit_handlers(text, service);
    sl_text_print(
        text,
        "/* Adds the service to a server. `handlers` is copied; `user` is borrowed until the server's\n"
        " * end and handed to each handler. */\n"
        "SEALANE_RESULT %s__register(struct sealane_server *server,\n"
        "    const struct %s__handlers *handlers, void *user);\n\n",
        service->stem, service->stem);
}

static void emit_method_declarations(struct sl_text *text, const struct sl_model_service *service,
                                     const struct sl_model_method *method)
{
    const char *stem = method->stem;
    const char *request = method->request->c_type;
    const char *reply = method->reply->c_type;
    const char *title =
        sl_arena_print(text->arena, "---- rpc %s.%s ----", service->name, method->name);
    emit_comment(text, title, method->comment, method->deprecated);
    sl_text_print(
        text,
        "/* Calls and waits. `request` is borrowed until then; *reply_p is the call's until\n"
        " * sealane_call_free(*call_p). */\n"
        "SEALANE_RESULT %s(struct sealane_channel *channel,\n"
        "    const %s *request, const struct sealane_call_options *options,\n"
        "    const %s **reply_p, struct sealane_call **call_p);\n\n",
        stem, request, reply);
    sl_text_print(
        text,
        "/* Starts a call; `done` runs once, on the node's thread. `reply` (NULL unless status is OK) and\n"
        " * the call are freed when done returns, unless it called sealane_call_keep. Tensors of\n"
        " * `request` are borrowed until done. */\n"
        "typedef void %s__done(struct sealane_call *call, enum sealane_status status,\n"
        "    const %s *reply, void *user);\n"
        "SEALANE_RESULT %s__start(struct sealane_channel *channel,\n"
        "    const %s *request, const struct sealane_call_options *options,\n"
        "    %s__done *done, void *user, struct sealane_call **call_p);\n\n",
        stem, reply, stem, request, stem);
    sl_text_print(
        text,
        "/* Answers a call. `reply` is packed before this returns; its tensors are borrowed until the\n"
        " * call's end. */\n"
        "SEALANE_RESULT %s__reply(struct sealane_call *call, const %s *reply);\n\n",
        stem, reply);
}

void sl_emit_header(struct sl_text *text, const struct sl_model_file *file)
{
    const char *macro = sl_names_file_macro(text->arena, file->proto->name);
    emit_banner(text, file);
    sl_text_print(text,
                  "#ifndef SEALANE_GENERATED_%s\n#define SEALANE_GENERATED_%s\n\n"
                  "#include <sealane.h>\n\n",
                  macro, macro);
    if (!file->options.no_generate)
        sl_text_print(text, "#include \"%s.pb-c.h\"\n\n", file->stem);
    sl_text_add(text, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for (size_t i = 0; i < file->service_count; i++) {
        const struct sl_model_service *service = &file->services[i];
        emit_service_declarations(text, service);
        for (size_t m = 0; m < service->method_count; m++)
            emit_method_declarations(text, service, &service->methods[m]);
    }
    sl_text_add(text, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- x.sealane.c ---- */

static void emit_tables(struct sl_text *text, const struct sl_model_service *service)
{
    const char *stem = service->stem;
    if (service->method_count)
        sl_text_print(text, "static const struct sealane_method %s__methods[] = {\n", stem);
    for (size_t i = 0; i < service->method_count; i++) {
        const struct sl_model_method *method = &service->methods[i];
        sl_text_print(text, "    {\"/%s/%s\",\n     &%s__descriptor,\n     &%s__descriptor},\n",
                      service->full_name, method->name, method->request->c_lower,
                      method->reply->c_lower);
    }
    if (service->method_count)
        sl_text_add(text, "};\n\n");
    sl_text_print(text, "const struct sealane_service %s__service = {\"%s\", ", stem,
                  service->full_name);
    if (service->method_count)
        sl_text_print(text, "%s__methods, %zu};\n\n", stem, service->method_count);
    else
        sl_text_add(text, "NULL, 0};\n\n");
}

static void emit_client(struct sl_text *text, const char *table, size_t index,
                        const struct sl_model_method *method)
{
    const char *stem = method->stem;
    const char *request = method->request->c_type;
    const char *reply = method->reply->c_type;
    sl_text_print(
        text,
        "SEALANE_RESULT %s(struct sealane_channel *channel,\n"
        "    const %s *request, const struct sealane_call_options *options,\n"
        "    const %s **reply_p, struct sealane_call **call_p)\n"
        "{\n"
        "    const ProtobufCMessage *reply = NULL;\n"
        "    enum sealane_status status = sealane_unary_call(channel, &%s__methods[%zu],\n"
        "        (const ProtobufCMessage *)request, options, &reply, call_p);\n"
        "    *reply_p = (const %s *)reply;\n"
        "    return status;\n"
        "}\n\n",
        stem, request, reply, table, index, reply);
    sl_text_print(text,
                  "static void %s__deliver(struct sealane_call *call,\n"
                  "    enum sealane_status status, const ProtobufCMessage *reply,\n"
                  "    sealane_function *done, void *user)\n"
                  "{\n"
                  "    ((%s__done *)done)(call, status, (const %s *)reply, user);\n"
                  "}\n\n",
                  stem, stem, reply);
    sl_text_print(text,
                  "SEALANE_RESULT %s__start(struct sealane_channel *channel,\n"
                  "    const %s *request, const struct sealane_call_options *options,\n"
                  "    %s__done *done, void *user, struct sealane_call **call_p)\n"
                  "{\n"
                  "    const struct sealane_completion completion = {%s__deliver,\n"
                  "        (sealane_function *)done, user};\n"
                  "    return sealane_unary_start(channel, &%s__methods[%zu],\n"
                  "        (const ProtobufCMessage *)request, options, &completion, call_p);\n"
                  "}\n\n",
                  stem, request, stem, stem, table, index);
}

static void emit_server(struct sl_text *text, const struct sl_model_method *method)
{
    sl_text_print(text,
                  "static void %s__invoke(struct sealane_call *call,\n"
                  "    const ProtobufCMessage *request, sealane_function *function, void *user)\n"
                  "{\n"
                  "    typedef void handler(struct sealane_call *, const %s *, void *);\n"
                  "    ((handler *)function)(call, (const %s *)request, user);\n"
                  "}\n\n",
                  method->stem, method->request->c_type, method->request->c_type);
    sl_text_print(text,
                  "SEALANE_RESULT %s__reply(struct sealane_call *call, const %s *reply)\n"
                  "{\n"
                  "    return sealane_call_reply(call, (const ProtobufCMessage *)reply);\n"
                  "}\n\n",
                  method->stem, method->reply->c_type);
}

static void emit_register(struct sl_text *text, const struct sl_model_service *service)
{
    const char *stem = service->stem;
    sl_text_print(text,
                  "SEALANE_RESULT %s__register(struct sealane_server *server,\n"
                  "    const struct %s__handlers *handlers, void *user)\n"
                  "{\n",
                  stem, stem);
    if (service->method_count == 0)
        sl_text_add(text, "    (void)handlers;\n");
    else
        sl_text_add(text, "    const struct sealane_handler table[] = {\n");
    for (size_t i = 0; i < service->method_count; i++)
        sl_text_print(text, "        {%s__invoke, (sealane_function *)handlers->%s},\n",
                      service->methods[i].stem, service->methods[i].member);
    sl_text_print(text, "%s    return sealane_server_add(server, &%s__service, %s, user);\n}\n\n",
                  service->method_count ? "    };\n" : "", stem,
                  service->method_count ? "table" : "NULL");
}

void sl_emit_source(struct sl_text *text, const struct sl_model_file *file)
{
    emit_banner(text, file);
    sl_text_print(text, "#include \"%s.sealane.h\"\n\n", file->stem);
    for (size_t i = 0; i < file->service_count; i++) {
        const struct sl_model_service *service = &file->services[i];
        emit_tables(text, service);
        for (size_t m = 0; m < service->method_count; m++) {
            emit_client(text, service->stem, m, &service->methods[m]);
            emit_server(text, &service->methods[m]);
        }
        emit_register(text, service);
    }
}
