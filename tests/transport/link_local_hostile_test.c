/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_hostile_test.c - peers of link_local that speak its packets and lie: in what they pass, in what they say and in the
 * memory that both share. Whatever they do ends or stalls their own link, leaves no descriptor behind and touches nothing else. */
#include "tests/transport/link_pair.h"
#include "transport/link_local_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    PAGE_BYTES = 20480, /* whole pages for struct sl_local_page */
    RING_BYTES = SLOTS * STRIDE
};

static const struct sl_link_ops *const ops = &sl_link_local;

/* ---- a peer made of system calls ---- */

struct raw {
    int fd;               /* the peer's socket */
    struct sl_port *port; /* ours */
    struct sl_link *link;
};

static struct sockaddr_un raw_address(socklen_t *bytes)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "sealane-hostile-%d", getpid());

    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return at;
}

static struct sl_link_event raw_expect(const struct raw *raw, enum sl_link_event_kind kind)
{
    struct sl_link_event event;

    cr_assert(event_next(ops, raw->port, &event, EVENT_LIMIT_MS));
    cr_assert_eq(event.kind, kind, "an event of kind %d came, expected %d: %s", (int)event.kind,
                 (int)kind, event.kind == SL_LINK_GONE ? event.why : "");
    return event;
}

/* The peer accepts: ours connected. */
static struct raw raw_server(void)
{
    struct raw raw;
    socklen_t bytes;
    struct sockaddr_un at = raw_address(&bytes);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char address[128];

    cr_assert_eq(bind(listener, (struct sockaddr *)&at, bytes), 0);
    cr_assert_eq(listen(listener, 1), 0);
    (void)snprintf(address, sizeof(address), "unix-abstract:%s", at.sun_path + 1);
    cr_assert_eq(ops->open(NULL, &raw.port), SEALANE_OK);
    cr_assert_eq(ops->connect(raw.port, address, &raw.link), SEALANE_OK);
    raw.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    cr_assert_geq(raw.fd, 0);
    (void)close(listener);
    (void)raw_expect(&raw, SL_LINK_CONNECTED);
    return raw;
}

/* The peer connects: ours accepted. */
static struct raw raw_client(void)
{
    struct raw raw = {.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    socklen_t bytes;
    struct sockaddr_un at = raw_address(&bytes);
    char address[128];

    (void)snprintf(address, sizeof(address), "unix-abstract:%s", at.sun_path + 1);
    cr_assert_eq(ops->open(NULL, &raw.port), SEALANE_OK);
    cr_assert_eq(ops->listen(raw.port, address, NULL), SEALANE_OK);
    cr_assert_eq(connect(raw.fd, (struct sockaddr *)&at, bytes), 0);
    raw.link = raw_expect(&raw, SL_LINK_ACCEPTED).link;
    return raw;
}

static void raw_end(struct raw *raw)
{
    ops->close(raw->port);
    if (raw->fd >= 0)
        (void)close(raw->fd);
}

/* One packet with n copies of a descriptor. */
static void raw_send(const struct raw *raw, const void *bytes, size_t count, int fd, size_t n)
{
    static const union {
        char bytes[CMSG_SPACE(64 * sizeof(int))];
        struct cmsghdr align;
    } empty;
    __typeof__(empty) control = empty;
    struct iovec piece = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (n > 0) {
        struct cmsghdr *head;

        message.msg_control = (void *)&control;
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(n * sizeof(int));
        for (size_t i = 0; i < n; i++)
            memcpy(CMSG_DATA(head) + i * sizeof(int), &fd, sizeof(int));
    }
    cr_assert_eq(sendmsg(raw->fd, &message, MSG_NOSIGNAL), (ssize_t)count, "errno %d", errno);
}

/* The descriptor of the next packet, which must be of this type. */
static int raw_receive(const struct raw *raw, char type)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char bytes[8] = {0};
    struct iovec piece = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fd;

    cr_assert_gt(recvmsg(raw->fd, &message, MSG_CMSG_CLOEXEC), 0);
    cr_assert_eq(bytes[0], type);
    cr_assert_neq(CMSG_FIRSTHDR(&message), NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return fd;
}

static int memfd(size_t bytes, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void gone_expect(struct raw *raw, int fds_before)
{
    struct sl_link_event event = raw_expect(raw, SL_LINK_GONE);

    cr_assert_neq(event.why[0], '\0');
    cr_assert_eq(count_fds(), fds_before, "a descriptor that the peer passed stayed open");
    for (int i = 0; i < 200; i++)
        cr_assert_eq(ops->poll(raw->port, &event, 1), 0);
}

/* ---- what a peer sends ---- */

Test(link_local_hostile, invariant_2_takes_no_descriptor_from_a_stranger)
{
    static const char *const packets[] = {"P\0", "R\0", "R\1"};

    for (size_t i = 0; i < 3; i++) {
        struct raw raw = raw_client();
        int fd = memfd(PAGE_BYTES, ALL_SEALS), before = count_fds();

        raw_send(&raw, packets[i], 2, fd, 1);
        gone_expect(&raw, before);
        raw_end(&raw);
        (void)close(fd);
    }
}

Test(link_local_hostile, ends_a_link_whose_peer_sends_what_does_not_belong_there)
{
    static const uint8_t large[SL_LINK_SEND_BYTES + 2] = "B";
    static const struct {
        const char *bytes;
        size_t count, fds;
    } wrong[] = {
        {"P\0", 2, 2},   {"P\0", 2, 8}, {"P\0", 2, 9},   {"R\0", 2, 60}, {"P\0", 2, 0},
        {"R\0", 2, 0},   {"R\2", 2, 1}, {"R\377", 2, 1}, {"R", 1, 1},    {"P", 1, 1},
        {"P\0\0", 3, 1}, {"B", 1, 0},   {"Bx", 2, 1},    {"W", 1, 1},    {"W\0", 2, 0},
        {"Z", 1, 0},     {"\0", 1, 0},  {"", 0, 0},      {"", 0, 1},     {"", 0, 5},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct raw raw = raw_server();
        int fd = memfd(PAGE_BYTES, ALL_SEALS), before = count_fds();

        raw_send(&raw, wrong[i].bytes, wrong[i].count, fd, wrong[i].fds);
        gone_expect(&raw, before);
        raw_end(&raw);
        (void)close(fd);
    }
    for (size_t fds = 0; fds < 2; fds++) {
        struct raw raw = raw_server();
        int before = count_fds();

        raw_send(&raw, large, sizeof(large), 0, fds);
        gone_expect(&raw, before);
        raw_end(&raw);
    }
}

Test(link_local_hostile, ends_a_link_whose_peer_passes_the_same_twice)
{
    static const char *const packets[] = {"P\0", "R\0", "R\1"};
    int fd = memfd(PAGE_BYTES, ALL_SEALS), before = count_fds();

    for (size_t i = 0; i < 3; i++) {
        struct raw raw = raw_server();
        int open_fds = count_fds();

        raw_send(&raw, packets[i], 2, fd, 1);
        raw_send(&raw, packets[i], 2, fd, 1);
        gone_expect(&raw, open_fds + 1); /* the first is kept until the link is dropped */
        raw_end(&raw);
        cr_assert_eq(count_fds(), before);
    }
    (void)close(fd);
}

/* A flood of packets is taken in small portions, or one peer could keep a poll busy for as long as it likes. */
Test(link_local_hostile, returns_from_polls_under_a_flood)
{
    struct raw raw = raw_server();
    struct sl_link_event event;
    int waiting = 0;

    while (send(raw.fd, "W", 1, MSG_NOSIGNAL) == 1)
        ;
    for (int i = 0; i < 4; i++) /* one of them looks at the socket */
        cr_assert_eq(ops->poll(raw.port, &event, 1), 0);
    cr_assert_eq(ioctl(raw.fd, SIOCOUTQ, &waiting), 0);
    cr_assert_gt(waiting, 100);
    for (int i = 0; i < 1000 && waiting > 0; i++) {
        cr_assert_eq(ops->poll(raw.port, &event, 1), 0);
        cr_assert_eq(ioctl(raw.fd, SIOCOUTQ, &waiting), 0);
    }
    cr_assert_eq(waiting, 0);
    raw_end(&raw);
}

/* ---- what a peer passes ---- */

enum wrong_memory {
    UNSEALED,
    MAY_SHRINK,
    MAY_GROW,
    MAY_CHANGE_SEALS,
    READ_ONLY,
    NO_FUTURE_WRITES,
    TOO_SMALL,
    EMPTY,
    PART_OF_A_PAGE,
    HUGE_PAGES,
    A_FILE,
    A_DEVICE,
    A_SOCKET,
    WRONG_COUNT
};

static int wrong_memory_make(enum wrong_memory kind, size_t bytes)
{
    static const int seals[] = {
        [UNSEALED] = 0,
        [MAY_SHRINK] = F_SEAL_GROW | F_SEAL_SEAL,
        [MAY_GROW] = F_SEAL_SHRINK | F_SEAL_SEAL,
        [MAY_CHANGE_SEALS] = F_SEAL_SHRINK | F_SEAL_GROW,
        [READ_ONLY] = ALL_SEALS | F_SEAL_WRITE,
        [NO_FUTURE_WRITES] = ALL_SEALS | F_SEAL_FUTURE_WRITE,
        [TOO_SMALL] = ALL_SEALS,
        [EMPTY] = ALL_SEALS,
        [PART_OF_A_PAGE] = ALL_SEALS,
    };
    char name[] = "/tmp/sealane-hostile-XXXXXX";
    int fd;

    switch (kind) {
    case TOO_SMALL:
        return memfd(bytes - 4096, seals[kind]);
    case EMPTY:
        return memfd(0, seals[kind]);
    case PART_OF_A_PAGE:
        return memfd(bytes + 100, seals[kind]);
    case HUGE_PAGES:
        fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
        if (fd >= 0 && ftruncate(fd, 2 << 20) == 0 && fcntl(fd, F_ADD_SEALS, ALL_SEALS) == 0)
            return fd;
        return open("/dev/null", O_RDWR | O_CLOEXEC); /* a kernel without them */
    case A_FILE:
        fd = mkostemp(name, O_CLOEXEC);
        cr_assert_eq(unlink(name), 0);
        cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
        return fd;
    case A_DEVICE:
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case A_SOCKET:
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    default:
        return memfd(bytes, seals[kind]);
    }
}

/* The peer passes a page and a ring; one of them is wrong. */
static void attach_expect_refusal(int page, int ring)
{
    static const uint8_t grant[SL_GRANT_BYTES] = {SL_RING_MESSAGE + 1};
    struct raw raw = raw_server();
    struct sl_link_event event;

    raw_send(&raw, "P\0", 2, page, 1);
    raw_send(&raw, "R\0", 2, ring, 1);
    raw_send(&raw, "B.", 2, -1, 0);
    event = raw_expect(&raw, SL_LINK_BYTES);
    cr_assert_eq(event.count, 1);
    cr_assert_eq(ops->attach(raw.link, SL_RING_MESSAGE, grant, RING_BYTES, STRIDE),
                 SEALANE_DATA_LOSS);
    raw_end(&raw);
}

Test(link_local_hostile, refuses_memory_that_the_peer_could_take_away)
{
    int page = memfd(PAGE_BYTES, ALL_SEALS), ring = memfd(RING_BYTES, ALL_SEALS);
    int before = count_fds();

    for (int kind = 0; kind < WRONG_COUNT; kind++) {
        int wrong_page = wrong_memory_make((enum wrong_memory)kind, PAGE_BYTES);
        int wrong_ring = wrong_memory_make((enum wrong_memory)kind, RING_BYTES);

        cr_assert(wrong_page >= 0 && wrong_ring >= 0);
        attach_expect_refusal(wrong_page, ring);
        attach_expect_refusal(page, wrong_ring);
        (void)close(wrong_page);
        (void)close(wrong_ring);
        cr_assert_eq(count_fds(), before);
        cr_assert_eq(count_shared_mappings(), 0);
    }
    (void)close(page);
    (void)close(ring);
}

Test(link_local_hostile, grants_no_memory_that_the_peer_could_take_away)
{
    struct raw raw = raw_client();
    uint8_t grant[SL_GRANT_BYTES];

    for (int kind = 0; kind < WRONG_COUNT; kind++) {
        struct sl_ring_memory ring = {.base = grant, /* never touched */
                                      .bytes = RING_BYTES,
                                      .fd = wrong_memory_make((enum wrong_memory)kind, RING_BYTES)};

        cr_assert_eq(ops->grant(raw.link, SL_RING_BULK, &ring, STRIDE, grant),
                     SEALANE_INVALID_ARGUMENT, "case %d was granted", kind);
        (void)close(ring.fd);
    }
    cr_assert_eq(recv(raw.fd, grant, sizeof(grant), 0), -1, "something was sent to the peer");
    raw_end(&raw);
}

/* ---- what a peer writes into shared memory ---- */

struct liar {
    struct raw raw;
    struct sl_memory *memory;
    struct sl_ring_memory ring;   /* ours */
    struct sl_local_page *ours;   /* as the liar maps our page */
    struct sl_local_page *theirs; /* the page that the liar passed */
    uint64_t random;
};

static uint32_t dice(struct liar *liar)
{
    liar->random = liar->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(liar->random >> 33);
}

static struct sl_local_page *page_share(int fd)
{
    void *at = mmap(NULL, sizeof(struct sl_local_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    cr_assert_neq(at, MAP_FAILED);
    (void)close(fd);
    return at;
}

/* Up with one ring each way, all shared memory in the liar's hands. */
static void liar_begin(struct liar *liar, uint64_t seed)
{
    uint8_t grant[SL_GRANT_BYTES];
    int page = memfd(PAGE_BYTES, ALL_SEALS), ring = memfd(RING_BYTES, ALL_SEALS);

    memset(liar, 0, sizeof(*liar));
    liar->random = seed;
    liar->raw = raw_client();
    cr_assert_eq(sl_memory_host_new(&liar->memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(liar->memory)
                     ->ring_alloc(liar->memory, SL_PLACE_HOST, RING_BYTES, &liar->ring),
                 SEALANE_OK);
    cr_assert_eq(ops->grant(liar->raw.link, SL_RING_MESSAGE, &liar->ring, STRIDE, grant),
                 SEALANE_OK);
    liar->ours = page_share(raw_receive(&liar->raw, 'P'));
    (void)close(raw_receive(&liar->raw, 'R'));
    raw_send(&liar->raw, "P\0", 2, page, 1);
    raw_send(&liar->raw, "R\0", 2, ring, 1);
    raw_send(&liar->raw, "B.", 2, -1, 0);
    (void)raw_expect(&liar->raw, SL_LINK_BYTES);
    cr_assert_eq(ops->attach(liar->raw.link, SL_RING_MESSAGE, grant, RING_BYTES, STRIDE),
                 SEALANE_OK, "%s", sealane_last_error()->message);
    liar->theirs = page_share(page);
    (void)close(ring);
}

static void liar_end(struct liar *liar)
{
    raw_end(&liar->raw);
    sl_memory_ops(liar->memory)->ring_free(liar->memory, &liar->ring);
    sl_memory_ops(liar->memory)->close(liar->memory);
    (void)munmap(liar->ours, sizeof(*liar->ours));
    (void)munmap(liar->theirs, sizeof(*liar->theirs));
}

static uint32_t lie(struct liar *liar, uint32_t near_to)
{
    switch (dice(liar) % 8) {
    case 0:
        return dice(liar);
    case 1:
        return UINT32_MAX;
    case 2:
        return near_to + SL_LOCAL_ENTRIES;
    case 3:
        return near_to + SL_LOCAL_ENTRIES + 1;
    case 4:
        return near_to - 1;
    default:
        return near_to + dice(liar) % 8;
    }
}

static void scribble(struct liar *liar)
{
    struct sl_local_page *pages[] = {liar->ours, liar->theirs};
    struct sl_local_page *page = pages[dice(liar) % 2];

    switch (dice(liar) % 5) {
    case 0:
        atomic_store(&page->tail, lie(liar, atomic_load(&page->tail)));
        break;
    case 1:
        atomic_store(&page->head, lie(liar, atomic_load(&page->head)));
        break;
    case 2:
        atomic_store(&page->sleeping, dice(liar) % 3);
        break;
    case 3:
        atomic_store(&page->entry[dice(liar) % SL_LOCAL_ENTRIES], dice(liar));
        break;
    default: /* all of it */
        for (size_t i = 0; i < sizeof(*page); i++)
            ((volatile uint8_t *)page)[i] = (uint8_t)dice(liar);
        break;
    }
}

/* One step of our side: what a lane does. Returns how many events came. */
static int honest_step(struct liar *liar, struct sl_link_event *events, int max)
{
    static const uint8_t bytes[STRIDE] = {7};
    struct sl_link_write write = {
        .ring = SL_RING_MESSAGE, .slot = dice(liar) % SLOTS, .from = bytes, .bytes = STRIDE};
    uint64_t posted = liar->raw.link->posted;
    enum sealane_status status = ops->write_imm(liar->raw.link, &write);

    cr_assert(status == SEALANE_OK || status == SL_AGAIN);
    cr_assert_eq(liar->raw.link->posted, posted + (status == SEALANE_OK));
    if (dice(liar) % 4 == 0)
        (void)ops->arm(liar->raw.port);
    return ops->poll(liar->raw.port, events, max);
}

Test(link_local_hostile, survives_300_peers_that_scribble_on_the_shared_pages)
{
    int fds = count_fds(), gone = 0;

    for (uint64_t round = 1; round <= 300; round++) {
        struct sl_link_event events[32];
        struct liar liar;
        bool over = false;

        liar_begin(&liar, round);
        for (int i = 0; i < 60; i++) {
            int count;

            for (uint32_t n = dice(&liar) % 3; n > 0; n--)
                scribble(&liar);
            count = honest_step(&liar, events, 32);
            cr_assert(count >= 0 && count <= 32);
            for (int n = 0; n < count; n++) {
                cr_assert_eq(events[n].link, liar.raw.link);
                cr_assert(events[n].kind == SL_LINK_ARRIVED || events[n].kind == SL_LINK_GONE);
                cr_assert_not(over, "an event came after GONE");
                over = events[n].kind == SL_LINK_GONE;
            }
        }
        gone += over;
        liar_end(&liar);
    }
    cr_assert_gt(gone, 100, "only %d liars were found out", gone);
    cr_assert_eq(count_fds(), fds);
    cr_assert_eq(count_shared_mappings(), 0);
}

Test(link_local_hostile, ends_a_link_whose_peer_counts_more_than_the_page_holds)
{
    struct liar liar;

    liar_begin(&liar, 1);
    atomic_store(&liar.ours->tail, SL_LOCAL_ENTRIES + 1);
    cr_assert_neq(strstr(raw_expect(&liar.raw, SL_LINK_GONE).why, "more than"), NULL);
    liar_end(&liar);
}

/* The page outlives the socket in the peer's hands. Arrivals end where they were when the socket ended, and GONE comes. */
Test(link_local_hostile, tells_gone_although_the_peer_keeps_publishing)
{
    enum {
        MAX = 7
    };
    struct sl_link_event events[MAX];
    struct liar liar;
    uint32_t arrived = 0;
    bool gone = false;

    liar_begin(&liar, 1);
    atomic_store(&liar.ours->tail, 1000);
    (void)close(liar.raw.fd);
    liar.raw.fd = -1;
    for (int i = 0; i < 2000 && !gone; i++) {
        int count;

        atomic_fetch_add(&liar.ours->tail, 5);
        count = ops->poll(liar.raw.port, events, MAX);
        for (int n = 0; n < count; n++) {
            arrived += events[n].kind == SL_LINK_ARRIVED;
            gone |= events[n].kind == SL_LINK_GONE;
        }
    }
    cr_assert(gone);
    cr_assert_geq(arrived, 1000);
    for (int i = 0; i < 200; i++) {
        atomic_fetch_add(&liar.ours->tail, 1);
        cr_assert_eq(ops->poll(liar.raw.port, events, MAX), 0);
    }
    cr_assert_geq(ops->arm(liar.raw.port), 0, "a link that is over keeps the port awake");
    liar_end(&liar);
}

/* A peer that always says it sleeps and never reads its socket can make writes dearer, but not block them. */
Test(link_local_hostile, writes_on_when_the_peer_sleeps_and_never_wakes)
{
    static const uint8_t bytes[STRIDE] = {7};
    struct liar liar;

    liar_begin(&liar, 1);
    for (uint32_t i = 0; i < 20000; i++) {
        struct sl_link_write write = {
            .ring = SL_RING_MESSAGE, .slot = i % SLOTS, .from = bytes, .bytes = STRIDE};

        atomic_store(&liar.theirs->sleeping, 1);
        atomic_store(&liar.theirs->head, i);
        cr_assert_eq(ops->write_imm(liar.raw.link, &write), SEALANE_OK);
    }
    cr_assert_eq(liar.raw.link->posted, 20000);
    liar_end(&liar);
}

/* A head that lies makes the writer wait or go on; either way only the liar's own page is overwritten. */
Test(link_local_hostile, waits_when_the_peer_took_more_than_was_published)
{
    static const uint8_t bytes[STRIDE] = {7};
    struct sl_link_write write = {.ring = SL_RING_MESSAGE, .from = bytes, .bytes = STRIDE};
    struct liar liar;

    liar_begin(&liar, 1);
    for (uint32_t i = 0; i < SL_LOCAL_ENTRIES; i++)
        cr_assert_eq(ops->write_imm(liar.raw.link, &write), SEALANE_OK);
    atomic_store(&liar.theirs->head, SL_LOCAL_ENTRIES + 5);
    cr_assert_eq(ops->write_imm(liar.raw.link, &write), SL_AGAIN);
    atomic_store(&liar.theirs->head, SL_LOCAL_ENTRIES);
    cr_assert_eq(ops->write_imm(liar.raw.link, &write), SEALANE_OK);
    liar_end(&liar);
}
