/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - see capture.h. */
#include "tests/support/capture.h"

#include "transport/keys.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PACKET_MAX = 1 << 17,
    SOCKET_BYTES = 64 << 20,
    LOOK_MS = 20,
    ROCE_V2_PORT = 4791, /* IANA; InfiniBand architecture, annex 17 */
    PIECE = 16
};

void capture_init(struct capture *capture)
{
    memset(capture, 0, sizeof(*capture));
    capture->fd = -1;
    cr_assert_eq(pthread_mutex_init(&capture->lock, NULL), 0);
}

void capture_free(struct capture *capture)
{
    for (int i = 0; i < CAPTURE_STREAMS; i++)
        free(capture->streams[i].bytes);
    (void)pthread_mutex_destroy(&capture->lock);
}

void capture_add(struct capture *capture, unsigned stream, const void *bytes, size_t count)
{
    __typeof__(capture->streams[0]) *to = &capture->streams[stream];

    (void)pthread_mutex_lock(&capture->lock);
    if (to->count + count > to->size) {
        to->size = (to->count + count) * 2;
        to->bytes = realloc(to->bytes, to->size);
        if (!to->bytes)
            abort();
    }
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
    (void)pthread_mutex_unlock(&capture->lock);
}

size_t capture_count(struct capture *capture)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&capture->lock);
    for (int i = 0; i < CAPTURE_STREAMS; i++)
        count += capture->streams[i].count;
    (void)pthread_mutex_unlock(&capture->lock);
    return count;
}

/* ---- packets ---- */

/* An IPv4 packet: the payload of its TCP segment joins its direction's stream. */
static void packet_take(struct capture *capture, const uint8_t *packet, size_t bytes)
{
    size_t ip_head = (size_t)(packet[0] & 0xf) * 4, head, total;
    uint16_t from, to;

    if (bytes < sizeof(struct iphdr) || packet[9] != IPPROTO_TCP ||
        bytes < ip_head + sizeof(struct tcphdr))
        return;
    memcpy(&from, packet + ip_head, 2);
    memcpy(&to, packet + ip_head + 2, 2);
    head = ip_head + (size_t)(packet[ip_head + 12] >> 4) * 4;
    total = (size_t)packet[2] << 8 | packet[3];
    if (total == 0 ||
        total > bytes) /* 0: a segment larger than IP can tell, as loopback passes on */
        total = bytes;
    if (total > head)
        capture_add(capture, ntohs(to) == capture->server_port ? 0 : 1, packet + head,
                    total - head);
}

/* A packet as it left or came. */
static void device_take(struct capture *capture, const uint8_t *packet, size_t bytes, bool out)
{
    size_t ip_head = (size_t)(packet[0] & 0xf) * 4;
    uint16_t to;

    if (bytes >= ip_head + sizeof(struct udphdr) && packet[0] >> 4 == 4 &&
        packet[9] == IPPROTO_UDP) {
        memcpy(&to, packet + ip_head + 2, sizeof(to));
        if (ntohs(to) == ROCE_V2_PORT)
            atomic_fetch_add(&capture->rdma_frames, 1);
    }
    capture_add(capture, out ? 0 : 1, packet, bytes);
}

static void *packets_run(void *context)
{
    struct capture *capture = context;
    uint8_t *packet = malloc(PACKET_MAX);
    struct pollfd readable = {.fd = capture->fd, .events = POLLIN};

    for (;;) {
        struct sockaddr_ll from;
        socklen_t from_bytes = sizeof(from);
        bool last = atomic_load(&capture->stop);
        ssize_t got;

        if (poll(&readable, 1, LOOK_MS) == 0) {
            if (last)
                break;
            continue;
        }
        got = recvfrom(capture->fd, packet, PACKET_MAX, MSG_TRUNC, (struct sockaddr *)&from,
                       &from_bytes);
        if (got > PACKET_MAX)
            capture->dropped++;
        else if (got > 0 && capture->device)
            device_take(capture, packet, (size_t)got, from.sll_pkttype == PACKET_OUTGOING);
        else if (got > 0 && from.sll_pkttype != PACKET_OUTGOING) /* loopback shows each twice */
            packet_take(capture, packet, (size_t)got);
    }
    free(packet);
    return NULL;
}

/* Only IPv4 without options, from or to the port: other tests use loopback too. */
static void filter_attach(int fd, int port)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)port, 2, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)port, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, PACKET_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
}

/* `port` 0: everything. */
static bool packets_begin(struct capture *capture, const char *device, uint16_t protocol, int port)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(protocol),
                             .sll_ifindex = (int)if_nametoindex(device)};
    const int bytes = SOCKET_BYTES;

    cr_assert_neq(at.sll_ifindex, 0, "no network device %s", device);
    capture->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (capture->fd < 0) {
        cr_assert(errno == EPERM || errno == EACCES, "no packet socket: errno %d", errno);
        return false;
    }
    if (setsockopt(capture->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
        (void)setsockopt(capture->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); /* a wish */
    if (port != 0)
        filter_attach(capture->fd, port);
    cr_assert_eq(bind(capture->fd, (struct sockaddr *)&at, sizeof(at)), 0, "errno %d", errno);
    capture->server_port = port;
    cr_assert_eq(pthread_create(&capture->thread, NULL, packets_run, capture), 0);
    return true;
}

bool capture_packets(struct capture *capture, int port)
{
    return packets_begin(capture, "lo", ETH_P_IP, port);
}

bool capture_device(struct capture *capture, const char *device)
{
    capture->device = true;
    return packets_begin(capture, device, ETH_P_ALL, 0);
}

/* ---- the relay ---- */

static int loopback_socket(int port, bool listening)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), result;

    result = listening ? bind(fd, (struct sockaddr *)&at, sizeof(at))
                       : connect(fd, (struct sockaddr *)&at, sizeof(at));
    if (fd < 0 || result != 0 || (listening && listen(fd, 8) != 0))
        abort();
    return fd;
}

/* Passes on once from `from` to `to`. False at the stream's end. */
static bool relay_once(struct capture *capture, unsigned stream, int from, int to)
{
    static uint8_t bytes[65536];
    ssize_t got = recv(from, bytes, sizeof(bytes), 0);

    if (got <= 0)
        return false;
    capture_add(capture, stream, bytes, (size_t)got);
    for (ssize_t done = 0; done < got;) {
        ssize_t sent = send(to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        done += sent;
    }
    return true;
}

static void relay_connection(struct capture *capture, int client)
{
    int server = loopback_socket(capture->server_port, false);
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool open = true;

    while (open && !atomic_load(&capture->stop)) {
        if (poll(fds, 2, LOOK_MS) <= 0)
            continue;
        if (fds[0].revents)
            open = relay_once(capture, 0, client, server);
        if (open && fds[1].revents)
            open = relay_once(capture, 1, server, client);
    }
    (void)close(server);
}

static void *relay_run(void *context)
{
    struct capture *capture = context;
    struct pollfd readable = {.fd = capture->fd, .events = POLLIN};

    while (!atomic_load(&capture->stop)) {
        int client;

        if (poll(&readable, 1, LOOK_MS) <= 0)
            continue;
        client = accept4(capture->fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        relay_connection(capture, client);
        (void)close(client);
    }
    return NULL;
}

void capture_relay(struct capture *capture, int port)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof(at);

    capture->server_port = port;
    capture->fd = loopback_socket(0, true);
    cr_assert_eq(getsockname(capture->fd, (struct sockaddr *)&at, &bytes), 0);
    capture->relay_port = ntohs(at.sin_port);
    cr_assert_eq(pthread_create(&capture->thread, NULL, relay_run, capture), 0);
}

void capture_stop(struct capture *capture)
{
    struct tpacket_stats stats = {0};
    socklen_t bytes = sizeof(stats);

    atomic_store(&capture->stop, true);
    cr_assert_eq(pthread_join(capture->thread, NULL), 0);
    if (capture->relay_port == 0 &&
        getsockopt(capture->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0)
        capture->dropped += stats.tp_drops;
    (void)close(capture->fd);
}

/* ---- markers ---- */

struct marker marker_of(const char *what, const char *text)
{
    struct marker marker = {.what = what, .count = strlen(text)};

    cr_assert(marker.count >= 8 && marker.count <= MARKER_MAX);
    memcpy(marker.bytes, text, marker.count);
    return marker;
}

struct marker marker_text(const char *what)
{
    struct marker marker = {.what = what, .count = 32};

    cr_assert_eq(sl_random(marker.bytes, marker.count), SEALANE_OK);
    for (size_t i = 0; i < marker.count; i++)
        marker.bytes[i] = (uint8_t)('a' + marker.bytes[i] % 26);
    memcpy(marker.bytes, "MARK-", 5);
    return marker;
}

struct marker marker_bytes(const char *what)
{
    struct marker marker = {.what = what, .count = 32};

    cr_assert_eq(sl_random(marker.bytes, marker.count), SEALANE_OK);
    return marker;
}

/* Base64 of what follows `skip` bytes, without its last group: wherever the marker stands in a longer text, one of three is in it. */
static size_t base64(const struct marker *marker, size_t skip, uint8_t *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = 0;

    for (size_t i = skip; i + 3 <= marker->count; i += 3) {
        const uint8_t *at = marker->bytes + i;
        uint32_t group = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];

        for (int shift = 18; shift >= 0; shift -= 6)
            to[count++] = (uint8_t)digits[group >> shift & 63];
    }
    return count;
}

size_t marker_form(const struct marker *marker, unsigned form, uint8_t to[MARKER_FORM_BYTES])
{
    size_t count = 0;

    if (form == 0) {
        memcpy(to, marker->bytes, marker->count);
        return marker->count;
    }
    if (form >= 3)
        return base64(marker, form - 3, to);
    for (size_t i = 0; i < marker->count; i++)
        count += (size_t)snprintf((char *)to + count, MARKER_FORM_BYTES - count,
                                  form == 1 ? "%02x" : "%02X", marker->bytes[i]);
    return count;
}

const char *capture_find(struct capture *capture, const struct marker *marker)
{
    static const char *const names[MARKER_FORMS] = {"as it is", "hexadecimal", "hexadecimal",
                                                    "base64",   "base64",      "base64"};
    uint8_t bytes[MARKER_FORM_BYTES];
    const char *found = NULL;

    (void)pthread_mutex_lock(&capture->lock);
    for (unsigned form = 0; form < MARKER_FORMS && !found; form++) {
        size_t count = marker_form(marker, form, bytes);

        for (int i = 0; i < CAPTURE_STREAMS && !found; i++) {
            if (capture->streams[i].count > 0 &&
                memmem(capture->streams[i].bytes, capture->streams[i].count, bytes, count))
                found = names[form];
        }
    }
    (void)pthread_mutex_unlock(&capture->lock);
    return found;
}

/* ---- pieces ---- */

/* Pieces by the hash of their first 8 bytes; what comes later of the same hash stands in the next free place. */
struct pieces {
    const uint8_t *bytes;
    uint32_t *places; /* 1 + the number of a piece; 0: free */
    uint64_t mask;
};

static uint64_t place_of(const struct pieces *pieces, const uint8_t *at)
{
    uint64_t first;

    memcpy(&first, at, sizeof(first));
    return (first * 0x9e3779b97f4a7c15) >> 32 & pieces->mask;
}

static struct pieces pieces_make(const uint8_t *bytes, size_t count)
{
    struct pieces pieces = {.bytes = bytes, .mask = 1023};

    while (pieces.mask < count / PIECE * 8)
        pieces.mask = pieces.mask * 2 + 1;
    pieces.places = calloc(pieces.mask + 1, sizeof(*pieces.places));
    if (!pieces.places)
        abort();
    for (size_t i = 0; i < count / PIECE; i++) {
        uint64_t place = place_of(&pieces, bytes + i * PIECE);

        while (pieces.places[place] != 0)
            place = (place + 1) & pieces.mask;
        pieces.places[place] = (uint32_t)i + 1;
    }
    return pieces;
}

static long piece_at(const struct pieces *pieces, const uint8_t *at)
{
    uint32_t piece;

    for (uint64_t place = place_of(pieces, at); (piece = pieces->places[place]) != 0;
         place = (place + 1) & pieces->mask) {
        size_t begins = (size_t)(piece - 1) * PIECE;

        if (memcmp(pieces->bytes + begins, at, PIECE) == 0)
            return (long)begins;
    }
    return -1;
}

long capture_find_piece(struct capture *capture, const uint8_t *bytes, size_t count)
{
    struct pieces pieces = pieces_make(bytes, count);
    long found = -1;

    (void)pthread_mutex_lock(&capture->lock);
    for (int stream = 0; stream < CAPTURE_STREAMS; stream++) {
        const uint8_t *in = capture->streams[stream].bytes;

        for (size_t i = 0; i + PIECE <= capture->streams[stream].count && found < 0; i++)
            found = piece_at(&pieces, in + i);
    }
    (void)pthread_mutex_unlock(&capture->lock);
    free(pieces.places);
    return found;
}
