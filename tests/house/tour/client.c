#include "scale.sealane.h"
#include <stdio.h>

static int times(struct sealane_channel *channel, float *numbers, uint64_t count)
{
    Sealane__Tensor values = SEALANE__TENSOR__INIT;
    Tour__Numbers request = TOUR__NUMBERS__INIT;
    const Tour__Numbers *reply;
    struct sealane_call *call;

    values.dtype = SEALANE__DTYPE__DTYPE_F32;
    values.shape = &count;
    values.n_shape = 1;
    values.data = (ProtobufCBinaryData){count * sizeof(float), (uint8_t *)numbers};
    request.values = &values;
    request.factor = 1.5f;
    if (tour_scale_times(channel, &request, NULL, &reply, &call) != SEALANE_OK)
        return -1;
    for (size_t i = 0; i < count; i++)
        printf("%g ", ((float *)reply->values->data.data)[i]);
    puts("came back sealed");
    sealane_call_free(call); /* and the reply, which lives in it */
    return 0;
}

int main(void)
{
    struct sealane_credentials_options identity = {.ca_file = "certs/ca.pem",
                                                   .certificate_file = "certs/client.pem",
                                                   .key_file = "certs/client.key"};
    struct sealane_channel_options options = {.server_name = "dns:localhost"};
    float numbers[] = {1, 2, 3};
    struct sealane_node *node;
    struct sealane_channel *channel;

    if (sealane_credentials_new(&identity, &options.credentials) != SEALANE_OK ||
        sealane_node_new(NULL, &node) != SEALANE_OK ||
        sealane_channel_new(node, "unix:tour.sock", &options, &channel) != SEALANE_OK ||
        times(channel, numbers, 3) != 0) {
        fprintf(stderr, "%s\n", sealane_last_error()->message);
        return 1;
    }
    sealane_channel_free(channel);
    sealane_node_free(node);
    sealane_credentials_free(options.credentials);
    return 0;
}
