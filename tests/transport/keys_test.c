/* SPDX-License-Identifier: Apache-2.0 */
/* keys_test.c - the key table: against an independent model, over thousands of epochs, and what is left of a key afterwards.
 * Linked with --wrap=free, to look at keys in the moment in which they are given back. */
#include "transport/keys.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SHIFT = 3, /* eight seqs per epoch */
    EPOCHS = 3000,
    MESSAGE_BYTES = 40,
    STACK_BYTES = 512 << 10,
    BALLAST_BYTES = 64 << 10
};

/* 00 01 02 ... 2f */
static const uint8_t *exporter(void)
{
    static uint8_t secret[SL_SECRET_BYTES];

    for (size_t i = 0; i < sizeof(secret); i++)
        secret[i] = (uint8_t)i;
    return secret;
}

static struct sl_keys table(enum sl_direction direction, unsigned ring, enum sl_aead aead)
{
    struct sl_keys keys;

    cr_assert_eq(sl_keys_init(&keys, exporter(), direction, ring, aead, SHIFT), SEALANE_OK);
    return keys;
}

static void step_to(struct sl_keys *keys, uint64_t epoch)
{
    cr_assert_eq(sl_keys_done_below(keys, epoch << SHIFT), SEALANE_OK);
    cr_assert_eq(keys->epoch, epoch);
}

static void hex(const char *text, uint8_t *out, size_t bytes)
{
    cr_assert_eq(strlen(text), 2 * bytes);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(sscanf(text + 2 * i, "%2hhx", &out[i]), 1);
}

/* The tag of nothing: a fingerprint of key and nonce. */
static void fingerprint(struct sl_aead_key *key, const uint8_t *nonce, uint8_t tag[SL_TAG_BYTES])
{
    const struct sl_aead_io io = {.nonce = nonce};

    sl_aead_seal(key, &io, tag);
}

static bool all_zero(const void *at, size_t bytes)
{
    const uint8_t *byte = at;

    return byte[0] == 0 && memcmp(byte, byte + 1, bytes - 1) == 0;
}

/* ---- derivation ---- */

/* From a model of PROTOCOL.md section 4 in Python (hmac, hashlib) over the exporter's secret 00 01 ... 2f. */
static const struct model {
    enum sl_direction direction;
    unsigned ring;
    enum sl_aead aead;
    uint64_t epoch;
    const char *key, *nonce; /* of seq epoch * 8 + 5 */
} models[] = {
    {SL_CLIENT_TO_SERVER, 0, SL_AEAD_AES_256_GCM, 0,
     "d34fd7b65eb0a018b160d068ff61517bc33e1e2b371b915f6b4462e09ef8bcdb",
     "d0ba09b13ec394229392611a"},
    {SL_CLIENT_TO_SERVER, 0, SL_AEAD_AES_256_GCM, 1,
     "4485b67a905a095fba2315d9910d5a3f3d9c05780d8547f680e7f06868863a9a",
     "75538434deac1087023fbdfc"},
    {SL_CLIENT_TO_SERVER, 0, SL_AEAD_AES_256_GCM, 1000,
     "f39690a9e7ed337d6bdbd863243b2a50ac2d25820cdbe27e8697e6466b9bc24a",
     "dc7381c882d93614d26a85db"},
    {SL_SERVER_TO_CLIENT, 1, SL_AEAD_CHACHA20_POLY1305, 0,
     "1b5907b4089aa3b3b438432323a423ca8e82b981ea64edeecea9b2d51b52bb37",
     "5f454bc656b07773b7dda257"},
    {SL_SERVER_TO_CLIENT, 1, SL_AEAD_CHACHA20_POLY1305, 1,
     "c9ae58e2ff6e6af908094e704bd1ede5b11c755e7447ae4f4e3302d0455ef29b",
     "c2b81035a9e10ab833d768d8"},
    {SL_SERVER_TO_CLIENT, 1, SL_AEAD_CHACHA20_POLY1305, 1000,
     "4484b568c48437a3c8b35043feb41dc598984c09e8903f9edabc39e6743504e9",
     "ba614e648795a26acd07f2ff"},
    {SL_CLIENT_TO_SERVER, 1, SL_AEAD_AES_128_GCM, 0, "735470b9562a3b6b6950503eeefe3cf7",
     "9ed213eb60adb12843a106b1"},
    {SL_CLIENT_TO_SERVER, 1, SL_AEAD_AES_128_GCM, 1, "5ceb2223acb4f9d3e68f9095d54d9030",
     "3d5e8eeb1c37f6009e7dad66"},
    {SL_CLIENT_TO_SERVER, 1, SL_AEAD_AES_128_GCM, 1000, "9d60479a143bf4b481640792b7999f7c",
     "b829b587ca9687117168b4b4"},
};

static void expect_model(const struct model *model)
{
    struct sl_keys keys = table(model->direction, model->ring, model->aead);
    size_t key_bytes = sl_aead_key_bytes(model->aead);
    uint8_t key[SL_AEAD_KEY_MAX], wanted[SL_NONCE_BYTES], nonce[SL_NONCE_BYTES];
    uint8_t tag[SL_TAG_BYTES], wanted_tag[SL_TAG_BYTES];
    struct sl_aead_key *modelled;

    if (model->epoch > 1)
        step_to(&keys, model->epoch);
    hex(model->key, key, key_bytes);
    hex(model->nonce, wanted, sizeof(wanted));
    cr_assert_eq(sl_aead_key_new(model->aead, key, &modelled), SEALANE_OK);
    fingerprint(sl_keys_at(&keys, (model->epoch << SHIFT) + 5, nonce), nonce, tag);
    cr_assert_arr_eq(nonce, wanted, sizeof(nonce));
    fingerprint(modelled, wanted, wanted_tag);
    cr_assert_arr_eq(tag, wanted_tag, sizeof(tag));
    sl_aead_key_free(modelled);
    sl_keys_clear(&keys);
}

Test(keys, are_those_of_an_independent_model)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        expect_model(&models[i]);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, SL_TAG_BYTES);
}

Test(keys, invariant_3_no_key_and_nonce_pair_comes_twice)
{
    enum {
        TABLES = 12, /* two directions, two rings, three AEADs */
        SEQS = 300 << SHIFT
    };
    uint8_t(*prints)[SL_TAG_BYTES] = malloc(sizeof(*prints) * TABLES * SEQS);
    uint8_t nonce[SL_NONCE_BYTES];
    size_t count = 0;

    cr_assert_not_null(prints);
    for (unsigned t = 0; t < TABLES; t++) {
        struct sl_keys keys = table((enum sl_direction)(t & 1), t >> 1 & 1,
                                    sl_aead_supported[(t >> 2) % sl_aead_supported_count]);

        for (uint64_t seq = 0; seq < SEQS; seq++) {
            cr_assert_eq(sl_keys_done_below(&keys, seq), SEALANE_OK);
            fingerprint(sl_keys_at(&keys, seq, nonce), nonce, prints[count++]);
        }
        sl_keys_clear(&keys);
    }
    qsort(prints, count, sizeof(*prints), by_bytes);
    for (size_t i = 1; i < count; i++)
        cr_assert_neq(memcmp(prints[i - 1], prints[i], SL_TAG_BYTES), 0);
    free(prints);
}

/* ---- epochs ---- */

Test(keys, both_ends_agree_over_thousands_of_epochs)
{
    struct sl_keys sender = table(SL_CLIENT_TO_SERVER, 0, sl_aead_supported[0]);
    struct sl_keys receiver = table(SL_CLIENT_TO_SERVER, 0, sl_aead_supported[0]);
    uint8_t message[MESSAGE_BYTES] = "each message under its own seq", out[MESSAGE_BYTES];
    uint8_t tag[SL_TAG_BYTES], nonce[SL_NONCE_BYTES];

    for (uint64_t seq = 0; seq < (uint64_t)EPOCHS << SHIFT; seq++) {
        struct sl_aead_io io = {nonce, NULL, 0, message, out, sizeof(message)};

        sl_aead_seal(sl_keys_at(&sender, seq, nonce), &io, tag);
        cr_assert_eq(sl_keys_done_below(&sender, seq + 1), SEALANE_OK);
        io.in = out;
        cr_assert(sl_aead_open(sl_keys_at(&receiver, seq, nonce), &io, tag));
        cr_assert_arr_eq(out, message, sizeof(message));
        cr_assert_eq(sl_keys_done_below(&receiver, seq + 1), SEALANE_OK);
    }
    cr_assert_eq(sender.epoch, EPOCHS);
    cr_assert_eq(receiver.epoch, EPOCHS);
    sl_keys_clear(&sender);
    sl_keys_clear(&receiver);
}

Test(keys, invariant_4_the_key_and_nonce_of_a_seq_open_no_other_seq)
{
    struct sl_keys keys = table(SL_CLIENT_TO_SERVER, 0, sl_aead_supported[0]);
    uint8_t out[MESSAGE_BYTES] = {1}, back[MESSAGE_BYTES], tag[SL_TAG_BYTES], nonce[SL_NONCE_BYTES];
    struct sl_aead_io io = {nonce, NULL, 0, out, out, sizeof(out)};

    sl_aead_seal(sl_keys_at(&keys, 5, nonce), &io, tag);
    io.out = back;
    for (uint64_t seq = 0; seq < 2 << SHIFT; seq++)
        cr_assert_eq(sl_aead_open(sl_keys_at(&keys, seq, nonce), &io, tag), seq == 5);
    sl_keys_clear(&keys);
}

Test(keys, the_older_epoch_stays_until_it_is_told_to_be_over)
{
    struct sl_keys keys = table(SL_SERVER_TO_CLIENT, 1, sl_aead_supported[0]);
    uint8_t before[SL_TAG_BYTES], after[SL_TAG_BYTES], nonce[SL_NONCE_BYTES];
    uint64_t last = (1 << SHIFT) - 1;

    fingerprint(sl_keys_at(&keys, last, nonce), nonce, before);
    fingerprint(sl_keys_at(&keys, last + 1, nonce), nonce, after); /* of the epoch after */
    cr_assert_eq(sl_keys_done_below(&keys, last), SEALANE_OK);     /* `last` itself is not done */
    fingerprint(sl_keys_at(&keys, last, nonce), nonce, after);
    cr_assert_arr_eq(before, after, sizeof(before));
    cr_assert_eq(keys.epoch, 0);
    cr_assert_eq(sl_keys_done_below(&keys, last + 1), SEALANE_OK);
    cr_assert_eq(keys.epoch, 1);
    sl_keys_clear(&keys);
}

Test(keys, being_told_within_an_epoch_changes_nothing)
{
    struct sl_keys keys = table(SL_SERVER_TO_CLIENT, 1, sl_aead_supported[0]), before = keys;

    for (uint64_t seq = 0; seq < 1 << SHIFT; seq++)
        cr_assert_eq(sl_keys_done_below(&keys, seq), SEALANE_OK);
    cr_assert_eq(memcmp(&keys, &before, sizeof(keys)), 0);
    sl_keys_clear(&keys);
}

/* Asserted: a caller's mistake must not be answered with some other epoch's key. */
Test(keys, a_seq_two_epochs_ahead_is_a_bug, .signal = SIGABRT)
{
    struct sl_keys keys = table(SL_SERVER_TO_CLIENT, 1, sl_aead_supported[0]);
    uint8_t nonce[SL_NONCE_BYTES];

    (void)sl_keys_at(&keys, 2 << SHIFT, nonce);
}

Test(keys, an_unknown_aead_is_refused_and_leaves_nothing)
{
    struct sl_keys keys;

    cr_assert_eq(sl_keys_init(&keys, exporter(), SL_CLIENT_TO_SERVER, 0, (enum sl_aead)9, SHIFT),
                 SEALANE_UNIMPLEMENTED);
    cr_assert(all_zero(&keys, sizeof(keys)));
    sl_keys_clear(&keys);
}

/* ---- what is left ---- */

static const void *watched;
static unsigned watched_frees;
static bool watched_clean;

void __real_free(void *at);
void __wrap_free(void *at);

void __wrap_free(void *at)
{
    if (at && at == watched) {
        watched_frees++;
        watched_clean =
            all_zero(at, malloc_usable_size(at) / 64 * 64); /* whole lines are the key's */
    }
    __real_free(at);
}

/* Key and secret of an epoch, derived beside the table. */
struct derived {
    uint8_t key[SL_AEAD_KEY_MAX];
    uint8_t iv[SL_NONCE_BYTES];
    uint8_t secret[SL_SECRET_BYTES];
};

static struct derived derive(enum sl_aead aead, unsigned epoch)
{
    const uint8_t context[] = {SL_CLIENT_TO_SERVER, 0, (uint8_t)aead};
    struct derived derived;
    uint8_t *secret = derived.secret;

    cr_assert_eq(sl_expand_label(48, exporter(), "sl lane", context, 3, secret, 48), SEALANE_OK);
    for (unsigned e = 0; e < epoch; e++) {
        uint8_t next[SL_SECRET_BYTES];

        cr_assert_eq(sl_expand_label(48, secret, "sl next", NULL, 0, next, 48), SEALANE_OK);
        memcpy(secret, next, sizeof(next));
    }
    cr_assert_eq(sl_expand_label(48, secret, "key", NULL, 0, derived.key, sizeof(derived.key)),
                 SEALANE_OK);
    cr_assert_eq(sl_expand_label(48, secret, "iv", NULL, 0, derived.iv, sizeof(derived.iv)),
                 SEALANE_OK);
    return derived;
}

static bool holds(const void *where, size_t bytes, const uint8_t *secret, size_t secret_bytes)
{
    return memmem(where, bytes, secret, secret_bytes) != NULL;
}

static void expect_overwritten(enum sl_aead aead)
{
    struct sl_keys keys = table(SL_CLIENT_TO_SERVER, 0, aead);
    struct sl_aead_key *old = keys.key[0];
    size_t bytes = malloc_usable_size(old);
    struct derived first = derive(aead, 0), third = derive(aead, 2);

    cr_assert(holds(old, bytes, first.key, sizeof(first.key)));
    cr_assert(holds(&keys, sizeof(keys), first.iv, sizeof(first.iv)));
    cr_assert(holds(&keys, sizeof(keys), third.secret, sizeof(third.secret)));
    cr_assert_eq(sl_keys_done_below(&keys, 1 << SHIFT), SEALANE_OK);
    cr_assert_eq(keys.key[0], old, "the key's memory is used again, not freed");
    cr_assert_not(holds(old, bytes, first.key, sizeof(first.key) / 2));
    cr_assert(holds(old, bytes, third.key, sizeof(third.key)));
    cr_assert_not(holds(&keys, sizeof(keys), first.iv, sizeof(first.iv)));
    cr_assert_not(holds(&keys, sizeof(keys), third.secret, sizeof(third.secret)));

    watched = old;
    watched_frees = 0;
    sl_keys_clear(&keys);
    cr_assert_eq(watched_frees, 1);
    cr_assert(watched_clean, "a key was freed before it was wiped");
    cr_assert(all_zero(&keys, sizeof(keys)));
    sl_keys_clear(&keys);
}

Test(keys, invariant_10_the_key_of_a_passed_epoch_is_overwritten_and_the_last_is_wiped)
{
    if (strcmp(SEALANE_AEAD, "ipsecmb") != 0)
        cr_skip("libcrypto keeps keys in memory of its own");
    expect_overwritten(SL_AEAD_AES_256_GCM);
    expect_overwritten(SL_AEAD_CHACHA20_POLY1305);
}

/* What the thread works on is not on its stack, and nothing runs there after the key schedule that would cover its traces. */
static struct sl_keys threads_table;
static struct derived threads_secrets[5];
static enum sealane_status threads_status;

static void runs_the_key_schedule(void)
{
    threads_status = sl_keys_init(&threads_table, exporter(), SL_CLIENT_TO_SERVER, 0,
                                  SL_AEAD_AES_256_GCM, SHIFT);
    if (threads_status == SEALANE_OK)
        threads_status = sl_keys_done_below(&threads_table, 2 << SHIFT);
}

static void leaves_a_key(void)
{
    volatile uint8_t copy[sizeof(struct derived)];

    for (size_t i = 0; i < sizeof(copy); i++)
        copy[i] = ((const uint8_t *)&threads_secrets[3])[i];
}

static void (*volatile threads_work)(void);

/* Works below a ballast, so that the thread's own end does not write over what the work left. */
static void *works_deep(void *unused)
{
    volatile uint8_t ballast[BALLAST_BYTES];

    ballast[0] = 1;
    threads_work();
    return ballast[0] == 1 ? unused : NULL; /* it is needed to the end */
}

/* Plain, or as HMAC keeps a key. */
static unsigned traces(const uint8_t *stack, const uint8_t *secret, size_t bytes)
{
    static const uint8_t pads[] = {0x00, 0x36, 0x5C};
    uint8_t padded[SL_SECRET_BYTES];
    unsigned found = 0;

    for (size_t pad = 0; pad < sizeof(pads); pad++) {
        for (size_t i = 0; i < bytes; i++)
            padded[i] = secret[i] ^ pads[pad];
        found += holds(stack, STACK_BYTES, padded, bytes);
    }
    return found;
}

/* How many traces of epochs 0-4 are on the stack that a thread has left. */
static unsigned left_behind(void (*work)(void))
{
    uint8_t *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned found = 0;
    pthread_attr_t attributes;
    pthread_t thread;

    for (unsigned epoch = 0; epoch < 5; epoch++)
        threads_secrets[epoch] = derive(SL_AEAD_AES_256_GCM, epoch);
    threads_work = work;
    cr_assert_neq(stack, MAP_FAILED);
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, works_deep, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    for (unsigned epoch = 0; epoch < 5; epoch++) {
        const struct derived *secrets = &threads_secrets[epoch];

        found += traces(stack, secrets->key, 16) + traces(stack, secrets->key + 16, 16);
        found += traces(stack, secrets->secret, 16) + traces(stack, secrets->secret + 32, 16);
        found += traces(stack, secrets->iv, sizeof(secrets->iv));
    }
    cr_assert_eq(pthread_attr_destroy(&attributes), 0);
    cr_assert_eq(munmap(stack, STACK_BYTES), 0);
    return found;
}

Test(keys, invariant_10_nothing_of_a_key_stays_on_the_stack)
{
    cr_assert_eq(left_behind(leaves_a_key), 5, "the search finds what was left on purpose");
    cr_assert_eq(left_behind(runs_the_key_schedule), 0);
    cr_assert_eq(threads_status, SEALANE_OK);
    cr_assert_eq(threads_table.epoch, 2);
    sl_keys_clear(&threads_table);
}

/* ---- the pieces ---- */

Test(keys, labels_contexts_and_outputs_have_limits)
{
    char label[251];
    uint8_t context[256] = {0}, *out = malloc(255 * 48 + 1);

    cr_assert_not_null(out);
    memset(label, 'l', sizeof(label));
    label[250] = '\0';
    cr_assert_eq(sl_expand_label(48, exporter(), label, NULL, 0, out, 1), SEALANE_OUT_OF_RANGE);
    label[249] = '\0';
    cr_assert_eq(sl_expand_label(48, exporter(), label, context, 255, out, 1), SEALANE_OK);
    cr_assert_eq(sl_expand_label(48, exporter(), "", context, 256, out, 1), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(sl_expand_label(48, exporter(), "", NULL, 0, out, 255 * 48), SEALANE_OK);
    cr_assert_eq(sl_expand_label(48, exporter(), "", NULL, 0, out, 255 * 48 + 1),
                 SEALANE_OUT_OF_RANGE);
    cr_assert_eq(sl_expand_label(20, exporter(), "", NULL, 0, out, 1), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(sl_expand_label(48, exporter(), "", NULL, 0, out, 0), SEALANE_OK);
    free(out);
}

Test(keys, a_hash_over_pieces_is_that_of_the_whole)
{
    const struct sl_piece pieces[] = {{"a", 1}, {NULL, 0}, {"bc", 2}};
    uint8_t hash[SL_HASH_BYTES], wanted[SL_HASH_BYTES];

    /* FIPS 180-4, SHA-384 of "abc" */
    hex("cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
        "8086072ba1e7cc2358baeca134c825a7",
        wanted, sizeof(wanted));
    cr_assert_eq(sl_hash(pieces, 3, hash), SEALANE_OK);
    cr_assert_arr_eq(hash, wanted, sizeof(hash));
}

Test(keys, random_bytes_fill_what_was_asked_for)
{
    enum {
        BYTES = 1 << 20 /* more than one system call gives */
    };
    uint8_t *one = calloc(1, BYTES), *other = calloc(1, BYTES);
    size_t zeros = 0;

    cr_assert(one && other);
    cr_assert_eq(sl_random(one, BYTES), SEALANE_OK);
    cr_assert_eq(sl_random(other, BYTES), SEALANE_OK);
    cr_assert_neq(memcmp(one, other, 16), 0);
    cr_assert_neq(memcmp(one + BYTES - 16, other + BYTES - 16, 16), 0);
    for (size_t i = 0; i < BYTES; i++)
        zeros += one[i] == 0;
    cr_assert_lt(zeros, 2 * BYTES / 256, "%zu zeros, about %d were expected", zeros, BYTES / 256);
    free(one);
    free(other);
}
