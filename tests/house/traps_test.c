/* SPDX-License-Identifier: Apache-2.0 */
/* traps_test.c - faults on purpose: what Criterion alone would let pass must fail under sealane_test.
 *
 * Which trap is sprung is named by SEALANE_TRAP; with none every test passes. tests/house/CMakeLists.txt runs
 * this program once per trap and expects ctest to judge it FAILED.
 */
#include <criterion/criterion.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool sprung(const char *trap)
{
    const char *chosen = getenv("SEALANE_TRAP");

    return chosen && strcmp(chosen, trap) == 0;
}

/* The compiler must not see through what the traps do. */
static volatile size_t one = 1;

Test(traps, a_leak)
{
    char *volatile block = malloc(77);

    cr_assert_not_null(block);
    if (!sprung("leak"))
        free(block);
    block = NULL;
}

Test(traps, an_undefined_behaviour)
{
    volatile int number = sprung("undefined") ? INT_MAX : 0;

    number = number + (int)one;
    cr_assert_neq(number, 0);
}

Test(traps, a_heap_overflow)
{
    char *volatile block =
        malloc(64); /* volatile: else UBSan sees the size and speaks before ASan */
    size_t bytes = sprung("overflow") ? 64 + one : 64;

    cr_assert_not_null(block);
    for (size_t i = 0; i < bytes; i++)
        ((volatile char *)block)[i] = 1;
    free(block);
}

Test(traps, a_failed_assertion)
{
    cr_assert_not(sprung("assertion"), "sprung on purpose");
}

Test(traps, an_endless_wait, .timeout = 2)
{
    while (sprung("endless"))
        continue;
}
