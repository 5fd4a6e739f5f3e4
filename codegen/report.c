/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "codegen/report.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define REPORT_MAX 20

/* True when the first `length` elements of the location's path lead to the place. */
static bool leads_to(const sl_location *location, size_t length, const struct sl_place *place)
{
    for (; place && length >= 2; place = place->parent, length -= 2) {
        if (location->path[length - 2] != place->field ||
            location->path[length - 1] != (int32_t)place->index)
            return false;
    }
    return !place && length == 0;
}

const sl_location *sl_place_find(const struct sl_place *place)
{
    const Google__Protobuf__SourceCodeInfo *info = place->file->source_code_info;
    for (size_t i = 0; info && i < info->n_location; i++) {
        if (leads_to(info->location[i], info->location[i]->n_path, place))
            return info->location[i];
    }
    return NULL;
}

const char *sl_place_text(struct sl_arena *arena, const struct sl_place *place)
{
    const sl_location *location = sl_place_find(place);
    if (!location || location->n_span < 3)
        return place->file->name;
    return sl_arena_print(arena, "%s:%ld:%ld", place->file->name, location->span[0] + 1L,
                          location->span[1] + 1L);
}

__attribute__((format(printf, 3, 0))) static void add(struct sl_report *report, const char *where,
                                                      const char *format, va_list list)
{
    if (report->count++ >= REPORT_MAX)
        return;
    char line[2048]; /* names of any length come in; the message stays readable */
    vsnprintf(line, sizeof line, format, list);
    sl_text_print(&report->text, "%s%s: %s", report->count > 1 ? "\n" : "", where, line);
}

void sl_report_at(struct sl_report *report, const struct sl_place *place, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add(report, sl_place_text(report->text.arena, place), format, list);
    va_end(list);
}

void sl_report_file(struct sl_report *report, const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add(report, name, format, list);
    va_end(list);
}
