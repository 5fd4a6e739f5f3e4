/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - how names of a .proto become names of C: pure functions over strings.
 *
 * protobuf-c's own rules, which decide how messages are called (model.h says how services are):
 *   type    pieces between dots in CamelCase, joined by "__":    acme.v1Beta2.foo_Bar -> Acme__V1Beta2__FooBar
 *   lower   each piece in snake_case, joined by "__":            acme.v1Beta2.HTTPServer -> acme__v1_beta2__httpserver
 *   upper   the same in capitals, for macros and enum constants: acme__v1_beta2__httpserver -> ACME__V1_BETA2__HTTPSERVER
 *   field   the whole name in small letters, "_" added to the C++98 keywords that it knows.
 */
#ifndef SL_NAMES_H
#define SL_NAMES_H

#include "codegen/arena.h"

#include <stdbool.h>

/* True for identifiers joined by single dots. */
bool sl_names_is_dotted(const char *text);

/* protobuf-c's names; a leading dot of `full_name` is ignored. All results are the arena's. */
char *sl_names_type(struct sl_arena *arena, const char *full_name);
char *sl_names_lower(struct sl_arena *arena, const char *full_name);
char *sl_names_upper(struct sl_arena *arena, const char *full_name);
char *sl_names_field(struct sl_arena *arena, const char *name);

/* Sealane's snake_case of a dotted name, joined by "_": protobuf-c's lower per piece, underscores single and none at the ends;
 * a piece that would be empty or begin with a digit gets an "x" in front. Empty for an empty name. */
char *sl_names_snake(struct sl_arena *arena, const char *name);

/* The file's name without .proto, as protobuf-c cuts it. */
char *sl_names_file_stem(struct sl_arena *arena, const char *file_name);

/* The file's name as part of a macro: what is no letter or digit becomes "_" and its hex code. */
char *sl_names_file_macro(struct sl_arena *arena, const char *file_name);

/* A keyword of C11, C23 or C++ up to 20, or a macro of small letters in a header of C or POSIX: no member may be called so. */
bool sl_names_is_word(const char *name);
/* The keywords among them that protobuf-c's own field rule takes care of. */
bool sl_names_is_protobuf_c_word(const char *name);

/* True when a function may not be called so: a word (see above), a function of libc or POSIX, a name that ends in _t (POSIX
 * keeps those), or one that begins with sealane_, sl_ or protobuf_c_. */
bool sl_names_is_function_taken(const char *name);

/* True when a type may not be called so: a name of protobuf-c's, or a macro or type that its headers or stdio bring. */
bool sl_names_is_type_taken(const char *name);

#endif
