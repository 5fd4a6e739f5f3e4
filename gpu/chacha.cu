/* SPDX-License-Identifier: Apache-2.0 */
/* chacha.cu - ChaCha20-Poly1305 on the GPU. A warp does one work item at a time: of each batch of 2 KiB a lane makes one block of key
 * stream, which is turned through shared memory so that loads and stores are 512 bytes a warp, and takes four blocks into its part
 * of the MAC. The warps of a block share the keys of the chunks that their items are of: a group of items, prepared by the first
 * warp, one lane a chunk. */
#include "gpu/aead_launch.h"
#include "gpu/chacha20_poly1305.cuh"
#include "gpu/chacha_plan.h"

enum {
    WARPS = 4,  /* of a block that shares its multiprocessor with others */
    BLOCKS = 5, /* of them on one multiprocessor: 96 registers a thread */
    WARPS_ALONE =
        16, /* of a block that has its multiprocessor alone, where their number is limited */
    GROUP_MOST = 32,             /* items: one lane each */
    GROUPS_A_BLOCK = 8,          /* wanted of every block's place before groups grow */
    TURN_BYTES = SL_BATCH_BYTES, /* of shared memory a warp */
    WHOLE = 0xffffffff
};

/* What a launch is told, by value. */
struct work {
    struct sl_gpu_job few[SL_GPU_FEW_JOBS];
    const struct sl_gpu_job *jobs; /* NULL: few */
    uint32_t *verdicts;
    const uint8_t *keys;
    uint32_t *arrived;
    sl_block *partials; /* two an item */
    uint64_t *cycles;   /* NULL but in the test of constant time */
    uint32_t count, items, group, groups;
};

/* A chunk, as the warps of a block share it. Secret. */
struct alignas(16) chunk {
    sl_poly_key poly;
    uint32_t key[8];
    uint32_t nonce[3];
    uint32_t aad_bytes;
    sl_block aad;
    const uint8_t *in;
    uint8_t *out;
    uint8_t *tag;
    uint64_t bytes;
    uint32_t job, first_item, items, span_shift;
};

/* A number modulo p, as what is not inlined takes and gives it: in registers. */
struct number {
    uint32_t limb[SL_LIMBS];
};

struct position { /* of a lane, in the batch that its warp is at */
    const uint8_t *in;
    uint8_t *out;
    uint32_t counter; /* of the lane's block of key stream */
    bool aligned;     /* in and out, to 16 bytes */
    uint32_t left;    /* bytes of the chunk in this batch */
};

/* ---- memory ---- */

/* Each byte of the input is loaded by one instruction, once: asm volatile is neither repeated nor split. */
static __device__ __forceinline__ sl_block load_block(const uint8_t *at)
{
    sl_block block;

    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(block.word[0]), "=r"(block.word[1]), "=r"(block.word[2]),
                   "=r"(block.word[3])
                 : "l"(at));
    return block;
}

static __device__ __forceinline__ void store_block(uint8_t *at, const sl_block &block)
{
    __stcs((uint4 *)at, make_uint4(block.word[0], block.word[1], block.word[2], block.word[3]));
}

static __device__ __noinline__ sl_block load_bytes(const uint8_t *at, uint32_t bytes)
{
    sl_block block = {{0, 0, 0, 0}};

    SL_UNROLL
    for (uint32_t i = 0; i < SL_BLOCK_BYTES; i++) {
        uint32_t byte;

        if (i < bytes) {
            asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"(at + i));
            block.word[i / 4] |= byte << 8 * (i % 4);
        }
    }
    return block;
}

static __device__ __noinline__ void store_bytes(uint8_t *at, const sl_block block, uint32_t bytes)
{
    SL_UNROLL
    for (uint32_t i = 0; i < SL_BLOCK_BYTES; i++) {
        if (i < bytes)
            at[i] = (uint8_t)(block.word[i / 4] >> 8 * (i % 4));
    }
}

/* Zeros for what lies behind `bytes`. */
static __device__ __forceinline__ void cut_block(sl_block &block, uint32_t bytes)
{
    SL_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t here = bytes > 4 * i ? bytes - 4 * i : 0;

        block.word[i] &= here >= 4 ? WHOLE : (1u << 8 * here) - 1;
    }
}

/* How many bytes of a batch with `left` bytes are in its block `unit`. */
static __device__ __forceinline__ uint32_t bytes_in(uint32_t left, uint32_t unit)
{
    uint32_t before = unit * SL_BLOCK_BYTES;

    return left <= before ? 0 : min(left - before, (uint32_t)SL_BLOCK_BYTES);
}

static __device__ __forceinline__ void batch_load(sl_block block[4], const position &at,
                                                  uint32_t lane)
{
    if (at.aligned && at.left >= SL_BATCH_BYTES) {
        SL_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            block[j] = load_block(at.in + (j * SL_LANES + lane) * SL_BLOCK_BYTES);
        return;
    }
    SL_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t unit = j * SL_LANES + lane, bytes = bytes_in(at.left, unit);
        const uint8_t *from = at.in + unit * SL_BLOCK_BYTES;

        block[j] =
            at.aligned && bytes == SL_BLOCK_BYTES ? load_block(from) : load_bytes(from, bytes);
    }
}

static __device__ __forceinline__ void batch_store(const sl_block &block, const position &at,
                                                   uint32_t unit)
{
    uint8_t *to = at.out + unit * SL_BLOCK_BYTES;

    if (at.aligned && at.left >= SL_BATCH_BYTES) {
        store_block(to, block);
        return;
    }
    uint32_t bytes = bytes_in(at.left, unit);

    if (at.aligned && bytes == SL_BLOCK_BYTES)
        store_block(to, block);
    else
        store_bytes(to, block, bytes);
}

/* ---- one batch ---- */

/* Where a block of key stream's quarter lies, so that neither writing nor reading meets a bank twice. */
static __device__ __forceinline__ uint32_t turned(uint32_t block, uint32_t quarter)
{
    return block * 4 + (quarter ^ (block >> 1 & 3));
}

/* Key stream of this lane's block, into the turn buffer. */
static __device__ __forceinline__ void batch_stream(sl_block *turn, const chunk &chunk,
                                                    uint32_t counter, uint32_t lane)
{
    uint32_t x[16];

    sl_chacha_block(x, chunk.key, counter, chunk.nonce);
    __syncwarp();
    SL_UNROLL
    for (uint32_t q = 0; q < 4; q++)
        turn[turned(lane, q)] = sl_block{{x[4 * q], x[4 * q + 1], x[4 * q + 2], x[4 * q + 3]}};
    __syncwarp();
}

/* XORs and stores; leaves the ciphertext in block. */
template <bool OPENS>
static __device__ __forceinline__ void batch_cipher(sl_block block[4], const sl_block *turn,
                                                    const position &at, uint32_t lane)
{
    SL_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t unit = j * SL_LANES + lane;
        const sl_block stream = turn[turned(unit >> 2, unit & 3)];
        sl_block made;

        SL_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            made.word[i] = block[j].word[i] ^ stream.word[i];
        batch_store(made, at, unit);
        if (!OPENS)
            block[j] = made;
    }
}

/* The last batch of a chunk, not whole, for batch_rest. */
static __device__ __forceinline__ void batch_cut(sl_block block[4], sl_block *turn, uint32_t left,
                                                 uint32_t lane)
{
    __syncwarp();
    SL_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t unit = j * SL_LANES + lane;

        cut_block(block[j], bytes_in(left, unit));
        turn[unit] = block[j];
    }
    __syncwarp();
}

/* Its blocks are taken as if they stood at the end of a batch that has nothing in front of them. */
static __device__ __noinline__ number batch_rest(number h, const sl_block *turn,
                                                 const sl_poly_key &key, uint32_t left,
                                                 uint32_t lane)
{
    uint32_t blocks = (left + SL_BLOCK_BYTES - 1) / SL_BLOCK_BYTES, none = SL_BATCH_BLOCKS - blocks;
    uint32_t rest[SL_LIMBS] = {0, 0, 0, 0, 0}, limbs[SL_LIMBS];

    SL_LOOP
    for (uint32_t j = none / SL_LANES; j < 4; j++) {
        uint32_t unit = j * SL_LANES + lane;
        sl_block moved = {{0, 0, 0, 0}};

        if (unit >= none)
            moved = turn[unit - none];
        sl_poly_limbs(limbs, moved, unit >= none ? 1 : 0);
        sl_poly_step(rest, key.power[5], limbs);
    }
    sl_poly_ahead(h.limb, key, blocks);
    SL_UNROLL
    for (int l = 0; l < SL_LIMBS; l++)
        h.limb[l] += rest[l];
    return h;
}

/* ---- joining ---- */

/* Lane 0 gets the sum of all lanes, each times its power of r. */
static __device__ __forceinline__ void lanes_join(uint32_t h[SL_LIMBS], const sl_poly_key &key)
{
    SL_LOOP
    for (int d = 0; d < 5; d++) {
        uint32_t other[SL_LIMBS];

        SL_UNROLL
        for (int l = 0; l < SL_LIMBS; l++)
            other[l] = __shfl_down_sync(WHOLE, h[l], 1 << d);
        sl_poly_step(h, key.power[d], other);
    }
}

static __device__ void partial_write(sl_block *at, const uint32_t h[SL_LIMBS])
{
    __stcg((uint4 *)&at[0], make_uint4(h[0], h[1], h[2], h[3]));
    __stcg((uint4 *)&at[1], make_uint4(h[4], 0, 0, 0));
}

static __device__ void partial_read(const sl_block *at, uint32_t h[SL_LIMBS])
{
    uint4 low = __ldcg((const uint4 *)&at[0]), high = __ldcg((const uint4 *)&at[1]);

    h[0] = low.x;
    h[1] = low.y;
    h[2] = low.z;
    h[3] = low.w;
    h[4] = high.x;
}

/* Lane 0 gets the sum of `count` partials of spans of one size, r being the power of r for one. A lane sums a run of them, a power of
 * two in each; the first runs begin with partials that are not there. */
static __device__ __noinline__ number partials_sum(const sl_block *partials, uint32_t count,
                                                   sl_factor r, uint32_t lane)
{
    uint32_t run = 1, lanes = SL_LANES, none, part[SL_LIMBS];
    number h = {{0, 0, 0, 0, 0}};

    while (run * SL_LANES < count)
        run *= 2;
    while (lanes > 1 && run * lanes / 2 >= count)
        lanes /= 2;
    none = run * lanes - count;
    SL_LOOP
    for (uint32_t i = 0; i < run; i++) {
        uint32_t at = lane * run + i;

        for (int l = 0; l < SL_LIMBS; l++)
            part[l] = 0;
        if (lane < lanes && at >= none)
            partial_read(partials + 2 * (size_t)(at - none), part);
        sl_poly_step(h.limb, r, part);
    }
    SL_LOOP
    for (uint32_t i = 1; i < run; i *= 2)
        sl_factor_square(r);
    SL_LOOP
    for (uint32_t d = 1; d < lanes; d *= 2) {
        for (int l = 0; l < SL_LIMBS; l++)
            part[l] = __shfl_down_sync(WHOLE, h.limb[l], d);
        sl_poly_step(h.limb, r, part);
        sl_factor_square(r);
    }
    return h;
}

/* True for the warp whose item of the chunk is the last to come to its end. */
static __device__ __noinline__ bool items_arrive(number h, const chunk &chunk, const work &work,
                                                 uint32_t item, uint32_t lane)
{
    uint32_t arrived = 0;
    uint64_t a[SL_LIMBS];

    for (int l = 0; l < SL_LIMBS; l++)
        a[l] = h.limb[l];
    sl_poly_carry(h.limb, a);
    __syncwarp(); /* what the other lanes stored is before the fence, too */
    if (lane == 0) {
        partial_write(work.partials + 2 * (size_t)item, h.limb);
        __threadfence();
        arrived = atomicAdd(work.arrived + chunk.job, 1);
    }
    arrived = __shfl_sync(WHOLE, arrived, 0);
    if (arrived != chunk.items - 1)
        return false;
    __threadfence();
    if (lane == 0)
        work.arrived[chunk.job] = 0;
    return true;
}

/* The chunk's sum, in lane 0. */
static __device__ __noinline__ number items_join(const chunk &chunk, const work &work,
                                                 uint32_t lane)
{
    const sl_block *partials = work.partials + 2 * (size_t)chunk.first_item;
    uint32_t rest = (uint32_t)(chunk.bytes % SL_BATCH_BYTES), last[SL_LIMBS];
    sl_factor r = chunk.poly.power[SL_POWERS - 1];
    number h;

    SL_LOOP
    for (uint32_t i = 0; i < chunk.span_shift; i++)
        sl_factor_square(r);
    h = partials_sum(partials, chunk.items - 1, r, lane);
    sl_poly_multiply(h.limb, r);
    sl_poly_ahead(h.limb, chunk.poly, (rest + SL_BLOCK_BYTES - 1) / SL_BLOCK_BYTES);
    partial_read(partials + 2 * (size_t)(chunk.items - 1), last);
    for (int l = 0; l < SL_LIMBS; l++)
        h.limb[l] += last[l];
    return h;
}

/* ---- a chunk's end ---- */

/* 0 when the tags are equal, else 1; without a branch. The tag is read once. */
static __device__ uint32_t tag_differs(const sl_block &made, const uint8_t *tag)
{
    const sl_block claimed = load_bytes(tag, SL_TAG_BYTES);
    uint32_t differ = 0;

    SL_UNROLL
    for (int i = 0; i < 4; i++)
        differ |= made.word[i] ^ claimed.word[i];
    return (differ | (0 - differ)) >> 31;
}

static __device__ __noinline__ void out_wipe(uint8_t *out, uint64_t bytes, uint32_t lane)
{
    const sl_block zero = {{0, 0, 0, 0}};
    bool aligned = (uintptr_t)out % SL_BLOCK_BYTES == 0;

    for (uint64_t at = (uint64_t)lane * SL_BLOCK_BYTES; at < bytes;
         at += SL_LANES * SL_BLOCK_BYTES) {
        uint32_t here = (uint32_t)min(bytes - at, (uint64_t)SL_BLOCK_BYTES);

        if (aligned && here == SL_BLOCK_BYTES)
            store_block(out + at, zero);
        else
            store_bytes(out + at, zero, here);
    }
}

/* The tag is written, or judged and, where it is bad, the plaintext wiped; then the verdict. */
template <bool OPENS>
static __device__ __noinline__ void chunk_end(number h, const chunk &chunk, const work &work,
                                              uint32_t lane)
{
    uint32_t bad = 0;

    if (lane == 0) {
        const sl_block tag = sl_poly_finish(h.limb, chunk.poly, chunk.aad_bytes, chunk.bytes);

        if (OPENS)
            bad = tag_differs(tag, chunk.tag);
        else
            store_bytes(chunk.tag, tag, SL_TAG_BYTES);
    }
    if (OPENS) {
        bad = __shfl_sync(WHOLE, bad, 0);
        if (bad) {
            out_wipe(chunk.out, chunk.bytes, lane);
            __threadfence_system();
            __syncwarp();
        }
    }
    if (lane == 0)
        *(volatile uint32_t *)(work.verdicts + chunk.job) = bad ? SL_GPU_BAD_TAG : SL_GPU_DONE;
}

/* ---- items ---- */

/* Where an item begins and ends in its chunk. */
struct span {
    uint64_t begin, end;
};

static __device__ __forceinline__ span item_span(const chunk &chunk, uint32_t part)
{
    uint64_t each = (uint64_t)SL_BATCH_BYTES << chunk.span_shift;
    uint64_t whole = chunk.bytes / SL_BATCH_BYTES * SL_BATCH_BYTES;
    uint64_t behind = (chunk.items - 1 - part) * each; /* in whole batches */
    span span;

    span.begin = part == 0 ? 0 : whole - behind - each;
    span.end = behind == 0 ? chunk.bytes : whole - behind;
    return span;
}

template <bool OPENS>
static __device__ __forceinline__ void item_run(const chunk &chunk, const work &work,
                                                sl_block *turn, uint32_t item, uint32_t lane)
{
    const uint32_t part = item - chunk.first_item;
    const span span = item_span(chunk, part);
    position at = {
        .in = chunk.in + span.begin,
        .out = chunk.out + span.begin,
        .counter = (uint32_t)(span.begin / 64) + 1 + lane,
        .aligned = ((uintptr_t)chunk.in | (uintptr_t)chunk.out) % SL_BLOCK_BYTES == 0,
    };
    number h = {{0, 0, 0, 0, 0}};

    if (part == 0 && chunk.aad_bytes > 0 && lane == SL_LANES - 1)
        sl_poly_limbs(h.limb, chunk.aad, 1);
    SL_LOOP
    for (uint64_t left = span.end - span.begin; left > 0; left -= at.left) {
        sl_block block[4];

        at.left = (uint32_t)min(left, (uint64_t)SL_BATCH_BYTES);
        batch_load(block, at, lane);
        batch_stream(turn, chunk, at.counter, lane);
        batch_cipher<OPENS>(block, turn, at, lane);
        if (at.left == SL_BATCH_BYTES) {
            sl_poly_batch(h.limb, block, chunk.poly);
        } else {
            batch_cut(block, turn, at.left, lane);
            h = batch_rest(h, turn, chunk.poly, at.left, lane);
        }
        at.in += SL_BATCH_BYTES;
        at.out += SL_BATCH_BYTES;
        at.counter += SL_BATCH_BYTES / 64;
    }
    lanes_join(h.limb, chunk.poly);
    if (chunk.items > 1) {
        if (!items_arrive(h, chunk, work, item, lane))
            return;
        h = items_join(chunk, work, lane);
    }
    chunk_end<OPENS>(h, chunk, work, lane);
}

static __device__ uint32_t item_job(const sl_gpu_job *jobs, const work &work, uint32_t item)
{
    /* Chunks of equal size are found at once. */
    uint32_t low = 0, high = work.count;
    uint32_t guess = (uint32_t)((uint64_t)item * work.count / work.items);

    while (high - low > 1) {
        if (jobs[guess].first_item > item)
            high = guess;
        else if (guess + 1 < high && jobs[guess + 1].first_item <= item)
            low = guess + 1;
        else
            return guess;
        guess = low + (high - low) / 2;
    }
    return low;
}

static __device__ void chunk_prepare(chunk &chunk, const sl_gpu_job *jobs, const work &work,
                                     uint32_t number)
{
    const sl_gpu_job &job = jobs[number];
    const uint32_t *key = (const uint32_t *)(work.keys + (size_t)job.key * SL_AEAD_KEY_MAX);
    uint32_t behind = number + 1 < work.count ? jobs[number + 1].first_item : work.items;
    uint32_t secret[8], nonce[3], stream[16];

    for (int i = 0; i < 8; i++)
        chunk.key[i] = secret[i] = key[i];
    for (int i = 0; i < 3; i++)
        chunk.nonce[i] = nonce[i] = ((const uint32_t *)job.nonce)[i];
    chunk.aad_bytes = job.aad_bytes;
    for (int i = 0; i < 4; i++)
        chunk.aad.word[i] = ((const uint32_t *)job.aad)[i];
    cut_block(chunk.aad, job.aad_bytes);
    chunk.in = job.in;
    chunk.out = job.out;
    chunk.tag = job.tag;
    chunk.bytes = job.bytes;
    chunk.job = number;
    chunk.first_item = job.first_item;
    chunk.items = behind - job.first_item;
    chunk.span_shift = job.span_shift;
    sl_chacha_block(stream, secret, 0, nonce);
    sl_poly_key_make(chunk.poly, stream);
}

/* One lane an item: the first of each chunk's prepares it. slots[i]: which chunk item i is of. */
static __device__ __noinline__ void group_prepare(chunk *chunks, uint32_t *slots, const work &work,
                                                  uint32_t first, uint32_t lane)
{
    const sl_gpu_job *jobs = work.jobs ? work.jobs : work.few;
    uint32_t item = first + lane;
    bool here = lane < work.group && item < work.items;
    uint32_t job = here ? item_job(jobs, work, item) : WHOLE;
    uint32_t before = __shfl_up_sync(WHOLE, job, 1);
    bool leads = here && (lane == 0 || job != before);
    uint32_t leaders = __ballot_sync(WHOLE, leads);

    if (here)
        slots[lane] = 31 - __clz(leaders & (WHOLE >> (31 - lane)));
    if (leads)
        chunk_prepare(chunks[lane], jobs, work, job);
}

template <bool OPENS, int MANY, int AT_ONCE>
static __global__ void __launch_bounds__(MANY *SL_LANES, AT_ONCE)
    chacha(const __grid_constant__ work work)
{
    extern __shared__ sl_block shared[];
    const uint32_t lane = threadIdx.x % SL_LANES, warp = threadIdx.x / SL_LANES;
    sl_block *turn = shared + warp * SL_BATCH_BLOCKS;
    uint32_t *slots = (uint32_t *)(shared + MANY * SL_BATCH_BLOCKS);
    chunk *chunks = (chunk *)(slots + GROUP_MOST);
    const long long begun = clock64();

    for (uint32_t group = blockIdx.x; group < work.groups; group += gridDim.x) {
        uint32_t first = group * work.group, items = min(work.group, work.items - first);

        if (warp == 0)
            group_prepare(chunks, slots, work, first, lane);
        __syncthreads();
        for (uint32_t i = warp; i < items; i += MANY)
            item_run<OPENS>(chunks[slots[i]], work, turn, first + i, lane);
        __syncthreads();
    }
    /* Keys are not left in shared memory for whoever gets it next. */
    for (uint32_t i = threadIdx.x;
         i < (MANY * TURN_BYTES + GROUP_MOST * 4 + work.group * sizeof(chunk)) / sizeof(sl_block);
         i += MANY * SL_LANES)
        shared[i] = sl_block{{0, 0, 0, 0}};
    if (work.cycles && blockIdx.x == 0 && threadIdx.x == 0)
        *work.cycles = (uint64_t)(clock64() - begun);
}

/* ---- the launch ---- */

static uint32_t over(uint32_t whole, uint32_t part)
{
    return (uint32_t)(((uint64_t)whole + part - 1) / part);
}

/* Groups of few items where there are few, of more where preparing one chunk at a time would cost. */
static uint32_t group_size(uint32_t items, uint32_t places, uint32_t warps)
{
    uint32_t group = warps;

    while (group < GROUP_MOST && items / (2 * group) >= places * GROUPS_A_BLOCK)
        group *= 2;
    return group;
}

template <bool OPENS, int MANY, int AT_ONCE>
static cudaError_t start(work &work, const sl_gpu_launch &launch)
{
    uint32_t places = launch.sms * AT_ONCE, shared_bytes;
    int device, most;
    cudaError_t error;

    work.group = group_size(work.items, places, MANY);
    work.groups = over(work.items, work.group);
    shared_bytes = MANY * TURN_BYTES + GROUP_MOST * 4 + work.group * (uint32_t)sizeof(chunk);
    error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    if (error != cudaSuccess)
        return error;
    /* More than half of a multiprocessor's shared memory: no other block gets in. */
    if (launch.limited)
        shared_bytes = max(shared_bytes, (uint32_t)most / 2 + 1024);
    error = cudaFuncSetAttribute(chacha<OPENS, MANY, AT_ONCE>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error != cudaSuccess)
        return error;
    chacha<OPENS, MANY, AT_ONCE><<<launch.limited ? min(work.groups, launch.sms) : work.groups,
                                   MANY * SL_LANES, shared_bytes, launch.stream>>>(work);
    return cudaGetLastError();
}

template <bool OPENS> static cudaError_t start_any(work &work, const sl_gpu_launch &launch)
{
    return launch.limited ? start<OPENS, WARPS_ALONE, 1>(work, launch)
                          : start<OPENS, WARPS, BLOCKS>(work, launch);
}

cudaError_t sl_gpu_chacha_launch(const struct sl_gpu_launch *launch)
{
    work work = {};

    work.jobs = launch->jobs;
    for (uint32_t i = 0; !launch->jobs && i < launch->count; i++)
        work.few[i] = launch->few[i];
    work.verdicts = launch->verdicts;
    work.keys = launch->keys;
    work.arrived = (uint32_t *)launch->job_scratch;
    work.partials = (sl_block *)launch->item_scratch;
    work.cycles = launch->cycles;
    work.count = launch->count;
    work.items = launch->items;
    return launch->opens ? start_any<true>(work, *launch) : start_any<false>(work, *launch);
}

bool sl_gpu_chacha_shape(struct sl_gpu_shape *shape)
{
    cudaFuncAttributes attributes;

    *shape = sl_gpu_shape{
        .bytes_max = 0xffffffffull * 64, /* RFC 8439 2.8: a block counter of 32 bits, from 1 */
        .slot_bytes = SL_AEAD_KEY_MAX,
        .head_bytes = SL_AEAD_KEY_MAX,
        .job_scratch_bytes = sizeof(uint32_t),
        .item_scratch_bytes = 2 * sizeof(sl_block),
    };
    return cudaFuncGetAttributes(&attributes, chacha<true, WARPS, BLOCKS>) == cudaSuccess;
}
