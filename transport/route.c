/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - targets, names, and the order in which carriers are tried. Names are looked up on a thread per lookup: one that the
 * resolver keeps waiting holds up nobody else, and whoever gives the lookup up need not wait for it. */
#include "transport/route.h"

#include "transport/link.h"
#include "transport/log.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HOST_BYTES = 254, /* RFC 1035 2.3.4: a name has at most 253 characters */
    ADDRESSES_MAX = 8,
    WAYS_MAX = ADDRESSES_MAX *
               5 /* an address over two carriers, its twin and those of the two "all addresses" */
};

static const char tcp[] = "tcp", local[] = "local", verbs[] = "verbs";
static const char twin_prefix[] = "unix-abstract:sealane@";

struct way {
    char link[16]; /* "": whichever handles the address */
    char address[SL_ADDRESS_BYTES];
    char text[SL_ADDRESS_BYTES + 24];
};

struct target {
    char host[HOST_BYTES]; /* without brackets; "": all addresses */
    char port[6];
};

enum stage {
    LOOKING, /* the thread has it */
    FOUND,   /* on its way through the inbox */
    TOLD
};

struct sl_route {
    struct sealane_node *node;             /* not the lookup thread's: it may outlive the node */
    const struct sl_link_ops *verbs, *tcp; /* of the node, NULL without */
    struct target target;
    char link[16]; /* forced; "": none */
    bool direct;   /* a carrier handles the target as it is */
    bool listening;
    struct way ways[WAYS_MAX];
    size_t way_count;
    enum sealane_status status;
    char why[200];

    void (*done)(void *owner, struct sl_route *route);
    void *owner;
    struct sl_post post;
    pthread_mutex_t lock; /* stage and dropped, between the node's thread and the lookup's */
    enum stage stage;
    bool dropped; /* nobody wants it: whoever has it frees it */
};

/* ---- targets ---- */

static SEALANE_RESULT malformed(const char *target, const char *what)
{
    return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                   "the target \"%.200s\" %s: expected host:port, [::1]:port, unix:/path or "
                   "unix-abstract:name",
                   target, what);
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits >= 1 && digits <= 5 && text[digits] == '\0' && atoi(text) <= 65535;
}

/* "host:port", "1.2.3.4:port", "[::1]:port", ":port" */
static SEALANE_RESULT target_parse(const char *text, struct target *target_p)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t bytes;

    if (!colon)
        return malformed(text, "has no port");
    if (!is_port(colon + 1))
        return malformed(text, "has a port that is none of 0 to 65535");
    bytes = (size_t)(colon - text);
    if (bytes >= 2 && host[0] == '[' && colon[-1] == ']') {
        host++;
        bytes -= 2;
    } else if (memchr(text, ':', bytes) || memchr(text, '[', bytes) || memchr(text, ']', bytes)) {
        return malformed(text, "has an IPv6 address without brackets");
    }
    if (bytes >= HOST_BYTES)
        return malformed(text, "has a name of more than 253 characters");
    (void)snprintf(target_p->host, sizeof(target_p->host), "%.*s", (int)bytes, host);
    (void)snprintf(target_p->port, sizeof(target_p->port), "%s", colon + 1);
    return SEALANE_OK;
}

static const struct sl_link_ops *link_named(const struct sealane_node *node, const char *name)
{
    const struct sl_link_ops *const *links = sl_node_links(node);

    while (*links && strcmp((*links)->name, name) != 0)
        links++;
    return *links;
}

static bool goes_to_hosts(const char *link)
{
    return strcmp(link, tcp) == 0 || strcmp(link, verbs) == 0;
}

/* A carrier that takes the target as it stands; a host's address may have several and is not such. */
static const struct sl_link_ops *link_direct(const struct sealane_node *node, const char *target)
{
    const struct sl_link_ops *const *links = sl_node_links(node);

    while (*links && (goes_to_hosts((*links)->name) || !(*links)->handles(target)))
        links++;
    return *links;
}

static SEALANE_RESULT check_direct(const struct sl_link_ops *direct,
                                   const struct sl_route_wish *wish)
{
    if (wish->link && wish->link[0] && strcmp(wish->link, direct->name) != 0)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the target \"%.200s\" is reached over %s, not over %s as demanded",
                       wish->target, direct->name, wish->link);
    return SEALANE_OK;
}

static SEALANE_RESULT check_host(const struct sealane_node *node, const struct sl_route_wish *wish,
                                 const struct target *target)
{
    const char *link = wish->link && wish->link[0] ? wish->link : tcp;

    if (!wish->listening && (!target->host[0] || atoi(target->port) == 0))
        return malformed(wish->target, target->host[0] ? "has port 0" : "has no host");
    if (!goes_to_hosts(link) && strcmp(link, local) != 0)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "there is no link \"%.40s\": expected local, verbs or tcp", link);
    if (strcmp(link, local) == 0 && atoi(target->port) == 0)
        return malformed(wish->target, "has port 0, which link local cannot replace by a free one");
    if (!link_named(node, link))
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "this build has no link %s to go to \"%.200s\"", link,
                       wish->target);
    return SEALANE_OK;
}

static SEALANE_RESULT wish_check(const struct sealane_node *node, const struct sl_route_wish *wish,
                                 const struct sl_link_ops **direct_p, struct target *target_p)
{
    *direct_p = link_direct(node, wish->target);
    if (*direct_p)
        return check_direct(*direct_p, wish);
    SL_TRY(target_parse(wish->target, target_p));
    return check_host(node, wish, target_p);
}

SEALANE_RESULT sl_route_check(const struct sealane_node *node, const struct sl_route_wish *wish)
{
    const struct sl_link_ops *direct;
    struct target target;

    return wish_check(node, wish, &direct, &target);
}

bool sl_route_host(const struct sealane_node *node, const char *target, char *host, size_t bytes)
{
    struct target parsed;

    if (link_direct(node, target) || target_parse(target, &parsed) != SEALANE_OK)
        return false;
    /* A scope ("fe80::1%eth0") is this host's business: no certificate has it. */
    (void)snprintf(host, bytes, "%.*s", (int)strcspn(parsed.host, "%"), parsed.host);
    return parsed.host[0] != '\0';
}

/* ---- ways ---- */

static void way_add(struct sl_route *route, const char *link, const char *address)
{
    struct way *way = &route->ways[route->way_count];

    for (size_t i = 0; i < route->way_count; i++) {
        if (strcmp(route->ways[i].address, address) == 0 && strcmp(route->ways[i].link, link) == 0)
            return;
    }
    if (route->way_count == WAYS_MAX)
        return; /* 8 addresses of a name are enough */
    (void)snprintf(way->link, sizeof(way->link), "%s", link);
    (void)snprintf(way->address, sizeof(way->address), "%s", address);
    (void)snprintf(way->text, sizeof(way->text), "%s over %s", address, link);
    route->way_count++;
}

static void twin_add(struct sl_route *route, const char *address)
{
    char twin[SL_ADDRESS_BYTES];

    if (snprintf(twin, sizeof(twin), "%s%s", twin_prefix, address) < (int)sizeof(twin))
        way_add(route, local, twin);
}

/* Where servers of all addresses have their twin. */
static void twins_of_all_add(struct sl_route *route, int family)
{
    char all[32];

    if (family == AF_INET) {
        (void)snprintf(all, sizeof(all), "0.0.0.0:%s", route->target.port);
        twin_add(route, all);
    }
    (void)snprintf(all, sizeof(all), "[::]:%s", route->target.port); /* takes IPv4 in too */
    twin_add(route, all);
}

/* An address that may be bound is one of this host's. */
static bool is_own(const struct addrinfo *info)
{
    struct sockaddr_storage at;
    int fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool own;

    if (fd < 0)
        return false;
    memcpy(&at, info->ai_addr, info->ai_addrlen);
    if (info->ai_family == AF_INET)
        ((struct sockaddr_in *)(void *)&at)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)(void *)&at)->sin6_port = 0;
    own = bind(fd, (const struct sockaddr *)&at, info->ai_addrlen) == 0;
    (void)close(fd);
    return own;
}

/* "1.2.3.4:7000", "[fe80::1%eth0]:7000"; empty when it cannot be written. */
static void numeric(const struct addrinfo *info, char address[SL_ADDRESS_BYTES])
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int bytes = SL_ADDRESS_BYTES;

    address[0] = '\0';
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        bytes = snprintf(address, SL_ADDRESS_BYTES,
                         info->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    if (bytes >= SL_ADDRESS_BYTES)
        address[0] = '\0';
}

/* True when the way may be tried: forced, or, where none is forced, one that the carrier can go here. */
static bool may_go(const struct sl_route *route, const struct sl_link_ops *ops, const char *address)
{
    if (!ops || (route->link[0] && strcmp(route->link, ops->name) != 0))
        return false;
    return route->link[0] || ops->handles(address);
}

static void twins_add(struct sl_route *route, const struct addrinfo *all)
{
    char address[SL_ADDRESS_BYTES];

    for (const struct addrinfo *at = all; at; at = at->ai_next) {
        numeric(at, address);
        if (!address[0] || !(route->link[0] || is_own(at)))
            continue;
        twin_add(route, address);
        twins_of_all_add(route, at->ai_family);
    }
}

static void addresses_add(struct sl_route *route, const struct sl_link_ops *ops,
                          const struct addrinfo *all)
{
    char address[SL_ADDRESS_BYTES];

    for (const struct addrinfo *at = all; at; at = at->ai_next) {
        numeric(at, address);
        if (address[0] && may_go(route, ops, address))
            way_add(route, ops->name, address);
    }
}

static void ways_to_connect(struct sl_route *route, const struct addrinfo *all)
{
    if (!goes_to_hosts(route->link))
        twins_add(route, all);
    addresses_add(route, route->verbs, all);
    addresses_add(route, route->tcp, all);
}

/* Where to listen at an address. Twins and RDMA listeners beside tcp's come when its port is known. */
static void way_to_listen(struct sl_route *route, const char *address)
{
    if (strcmp(route->link, local) == 0)
        twin_add(route, address);
    else
        way_add(route, route->link[0] ? route->link : tcp, address);
}

static void ways_to_listen(struct sl_route *route, const struct addrinfo *all)
{
    char address[SL_ADDRESS_BYTES];

    for (const struct addrinfo *at = all; at; at = at->ai_next) {
        numeric(at, address);
        if (address[0])
            way_to_listen(route, address);
    }
}

/* To listen at all addresses: dual-stack, or IPv4 where there is no IPv6. */
static void ways_of_all(struct sl_route *route)
{
    char address[SL_ADDRESS_BYTES];

    for (int i = 0; i < 2; i++) {
        (void)snprintf(address, sizeof(address), i == 0 ? "[::]:%s" : "0.0.0.0:%s",
                       route->target.port);
        way_to_listen(route, address);
    }
}

/* ---- lookup ---- */

static void lookup_failed(struct sl_route *route, int error)
{
    route->status = error == EAI_MEMORY ? SEALANE_RESOURCE_EXHAUSTED : SEALANE_UNAVAILABLE;
    (void)snprintf(route->why, sizeof(route->why), "the name \"%.120s\" has no address: %s",
                   route->target.host, gai_strerror(error));
}

/* `flags`: AI_NUMERICHOST: only what is no name; then nothing is done for one. False: the host is a name. */
static bool lookup(struct sl_route *route, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *all = NULL;
    int error = getaddrinfo(route->target.host, route->target.port, &hints, &all);

    if (error != 0 && (flags & AI_NUMERICHOST))
        return false;
    if (error != 0) {
        lookup_failed(route, error);
        return true;
    }
    if (route->listening)
        ways_to_listen(route, all);
    else
        ways_to_connect(route, all);
    freeaddrinfo(all);
    if (route->way_count == 0)
        lookup_failed(route, EAI_NONAME);
    return true;
}

/* True when no name has to be looked up; then it has been done. */
static bool lookup_is_quick(struct sl_route *route)
{
    if (!route->direct && !route->target.host[0])
        ways_of_all(route);
    return route->way_count > 0 || lookup(route, AI_NUMERICHOST);
}

static void route_release(struct sl_route *route)
{
    (void)pthread_mutex_destroy(&route->lock);
    free(route);
}

static void tell(struct sl_post *post)
{
    struct sl_route *route =
        (struct sl_route *)(void *)((char *)post - offsetof(struct sl_route, post));

    route->stage = TOLD;
    if (route->dropped)
        route_release(route);
    else
        route->done(route->owner, route);
}

/* Hands the route back to the node, which is there as long as the route is wanted. */
static void found(struct sl_route *route)
{
    bool dropped;

    (void)pthread_mutex_lock(&route->lock);
    dropped = route->dropped;
    route->stage = FOUND;
    if (!dropped)
        sl_node_post(route->node, &route->post);
    (void)pthread_mutex_unlock(&route->lock);
    if (dropped)
        route_release(route);
}

static void *lookup_run(void *argument)
{
    struct sl_route *route = argument;

    (void)lookup(route, 0);
    found(route);
    return NULL;
}

static void lookup_start(struct sl_route *route)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, lookup_run, route) == 0)
        (void)pthread_detach(thread);
    else
        (void)lookup_run(route); /* slower for everybody, but not a failure */
}

/* ---- the room's door ---- */

static SEALANE_RESULT route_new(struct sealane_node *node, const struct sl_route_wish *wish,
                                struct sl_route **route_p)
{
    struct sl_route *route = calloc(1, sizeof(*route));
    const struct sl_link_ops *direct;
    enum sealane_status status;

    if (!route)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a route");
    status = wish_check(node, wish, &direct, &route->target);
    if (status != SEALANE_OK) {
        free(route);
        return status;
    }
    route->node = node;
    route->listening = wish->listening;
    route->done = wish->done;
    route->owner = wish->owner;
    route->post.run = tell;
    (void)snprintf(route->link, sizeof(route->link), "%s", wish->link ? wish->link : "");
    (void)pthread_mutex_init(&route->lock, NULL);
    route->verbs = link_named(node, verbs);
    route->tcp = link_named(node, tcp);
    route->direct = direct != NULL;
    if (direct)
        way_add(route, direct->name, wish->target);
    *route_p = route;
    return SEALANE_OK;
}

SEALANE_RESULT sl_route_find(struct sealane_node *node, const struct sl_route_wish *wish,
                             struct sl_route **route_p)
{
    struct sl_route *route;

    SL_TRY(route_new(node, wish, &route));
    *route_p = route;
    if (lookup_is_quick(route))
        found(route);
    else
        lookup_start(route);
    return SEALANE_OK;
}

SEALANE_RESULT sl_route_find_now(struct sealane_node *node, const struct sl_route_wish *wish,
                                 struct sl_route **route_p)
{
    struct sl_route *route;
    enum sealane_status status;

    SL_TRY(route_new(node, wish, &route));
    if (!lookup_is_quick(route))
        (void)lookup(route, 0);
    route->stage = TOLD;
    status = sl_route_result(route);
    if (status == SEALANE_OK)
        *route_p = route;
    else
        route_release(route);
    return status;
}

SEALANE_RESULT sl_route_result(const struct sl_route *route)
{
    if (route->status != SEALANE_OK)
        return SL_FAIL(route->status, "%s", route->why);
    return SEALANE_OK;
}

const char *sl_route_way(const struct sl_route *route, size_t way)
{
    return way < route->way_count ? route->ways[way].text : NULL;
}

SEALANE_RESULT sl_route_connect(struct sl_route *route, size_t way,
                                const struct sl_lane_options *options, struct sl_lane **lane_p)
{
    struct sl_lane_options mine = *options;

    mine.link = route->ways[way].link;
    return sl_node_connect(route->node, route->ways[way].address, &mine, lane_p);
}

void sl_route_free(struct sl_route *route)
{
    bool told;

    if (!route)
        return;
    (void)pthread_mutex_lock(&route->lock);
    route->dropped = true;
    told = route->stage == TOLD;
    (void)pthread_mutex_unlock(&route->lock);
    if (told)
        route_release(route);
}

/* ---- listening ---- */

void sl_route_unlisten(struct sl_listener *first)
{
    while (first) {
        struct sl_listener *next = sl_listener_next(first);

        sl_node_unlisten(first);
        first = next;
    }
}

/* Listeners as they come. */
struct chain {
    const struct sl_lane_options *options;
    struct sl_listener *first, *last;
};

static SEALANE_RESULT listen_at(struct sl_route *route, const struct way *way, struct chain *chain)
{
    struct sl_lane_options options = *chain->options;
    struct sl_listener *listener;

    options.link = way->link;
    SL_TRY(sl_node_listen(route->node, way->address, &options, &listener));
    if (chain->last)
        sl_listener_chain(chain->last, listener);
    else
        chain->first = listener;
    chain->last = listener;
    return SEALANE_OK;
}

/* Without these a server is reached over tcp only: slower, not less safe. */
static void listen_beside(struct sl_route *route, const char *link, const char *address,
                          struct chain *chain)
{
    struct way way;

    (void)snprintf(way.link, sizeof(way.link), "%s", link);
    (void)snprintf(way.address, sizeof(way.address), "%s", address);
    if (listen_at(route, &way, chain) != SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "nobody comes over %s: %s", link, sealane_last_error()->message);
}

/* Beside a tcp listener: the twin for peers of this host, and RDMA where there is a device. */
static void listen_besides(struct sl_route *route, const char *bound, struct chain *chain)
{
    const struct sl_link_ops *rdma = link_named(route->node, verbs);
    char address[SL_ADDRESS_BYTES], twin[SL_ADDRESS_BYTES];

    (void)snprintf(address, sizeof(address), "%s",
                   bound); /* `bound` is the last listener's, which changes */
    if (snprintf(twin, sizeof(twin), "%s%s", twin_prefix, address) < (int)sizeof(twin) &&
        link_named(route->node, local))
        listen_beside(route, local, twin, chain);
    if (rdma && rdma->handles(address))
        listen_beside(route, verbs, address, chain);
}

/* The port that the system chose for the first address is everyone's. */
static void port_take(struct way *way, const char *bound)
{
    char *mine = strrchr(way->address, ':');
    const char *real = strrchr(bound, ':');

    if (mine && real && strcmp(mine, ":0") == 0)
        (void)snprintf(mine, SL_ADDRESS_BYTES - (size_t)(mine - way->address), "%s", real);
}

/* This host may lack an address that its name has (::1 without IPv6): one that works is enough. */
static bool may_be_missing(enum sealane_status status)
{
    return status == SEALANE_NOT_FOUND || status == SEALANE_UNAVAILABLE;
}

SEALANE_RESULT sl_route_listen(struct sl_route *route, const struct sl_lane_options *options,
                               struct sl_listener **listeners_p)
{
    struct chain chain = {.options = options};
    enum sealane_status status = SEALANE_UNAVAILABLE;

    for (size_t i = 0; i < route->way_count; i++) {
        struct way *way = &route->ways[i];

        if (chain.first)
            port_take(way, sl_listener_address(chain.first));
        status = listen_at(route, way, &chain);
        if (status != SEALANE_OK && !may_be_missing(status))
            break;
        if (status != SEALANE_OK)
            continue;
        if (!route->link[0] && strcmp(way->link, tcp) == 0)
            listen_besides(route, sl_listener_address(chain.last), &chain);
        if (strncmp(way->address, "[::]:", 5) == 0)
            break; /* takes IPv4 in too */
    }
    if (status == SEALANE_OK || (chain.first && may_be_missing(status))) {
        *listeners_p = chain.first;
        return SEALANE_OK;
    }
    sl_route_unlisten(chain.first);
    return status;
}
