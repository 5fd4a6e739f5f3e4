/* SPDX-License-Identifier: Apache-2.0 */
/* repair.c - see repair.h.
 *
 * A mark is a number that survives protobuf-c's printing with 6 digits, 1.<4 digits>7e-31, or for the least int64 the number
 * itself; it is taken for one only where a default value stands, between "= " or ", " and an end of expression.
 */
#include "codegen/repair.h"

#include <stdbool.h>
#include <string.h>

#define MARK_LENGTH (sizeof "1.00007e-31" - 1)
#define MARK_MAX    10000
static const char least_int64[] = "-9223372036854775808ll";

char *sl_repair_mark(struct sl_repairs *repairs, const char *literal)
{
    if (repairs->literal_count == MARK_MAX)
        return NULL;
    if (repairs->literal_count == repairs->literal_capacity) {
        size_t capacity = repairs->literal_capacity ? repairs->literal_capacity * 2 : 16;
        const char **more = sl_arena_array(repairs->arena, capacity, sizeof *more);
        for (size_t i = 0; i < repairs->literal_count; i++)
            more[i] = repairs->literals[i];
        repairs->literals = more;
        repairs->literal_capacity = capacity;
    }
    repairs->literals[repairs->literal_count] = literal;
    return sl_arena_print(repairs->arena, "1.%04zu7e-31", repairs->literal_count++);
}

static bool ends_with(const struct sl_text *text, const char *end)
{
    size_t length = strlen(end);
    return text->length >= length && memcmp(text->data + text->length - length, end, length) == 0;
}

static bool is_default(const struct sl_text *before, const char *after)
{
    return (ends_with(before, "= ") || ends_with(before, ", ")) && strchr(",; ", *after) && *after;
}

/* Each repair answers how many bytes of the input it took the place of; 0: none of its business. */
static size_t repair_mark(const struct sl_repairs *repairs, const char *at, struct sl_text *out)
{
    size_t index = 0;
    if (strncmp(at, "1.", 2) != 0)
        return 0;
    for (size_t i = 2; i < 6; i++) {
        if (at[i] < '0' || at[i] > '9')
            return 0;
        index = index * 10 + (size_t)(at[i] - '0');
    }
    if (strncmp(at + 6, "7e-31", 5) != 0 || index >= repairs->literal_count ||
        !is_default(out, at + MARK_LENGTH))
        return 0;
    sl_text_add(out, repairs->literals[index]);
    return MARK_LENGTH;
}

static size_t repair_least(const char *at, struct sl_text *out)
{
    size_t length = sizeof least_int64 - 1;
    if (strncmp(at, least_int64, length) != 0 || !is_default(out, at + length))
        return 0;
    sl_text_add(out, "(-9223372036854775807ll - 1)");
    return length;
}

/* Copies a string literal. protobuf-c leaves "??" in it, which C11 may read as a trigraph. */
static size_t copy_string(const char *at, struct sl_text *out)
{
    size_t i = 0;
    if (at[0] != '"')
        return 0;
    do {
        sl_text_add_bytes(out, &at[i], 1);
        if (at[i] == '\\' && at[i + 1])
            sl_text_add_bytes(out, &at[++i], 1);
        else if (at[i] == '?' && at[i + 1] == '?')
            sl_text_add(out, "\"\"");
        i++;
    } while (at[i] && at[i] != '"');
    return i;
}

static size_t copy_comment(const char *at, struct sl_text *out)
{
    const char *end = at[0] == '/' && at[1] == '*' ? strstr(at + 2, "*/") : NULL;
    if (!end)
        return 0;
    sl_text_add_bytes(out, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/* "… , X__NOT_SET, {0}" in an INIT macro. */
static size_t repair_braces(const struct sl_repairs *repairs, const char *at, struct sl_text *out)
{
    static const char tail[] = "__NOT_SET, ";
    if (strncmp(at, "{0}", 3) != 0 || !ends_with(out, tail))
        return 0;
    size_t end = out->length - 2;
    size_t start = end;
    while (start > 0 && out->data[start - 1] != ' ')
        start--;
    const char *name =
        sl_arena_print(repairs->arena, "%.*s", (int)(end - start), out->data + start);
    if (!sl_table_get(&repairs->braced, name))
        return 0;
    sl_text_add(out, "{{0, NULL}}");
    return 3;
}

static size_t repair(const struct sl_repairs *repairs, const char *at, struct sl_text *out)
{
    size_t taken = repair_mark(repairs, at, out);
    if (!taken)
        taken = repair_least(at, out);
    if (!taken)
        taken = repair_braces(repairs, at, out);
    if (!taken)
        taken = copy_string(at, out);
    return taken ? taken : copy_comment(at, out);
}

char *sl_repair(const struct sl_repairs *repairs, const char *content)
{
    struct sl_text out = {.arena = repairs->arena};
    sl_text_room(&out, strlen(content));
    while (*content) {
        size_t taken = repair(repairs, content, &out);
        content += taken;
        /* At the end of a string or comment, or at what is nobody's business: copy to where the next may begin. */
        size_t plain = *content ? 1 + strcspn(content + 1, "1-{\"/") : 0;
        sl_text_add_bytes(&out, content, plain);
        content += plain;
    }
    return sl_text_string(&out);
}
