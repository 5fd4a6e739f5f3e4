/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - another program as a function from bytes to bytes. */
#ifndef SL_CHILD_H
#define SL_CHILD_H

#include "codegen/arena.h"

/* The first executable `name` in a directory of PATH, or NULL. */
const char *sl_child_find(struct sl_arena *arena, const char *name);

/* The executable `name` in the directory where `program` really stands (links followed), or NULL. */
const char *sl_child_beside(struct sl_arena *arena, const char *program, const char *name);

struct sl_child_input {
    const uint8_t *data;
    size_t bytes;
};

/* Runs the program, feeds it the input and collects its standard output, both at once, so that neither side waits for the other.
 * NULL when it ended with 0; else what happened, in words that follow the program's name. Its stderr is ours. */
const char *sl_child_run(const char *program, struct sl_child_input input, struct sl_text *output);

#endif
