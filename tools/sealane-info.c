/* SPDX-License-Identifier: Apache-2.0 */
/* sealane-info: what this build and this host have for lanes between hosts: RDMA devices, their ports and GIDs, which of them lanes would
 * use, and why not the others. */
#include <sealane_transport.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct seen {
    char device[64];
    uint32_t port;
    int rows, used;
};

static void port_print(const struct sealane_rdma_gid *gid)
{
    printf(
        "%s port %u: %s, %s%s%s, netdev %s, MTU %u, messages of %u bytes, %u work requests, %u regions\n",
        gid->device, gid->port, gid->state[0] ? gid->state : "unknown",
        gid->link_layer[0] ? gid->link_layer : "unknown", gid->rate[0] ? ", " : "", gid->rate,
        gid->netdev[0] ? gid->netdev : "none", gid->mtu_bytes, gid->max_message_bytes,
        gid->max_work_requests, gid->max_regions);
}

static void gid_print(void *user, const struct sealane_rdma_gid *gid)
{
    struct seen *seen = user;

    if (seen->rows++ == 0 || strcmp(seen->device, gid->device) != 0 || seen->port != gid->port)
        port_print(gid);
    memcpy(seen->device, gid->device, sizeof(seen->device));
    seen->port = gid->port;
    seen->used += gid->used;
    if (gid->index < 0)
        printf("  not used: %s\n", gid->why);
    else
        printf("  GID %d  %s  %s  %s%s%s\n", gid->index, gid->gid, gid->type,
               gid->used ? "used" : "not used", gid->why[0] ? ": " : "", gid->why);
}

static void limits_print(void)
{
    struct rlimit locked;

    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    if (locked.rlim_cur == RLIM_INFINITY)
        printf("memory that may be locked (ulimit -l): unlimited\n");
    else
        printf(
            "memory that may be locked (ulimit -l): %llu bytes; a lane with default rings locks 8 MiB\n",
            (unsigned long long)locked.rlim_cur);
}

static int tell(const char *rdma_device)
{
    struct seen seen = {.port = 0};
    enum sealane_status status;

    printf("sealane %s, the CPU seals by %s\n", SEALANE_VERSION, SEALANE_AEAD);
    status = sealane_rdma_list(rdma_device, gid_print, &seen);
    if (status == SEALANE_INVALID_ARGUMENT) {
        fprintf(stderr, "sealane-info: %s\n", sealane_last_error()->message);
        return 2;
    }
    printf("links: local, %stcp\n", status == SEALANE_UNIMPLEMENTED ? "" : "verbs, ");
    limits_print();
    if (status != SEALANE_OK)
        printf("RDMA: %s\n", sealane_last_error()->message);
    else if (seen.rows == 0)
        printf("RDMA: no device: lanes between hosts go over tcp\n");
    else if (seen.used == 0)
        printf("RDMA: nothing that lanes could use: they go over tcp\n");
    return status == SEALANE_OK || status == SEALANE_UNIMPLEMENTED ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char usage[] =
        "usage: sealane-info [--rdma-device NAME[:PORT]]\n"
        "  Lists RDMA devices, ports and GIDs, which lanes would use, and why not the others.\n"
        "  --rdma-device D   as if the node's option rdma_device were D\n"
        "  Exit status: 0, 1 when D is not there or devices cannot be asked, 2 for a wrong command line\n";

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc == 1 || (argc == 3 && strcmp(argv[1], "--rdma-device") == 0))
        return tell(argc == 3 ? argv[2] : NULL);
    fputs(usage, stderr);
    return 2;
}
