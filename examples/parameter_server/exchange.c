/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - connecting to all shards, waiting for all of them, and what is said when one fails. */
#include "exchange_inside.h"

#include "identity.h"
#include "stop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    POLL_MS = 100,
    CONNECT_S = 10, /* or --timeout-s, when that is less */
    CONNECT_PAUSE_MS = 50,
    CONNECT_PAUSE_MAX_MS = 1000,
    LINGER_MS = 300,
    ANSWER_MS = 10000 /* to what a server answers at once */
};

/* ---- failing ---- */

void exchange_fail(const struct peer *peer, const char *doing, enum sealane_status status,
                   const char *message)
{
    struct exchange *exchange = peer->exchange;

    if (exchange->failed)
        return;
    exchange->failed = true;
    (void)snprintf(exchange->why, sizeof(exchange->why), "shard %zu at %s: %s: %s: %s", peer->index,
                   peer->address, doing, sealane_status_name(status), message);
}

void exchange_fail_last(const struct peer *peer, const char *doing)
{
    exchange_fail(peer, doing, sealane_last_error()->status, sealane_last_error()->message);
}

static bool going(const struct exchange *exchange)
{
    return !exchange->failed && !stop_signal();
}

bool exchange_round(struct exchange *exchange)
{
    while (going(exchange) && exchange->waiting > 0) {
        if (sealane_node_poll(exchange->node, POLL_MS) == SEALANE_OK)
            continue;
        exchange->failed = true;
        (void)snprintf(exchange->why, sizeof(exchange->why), "polling: %s",
                       sealane_last_error()->message);
    }
    return going(exchange);
}

/* ---- connecting ---- */

/* When a server that is still starting has been waited for long enough. */
static double limit_s(const struct exchange *exchange)
{
    uint64_t timeout_s = exchange->options->timeout_s;

    return clock_s() + (timeout_s < CONNECT_S ? (double)timeout_s : CONNECT_S);
}

static bool read_address(const char *path, char address[128])
{
    FILE *file = fopen(path, "r");
    bool good = file && fgets(address, 128, file) != NULL;

    if (file)
        (void)fclose(file);
    if (good)
        address[strcspn(address, "\n")] = '\0';
    return good;
}

/* An address, or "@file" that a server writes when it knows its own. */
static bool find_address(struct peer *peer, const char *text)
{
    struct exchange *exchange = peer->exchange;
    double until = limit_s(exchange);

    (void)snprintf(peer->address, sizeof(peer->address), "%s", text);
    if (text[0] != '@')
        return true;
    while (!read_address(text + 1, peer->address)) {
        if (clock_s() > until || stop_signal()) {
            exchange_fail(peer, "looking for its address", SEALANE_NOT_FOUND, strerror(errno));
            return false;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = CONNECT_PAUSE_MS * 1000000L}, NULL);
    }
    return true;
}

/* Again and again, with the channel's pauses, while there is no server. */
static bool connect_peer(const struct peer *peer)
{
    double until = limit_s(peer->exchange);
    enum sealane_status status;

    do
        status = sealane_channel_connect(peer->channel, ANSWER_MS);
    while (status == SEALANE_UNAVAILABLE && clock_s() < until && !stop_signal());
    if (status != SEALANE_OK)
        exchange_fail_last(peer, "connecting");
    return status == SEALANE_OK;
}

/* Addresses given in the wrong order would mix the weights up without anybody noticing. */
static bool check_shard(const struct peer *peer)
{
    const struct exchange *exchange = peer->exchange;
    const struct options *options = exchange->options;
    ParameterServer__V1__DescribeRequest request = PARAMETER_SERVER__V1__DESCRIBE_REQUEST__INIT;
    struct sealane_call_options call_options = {.timeout_ms = ANSWER_MS};
    const ParameterServer__V1__DescribeReply *reply;
    struct sealane_call *call;
    char message[320];
    bool good;

    if (parameter_server_v1_parameter_server_describe(peer->channel, &request, &call_options,
                                                      &reply, &call) != SEALANE_OK) {
        exchange_fail_last(peer, "describe");
        return false;
    }
    good = reply->shard == peer->index && reply->shards == exchange->peer_count &&
           reply->workers == options->workers && reply->asynchronous == options->asynchronous;
    (void)snprintf(message, sizeof(message),
                   "it is shard %u of %u for %u workers in %s mode, expected shard %zu of %zu for "
                   "%llu in %s mode",
                   reply->shard, reply->shards, reply->workers,
                   reply->asynchronous ? "async" : "sync", peer->index, exchange->peer_count,
                   (unsigned long long)options->workers, options->mode);
    if (!good)
        exchange_fail(peer, "describe", SEALANE_FAILED_PRECONDITION, message);
    sealane_call_free(call);
    return good;
}

static void print_lane(const struct peer *peer)
{
    struct sealane_security security;
    char who[96];

    if (sealane_channel_security(peer->channel, &security) != SEALANE_OK)
        return;
    (void)snprintf(who, sizeof(who), "%s, lane to shard %zu", peer->exchange->who, peer->index);
    identity_print(who, &security);
}

static bool open_peer(struct exchange *exchange, size_t index)
{
    struct peer *peer = &exchange->peers[index];
    struct sealane_channel_options wanted = {.credentials = exchange->credentials,
                                             .server_name = exchange->options->server_name,
                                             .link = exchange->options->link,
                                             .dead_after_ms = exchange->options->dead_after_ms,
                                             .lane_grace_ms = UINT32_MAX, /* Join stays open */
                                             .backoff_ms = CONNECT_PAUSE_MS,
                                             .backoff_max_ms = CONNECT_PAUSE_MAX_MS};

    *peer = (struct peer){.exchange = exchange, .index = index};
    if (!find_address(peer, exchange->options->servers.texts[index]))
        return false;
    if (sealane_channel_new(exchange->node, peer->address, &wanted, &peer->channel) != SEALANE_OK) {
        exchange_fail_last(peer, "channel");
        return false;
    }
    if (!connect_peer(peer) || !check_shard(peer))
        return false;
    print_lane(peer);
    return true;
}

bool exchange_open(const struct options *options, struct exchange *exchange)
{
    struct sealane_node_options polled = {.polled = true, .rdma_device = options->rdma_device};

    *exchange = (struct exchange){.options = options, .peer_count = options->servers.count};
    (void)snprintf(exchange->who, sizeof(exchange->who), "worker %llu",
                   (unsigned long long)options->rank);
    exchange->credentials = identity_load(options);
    exchange->peers = calloc(exchange->peer_count, sizeof(*exchange->peers));
    exchange->members = calloc(options->workers, sizeof(*exchange->members));
    if (!exchange->credentials || !exchange->peers || !exchange->members)
        return false;
    if (sealane_node_new(&polled, &exchange->node) != SEALANE_OK) {
        identity_complain(exchange->who, "node");
        return false;
    }
    for (size_t i = 0; i < exchange->peer_count; i++)
        if (!open_peer(exchange, i))
            return false;
    return true;
}

void exchange_explain(struct exchange *exchange)
{
    double until = clock_s() + LINGER_MS / 1000.0;

    while (exchange->node && clock_s() < until && !stop_signal())
        if (sealane_node_poll(exchange->node, LINGER_MS / 10) != SEALANE_OK)
            break;
    if (exchange->why[0] && !stop_signal())
        (void)fprintf(stderr, "%s: %s\n", exchange->who, exchange->why);
}

void exchange_close(struct exchange *exchange)
{
    for (size_t i = 0; exchange->peers && i < exchange->peer_count; i++)
        sealane_channel_free(exchange->peers[i].channel);
    sealane_node_free(exchange->node);
    sealane_credentials_free(exchange->credentials);
    free(exchange->peers);
    free(exchange->members);
    *exchange = (struct exchange){0};
}

uint64_t exchange_step(const struct exchange *exchange)
{
    uint64_t step = UINT64_MAX;

    for (size_t i = 0; i < exchange->peer_count; i++)
        if (exchange->peers[i].step < step)
            step = exchange->peers[i].step;
    return step;
}

double exchange_speed(const struct traffic *traffic)
{
    return traffic->seconds > 0 ? (double)traffic->bytes / traffic->seconds : 0;
}

void exchange_carriage(const struct exchange *exchange, struct carriage *carriage)
{
    *carriage = (struct carriage){.shards = exchange->peer_count,
                                  .pushed_bytes = exchange->pushed.bytes,
                                  .pulled_bytes = exchange->pulled.bytes,
                                  .push_speed = exchange_speed(&exchange->pushed),
                                  .pull_speed = exchange_speed(&exchange->pulled),
                                  .all_push_speed = exchange->all_push,
                                  .all_pull_speed = exchange->all_pull};
    for (size_t i = 0; i < exchange->peer_count; i++) {
        struct sealane_security security;

        if (sealane_channel_security(exchange->peers[i].channel, &security) != SEALANE_OK)
            continue;
        carriage->sealed_bytes += security.sealed_bytes;
        carriage->opened_bytes += security.opened_bytes;
        memcpy(carriage->aead, security.bulk_aead, sizeof(carriage->aead));
        memcpy(carriage->link, security.link, sizeof(carriage->link));
    }
}
