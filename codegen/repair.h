/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h - puts right what protoc-gen-c prints wrongly and no descriptor can express.
 *
 * protobuf-c prints default values of floats with 6 digits and infinities as "inf". So rewrite.h puts a mark, a number that
 * survives the printing, in the descriptor's place, and sl_repair replaces it by exact C in the text that comes back.
 */
#ifndef SL_REPAIR_H
#define SL_REPAIR_H

#include "codegen/table.h"

/* Zero it and set the arena, of braced too. */
struct sl_repairs {
    struct sl_arena *arena;
    const char **literals; /* by the number in the mark */
    size_t literal_count;
    size_t literal_capacity;
    struct sl_table
        braced; /* "X__NOT_SET" of oneofs whose first member is a struct: {0} there needs more braces */
};

/* A mark for a C expression; NULL when all 10,000 are used. */
char *sl_repair_mark(struct sl_repairs *repairs, const char *literal);

/* The content of a generated file, put right: exact defaults, braces, trigraphs inside strings. */
char *sl_repair(const struct sl_repairs *repairs, const char *content);

#endif
