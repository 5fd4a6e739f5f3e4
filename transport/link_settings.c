/* SPDX-License-Identifier: Apache-2.0 */
/* link_settings.c - what a node's options say to its carriers, read. */
#include "transport/link.h"

#include <sealane_transport.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT_DIGITS = 3,
    PORT_MAX = 255 /* port_num of struct rdma_cm_id is 8 bits */
};

static SEALANE_RESULT malformed(const char *rdma_device, const char *what)
{
    return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                   "rdma_device \"%.100s\" has %s, expected the name of a device or name:port "
                   "(\"mlx5_0\", \"mlx5_0:1\")",
                   rdma_device, what);
}

/* Of what a name may have; a file of that name is looked for. */
static size_t name_bytes(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
}

static SEALANE_RESULT name_check(const char *rdma_device, size_t bytes)
{
    if (bytes == 0 || rdma_device[0] == '.')
        return malformed(rdma_device, "no name");
    if (bytes >= SL_RDMA_DEVICE_BYTES)
        return malformed(rdma_device, "a name of more than 63 characters");
    if (rdma_device[bytes] != ':' && rdma_device[bytes] != '\0')
        return malformed(rdma_device, "a character that no name has");
    return SEALANE_OK;
}

static SEALANE_RESULT port_read(const char *rdma_device, const char *text, unsigned *port_p)
{
    size_t digits = strspn(text, "0123456789");
    long port = digits > PORT_DIGITS ? 0 : strtol(text, NULL, 10);

    if (digits == 0 || text[digits] != '\0' || port < 1 || port > PORT_MAX)
        return malformed(rdma_device, "a port that is none of 1 to 255");
    *port_p = (unsigned)port;
    return SEALANE_OK;
}

SEALANE_RESULT sl_link_settings_read(const char *rdma_device, struct sl_link_settings *settings_p)
{
    struct sl_link_settings settings = {0};
    size_t bytes = rdma_device ? name_bytes(rdma_device) : 0;

    *settings_p = settings;
    if (!rdma_device || !rdma_device[0])
        return SEALANE_OK;
    SL_TRY(name_check(rdma_device, bytes));
    (void)snprintf(settings.rdma_device, sizeof(settings.rdma_device), "%.*s", (int)bytes,
                   rdma_device);
    if (rdma_device[bytes] == ':')
        SL_TRY(port_read(rdma_device, rdma_device + bytes + 1, &settings.rdma_port));
#ifndef SEALANE_VERBS
    return SL_FAIL(SEALANE_UNIMPLEMENTED, "rdma_device \"%.100s\": this build has no RDMA links",
                   rdma_device);
#endif
    *settings_p = settings;
    return SEALANE_OK;
}

#ifndef SEALANE_VERBS
SEALANE_RESULT sealane_rdma_list(const char *rdma_device,
                                 void (*tell)(void *user, const struct sealane_rdma_gid *gid),
                                 void *user)
{
    struct sl_link_settings wish;

    (void)tell, (void)user;
    SL_TRY(sl_link_settings_read(rdma_device, &wish));
    return SL_FAIL(SEALANE_UNIMPLEMENTED, "this build has no RDMA links");
}
#endif
