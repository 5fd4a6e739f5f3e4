/* SPDX-License-Identifier: Apache-2.0 */
/* inbox_test.c - posts run once, in order, also when one of them waits for another. */
#include "transport/inbox.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

static struct sl_inbox inbox;
static char order[16];

struct named {
    struct sl_post post; /* first */
    char name;
    const struct sl_post *waits_for_all; /* not NULL: runs the inbox itself */
};

static void run(struct sl_post *post)
{
    struct named *named = (struct named *)(void *)post;
    char name[2] = {named->name, '\0'};

    strcat(order, name);
    if (named->waits_for_all)
        (void)sl_inbox_run(&inbox);
    strcat(order, named->waits_for_all ? "." : "");
}

Test(inbox, runs_posts_in_order)
{
    struct named posts[3];

    cr_assert_eq(sl_inbox_init(&inbox), SEALANE_OK);
    cr_assert_not(sl_inbox_run(&inbox));
    for (int i = 0; i < 3; i++) {
        posts[i] = (struct named){.post.run = run, .name = (char)('a' + i)};
        sl_inbox_post(&inbox, &posts[i].post);
    }
    cr_assert(sl_inbox_run(&inbox));
    cr_assert_str_eq(order, "abc");
    cr_assert_not(sl_inbox_run(&inbox));
    sl_inbox_clear(&inbox);
}

Test(inbox, a_post_can_wait_for_those_behind_it)
{
    struct named posts[4];

    cr_assert_eq(sl_inbox_init(&inbox), SEALANE_OK);
    for (int i = 0; i < 4; i++) {
        posts[i] = (struct named){.post.run = run,
                                  .name = (char)('a' + i),
                                  .waits_for_all = i == 1 ? &posts[3].post : NULL};
        sl_inbox_post(&inbox, &posts[i].post);
    }
    cr_assert(sl_inbox_run(&inbox));
    cr_assert_str_eq(order, "abcd.", "c and d ran while b waited, and only once");
    sl_inbox_clear(&inbox);
}
