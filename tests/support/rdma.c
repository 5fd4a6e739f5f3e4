/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.c - see rdma.h. The kernel's own files are read, so that tests of builds without rdma-core have it too. */
#include "tests/support/rdma.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A GID that is an IPv4 address (::ffff:a.b.c.d) on RoCE is that of the device's interface. */
static bool gid_address(const char *path, char *to, size_t bytes)
{
    FILE *file = fopen(path, "re");
    unsigned high, low;
    bool found = file && fscanf(file, "0000:0000:0000:0000:0000:ffff:%4x:%4x", &high, &low) == 2;

    if (file)
        (void)fclose(file);
    if (found)
        (void)snprintf(to, bytes, "%u.%u.%u.%u", high >> 8, high & 0xff, low >> 8, low & 0xff);
    return found;
}

const char *rdma_host(void)
{
    static char found[64];
    const char *rig = getenv("SEALANE_RIG_ADDRESS");
    glob_t gids;

    if (rig || found[0])
        return rig ? rig : found;
    if (glob("/sys/class/infiniband/*/ports/1/gids/*", 0, NULL, &gids) != 0)
        return found;
    for (size_t i = 0; i < gids.gl_pathc && !found[0]; i++)
        (void)gid_address(gids.gl_pathv[i], found, sizeof(found));
    globfree(&gids);
    return found;
}

bool rdma_address(char *to, size_t bytes, int shift)
{
    const char *host = rdma_host();

    (void)snprintf(to, bytes, "%s:%d", host[0] ? host : "127.0.0.1",
                   10000 + 10000 * (shift & 1) + (int)getpid() % 10000);
    return host[0] != '\0';
}

bool rdma_wanted(void)
{
    const char *link = getenv("SEALANE_TEST_LINK");

    if (!link || !link[0])
        return false;
    if (strcmp(link, "verbs") == 0)
        return true;
    (void)fprintf(stderr, "SEALANE_TEST_LINK is \"%s\", expected \"verbs\"\n", link);
    abort();
}
