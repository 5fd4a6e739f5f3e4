/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - Sealane's server and client for bench/. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what)
{
    bench_die(what, sealane_last_error()->message);
}

static struct sealane_credentials *credentials_of(const struct bench_options *options)
{
    char ca[512], certificate[512], key[512];
    struct sealane_credentials_options files = {.ca_file = ca,
                                                .certificate_file = certificate,
                                                .key_file = key};
    struct sealane_credentials *credentials;

    (void)snprintf(ca, sizeof(ca), "%s/ca.pem", options->certs);
    (void)snprintf(certificate, sizeof(certificate), "%s/%s.pem", options->certs, options->role);
    (void)snprintf(key, sizeof(key), "%s/%s.key", options->certs, options->role);
    if (sealane_credentials_new(&files, &credentials) != SEALANE_OK)
        fail("credentials");
    return credentials;
}

static struct sealane_node *node_new(void)
{
    struct sealane_node_options options = {.polled = true};
    struct sealane_node *node;

    if (sealane_node_new(&options, &node) != SEALANE_OK)
        fail("node");
    return node;
}

static void turn(struct sealane_node *node, const struct bench_options *options)
{
    if (sealane_node_poll(node, options->regime == BENCH_POLL ? 0 : 1000) != SEALANE_OK)
        fail("poll");
}

/* ---- server ---- */

static void serve_echo(struct sealane_call *call, const Bench__V1__Blob *request, void *user)
{
    (void)user;
    if (bench_v1_bench_echo__reply(call, request) != SEALANE_OK)
        fail("echo");
}

static void serve_put(struct sealane_call *call, const Bench__V1__Load *request, void *user)
{
    Bench__V1__Ack ack = BENCH__V1__ACK__INIT;

    (void)user;
    ack.bytes = request->tensor ? request->tensor->data.len : 0;
    if (bench_v1_bench_put__reply(call, &ack) != SEALANE_OK)
        fail("put");
}

/* Until killed. */
static _Noreturn void serve(const struct bench_options *options)
{
    static const struct bench_v1_bench__handlers handlers = {.echo = serve_echo, .put = serve_put};
    struct sealane_server_options server_options = {.credentials = credentials_of(options),
                                                    .link = options->link,
                                                    .max_message_bytes = 256u << 20};
    struct sealane_node *node = node_new();
    struct sealane_server *server;
    char address[128];

    if (sealane_server_new(node, &server_options, &server) != SEALANE_OK ||
        bench_v1_bench__register(server, &handlers, NULL) != SEALANE_OK ||
        sealane_server_listen(server, options->address) != SEALANE_OK ||
        sealane_server_address(server, 0, address, sizeof(address)) != SEALANE_OK)
        fail("server");
    bench_ready(address);
    for (;;)
        turn(node, options);
}

/* ---- client ---- */

static void launch(struct bench_flight *flight)
{
    struct bench_flights *all = flight->all;

    flight->begun_s = all->window.now_s;
    if (all->start(flight) != SEALANE_OK)
        fail("a call does not start");
    all->launched++;
    all->flying++;
}

void bench_landed(struct bench_flight *flight, bool good)
{
    struct bench_flights *all = flight->all;

    if (!good)
        fail("a call failed");
    all->flying--;
    if (bench_answered(&all->window, flight->begun_s))
        launch(flight);
}

static void client_open(struct bench_flights *all)
{
    struct sealane_channel_options options = {.server_name = "dns:server.test",
                                              .link = all->options->link,
                                              .max_message_bytes = 256u << 20};
    struct sealane_security security;

    all->credentials = credentials_of(all->options);
    all->node = node_new();
    options.credentials = all->credentials;
    if (sealane_channel_new(all->node, all->options->address, &options, &all->channel) !=
            SEALANE_OK ||
        sealane_channel_connect(all->channel, 10000) != SEALANE_OK ||
        sealane_channel_security(all->channel, &security) != SEALANE_OK)
        fail("client");
    if (strcmp(security.link, all->options->link) != 0)
        bench_die("another link than asked for", security.link);
}

static void client_close(struct bench_flights *all)
{
    sealane_channel_free(all->channel);
    sealane_node_free(all->node);
    sealane_credentials_free(all->credentials);
}

void bench_fly(struct bench_flights *all)
{
    struct bench_flight *flights = calloc(all->options->outstanding, sizeof(*flights));

    if (!flights)
        bench_die("calloc", "no memory");
    client_open(all);
    bench_window_begin(&all->window, all->options);
    for (uint32_t i = 0; i < all->options->outstanding; i++) {
        flights[i].all = all;
        launch(&flights[i]);
    }
    while (all->flying > 0)
        turn(all->node, all->options);
    bench_window_end(&all->window);
    client_close(all);
    free(flights);
}

int bench_main(const struct bench_program *program,
               int (*client)(const struct bench_options *options), int argc, char **argv)
{
    struct bench_options options;

    bench_options_parse(&options, argc, argv);
    if (!options.role) {
        bench_drive(program, &options, argc, argv);
        return 0;
    }
    bench_place(&options);
    if (strcmp(options.role, "server") == 0)
        serve(&options);
    return client(&options);
}
