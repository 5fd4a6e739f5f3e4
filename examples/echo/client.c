/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - echo-client: says something, checks that it comes back, and prints how long that took. */
#include "echo.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CONNECT_MS = 5000
};

struct options {
    const char *target, *server_name, *link, *rdma_device, *text;
    struct identity identity;
    unsigned long count, tensor_mib, timeout_ms;
};

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static bool is_echo(const Echo__V1__SayRequest *request, const Echo__V1__SayReply *reply)
{
    const Sealane__Tensor *sent = request->tensor, *came = reply->tensor;

    if (strcmp(reply->text, request->text) != 0 || !sent != !came)
        return false;
    return !sent || (came->data.len == sent->data.len &&
                     memcmp(came->data.data, sent->data.data, sent->data.len) == 0);
}

/* One call. Prints why and returns false when it fails or something else comes back. */
static bool say_once(struct sealane_channel *channel, const Echo__V1__SayRequest *request,
                     unsigned long timeout_ms, double *us)
{
    struct sealane_call_options options = {.timeout_ms = (uint32_t)timeout_ms};
    const Echo__V1__SayReply *reply;
    struct sealane_call *call;
    double began = now_us();
    bool good;

    if (echo_v1_echo_say(channel, request, &options, &reply, &call) != SEALANE_OK) {
        (void)complain("say");
        return false;
    }
    *us = now_us() - began;
    good = is_echo(request, reply);
    if (!good)
        (void)fprintf(stderr, "something else came back\n");
    sealane_call_free(call);
    return good;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_times(const struct options *options, double *us)
{
    double sum = 0;

    qsort(us, options->count, sizeof(*us), by_size);
    for (unsigned long i = 0; i < options->count; i++)
        sum += us[i];
    (void)printf(
        "\"%s\" came back %lu times: round trip min %.1f us, median %.1f us, max %.1f us\n",
        options->text, options->count, us[0], us[options->count / 2], us[options->count - 1]);
    if (options->tensor_mib > 0)
        (void)printf("tensors of %lu MiB: %.2f GB/s each way\n", options->tensor_mib,
                     (double)options->tensor_mib * 1048576 * (double)options->count / sum / 1e3);
}

static int say(struct sealane_channel *channel, const struct options *options,
               const Echo__V1__SayRequest *request)
{
    struct sealane_security security;
    double *us = calloc(options->count, sizeof(*us));
    unsigned long done = 0;

    if (!us)
        return 1;
    if (sealane_channel_connect(channel, CONNECT_MS) != SEALANE_OK ||
        sealane_channel_security(channel, &security) != SEALANE_OK) {
        free(us);
        return complain(options->target);
    }
    print_security(&security);
    while (done < options->count && say_once(channel, request, options->timeout_ms, &us[done]))
        done++;
    if (done == options->count)
        print_times(options, us);
    free(us);
    return done == options->count ? 0 : 1;
}

static int run(struct sealane_channel *channel, const struct options *options)
{
    Echo__V1__SayRequest request = ECHO__V1__SAY_REQUEST__INIT;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    uint64_t shape = options->tensor_mib << 20;
    char text[512];
    int status;

    (void)snprintf(text, sizeof(text), "%s", options->text);
    request.text = text;
    if (shape > 0) {
        tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
        tensor.n_shape = 1;
        tensor.shape = &shape;
        tensor.data.len = shape;
        tensor.data.data = malloc(shape);
        if (!tensor.data.data) {
            (void)fprintf(stderr, "no memory for %lu MiB\n", options->tensor_mib);
            return 1;
        }
        for (uint64_t i = 0; i < shape; i++)
            tensor.data.data[i] = (uint8_t)(i * 31 >> 3);
        request.tensor = &tensor;
    }
    status = say(channel, options, &request);
    free(tensor.data.data);
    return status;
}

/* A polled node: this thread moves it, inside the blocking calls, which makes round trips shortest. */
static int open_and_run(struct sealane_credentials *credentials, const struct options *options)
{
    struct sealane_node_options polled = {.polled = true, .rdma_device = options->rdma_device};
    struct sealane_channel_options wanted = {.credentials = credentials,
                                             .server_name = options->server_name,
                                             .link = options->link};
    struct sealane_node *node;
    struct sealane_channel *channel = NULL;
    int status;

    if (sealane_node_new(&polled, &node) != SEALANE_OK)
        return complain("node");
    if (sealane_channel_new(node, options->target, &wanted, &channel) == SEALANE_OK)
        status = run(channel, options);
    else
        status = complain(options->target);
    sealane_channel_free(channel);
    sealane_node_free(node);
    return status;
}

static void usage(FILE *to)
{
    (void)fprintf(
        to,
        "usage: echo-client --target ADDRESS --certs DIR\n"
        "  --target ADDRESS          host:port, unix:/path or unix-abstract:name\n"
        "  --link local|verbs|tcp    over this carrier only (the best)\n"
        "  --rdma-device NAME[:PORT] by this RDMA device (any); sealane-info lists them\n"
        "  --server-name NAME        what the server's certificate must say (dns:localhost)\n"
        "  --certs DIR               ca.pem, client.pem and client.key, as tools/make-certs.sh makes them\n"
        "  --ca, --cert, --key FILE  or each by name\n"
        "  --text TEXT               what to say (hello)\n"
        "  --count N                 how often (1)\n"
        "  --tensor-mib N            with a tensor of N MiB beside it (0: none)\n"
        "  --timeout-ms N            deadline of a call (10000)\n");
}

static bool number(const char *text, unsigned long least, unsigned long most,
                   unsigned long *value_p)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || *text == '-' || value < least || value > most) {
        (void)fprintf(stderr, "\"%s\" is no number from %lu to %lu\n", text, least, most);
        return false;
    }
    *value_p = value;
    return true;
}

static bool take(struct options *options, int option)
{
    switch (option) {
    case 't':
        options->target = optarg;
        return true;
    case 's':
        options->server_name = optarg;
        return true;
    case 'i':
        options->link = optarg;
        return true;
    case 'r':
        options->rdma_device = optarg;
        return true;
    case 'x':
        options->text = optarg;
        return true;
    case 'd':
        options->identity.certs = optarg;
        return true;
    case 'a':
        options->identity.ca = optarg;
        return true;
    case 'c':
        options->identity.cert = optarg;
        return true;
    case 'k':
        options->identity.key = optarg;
        return true;
    case 'n':
        return number(optarg, 1, 10000000, &options->count);
    case 'm':
        return number(optarg, 0, 16384, &options->tensor_mib);
    case 'w':
        return number(optarg, 1, 86400000, &options->timeout_ms);
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"target", 1, NULL, 't'},      {"server-name", 1, NULL, 's'},
        {"text", 1, NULL, 'x'},        {"certs", 1, NULL, 'd'},
        {"ca", 1, NULL, 'a'},          {"cert", 1, NULL, 'c'},
        {"key", 1, NULL, 'k'},         {"count", 1, NULL, 'n'},
        {"tensor-mib", 1, NULL, 'm'},  {"help", 0, NULL, 'h'},
        {"timeout-ms", 1, NULL, 'w'},  {"link", 1, NULL, 'i'},
        {"rdma-device", 1, NULL, 'r'}, {0}};
    struct options options = {
        .server_name = "dns:localhost", .text = "hello", .count = 1, .timeout_ms = 10000};
    struct sealane_credentials *credentials;
    int option, status;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (option == 'h') {
            usage(stdout);
            return 0;
        }
        if (!take(&options, option)) {
            usage(stderr);
            return 2;
        }
    }
    if (!options.target || optind < argc) {
        usage(stderr);
        return 2;
    }
    credentials = identity_load(&options.identity, "client");
    status = credentials ? open_and_run(credentials, &options) : 1;
    sealane_credentials_free(credentials);
    return status;
}
