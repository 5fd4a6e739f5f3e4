/* SPDX-License-Identifier: Apache-2.0 */
/* seams_test.c - the two seams have no holes, and the product cannot run unsealed. */
#include "tests/support/link_fake.h"
#include "transport/link.h"
#include "transport/memory.h"
#include "transport/seal.h"

#include <criterion/criterion.h>

#include <stdint.h>
#include <string.h>

/* A vtable is pointers and nothing else; a new field that is not one must be told here. */
_Static_assert(sizeof(struct sl_link_ops) == 15 * sizeof(void *),
               "an entry came or went: look here");
_Static_assert(sizeof(struct sl_memory_ops) == 11 * sizeof(void *),
               "an entry came or went: look here");

/* Index of the first entry that is NULL; `count` when none is. */
static size_t first_hole(const void *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uintptr_t entry;

        memcpy(&entry, (const char *)ops + i * sizeof(entry), sizeof(entry));
        if (entry == 0)
            return i;
    }
    return count;
}

enum {
    LINK_ENTRIES = sizeof(struct sl_link_ops) / sizeof(uintptr_t),
    MEMORY_ENTRIES = sizeof(struct sl_memory_ops) / sizeof(uintptr_t)
};

Test(seams, invariant_11_a_hole_would_be_seen)
{
    struct sl_link_ops holed = sl_link_local;

    holed.arm = NULL;
    cr_assert_lt(first_hole(&holed, LINK_ENTRIES), LINK_ENTRIES);
}

Test(seams, invariant_11_no_entry_of_link_local_is_null)
{
    cr_assert_eq(first_hole(&sl_link_local, LINK_ENTRIES), LINK_ENTRIES);
}

Test(seams, invariant_11_no_entry_of_link_tcp_is_null)
{
    cr_assert_eq(first_hole(&sl_link_tcp, LINK_ENTRIES), LINK_ENTRIES);
}

#ifdef SEALANE_VERBS
Test(seams, invariant_11_no_entry_of_link_verbs_is_null)
{
    cr_assert_eq(first_hole(&sl_link_verbs, LINK_ENTRIES), LINK_ENTRIES);
}
#endif

Test(seams, invariant_11_no_entry_of_the_fake_link_is_null)
{
    cr_assert_eq(first_hole(&link_fake, LINK_ENTRIES), LINK_ENTRIES);
}

Test(seams, invariant_11_no_entry_of_memory_host_is_null)
{
    struct sl_memory *memory;

    cr_assert_eq(sl_memory_host_new(&memory), SEALANE_OK);
    cr_assert_eq(first_hole(sl_memory_ops(memory), MEMORY_ENTRIES), MEMORY_ENTRIES);
    sl_memory_ops(memory)->close(memory);
}

Test(seams, the_product_does_not_offer_to_run_unsealed)
{
    cr_assert_gt(sl_aead_supported_count, 0);
    for (size_t i = 0; i < sl_aead_supported_count; i++)
        cr_assert_neq(sl_aead_supported[i], SL_AEAD_PLAIN);
    cr_assert_eq(sl_aead_key_bytes(SL_AEAD_PLAIN), 0);
}

Test(seams, the_product_refuses_a_key_of_the_unsealed_kind)
{
    static const uint8_t bytes[SL_AEAD_KEY_MAX];
    struct sl_aead_key *key = NULL;

    cr_assert_eq(sl_aead_key_new(SL_AEAD_PLAIN, bytes, &key), SEALANE_UNIMPLEMENTED);
    cr_assert_null(key);
}
