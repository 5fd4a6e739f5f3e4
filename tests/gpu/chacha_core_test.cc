/* SPDX-License-Identifier: Apache-2.0 */
/* chacha_core_test.cc - the arithmetic of the GPU's ChaCha20-Poly1305, lane by lane on the CPU: all vectors, random jobs against the
 * CPU's AEAD, and how jobs are cut. A warp is a loop over 32 lanes here; what the lanes do between each other follows chacha.cu. */
#include "gpu/chacha20_poly1305.cuh"
#include "gpu/chacha_plan.h"

extern "C" {
#include "tests/support/vector_files.h"
}

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

namespace
{

struct number {
    uint32_t limb[SL_LIMBS];
};

struct operation {
    uint32_t key[8], nonce[3];
    std::vector<uint8_t> aad, in;
    bool opens;
    uint64_t width; /* how many items are done at a time, for the plan */
};

struct result {
    std::vector<uint8_t> out;
    uint8_t tag[SL_TAG_BYTES];
};

sl_block block_at(const std::vector<uint8_t> &bytes, size_t at)
{
    sl_block block = {{0, 0, 0, 0}};

    if (at < bytes.size())
        memcpy(&block, bytes.data() + at,
               bytes.size() - at < sizeof(block) ? bytes.size() - at : sizeof(block));
    return block;
}

/* One batch: key stream, XOR, then each lane's part of the MAC. */
void batch_run(const operation &operation, const sl_poly_key &key, result *result, size_t place,
               number lanes[SL_LANES])
{
    size_t left = operation.in.size() - place;
    uint32_t stream[SL_LANES][16];
    std::vector<uint8_t> sealed;

    left = left < SL_BATCH_BYTES ? left : (size_t)SL_BATCH_BYTES;
    for (uint32_t lane = 0; lane < SL_LANES; lane++)
        sl_chacha_block(stream[lane], operation.key, (uint32_t)(place / 64) + 1 + lane,
                        operation.nonce);
    for (size_t i = 0; i < left; i++)
        result->out[place + i] = operation.in[place + i] ^ ((const uint8_t *)stream)[i];
    const std::vector<uint8_t> &from = operation.opens ? operation.in : result->out;
    sealed.assign(from.begin() + (ptrdiff_t)place, from.begin() + (ptrdiff_t)(place + left));
    if (left == SL_BATCH_BYTES) {
        for (uint32_t lane = 0; lane < SL_LANES; lane++) {
            sl_block block[4];

            for (uint32_t j = 0; j < 4; j++)
                block[j] = block_at(sealed, (j * SL_LANES + lane) * SL_BLOCK_BYTES);
            sl_poly_batch(lanes[lane].limb, block, key);
        }
        return;
    }
    uint32_t blocks = (uint32_t)(left + SL_BLOCK_BYTES - 1) / SL_BLOCK_BYTES;
    uint32_t none = SL_BATCH_BLOCKS - blocks;

    for (uint32_t lane = 0; lane < SL_LANES; lane++) {
        uint32_t rest[SL_LIMBS] = {0, 0, 0, 0, 0}, limbs[SL_LIMBS];

        for (uint32_t j = none / SL_LANES; j < 4; j++) {
            uint32_t unit = j * SL_LANES + lane;
            sl_block moved = {{0, 0, 0, 0}};

            if (unit >= none)
                moved = block_at(sealed, (unit - none) * SL_BLOCK_BYTES);
            sl_poly_limbs(limbs, moved, unit >= none ? 1 : 0);
            sl_poly_step(rest, key.power[5], limbs);
        }
        sl_poly_ahead(lanes[lane].limb, key, blocks);
        for (int l = 0; l < SL_LIMBS; l++)
            lanes[lane].limb[l] += rest[l];
    }
}

number lanes_join(number lanes[SL_LANES], const sl_poly_key &key)
{
    for (uint32_t d = 0; d < 5; d++) {
        for (uint32_t lane = 0; lane < SL_LANES;
             lane++) { /* what lanes get from behind the last is not used */
            const number other = lanes[(lane + (1u << d)) % SL_LANES];

            if (lane + (1u << d) < SL_LANES)
                sl_poly_step(lanes[lane].limb, key.power[d], other.limb);
        }
    }
    return lanes[0];
}

number item_run(const operation &operation, const sl_poly_key &key, result *result, size_t begin,
                size_t end)
{
    number lanes[SL_LANES] = {};

    /* The GPU has one block of AAD at most; the arithmetic takes any. */
    for (size_t at = 0; begin == 0 && at < operation.aad.size(); at += SL_BLOCK_BYTES) {
        uint32_t limbs[SL_LIMBS];

        sl_poly_limbs(limbs, block_at(operation.aad, at), 1);
        sl_poly_step(lanes[SL_LANES - 1].limb, key.power[0], limbs);
    }
    for (size_t place = begin; place < end; place += SL_BATCH_BYTES)
        batch_run(operation, key, result, place, lanes);
    return lanes_join(lanes, key);
}

/* Partials of spans of one size behind each other, then the last item's. */
number items_join(const std::vector<number> &partials, const sl_poly_key &key, uint32_t shift,
                  size_t rest)
{
    sl_factor r = key.power[SL_POWERS - 1];
    number h = {};

    for (uint32_t i = 0; i < shift; i++)
        sl_factor_square(r);
    for (size_t i = 0; i + 1 < partials.size(); i++)
        sl_poly_step(h.limb, r, partials[i].limb);
    sl_poly_multiply(h.limb, r);
    sl_poly_ahead(h.limb, key, (uint32_t)(rest + SL_BLOCK_BYTES - 1) / SL_BLOCK_BYTES);
    for (int l = 0; l < SL_LIMBS; l++)
        h.limb[l] += partials.back().limb[l];
    return h;
}

result run(const operation &operation)
{
    struct sl_gpu_job job = {};
    struct result result;
    uint32_t stream[16];
    sl_poly_key key;
    std::vector<number> partials;
    number h;

    job.bytes = operation.in.size();
    uint64_t items = sl_gpu_chacha_plan(&job, 1, operation.width);
    size_t each = (size_t)SL_BATCH_BYTES << job.span_shift;
    size_t rest = operation.in.size() % SL_BATCH_BYTES, whole = operation.in.size() - rest;

    result.out.resize(operation.in.size());
    sl_chacha_block(stream, operation.key, 0, operation.nonce);
    sl_poly_key_make(key, stream);
    for (uint64_t part = 0; part < items; part++) {
        uint64_t behind = (items - 1 - part) * each;
        size_t begin = part == 0 ? 0 : whole - behind - each;
        size_t end = behind == 0 ? operation.in.size() : whole - behind;
        number one = item_run(operation, key, &result, begin, end);
        uint64_t a[SL_LIMBS];

        for (int l = 0; l < SL_LIMBS; l++)
            a[l] = one.limb[l];
        sl_poly_carry(one.limb, a);
        partials.push_back(one);
    }
    h = items == 1 ? partials[0] : items_join(partials, key, job.span_shift, rest);
    const sl_block tag =
        sl_poly_finish(h.limb, key, (uint32_t)operation.aad.size(), operation.in.size());
    memcpy(result.tag, &tag, sizeof(tag));
    return result;
}

operation operation_of(const uint8_t *key, const uint8_t *nonce, const uint8_t *aad,
                       size_t aad_bytes, const uint8_t *in, size_t bytes)
{
    operation operation = {};

    memcpy(operation.key, key, sizeof(operation.key));
    memcpy(operation.nonce, nonce, sizeof(operation.nonce));
    operation.aad.assign(aad, aad + aad_bytes);
    operation.in.assign(in, in + bytes);
    operation.width = 1;
    return operation;
}

/* ---- vectors ---- */

unsigned judged;

void expect_ciphertext(const struct aead_vector *vector, const std::vector<uint8_t> &out)
{
    uint8_t hash[32];

    if (!vector->ciphertext_sha256.at) {
        cr_assert_eq(out.size(), vector->ciphertext.count);
        cr_assert(out.empty() || memcmp(out.data(), vector->ciphertext.at, out.size()) == 0,
                  "%s %ld: other ciphertext", vector->file, vector->id);
        return;
    }
    cr_assert_eq(EVP_Digest(out.data(), out.size(), hash, NULL, EVP_sha256(), NULL), 1);
    cr_assert_eq(memcmp(hash, vector->ciphertext_sha256.at, sizeof(hash)), 0,
                 "%s %ld: other ciphertext", vector->file, vector->id);
}

void judge(const struct aead_vector *vector)
{
    if (vector->aead != SL_AEAD_CHACHA20_POLY1305)
        return;
    const struct vector_bytes &in = vector->valid ? vector->message : vector->ciphertext;
    operation operation = operation_of(vector->key.at, vector->nonce.at, vector->aad.at,
                                       vector->aad.count, in.at, in.count);

    operation.opens = !vector->valid;
    for (operation.width = 1; operation.width < 100; operation.width *= 8) {
        const result made = run(operation);
        bool same = memcmp(made.tag, vector->tag.at, SL_TAG_BYTES) == 0;

        cr_assert_eq(same, vector->valid, "%s %ld: tag", vector->file, vector->id);
        if (!vector->valid)
            continue;
        expect_ciphertext(vector, made.out);
        struct operation back = operation;
        back.in = made.out;
        back.opens = true;
        const result opened = run(back);
        cr_assert_eq(memcmp(opened.tag, made.tag, SL_TAG_BYTES), 0);
        cr_assert(opened.out == operation.in);
    }
    judged++;
}

void expect_judged(const char *file, unsigned count)
{
    judged = 0;
    (void)vectors_each(file, judge);
    cr_assert_eq(judged, count, "%s: %u of ChaCha20-Poly1305 ran, %u were expected to", file,
                 judged, count);
}

} // namespace

Test(chacha_core, vectors_of_rfc_8439)
{
    expect_judged("rfc8439.json", 1);
}

Test(chacha_core, vectors_of_wycheproof)
{
    expect_judged("wycheproof_chacha20_poly1305_test.json", 158);
}

Test(chacha_core, vectors_of_every_size_that_sealane_uses)
{
    expect_judged("own_sizes_aead.json", 29);
}

/* ---- against the CPU's AEAD ---- */

namespace
{

/* All bits one, alternately, or random: limbs and sums at their largest, too. */
void fill(std::vector<uint8_t> &bytes, int how)
{
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = how == 0 ? 0xff : (uint8_t)(rand() >> 7);
}

void expect_as_the_cpu(size_t bytes, size_t aad_bytes, uint64_t width, int how)
{
    std::vector<uint8_t> key(32), nonce(SL_NONCE_BYTES), aad(aad_bytes), message(bytes),
        wanted(bytes);
    uint8_t tag[SL_TAG_BYTES];
    struct sl_aead_key *cpu;

    fill(key, 1);
    fill(nonce, 1);
    fill(aad, how);
    fill(message, 1);
    operation operation =
        operation_of(key.data(), nonce.data(), aad.data(), aad_bytes, message.data(), bytes);
    operation.width = width;
    if (how == 0) { /* a message that becomes a ciphertext of ones */
        const struct result stream = run(operation);
        for (size_t i = 0; i < bytes; i++)
            operation.in[i] = (uint8_t)(message[i] ^ stream.out[i] ^ 0xff);
    }
    const struct sl_aead_io io = {nonce.data(),        aad.data(),    aad_bytes,
                                  operation.in.data(), wanted.data(), bytes};
    cr_assert_eq(sl_aead_key_new(SL_AEAD_CHACHA20_POLY1305, key.data(), &cpu), SEALANE_OK);
    sl_aead_seal(cpu, &io, tag);
    sl_aead_key_free(cpu);
    const struct result made = run(operation);
    cr_assert(made.out == wanted, "%zu bytes, %zu of AAD, width %lu", bytes, aad_bytes,
              (unsigned long)width);
    cr_assert_eq(memcmp(made.tag, tag, SL_TAG_BYTES), 0, "tag: %zu bytes, %zu of AAD, width %lu",
                 bytes, aad_bytes, (unsigned long)width);
}

} // namespace

Test(chacha_core, every_length_of_three_batches_seals_as_the_cpu_does)
{
    for (size_t bytes = 0; bytes <= 3 * SL_BATCH_BYTES + 17; bytes += bytes < 200 ? 1 : 13)
        expect_as_the_cpu(bytes, bytes % 17, bytes % 3 ? 1 : 64, (int)(bytes % 2));
}

Test(chacha_core, random_lengths_and_cuts_seal_as_the_cpu_does)
{
    for (int i = 0; i < 150; i++)
        expect_as_the_cpu((size_t)rand() % 300000, (size_t)rand() % 17, (uint64_t)1 << rand() % 8,
                          i % 3);
}

/* ---- how jobs are cut ---- */

Test(chacha_plan, items_cover_jobs_exactly_and_none_is_empty)
{
    for (int round = 0; round < 200; round++) {
        std::vector<struct sl_gpu_job> jobs((size_t)rand() % 50 + 1);
        uint64_t width = (uint64_t)1 << rand() % 13, items = 0;

        for (auto &job : jobs)
            job.bytes = (uint64_t)rand() % (rand() % 4 ? 100000 : 40000000);
        uint64_t all = sl_gpu_chacha_plan(jobs.data(), jobs.size(), width);
        for (size_t i = 0; i < jobs.size(); i++) {
            uint64_t behind = i + 1 < jobs.size() ? jobs[i + 1].first_item : all;
            uint64_t count = behind - jobs[i].first_item;
            uint64_t batches = jobs[i].bytes / SL_BATCH_BYTES;
            uint64_t each = (uint64_t)1 << jobs[i].span_shift;

            cr_assert_eq(jobs[i].first_item, items);
            cr_assert(count >= 1);
            cr_assert(count == 1 ? batches <= each
                                 : batches > (count - 1) * each && batches <= count * each);
            items += count;
        }
        cr_assert_eq(items, all);
    }
}

Test(chacha_plan, a_small_launch_is_cut_finely_and_a_large_one_is_not)
{
    struct sl_gpu_job small = {}, large = {};

    small.bytes = 64 * 1024;
    large.bytes = (uint64_t)1 << 30;
    cr_assert_eq(sl_gpu_chacha_plan(&small, 1, 2640), 32);
    cr_assert_eq(sl_gpu_chacha_plan(&large, 1, 2640), 16384);
}
