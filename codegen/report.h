/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - where things stand in a .proto file, and the errors that say so. */
#ifndef SL_REPORT_H
#define SL_REPORT_H

#include "codegen/arena.h"
#include "codegen/descriptors.h"

/* A declaration, as the way to it from the file: {field of descriptor.proto, index} under `parent`. */
struct sl_place {
    const sl_file *file;
    const struct sl_place *parent; /* NULL: stands in the file itself */
    int32_t field;
    size_t index;
};

/* NULL when protoc sent no source information for it. */
const sl_location *sl_place_find(const struct sl_place *place);

/* "x.proto:12:3", or "x.proto" when the line is not known; the arena's. */
const char *sl_place_text(struct sl_arena *arena, const struct sl_place *place);

/* The errors of a run, one line each. The first 20 are kept. */
struct sl_report {
    struct sl_text text;
    size_t count;
};

/* Adds "x.proto:12:3: …". */
__attribute__((format(printf, 3, 4))) void sl_report_at(struct sl_report *report,
                                                        const struct sl_place *place,
                                                        const char *format, ...);

/* Adds "x.proto: …". */
__attribute__((format(printf, 3, 4))) void sl_report_file(struct sl_report *report,
                                                          const char *name, const char *format,
                                                          ...);

#endif
