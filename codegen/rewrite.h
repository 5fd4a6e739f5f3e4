/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.h - changes descriptors so that protoc-gen-c makes C that compiles, without changing a byte on the wire.
 *
 *   proto3 optional   cleared in every file: the field stays in its one-member oneof, which protobuf-c knows
 *   services          dropped: Sealane makes its own, and protobuf-c's cannot hold methods like Register
 *   extensions, and imports that then serve nothing: dropped, so that no header of descriptor.proto is dragged in
 *   comments          cleaned (comment.h)
 *   field names       "_" is added, again and again, while the member is a word that C or C++ keeps, or equals another member of the
 *                     struct: its header "base", another field in small letters, has_x, n_x, x_case. The one declared later changes.
 *                     JSON and default JSON names stay; the name in protobuf-c's descriptor becomes the new one.
 *   default values    that protobuf-c prints inexactly or not as C (floats, infinities, the least int64): a mark stands in and
 *                     sl_repair puts the exact C in its place
 *
 * What cannot be rewritten is an error: groups, and option use_oneof_field_name, on which protoc-gen-c dies.
 */
#ifndef SL_REWRITE_H
#define SL_REWRITE_H

#include "codegen/model.h"
#include "codegen/repair.h"

/* Rewrites the request that the model was built of, for protoc-gen-c. After this the model must not be emitted any more. */
void sl_rewrite(const struct sl_model *model, struct sl_repairs *repairs, struct sl_report *report);

#endif
