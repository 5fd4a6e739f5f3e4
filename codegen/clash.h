/* SPDX-License-Identifier: Apache-2.0 */
/* clash.h - finds messages, enums and oneofs that protobuf-c would give one name in C, before the compiler or linker does.
 *
 * Looks at every name of file scope that protobuf-c makes of the files of the request: types, INIT macros, functions and
 * descriptors (all of one entity share a prefix, so one stands for them), enum and oneof constants. Each clash is an error that
 * names both declarations. So is a type whose name cannot stand in C at all (message "_", message "NULL" without a package).
 */
#ifndef SL_CLASH_H
#define SL_CLASH_H

#include "codegen/model.h"

void sl_clash_find(const struct sl_model *model, struct sl_report *report);

#endif
