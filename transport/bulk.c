/* SPDX-License-Identifier: Apache-2.0 */
/* bulk.c - chunks of tensors: sealed into the peer's bulk ring and announced, opened from ours and credited.
 *
 * Out: take chunks that have credit -> seal (a batch of jobs) -> one write -> once placed, one BULK record in the message ring.
 * In:  BULK record -> ask where it goes -> open (a batch of jobs) -> tell -> credit. Both keep strict seq order at their ends
 * while jobs may finish in any order between.
 */
#include "transport/lane_inside.h"

#include <stdlib.h>

enum {
    JOBS_MAX = 64, /* of one batch */
    POSTED_BYTES_MAX =
        512 * 1024 /* bulk on its way per lane, so that messages are never far behind */
};

SEALANE_RESULT sl_bulk_init(struct sl_lane *lane, uint32_t limit)
{
    uint32_t slots_in = lane->rx[SL_RING_BULK].geometry.slots;

    lane->out.limit = limit;
    lane->out.batches = calloc(lane->out.limit, sizeof(*lane->out.batches));
    lane->out.jobs = calloc((size_t)lane->out.limit * 2, sizeof(*lane->out.jobs));
    lane->in.runs = calloc(slots_in, sizeof(*lane->in.runs));
    lane->in.jobs = calloc(slots_in, sizeof(*lane->in.jobs));
    lane->in.filled = calloc(slots_in, sizeof(*lane->in.filled));
    if (!lane->out.batches || !lane->out.jobs || !lane->in.runs || !lane->in.jobs ||
        !lane->in.filled)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a lane of %u bulk slots",
                       slots_in);
    return SEALANE_OK;
}

/* The nonce of seq 0 is the iv itself. */
static void jobs_free(struct sl_job *jobs, size_t count)
{
    if (jobs)
        sl_wipe(jobs, count * sizeof(*jobs));
    free(jobs);
}

void sl_bulk_clear(struct sl_lane *lane)
{
    free(lane->out.batches);
    jobs_free(lane->out.jobs, (size_t)lane->out.limit * 2);
    free(lane->in.runs);
    jobs_free(lane->in.jobs, lane->rx[SL_RING_BULK].geometry.slots);
    free(lane->in.filled);
    lane->out = (struct sl_bulk_out){.batches = NULL};
    lane->in = (struct sl_bulk_in){.runs = NULL};
}

bool sl_bulk_is_busy(const struct sl_lane *lane)
{
    return lane->out.jobs_done < lane->out.jobs_taken ||
           lane->rx[SL_RING_BULK].next < lane->in.submitted;
}

/* ---- out ---- */

static struct sl_batch *batch_at(const struct sl_bulk_out *out, uint64_t index)
{
    return &out->batches[index % out->limit];
}

static void skip_finished_parts(struct sl_send *send)
{
    while (send->part < send->part_count && send->part_offset == send->parts[send->part].bytes) {
        send->part++;
        send->part_offset = 0;
    }
}

/* Chunks that may be taken now: credit, staging, jobs, the ring's end, the key table, the bytes on their way. */
static uint32_t chunks_allowed(struct sl_lane *lane, size_t budget)
{
    struct sl_sender *tx = &lane->tx[SL_RING_BULK];
    uint32_t chunk = tx->geometry.payload;
    uint32_t until_end = tx->geometry.slots - (uint32_t)(tx->seq % tx->geometry.slots);
    uint64_t key_end = (tx->keys.epoch + 2) << tx->keys.shift;
    size_t allowed = JOBS_MAX;
    size_t limits[7];

    if (lane->stuck.bytes > 0 || lane->out.begun - lane->out.announced == lane->out.limit ||
        lane->out.posted_bytes >= POSTED_BYTES_MAX)
        return 0;
    limits[0] = sl_sender_room(tx);
    limits[1] = sl_staging_room(&lane->staging, SL_RING_BULK);
    limits[2] = until_end;
    limits[3] = key_end > tx->seq ? (size_t)(key_end - tx->seq) : 0;
    limits[4] = budget / chunk > 0 ? budget / chunk : (budget > 0);
    limits[5] = lane->out.limit - (size_t)(lane->out.jobs_taken - lane->out.jobs_done);
    limits[6] = lane->out.limit -
                (size_t)(lane->out.jobs_taken % lane->out.limit); /* jobs of a batch adjoin */
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        allowed = limits[i] < allowed ? limits[i] : allowed;
    return (uint32_t)allowed;
}

static void job_fill(struct sl_lane *lane, struct sl_batch *batch, uint32_t index)
{
    struct sl_sender *tx = &lane->tx[SL_RING_BULK];
    struct sl_job *job = &lane->out.jobs[batch->first_job + index];
    uint8_t *slot = batch->staging + (size_t)index * tx->geometry.stride;
    uint64_t offset = batch->run.offset + (uint64_t)index * tx->geometry.payload;
    uint64_t left = batch->run.offset + batch->run.bytes - offset;

    job->key = sl_keys_at(&tx->keys, batch->run.seq + index, job->nonce);
    memset(slot + SL_TAG_BYTES, 0, SL_BULK_HEAD_BYTES - SL_TAG_BYTES); /* the block was another's */
    job->aad = NULL;
    job->aad_bytes = 0;
    job->in = (const uint8_t *)batch->send->parts[batch->run.part].data + offset;
    job->out = slot + SL_BULK_HEAD_BYTES;
    job->bytes = left < tx->geometry.payload ? (size_t)left : tx->geometry.payload;
    job->tag = slot;
    job->state = SL_JOB_PENDING;
}

/* How many of those that are allowed a send's part still has. */
static uint32_t chunks_left(const struct sl_lane *lane, const struct sl_send *send,
                            uint32_t allowed)
{
    uint64_t left = send->parts[send->part].bytes - send->part_offset;
    uint32_t payload = lane->tx[SL_RING_BULK].geometry.payload;

    return left < (uint64_t)allowed * payload ? (uint32_t)((left + payload - 1) / payload)
                                              : allowed;
}

/* Takes the next run of chunks of a send: from here on its seqs are spoken for. */
static void batch_begin(struct sl_lane *lane, struct sl_send *send, uint32_t chunks,
                        uint8_t *staging)
{
    struct sl_sender *tx = &lane->tx[SL_RING_BULK];
    struct sl_bulk_out *out = &lane->out;
    struct sl_batch *batch = batch_at(out, out->begun);
    uint64_t left = send->parts[send->part].bytes - send->part_offset;
    uint64_t bytes = (uint64_t)chunks * tx->geometry.payload;

    bytes = bytes < left ? bytes : left;
    *batch = (struct sl_batch){
        .run = {.call = send->call,
                .part = (uint32_t)send->part,
                .count = chunks,
                .offset = send->part_offset,
                .bytes = bytes,
                .seq = tx->seq},
        .send = send,
        .staging = staging,
        .first_job = (uint32_t)(out->jobs_taken % out->limit),
    };
    for (uint32_t i = 0; i < chunks; i++)
        job_fill(lane, batch, i);
    tx->seq += chunks;
    out->jobs_taken += chunks;
    out->begun++;
    send->jobs += chunks;
    send->part_offset += bytes;
    skip_finished_parts(send);
    lane->security.sealed_bytes += bytes;
    sl_memory_ops(sl_node_memory(lane->node))
        ->seal(sl_node_memory(lane->node), &out->jobs[batch->first_job], chunks);
}

static bool batch_is_sealed(const struct sl_bulk_out *out, const struct sl_batch *batch)
{
    for (uint32_t i = 0; i < batch->run.count; i++) {
        if (out->jobs[batch->first_job + i].state == SL_JOB_PENDING)
            return false;
    }
    return true;
}

static void batch_write(struct sl_lane *lane, struct sl_batch *batch)
{
    struct sl_sender *tx = &lane->tx[SL_RING_BULK];
    size_t last =
        (size_t)(batch->run.bytes - (uint64_t)(batch->run.count - 1) * tx->geometry.payload);
    struct sl_link_write write = {
        .ring = SL_RING_BULK,
        .slot = (uint32_t)(batch->run.seq % tx->geometry.slots),
        .from = batch->staging,
        .bytes = (size_t)(batch->run.count - 1) * tx->geometry.stride + SL_BULK_HEAD_BYTES + last,
        .immediate = batch->run.count << 1 | SL_RING_BULK,
    };

    batch->write = lane->link->posted + 1;
    sl_staging_name(&lane->staging, SL_RING_BULK, batch->write);
    lane->out.posted_bytes += (size_t)batch->run.bytes;
    lane->out.written++;
    sl_lane_post(lane, &write);
}

static void sends_settle(struct sl_lane *lane, struct sl_send *send)
{
    if (!send || send->jobs > 0 || send->state != SL_SEND_SEALING)
        return;
    sl_sends_remove(&lane->sealing, send);
    sl_lane_sent(lane, send);
}

/* Batches leave in order: the oldest that is sealed is written. */
static SEALANE_RESULT batches_advance(struct sl_lane *lane)
{
    struct sl_bulk_out *out = &lane->out;

    while (out->written < out->begun && lane->stuck.bytes == 0) {
        struct sl_batch *batch = batch_at(out, out->written);
        struct sl_send *send = batch->send;

        if (!batch_is_sealed(out, batch))
            break;
        out->jobs_done += batch->run.count;
        batch->send = NULL;
        batch_write(lane, batch);
        SL_TRY(sl_keys_done_below(&lane->tx[SL_RING_BULK].keys, batch->run.seq + batch->run.count));
        if (send) {
            send->jobs -= batch->run.count;
            sends_settle(lane, send);
        }
    }
    while (out->released < out->written &&
           batch_at(out, out->released)->write <= lane->link->released)
        out->posted_bytes -= (size_t)batch_at(out, out->released++)->run.bytes;
    return SEALANE_OK;
}

void sl_bulk_turn_out(struct sl_lane *lane, size_t *budget)
{
    enum sealane_status status = batches_advance(lane);
    struct sl_send *send = lane->bulk.first;
    uint8_t *staging;
    uint32_t chunks;

    while (status == SEALANE_OK && send && *budget > 0 && lane->state == SL_LANE_UP) {
        uint64_t before = lane->security.sealed_bytes;

        chunks = chunks_left(lane, send, chunks_allowed(lane, *budget));
        if (chunks == 0)
            break;
        status = sl_staging_take(&lane->staging, SL_RING_BULK, chunks,
                                 (size_t)chunks * lane->tx[SL_RING_BULK].geometry.stride, &staging);
        if (status != SEALANE_OK || !staging)
            break;
        batch_begin(lane, send, chunks, staging);
        before = lane->security.sealed_bytes - before;
        *budget -= before < *budget ? (size_t)before : *budget;
        /* Round-robin: the next run is another call's. */
        sl_sends_remove(&lane->bulk, send);
        send->state = send->part < send->part_count ? SL_SEND_BULK : SL_SEND_SEALING;
        sl_sends_push(send->state == SL_SEND_BULK ? &lane->bulk : &lane->sealing, send);
        status = batches_advance(lane);
        send = lane->bulk.first;
    }
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
}

bool sl_bulk_has_work(struct sl_lane *lane)
{
    const struct sl_bulk_in *in = &lane->in;
    const struct sl_receiver *rx = &lane->rx[SL_RING_BULK];

    if (in->submitted < in->announced && (in->submitted >> rx->keys.shift) <= rx->keys.epoch + 1)
        return true;
    return lane->bulk.first && chunks_allowed(lane, 1) > 0;
}

bool sl_bulk_next_record(struct sl_lane *lane, struct sl_record *record,
                         uint8_t body[SL_BULK_BODY_BYTES])
{
    struct sl_bulk_out *out = &lane->out;
    const struct sl_batch *batch;

    if (out->announced == out->written)
        return false;
    batch = batch_at(out, out->announced);
    if (batch->write > lane->link->placed)
        return false;
    out->announced++;
    sl_run_write(&batch->run, body);
    *record = (struct sl_record){
        .type = SL_RECORD_BULK, .call = batch->run.call, .body = body, .bytes = SL_BULK_BODY_BYTES};
    return true;
}

/* ---- in ---- */

SEALANE_RESULT sl_bulk_announced(struct sl_lane *lane, const struct sl_record *record)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_BULK];
    struct sl_bulk_in *in = &lane->in;
    struct sl_run run;

    SL_TRY(sl_run_parse(record, rx->geometry.payload, &run));
    if (run.seq != in->announced)
        return SL_FAIL(SEALANE_DATA_LOSS, "peer announced bulk record %llu, expected %llu",
                       (unsigned long long)run.seq, (unsigned long long)in->announced);
    if (run.count > rx->geometry.slots - (in->announced - rx->next))
        return SL_FAIL(SEALANE_DATA_LOSS, "peer announced %u chunks, expected at most %llu",
                       run.count,
                       (unsigned long long)(rx->geometry.slots - (in->announced - rx->next)));
    in->runs[in->runs_in++ % rx->geometry.slots] = run;
    in->announced += run.count;
    return SEALANE_OK;
}

/* One chunk of the first run, as a run of its own. */
static struct sl_run chunk_next(const struct sl_lane *lane)
{
    const struct sl_bulk_in *in = &lane->in;
    uint32_t payload = lane->rx[SL_RING_BULK].geometry.payload;
    struct sl_run chunk = in->runs[in->runs_out % lane->rx[SL_RING_BULK].geometry.slots];
    uint64_t skip = (uint64_t)in->run_chunk * payload;

    chunk.offset += skip;
    chunk.bytes = chunk.bytes - skip < payload ? chunk.bytes - skip : payload;
    chunk.count = 1;
    chunk.seq = in->submitted;
    return chunk;
}

static void chunk_taken(struct sl_lane *lane)
{
    struct sl_bulk_in *in = &lane->in;
    struct sl_run *run = &in->runs[in->runs_out % lane->rx[SL_RING_BULK].geometry.slots];

    in->submitted++;
    in->run_chunk++;
    if (in->run_chunk == run->count) {
        in->run_chunk = 0;
        in->runs_out++;
    }
}

/* Asks where the next chunk goes and has it opened there, or skips it. Returns the bytes opened. */
static size_t chunk_submit(struct sl_lane *lane)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_BULK];
    struct sl_run chunk = chunk_next(lane);
    uint32_t slot = (uint32_t)(chunk.seq % rx->geometry.slots);
    const uint8_t *from = rx->memory.base + (size_t)slot * rx->geometry.stride;
    struct sl_job *job = &lane->in.jobs[slot];
    struct sl_lane_event event = {.kind = SL_LANE_PLACE,
                                  .call = chunk.call,
                                  .part = chunk.part,
                                  .offset = chunk.offset,
                                  .count = (size_t)chunk.bytes};

    sl_lane_tell(lane, &event);
    if (lane->state != SL_LANE_UP)
        return 0;
    *job = (struct sl_job){.state = SL_JOB_DONE};
    chunk.count = event.place != NULL;
    lane->in.filled[slot] = chunk;
    chunk_taken(lane);
    if (!event.place)
        return 0;
    job->key = sl_keys_at(&rx->keys, chunk.seq, job->nonce);
    job->in = from + SL_BULK_HEAD_BYTES;
    job->tag = rx->memory.base + (size_t)slot * rx->geometry.stride;
    job->out = event.place;
    job->bytes = (size_t)chunk.bytes;
    job->state = SL_JOB_PENDING;
    sl_memory_ops(sl_node_memory(lane->node))->open(sl_node_memory(lane->node), job, 1);
    return job->bytes;
}

/* Chunks are told and credited in seq order, as their jobs finish. */
static SEALANE_RESULT chunks_settle(struct sl_lane *lane)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_BULK];

    while (rx->next < lane->in.submitted) {
        uint32_t slot = (uint32_t)(rx->next % rx->geometry.slots);
        const struct sl_run *chunk = &lane->in.filled[slot];
        struct sl_lane_event event = {.kind = SL_LANE_FILLED,
                                      .call = chunk->call,
                                      .part = chunk->part,
                                      .offset = chunk->offset,
                                      .count = (size_t)chunk->bytes};

        if (lane->in.jobs[slot].state == SL_JOB_PENDING)
            return SEALANE_OK;
        if (lane->in.jobs[slot].state == SL_JOB_BAD_TAG)
            return SL_FAIL(SEALANE_DATA_LOSS, "chunk %llu of the bulk ring failed authentication",
                           (unsigned long long)rx->next);
        rx->next++;
        /* A skipped chunk's slot may not have been counted by the link yet; the hint never lags behind `next`. */
        if (rx->counted < rx->next)
            rx->counted = rx->next;
        SL_TRY(sl_keys_done_below(&rx->keys, rx->next));
        if (chunk->count == 0)
            continue;
        lane->security.opened_bytes += chunk->bytes;
        sl_lane_tell(lane, &event);
        if (lane->state != SL_LANE_UP)
            return SEALANE_OK;
    }
    return SEALANE_OK;
}

void sl_bulk_turn_in(struct sl_lane *lane, size_t *budget)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_BULK];
    struct sl_bulk_in *in = &lane->in;
    enum sealane_status status = chunks_settle(lane);

    while (status == SEALANE_OK && lane->state == SL_LANE_UP &&
           in->submitted<in->announced && * budget> 0 &&
           (in->submitted >> rx->keys.shift) <= rx->keys.epoch + 1) {
        size_t opened = chunk_submit(lane);
        *budget -= opened < *budget ? opened : *budget;
        status = chunks_settle(lane);
    }
    if (status != SEALANE_OK && lane->state != SL_LANE_CLOSING)
        sl_lane_break(lane, status);
}

bool sl_bulk_drain(struct sl_lane *lane)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_BULK];
    struct sl_bulk_out *out = &lane->out;

    while (out->jobs_done < out->jobs_taken &&
           out->jobs[out->jobs_done % out->limit].state != SL_JOB_PENDING)
        out->jobs_done++;
    while (rx->next < lane->in.submitted &&
           lane->in.jobs[rx->next % rx->geometry.slots].state != SL_JOB_PENDING)
        rx->next++;
    return !sl_bulk_is_busy(lane);
}
