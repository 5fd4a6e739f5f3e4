/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - what protoc sent, parsed and checked, so that nothing behind it needs to doubt a pointer or an index.
 *
 * After sl_request_parse: each file, message, field, oneof, enum, enum value, service and method has a name that is an
 * identifier; packages and type names are identifiers with dots (types with a leading one); each dependency names an earlier
 * file; each oneof index exists; each file to generate is among the files. Nesting is at most 100 deep, as in protobuf C++:
 * protobuf-c itself would recurse without end.
 */
#ifndef SL_REQUEST_H
#define SL_REQUEST_H

#include "codegen/descriptors.h"
#include "codegen/table.h"

#include <stdbool.h>

/* NULL when the bytes are no such request; then *why_p says so in one line. All of it is the arena's. */
sl_request *sl_request_parse(struct sl_arena *arena, const uint8_t *data, size_t bytes,
                             const char **why_p);

/* What protobuf-c's own options (protobuf-c/protobuf-c.proto) ask of a file. */
struct sl_file_options {
    bool no_generate;
    bool use_oneof_field_name;
    const char *c_package; /* NULL: not set */
};
struct sl_file_options sl_request_file_options(struct sl_arena *arena, const sl_file *file);

/* The name of the header member of a message's struct: "base" unless protobuf-c's option says otherwise. */
const char *sl_request_base_name(struct sl_arena *arena, const sl_message *message);

/* True when protobuf-c's option makes a string field a ProtobufCBinaryData. */
bool sl_request_string_as_bytes(const sl_field *field);

#endif
