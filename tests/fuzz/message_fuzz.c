/* SPDX-License-Identifier: Apache-2.0 */
/* message_fuzz.c - any bytes as a request, in two pieces when they are long: checked, unpacked, its tensors placed and filled, echoed by a
 * handler (packed again), sent. Nodes and lanes are tests/support/lane_fake.c's. */
#include "cases.sealane.h"
#include "rpc/codec.h"
#include "tests/support/lane_fake.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    PIECE_BYTES = 100,
    TENSORS_MAX = 1 << 20
};

static void must(enum sealane_status status)
{
    if (status != SEALANE_OK)
        abort();
}

/* What was opened may be packed: its tensors passed their checks. Only the reply's size may be too much. */
static void serve_echo(struct sealane_call *call, const Cases__V1__Everything *request, void *user)
{
    enum sealane_status status = cases_v1_cases_echo__reply(call, request);

    (void)user;
    if (status != SEALANE_OK && status != SEALANE_RESOURCE_EXHAUSTED &&
        !strstr(sealane_last_error()->message, "deeper than"))
        abort();
}

static void serve_plain(struct sealane_call *call, const Cases__V1__Tree *request, void *user)
{
    (void)user;
    must(cases_v1_cases_plain__reply(call, request));
}

static bool give(struct sl_lane *lane, const uint8_t *data, size_t bytes)
{
    if (bytes <= PIECE_BYTES)
        return fake_message(lane, 1, SL_MESSAGE_FIRST | SL_MESSAGE_LAST, data, bytes) == SEALANE_OK;
    return fake_message(lane, 1, SL_MESSAGE_FIRST, data, PIECE_BYTES) == SEALANE_OK &&
           fake_message(lane, 1, SL_MESSAGE_LAST, data + PIECE_BYTES, bytes - PIECE_BYTES) ==
               SEALANE_OK;
}

/* An honest sender's tensors; the call may have ended, then nothing is placed. */
static void fill_parts(struct sl_lane *lane, struct sl_head head)
{
    struct sl_path path;

    for (unsigned p = 0; p < head.part_count; p++) {
        uint64_t bytes = sl_head_next_part(&head, &path);
        void *place;

        if (bytes > TENSORS_MAX)
            return;
        must(fake_place(lane, 1, p, 0, (size_t)bytes, &place));
        if (!place)
            continue;
        memset(place, 0x5a, (size_t)bytes);
        must(fake_filled(lane, 1, p, 0, (size_t)bytes));
    }
}

static void play(struct sealane_node *node, const uint8_t *data, size_t bytes)
{
    struct sl_lane *lane = fake_accept(node);
    struct sl_head head;

    if (give(lane, data, bytes)) {
        if (sl_head_parse(data, bytes, &head) == SEALANE_OK)
            fill_parts(lane, head);
        else if (!fake_newest(node, FAKE_STATUS) ||
                 fake_newest(node, FAKE_STATUS)->status != SEALANE_RESOURCE_EXHAUSTED)
            abort(); /* only what is too large ends before its head is read whole */
        if (fake_held(node) > 0)
            must(fake_sent(lane, fake_newest(node, FAKE_SEND)->send));
    }
    fake_closed(lane, SEALANE_UNAVAILABLE, "the end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_echo,
                                                             .plain = serve_plain};
    static int credentials; /* rpc only hands them on */
    const struct sealane_server_options options = {
        .credentials = (struct sealane_credentials *)(void *)&credentials,
        .max_message_bytes = 1 << 20,
        .max_tensor_bytes = TENSORS_MAX,
    };
    struct sealane_node *node = fake_node_new(true);
    struct sealane_server *server;

    must(sealane_server_new(node, &options, &server));
    must(cases_v1_cases__register(server, &handlers, NULL));
    must(sealane_server_listen(server, "unix:/fake"));
    if (bytes > 0)
        play(node, data, bytes);
    sealane_server_free(server);
    sealane_node_free(node);
    return 0;
}
