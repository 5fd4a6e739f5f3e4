/* SPDX-License-Identifier: Apache-2.0 */
/* capture_test.c - everything that crosses a carrier is looked at while calls run through generated stubs: no message, method name, call
 * header, status text, tensor or name of a certificate is in it. Over link_local: what is written and sent (a tap between lane and
 * carrier, and every packet on AF_UNIX sockets), and the shared pages themselves. Over tcp: packets on loopback, and a relay. Over RDMA:
 * everything on the rig's wire. In each the same search finds what is sent in the clear. Linked with --wrap=sendmsg, and
 * rdma_resolve_addr where there are RDMA links. */
#include "kitchen.sealane.h"
#include "tests/support/capture.h"
#include "tests/support/certs.h"
#include "tests/support/memory_scan.h"
#include "transport/keys.h"
#include "transport/link.h"
#include "transport/node.h"
#ifdef SEALANE_VERBS
#include "tests/transport/link_verbs_raw.h"
#endif

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EAGER = 100000,
    ALLOWED = 2 << 20, /* waits for the receiver's permission */
    LONG_MESSAGE = 50000,
    SECRETS = 10
};

static struct capture capture;

/* What must not be seen. */
static struct marker secrets[SECRETS];
static const struct marker *const name = &secrets[0], *const raw = &secrets[1],
                                  *const eager = &secrets[2], *const allowed = &secrets[3],
                                  *const status_text = &secrets[4];

static void secrets_make(void)
{
    secrets[0] = marker_text("a string of the message");
    secrets[1] = marker_bytes("bytes of the message");
    secrets[2] = marker_bytes("a tensor");
    secrets[3] = marker_text("a tensor that was allowed");
    secrets[4] = marker_text("the text of a status");
    secrets[5] = marker_of("the method's path, in the call's header", "/kitchen.v1.Kitchen/Echo");
    secrets[6] = marker_of("the package's name", "kitchen.v1");
    secrets[7] = marker_of("the name in the client's certificate", "client.test");
    secrets[8] = marker_of("the URI in the client's certificate", "/ns/default/sa/client");
    secrets[9] = marker_of("the issuer of both certificates", "Test Intermediate");
}

/* ---- the kitchen ---- */

static struct kitchen {
    struct sealane_credentials *credentials[2];
    struct sealane_node *nodes[2]; /* server, client */
    struct sealane_server *server;
    struct sealane_channel *channel;
    char address[SL_ADDRESS_BYTES];
} kitchen;

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    (void)user;
    if (request->status != 0)
        sealane_call_fail(call, (enum sealane_status)request->status, "%s", request->word);
    else if (kitchen_v1_kitchen_echo__reply(call, request) != SEALANE_OK)
        (void)fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
}

static void serve(const char *address, const struct sl_node_setup *setup)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options options = {.credentials = NULL};

    secrets_make();
    capture_init(&capture);
    kitchen.credentials[0] = certs_load("root-p256", "good/server-p256", NULL);
    kitchen.credentials[1] = certs_load("root-p256", "good/client-p256", NULL);
    options.credentials = kitchen.credentials[0];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sl_node_new(NULL, setup, &kitchen.nodes[i]), SEALANE_OK);
    cr_assert_eq(sealane_server_new(kitchen.nodes[0], &options, &kitchen.server), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen__register(kitchen.server, &handlers, NULL), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(kitchen.server, address), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(sealane_server_address(kitchen.server, 0, kitchen.address,
                                        sizeof(kitchen.address)),
                 SEALANE_OK);
}

static void reach(const char *target, const char *link)
{
    struct sealane_channel_options options = {.credentials = kitchen.credentials[1],
                                              .server_name = "dns:server.test",
                                              .link = link};
    struct sealane_security security;

    cr_assert_eq(sealane_channel_new(kitchen.nodes[1], target, &options, &kitchen.channel),
                 SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert_eq(sealane_channel_connect(kitchen.channel, 5000), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(sealane_channel_security(kitchen.channel, &security), SEALANE_OK);
    cr_assert_str_eq(security.link, link);
}

static void close_kitchen(void)
{
    sealane_channel_free(kitchen.channel);
    sealane_server_free(kitchen.server);
    for (int i = 0; i < 2; i++) {
        sealane_node_free(kitchen.nodes[i]);
        sealane_credentials_free(kitchen.credentials[i]);
    }
    capture_free(&capture);
}

/* ---- calls that are full of secrets ---- */

static uint8_t eager_bytes[EAGER], allowed_bytes[ALLOWED], message_bytes[LONG_MESSAGE];

/* Random between the markers: no 16 bytes of it are anywhere by chance. */
static void strew(uint8_t *at, size_t bytes, const struct marker *marker)
{
    cr_assert_eq(sl_random(at, bytes), SEALANE_OK);
    for (size_t i = 0; i + marker->count <= bytes; i += 1009)
        memcpy(at + i, marker->bytes, marker->count);
}

static Sealane__Tensor tensor_of(uint8_t *bytes, uint64_t *count)
{
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = count;
    tensor.data.len = *count;
    tensor.data.data = bytes;
    return tensor;
}

static void echo_secrets(void)
{
    uint64_t eager_count = EAGER, allowed_count = ALLOWED;
    Sealane__Tensor tensors[2], *many[1] = {&tensors[1]};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    char text[MARKER_MAX + 1] = "";

    strew(eager_bytes, EAGER, eager);
    strew(allowed_bytes, ALLOWED, allowed);
    strew(message_bytes, LONG_MESSAGE, raw);
    memcpy(text, name->bytes, name->count);
    tensors[0] = tensor_of(eager_bytes, &eager_count);
    tensors[1] = tensor_of(allowed_bytes, &allowed_count);
    request.name = text;
    request.raw.data = message_bytes;
    request.raw.len = LONG_MESSAGE;
    request.tensor = &tensors[0];
    for (int i = 0; i < 4; i++) {
        if (i == 2) { /* small and eager before, large and allowed from here on */
            request.n_many = 1;
            request.many = many;
        }
        cr_assert_eq(kitchen_v1_kitchen_echo(kitchen.channel, &request, NULL, &reply, &call),
                     SEALANE_OK, "%s", sealane_last_error()->message);
        cr_assert_eq(memcmp(reply->tensor->data.data, eager_bytes, EAGER), 0);
        cr_assert_str_eq(reply->name, text);
        sealane_call_free(call);
    }
}

static void fail_secretly(void)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    char text[MARKER_MAX + 1] = "";

    memcpy(text, status_text->bytes, status_text->count);
    request.status = SEALANE_NOT_FOUND;
    request.choice_case = KITCHEN__V1__DISH__CHOICE_WORD;
    request.word = text;
    cr_assert_eq(kitchen_v1_kitchen_echo(kitchen.channel, &request, NULL, &reply, &call),
                 SEALANE_NOT_FOUND);
    cr_assert_str_eq(sealane_last_error()->message, text);
}

static void expect_no_piece(const char *what, const uint8_t *bytes, size_t count, const char *where)
{
    long piece = capture_find_piece(&capture, bytes, count);

    cr_assert_eq(piece, -1, "16 bytes of %s from byte %ld on are seen %s", what, piece, where);
}

static void expect_unseen(const char *where)
{
    struct sealane_security security;

    cr_assert_eq(sealane_channel_security(kitchen.channel, &security), SEALANE_OK);
    cr_assert_gt(security.sealed_bytes, 2 * ALLOWED);
    for (int i = 0;
         i < 500 && capture_count(&capture) < security.sealed_bytes + security.opened_bytes; i++)
        (void)usleep(10000); /* what records may lag behind what was said */
    cr_assert_geq(capture_count(&capture), security.sealed_bytes + security.opened_bytes,
                  "not everything was recorded");
    for (int i = 0; i < SECRETS; i++)
        cr_assert_null(capture_find(&capture, &secrets[i]), "%s is seen %s", secrets[i].what,
                       where);
    expect_no_piece("an eager tensor", eager_bytes, EAGER, where);
    expect_no_piece("a tensor that was allowed", allowed_bytes, ALLOWED, where);
    expect_no_piece("a message", message_bytes, LONG_MESSAGE, where);
    (void)fprintf(stderr, "%s: %zu bytes recorded, %llu sealed and opened, none of %d secrets\n",
                  where, capture_count(&capture),
                  (unsigned long long)(security.sealed_bytes + security.opened_bytes), SECRETS);
}

/* ---- the search ---- */

Test(capture, the_search_finds_every_form_of_a_marker)
{
    static const struct {
        const char *bytes, *form;
    } forms[] = {
        {"then Man is distinguished, so", "as it is"},
        {"{4d616e2069732064697374696e67756973686564}", "hexadecimal"},
        {"0x4D616E2069732064697374696E67756973686564", "hexadecimal"},
        {"TWFuIGlzIGRpc3Rpbmd1aXNoZWQ=", "base64"},
        {"YU1hbiBpcyBkaXN0aW5ndWlzaGVk", "base64"},
        {"YWJNYW4gaXMgZGlzdGluZ3Vpc2hlZA==", "base64"},
        {"man is distinguished, tWFuIGlzIGRpc3Rpbmd1aXNoZWQ", NULL},
    };
    const struct marker marker = marker_of("a text", "Man is distinguished");

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const char *found;

        capture_init(&capture);
        cr_assert_null(capture_find(&capture, &marker));
        for (const char *at = forms[i].bytes; *at; at++) /* in pieces of one byte */
            capture_add(&capture, i % CAPTURE_STREAMS, at, 1);
        found = capture_find(&capture, &marker);
        cr_assert_eq(found != NULL, forms[i].form != NULL, "case %zu", i);
        if (found)
            cr_assert_str_eq(found, forms[i].form);
        capture_free(&capture);
    }
}

Test(capture, the_search_finds_every_piece)
{
    enum {
        BYTES = 40 * 16 + 5
    };
    uint8_t bytes[BYTES], other[BYTES];

    cr_assert_eq(sl_random(bytes, sizeof(bytes)), SEALANE_OK);
    cr_assert_eq(sl_random(other, sizeof(other)), SEALANE_OK);
    for (long piece = 0; piece + 32 <= BYTES; piece += 16) {
        capture_init(&capture);
        capture_add(&capture, 0, other, (size_t)piece + 3);
        capture_add(&capture, 1, bytes + piece + 1, 15 + 15); /* none is whole */
        cr_assert_eq(capture_find_piece(&capture, bytes, BYTES), -1);
        capture_add(&capture, 0, bytes + piece, 16);
        cr_assert_eq(capture_find_piece(&capture, bytes, BYTES), piece);
        capture_free(&capture);
    }
}

/* ---- link_local ---- */

static struct sl_link_ops tapped; /* link_local's, but for what records */

static SEALANE_RESULT tapped_connect(struct sl_port *port, const char *address,
                                     struct sl_link **link_p)
{
    SL_TRY(sl_link_local.connect(port, address, link_p));
    (*link_p)->ops = &tapped;
    return SEALANE_OK;
}

static int tapped_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    int count = sl_link_local.poll(port, events, max);

    for (int i = 0; i < count; i++)
        events[i].link->ops = &tapped;
    return count;
}

static SEALANE_RESULT tapped_send(struct sl_link *link, const uint8_t *bytes, size_t count)
{
    capture_add(&capture, 0, bytes, count);
    return sl_link_local.send(link, bytes, count);
}

static SEALANE_RESULT tapped_write_imm(struct sl_link *link, const struct sl_link_write *write)
{
    capture_add(&capture, 1, write->from, write->bytes);
    capture_add(&capture, 1, &write->immediate, sizeof(write->immediate));
    return sl_link_local.write_imm(link, write);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

/* Packets of AF_UNIX sockets as the kernel gets them; tcp has its own witnesses. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    for (size_t i = 0; tapped.name && i < message->msg_iovlen; i++)
        capture_add(&capture, 2, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
    return __real_sendmsg(fd, message, flags);
}

/* Rings and arrival pages of both ends, which are in this process. */
static size_t shared_pages_find(const struct marker *marker, bool *found_p)
{
    struct needle needles[MARKER_FORMS];
    uint8_t bytes[MARKER_FORM_BYTES];
    size_t looked_at;

    for (unsigned form = 0; form < MARKER_FORMS; form++) {
        size_t count = marker_form(marker, form, bytes);

        needles[form] = needle_of(bytes, count < NEEDLE_MAX ? count : NEEDLE_MAX);
    }
    looked_at = memory_scan(needles, MARKER_FORMS, "memfd:sealane");
    *found_p = false;
    for (unsigned form = 0; form < MARKER_FORMS; form++)
        *found_p |= needles[form].found;
    return looked_at;
}

/* The same search finds what a careless lane would write into a ring, and send. */
static void expect_clear_is_found_locally(void)
{
    const struct marker clear = marker_text("in the clear");
    struct sl_ring_memory ring;
    struct sl_memory *memory;
    struct sl_port *port;
    struct sl_link *link;
    bool found;

    cr_assert_null(capture_find(&capture, &clear));
    cr_assert_eq(tapped.open(NULL, &port), SEALANE_OK);
    cr_assert_eq(tapped.connect(port, kitchen.address, &link), SEALANE_OK);
    cr_assert_eq(link->ops->send(link, clear.bytes, clear.count), SEALANE_OK);
    tapped.close(port);
    cr_assert_not_null(capture_find(&capture, &clear));
    cr_assert_eq(sl_memory_host_new(&memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, 8192, &ring), SEALANE_OK);
    (void)shared_pages_find(&clear, &found);
    cr_assert_not(found);
    memcpy(ring.base + 4080, clear.bytes, clear.count); /* across two pages */
    (void)shared_pages_find(&clear, &found);
    cr_assert(found, "the search does not find what stands in shared memory");
    sl_memory_ops(memory)->ring_free(memory, &ring);
    sl_memory_ops(memory)->close(memory);
}

Test(capture, invariant_1_nothing_said_is_seen_over_link_local)
{
    static const struct sl_link_ops *const links[] = {&tapped, NULL};
    const struct sl_node_setup setup = {.links = links};
    char address[64];
    bool found;

    tapped = sl_link_local;
    tapped.connect = tapped_connect;
    tapped.poll = tapped_poll;
    tapped.send = tapped_send;
    tapped.write_imm = tapped_write_imm;
    (void)snprintf(address, sizeof(address), "unix-abstract:sealane-capture-%d", (int)getpid());
    serve(address, &setup);
    reach(kitchen.address, "local");
    echo_secrets();
    fail_secretly();
    expect_unseen("over link_local");
    for (int i = 0; i < SECRETS; i++) {
        cr_assert_gt(shared_pages_find(&secrets[i], &found), 1 << 20);
        cr_assert_not(found, "%s is seen in shared memory", secrets[i].what);
    }
    expect_clear_is_found_locally();
    close_kitchen();
}

/* ---- tcp ---- */

static int port_of(const char *address)
{
    return atoi(strrchr(address, ':') + 1);
}

static void send_clear(int port, const struct marker *marker)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(send(fd, marker->bytes, marker->count, MSG_NOSIGNAL), (ssize_t)marker->count);
    for (int i = 0; i < 500 && !capture_find(&capture, marker); i++)
        (void)usleep(10000);
    (void)close(fd);
}

static void expect_unseen_over_tcp(int port, const char *where)
{
    const struct marker clear = marker_text("in the clear");
    char target[64];

    (void)snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    reach(target, "tcp");
    echo_secrets();
    fail_secretly();
    expect_unseen(where);
    sealane_channel_free(kitchen.channel); /* the relay takes one connection at a time */
    kitchen.channel = NULL;
    cr_assert_null(capture_find(&capture, &clear));
    send_clear(port, &clear);
    cr_assert_not_null(capture_find(&capture, &clear), "what is sent in the clear is not found");
    capture_stop(&capture);
    cr_assert_eq(capture.dropped, 0, "%u packets were not recorded", capture.dropped);
    close_kitchen();
}

Test(capture, invariant_1_nothing_said_is_seen_in_tcp_packets)
{
    serve("127.0.0.1:0", NULL);
    if (!capture_packets(&capture, port_of(kitchen.address))) {
        close_kitchen();
        cr_skip("no CAP_NET_RAW: only the relay looks");
    }
    expect_unseen_over_tcp(port_of(kitchen.address), "in packets on loopback");
}

Test(capture, invariant_1_nothing_said_is_seen_by_a_tcp_relay)
{
    serve("127.0.0.1:0", NULL);
    capture_relay(&capture, port_of(kitchen.address));
    expect_unseen_over_tcp(capture.relay_port, "by a relay");
}

/* ---- RDMA ---- */

#ifdef SEALANE_VERBS
/* The ends of the rig's wire; empty elsewhere. */
static char near_end[32], far_end[32];

static void wire_find(void)
{
    const char *wire = getenv("SEALANE_RIG_WIRE");

    if (!wire || sscanf(wire, "%31s %31s", near_end, far_end) != 2)
        cr_skip_test("only the rig has a wire between two RDMA devices");
}

int __real_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int timeout_ms);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int timeout_ms);

/* From the near end, or the far device would talk to itself and nothing would cross the wire. */
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                             int timeout_ms)
{
    struct sockaddr_in near = {.sin_family = AF_INET};

    if (!from && inet_pton(AF_INET, near_end, &near.sin_addr) == 1)
        from = (struct sockaddr *)&near;
    return __real_rdma_resolve_addr(id, from, to, timeout_ms);
}

/* What a careless peer of link_verbs would send: a marker and a piece of a tensor, by a queue pair of its own. */
static void send_clear_by_rdma(const struct marker *marker)
{
    struct sl_port *victim;
    struct raw stranger;
    char address[SL_ADDRESS_BYTES];

    (void)snprintf(address, sizeof(address), "%s:0", far_end);
    cr_assert_eq(sl_link_verbs.open(NULL, &victim), SEALANE_OK);
    cr_assert_eq(sl_link_verbs.listen(victim, address, address), SEALANE_OK);
    raw_connect(&stranger, victim, address);
    memcpy(stranger.bytes + 100, marker->bytes, marker->count);
    memcpy(stranger.bytes + 500, allowed_bytes + 160, 16);
    (void)raw_do(&stranger, IBV_WR_SEND, 1000, 0, 0, 0);
    for (int i = 0; i < 500 && !capture_find(&capture, marker); i++)
        (void)usleep(10000);
    raw_expect_gone(&stranger);
    sl_link_verbs.drop(stranger.link);
    raw_close(&stranger);
    sl_link_verbs.close(victim);
}

Test(capture, invariant_1_nothing_said_is_seen_in_rdma_packets)
{
    const struct marker clear = marker_text("in the clear");
    char address[64];

    wire_find();
    (void)snprintf(address, sizeof(address), "%s:0", far_end);
    serve(address, NULL);
    cr_assert(capture_device(&capture, "wire0"));
    reach(kitchen.address, "verbs");
    echo_secrets();
    fail_secretly();
    expect_unseen("in packets on the wire");
    /* A packet holds 4 KiB at most. */
    cr_assert_gt(atomic_load(&capture.rdma_frames), capture_count(&capture) / 4200);
    (void)fprintf(stderr, "%u RDMA packets\n", atomic_load(&capture.rdma_frames));
    cr_assert_null(capture_find(&capture, &clear));
    send_clear_by_rdma(&clear);
    cr_assert_not_null(capture_find(&capture, &clear), "what is sent in the clear is not found");
    cr_assert_eq(capture_find_piece(&capture, allowed_bytes, ALLOWED), 160);
    capture_stop(&capture);
    cr_assert_eq(capture.dropped, 0, "%u packets were not recorded", capture.dropped);
    close_kitchen();
}
#endif
