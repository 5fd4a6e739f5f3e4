/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_test.c - the contract on both forms of address, then what only this carrier has: socket files, limits of the system,
 * peers that are killed. Peers that lie are in link_local_hostile_test.c. */
#include "tests/transport/link_contract.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void abstract_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "unix-abstract:sealane-test-%d-%s", (int)getpid(), name);
}

static void path_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "unix:/tmp/sealane-test-%d-%s", (int)getpid(), name);
}

#define LONG_NAME                                                                                 \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" \
    "123456789"

static const char *const malformed[] = {"unix:", "unix-abstract:", "unix:/" LONG_NAME,
                                        "unix-abstract:" LONG_NAME, NULL};

static const struct link_world abstract_world = {.ops = &sl_link_local,
                                                 .address = abstract_address,
                                                 .malformed = malformed,
                                                 .foreign = "10.0.0.1:7000",
                                                 .fills_up = true};
static const struct link_world path_world = {.ops = &sl_link_local,
                                             .address = path_address,
                                             .malformed = malformed,
                                             .foreign = "10.0.0.1:7000",
                                             .fills_up = true};

LINK_CONTRACT(link_local, &abstract_world)
LINK_CONTRACT(link_local_path, &path_world)

/* ---- socket files ---- */

/* A directory of its own, so that what is left behind shows. */
struct place {
    char dir[64], path[96], address[112];
};

static struct place place_make(void)
{
    struct place place = {.dir = "/tmp/sealane-test-XXXXXX"};

    cr_assert_neq(mkdtemp(place.dir), NULL);
    (void)snprintf(place.path, sizeof(place.path), "%s/socket", place.dir);
    (void)snprintf(place.address, sizeof(place.address), "unix:%s", place.path);
    return place;
}

static int place_count(const struct place *place)
{
    DIR *dir = opendir(place->dir);
    int count = 0;

    cr_assert_neq(dir, NULL);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count - 2; /* . and .. */
}

static void place_remove(const struct place *place)
{
    (void)unlink(place->path);
    cr_assert_eq(rmdir(place->dir), 0, "files were left in %s", place->dir);
}

/* What a server leaves behind that dies. */
static void left_over_make(const struct place *place)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", place->path);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    (void)close(fd);
}

static struct sl_port *port_open(void)
{
    struct sl_port *port;

    cr_assert_eq(sl_link_local.open(NULL, &port), SEALANE_OK);
    return port;
}

static bool can_connect(const char *address)
{
    struct sl_port *port = port_open();
    struct sl_link_event event;
    struct sl_link *link;

    cr_assert_eq(sl_link_local.connect(port, address, &link), SEALANE_OK);
    cr_assert(event_next(&sl_link_local, port, &event, EVENT_LIMIT_MS));
    sl_link_local.close(port);
    return event.kind == SL_LINK_CONNECTED;
}

Test(link_local_files, replaces_what_a_dead_server_left_and_leaves_nothing)
{
    struct place place = place_make();
    struct sl_port *port = port_open();

    left_over_make(&place);
    cr_assert_eq(sl_link_local.listen(port, place.address, NULL), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(place_count(&place), 1);
    cr_assert(can_connect(place.address));
    sl_link_local.close(port);
    cr_assert_eq(place_count(&place), 0);
    place_remove(&place);
}

Test(link_local_files, does_not_replace_a_living_server_or_a_plain_file)
{
    struct place place = place_make();
    struct sl_port *port = port_open(), *other = port_open();
    FILE *file = fopen(place.path, "w");

    cr_assert_neq(file, NULL);
    (void)fclose(file);
    cr_assert_eq(sl_link_local.listen(port, place.address, NULL), SEALANE_ALREADY_EXISTS);
    cr_assert_eq(access(place.path, F_OK), 0);
    (void)unlink(place.path);
    cr_assert_eq(sl_link_local.listen(port, place.address, NULL), SEALANE_OK);
    cr_assert_eq(sl_link_local.listen(other, place.address, NULL), SEALANE_ALREADY_EXISTS);
    cr_assert(can_connect(place.address));
    sl_link_local.close(other);
    cr_assert(can_connect(place.address), "the end of the refused one ended the first");
    sl_link_local.close(port);
    place_remove(&place);
}

Test(link_local_files, does_not_remove_a_file_that_is_no_longer_its_own)
{
    struct place place = place_make();
    struct sl_port *port = port_open();

    cr_assert_eq(sl_link_local.listen(port, place.address, NULL), SEALANE_OK);
    cr_assert_eq(unlink(place.path), 0);
    left_over_make(&place);
    sl_link_local.close(port);
    cr_assert_eq(place_count(&place), 1);
    place_remove(&place);
}

struct starter {
    const struct place *place;
    pthread_barrier_t *barrier;
    struct sl_port *port;
    enum sealane_status status;
};

static void *starter_run(void *context)
{
    struct starter *starter = context;

    (void)pthread_barrier_wait(starter->barrier);
    starter->status = sl_link_local.listen(starter->port, starter->place->address, NULL);
    return NULL;
}

Test(link_local_files, lets_one_of_two_win_that_replace_a_dead_server_at_once)
{
    struct place place = place_make();
    pthread_barrier_t barrier;

    cr_assert_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
    for (int round = 0; round < 200; round++) {
        struct starter starters[2] = {{&place, &barrier, port_open(), SEALANE_OK},
                                      {&place, &barrier, port_open(), SEALANE_OK}};
        pthread_t thread;

        left_over_make(&place);
        cr_assert_eq(pthread_create(&thread, NULL, starter_run, &starters[0]), 0);
        (void)starter_run(&starters[1]);
        (void)pthread_join(thread, NULL);
        cr_assert_eq((starters[0].status == SEALANE_OK) + (starters[1].status == SEALANE_OK), 1);
        cr_assert_eq((starters[0].status == SEALANE_ALREADY_EXISTS) +
                         (starters[1].status == SEALANE_ALREADY_EXISTS),
                     1);
        cr_assert(can_connect(place.address), "nobody is at the address in round %d", round);
        sl_link_local.close(starters[0].port);
        sl_link_local.close(starters[1].port);
        cr_assert_eq(place_count(&place), 0);
    }
    (void)pthread_barrier_destroy(&barrier);
    place_remove(&place);
}

Test(link_local_files, has_the_mode_of_the_umask_and_says_what_failed)
{
    struct place place = place_make();
    struct sl_port *port = port_open();
    mode_t before = umask(077);
    struct stat info;

    cr_assert_eq(sl_link_local.listen(port, place.address, NULL), SEALANE_OK);
    (void)umask(before);
    cr_assert_eq(stat(place.path, &info), 0);
    cr_assert_eq(info.st_mode & 077, 0);
    cr_assert_eq(sl_link_local.listen(port, "unix:/no/such/directory/socket", NULL),
                 SEALANE_NOT_FOUND);
    cr_assert_neq(strstr(sealane_last_error()->message, "/no/such/directory/socket"), NULL);
    sl_link_local.close(port);
    place_remove(&place);
}

Test(link_local_files, takes_names_up_to_the_limit_that_it_tells)
{
    struct sl_port *port = port_open();
    char address[128];
    unsigned most = 0;

    cr_assert_eq(sl_link_local.listen(port, malformed[2], NULL), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sscanf(strstr(sealane_last_error()->message, "expected 1 to"), "expected 1 to %u",
                        &most),
                 1);
    (void)snprintf(address, sizeof(address), "unix:/tmp/sealane-%06d-%.*s", (int)getpid(),
                   (int)most - 20, LONG_NAME);
    cr_assert_eq(strlen(address), most + strlen("unix:"));
    cr_assert_eq(sl_link_local.listen(port, address, NULL), SEALANE_OK);
    cr_assert(can_connect(address));
    sl_link_local.close(port);
}

/* ---- limits ---- */

static int gone_count(struct sl_port *port, const char *with)
{
    struct sl_link_event event;
    int count = 0;

    while (event_next(&sl_link_local, port, &event, 20))
        count += event.kind == SL_LINK_GONE && strstr(event.why, with);
    return count;
}

Test(link_local, tells_gone_when_the_backlog_is_full)
{
    struct link_pair pair;
    struct sl_link *link;

    ports_open(&pair, &abstract_world);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(sl_link_local.connect(pair.sides[CONNECTING].port, pair.address, &link),
                     SEALANE_OK);
    cr_assert_gt(gone_count(pair.sides[CONNECTING].port, "backlog is full"), 50);
    pair_down(&pair);
}

/* Peers that cannot be taken in are turned away: left in the backlog they would keep an armed port awake for ever. */
Test(link_local, turns_peers_away_when_descriptors_run_out)
{
    struct link_pair pair;
    struct sl_link *links[2];
    struct sl_link_event event;
    struct rlimit limit, none;
    int next;

    ports_open(&pair, &abstract_world);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sl_link_local.connect(pair.sides[CONNECTING].port, pair.address, &links[0]),
                     SEALANE_OK);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    next = dup(0);
    (void)close(next);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(sl_link_local.poll(pair.sides[ACCEPTING].port, &event, 1), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(gone_count(pair.sides[CONNECTING].port, "the peer closed"), 3);
    event_expect_none(&pair, ACCEPTING);
    connect_more(&pair, links);
    pair_down(&pair);
}

Test(link_local, says_again_when_the_arrival_page_is_full)
{
    enum {
        ENTRIES = 4096
    };
    struct link_pair pair;

    pair_up(&pair, &abstract_world);
    for (uint32_t i = 0; i < ENTRIES; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, i % SLOTS, i), SEALANE_OK);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 0), SL_AGAIN);
    cr_assert_eq(pair.sides[CONNECTING].link->posted, ENTRIES);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 0);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, ENTRIES), SEALANE_OK);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 0), SL_AGAIN);
    for (uint32_t i = 1; i <= ENTRIES; i++)
        cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, i);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

/* A peer that writes as fast as it can delays others by its turn, not for as long as it likes: neither their arrivals nor what
 * comes by the sockets. */
Test(link_local, gives_every_link_its_turn)
{
    enum {
        MAX = 16
    };
    struct sl_link_event events[MAX];
    struct link_pair loud, quiet;
    struct sl_link *links[2];
    bool arrived = false, bytes = false;

    pair_up(&loud, &abstract_world);
    quiet = loud;
    connect_more(&loud, links);
    for (int side = 0; side < 2; side++)
        quiet.sides[side].link = links[side];
    side_grant(&quiet, ACCEPTING);
    side_grant(&quiet, CONNECTING);
    side_attach(&quiet, CONNECTING);
    side_attach(&quiet, ACCEPTING);
    cr_assert_eq(write_to(&quiet, CONNECTING, SL_RING_MESSAGE, 0, 0), SEALANE_OK);
    cr_assert_eq(sl_link_local.send(links[CONNECTING], (const uint8_t *)"me too", 6), SEALANE_OK);
    for (uint32_t round = 0; round < 100; round++) {
        int count;

        for (uint32_t i = 0; i < 4 * MAX; i++)
            (void)write_to(&loud, CONNECTING, SL_RING_MESSAGE, i % SLOTS, i);
        count = sl_link_local.poll(loud.sides[ACCEPTING].port, events, MAX);
        for (int i = 0; i < count; i++) {
            arrived |= events[i].link == links[ACCEPTING] && events[i].kind == SL_LINK_ARRIVED;
            bytes |= events[i].link == links[ACCEPTING] && events[i].kind == SL_LINK_BYTES;
        }
    }
    cr_assert(arrived && bytes, "100 polls brought nothing but the loud one");
    for (int side = 0; side < 2; side++) {
        for (int ring = 0; ring < SL_RING_COUNT; ring++)
            sl_memory_ops(loud.memory)->ring_free(loud.memory, &quiet.sides[side].rings[ring]);
    }
    pair_down(&loud);
}

/* ---- other processes ---- */

LINK_CONTRACT_TEST(link_local, &abstract_world,
                   ends_a_dropped_link_although_a_child_holds_its_socket)

/* The child's whole life: it connects, takes the parent's grants, gives its own and writes until it is killed. It answers by its
 * exit status alone. */
static void child_run(const char *address)
{
    struct link_pair pair = {.world = &abstract_world};
    struct link_side *side = &pair.sides[CONNECTING];
    uint8_t grants[SL_RING_COUNT][SL_GRANT_BYTES];
    struct sl_link_event event;
    struct sl_memory *memory;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sources_fill();
    if (sl_memory_host_new(&memory) != SEALANE_OK ||
        sl_link_local.open(NULL, &side->port) != SEALANE_OK ||
        sl_link_local.connect(side->port, address, &side->link) != SEALANE_OK ||
        !event_next(&sl_link_local, side->port, &event, EVENT_LIMIT_MS) ||
        !event_next(&sl_link_local, side->port, &event, EVENT_LIMIT_MS) ||
        event.kind != SL_LINK_BYTES || event.count != sizeof(grants))
        _exit(2);
    memcpy(grants, event.bytes, sizeof(grants));
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        uint8_t mine[SL_GRANT_BYTES];

        if (sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, SLOTS * STRIDE,
                                              &side->rings[ring]) != SEALANE_OK ||
            sl_link_local.grant(side->link, (enum sl_ring_id)ring, &side->rings[ring], STRIDE,
                                mine) != SEALANE_OK ||
            sl_link_local.attach(side->link, (enum sl_ring_id)ring, grants[ring], SLOTS * STRIDE,
                                 STRIDE) != SEALANE_OK ||
            sl_link_local.send(side->link, mine, sizeof(mine)) != SEALANE_OK)
            _exit(3);
    }
    for (uint32_t n = 0;; n++) {
        enum sealane_status status;

        while ((status = write_to(&pair, CONNECTING, SL_RING_MESSAGE, n % SLOTS, n)) == SL_AGAIN)
            (void)sched_yield();
        if (status != SEALANE_OK)
            _exit(4);
    }
}

/* The parent's side of the same, up to the first arrival. */
static pid_t child_start(struct link_pair *pair)
{
    struct link_side *side = &pair->sides[ACCEPTING];
    uint8_t grants[SL_RING_COUNT][SL_GRANT_BYTES];
    pid_t child;

    ports_open(pair, &abstract_world);
    child = fork();
    if (child == 0)
        child_run(pair->address);
    cr_assert_gt(child, 0);
    side->link = event_expect(pair, ACCEPTING, SL_LINK_ACCEPTED).link;
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        cr_assert_eq(sl_memory_ops(pair->memory)
                         ->ring_alloc(pair->memory, SL_PLACE_HOST, SLOTS * STRIDE,
                                      &side->rings[ring]),
                     SEALANE_OK);
        cr_assert_eq(sl_link_local.grant(side->link, (enum sl_ring_id)ring, &side->rings[ring],
                                         STRIDE, grants[ring]),
                     SEALANE_OK);
    }
    cr_assert_eq(sl_link_local.send(side->link, grants[0], sizeof(grants)), SEALANE_OK);
    return child;
}

Test(link_local, tells_gone_after_the_arrivals_when_the_peer_is_killed_while_it_writes)
{
    struct link_pair pair;
    struct sl_link_event event;
    pid_t child = child_start(&pair);
    uint32_t arrived = 0;
    int status;

    do {
        cr_assert(event_next(&sl_link_local, pair.sides[ACCEPTING].port, &event, EVENT_LIMIT_MS));
        if (event.kind == SL_LINK_ARRIVED)
            cr_assert_eq(event.immediate, arrived++);
        if (arrived == 2000 && event.kind == SL_LINK_ARRIVED)
            cr_assert_eq(kill(child, SIGKILL), 0);
    } while (event.kind != SL_LINK_GONE);
    cr_assert_geq(arrived, 2000);
    event_expect_none(&pair, ACCEPTING);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "the child ended by itself: status 0x%x", (unsigned)status);
    pair_down(&pair);
}

Test(link_local, tells_gone_while_it_writes_when_the_peer_is_killed)
{
    struct link_pair pair;
    struct sl_link_event event;
    pid_t child = child_start(&pair);
    struct link_side *side = &pair.sides[ACCEPTING];
    uint8_t grants[SL_RING_COUNT][SL_GRANT_BYTES];
    uint32_t n = 0;

    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        do /* the child writes already */
            cr_assert(event_next(&sl_link_local, side->port, &event, EVENT_LIMIT_MS));
        while (event.kind == SL_LINK_ARRIVED);
        cr_assert_eq(event.kind, SL_LINK_BYTES);
        memcpy(grants[ring], event.bytes, SL_GRANT_BYTES);
        cr_assert_eq(sl_link_local.attach(side->link, (enum sl_ring_id)ring, grants[ring],
                                          SLOTS * STRIDE, STRIDE),
                     SEALANE_OK, "%s", sealane_last_error()->message);
    }
    do {
        enum sealane_status status = write_to(&pair, ACCEPTING, SL_RING_BULK, n % SLOTS, n);

        cr_assert(status == SEALANE_OK || status == SL_AGAIN); /* the child takes nothing */
        if (n++ == 1000)
            cr_assert_eq(kill(child, SIGKILL), 0);
        if (sl_link_local.poll(side->port, &event, 1) == 0)
            event.kind = SL_LINK_ARRIVED;
    } while (event.kind != SL_LINK_GONE);
    event_expect_none(&pair, ACCEPTING);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    pair_down(&pair);
}
