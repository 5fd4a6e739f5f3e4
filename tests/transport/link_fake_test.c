/* SPDX-License-Identifier: Apache-2.0 */
/* link_fake_test.c - the fake is a carrier as good as any until it is told otherwise, and then does just what it is told. */
#include "tests/support/link_fake.h"
#include "tests/transport/link_contract.h"

static struct link_fake_world *fake_world;

static void world_begin(void)
{
    fake_world = link_fake_world_new();
}

static void world_end(void)
{
    link_fake_world_free(fake_world);
}

static void fake_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "fake:%s", name);
}

static const char *const malformed[] = {
    "fake:", "fake:0123456789012345678901234567890123456789012345678901234567890", NULL};

static const struct link_world world = {.ops = &link_fake,
                                        .begin = world_begin,
                                        .end = world_end,
                                        .address = fake_address,
                                        .malformed = malformed};

LINK_CONTRACT(link_fake, &world)
