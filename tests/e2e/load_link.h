/* SPDX-License-Identifier: Apache-2.0 */
/* load_link.h - addresses of the load's links, for tests by Criterion. */
#ifndef LOAD_LINK_H
#define LOAD_LINK_H

#include "tests/e2e/load.h"

#include <criterion/criterion.h>

/* Skips the test where the link cannot be; hence first of all. */
static inline void address_of(const char *link, char address[LOAD_ADDRESS])
{
    if (!load_address(link, address))
        cr_skip_test("this host has no RDMA device with an address");
}

#endif
