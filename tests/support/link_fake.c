/* SPDX-License-Identifier: Apache-2.0 */
/* link_fake.c - see link_fake.h. A crossing is a flight from one link to its peer; it lands when nobody holds it. */
#include "tests/support/link_fake.h"
#include "transport/carrier.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    NAME_BYTES_MAX = 60
};

struct flight {
    struct flight *next_held;   /* in the world, while `held` */
    struct flight *next_posted; /* in `from`, while `posted`: writes, until all before it landed */
    bool held, posted, landed, swapped;
    bool is_end;            /* the GONE that a drop leaves behind held flights */
    struct fake *from, *to; /* NULL once dropped */
    enum link_fake_kind kind;
    const uint8_t *bytes; /* borrowed or own */
    uint8_t *own;
    size_t count;
    struct sl_link_write write; /* writes */
    enum link_fake_what fate;   /* HOLD stands for: nothing special */
};

struct granted {
    uint8_t *base; /* NULL: not granted */
    size_t bytes, stride;
    uint64_t id;
};

struct attached {
    size_t bytes, stride; /* 0: not attached */
};

struct fake {
    struct sl_link link; /* first */
    struct fake *next;   /* of the port */
    struct sl_port *port;
    struct fake *peer; /* NULL once either end is over */
    enum link_fake_from side;
    struct granted granted[SL_RING_COUNT];
    struct attached attached[SL_RING_COUNT];
    struct flight *first_posted, **last_posted;
};

struct event {
    struct event *next;
    struct sl_link_event event;
    uint8_t *own; /* the bytes */
};

struct listening {
    struct listening *next;
    char name[NAME_BYTES_MAX + 1];
};

struct sl_port {
    struct link_fake_world *world;
    struct sl_port *next;
    struct fake *links;
    struct listening *listening;
    struct event *first, **last;
    struct event *told; /* their bytes stay valid until the next poll */
    int wake_fd;
};

struct rule {
    struct rule *next;
    struct link_fake_rule rule;
    uint64_t seen;
};

struct link_fake_world {
    pthread_mutex_t lock;
    struct sl_port *ports;
    struct rule *rules;
    struct flight *held;
    bool hold_all, hold_placed;
    uint64_t grants;
    void (*tap)(void *context, const struct link_fake_crossing *crossing);
    void *tap_context;
};

static struct link_fake_world *current;

static void *make(size_t bytes)
{
    void *at = calloc(1, bytes ? bytes : 1);

    if (!at) {
        (void)fputs("link_fake: no memory\n", stderr);
        abort();
    }
    return at;
}

static struct fake *fake_of(struct sl_link *link)
{
    return (struct fake *)(void *)link;
}

static void enter(struct link_fake_world *world)
{
    (void)pthread_mutex_lock(&world->lock);
}

static void leave(struct link_fake_world *world)
{
    (void)pthread_mutex_unlock(&world->lock);
}

/* ---- events ---- */

static struct sl_link_event *event_push(struct fake *fake, enum sl_link_event_kind kind)
{
    struct sl_port *port = fake->port;
    struct event *event = make(sizeof(*event));
    const uint64_t one = 1;

    event->event.kind = kind;
    event->event.link = &fake->link;
    *port->last = event;
    port->last = &event->next;
    if (write(port->wake_fd, &one, sizeof(one)) < 0)
        abort();
    return &event->event;
}

static void event_push_bytes(struct fake *fake, const uint8_t *bytes, size_t count)
{
    struct sl_link_event *event = event_push(fake, SL_LINK_BYTES);
    uint8_t *own = make(count);

    memcpy(own, bytes, count);
    event->bytes = ((struct event *)(void *)((char *)event - offsetof(struct event, event)))->own =
        own;
    event->count = count;
}

static void event_free(struct event *event)
{
    free(event->own);
    free(event);
}

static void events_purge(struct fake *fake)
{
    struct sl_port *port = fake->port;
    struct event **at = &port->first;

    while (*at) {
        struct event *event = *at;

        if (event->event.link != &fake->link) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        event_free(event);
    }
    port->last = at;
}

/* Both ends are over; each hears it once, and what was told to be under way before that comes first. */
static void end(struct fake *fake, const char *why)
{
    struct sl_link_event *event = event_push(fake, SL_LINK_GONE);

    (void)snprintf(event->why, sizeof(event->why), "%s", why);
    fake->peer = NULL;
}

/* ---- flights ---- */

static void flight_put(struct flight *flight)
{
    if (flight->held || flight->posted)
        return;
    free(flight->own);
    free(flight);
}

static void flight_own(struct flight *flight)
{
    if (flight->own)
        return;
    flight->own = make(flight->count);
    if (flight->count > 0)
        memcpy(flight->own, flight->bytes, flight->count);
    flight->bytes = flight->own;
}

/* The counters rise in posting order only. */
static void settle(struct fake *fake)
{
    while (fake->first_posted && fake->first_posted->landed) {
        struct flight *flight = fake->first_posted;

        fake->first_posted = flight->next_posted;
        if (!fake->first_posted)
            fake->last_posted = &fake->first_posted;
        flight->posted = false;
        flight_put(flight);
        fake->link.released++;
    }
    if (!fake->port->world->hold_placed)
        fake->link.placed = fake->link.released;
}

static void write_land(const struct flight *flight)
{
    const struct granted *ring = &flight->to->granted[flight->write.ring];
    bool bytes_lost = flight->fate == LINK_FAKE_LOSE || flight->fate == LINK_FAKE_LOSE_BYTES;
    bool told = flight->fate != LINK_FAKE_LOSE && flight->fate != LINK_FAKE_LOSE_IMMEDIATE;

    if (!bytes_lost && flight->count > 0)
        memcpy(ring->base + flight->write.slot * ring->stride, flight->bytes, flight->count);
    if (told)
        event_push(flight->to, SL_LINK_ARRIVED)->immediate = flight->write.immediate;
}

/* Once, or twice as told. It must not be held any more. */
static void land(struct flight *flight)
{
    struct fake *from = flight->from;

    for (int i = 0; flight->to && i < (flight->fate == LINK_FAKE_TWICE ? 2 : 1); i++) {
        if (flight->is_end)
            end(flight->to, "the peer closed");
        else if (flight->kind == LINK_FAKE_WRITE)
            write_land(flight);
        else if (flight->fate != LINK_FAKE_LOSE)
            event_push_bytes(flight->to, flight->bytes, flight->count);
    }
    flight->landed = true;
    if (flight->posted)
        settle(from);
    else
        flight_put(flight);
}

static void hold(struct link_fake_world *world, struct flight *flight)
{
    struct flight **at = &world->held;

    while (*at)
        at = &(*at)->next_held;
    *at = flight;
    flight->held = true;
}

static void release_at(struct flight **at)
{
    struct flight *flight = *at;

    *at = flight->next_held;
    flight->held = false;
    land(flight);
}

/* Those that wait for one of their kind to overtake them. */
static void release_swapped(struct link_fake_world *world, const struct fake *from,
                            enum link_fake_kind kind)
{
    struct flight **at = &world->held;

    while (*at) {
        if ((*at)->swapped && (*at)->from == from && (*at)->kind == kind)
            release_at(at);
        else
            at = &(*at)->next_held;
    }
}

static bool holds_for(const struct link_fake_world *world, const struct fake *to)
{
    for (const struct flight *at = world->held; at; at = at->next_held) {
        if (at->to == to)
            return true;
    }
    return false;
}

static void release_n(struct link_fake_world *world, size_t n)
{
    while (n-- > 0 && world->held)
        release_at(&world->held);
}

/* ---- rules ---- */

static bool rule_fits(const struct link_fake_rule *rule, const struct link_fake_crossing *crossing)
{
    return rule->kind == crossing->kind &&
           (rule->from == LINK_FAKE_EITHER || rule->from == crossing->from) &&
           (rule->kind == LINK_FAKE_SEND || rule->any_ring || rule->ring == crossing->ring);
}

/* The rule that acts on this crossing, or NULL. Refusals are judged apart: what is refused has not crossed. */
static const struct link_fake_rule *judge(struct link_fake_world *world,
                                          const struct link_fake_crossing *crossing, bool refusals)
{
    const struct link_fake_rule *found = NULL;

    for (struct rule *at = world->rules; at; at = at->next) {
        uint64_t times = at->rule.times ? at->rule.times : 1, n;

        if ((at->rule.what == LINK_FAKE_AGAIN) != refusals || !rule_fits(&at->rule, crossing))
            continue;
        n = at->seen++;
        if (!found && n >= at->rule.nth && n - at->rule.nth < times)
            found = &at->rule;
    }
    return found;
}

static void cut(struct fake *fake)
{
    struct fake *peer = fake->peer;

    if (!peer)
        return;
    for (struct flight **at = &fake->port->world->held; *at;) {
        struct flight *flight = *at;

        if (flight->to != peer && flight->to != fake) {
            at = &flight->next_held;
            continue;
        }
        flight->to = NULL; /* lost */
        release_at(at);
    }
    end(fake, "the carrier broke: the test cut it");
    end(peer, "the carrier broke: the test cut it");
}

static void alter(struct flight *flight, const struct link_fake_rule *rule)
{
    flight_own(flight);
    if (rule->what == LINK_FAKE_CHANGE)
        rule->change(rule->context, flight->own, flight->count);
    else if (flight->count > 0)
        flight->own[rule->bit / 8 % flight->count] ^= (uint8_t)(1u << rule->bit % 8);
}

/* Takes off: held, altered or straight to its end. */
static void take_off(struct fake *fake, struct flight *flight, const struct link_fake_rule *rule)
{
    struct link_fake_world *world = fake->port->world;
    enum link_fake_kind kind = flight->kind;

    flight->fate = rule ? rule->what : LINK_FAKE_HOLD;
    flight->swapped = flight->fate == LINK_FAKE_SWAP;
    if (flight->fate == LINK_FAKE_CUT) {
        flight->to = NULL;
        land(flight);
        cut(fake);
        return;
    }
    if (flight->fate == LINK_FAKE_FLIP || flight->fate == LINK_FAKE_CHANGE)
        alter(flight, rule);
    if (world->hold_all || flight->swapped || (rule && rule->what == LINK_FAKE_HOLD)) {
        hold(world, flight);
        return;
    }
    land(flight);
    release_swapped(world, fake, kind);
}

/* NULL: refused. */
static struct flight *post(struct fake *fake, const struct link_fake_crossing *crossing)
{
    struct link_fake_world *world = fake->port->world;
    struct flight *flight;

    if (judge(world, crossing, true))
        return NULL;
    if (world->tap)
        world->tap(world->tap_context, crossing);
    flight = make(sizeof(*flight));
    flight->from = fake;
    flight->to = fake->peer;
    flight->kind = crossing->kind;
    flight->bytes = crossing->bytes;
    flight->count = crossing->count;
    return flight;
}

/* ---- the provider ---- */

static bool fake_handles(const char *address)
{
    return strncmp(address, "fake:", 5) == 0;
}

static SEALANE_RESULT address_check(const char *address)
{
    size_t bytes = fake_handles(address) ? strlen(address) - 5 : 0;

    if (bytes == 0 || bytes > NAME_BYTES_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the address \"%.100s\" has a name of %zu bytes, expected 1 to %d", address,
                       bytes, NAME_BYTES_MAX);
    return SEALANE_OK;
}

static SEALANE_RESULT fake_open(const struct sl_link_settings *settings, struct sl_port **port_p)
{
    struct sl_port *port;

    (void)settings;
    if (!current)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "no link_fake_world was made");
    port = make(sizeof(*port));
    port->world = current;
    port->last = &port->first;
    port->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->wake_fd < 0) {
        free(port);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no eventfd for a port");
    }
    enter(current);
    port->next = current->ports;
    current->ports = port;
    leave(current);
    *port_p = port;
    return SEALANE_OK;
}

static struct sl_port *listener_find(struct link_fake_world *world, const char *name)
{
    for (struct sl_port *port = world->ports; port; port = port->next) {
        for (struct listening *at = port->listening; at; at = at->next) {
            if (strcmp(at->name, name) == 0)
                return port;
        }
    }
    return NULL;
}

static SEALANE_RESULT fake_listen(struct sl_port *port, const char *address,
                                  char bound[SL_ADDRESS_BYTES])
{
    struct listening *listening;
    bool taken;

    SL_TRY(address_check(address));
    enter(port->world);
    taken = listener_find(port->world, address + 5) != NULL;
    if (!taken) {
        listening = make(sizeof(*listening));
        (void)snprintf(listening->name, sizeof(listening->name), "%s", address + 5);
        if (bound)
            (void)snprintf(bound, SL_ADDRESS_BYTES, "%s", address);
        listening->next = port->listening;
        port->listening = listening;
    }
    leave(port->world);
    if (taken)
        return SL_FAIL(SEALANE_ALREADY_EXISTS, "somebody listens at \"%s\"", address);
    return SEALANE_OK;
}

static struct fake *link_make(struct sl_port *port, enum link_fake_from side)
{
    struct fake *fake = make(sizeof(*fake));

    fake->link.ops = &link_fake;
    fake->port = port;
    fake->side = side;
    fake->last_posted = &fake->first_posted;
    fake->next = port->links;
    port->links = fake;
    return fake;
}

static SEALANE_RESULT fake_connect(struct sl_port *port, const char *address,
                                   struct sl_link **link_p)
{
    struct sl_port *far;
    struct fake *fake;

    SL_TRY(address_check(address));
    enter(port->world);
    fake = link_make(port, LINK_FAKE_CLIENT);
    far = listener_find(port->world, address + 5);
    if (far) {
        fake->peer = link_make(far, LINK_FAKE_SERVER);
        fake->peer->peer = fake;
        (void)event_push(fake->peer, SL_LINK_ACCEPTED);
        (void)event_push(fake, SL_LINK_CONNECTED);
    } else {
        end(fake, "cannot connect: nobody listens there");
    }
    leave(port->world);
    *link_p = &fake->link;
    return SEALANE_OK;
}

/* What this link posted still flies, with bytes of its own; what flies to it has no end any more. */
static void flights_part(struct fake *fake)
{
    for (struct flight *at = fake->port->world->held; at; at = at->next_held) {
        if (at->from == fake) {
            flight_own(at);
            at->posted = at->swapped = false;
            at->from = NULL;
        }
        if (at->to == fake)
            at->to = NULL;
    }
}

static void posted_free(struct fake *fake)
{
    while (fake->first_posted) {
        struct flight *flight = fake->first_posted;

        fake->first_posted = flight->next_posted;
        flight->posted = false;
        flight_put(flight);
    }
}

static void peer_end(struct link_fake_world *world, struct fake *peer)
{
    struct flight *flight;

    if (!holds_for(world, peer)) {
        end(peer, "the peer closed");
        return;
    }
    flight = make(sizeof(*flight));
    flight->is_end = true;
    flight->to = peer;
    hold(world, flight);
    peer->peer = NULL;
}

static void drop(struct fake *fake)
{
    struct fake **at = &fake->port->links;
    struct fake *peer = fake->peer;

    while (*at != fake)
        at = &(*at)->next;
    *at = fake->next;
    posted_free(fake);
    flights_part(fake);
    events_purge(fake);
    if (peer)
        peer_end(fake->port->world, peer);
    free(fake);
}

static void fake_drop(struct sl_link *link)
{
    struct link_fake_world *world = fake_of(link)->port->world;

    enter(world);
    drop(fake_of(link));
    leave(world);
}

static void told_free(struct sl_port *port)
{
    while (port->told) {
        struct event *event = port->told;

        port->told = event->next;
        event_free(event);
    }
}

static void fake_close(struct sl_port *port)
{
    struct link_fake_world *world = port->world;
    struct sl_port **at = &world->ports;

    enter(world);
    while (port->links)
        drop(port->links);
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    leave(world);
    while (port->listening) {
        struct listening *next = port->listening->next;

        free(port->listening);
        port->listening = next;
    }
    told_free(port);
    (void)close(port->wake_fd);
    free(port);
}

static SEALANE_RESULT fake_grant(struct sl_link *link, enum sl_ring_id ring,
                                 const struct sl_ring_memory *memory, size_t stride,
                                 uint8_t descriptor[SL_GRANT_BYTES])
{
    struct fake *fake = fake_of(link);
    struct link_fake_world *world = fake->port->world;

    if (stride == 0 || stride > memory->bytes)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a stride of %zu in a ring of %zu bytes", stride,
                       memory->bytes);
    if (fake->granted[ring].base)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is granted already", (int)ring);
    SL_TRY(sl_ring_is_hosts(memory, "fake"));
    enter(world);
    fake->granted[ring] = (struct granted){
        .base = memory->base, .bytes = memory->bytes, .stride = stride, .id = ++world->grants};
    memset(descriptor, 0, SL_GRANT_BYTES);
    memcpy(descriptor, &fake->granted[ring].id, sizeof(uint64_t));
    leave(world);
    return SEALANE_OK;
}

static SEALANE_RESULT fake_attach(struct sl_link *link, enum sl_ring_id ring,
                                  const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes,
                                  size_t stride)
{
    struct fake *fake = fake_of(link);
    struct link_fake_world *world = fake->port->world;
    struct granted seen = {0};
    uint64_t id;

    if (fake->attached[ring].stride)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is attached already", (int)ring);
    memcpy(&id, descriptor, sizeof(id));
    enter(world);
    if (fake->peer)
        seen = fake->peer->granted[ring];
    leave(world);
    if (!seen.base || seen.id != id)
        return SL_FAIL(SEALANE_DATA_LOSS, "the peer did not grant this ring");
    if (stride == 0 || stride > bytes || bytes > seen.bytes || stride != seen.stride)
        return SL_FAIL(SEALANE_DATA_LOSS, "a ring of %zu bytes by %zu, granted were %zu by %zu",
                       bytes, stride, seen.bytes, seen.stride);
    fake->attached[ring] = (struct attached){.bytes = bytes, .stride = stride};
    return SEALANE_OK;
}

static SEALANE_RESULT fake_sources(struct sl_link *link, const void *base, size_t bytes)
{
    (void)link;
    (void)base;
    (void)bytes;
    return SEALANE_OK;
}

static void fake_forget(struct sl_link *link, const void *base)
{
    (void)link;
    (void)base;
}

static SEALANE_RESULT fake_send(struct sl_link *link, const uint8_t *bytes, size_t count)
{
    struct fake *fake = fake_of(link);
    struct link_fake_crossing crossing = {
        .kind = LINK_FAKE_SEND, .from = fake->side, .bytes = bytes, .count = count};
    struct flight *flight = NULL;
    bool over;

    if (count == 0 || count > SL_LINK_SEND_BYTES)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a send of %zu bytes, expected 1 to %d", count,
                       SL_LINK_SEND_BYTES);
    enter(fake->port->world);
    over = !fake->peer;
    if (!over)
        flight = post(fake, &crossing);
    if (flight) {
        flight_own(flight);
        take_off(fake, flight, judge(fake->port->world, &crossing, false));
    } else if (!over) {
        (void)event_push(fake, SL_LINK_WRITABLE);
    }
    leave(fake->port->world);
    if (over)
        return SL_FAIL(SEALANE_UNAVAILABLE, "the peer is gone");
    return flight ? SEALANE_OK : SL_AGAIN;
}

static bool write_post(struct fake *fake, const struct sl_link_write *write)
{
    struct link_fake_crossing crossing = {.kind = LINK_FAKE_WRITE,
                                          .from = fake->side,
                                          .bytes = write->from,
                                          .count = write->bytes,
                                          .ring = write->ring,
                                          .slot = write->slot,
                                          .immediate = write->immediate};
    struct flight *flight = post(fake, &crossing);

    if (!flight)
        return false;
    flight->write = *write;
    flight->posted = true;
    *fake->last_posted = flight;
    fake->last_posted = &flight->next_posted;
    fake->link.posted++;
    take_off(fake, flight, judge(fake->port->world, &crossing, false));
    return true;
}

static SEALANE_RESULT fake_write_imm(struct sl_link *link, const struct sl_link_write *write)
{
    struct fake *fake = fake_of(link);
    const struct attached *ring = &fake->attached[write->ring];
    size_t at = write->slot * ring->stride;
    bool posted;

    if (!ring->stride || write->slot >= ring->bytes / ring->stride ||
        write->bytes > ring->bytes - at)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a write of %zu bytes at slot %u of a ring of %zu bytes by %zu",
                       write->bytes, write->slot, ring->bytes, ring->stride);
    enter(fake->port->world);
    posted = write_post(fake, write);
    leave(fake->port->world);
    return posted ? SEALANE_OK : SL_AGAIN;
}

static int fake_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    uint64_t drained;
    int count = 0;

    enter(port->world);
    (void)!read(port->wake_fd, &drained, sizeof(drained));
    told_free(port);
    while (port->first && count < max) {
        struct event *event = port->first;

        port->first = event->next;
        if (!port->first)
            port->last = &port->first;
        event->next = port->told;
        port->told = event;
        events[count++] = event->event;
        if (event->event.kind == SL_LINK_ACCEPTED)
            break; /* the holder may drop it at once: nothing else of it in this poll */
    }
    leave(port->world);
    return count;
}

static int fake_arm(struct sl_port *port)
{
    bool any;

    enter(port->world);
    any = port->first != NULL;
    leave(port->world);
    return any ? -1 : port->wake_fd;
}

const struct sl_link_ops link_fake = {
    .name = "fake",
    .handles = fake_handles,
    .open = fake_open,
    .close = fake_close,
    .listen = fake_listen,
    .connect = fake_connect,
    .drop = fake_drop,
    .grant = fake_grant,
    .attach = fake_attach,
    .sources = fake_sources,
    .forget = fake_forget,
    .send = fake_send,
    .write_imm = fake_write_imm,
    .poll = fake_poll,
    .arm = fake_arm,
};

/* ---- commands ---- */

struct link_fake_world *link_fake_world_new(void)
{
    struct link_fake_world *world = make(sizeof(*world));

    (void)pthread_mutex_init(&world->lock, NULL);
    current = world;
    return world;
}

void link_fake_forget_rules(struct link_fake_world *world)
{
    enter(world);
    while (world->rules) {
        struct rule *next = world->rules->next;

        free(world->rules);
        world->rules = next;
    }
    leave(world);
}

void link_fake_world_free(struct link_fake_world *world)
{
    link_fake_forget_rules(world);
    release_n(world, SIZE_MAX); /* to nobody */
    (void)pthread_mutex_destroy(&world->lock);
    if (current == world)
        current = NULL;
    free(world);
}

void link_fake_rule(struct link_fake_world *world, const struct link_fake_rule *rule)
{
    struct rule *made = make(sizeof(*made)), **at = &world->rules;

    made->rule = *rule;
    enter(world);
    while (*at)
        at = &(*at)->next;
    *at = made;
    leave(world);
}

void link_fake_tap(struct link_fake_world *world,
                   void (*tap)(void *context, const struct link_fake_crossing *crossing),
                   void *context)
{
    enter(world);
    world->tap = tap;
    world->tap_context = context;
    leave(world);
}

size_t link_fake_held(struct link_fake_world *world)
{
    size_t count = 0;

    enter(world);
    for (const struct flight *at = world->held; at; at = at->next_held)
        count++;
    leave(world);
    return count;
}

size_t link_fake_release(struct link_fake_world *world, size_t n)
{
    size_t held = link_fake_held(world);

    enter(world);
    release_n(world, n);
    leave(world);
    return n < held ? n : held;
}

void link_fake_hold_all(struct link_fake_world *world, bool hold)
{
    enter(world);
    world->hold_all = hold;
    if (!hold)
        release_n(world, SIZE_MAX);
    leave(world);
}

void link_fake_hold_placed(struct link_fake_world *world, bool hold)
{
    enter(world);
    world->hold_placed = hold;
    for (struct sl_port *port = world->ports; port; port = port->next) {
        for (struct fake *at = port->links; at; at = at->next)
            settle(at);
    }
    leave(world);
}

void link_fake_cut(struct link_fake_world *world)
{
    enter(world);
    for (struct sl_port *port = world->ports; port; port = port->next) {
        for (struct fake *at = port->links; at; at = at->next)
            cut(at);
    }
    leave(world);
}
