/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h - writes x.sealane.h and x.sealane.c of one file. */
#ifndef SL_EMIT_H
#define SL_EMIT_H

#include "codegen/model.h"

/* Both append to `text`. The file's services must be complete (no error was reported). */
void sl_emit_header(struct sl_text *text, const struct sl_model_file *file);
void sl_emit_source(struct sl_text *text, const struct sl_model_file *file);

#endif
