/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - the request as the generator sees it: files, types by name, services with every name that generated C will carry.
 *
 * Rules for the names of services (names.h has the pure functions):
 *
 *   stem of a service   <package>_<service>, each piece in snake_case:      package echo.v1, service Echo  -> echo_v1_echo
 *   stem of a method    <stem of the service>_<method>:                     rpc SayHello                   -> echo_v1_echo_say_hello
 *   member for a method of the handlers struct: <method>                    rpc SayHello                   -> say_hello
 *
 *   The blocking call is named by the method's stem alone. All else hangs off a stem by "__": <method>__done, __start, __reply;
 *   <service>__handlers, __register, __service; and inside the .c <method>__deliver, __invoke, <service>__methods. Stems never
 *   hold "__", so nothing of this kind meets anything else, protobuf-c's <message>__init, __pack, __descriptor … included: their
 *   last parts differ.
 *
 *   A name that is taken gets "_rpc", and while that is taken too "_rpc2", "_rpc3", …
 *     - a service's stem is taken when another service has it;
 *     - a method's stem is taken when another method has it, or sl_names_is_function_taken says so (keyword, libc, sealane_, …);
 *     - a member is taken when another method of the service has it, or it is a word that C or C++ keeps.
 *   "Another" means one declared before: in an imported file, at any depth, or further up in the same file. What else is
 *   generated in the same run never changes a name; two files that do not import each other and claim the same stem are an error.
 *
 * Messages and enums keep protobuf-c's names. Two that become the same name of C are an error that names both (clash.h).
 */
#ifndef SL_MODEL_H
#define SL_MODEL_H

#include "codegen/report.h"
#include "codegen/request.h"
#include "codegen/table.h"

struct sl_model_file;

/* A message or enum. */
struct sl_model_type {
    const struct sl_model_file *file;
    const char *name; /* "pkg.Outer.Inner" */
    const char *c_type;
    const char *c_lower;
    const char *c_upper;
    bool is_enum;
};

struct sl_model_method {
    const char *name; /* as in the .proto */
    const char *stem;
    const char *member;
    const char *comment; /* clean text, "" when there is none */
    bool deprecated;
    const struct sl_model_type *request;
    const struct sl_model_type *reply;
};

struct sl_model_service {
    const char *name;      /* as in the .proto */
    const char *full_name; /* "pkg.Service" */
    const char *stem;
    const char *comment;
    bool deprecated;
    struct sl_model_method *methods;
    size_t method_count;
};

struct sl_model_file {
    sl_file *proto;
    const char *stem;      /* "dir/x" of dir/x.proto */
    const char *c_package; /* the package that protobuf-c's names begin with */
    struct sl_file_options options;
    bool generated; /* asked for in this run */
    struct sl_model_file **imports;
    size_t import_count;
    struct sl_model_service *services;
    size_t service_count;
};

struct sl_model {
    struct sl_arena *arena;
    struct sl_model_file *files; /* in the order of the request: what is imported stands before */
    size_t file_count;
    struct sl_table types; /* ".pkg.Outer.Inner" -> struct sl_model_type */
};

/* Builds the model; what is wrong goes to the report, and then the model is only good for being dropped. The request is borrowed
 * and not changed. */
void sl_model_build(struct sl_model *model, struct sl_arena *arena, sl_request *request,
                    struct sl_report *report);

/* What an import of `file` brings: itself and its public imports, at any depth. One bool per file. */
bool *sl_model_public(const struct sl_model *model, const struct sl_model_file *file);

#endif
