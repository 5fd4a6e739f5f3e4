/* SPDX-License-Identifier: Apache-2.0 */
/* lane_local_test.c - what a peer over link_local gets into its hands, and when: nothing before it proved who it is; then two rings and an
 * arrival page, each a sealed memfd of exactly its own pages. Linked with --wrap=sendmsg, to see descriptors leave, and with
 * --wrap of the two functions that take a HELLO, which is inside TLS: from then on the peer is authorised. */
#include "tests/support/certs.h"
#include "tests/support/lanes.h"
#include "transport/link_local_inside.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    PAGE = 4096,
    PASSED_MAX = 64,
    STRANGER_TURNS = 200
};

static struct lanes lanes;

/* ---- what leaves ---- */

static bool client_authorised, server_authorised; /* as the other end found it */

static struct passed {
    char type; /* of the packet: 'R' or 'P' */
    int seals;
    size_t bytes;
    bool by_server; /* the client may not yet */
} passed[PASSED_MAX];
static size_t passed_count, passed_early;

static void look_at(int fd, char type)
{
    struct stat is;

    cr_assert_lt(passed_count, PASSED_MAX);
    cr_assert_eq(fstat(fd, &is), 0);
    passed_early += !client_authorised;
    passed[passed_count++] = (struct passed){.type = type,
                                             .seals = fcntl(fd, F_GET_SEALS),
                                             .bytes = (size_t)is.st_size,
                                             .by_server = !server_authorised};
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr copy = *message;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(&copy); head; head = CMSG_NXTHDR(&copy, head)) {
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < count; i++) {
            int one;

            memcpy(&one, CMSG_DATA(head) + i * sizeof(int), sizeof(one));
            look_at(one, *(const char *)message->msg_iov[0].iov_base);
        }
    }
    return __real_sendmsg(fd, message, flags);
}

SEALANE_RESULT __real_sl_hello_parse_client(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p);
SEALANE_RESULT __wrap_sl_hello_parse_client(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p);
SEALANE_RESULT __real_sl_hello_parse_server(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p);
SEALANE_RESULT __wrap_sl_hello_parse_server(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p);

/* The server reads it, so that TLS is over and the certificate was accepted. */
SEALANE_RESULT __wrap_sl_hello_parse_client(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p)
{
    client_authorised = true;
    return __real_sl_hello_parse_client(bytes, count, hello_p);
}

SEALANE_RESULT __wrap_sl_hello_parse_server(const uint8_t *bytes, size_t count,
                                            struct sl_hello *hello_p)
{
    server_authorised = true;
    return __real_sl_hello_parse_server(bytes, count, hello_p);
}

/* ---- what there is ---- */

static int memfds_open(void)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;

    cr_assert_not_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        char target[300];
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

        target[length > 0 ? length : 0] = '\0';
        count += strstr(target, "memfd:sealane") != NULL;
    }
    (void)closedir(directory);
    return count;
}

static int memfds_mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    cr_assert_not_null(maps);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "memfd:sealane") != NULL;
    (void)fclose(maps);
    return count;
}

static void expect_nothing_shared(void)
{
    cr_assert_eq(memfds_open(), 0);
    cr_assert_eq(memfds_mapped(), 0);
}

/* ---- strangers ---- */

static int stranger_connect(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *abstract = strchr(lanes.address, ':') + 1;
    size_t length = strlen(abstract);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(at.sun_path + 1, abstract, length);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)),
                 0);
    return fd;
}

/* A stranger that says this, if anything, and listens. Nothing that it gets carries a descriptor. */
static void stranger(const char *bytes, size_t count)
{
    int fd = stranger_connect();

    if (count > 0)
        cr_assert_eq(send(fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    for (int i = 0; i < STRANGER_TURNS; i++) {
        uint8_t packet[SL_LOCAL_PACKET_BYTES];
        struct iovec piece = {packet, sizeof(packet)};
        char control[CMSG_SPACE(8 * sizeof(int))];
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};

        cr_assert_eq(sealane_node_poll(lanes.nodes[0], 0), SEALANE_OK);
        if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) > 0)
            cr_assert_null(CMSG_FIRSTHDR(&message));
        cr_assert_eq(memfds_open(), 0, "ring memory exists before anybody was authorised");
    }
    (void)close(fd);
}

Test(lane_local, invariant_2_a_stranger_gets_no_memory_and_none_is_made)
{
    static const char hello[] = "B\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00";

    lanes_init(&lanes, false);
    lanes_listen(&lanes);
    stranger("", 0);
    stranger("B.", 2);
    stranger(hello, sizeof(hello) - 1);
    cr_assert_eq(passed_count, 0);
    lanes_free(&lanes);
}

static void use_credentials(int end, const char *ca, const char *name)
{
    sealane_credentials_free(lanes.credentials[end]);
    lanes.credentials[end] = lanes.options[end].credentials = certs_load(ca, name, NULL);
}

/* A real handshake that is refused, by the server or by the client. */
static void expect_refused(int whose, const char *ca, const char *name)
{
    lanes_init(&lanes, false);
    use_credentials(whose, ca, name);
    lanes_listen(&lanes);
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    cr_assert_eq(lanes.end[0].ready + lanes.end[1].ready, 0);
    cr_assert_eq(passed_count, 0, "%zu descriptors left before anybody was authorised",
                 passed_count);
    expect_nothing_shared();
    lanes_free(&lanes);
}

Test(lane_local, invariant_2_a_peer_whose_certificate_is_refused_gets_no_memory)
{
    expect_refused(1, "root-ed25519", "good/client-ed25519"); /* each trusts only its own root */
    expect_refused(0, "root-ed25519", "good/server-ed25519");
}

Test(lane_local, invariant_2_a_client_that_is_not_allowed_gets_no_memory)
{
    lanes_init(&lanes, false);
    sealane_credentials_free(lanes.credentials[0]);
    lanes.credentials[0] = lanes.options[0].credentials =
        certs_load("root-p256", "good/server-p256", "dns:somebody.else");
    lanes_listen(&lanes);
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    cr_assert_eq(passed_count, 0);
    expect_nothing_shared();
    lanes_free(&lanes);
}

/* ---- peers ---- */

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void expect_page_and_rings(const struct passed *three, const struct sl_lane *owner)
{
    size_t seen[SL_RING_COUNT] = {0}, pages = 0;

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(three[i].seals, ALL_SEALS);
        if (three[i].type == 'P') {
            pages++;
            cr_assert_eq(three[i].bytes, whole_pages(sizeof(struct sl_local_page)));
            continue;
        }
        cr_assert_eq(three[i].type, 'R');
        for (int ring = 0; ring < SL_RING_COUNT; ring++) {
            const struct sl_geometry *geometry = &owner->rx[ring].geometry;

            seen[ring] += three[i].bytes == whole_pages((size_t)geometry->slots * geometry->stride);
        }
    }
    cr_assert(pages == 1 && seen[0] == 1 && seen[1] == 1);
}

Test(lane_local,
     invariant_2_an_authorised_peer_gets_the_rings_and_the_arrival_page_and_nothing_else)
{
    lanes_init(&lanes, false);
    lanes.options[0].message_slots = 16; /* four rings of different sizes */
    lanes.options[0].bulk_slots = 24;
    lanes.options[1].message_slots = 32;
    lanes.options[1].bulk_slots = 8;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    cr_assert_eq(passed_count, 6, "%zu descriptors were passed", passed_count);
    cr_assert_eq(passed_early, 0);
    for (size_t i = 0; i < passed_count; i++)
        cr_assert_eq(passed[i].by_server, i < 3, "descriptor %zu left out of turn", i);
    expect_page_and_rings(passed, lanes.end[0].lane);
    expect_page_and_rings(passed + 3, lanes.end[1].lane);
    for (int end = 0; end < 2; end++) {
        for (int ring = 0; ring < SL_RING_COUNT; ring++) {
            const struct sl_ring_memory *memory = &lanes.end[end].lane->rx[ring].memory;

            cr_assert_eq((uintptr_t)memory->base % PAGE, 0);
            cr_assert_eq(memory->bytes % PAGE, 0, "a page is shared with something else");
        }
    }
    lanes_disconnect(&lanes);
    cr_assert_eq(passed_count, 6);
    expect_nothing_shared();
    lanes_free(&lanes);
}
