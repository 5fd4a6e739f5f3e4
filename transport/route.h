/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - from a target that a person writes to the ways there: which carrier, at which address, in which order.
 *
 *   "unix:/path", "unix-abstract:name"   one way, over link_local
 *   "host:port"                          host is a name, "1.2.3.4", "[::1]" (listening: also "" for all addresses)
 *
 * A server at host:port listens at every address of host, and beside each at a twin: the abstract AF_UNIX name
 * "sealane@<address>:<port>". A client of an address of this host tries the twins first, then tcp. Abstract names belong to a
 * network namespace, as addresses do; whoever squats on one fails the certificate check, and the next way is tried.
 */
#ifndef SL_ROUTE_H
#define SL_ROUTE_H

#include "transport/node.h"

struct sl_route;

/* What is wanted. The strings are copied. */
struct sl_route_wish {
    const char *target;
    const char *link; /* "local", "verbs", "tcp": only that carrier; NULL or "": the best first */
    bool listening;   /* ways to listen at, not to connect to */
    void (*done)(void *owner, struct sl_route *route); /* sl_route_find only */
    void *owner;
};

/* INVALID_ARGUMENT for a malformed target, an unknown carrier, or one that does not go there; UNIMPLEMENTED when no carrier of the
 * node goes there. Looks nothing up. Any thread. */
SEALANE_RESULT sl_route_check(const struct sealane_node *node, const struct sl_route_wish *wish);

/* The host of "host:port", which a server's certificate must carry unless another name is wanted; false for other targets. */
bool sl_route_host(const struct sealane_node *node, const char *target, char *host, size_t bytes);

/* Looks up in the background: `done` runs once in a coming turn, on the node's thread, unless the route is freed before. A lookup may
 * take as long as the system's resolver likes; nothing waits for it. */
SEALANE_RESULT sl_route_find(struct sealane_node *node, const struct sl_route_wish *wish,
                             struct sl_route **route_p);

/* The same at once: blocks while a name is looked up. UNAVAILABLE when it is not known. Any thread. */
SEALANE_RESULT sl_route_find_now(struct sealane_node *node, const struct sl_route_wish *wish,
                                 struct sl_route **route_p);

/* In done: whether there are ways; UNAVAILABLE when the name is not known. */
SEALANE_RESULT sl_route_result(const struct sl_route *route);

/* "unix-abstract:sealane@127.0.0.1:7000 over local"; NULL past the last way. The route's. */
const char *sl_route_way(const struct sl_route *route, size_t way);

/* Starts a lane on that way: as sl_node_connect. */
SEALANE_RESULT sl_route_connect(struct sl_route *route, size_t way,
                                const struct sl_lane_options *options, struct sl_lane **lane_p);

/* Listens at all ways, twins included. The listeners are a chain: sl_listener_next. A port 0 becomes the same free port everywhere. */
SEALANE_RESULT sl_route_listen(struct sl_route *route, const struct sl_lane_options *options,
                               struct sl_listener **listeners_p);

/* Ends all listeners of a chain, and their lanes with CLOSED, as sl_node_unlisten. */
void sl_route_unlisten(struct sl_listener *listeners);

/* Node's thread. Ends a lookup under way. NULL is fine. */
void sl_route_free(struct sl_route *route);

#endif
