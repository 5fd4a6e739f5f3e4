/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_in.c - what comes: headers are judged, bytes go into the ring that they name. The stream may be cut anywhere. What a
 * header says is checked against the ring as it was granted before it is used, without sums that could wrap. */
#include "transport/bytes.h"
#include "transport/link_tcp_inside.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum {
    PER_TURN_BYTES = 131072, /* read from one link before the next one's turn */
    BEHIND_BYTES = 4096 /* read along with the rest of a large write: headers and small frames */
};

/* ---- granting ---- */

SEALANE_RESULT sl_tcp_grant(struct sl_link *link, enum sl_ring_id id,
                            const struct sl_ring_memory *memory, size_t stride,
                            uint8_t descriptor[SL_GRANT_BYTES])
{
    struct sl_tcp_ring *ring = &sl_tcp_of(link)->mine[id];

    if (stride == 0 || stride > memory->bytes || stride > UINT32_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a stride of %zu in a ring of %zu bytes", stride,
                       memory->bytes);
    if (ring->slots > 0)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is granted already", (int)id);
    SL_TRY(sl_ring_is_hosts(memory, "tcp"));
    *ring = (struct sl_tcp_ring){.base = memory->base,
                                 .bytes = memory->bytes,
                                 .stride = stride,
                                 .slots = memory->bytes / stride};
    memset(descriptor, 0, SL_GRANT_BYTES);
    descriptor[0] = SL_TCP_MAGIC;
    descriptor[1] = SL_TCP_VERSION;
    descriptor[2] = (uint8_t)id;
    sl_put32(descriptor + 4, (uint32_t)stride);
    sl_put64(descriptor + 8, memory->bytes);
    return SEALANE_OK;
}

/* ---- headers ---- */

static bool bytes_begin(struct sl_tcp *tcp, const struct sl_tcp_header *header)
{
    if (header->bytes == 0 || header->bytes > SL_LINK_SEND_BYTES || header->ring != 0 ||
        header->slot != 0 || header->immediate != 0) {
        sl_tcp_over(
            tcp, "the peer sent %u handshake bytes with ring %u, slot %u, expected 1 to %d, 0, 0",
            header->bytes, header->ring, header->slot, SL_LINK_SEND_BYTES);
        return false;
    }
    return true;
}

static bool write_begin(struct sl_tcp *tcp, const struct sl_tcp_header *header)
{
    const struct sl_tcp_ring *ring = &tcp->mine[header->ring < SL_RING_COUNT ? header->ring : 0];

    if (header->ring >= SL_RING_COUNT || ring->slots == 0) {
        sl_tcp_over(tcp, "the peer wrote to ring %u, which it was not granted", header->ring);
        return false;
    }
    if (header->slot >= ring->slots || header->bytes > ring->bytes - header->slot * ring->stride) {
        sl_tcp_over(tcp, "the peer wrote %u bytes at slot %u of a ring of %zu slots, %zu bytes",
                    header->bytes, header->slot, ring->slots, ring->bytes);
        return false;
    }
    tcp->in.to = ring->base + header->slot * ring->stride;
    return true;
}

/* Begins the frame whose header waits. False: it is refused and the link is over. */
static bool frame_begin(struct sl_tcp *tcp)
{
    struct sl_tcp_in *in = &tcp->in;
    const uint8_t *at = in->bytes + in->at;
    const struct sl_tcp_header header = {.kind = at[2],
                                         .ring = at[3],
                                         .bytes = sl_get32(at + 4),
                                         .slot = sl_get32(at + 8),
                                         .immediate = sl_get32(at + 12)};

    if (at[0] != SL_TCP_MAGIC || at[1] != SL_TCP_VERSION ||
        (header.kind != SL_TCP_BYTES && header.kind != SL_TCP_WRITE)) {
        sl_tcp_over(
            tcp,
            "the peer sent a header %02x %02x %02x, expected %02x %02x and 42 or 57: no sealane?",
            at[0], at[1], at[2], SL_TCP_MAGIC, SL_TCP_VERSION);
        return false;
    }
    if (header.kind == SL_TCP_BYTES ? !bytes_begin(tcp, &header) : !write_begin(tcp, &header))
        return false;
    in->at += SL_TCP_HEADER_BYTES;
    in->kind = (enum sl_tcp_kind)header.kind;
    in->rest = header.bytes;
    in->immediate = header.immediate;
    return true;
}

/* ---- frames ---- */

enum step {
    STEP_STARVED, /* nothing goes on without more bytes, or the link is over */
    STEP_ON,
    STEP_TELL
};

static size_t in_waiting(const struct sl_tcp_in *in)
{
    return in->end - in->at;
}

static size_t in_part(const struct sl_tcp_in *in)
{
    return in_waiting(in) < in->rest ? in_waiting(in) : in->rest;
}

/* Handshake bytes are told as they come. */
static enum step bytes_step(struct sl_tcp *tcp, struct sl_link_event *event)
{
    struct sl_tcp_in *in = &tcp->in;
    size_t part = in_part(in);

    if (part == 0)
        return STEP_STARVED;
    *event = (struct sl_link_event){
        .kind = SL_LINK_BYTES, .link = &tcp->link, .bytes = in->bytes + in->at, .count = part};
    in->at += part;
    in->rest -= part;
    if (in->rest == 0)
        in->kind = SL_TCP_NONE;
    return STEP_TELL;
}

static enum step write_step(struct sl_tcp *tcp, struct sl_link_event *event)
{
    struct sl_tcp_in *in = &tcp->in;
    size_t part = in_part(in);

    if (part > 0) {
        memcpy(in->to, in->bytes + in->at, part);
        in->to += part;
        in->at += part;
        in->rest -= part;
    }
    if (in->rest > 0)
        return STEP_STARVED;
    in->kind = SL_TCP_NONE;
    event->kind = SL_LINK_ARRIVED;
    event->link = &tcp->link;
    event->immediate = in->immediate;
    return STEP_TELL;
}

static enum step step(struct sl_tcp *tcp, struct sl_link_event *event)
{
    if (tcp->in.kind == SL_TCP_WRITE)
        return write_step(tcp, event);
    if (tcp->in.kind == SL_TCP_BYTES)
        return bytes_step(tcp, event);
    if (tcp->over || in_waiting(&tcp->in) < SL_TCP_HEADER_BYTES)
        return STEP_STARVED;
    return frame_begin(tcp) ? STEP_ON : STEP_STARVED;
}

bool sl_tcp_has_more(const struct sl_tcp *tcp)
{
    const struct sl_tcp_in *in = &tcp->in;

    if (tcp->over)
        return false;
    if (in->kind == SL_TCP_NONE)
        return in_waiting(in) >= SL_TCP_HEADER_BYTES;
    return in->rest == 0 || in_waiting(in) > 0;
}

/* ---- reading ---- */

/* The end of the stream, or an error of it. */
static void none_came(struct sl_tcp *tcp, ssize_t bytes)
{
    if (bytes < 0 && errno == EINTR)
        return;
    if (bytes < 0 && errno == EAGAIN) {
        tcp->unread = false;
        tcp->tries++;
        if (tcp->mute)
            sl_tcp_over(tcp, "the connection to %.60s broke", tcp->peer);
    } else if (bytes < 0) {
        sl_tcp_over(tcp, "the connection to %.60s broke: %s", tcp->peer, strerror(errno));
    } else {
        sl_tcp_over(tcp, "the peer %.60s closed%s", tcp->peer,
                    tcp->in.kind == SL_TCP_NONE && in_waiting(&tcp->in) == 0
                        ? ""
                        : " in the middle of a frame");
    }
}

/* The rest of a write goes straight to its place, what comes behind it into the buffer. Everything in there was judged, up to
 * less than a header. Returns the bytes read. */
static size_t in_fill(struct sl_tcp *tcp)
{
    struct sl_tcp_in *in = &tcp->in;
    bool straight = in->kind == SL_TCP_WRITE;
    struct iovec vector[2];
    size_t asked, first = straight ? in->rest : 0;
    ssize_t bytes;

    memmove(in->bytes, in->bytes + in->at, in_waiting(in));
    in->end -= in->at;
    in->at = 0;
    vector[0] = (struct iovec){in->to, first};
    vector[1] =
        (struct iovec){in->bytes + in->end, straight ? BEHIND_BYTES : SL_TCP_IN_BYTES - in->end};
    asked = first + vector[1].iov_len;
    bytes = straight ? readv(tcp->fd, vector, 2)
                     : recv(tcp->fd, vector[1].iov_base, vector[1].iov_len, MSG_DONTWAIT);
    if (bytes <= 0) {
        none_came(tcp, bytes);
        return 0;
    }
    if (first > (size_t)bytes)
        first = (size_t)bytes;
    if (first > 0)
        in->to += first;
    in->rest -= first;
    in->end += (size_t)bytes - first;
    tcp->unread = (size_t)bytes == asked;
    tcp->tries = 0;
    return (size_t)bytes;
}

int sl_tcp_take(struct sl_tcp *tcp, struct sl_link_event *events, int max)
{
    size_t budget = PER_TURN_BYTES;
    bool fresh = false; /* bytes were read in this turn and no more are expected */
    int count = 0;

    while (count < max) {
        enum step did = step(tcp, &events[count]);
        size_t bytes;

        count += did == STEP_TELL;
        if (did == STEP_TELL && events[count - 1].kind == SL_LINK_BYTES)
            return count; /* they lie in the buffer until the next poll */
        if (did != STEP_STARVED)
            continue;
        if (tcp->over || fresh || budget == 0)
            return count;
        bytes = in_fill(tcp);
        if (bytes == 0)
            return count;
        budget -= bytes < budget ? bytes : budget;
        fresh = !tcp->unread;
    }
    return count;
}
