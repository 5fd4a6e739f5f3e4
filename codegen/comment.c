/* SPDX-License-Identifier: Apache-2.0 */
/* comment.c - see comment.h. */
#include "codegen/comment.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 character at `text` and its code point; 0 when there is none (overlong, surrogate, cut, stray). */
static size_t decode(const char *text, uint32_t *code_p)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80    ? 1
                    : first >= 0xf0 ? 4
                    : first >= 0xe0 ? 3
                    : first >= 0xc0 ? 2
                                    : 0;
    uint32_t code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (next & 0x3f);
    }
    if (length == 0 || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *code_p = code;
    return length;
}

static bool is_hidden(uint32_t code)
{
    return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0) ||
           code == 0x061c || code == 0xfeff || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f);
}

/* Would `next` after what stands there make a mark that C reads: the ends of a comment, or a trigraph? */
static bool makes_mark(const struct sl_text *text, char next)
{
    char last = text->length ? text->data[text->length - 1] : '\n';
    if ((last == '*' && next == '/') || (last == '/' && next == '*'))
        return true;
    return last == '?' && next == '?';
}

char *sl_comment_clean(struct sl_arena *arena, const char *comment, size_t limit)
{
    struct sl_text text = {.arena = arena};
    while (comment && *comment) {
        uint32_t code = 0;
        size_t length = decode(comment, &code);
        if (text.length + length + 1 > limit) {
            sl_text_add(&text, " …");
            break;
        }
        if (length && !is_hidden(code)) {
            if (makes_mark(&text, *comment))
                sl_text_add(&text, " ");
            sl_text_add_bytes(&text, comment, length);
        }
        comment += length ? length : 1;
    }
    return sl_text_string(&text);
}
