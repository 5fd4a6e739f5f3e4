/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_out.c - what goes: frames wait as pieces of memory and leave together, one system call for all that one turn of the
 * node wrote. Small writes are copied, large ones are sent from where they lie. */
#include "transport/bytes.h"
#include "transport/link_tcp_inside.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* ---- attaching ---- */

/* A grant of TCP opens nothing by itself, so it tells just what the ring is; its owner bounds every write. */
SEALANE_RESULT sl_tcp_attach(struct sl_link *link, enum sl_ring_id id,
                             const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes, size_t stride)
{
    struct sl_tcp_ring *ring = &sl_tcp_of(link)->theirs[id];
    uint64_t granted_bytes = sl_get64(descriptor + 8);
    uint32_t granted_stride = sl_get32(descriptor + 4);

    if (descriptor[0] != SL_TCP_MAGIC || descriptor[1] != SL_TCP_VERSION || descriptor[2] != id)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a grant that begins with %02x %02x %02x, expected %02x %02x %02x",
                       descriptor[0], descriptor[1], descriptor[2], SL_TCP_MAGIC, SL_TCP_VERSION,
                       (unsigned)id);
    if (stride == 0 || stride != granted_stride || bytes < stride || bytes > granted_bytes)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a ring of %zu bytes with a stride of %zu, granted were %llu and %u", bytes,
                       stride, (unsigned long long)granted_bytes, granted_stride);
    if (ring->slots > 0)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is attached already", (int)id);
    *ring = (struct sl_tcp_ring){.bytes = bytes, .stride = stride, .slots = bytes / stride};
    return SEALANE_OK;
}

/* The kernel takes bytes from anywhere. */
SEALANE_RESULT sl_tcp_sources(struct sl_link *link, const void *base, size_t bytes)
{
    (void)link;
    (void)base;
    (void)bytes;
    return SEALANE_OK;
}

void sl_tcp_forget(struct sl_link *link, const void *base)
{
    (void)link;
    (void)base;
}

/* ---- waiting pieces ---- */

static bool out_has_room(const struct sl_tcp_out *out, size_t stage_bytes)
{
    return out->count + 2 <= SL_TCP_PIECES && stage_bytes <= SL_TCP_STAGE_BYTES - out->staged;
}

/* Copies into the stage, behind what was copied before. There is room. */
static void stage_put(struct sl_tcp_out *out, const void *bytes, size_t count)
{
    uint8_t *to = out->stage + out->staged;

    memcpy(to, bytes, count);
    out->staged += count;
    if (out->count > out->first && out->pieces[out->count - 1].released == 0)
        out->pieces[out->count - 1].bytes += count;
    else
        out->pieces[out->count++] = (struct sl_tcp_piece){.from = to, .bytes = count};
}

static void header_put(struct sl_tcp_out *out, const struct sl_tcp_header *header)
{
    uint8_t bytes[SL_TCP_HEADER_BYTES] = {SL_TCP_MAGIC, SL_TCP_VERSION, header->kind, header->ring};

    sl_put32(bytes + 4, header->bytes);
    sl_put32(bytes + 8, header->slot);
    sl_put32(bytes + 12, header->immediate);
    stage_put(out, bytes, sizeof(bytes));
}

/* The owner's memory is sent from where it lies; the link's counter waits for it. */
static void lend(struct sl_tcp_out *out, const struct sl_link_write *write, uint64_t number)
{
    out->last_lent = out->count++;
    out->lent++;
    out->pieces[out->last_lent] =
        (struct sl_tcp_piece){.from = write->from, .bytes = write->bytes, .released = number};
}

static void out_clear(struct sl_tcp_out *out)
{
    out->first = out->count = out->lent = out->staged = 0;
}

void sl_tcp_discard(struct sl_tcp *tcp)
{
    out_clear(&tcp->out);
    tcp->link.released = tcp->link.posted;
    sl_tcp_unlist(tcp, SL_TCP_UNSENT);
}

/* ---- to the kernel ---- */

static void out_gone(struct sl_tcp *tcp, size_t bytes)
{
    struct sl_tcp_out *out = &tcp->out;

    while (bytes > 0) {
        struct sl_tcp_piece *piece = &out->pieces[out->first];
        size_t part = bytes < piece->bytes ? bytes : piece->bytes;

        piece->from += part;
        piece->bytes -= part;
        bytes -= part;
        if (piece->bytes > 0)
            return;
        out->first++;
        if (piece->released > 0) {
            tcp->link.released = piece->released;
            out->lent--;
        }
    }
    if (out->first == out->count)
        out_clear(out);
}

/* Bytes that the kernel took, or -1 with errno. */
static ssize_t pieces_send(const struct sl_tcp *tcp, size_t *offered_p)
{
    const struct sl_tcp_out *out = &tcp->out;
    struct iovec vector[SL_TCP_PIECES];
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = out->count - out->first};
    ssize_t sent;

    *offered_p = 0;
    for (size_t i = 0; i < message.msg_iovlen; i++) {
        const struct sl_tcp_piece *piece = &out->pieces[out->first + i];

        vector[i] = (struct iovec){(void *)(uintptr_t)piece->from, piece->bytes};
        *offered_p += piece->bytes;
    }
    do
        sent = sendmsg(tcp->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

void sl_tcp_flush(struct sl_tcp *tcp)
{
    size_t offered;
    ssize_t sent;

    sl_tcp_unlist(tcp, SL_TCP_UNSENT);
    if (tcp->out.count == 0)
        return;
    sent = pieces_send(tcp, &offered);
    if (sent < 0 && errno != EAGAIN) {
        sl_tcp_silence(tcp, errno);
        return;
    }
    if (sent > 0)
        out_gone(tcp, (size_t)sent);
    if (sent >= 0 && (size_t)sent == offered) {
        if (tcp->wants_writable) {
            tcp->wants_writable = false;
            tcp->tell_writable = true;
            sl_tcp_list(tcp, SL_TCP_READY);
        }
        return;
    }
    if (!tcp->connecting && !tcp->blocked) {
        tcp->blocked = true;
        tcp->port->waiting++;
        sl_tcp_watch(tcp);
    }
}

/* ---- what the lane asks ---- */

/* Handshakes are small and rare: their bytes leave at once. */
SEALANE_RESULT sl_tcp_send(struct sl_link *link, const uint8_t *bytes, size_t count)
{
    struct sl_tcp *tcp = sl_tcp_of(link);
    const struct sl_tcp_header header = {.kind = SL_TCP_BYTES, .bytes = (uint32_t)count};

    if (count == 0 || count > SL_LINK_SEND_BYTES)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a send of %zu bytes, expected 1 to %d", count,
                       SL_LINK_SEND_BYTES);
    if (!tcp->mute && !tcp->over && !out_has_room(&tcp->out, sizeof(header) + count)) {
        tcp->wants_writable = true;
        return SL_AGAIN;
    }
    if (!tcp->mute && !tcp->over) {
        header_put(&tcp->out, &header);
        stage_put(&tcp->out, bytes, count);
        if (!tcp->blocked)
            sl_tcp_flush(tcp);
    }
    if (tcp->mute || tcp->over)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s", tcp->why);
    return SEALANE_OK;
}

static SEALANE_RESULT write_check(const struct sl_tcp_ring *ring, const struct sl_link_write *write)
{
    if (write->slot >= ring->slots || write->bytes > ring->bytes - write->slot * ring->stride ||
        write->bytes > UINT32_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a write of %zu bytes at slot %u of a ring of %zu slots, %zu bytes in all",
                       write->bytes, write->slot, ring->slots, ring->bytes);
    return SEALANE_OK;
}

static void write_put(struct sl_tcp *tcp, const struct sl_link_write *write)
{
    const struct sl_tcp_header header = {.kind = SL_TCP_WRITE,
                                         .ring = (uint8_t)write->ring,
                                         .bytes = (uint32_t)write->bytes,
                                         .slot = write->slot,
                                         .immediate = write->immediate};

    header_put(&tcp->out, &header);
    if (write->bytes > SL_TCP_COPY_MAX)
        lend(&tcp->out, write, tcp->link.posted);
    else if (write->bytes > 0)
        stage_put(&tcp->out, write->from, write->bytes);
    /* A copied write is released at once, but not before one ahead of it. */
    if (tcp->out.lent > 0)
        tcp->out.pieces[tcp->out.last_lent].released = tcp->link.posted;
    else
        tcp->link.released = tcp->link.posted;
}

/* One stream carries all: nothing overtakes what was posted. */
SEALANE_RESULT sl_tcp_write_imm(struct sl_link *link, const struct sl_link_write *write)
{
    struct sl_tcp *tcp = sl_tcp_of(link);
    size_t copied = write->bytes > SL_TCP_COPY_MAX ? 0 : write->bytes;

    SL_TRY(write_check(&tcp->theirs[write->ring], write));
    if (!out_has_room(&tcp->out, SL_TCP_HEADER_BYTES + copied))
        return SL_AGAIN;
    link->placed = ++link->posted;
    if (tcp->mute || tcp->over) { /* GONE tells what came before it first */
        link->released = link->posted;
        return SEALANE_OK;
    }
    write_put(tcp, write);
    if (!tcp->blocked)
        sl_tcp_list(tcp, SL_TCP_UNSENT);
    return SEALANE_OK;
}
