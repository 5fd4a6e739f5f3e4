/* SPDX-License-Identifier: Apache-2.0 */
/* comment.h - comments of a .proto made safe for a comment of C.
 *
 * What goes: bytes that are no UTF-8, control characters, the characters that reorder text (a reader must see what the compiler
 * sees: CVE-2021-42574), line and paragraph separators. Comment marks and trigraphs are broken up by a space.
 */
#ifndef SL_COMMENT_H
#define SL_COMMENT_H

#include "codegen/arena.h"

/* NULL becomes "". Lines keep their "\n"; at most `limit` bytes, then " …" at a character's end. The arena's. */
char *sl_comment_clean(struct sl_arena *arena, const char *comment, size_t limit);

#endif
