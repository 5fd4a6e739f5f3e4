#include "scale.sealane.h"
#include <stdio.h>
#include <unistd.h>

static void times(struct sealane_call *call, const Tour__Numbers *request, void *user)
{
    Tour__Numbers reply = TOUR__NUMBERS__INIT;
    Sealane__Tensor *values = request->values; /* lives as long as the call: changed in place */

    (void)user;
    if (!values || values->dtype != SEALANE__DTYPE__DTYPE_F32) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT, "values must be F32");
        return;
    }
    for (size_t i = 0; i < values->data.len / sizeof(float); i++)
        ((float *)values->data.data)[i] *= request->factor;
    reply.values = values;
    if (tour_scale_times__reply(call, &reply) != SEALANE_OK)
        fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
}

int main(void)
{
    struct sealane_credentials_options identity = {.ca_file = "certs/ca.pem",
                                                   .certificate_file = "certs/server.pem",
                                                   .key_file = "certs/server.key"};
    struct tour_scale__handlers handlers = {.times = times};
    struct sealane_server_options options = {0};
    struct sealane_node *node;
    struct sealane_server *server;

    if (sealane_credentials_new(&identity, &options.credentials) != SEALANE_OK ||
        sealane_node_new(NULL, &node) != SEALANE_OK ||
        sealane_server_new(node, &options, &server) != SEALANE_OK ||
        tour_scale__register(server, &handlers, NULL) != SEALANE_OK ||
        sealane_server_listen(server, "unix:tour.sock") != SEALANE_OK) {
        fprintf(stderr, "%s\n", sealane_last_error()->message);
        return 1;
    }
    pause(); /* the node has a thread of its own */
    return 0;
}
