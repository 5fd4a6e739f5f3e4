/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - parameter-server: one shard of one training. */
#include "identity.h"
#include "shard.h"
#include "stop.h"
#include "trainer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 100,
    FAREWELL_S = 5 /* how long workers may take to hear the end and leave */
};

struct server {
    const struct options *options;
    char who[32], address[128];
    struct shard shard;
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct sealane_server *server;
    size_t lanes;
};

/* Why a lane ended is told with the worker's name when its Join is over (shard_tick). */
static void on_lane(void *user, const struct sealane_security *security, bool up, const char *why)
{
    struct server *server = user;

    (void)why;
    server->lanes = up ? server->lanes + 1 : server->lanes - 1;
    if (up && server->options->verbose)
        identity_print(server->who, security);
}

static enum sealane_status open_server(struct server *server)
{
    struct sealane_node_options polled = {.polled = true,
                                          .rdma_device = server->options->rdma_device};
    struct sealane_server_options wanted = {.credentials = server->credentials,
                                            .link = server->options->link,
                                            .dead_after_ms = server->options->dead_after_ms};
    enum sealane_status status = sealane_node_new(&polled, &server->node);

    if (status == SEALANE_OK)
        status = sealane_server_new(server->node, &wanted, &server->server);
    if (status != SEALANE_OK)
        return status;
    sealane_server_on_lane(server->server, on_lane, server);
    status = parameter_server_v1_parameter_server__register(server->server, &shard_handlers,
                                                            &server->shard);
    if (status != SEALANE_OK)
        return status;
    status = sealane_server_listen(server->server, server->options->listen);
    if (status != SEALANE_OK)
        return status;
    return sealane_server_address(server->server, 0, server->address, sizeof(server->address));
}

/* Whoever waits for the file finds it whole. */
static bool write_address(const struct server *server)
{
    const char *path = server->options->address_file;
    char draft[PATH_MAX];
    FILE *file;
    bool good;

    if (!path)
        return true;
    (void)snprintf(draft, sizeof(draft), "%s.draft", path);
    file = fopen(draft, "w");
    good = file && fprintf(file, "%s\n", server->address) > 0;
    good = file && fclose(file) == 0 && good && rename(draft, path) == 0;
    if (!good)
        (void)fprintf(stderr, "%s: cannot write its address to %s: %s\n", server->who, path,
                      strerror(errno));
    return good;
}

/* Until the training ended and the workers know it. */
static enum sealane_status serve(struct server *server)
{
    struct shard *shard = &server->shard;
    double end_s = 0;

    for (;;) {
        enum sealane_status status = sealane_node_poll(server->node, TICK_MS);

        if (status != SEALANE_OK)
            return status;
        if (stop_signal())
            shard_break(shard, SEALANE_UNAVAILABLE, "the server was stopped by signal %d",
                        stop_signal());
        shard_tick(shard);
        if (shard->phase != PHASE_DONE && shard->phase != PHASE_BROKEN)
            continue;
        if (end_s == 0)
            end_s = clock_s() + FAREWELL_S;
        if (server->lanes == 0 || clock_s() > end_s)
            return SEALANE_OK;
    }
}

static int run(struct server *server)
{
    server->credentials = identity_load(server->options);
    if (!server->credentials)
        return 1;
    if (open_server(server) != SEALANE_OK) {
        identity_complain(server->who, server->options->listen);
        return 1;
    }
    (void)printf("%s: listens at %s for %llu worker%s, %s mode\n", server->who, server->address,
                 (unsigned long long)server->options->workers,
                 server->options->workers == 1 ? "" : "s", server->options->mode);
    (void)fflush(stdout);
    if (!write_address(server))
        return 1;
    if (serve(server) != SEALANE_OK) {
        identity_complain(server->who, "polling");
        return 1;
    }
    if (server->shard.step > 0)
        shard_report(&server->shard);
    if (stop_signal())
        return 128 + stop_signal();
    if (server->shard.phase == PHASE_BROKEN)
        (void)fprintf(stderr, "%s: %s: %s\n", server->who,
                      sealane_status_name(server->shard.status), server->shard.why);
    return server->shard.phase == PHASE_DONE ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server = {.options = &options};
    int status = 1;

    options_parse(&options, PROGRAM_SERVER, argc, argv);
    (void)snprintf(server.who, sizeof(server.who), "shard %llu", (unsigned long long)options.shard);
    stop_watch();
    if (shard_new(&options, &server.shard))
        status = run(&server);
    else
        (void)fprintf(stderr, "%s: no memory for %llu workers\n", server.who,
                      (unsigned long long)options.workers);
    sealane_server_free(server.server);
    sealane_node_free(server.node);
    sealane_credentials_free(server.credentials);
    shard_free(&server.shard);
    return status;
}
