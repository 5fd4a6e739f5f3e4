/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c - see lanes.h. */
#include "tests/support/lanes.h"

#include "tests/support/certs.h"
#include "tests/support/rdma.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void copy_text(char to[LANES_TEXT], const struct sl_lane_event *event)
{
    (void)snprintf(to, LANES_TEXT, "%.*s", (int)event->count, (const char *)event->bytes);
}

static enum sealane_status take_message(struct lanes_end *end, struct sl_lane *lane,
                                        const struct sl_lane_event *event)
{
    if (end->byte_count + event->count > end->byte_size) {
        end->byte_size = (end->byte_count + event->count) * 2;
        end->bytes = realloc(end->bytes, end->byte_size);
    }
    memcpy(end->bytes + end->byte_count, event->bytes, event->count);
    end->byte_count += event->count;
    end->messages++;
    end->last_flags = event->flags;
    end->last_call = event->call;
    if ((event->flags & SL_MESSAGE_LAST) && !end->keep_quiet &&
        sl_lane_allow(lane, event->call) == SEALANE_OK)
        end->allowed++;
    return end->answer == SEALANE_OK ? SEALANE_OK
                                     : SL_FAIL(end->answer, "the test refuses a message");
}

static enum sealane_status told(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    struct lanes_end *end = owner;

    switch (event->kind) {
    case SL_LANE_READY:
        end->lane = lane;
        end->ready++;
        break;
    case SL_LANE_MESSAGE:
        return take_message(end, lane, event);
    case SL_LANE_PLACE:
        event->place = end->place ? end->place + event->offset : NULL;
        end->placed += event->count;
        break;
    case SL_LANE_FILLED:
        end->filled += event->count;
        break;
    case SL_LANE_STATUS:
    case SL_LANE_CANCEL:
        end->statuses += event->kind == SL_LANE_STATUS;
        end->cancels += event->kind == SL_LANE_CANCEL;
        end->last_status = event->status;
        end->last_call = event->call;
        copy_text(end->last_text, event);
        break;
    case SL_LANE_SENT:
        end->sent++;
        break;
    case SL_LANE_CLOSED:
        end->lane = NULL;
        end->closed++;
        end->close_status = event->status;
        copy_text(end->close_text, event);
        break;
    }
    return SEALANE_OK;
}

void lanes_init(struct lanes *lanes, bool fake)
{
    static int count;

    memset(lanes, 0, sizeof(*lanes));
    if (fake)
        lanes->world = link_fake_world_new();
    (void)snprintf(lanes->address, sizeof(lanes->address),
                   fake ? "fake:lanes-%d-%d" : "unix-abstract:sealane-lanes-%d-%d", (int)getpid(),
                   count++);
    lanes->credentials[0] = certs_load("root-p256", "good/server-p256", NULL);
    lanes->credentials[1] = certs_load("root-p256", "good/client-p256", NULL);
    for (int i = 0; i < 2; i++) {
        lanes->options[i] = (struct sl_lane_options){.credentials = lanes->credentials[i],
                                                     .on_event = told,
                                                     .owner = &lanes->end[i]};
    }
    lanes->options[1].server_name = "dns:server.test";
}

void lanes_over_verbs(struct lanes *lanes)
{
    if (!rdma_host()[0])
        cr_skip_test("this host has no RDMA device with an address");
    lanes_init(lanes, false);
    (void)rdma_address(lanes->address, sizeof(lanes->address), 1);
    lanes->options[0].link = lanes->options[1].link = "verbs";
}

void lanes_use_aead(struct lanes *lanes, enum sealane_aead aead)
{
    static const char *const names[2] = {"good/server-p256", "good/client-p256"};

    for (int i = 0; i < 2; i++) {
        char ca[CERTS_PATH], certificate[CERTS_PATH], key[CERTS_PATH], name[40];
        struct sealane_credentials_options options = {.ca_file = certs_path("ca/root-p256.pem", ca),
                                                      .aeads = &aead,
                                                      .aead_count = 1};

        (void)snprintf(name, sizeof(name), "%s.pem", names[i]);
        options.certificate_file = certs_path(name, certificate);
        (void)snprintf(name, sizeof(name), "%s.key", names[i]);
        options.key_file = certs_path(name, key);
        sealane_credentials_free(lanes->credentials[i]);
        cr_assert_eq(sealane_credentials_new(&options, &lanes->credentials[i]), SEALANE_OK);
        lanes->options[i].credentials = lanes->credentials[i];
    }
}

void lanes_listen(struct lanes *lanes)
{
    static const struct sl_link_ops *const links[] = {&link_fake, NULL};
    const struct sealane_node_options options = {.polled = true};

    for (int i = 0; i < 2; i++) {
        struct sl_node_setup setup = {.links = lanes->world && !lanes->links ? links : lanes->links,
                                      .memory = lanes->memory ? lanes->memory() : NULL};
        cr_assert_eq(sl_node_new(&options, &setup, &lanes->nodes[i]), SEALANE_OK);
    }
    cr_assert_eq(sl_node_listen(lanes->nodes[0], lanes->address, &lanes->options[0],
                                &lanes->listener),
                 SEALANE_OK, "%s", sealane_last_error()->message);
    (void)snprintf(lanes->address, sizeof(lanes->address), "%s",
                   sl_listener_address(lanes->listener));
}

void lanes_begin(struct lanes *lanes)
{
    for (int i = 0; i < 2; i++) {
        free(lanes->end[i].bytes);
        lanes->end[i] = (struct lanes_end){.place = lanes->end[i].place,
                                           .keep_quiet = lanes->end[i].keep_quiet};
    }
    cr_assert_eq(sl_node_connect(lanes->nodes[1], lanes->address, &lanes->options[1],
                                 &lanes->connecting),
                 SEALANE_OK, "%s", sealane_last_error()->message);
}

bool lanes_both_ready(struct lanes *lanes)
{
    return lanes->end[0].ready && lanes->end[1].ready;
}

bool lanes_both_closed(struct lanes *lanes)
{
    return (lanes->end[0].closed || !lanes->end[0].ready) && lanes->end[1].closed;
}

void lanes_connect(struct lanes *lanes)
{
    lanes_begin(lanes);
    cr_assert(lanes_until(lanes, lanes_both_ready), "not ready: server \"%s\", client \"%s\"",
              lanes->end[0].close_text, lanes->end[1].close_text);
}

void lanes_turn(struct lanes *lanes, int times)
{
    for (int i = 0; i < times; i++) {
        cr_assert_eq(sealane_node_poll(lanes->nodes[1], 0), SEALANE_OK);
        cr_assert_eq(sealane_node_poll(lanes->nodes[0], 0), SEALANE_OK);
    }
}

bool lanes_until(struct lanes *lanes, bool (*done)(struct lanes *lanes))
{
    double until = now_s() + 5;

    while (!done(lanes)) {
        lanes_turn(lanes, 1);
        if (now_s() > until)
            return false;
    }
    return true;
}

void lanes_disconnect(struct lanes *lanes)
{
    if (lanes->end[1].lane)
        sl_lane_close(lanes->end[1].lane, SEALANE_CANCELLED, "the test is over");
    cr_assert(lanes_until(lanes, lanes_both_closed));
}

void lanes_free(struct lanes *lanes)
{
    for (int i = 1; i >= 0; i--) {
        sealane_node_free(lanes->nodes[i]);
        sealane_credentials_free(lanes->credentials[i]);
        free(lanes->end[i].bytes);
    }
    if (lanes->world)
        link_fake_world_free(lanes->world);
}
