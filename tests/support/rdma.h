/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.h - the RDMA device that tests run over, where there is one: soft ones in a guest of tests/rig, or a real one. */
#ifndef RDMA_H
#define RDMA_H

#include <stdbool.h>
#include <stddef.h>

/* The address of a device's interface: what the rig says (SEALANE_RIG_ADDRESS), else what /sys tells of the first device that has an IPv4
 * address. Empty: none. */
const char *rdma_host(void);

/* "host:port": a port of this process below those that the kernel gives out, and beside those of other `shift`s (0 or 1). False, with an
 * address of nobody: no device. */
bool rdma_address(char *to, size_t bytes, int shift);

/* True with SEALANE_TEST_LINK=verbs: suites that run over one carrier, whichever, run over a device. Others are an error. */
bool rdma_wanted(void);

#endif
