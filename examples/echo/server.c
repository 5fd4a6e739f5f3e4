/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - echo-server: says back what it hears, until SIGINT or SIGTERM. */
#include "echo.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void say(struct sealane_call *call, const Echo__V1__SayRequest *request, void *user)
{
    Echo__V1__SayReply reply = ECHO__V1__SAY_REPLY__INIT;

    (void)user;
    reply.text = request->text;
    reply.tensor = request->tensor; /* the request lives as long as the call: nothing is copied */
    if (echo_v1_echo_say__reply(call, &reply) != SEALANE_OK)
        (void)complain("reply"); /* the client was told, too */
}

static void lane(void *user, const struct sealane_security *security, bool up, const char *why)
{
    (void)user;
    if (up)
        print_security(security);
    else
        (void)printf("%s left: %s\n", security->peer, why);
    (void)fflush(stdout);
}

/* SIGINT and SIGTERM end it; blocked before any thread starts, so that only sigwait sees them. */
static int serve(struct sealane_server *server, const char *address, const sigset_t *signals)
{
    static const struct echo_v1_echo__handlers handlers = {.say = say};
    char bound[128]; /* a port 0 is a real one there */
    int number = 0;

    sealane_server_on_lane(server, lane, NULL);
    if (echo_v1_echo__register(server, &handlers, NULL) != SEALANE_OK)
        return complain("register");
    if (sealane_server_listen(server, address) != SEALANE_OK ||
        sealane_server_address(server, 0, bound, sizeof(bound)) != SEALANE_OK)
        return complain(address);
    (void)printf("listening at %s\n", bound);
    (void)fflush(stdout);
    (void)sigwait(signals, &number);
    (void)printf("stopped\n");
    return 0;
}

static int run(const struct sealane_node_options *place,
               const struct sealane_server_options *options, const char *address,
               const sigset_t *signals)
{
    struct sealane_server *server = NULL;
    struct sealane_node *node = NULL;
    int status;

    if (sealane_node_new(place, &node) != SEALANE_OK)
        return complain("node");
    if (sealane_server_new(node, options, &server) == SEALANE_OK)
        status = serve(server, address, signals);
    else
        status = complain("server");
    sealane_server_free(server);
    sealane_node_free(node);
    return status;
}

static void usage(FILE *to)
{
    (void)fprintf(
        to,
        "usage: echo-server --listen ADDRESS --certs DIR\n"
        "  --listen ADDRESS          host:port, :port, unix:/path or unix-abstract:name; port 0 is a free one\n"
        "  --link local|verbs|tcp    for this carrier only\n"
        "  --rdma-device NAME[:PORT] at this RDMA device (any); sealane-info lists them\n"
        "  --certs DIR               ca.pem, server.pem and server.key, as tools/make-certs.sh makes them\n"
        "  --ca, --cert, --key FILE  or each by name\n");
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"listen", 1, NULL, 'l'},      {"link", 1, NULL, 'i'}, {"certs", 1, NULL, 'd'},
        {"ca", 1, NULL, 'a'},          {"cert", 1, NULL, 'c'}, {"key", 1, NULL, 'k'},
        {"rdma-device", 1, NULL, 'r'}, {"help", 0, NULL, 'h'}, {0}};
    struct identity identity = {0};
    struct sealane_node_options place = {0};
    struct sealane_server_options server = {0};
    const char *address = NULL;
    sigset_t signals;
    int option, status;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'l':
            address = optarg;
            break;
        case 'i':
            server.link = optarg;
            break;
        case 'r':
            place.rdma_device = optarg;
            break;
        case 'd':
            identity.certs = optarg;
            break;
        case 'a':
            identity.ca = optarg;
            break;
        case 'c':
            identity.cert = optarg;
            break;
        case 'k':
            identity.key = optarg;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (!address || optind < argc) {
        usage(stderr);
        return 2;
    }
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    server.credentials = identity_load(&identity, "server");
    status = server.credentials ? run(&place, &server, address, &signals) : 1;
    sealane_credentials_free(server.credentials);
    return status;
}
