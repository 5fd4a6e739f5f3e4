/* SPDX-License-Identifier: Apache-2.0 */
/* text_test.c - what happens to text on its way: comments made safe, protoc-gen-c's output put right, wire fields read. */
#include "codegen/comment.h"
#include "codegen/repair.h"
#include "codegen/wire.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct sl_arena arena;

static void begin(void)
{
    sl_arena_init(&arena);
}

static void end(void)
{
    sl_arena_free(&arena);
}

TestSuite(text, .init = begin, .fini = end);

static char *clean(const char *comment)
{
    return sl_comment_clean(&arena, comment, 100);
}

Test(text, comment_keeps_lines_and_foreign_letters)
{
    cr_assert(eq(str, clean(NULL), ""));
    cr_assert(eq(str, clean(" one\n two\t日本 🚀\n"), " one\n two\t日本 🚀\n"));
}

Test(text, comment_cannot_end_or_begin_a_comment)
{
    cr_assert(eq(str, clean("*/ /* **// /**/"), "* / / * ** // / ** /"));
    cr_assert(eq(str, clean("*\xe2\x80\xae/"), "* /"));
}

Test(text, comment_has_no_trigraph)
{
    cr_assert(eq(str, clean("?\?/"), "? ?/"));
}

Test(text, comment_loses_what_reorders_or_hides_text)
{
    cr_assert(eq(str,
                 clean("a\u202eb\u2066c\u200bd\ufeffe\u2028f\xc2\x85"
                       "g\x01h\x7fi\rj"),
                 "abcdefghij"));
}

Test(text, comment_loses_bytes_that_are_no_utf8)
{
    cr_assert(eq(str,
                 clean("a\xff"
                       "b\xc0\xaf"
                       "c\xed\xa0\x80"
                       "d\xf4\x90\x80\x80"
                       "e\xe2\x82"),
                 "abcde"));
}

Test(text, comment_is_cut_between_characters)
{
    cr_assert(eq(str, sl_comment_clean(&arena, "ab日本", 6), "ab日 …"));
    cr_assert(eq(str, sl_comment_clean(&arena, "ab日本", 5), "ab …"));
}

static struct sl_repairs repairs(void)
{
    return (struct sl_repairs){.arena = &arena, .braced = {.arena = &arena}};
}

Test(text, repair_puts_literals_in_the_place_of_marks)
{
    struct sl_repairs r = repairs();
    cr_assert(eq(str, sl_repair_mark(&r, "-0.0f"), "1.00007e-31"));
    for (int i = 1; i < 100; i++)
        sl_repair_mark(&r, "0.5");
    cr_assert(eq(str, sl_repair_mark(&r, "inf()"), "1.01007e-31"));
    cr_assert(eq(str, sl_repair(&r, "x = 1.00007e-31;\n , 0, 1.01007e-31, 1.00077e-31 }"),
                 "x = -0.0f;\n , 0, inf(), 0.5 }"));
}

Test(text, repair_leaves_what_only_looks_like_a_mark)
{
    struct sl_repairs r = repairs();
    sl_repair_mark(&r, "gone");
    const char *same =
        "x = 1.00017e-31; y = 11.00007e-31; z = 1.00007e-310; /* , 1.00007e-31, \" */ a[] = \", 1.00007e-31, \\\" /* \";";
    cr_assert(eq(str, sl_repair(&r, same), (char *)same));
}

Test(text, repair_knows_the_least_int64)
{
    struct sl_repairs r = repairs();
    cr_assert(eq(str, sl_repair(&r, "x = -9223372036854775808ll; y = -9223372036854775807ll;"),
                 "x = (-9223372036854775807ll - 1); y = -9223372036854775807ll;"));
}

Test(text, repair_takes_trigraphs_apart_inside_strings)
{
    struct sl_repairs r = repairs();
    cr_assert(eq(str, sl_repair(&r, "x[] = \"a?\?/b?\?\?\" \"\\\"?\?\";"),
                 "x[] = \"a?\"\"?/b?\"\"?\"\"?\" \"\\\"?\"\"?\";"));
}

Test(text, repair_braces_only_the_oneofs_that_were_noted)
{
    struct sl_repairs r = repairs();
    sl_table_add(&r.braced, "M__A__NOT_SET", &r);
    cr_assert(eq(str, sl_repair(&r, " , M__A__NOT_SET, {0}, M__B__NOT_SET, {0}, {0} }"),
                 " , M__A__NOT_SET, {{0, NULL}}, M__B__NOT_SET, {0}, {0} }"));
}

static int read_all(const char *bytes, size_t count)
{
    struct sl_wire wire = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
    struct sl_wire_field field;
    int got;
    int fields = 0;
    while ((got = sl_wire_next(&wire, &field)) > 0)
        fields++;
    return got < 0 ? -1 : fields;
}

Test(text, wire_reads_each_type)
{
    cr_assert(eq(int, read_all("\x08\x01\x11xxxxxxxx\x1a\x02hi\x25xxxx", 20), 4));
    cr_assert(eq(int, read_all("", 0), 0));
}

Test(text, wire_refuses_what_is_cut_or_unknown)
{
    cr_assert(eq(int, read_all("\x08", 1), -1));
    cr_assert(eq(int, read_all("\x1a\x03hi", 4), -1));
    cr_assert(eq(int, read_all("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11), -1));
    cr_assert(eq(int, read_all("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12), -1));
    cr_assert(eq(int, read_all("\x0b\x0c", 2), -1));
    cr_assert(eq(int, read_all("\x00\x00", 2), -1));
}
