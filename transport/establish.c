/* SPDX-License-Identifier: Apache-2.0 */
/* establish.c - from a connected link to keys: TLS on the helper thread, then HELLO, RINGS and the exporter on the node's.
 *
 * The handshake object is touched by one thread at a time: while handshake_busy the helper has it and bytes that come wait in
 * lane->early; when the helper posts it back, the node's thread goes on.
 */
#include "transport/credentials.h"
#include "transport/lane_inside.h"
#include "transport/log.h"

#include <stdio.h>

enum {
    EARLY_BYTES_MAX = 64 * 1024
};

static struct sl_lane *lane_of_timer(struct sl_timer *timer)
{
    return (struct sl_lane *)(void *)((char *)timer - offsetof(struct sl_lane, timer));
}

static struct sl_lane *lane_of_post(struct sl_post *post)
{
    return (struct sl_lane *)(void *)((char *)post - offsetof(struct sl_lane, advanced));
}

static void handshake_late(struct sl_timer *timer)
{
    struct sl_lane *lane = lane_of_timer(timer);
    char why[160];

    (void)snprintf(why, sizeof(why), "no secured lane within %u ms of the start",
                   lane->options.handshake_timeout_ms);
    sl_lane_close(lane, SEALANE_UNAVAILABLE, why);
}

/* ---- liveness, once up ---- */

static void liveness_check(struct sl_timer *timer);

static uint64_t dead_after_ns(const struct sl_lane *lane)
{
    return (uint64_t)lane->options.dead_after_ms * 1000000;
}

void sl_establish_watch(struct sl_lane *lane)
{
    lane->timer.fire = liveness_check;
    lane->checked_ns = sl_node_now(lane->node);
    if (sl_timer_start(lane->node, &lane->timer, lane->checked_ns + dead_after_ns(lane) / 4) !=
        SEALANE_OK)
        sl_lane_break(lane, SEALANE_RESOURCE_EXHAUSTED);
}

static SEALANE_RESULT ping(struct sl_lane *lane, uint64_t now)
{
    uint8_t body[8];

    lane->pinged_ns = now;
    sl_put64(body, now);
    return sl_lane_control(
        lane, &(struct sl_record){.type = SL_RECORD_PING, .body = body, .bytes = sizeof(body)});
}

/* Dead: nothing verified came for the whole time although a PING was there to be answered for half of it. A node that did not run itself
 * (stopped, or its application computed) finds everybody silent, and asks first. Missing bulk credit is never a reason. */
static void liveness_check(struct sl_timer *timer)
{
    struct sl_lane *lane = lane_of_timer(timer);
    uint64_t now = sl_node_now(lane->node), dead = dead_after_ns(lane);
    uint64_t silent = now - lane->heard_ns;
    bool asked = lane->pinged_ns > lane->heard_ns && now - lane->checked_ns <= dead / 2;
    char why[160];

    if (lane->state == SL_LANE_CLOSING)
        return;
    if (silent > dead && asked && now - lane->pinged_ns >= dead / 2) {
        (void)snprintf(why, sizeof(why), "the peer said nothing for %u ms",
                       lane->options.dead_after_ms);
        sl_lane_close(lane, SEALANE_UNAVAILABLE, why);
    } else if (silent > dead / 2 && !asked && ping(lane, now) != SEALANE_OK) {
        sl_lane_break(lane, SEALANE_RESOURCE_EXHAUSTED);
    } else {
        sl_establish_watch(lane);
    }
}

/* ---- HELLO ---- */

static void hello_fill(struct sl_lane *lane)
{
    size_t count;
    const enum sl_aead *aeads = sl_credentials_aeads(lane->options.credentials, &count);

    lane->mine.aead_count = (uint8_t)(count < SL_HELLO_AEADS_MAX ? count : SL_HELLO_AEADS_MAX);
    for (size_t i = 0; i < lane->mine.aead_count; i++)
        lane->mine.aeads[i] = (uint8_t)aeads[i];
}

static bool offers(const struct sl_hello *hello, uint8_t aead)
{
    for (size_t i = 0; i < hello->aead_count; i++) {
        if (hello->aeads[i] == aead)
            return true;
    }
    return false;
}

/* The first of ours that the client has too. A GPU at both ends will prefer another one for the bulk ring. */
static SEALANE_RESULT aead_choose(struct sl_lane *lane)
{
    for (size_t i = 0; i < lane->mine.aead_count; i++) {
        if (offers(&lane->peers, lane->mine.aeads[i])) {
            lane->mine.aead[SL_RING_MESSAGE] = lane->mine.aead[SL_RING_BULK] = lane->mine.aeads[i];
            return SEALANE_OK;
        }
    }
    return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                   "no common AEAD: the client offers %u, the first is %s; ours begin with %s",
                   lane->peers.aead_count, sl_aead_name((enum sl_aead)lane->peers.aeads[0]),
                   sl_aead_name((enum sl_aead)lane->mine.aeads[0]));
}

static SEALANE_RESULT hello_send(struct sl_lane *lane, unsigned message)
{
    SL_TRY(sl_handshake_write(lane->handshake, lane->messages[message].at,
                              lane->messages[message].count));
    sl_establish_flush(lane);
    return SEALANE_OK;
}

static SEALANE_RESULT client_hello(struct sl_lane *lane)
{
    SL_TRY(sl_random(lane->mine.random, sizeof(lane->mine.random)));
    sl_hello_write_client(&lane->mine, &lane->messages[0]);
    lane->state = SL_LANE_HELLO;
    return hello_send(lane, 0);
}

/* Says no inside TLS: the client may know why, as it proved who it is. */
static SEALANE_RESULT server_refuse(struct sl_lane *lane, enum sealane_status status)
{
    (void)snprintf(lane->mine.text, sizeof(lane->mine.text), "%s", sealane_last_error()->message);
    lane->mine.refusal = (uint32_t)status;
    sl_hello_write_server(&lane->mine, &lane->messages[1]);
    SL_TRY(hello_send(lane, 1));
    return SL_FAIL(status, "%s", lane->mine.text);
}

static SEALANE_RESULT server_prepare(struct sl_lane *lane, const uint8_t *bytes, size_t count)
{
    SL_TRY(sl_hello_parse_client(bytes, count, &lane->peers));
    SL_TRY(aead_choose(lane));
    return sl_lane_rings_make(lane);
}

static SEALANE_RESULT server_hello(struct sl_lane *lane, const uint8_t *bytes, size_t count)
{
    enum sealane_status status;

    SL_TRY(sl_random(lane->mine.random, sizeof(lane->mine.random)));
    status = server_prepare(lane, bytes, count);
    if (status != SEALANE_OK)
        return server_refuse(lane, status);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        if (lane->peers.shift[ring] < lane->mine.shift[ring])
            lane->mine.shift[ring] = lane->peers.shift[ring];
    }
    memcpy(lane->messages[0].at, bytes, count);
    lane->messages[0].count = count;
    sl_hello_write_server(&lane->mine, &lane->messages[1]);
    lane->state = SL_LANE_RINGS;
    return hello_send(lane, 1);
}

/* ---- keys ---- */

static void security_fill(struct sl_lane *lane)
{
    const struct sl_hello *chosen = lane->server ? &lane->mine : &lane->peers;
    struct sealane_security *security = &lane->security;

    (void)snprintf(security->peer, sizeof(security->peer), "%s",
                   sl_handshake_peer(lane->handshake));
    (void)snprintf(security->tls_suite, sizeof(security->tls_suite), "%s",
                   sl_handshake_suite(lane->handshake));
    (void)snprintf(security->message_aead, sizeof(security->message_aead), "%s",
                   sl_aead_name((enum sl_aead)chosen->aead[SL_RING_MESSAGE]));
    (void)snprintf(security->bulk_aead, sizeof(security->bulk_aead), "%s",
                   sl_aead_name((enum sl_aead)chosen->aead[SL_RING_BULK]));
    (void)snprintf(security->link, sizeof(security->link), "%s", lane->link->ops->name);
    (void)snprintf(security->bulk_ring, sizeof(security->bulk_ring), "%s",
                   lane->rx[SL_RING_BULK].memory.place == SL_PLACE_DEVICE ? lane->link->device_ring
                                                                          : "host");
}

/* Everything was said: keys from the exporter over what was said, CONFIRM as our first record. */
static SEALANE_RESULT keys_begin(struct sl_lane *lane)
{
    uint8_t client[SL_FINGERPRINT_BYTES], server[SL_FINGERPRINT_BYTES], secret[SL_SECRET_BYTES];
    enum sealane_status status;

    sl_handshake_fingerprints(lane->handshake, client, server);
    SL_TRY(sl_hello_transcript(lane->messages, client, server, lane->transcript));
    SL_TRY(sl_handshake_export(lane->handshake, lane->transcript, secret));
    status = sl_lane_keys_make(lane, secret);
    sl_wipe(secret, sizeof(secret));
    SL_TRY(status);
    security_fill(lane);
    lane->state = SL_LANE_CONFIRM;
    lane->handshake_over = true;
    sl_establish_flush(lane);
    return sl_lane_control(lane, &(struct sl_record){.type = SL_RECORD_CONFIRM,
                                                     .body = lane->transcript,
                                                     .bytes = SL_HASH_BYTES});
}

static SEALANE_RESULT client_rings(struct sl_lane *lane, const uint8_t *bytes, size_t count)
{
    SL_TRY(sl_hello_parse_server(bytes, count, &lane->peers));
    if (lane->peers.refusal != 0)
        return SL_FAIL(lane->peers.refusal <= SEALANE_UNAUTHENTICATED
                           ? (enum sealane_status)lane->peers.refusal
                           : SEALANE_UNKNOWN,
                       "the server refused the lane: %s", lane->peers.text);
    if (!offers(&lane->mine, lane->peers.aead[0]) || !offers(&lane->mine, lane->peers.aead[1]))
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "the server chose %s and %s, which were not both offered",
                       sl_aead_name((enum sl_aead)lane->peers.aead[0]),
                       sl_aead_name((enum sl_aead)lane->peers.aead[1]));
    memcpy(lane->messages[1].at, bytes, count);
    lane->messages[1].count = count;
    SL_TRY(sl_lane_rings_make(lane));
    SL_TRY(sl_lane_rings_attach(lane));
    sl_rings_write(&lane->mine, &lane->messages[2]);
    SL_TRY(hello_send(lane, 2));
    return keys_begin(lane);
}

static SEALANE_RESULT server_rings(struct sl_lane *lane, const uint8_t *bytes, size_t count)
{
    SL_TRY(sl_rings_parse(bytes, count, &lane->peers));
    memcpy(lane->messages[2].at, bytes, count);
    lane->messages[2].count = count;
    SL_TRY(sl_lane_rings_attach(lane));
    return keys_begin(lane);
}

/* ---- moving on ---- */

static SEALANE_RESULT take_message(struct sl_lane *lane)
{
    uint8_t message[SL_TLS_MESSAGE_MAX];
    size_t bytes;

    SL_TRY(sl_handshake_read(lane->handshake, message, &bytes));
    if (lane->server)
        return lane->state == SL_LANE_HELLO ? server_hello(lane, message, bytes)
                                            : server_rings(lane, message, bytes);
    return client_rings(lane, message, bytes);
}

static SEALANE_RESULT secured(struct sl_lane *lane)
{
    enum sealane_status status = SEALANE_OK;

    if (lane->state == SL_LANE_TLS) {
        hello_fill(lane);
        lane->state = SL_LANE_HELLO;
        if (!lane->server)
            SL_TRY(client_hello(lane));
    }
    while (status == SEALANE_OK && !lane->handshake_over)
        status = take_message(lane);
    return status == SL_AGAIN ? SEALANE_OK : status;
}

void sl_establish_flush(struct sl_lane *lane)
{
    const uint8_t *bytes;
    size_t count;

    if (!lane->handshake || lane->handshake_busy || !lane->link)
        return;
    while ((count = sl_handshake_pending(lane->handshake, &bytes)) > 0) {
        size_t piece = count < SL_LINK_SEND_BYTES ? count : SL_LINK_SEND_BYTES;
        enum sealane_status status = lane->link->ops->send(lane->link, bytes, piece);

        if (status == SL_AGAIN)
            return; /* WRITABLE comes */
        if (status != SEALANE_OK) {
            if (lane->state != SL_LANE_CLOSING && !lane->gone)
                sl_lane_break(lane, status);
            return;
        }
        sl_handshake_sent(lane->handshake, piece);
    }
    if (lane->handshake_over) { /* keys exist and the last TLS byte left: the session's secrets have no use any more */
        sl_handshake_free(lane->handshake);
        lane->handshake = NULL;
    }
}

static void gone(struct sl_lane *lane)
{
    char why[200];

    if (lane->state == SL_LANE_CONNECTING) /* there never was a peer */
        (void)snprintf(why, sizeof(why), "%s", lane->gone_why);
    else
        (void)snprintf(why, sizeof(why), "the peer is gone before the lane was up: %s",
                       lane->gone_why);
    sl_lane_close(lane, SEALANE_UNAVAILABLE, why);
}

static void work_start(struct sl_lane *lane)
{
    lane->handshake_busy = true;
    sl_helper_give(sl_node_helper(lane->node), &lane->task);
}

/* On the helper's thread. */
static void advance(struct sl_task *task)
{
    struct sl_lane *lane =
        (struct sl_lane *)(void *)((char *)task - offsetof(struct sl_lane, task));

    lane->handshake_status = sl_handshake_advance(lane->handshake);
    if (lane->handshake_status != SEALANE_OK && lane->handshake_status != SL_AGAIN)
        (void)snprintf(lane->handshake_why, sizeof(lane->handshake_why), "%s",
                       sealane_last_error()->message);
    sl_node_post(lane->node, &lane->advanced);
}

/* The helper gave the handshake back. */
static void advanced(struct sl_post *post)
{
    struct sl_lane *lane = lane_of_post(post);
    enum sealane_status status = lane->handshake_status;

    lane->handshake_busy = false;
    sl_lane_wake(lane);
    if (lane->state == SL_LANE_CLOSING)
        return;
    sl_establish_flush(lane);
    if (status == SEALANE_OK) {
        status = secured(lane);
        if (status != SEALANE_OK)
            sl_lane_break(lane, status);
    } else if (status != SL_AGAIN) {
        sl_lane_close(lane, status, lane->handshake_why);
    }
    if (lane->state == SL_LANE_CLOSING || lane->handshake_over)
        return;
    if (lane->early.end > lane->early.begin) {
        sl_handshake_feed(lane->handshake, lane->early.at + lane->early.begin,
                          lane->early.end - lane->early.begin);
        lane->early.begin = lane->early.end = 0;
        work_start(lane);
    } else if (lane->gone) {
        gone(lane);
    }
}

static void bytes_came(struct sl_lane *lane, const uint8_t *bytes, size_t count)
{
    if (lane->handshake_over || !lane->handshake) {
        sl_lane_close(lane, SEALANE_DATA_LOSS, "the peer sent handshake bytes after the handshake");
        return;
    }
    if (!lane->handshake_busy) {
        sl_handshake_feed(lane->handshake, bytes, count);
        work_start(lane);
        return;
    }
    if (lane->early.end - lane->early.begin + count > EARLY_BYTES_MAX)
        sl_lane_close(lane, SEALANE_RESOURCE_EXHAUSTED,
                      "the peer sent more handshake bytes than a handshake has");
    else if (sl_queue_push(&lane->early, bytes, count) != SEALANE_OK)
        sl_lane_break(lane, SEALANE_RESOURCE_EXHAUSTED);
}

static void handshake_begin(struct sl_lane *lane)
{
    struct sl_handshake_options options = {.credentials = lane->options.credentials,
                                           .server = lane->server,
                                           .server_name = lane->server_name};
    enum sealane_status status = sl_handshake_new(&options, &lane->handshake);

    lane->state = SL_LANE_TLS;
    lane->task.work = advance;
    lane->advanced.run = advanced;
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
    else if (!lane->server)
        work_start(lane);
}

void sl_establish_start(struct sl_lane *lane)
{
    lane->timer.fire = handshake_late;
    if (sl_timer_start(lane->node, &lane->timer,
                       sl_node_now(lane->node) +
                           (uint64_t)lane->options.handshake_timeout_ms * 1000000) != SEALANE_OK)
        sl_lane_break(lane, SEALANE_RESOURCE_EXHAUSTED);
    else if (lane->server)
        handshake_begin(lane);
}

void sl_establish_event(struct sl_lane *lane, const struct sl_link_event *event)
{
    switch (event->kind) {
    case SL_LINK_CONNECTED:
        if (lane->state == SL_LANE_CONNECTING && !lane->server)
            handshake_begin(lane);
        break;
    case SL_LINK_BYTES:
        bytes_came(lane, event->bytes, event->count);
        break;
    case SL_LINK_WRITABLE:
        sl_establish_flush(lane);
        break;
    case SL_LINK_GONE:
        lane->gone = true;
        (void)snprintf(lane->gone_why, sizeof(lane->gone_why), "%s", event->why);
        if (!lane->handshake_busy)
            gone(lane); /* else the helper may be about to read the alert that says why */
        break;
    default:
        break;
    }
}
