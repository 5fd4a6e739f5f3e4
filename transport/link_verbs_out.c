/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_out.c - what goes: pieces of the handshake at once, writes as one chain of work requests for all that one turn of
 * the node wrote. */
#include "transport/bytes.h"
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT_MASK = 0xffffff, /* of pieces, in an immediate */
    COMPLETIONS = 256,     /* looked at when there is no room, and before a send */
    SEND_PIECES = (SL_LINK_SEND_BYTES + SL_VERBS_PIECE_BYTES - 1) / SL_VERBS_PIECE_BYTES
};

/* ---- attaching, sources ---- */

static SEALANE_RESULT writes_make(struct sl_verbs *verbs)
{
    if (verbs->writes)
        return SEALANE_OK;
    SL_TRY(sl_verbs_reserve(verbs, verbs->writes_max));
    verbs->writes = calloc(SL_VERBS_WORK_MAX, sizeof(*verbs->writes));
    verbs->places = calloc(SL_VERBS_WORK_MAX, sizeof(*verbs->places));
    if (!verbs->writes || !verbs->places)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a link's writes");
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_attach(struct sl_link *link, enum sl_ring_id id,
                               const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes,
                               size_t stride)
{
    struct sl_verbs *verbs = sl_verbs_of(link);
    struct sl_verbs_theirs *ring = &verbs->theirs[id];
    const struct sl_verbs_theirs granted = {.key = sl_get32(descriptor + 4),
                                            .address = sl_get64(descriptor + 8),
                                            .bytes = sl_get64(descriptor + 16),
                                            .stride = sl_get32(descriptor + 24)};

    if (descriptor[0] != SL_VERBS_MAGIC || descriptor[1] != SL_VERBS_VERSION || descriptor[2] != id)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a grant that begins with %02x %02x %02x, expected %02x %02x %02x",
                       descriptor[0], descriptor[1], descriptor[2], SL_VERBS_MAGIC,
                       SL_VERBS_VERSION, (unsigned)id);
    if (stride == 0 || stride != granted.stride || bytes < stride || bytes > granted.bytes ||
        granted.address > UINT64_MAX - granted.bytes)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a ring of %zu bytes with a stride of %zu, granted were %zu and %zu", bytes,
                       stride, granted.bytes, granted.stride);
    if (ring->slots > 0)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is attached already", (int)id);
    if (!verbs->up)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s",
                       verbs->over ? verbs->why : "the link is not connected");
    SL_TRY(writes_make(verbs));
    *ring = granted;
    ring->bytes = bytes;
    ring->slots = bytes / stride;
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_sources(struct sl_link *link, const void *base, size_t bytes)
{
    struct sl_verbs *verbs = sl_verbs_of(link);

    if (!verbs->pd)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s",
                       verbs->over ? verbs->why : "the link is not connected");
    for (size_t i = 0; i < SL_LINK_SOURCES; i++) {
        if (verbs->sources[i].base)
            continue;
        verbs->sources[i] = (struct sl_verbs_source){.base = base, .bytes = bytes};
        return SEALANE_OK;
    }
    return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "a link takes writes from %d places at most",
                   SL_LINK_SOURCES);
}

void sl_verbs_forget(struct sl_link *link, const void *base)
{
    struct sl_verbs *verbs = sl_verbs_of(link);
    struct sl_verbs_source *sources = verbs->sources;
    size_t at = 0, last = 0;
    int error;

    while (last + 1 < SL_LINK_SOURCES && sources[last + 1].base)
        last++;
    while (at < last && sources[at].base != base)
        at++;
    if (sources[at].base != base)
        return;
    error = sources[at].mr ? ibv_dereg_mr(sources[at].mr) : 0;
    if (error != 0)
        SL_LOG(SL_LOG_ERROR, "the device keeps memory that writes to %s left from: %s", verbs->peer,
               strerror(error));
    sources[at] = sources[last];
    sources[last] = (struct sl_verbs_source){.base = NULL};
}

static struct sl_verbs_source *source_of(struct sl_verbs *verbs, const uint8_t *from, size_t bytes)
{
    for (size_t i = 0; i < SL_LINK_SOURCES && verbs->sources[i].base; i++) {
        struct sl_verbs_source *source = &verbs->sources[i];
        uintptr_t at = (uintptr_t)from - (uintptr_t)source->base;

        if (at < source->bytes && bytes <= source->bytes - at)
            return source;
    }
    return NULL;
}

/* ---- writes ---- */

static SEALANE_RESULT write_check(struct sl_verbs *verbs, const struct sl_link_write *write)
{
    const struct sl_verbs_theirs *ring = &verbs->theirs[write->ring];

    if (write->slot >= ring->slots || write->bytes > ring->bytes - write->slot * ring->stride)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a write of %zu bytes at slot %u of a ring of %zu slots, %zu bytes in all",
                       write->bytes, write->slot, ring->slots, ring->bytes);
    if (write->bytes > verbs->write_bytes_max)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a write of %zu bytes, %s takes %u at most",
                       write->bytes, sl_verbs_device_name(verbs->device), verbs->write_bytes_max);
    if (write->bytes > 0 && !source_of(verbs, write->from, write->bytes))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a write of %zu bytes from memory that no sources told of", write->bytes);
    return SEALANE_OK;
}

static bool goes_inline(const struct sl_verbs *verbs, const struct sl_link_write *write)
{
    return write->bytes <= verbs->inline_max;
}

static SEALANE_RESULT source_register(struct sl_verbs *verbs, const struct sl_link_write *write)
{
    struct sl_verbs_source *source =
        goes_inline(verbs, write) ? NULL : source_of(verbs, write->from, write->bytes);

    if (!source || source->mr)
        return SEALANE_OK;
    return sl_verbs_register(verbs, source->base, source->bytes, &source->mr);
}

/* Writes `number` and its place in the arrays; numbers begin with 1. */
static size_t write_at(uint64_t number)
{
    return (size_t)(number % SL_VERBS_WORK_MAX);
}

static void write_put(struct sl_verbs *verbs, const struct sl_link_write *write)
{
    const struct sl_verbs_theirs *ring = &verbs->theirs[write->ring];
    const struct sl_verbs_source *source =
        write->bytes > 0 ? source_of(verbs, write->from, write->bytes) : NULL;
    uint64_t number = verbs->link.posted;
    struct ibv_send_wr *work = &verbs->writes[write_at(number)];
    struct ibv_sge *place = &verbs->places[write_at(number)];

    *place = (struct ibv_sge){.addr = (uintptr_t)write->from,
                              .length = (uint32_t)write->bytes,
                              .lkey = source && source->mr ? source->mr->lkey : 0};
    *work = (struct ibv_send_wr){
        .wr_id = sl_verbs_work_id(verbs, SL_VERBS_WORK_WRITE, (uint16_t)number),
        .sg_list = place,
        .num_sge = write->bytes > 0,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = write->bytes > 0 && goes_inline(verbs, write) ? IBV_SEND_INLINE : 0,
        .imm_data = htonl(write->immediate),
        .wr.rdma = {.remote_addr = ring->address + write->slot * ring->stride, .rkey = ring->key}};
}

/* A write that cannot leave any more is released after those that the device still has. */
static void released_follow(struct sl_verbs *verbs)
{
    verbs->link.released = verbs->completed;
    if (verbs->mute && verbs->completed == verbs->written)
        verbs->link.released = verbs->link.posted;
}

static bool has_room(struct sl_verbs *verbs)
{
    if (verbs->link.posted - verbs->completed >= verbs->writes_max)
        (void)sl_verbs_completions(verbs->device, COMPLETIONS);
    return verbs->link.posted - verbs->completed < verbs->writes_max;
}

/* One reliable connection carries all: nothing overtakes what was posted. */
SEALANE_RESULT sl_verbs_write_imm(struct sl_link *link, const struct sl_link_write *write)
{
    struct sl_verbs *verbs = sl_verbs_of(link);

    SL_TRY(write_check(verbs, write));
    if (!verbs->mute && !has_room(verbs) && !verbs->mute)
        return SL_AGAIN;
    if (!verbs->mute)
        SL_TRY(source_register(verbs, write));
    link->placed = ++link->posted;
    if (verbs->mute) { /* GONE tells what came before it first */
        released_follow(verbs);
        return SEALANE_OK;
    }
    write_put(verbs, write);
    sl_verbs_list(verbs, SL_VERBS_UNSENT);
    return SEALANE_OK;
}

/* Everything that waits as one chain. A completion is asked for by the last of a chain, and often enough for the queue to be
 * given back while a long chain is on its way. */
static void writes_post(struct sl_verbs *verbs)
{
    uint64_t first = verbs->written + 1, last = verbs->link.posted;
    struct ibv_send_wr *bad = NULL;
    int error;

    if (first > last)
        return;
    for (uint64_t n = first; n <= last; n++) {
        struct ibv_send_wr *work = &verbs->writes[write_at(n)];

        work->next = n < last ? &verbs->writes[write_at(n + 1)] : NULL;
        if (n == last || n - verbs->signalled >= verbs->writes_max / 4) {
            work->send_flags |= IBV_SEND_SIGNALED;
            verbs->signalled = n;
        }
    }
    verbs->written = last;
    error = ibv_post_send(verbs->qp, &verbs->writes[write_at(first)], &bad);
    if (error == 0)
        return;
    if (bad) /* it and those behind it were not taken */
        verbs->written = first +
                         (uint64_t)(bad - &verbs->writes[write_at(first)] + SL_VERBS_WORK_MAX) %
                             SL_VERBS_WORK_MAX -
                         1;
    sl_verbs_over(verbs, "the queue pair takes no writes: %s", strerror(error));
}

/* ---- pieces ---- */

static uint8_t *piece_at(const struct sl_verbs *verbs, uint32_t piece)
{
    const struct sl_verbs_block *block = &verbs->blocks[0];

    return block->base + (block->count + piece % SL_VERBS_PIECES) * SL_VERBS_PIECE_BYTES;
}

/* The immediate of a send: what it is, and how far we took what came. */
static uint32_t word(struct sl_verbs *verbs, enum sl_verbs_word kind)
{
    verbs->taken_told = verbs->taken;
    return (uint32_t)kind << 24 | (verbs->taken & COUNT_MASK);
}

static bool post(struct sl_verbs *verbs, struct ibv_send_wr *work)
{
    struct ibv_send_wr *bad;
    int error = ibv_post_send(verbs->qp, work, &bad);

    if (error != 0)
        sl_verbs_over(verbs, "the queue pair takes no sends: %s", strerror(error));
    return error == 0;
}

static bool piece_post(struct sl_verbs *verbs)
{
    uint32_t piece = verbs->pieces_posted;
    struct ibv_sge place = {.addr = (uintptr_t)piece_at(verbs, piece),
                            .length = verbs->piece_bytes[piece % SL_VERBS_PIECES],
                            .lkey = verbs->blocks[0].mr->lkey};
    struct ibv_send_wr work = {.wr_id = sl_verbs_work_id(verbs, SL_VERBS_WORK_PIECE, 0),
                               .sg_list = &place,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND_WITH_IMM,
                               .send_flags = IBV_SEND_SIGNALED,
                               .imm_data = htonl(word(verbs, SL_VERBS_BYTES))};

    verbs->pieces_posted++;
    return post(verbs, &work);
}

static bool word_post(struct sl_verbs *verbs, enum sl_verbs_word kind, enum sl_verbs_work work)
{
    struct ibv_send_wr request = {.wr_id = sl_verbs_work_id(verbs, work, 0),
                                  .opcode = IBV_WR_SEND_WITH_IMM,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .imm_data = htonl(word(verbs, kind))};

    return post(verbs, &request);
}

void sl_verbs_give_credit(struct sl_verbs *verbs)
{
    if (verbs->mute || !verbs->up || verbs->taken - verbs->taken_told < SL_VERBS_PIECES / 2 ||
        verbs->credits_posted == SL_VERBS_CREDITS)
        return;
    verbs->credits_posted++;
    (void)word_post(verbs, SL_VERBS_CREDIT, SL_VERBS_WORK_CREDIT);
}

bool sl_verbs_say_end(struct sl_verbs *verbs)
{
    return !verbs->mute && verbs->up && word_post(verbs, SL_VERBS_END, SL_VERBS_WORK_END);
}

static uint32_t pieces_room(const struct sl_verbs *verbs)
{
    uint32_t waiting = verbs->pieces - verbs->pieces_done; /* memory */
    uint32_t left = verbs->allowed - verbs->pieces;        /* the peer's receives */

    return left < SL_VERBS_PIECES - waiting ? left : SL_VERBS_PIECES - waiting;
}

static void writable_look(struct sl_verbs *verbs)
{
    if (!verbs->wants_writable || pieces_room(verbs) < SEND_PIECES)
        return;
    verbs->wants_writable = false;
    verbs->tell_writable = true;
    sl_verbs_list(verbs, SL_VERBS_READY);
}

bool sl_verbs_credited(struct sl_verbs *verbs, uint32_t taken)
{
    uint32_t before = verbs->allowed - SL_VERBS_PIECES;
    uint32_t more = (taken - before) & COUNT_MASK;

    if (more > verbs->pieces_posted - before)
        return false;
    verbs->allowed += more;
    writable_look(verbs);
    return true;
}

static void pieces_put(struct sl_verbs *verbs, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        size_t part = count < SL_VERBS_PIECE_BYTES ? count : SL_VERBS_PIECE_BYTES;

        memcpy(piece_at(verbs, verbs->pieces), bytes, part);
        verbs->piece_bytes[verbs->pieces++ % SL_VERBS_PIECES] = (uint16_t)part;
        bytes += part;
        count -= part;
    }
}

/* Handshakes are small and rare: their bytes leave at once, and the peer's end is looked for first. */
SEALANE_RESULT sl_verbs_send(struct sl_link *link, const uint8_t *bytes, size_t count)
{
    struct sl_verbs *verbs = sl_verbs_of(link);

    if (count == 0 || count > SL_LINK_SEND_BYTES)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a send of %zu bytes, expected 1 to %d", count,
                       SL_LINK_SEND_BYTES);
    if (verbs->up && !verbs->mute) {
        (void)sl_verbs_manager_take(verbs->port);
        (void)sl_verbs_completions(verbs->device, COMPLETIONS);
    }
    if (verbs->mute)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s", verbs->why);
    if (pieces_room(verbs) < (count + SL_VERBS_PIECE_BYTES - 1) / SL_VERBS_PIECE_BYTES) {
        verbs->wants_writable = true;
        return SL_AGAIN;
    }
    pieces_put(verbs, bytes, count);
    sl_verbs_flush(verbs);
    return SEALANE_OK;
}

/* ---- both ---- */

void sl_verbs_flush(struct sl_verbs *verbs)
{
    sl_verbs_unlist(verbs, SL_VERBS_UNSENT);
    if (!verbs->up || verbs->mute) /* flushed when it is up */
        return;
    writes_post(verbs);
    while (!verbs->mute && verbs->pieces_posted != verbs->pieces && piece_post(verbs)) {
    }
}

void sl_verbs_work_done(struct sl_verbs *verbs, enum sl_verbs_work work, uint16_t number)
{
    switch (work) {
    case SL_VERBS_WORK_WRITE:
        verbs->completed += (uint16_t)(number - (uint16_t)verbs->completed);
        released_follow(verbs);
        break;
    case SL_VERBS_WORK_PIECE:
        verbs->pieces_done++;
        writable_look(verbs);
        break;
    case SL_VERBS_WORK_CREDIT:
        verbs->credits_posted--;
        sl_verbs_give_credit(verbs); /* one may have waited for room */
        break;
    case SL_VERBS_WORK_END:
        verbs->finished = true;
        break;
    default:
        break;
    }
}
