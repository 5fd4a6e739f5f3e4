/* SPDX-License-Identifier: Apache-2.0 */
/* vectors_test.c - every published vector that fits: 96-bit nonces, 128-bit tags, our three AEADs, in both directions, by the
 * linked AEAD and by libcrypto; HKDF and the TLS 1.3 key schedule on keys.c. How many ran is part of the test. */
#include "tests/support/second_opinion.h"
#include "tests/support/vector_files.h"
#include "transport/keys.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD =
        64, /* untouched bytes before and after each output: the AEAD's own code has no sanitizer in it */
    GUARD_BYTE = 0xA5
};

static const struct seal_backend *const backends[] = {&linked_seal, &second_opinion};

/* ---- AEAD ---- */

static uint8_t *guarded_new(size_t bytes)
{
    uint8_t *whole = malloc(bytes + 2 * (size_t)GUARD);

    cr_assert_not_null(whole);
    memset(whole, GUARD_BYTE, bytes + 2 * (size_t)GUARD);
    return whole + GUARD;
}

static void guarded_free(uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        cr_assert(at[(ptrdiff_t)i - GUARD] == GUARD_BYTE && at[bytes + i] == GUARD_BYTE,
                  "an AEAD wrote outside of its output");
    free(at - GUARD);
}

static bool all_zero(const uint8_t *at, size_t bytes)
{
    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

static void expect_ciphertext(const struct aead_vector *vector, const uint8_t *out)
{
    uint8_t hash[32];

    if (!vector->ciphertext_sha256.at) {
        cr_assert_eq(vector->ciphertext.count, vector->message.count);
        cr_assert_arr_eq(out, vector->ciphertext.at, vector->ciphertext.count,
                         "%s %ld: other ciphertext", vector->file, vector->id);
        return;
    }
    cr_assert_eq(EVP_Digest(out, vector->message.count, hash, NULL, EVP_sha256(), NULL), 1);
    cr_assert_arr_eq(hash, vector->ciphertext_sha256.at, sizeof(hash), "%s %ld: other ciphertext",
                     vector->file, vector->id);
}

/* message -> ciphertext and tag -> message, from one place to another and then in place; a wrong tag is refused. */
static void judge_valid(const struct aead_vector *vector, const struct seal_backend *backend,
                        struct sl_aead_key *key)
{
    size_t bytes = vector->message.count;
    uint8_t *out = guarded_new(bytes), *back = guarded_new(bytes), tag[SL_TAG_BYTES] = {0};
    struct sl_aead_io io = {.nonce = vector->nonce.at,
                            .aad = vector->aad.at,
                            .aad_bytes = vector->aad.count,
                            .in = vector->message.at,
                            .out = out,
                            .bytes = bytes};

    backend->seal(key, &io, tag);
    expect_ciphertext(vector, out);
    cr_assert_arr_eq(tag, vector->tag.at, sizeof(tag), "%s %ld: other tag", vector->file,
                     vector->id);
    io.in = out;
    io.out = back;
    cr_assert(backend->open(key, &io, tag), "%s %ld is refused by %s", vector->file, vector->id,
              backend->name);
    cr_assert_arr_eq(back, vector->message.at, bytes);

    io.in = io.out = back;
    memset(tag, 0, sizeof(tag));
    backend->seal(key, &io, tag);
    cr_assert_arr_eq(back, out, bytes, "%s %ld: other ciphertext in place", vector->file,
                     vector->id);
    cr_assert(backend->open(key, &io, tag));
    cr_assert_arr_eq(back, vector->message.at, bytes);

    io.in = out;
    tag[vector->id % SL_TAG_BYTES] ^= (uint8_t)(1 << vector->id % 8);
    cr_assert_not(backend->open(key, &io, tag), "%s %ld: a wrong tag is accepted by %s",
                  vector->file, vector->id, backend->name);
    cr_assert(all_zero(back, bytes), "%s %ld: refused, and something is left", vector->file,
              vector->id);
    guarded_free(out, bytes);
    guarded_free(back, bytes);
}

static void judge_invalid(const struct aead_vector *vector, const struct seal_backend *backend,
                          struct sl_aead_key *key)
{
    size_t bytes = vector->ciphertext.count;
    uint8_t *out = guarded_new(bytes);
    struct sl_aead_io io = {.nonce = vector->nonce.at,
                            .aad = vector->aad.at,
                            .aad_bytes = vector->aad.count,
                            .in = vector->ciphertext.at,
                            .out = out,
                            .bytes = bytes};

    cr_assert_not(backend->open(key, &io, vector->tag.at), "%s %ld is accepted by %s", vector->file,
                  vector->id, backend->name);
    cr_assert(all_zero(out, bytes), "%s %ld: refused, and something is left", vector->file,
              vector->id);
    guarded_free(out, bytes);
}

static void judge(const struct aead_vector *vector)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        struct sl_aead_key *key;

        cr_assert_eq(backends[i]->key_new(vector->aead, vector->key.at, &key), SEALANE_OK);
        if (vector->valid)
            judge_valid(vector, backends[i], key);
        else
            judge_invalid(vector, backends[i], key);
        backends[i]->key_free(key);
    }
}

static void expect_run(const char *file, unsigned run, unsigned excluded)
{
    struct vector_count count = vectors_each(file, judge);

    fprintf(stderr,
            "vectors: %s: %u run by both, %u excluded (%u other nonce lengths, %u other tag "
            "lengths, %u AES-192, %u not of an AEAD)\n",
            file, count.run, vectors_excluded(&count), count.other_nonce, count.other_tag,
            count.other_key, count.no_aead);
    cr_assert_eq(count.run, run, "%s: %u ran, %u were expected to", file, count.run, run);
    cr_assert_eq(vectors_excluded(&count), excluded, "%s: %u excluded", file,
                 vectors_excluded(&count));
}

Test(vectors, nist_sealing_of_gcm)
{
    expect_run("nist_gcmEncryptExtIV128.rsp", 175, 3500);
    expect_run("nist_gcmEncryptExtIV256.rsp", 175, 3500);
}

Test(vectors, nist_opening_of_gcm)
{
    expect_run("nist_gcmDecrypt128.rsp", 175, 3500);
    expect_run("nist_gcmDecrypt256.rsp", 175, 3500);
}

Test(vectors, mcgrew_and_viega)
{
    expect_run("mcgrew_viega_gcm.json", 4, 5);
}

Test(vectors, rfc_8439)
{
    expect_run("rfc8439.json", 1, 7);
}

Test(vectors, wycheproof)
{
    expect_run("wycheproof_aes_gcm_test.json", 67, 91);
    expect_run("wycheproof_aes_gmac_test.json", 70, 137);
    expect_run("wycheproof_chacha20_poly1305_test.json", 158, 5);
}

Test(vectors, every_size_that_sealane_uses_and_the_ones_beside_it)
{
    expect_run("own_sizes_aead.json", 87, 0);
}

/* ---- HKDF and the TLS 1.3 key schedule ---- */

static size_t hash_bytes_of(const char *name)
{
    cr_assert_not_null(name);
    if (strstr(name, "SHA-256"))
        return 32;
    cr_assert_not_null(strstr(name, "SHA-384"), "%s: an unknown hash", name);
    return 48;
}

static size_t integer(const json_t *test, const char *member)
{
    cr_assert(json_is_integer(json_object_get(test, member)));
    return (size_t)json_integer_value(json_object_get(test, member));
}

static struct sl_piece piece(const struct vector_bytes *bytes)
{
    return (struct sl_piece){bytes->at, bytes->count};
}

/* An RFC 5869 vector: Extract, then Expand. */
static void judge_hkdf(const json_t *test, size_t hash_bytes, size_t size, bool valid)
{
    struct vector_bytes ikm = vectors_hex(test, "ikm"), salt = vectors_hex(test, "salt");
    struct vector_bytes info = vectors_hex(test, "info"), okm = vectors_hex(test, "okm");
    struct sl_piece in = piece(&ikm), with = piece(&salt), about = piece(&info);
    uint8_t prk[SL_HASH_BYTES], *out = guarded_new(size);

    cr_assert_eq(sl_hkdf_extract(hash_bytes, &with, &in, prk), SEALANE_OK);
    if (json_object_get(test, "prk")) {
        struct vector_bytes wanted = vectors_hex(test, "prk");

        cr_assert_eq(wanted.count, hash_bytes);
        cr_assert_arr_eq(prk, wanted.at, hash_bytes);
        free(wanted.at);
    }
    cr_assert_eq(sl_hkdf_expand(hash_bytes, prk, &about, out, size),
                 valid ? SEALANE_OK : SEALANE_OUT_OF_RANGE);
    if (valid) {
        cr_assert_eq(okm.count, size);
        cr_assert_arr_eq(out, okm.at, size);
    }
    guarded_free(out, size);
    free(ikm.at);
    free(salt.at);
    free(info.at);
    free(okm.at);
}

static void expect_hkdf(const char *file, const char *size, unsigned run)
{
    json_t *root = vectors_json(file);
    const char *algorithm = json_string_value(json_object_get(root, "algorithm"));
    const json_t *test;
    unsigned count = 0;

    for (size_t i = 0; (test = vectors_test(root, i)) != NULL; i++, count++) {
        const char *hash = json_string_value(json_object_get(test, "hash"));
        const char *result = json_string_value(json_object_get(test, "result"));

        judge_hkdf(test, hash_bytes_of(hash ? hash : algorithm), integer(test, size),
                   !result || strcmp(result, "valid") == 0);
    }
    fprintf(stderr, "vectors: %s: %u run, 0 excluded\n", file, count);
    cr_assert_eq(count, run);
    json_decref(root);
}

Test(vectors, hkdf_of_rfc_5869)
{
    expect_hkdf("rfc5869_hkdf.json", "length", 2);
}

Test(vectors, hkdf_of_wycheproof)
{
    expect_hkdf("wycheproof_hkdf_sha256_test.json", "size", 43);
    expect_hkdf("wycheproof_hkdf_sha384_test.json", "size", 42);
}

static void judge_schedule(const json_t *test, const char *kind)
{
    size_t hash_bytes = hash_bytes_of(json_string_value(json_object_get(test, "hash")));
    bool extract = strcmp(kind, "extract") == 0;
    struct vector_bytes secret = vectors_hex(test, extract ? "ikm" : "secret");
    struct vector_bytes with = vectors_hex(test, extract ? "salt" : "context");
    struct vector_bytes wanted = vectors_hex(test, "out");
    struct sl_piece salt = piece(&with), in = piece(&secret);
    uint8_t *out = guarded_new(wanted.count);

    if (extract) {
        cr_assert_eq(wanted.count, hash_bytes);
        cr_assert_eq(sl_hkdf_extract(hash_bytes, &salt, &in, out), SEALANE_OK);
    } else {
        const char *label = json_string_value(json_object_get(test, "label"));

        cr_assert_eq(secret.count, hash_bytes);
        cr_assert_eq(wanted.count, integer(test, "length"));
        cr_assert_eq(sl_expand_label(hash_bytes, secret.at, label, with.at, with.count, out,
                                     wanted.count),
                     SEALANE_OK);
    }
    cr_assert_arr_eq(out, wanted.at, wanted.count);
    guarded_free(out, wanted.count);
    free(secret.at);
    free(with.at);
    free(wanted.at);
}

Test(vectors, key_schedule_of_rfc_8448)
{
    json_t *root = vectors_json("rfc8448_key_schedule.json");
    unsigned extracts = 0, expands = 0;
    const json_t *test;

    for (size_t i = 0; (test = vectors_test(root, i)) != NULL; i++) {
        const char *kind = json_string_value(json_object_get(test, "kind"));

        cr_assert(kind && (strcmp(kind, "extract") == 0 || strcmp(kind, "expand_label") == 0));
        judge_schedule(test, kind);
        *(strcmp(kind, "extract") == 0 ? &extracts : &expands) += 1;
    }
    fprintf(stderr,
            "vectors: rfc8448_key_schedule.json: %u extracts and %u labels run, 0 excluded\n",
            extracts, expands);
    cr_assert_eq(extracts, 3);
    cr_assert_eq(expands, 4);
    json_decref(root);
}
