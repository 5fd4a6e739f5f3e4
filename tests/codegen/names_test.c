/* SPDX-License-Identifier: Apache-2.0 */
/* names_test.c - the naming rules of names.h and the order of the lists behind them. */
#include "codegen/names.h"
#include "codegen/reserved.h"
#include "codegen/table.h"

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

TestSuite(names, .init = begin, .fini = end);

Test(names, follow_protobuf_c_for_types)
{
    cr_assert(eq(str, sl_names_type(&arena, "acme.RPC_api.v1Beta2.foo_Bar"),
                 "Acme__RPCApi__V1Beta2__FooBar"));
    cr_assert(eq(str, sl_names_type(&arena, ".Outer.Inner"), "Outer__Inner"));
    cr_assert(eq(str, sl_names_type(&arena, "_"), ""));
    cr_assert(eq(str, sl_names_type(&arena, "a._1"), "A__1"));
}

Test(names, follow_protobuf_c_for_functions_and_macros)
{
    cr_assert(eq(str, sl_names_lower(&arena, "a.foo_Bar"), "a__foo__bar"));
    cr_assert(eq(str, sl_names_lower(&arena, "HTTPServer"), "httpserver"));
    cr_assert(eq(str, sl_names_lower(&arena, "X2Y"), "x2_y"));
    cr_assert(eq(str, sl_names_lower(&arena, "ABCd"), "abcd"));
    cr_assert(eq(str, sl_names_lower(&arena, "RPC_api.v1Beta2"), "rpc_api__v1_beta2"));
    cr_assert(eq(str, sl_names_upper(&arena, "acme.ColorKind"), "ACME__COLOR_KIND"));
}

Test(names, follow_protobuf_c_for_fields)
{
    cr_assert(eq(str, sl_names_field(&arena, "CamelField"), "camelfield"));
    cr_assert(eq(str, sl_names_field(&arena, "Register"), "register_"));
    cr_assert(eq(str, sl_names_field(&arena, "restrict"), "restrict"));
}

Test(names, of_services_are_snake_case_with_single_underscores)
{
    cr_assert(eq(str, sl_names_snake(&arena, "echo.v1.Echo"), "echo_v1_echo"));
    cr_assert(eq(str, sl_names_snake(&arena, "SayHello"), "say_hello"));
    cr_assert(eq(str, sl_names_snake(&arena, "foo_Bar"), "foo_bar"));
    cr_assert(eq(str, sl_names_snake(&arena, "_Svc__x_"), "svc_x"));
    cr_assert(eq(str, sl_names_snake(&arena, "a.__._1"), "a_x_x1"));
    cr_assert(eq(str, sl_names_snake(&arena, ""), ""));
}

Test(names, of_files_lose_their_ending_only)
{
    cr_assert(eq(str, sl_names_file_stem(&arena, "a-b/x.y.proto"), "a-b/x.y"));
    cr_assert(eq(str, sl_names_file_stem(&arena, "x.protodevel"), "x"));
    cr_assert(eq(str, sl_names_file_stem(&arena, "x.txt"), "x.txt"));
    cr_assert(eq(str, sl_names_file_macro(&arena, "a-b/x.proto"), "a_2db_2fx_2eproto"));
}

Test(names, of_packages_are_identifiers_joined_by_dots)
{
    cr_assert(sl_names_is_dotted("a.b_2.C"));
    cr_assert(not(sl_names_is_dotted("")));
    cr_assert(not(sl_names_is_dotted("a..b")));
    cr_assert(not(sl_names_is_dotted("a.")));
    cr_assert(not(sl_names_is_dotted("a.2b")));
    cr_assert(not(sl_names_is_dotted("a b")));
}

Test(names, that_are_taken_are_known)
{
    cr_assert(sl_names_is_word("restrict"));
    cr_assert(sl_names_is_word("co_await"));
    cr_assert(sl_names_is_word("errno"));
    cr_assert(sl_names_is_word("delete"));
    cr_assert(not(sl_names_is_word("say")));
    cr_assert(sl_names_is_function_taken("pthread_create"));
    cr_assert(sl_names_is_function_taken("atomic_init"));
    cr_assert(sl_names_is_function_taken("size_t"));
    cr_assert(sl_names_is_function_taken("sealane_call_free"));
    cr_assert(not(sl_names_is_function_taken("echo_v1_echo_say")));
    cr_assert(sl_names_is_type_taken("NULL"));
    cr_assert(sl_names_is_type_taken("ProtobufCMessage"));
    cr_assert(not(sl_names_is_type_taken("Null")));
}

static void is_sorted(const struct sl_reserved *list)
{
    for (size_t i = 1; i < list->count; i++)
        cr_assert(strcmp(list->names[i - 1], list->names[i]) < 0, "%s before %s",
                  list->names[i - 1], list->names[i]);
}

Test(names, lists_are_sorted_for_bsearch)
{
    is_sorted(&sl_reserved_protobuf_c);
    is_sorted(&sl_reserved_words);
    is_sorted(&sl_reserved_macros);
    is_sorted(&sl_reserved_functions);
    is_sorted(&sl_reserved_types);
}

Test(names, table_keeps_the_first_owner)
{
    struct sl_table table = {.arena = &arena};
    int first = 0;
    int second = 0;
    cr_assert(eq(ptr, (void *)sl_table_get(&table, "x"), NULL));
    cr_assert(eq(ptr, (void *)sl_table_add(&table, "x", &first), NULL));
    cr_assert(eq(ptr, (void *)sl_table_add(&table, "x", &second), &first));
    for (int i = 0; i < 1000; i++)
        sl_table_add(&table, sl_arena_print(&arena, "key %d", i), &second);
    cr_assert(eq(sz, table.count, 1001));
    cr_assert(eq(ptr, (void *)sl_table_get(&table, "x"), &first));
    cr_assert(eq(ptr, (void *)sl_table_get(&table, "key 999"), &second));
}
