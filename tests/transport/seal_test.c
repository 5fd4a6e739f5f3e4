/* SPDX-License-Identifier: Apache-2.0 */
/* seal_test.c - the contract of seal.h beyond the published vectors: every size and alignment against libcrypto, what must be
 * refused, keys that change, many threads, and the bench library's copy. */
#include "tests/support/second_opinion.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 2048,
    ODD = 67, /* how far operands are moved off their alignment, at most */
    ROUNDS = 3000,
    THREADS = 4,
    THREAD_ROUNDS = 2000,
    PLACE = BYTES_MAX + ODD
};

static const uint8_t key_bytes[2][SL_AEAD_KEY_MAX] = {"thirty-two bytes, and not secret",
                                                      "another key of thirty-two bytes."};

/* The same numbers each time. */
static size_t number_below(uint64_t *state, size_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*state >> 33) % limit;
}

static bool all_zero(const uint8_t *at, size_t bytes)
{
    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

static struct sl_aead_key *key_of(const struct seal_backend *backend, enum sl_aead aead)
{
    struct sl_aead_key *key;

    cr_assert_eq(backend->key_new(aead, key_bytes[0], &key), SEALANE_OK);
    return key;
}

/* ---- what there is ---- */

Test(seal, knows_three_aeads_by_their_names)
{
    cr_assert_eq(sl_aead_supported_count, 3);
    cr_assert_eq(sl_aead_supported[0], SL_AEAD_AES_256_GCM);
    cr_assert_str_eq(sl_aead_name(SL_AEAD_AES_256_GCM), "AES-256-GCM");
    cr_assert_str_eq(sl_aead_name(SL_AEAD_AES_128_GCM), "AES-128-GCM");
    cr_assert_str_eq(sl_aead_name(SL_AEAD_CHACHA20_POLY1305), "ChaCha20-Poly1305");
    cr_assert_str_eq(sl_aead_name(SL_AEAD_PLAIN), "unknown");
    cr_assert_eq(sl_aead_key_bytes(SL_AEAD_AES_256_GCM), 32);
    cr_assert_eq(sl_aead_key_bytes(SL_AEAD_AES_128_GCM), 16);
    cr_assert_eq(sl_aead_key_bytes(SL_AEAD_CHACHA20_POLY1305), 32);
}

Test(seal, refuses_aeads_that_it_lacks)
{
    static const int others[] = {SL_AEAD_PLAIN, 4, 255, -1};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct sl_aead_key *key = NULL;

        cr_assert_eq(sl_aead_key_bytes((enum sl_aead)others[i]), 0);
        cr_assert_eq(linked_seal.key_new((enum sl_aead)others[i], key_bytes[0], &key),
                     SEALANE_UNIMPLEMENTED);
        cr_assert_eq(second_opinion.key_new((enum sl_aead)others[i], key_bytes[0], &key),
                     SEALANE_UNIMPLEMENTED);
        cr_assert_null(key);
    }
}

Test(seal, frees_no_key)
{
    linked_seal.key_free(NULL);
    second_opinion.key_free(NULL);
}

/* ---- against libcrypto ---- */

/* One seals, the other opens, with operands of any size at any alignment; in place each second time. */
static void expect_agreement(enum sl_aead aead, const struct seal_backend *sealer,
                             const struct seal_backend *opener)
{
    static uint8_t plain[PLACE], sealed[PLACE], opened[PLACE], aad[PLACE];
    struct sl_aead_key *sealing = key_of(sealer, aead), *opening = key_of(opener, aead);
    uint8_t nonce[SL_NONCE_BYTES] = {0}, tag[SL_TAG_BYTES];
    uint64_t numbers = aead;

    for (size_t i = 0; i < PLACE; i++)
        plain[i] = aad[i] = (uint8_t)(i * 37);
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t bytes = number_below(&numbers, BYTES_MAX + 1),
               aad_bytes = number_below(&numbers, 80);
        const uint8_t *message = plain + number_below(&numbers, ODD);
        uint8_t *out = sealed + number_below(&numbers, ODD);
        struct sl_aead_io io = {nonce, aad + number_below(&numbers, ODD), aad_bytes, message, out,
                                bytes};

        memcpy(nonce, &round, sizeof(round));
        if (round % 2) {
            memcpy(out, message, bytes);
            io.in = out;
        }
        sealer->seal(sealing, &io, tag);
        io.in = out;
        io.out = round % 2 ? out : opened + number_below(&numbers, ODD);
        cr_assert(opener->open(opening, &io, tag), "%s: %zu bytes, %zu associated",
                  sl_aead_name(aead), bytes, aad_bytes);
        cr_assert_arr_eq(io.out, message, bytes);
    }
    sealer->key_free(sealing);
    opener->key_free(opening);
}

Test(seal, opens_what_libcrypto_sealed_and_the_other_way_round)
{
    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        expect_agreement(sl_aead_supported[i], &linked_seal, &second_opinion);
        expect_agreement(sl_aead_supported[i], &second_opinion, &linked_seal);
    }
}

/* ---- refusals ---- */

struct sealed {
    const struct seal_backend *backend;
    struct sl_aead_key *key;
    uint8_t nonce[SL_NONCE_BYTES], aad[16], ciphertext[100], tag[SL_TAG_BYTES];
};

static struct sealed sealed_new(const struct seal_backend *backend, enum sl_aead aead)
{
    struct sealed sealed = {.backend = backend,
                            .key = key_of(backend, aead),
                            .nonce = "a nonce",
                            .aad = "associated",
                            .ciphertext = "what nobody else may read or change"};
    const struct sl_aead_io io = {sealed.nonce,      sealed.aad,        sizeof(sealed.aad),
                                  sealed.ciphertext, sealed.ciphertext, sizeof(sealed.ciphertext)};

    backend->seal(sealed.key, &io, sealed.tag);
    return sealed;
}

/* Opens with the first bytes only of ciphertext and associated data. */
static bool opens(const struct sealed *sealed, size_t bytes, size_t aad_bytes)
{
    uint8_t out[sizeof(sealed->ciphertext)];
    const struct sl_aead_io io = {sealed->nonce,      sealed->aad, aad_bytes,
                                  sealed->ciphertext, out,         bytes};
    bool opened;

    memset(out, 0xEE, sizeof(out));
    opened = sealed->backend->open(sealed->key, &io, sealed->tag);
    cr_assert(opened || all_zero(out, bytes), "refused, and something is left");
    cr_assert(bytes == sizeof(out) || out[bytes] == 0xEE);
    return opened;
}

static void expect_flips_refused(struct sealed *sealed, uint8_t *at, size_t bytes)
{
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_not(opens(sealed, sizeof(sealed->ciphertext), sizeof(sealed->aad)));
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void expect_refusals(const struct seal_backend *backend, enum sl_aead aead)
{
    struct sealed sealed = sealed_new(backend, aead);
    size_t bytes = sizeof(sealed.ciphertext), aad_bytes = sizeof(sealed.aad);

    cr_assert(opens(&sealed, bytes, aad_bytes));
    expect_flips_refused(&sealed, sealed.nonce, sizeof(sealed.nonce));
    expect_flips_refused(&sealed, sealed.aad, sizeof(sealed.aad));
    expect_flips_refused(&sealed, sealed.tag, sizeof(sealed.tag));
    expect_flips_refused(&sealed, sealed.ciphertext, sizeof(sealed.ciphertext));
    for (size_t shorter = 0; shorter < bytes; shorter++)
        cr_assert_not(opens(&sealed, shorter, aad_bytes));
    for (size_t shorter = 0; shorter < aad_bytes; shorter++)
        cr_assert_not(opens(&sealed, bytes, shorter));
    backend->key_set(sealed.key, key_bytes[1]);
    cr_assert_not(opens(&sealed, bytes, aad_bytes), "another key opens it");
    backend->key_set(sealed.key, key_bytes[0]);
    cr_assert(opens(&sealed, bytes, aad_bytes));
    backend->key_free(sealed.key);
}

Test(seal, refuses_all_that_was_not_sealed_so)
{
    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        expect_refusals(&linked_seal, sl_aead_supported[i]);
        expect_refusals(&second_opinion, sl_aead_supported[i]);
    }
}

/* ---- keys, emptiness, wiping ---- */

static void expect_key_set_equals_key_new(const struct seal_backend *backend, enum sl_aead aead)
{
    struct sl_aead_key *set = key_of(backend, aead), *fresh;
    uint8_t nonce[SL_NONCE_BYTES] = {1}, first[64] = {0}, other[64] = {0};
    uint8_t first_tag[SL_TAG_BYTES], other_tag[SL_TAG_BYTES];
    struct sl_aead_io io = {nonce, NULL, 0, first, first, sizeof(first)};

    backend->seal(set, &io, first_tag); /* a key that was in use */
    memset(first, 0, sizeof(first));
    backend->key_set(set, key_bytes[1]);
    backend->seal(set, &io, first_tag);
    cr_assert_eq(backend->key_new(aead, key_bytes[1], &fresh), SEALANE_OK);
    io.in = io.out = other;
    backend->seal(fresh, &io, other_tag);
    cr_assert_arr_eq(first, other, sizeof(first));
    cr_assert_arr_eq(first_tag, other_tag, sizeof(first_tag));
    backend->key_free(set);
    backend->key_free(fresh);
}

Test(seal, a_key_that_was_replaced_is_as_good_as_new)
{
    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        expect_key_set_equals_key_new(&linked_seal, sl_aead_supported[i]);
        expect_key_set_equals_key_new(&second_opinion, sl_aead_supported[i]);
    }
}

Test(seal, seals_nothing_at_all_without_any_pointer)
{
    static const uint8_t nonce[SL_NONCE_BYTES];
    const struct sl_aead_io io = {.nonce = nonce};

    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        struct sl_aead_key *one = key_of(&linked_seal, sl_aead_supported[i]);
        struct sl_aead_key *other = key_of(&second_opinion, sl_aead_supported[i]);
        uint8_t tag[SL_TAG_BYTES] = {0};

        linked_seal.seal(one, &io, tag);
        cr_assert(linked_seal.open(one, &io, tag));
        cr_assert(second_opinion.open(other, &io, tag));
        tag[15] ^= 1;
        cr_assert_not(linked_seal.open(one, &io, tag));
        cr_assert_not(second_opinion.open(other, &io, tag));
        linked_seal.key_free(one);
        second_opinion.key_free(other);
    }
}

Test(seal, wipes_what_it_is_told_to)
{
    uint8_t secret[] = {1, 2, 3, 4};

    sl_wipe(secret + 1, 2);
    cr_assert(secret[0] == 1 && secret[1] == 0 && secret[2] == 0 && secret[3] == 4);
    sl_wipe(NULL, 0);
}

/* ---- threads ---- */

/* Each thread has keys of its own, the first of which may start the library. Counts what went wrong. */
static void *seals_and_opens(void *context)
{
    enum sl_aead aead = sl_aead_supported[(uintptr_t)context % sl_aead_supported_count];
    uint8_t nonce[SL_NONCE_BYTES] = {(uint8_t)(uintptr_t)context}, text[300], tag[SL_TAG_BYTES];
    struct sl_aead_io io = {nonce, NULL, 0, text, text, sizeof(text)};
    struct sl_aead_key *sealing, *opening;
    uintptr_t wrong = 0;

    if (sl_aead_key_new(aead, key_bytes[0], &sealing) != SEALANE_OK)
        return (void *)1;
    if (second_opinion.key_new(aead, key_bytes[0], &opening) != SEALANE_OK)
        wrong++;
    for (unsigned round = 0; wrong == 0 && round < THREAD_ROUNDS; round++) {
        memset(text, (int)round, sizeof(text));
        memcpy(nonce + 4, &round, sizeof(round));
        sl_aead_seal(sealing, &io, tag);
        wrong += !second_opinion.open(opening, &io, tag) || text[299] != (uint8_t)round;
    }
    if (wrong == 0)
        second_opinion.key_free(opening);
    sl_aead_key_free(sealing);
    return (void *)wrong;
}

Test(seal, serves_many_threads_at_once)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, seals_and_opens, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;

        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong);
    }
}

/* ---- the bench library's copy ---- */

Test(unsealed, copies_and_takes_a_zero_tag_only)
{
    struct sl_aead_key *key = NULL;
    uint8_t text[] = "in clear", out[sizeof(text)], tag[SL_TAG_BYTES] = {1};
    struct sl_aead_io io = {.in = text, .out = out, .bytes = sizeof(text)};

    cr_assert_eq(unsealed.key_new(SL_AEAD_AES_256_GCM, key_bytes[0], &key), SEALANE_UNIMPLEMENTED);
    cr_assert_eq(unsealed.key_new(SL_AEAD_PLAIN, key_bytes[0], &key), SEALANE_OK);
    unsealed.seal(key, &io, tag);
    cr_assert_arr_eq(out, text, sizeof(text));
    cr_assert(all_zero(tag, sizeof(tag)));
    memset(out, 0xEE, sizeof(out));
    cr_assert(unsealed.open(key, &io, tag));
    cr_assert_arr_eq(out, text, sizeof(text));
    tag[15] = 1;
    cr_assert_not(unsealed.open(key, &io, tag));
    cr_assert(all_zero(out, sizeof(out)));
    unsealed.key_free(key);
}
