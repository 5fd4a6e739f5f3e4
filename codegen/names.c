/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h; the lists of taken words are in reserved.c. */
#include "codegen/names.h"
#include "codegen/reserved.h"

#include <stdlib.h>
#include <string.h>

/* The locale never matters: names are ASCII. */
static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char to_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char to_lower(char c)
{
    return is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static size_t identifier_length(const char *text)
{
    size_t n = 0;
    while (text[n] == '_' || is_upper(to_upper(text[n])) || (n > 0 && is_digit(text[n])))
        n++;
    return n;
}

bool sl_names_is_dotted(const char *text)
{
    for (;; text++) {
        size_t n = identifier_length(text);
        text += n;
        if (n == 0 || *text != '.')
            return n > 0 && *text == '\0';
    }
}

static void add_char(struct sl_text *text, char c)
{
    sl_text_add_bytes(text, &c, 1);
}

static void add_camel(struct sl_text *text, const char *piece, size_t length)
{
    bool next_is_upper = true;
    for (size_t i = 0; i < length; i++) {
        if (piece[i] != '_')
            add_char(text, next_is_upper ? to_upper(piece[i]) : piece[i]);
        next_is_upper = piece[i] == '_';
    }
}

/* A capital gets "_" in front unless it is first or follows a capital. */
static void add_snake(struct sl_text *text, const char *piece, size_t length)
{
    bool was_upper = true;
    for (size_t i = 0; i < length; i++) {
        if (is_upper(piece[i]) && !was_upper)
            add_char(text, '_');
        add_char(text, to_lower(piece[i]));
        was_upper = is_upper(piece[i]);
    }
}

typedef void add_piece(struct sl_text *text, const char *piece, size_t length);

static char *join(struct sl_arena *arena, const char *name, const char *between, add_piece *add)
{
    struct sl_text text = {.arena = arena};
    while (*name) {
        size_t length = strcspn(name, ".");
        if (length && text.length)
            sl_text_add(&text, between);
        if (length)
            add(&text, name, length);
        name += length + (name[length] == '.');
    }
    return sl_text_string(&text);
}

char *sl_names_type(struct sl_arena *arena, const char *full_name)
{
    return join(arena, full_name, "__", add_camel);
}

char *sl_names_lower(struct sl_arena *arena, const char *full_name)
{
    return join(arena, full_name, "__", add_snake);
}

char *sl_names_upper(struct sl_arena *arena, const char *full_name)
{
    char *name = join(arena, full_name, "__", add_snake);
    for (char *c = name; *c; c++)
        *c = to_upper(*c);
    return name;
}

char *sl_names_field(struct sl_arena *arena, const char *name)
{
    struct sl_text text = {.arena = arena};
    for (; *name; name++)
        add_char(&text, to_lower(*name));
    if (sl_names_is_protobuf_c_word(sl_text_string(&text)))
        add_char(&text, '_');
    return sl_text_string(&text);
}

static void add_single_snake(struct sl_text *text, const char *piece, size_t length)
{
    struct sl_text snake = {.arena = text->arena};
    add_snake(&snake, piece, length);
    const char *at = sl_text_string(&snake);
    at += strspn(at, "_");
    if (!*at || is_digit(*at))
        add_char(text, 'x');
    while (*at) {
        size_t word = strcspn(at, "_");
        sl_text_add_bytes(text, at, word);
        at += word;
        at += strspn(at, "_");
        if (*at)
            add_char(text, '_');
    }
}

char *sl_names_snake(struct sl_arena *arena, const char *name)
{
    return join(arena, name, "_", add_single_snake);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

char *sl_names_file_stem(struct sl_arena *arena, const char *file_name)
{
    size_t length = strlen(file_name);
    if (ends_with(file_name, ".protodevel"))
        length -= strlen(".protodevel");
    else if (ends_with(file_name, ".proto"))
        length -= strlen(".proto");
    struct sl_text text = {.arena = arena};
    sl_text_add_bytes(&text, file_name, length);
    return sl_text_string(&text);
}

char *sl_names_file_macro(struct sl_arena *arena, const char *file_name)
{
    struct sl_text text = {.arena = arena};
    for (; *file_name; file_name++) {
        if (is_digit(*file_name) || is_upper(to_upper(*file_name)))
            add_char(&text, *file_name);
        else
            sl_text_print(&text, "_%x", (unsigned)(unsigned char)*file_name);
    }
    return sl_text_string(&text);
}

static int compare(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

static bool is_in(const struct sl_reserved *list, const char *name)
{
    return bsearch(name, list->names, list->count, sizeof *list->names, compare) != NULL;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

bool sl_names_is_protobuf_c_word(const char *name)
{
    return is_in(&sl_reserved_protobuf_c, name);
}

bool sl_names_is_word(const char *name)
{
    return is_in(&sl_reserved_protobuf_c, name) || is_in(&sl_reserved_words, name) ||
           is_in(&sl_reserved_macros, name);
}

bool sl_names_is_function_taken(const char *name)
{
    return sl_names_is_word(name) || is_in(&sl_reserved_functions, name) || ends_with(name, "_t") ||
           starts_with(name, "sealane_") || starts_with(name, "sl_") ||
           starts_with(name, "protobuf_c_");
}

bool sl_names_is_type_taken(const char *name)
{
    return is_in(&sl_reserved_types, name) || starts_with(name, "ProtobufC") ||
           starts_with(name, "PROTOBUF_C");
}
