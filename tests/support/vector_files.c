/* SPDX-License-Identifier: Apache-2.0 */
/* vector_files.c - JSON through jansson; NIST's "Name = value" lines by hand. */
#include "tests/support/vector_files.h"

#ifdef PLAIN_PROGRAM
#include "tests/support/plain.h"
#else
#include <criterion/criterion.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_BYTES = 4096,
    LINE_BYTES = 4096 /* the longest of NIST's is 1024 bits of nonce in hex */
};

static void path_of(const char *file, char path[PATH_BYTES])
{
    const char *elsewhere =
        getenv("SEALANE_VECTORS"); /* for a program that was carried to another machine */
    int length = elsewhere
                     ? snprintf(path, PATH_BYTES, "%s/%s", elsewhere, file)
                     : snprintf(path, PATH_BYTES, "%s/tests/vectors/%s", SEALANE_SOURCE_DIR, file);

    cr_assert(length > 0 && length < PATH_BYTES);
}

static struct vector_bytes bytes_new(size_t count)
{
    struct vector_bytes bytes = {malloc(count + 1), count};

    cr_assert_not_null(bytes.at);
    return bytes;
}

static struct vector_bytes hex_read(const char *hex)
{
    struct vector_bytes bytes = bytes_new(strlen(hex) / 2);

    cr_assert_eq(strlen(hex) % 2, 0, "half a byte in \"%s\"", hex);
    for (size_t i = 0; i < bytes.count; i++)
        cr_assert_eq(sscanf(hex + 2 * i, "%2hhx", &bytes.at[i]), 1, "no hex: \"%s\"", hex);
    return bytes;
}

static void vector_free(struct aead_vector *vector)
{
    free(vector->key.at);
    free(vector->nonce.at);
    free(vector->aad.at);
    free(vector->message.at);
    free(vector->ciphertext.at);
    free(vector->tag.at);
    free(vector->ciphertext_sha256.at);
}

/* Counts a vector, judges it if it is one of ours, frees it. `aes` or ChaCha20-Poly1305. */
static void vector_take(struct aead_vector *vector, bool aes, struct vector_count *count,
                        void (*judge)(const struct aead_vector *vector))
{
    vector->aead = !aes                      ? SL_AEAD_CHACHA20_POLY1305
                   : vector->key.count == 16 ? SL_AEAD_AES_128_GCM
                                             : SL_AEAD_AES_256_GCM;
    if (vector->nonce.count != SL_NONCE_BYTES) {
        count->other_nonce++;
    } else if (vector->tag.count != SL_TAG_BYTES) {
        count->other_tag++;
    } else if (vector->key.count != sl_aead_key_bytes(vector->aead)) {
        cr_assert(aes && vector->key.count == 24, "%s %ld: a key of %zu bytes", vector->file,
                  vector->id, vector->key.count);
        count->other_key++;
    } else {
        count->run++;
        judge(vector);
    }
    vector_free(vector);
}

/* ---- JSON ---- */

json_t *vectors_json(const char *file)
{
    char path[PATH_BYTES];
    json_error_t error;
    json_t *root;

    path_of(file, path);
    root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s line %d: %s", path, error.line, error.text);
    return root;
}

struct vector_bytes vectors_hex(const json_t *object, const char *member)
{
    const char *hex = json_string_value(json_object_get(object, member));

    cr_assert_not_null(hex, "no \"%s\" in a vector", member);
    return hex_read(hex);
}

const json_t *vectors_test(const json_t *root, size_t index)
{
    const json_t *groups = json_object_get(root, "testGroups"), *tests;

    if (!groups)
        return json_array_get(json_object_get(root, "tests"), index);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        tests = json_object_get(json_array_get(groups, i), "tests");
        if (index < json_array_size(tests))
            return json_array_get(tests, index);
        index -= json_array_size(tests);
    }
    return NULL;
}

/* own_sizes_aead.json names a length and a seed instead of bytes. */
static struct vector_bytes bytes_grown(const json_t *test, const char *length, const char *seed)
{
    json_int_t start = json_integer_value(json_object_get(test, seed));
    struct vector_bytes bytes =
        bytes_new((size_t)json_integer_value(json_object_get(test, length)));

    for (size_t i = 0; i < bytes.count; i++)
        bytes.at[i] = (uint8_t)(i * 131 + (i >> 8) * 17 + (size_t)start);
    return bytes;
}

static struct vector_bytes hex_or_none(const json_t *test, const char *member)
{
    return json_object_get(test, member) ? vectors_hex(test, member) : bytes_new(0);
}

static void json_take(const char *file, const json_t *test, const char *algorithm,
                      struct vector_count *count, void (*judge)(const struct aead_vector *vector))
{
    const char *result = json_string_value(json_object_get(test, "result"));
    const json_t *id = json_object_get(test, "tcId");
    bool grown = json_object_get(test, "msg_len") != NULL, gmac = strstr(algorithm, "GMAC") != NULL;
    struct aead_vector vector = {.file = file,
                                 .id = (long)json_integer_value(id ? id
                                                                   : json_object_get(test, "id")),
                                 .valid = grown || (result && strcmp(result, "valid") == 0)};

    cr_assert(grown || vector.valid || (result && strcmp(result, "invalid") == 0), "%s: %s", file,
              result ? result : "no result");
    vector.key = vectors_hex(test, "key");
    vector.nonce = vectors_hex(test, "iv");
    vector.tag = vectors_hex(test, "tag");
    vector.ciphertext = hex_or_none(test, "ct");
    if (grown) {
        vector.aad = bytes_grown(test, "aad_len", "aad_seed");
        vector.message = bytes_grown(test, "msg_len", "msg_seed");
        vector.ciphertext_sha256 = vectors_hex(test, "sha256_ct");
    } else {
        vector.aad = vectors_hex(test, gmac ? "msg" : "aad"); /* GMAC: GCM of nothing */
        vector.message = gmac ? bytes_new(0) : vectors_hex(test, "msg");
    }
    vector_take(&vector, strncmp(algorithm, "AES", 3) == 0, count, judge);
}

static struct vector_count json_each(const char *file, void (*judge)(const struct aead_vector *))
{
    struct vector_count count = {0};
    json_t *root = vectors_json(file);
    const json_t *test;

    for (size_t i = 0; (test = vectors_test(root, i)) != NULL; i++) {
        const char *kind = json_string_value(json_object_get(test, "kind"));
        const json_t *algorithm = json_object_get(test, "alg");

        if (!algorithm)
            algorithm = json_object_get(root, "algorithm");
        cr_assert(json_is_string(algorithm), "%s names no algorithm", file);
        if (kind && strcmp(kind, "aead") != 0)
            count.no_aead++;
        else
            json_take(file, test, json_string_value(algorithm), &count, judge);
    }
    json_decref(root);
    return count;
}

/* ---- NIST ---- */

static struct vector_bytes *rsp_member(struct aead_vector *vector, const char *name)
{
    const struct {
        const char *name;
        struct vector_bytes *bytes;
    } members[] = {{"Key", &vector->key}, {"IV", &vector->nonce},   {"AAD", &vector->aad},
                   {"Tag", &vector->tag}, {"PT", &vector->message}, {"CT", &vector->ciphertext}};

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (strcmp(members[i].name, name) == 0)
            return members[i].bytes;
    }
    return NULL;
}

static void rsp_line(struct aead_vector *vector, const char *line)
{
    char name[16], value[LINE_BYTES] = "";
    struct vector_bytes *bytes;

    if (strcmp(line, "FAIL\n") == 0) {
        vector->valid = false;
        vector->message = bytes_new(0);
        return;
    }
    cr_assert_geq(sscanf(line, "%15s = %4095s", name, value), 1);
    bytes = rsp_member(vector, name);
    if (strcmp(name, "Count") == 0) {
        vector->id = strtol(value, NULL, 10);
    } else {
        cr_assert(bytes && !bytes->at, "%s: \"%s\" is not understood here", vector->file, line);
        *bytes = hex_read(value);
    }
}

/* A vector begins with Count and ends with an empty line or the file. */
static struct vector_count rsp_each(const char *file, void (*judge)(const struct aead_vector *))
{
    const struct aead_vector none = {.file = file, .id = -1, .valid = true};
    struct aead_vector vector = none;
    struct vector_count count = {0};
    char path[PATH_BYTES], line[LINE_BYTES];
    FILE *stream;
    bool more;

    path_of(file, path);
    stream = fopen(path, "r");
    cr_assert_not_null(stream, "%s cannot be read", path);
    do {
        more = fgets(line, sizeof(line), stream) != NULL;
        if (more && strcmp(line, "\n") != 0 && line[0] != '#' && line[0] != '[') {
            rsp_line(&vector, line);
        } else if (vector.id >= 0) {
            cr_assert(vector.key.at && vector.nonce.at && vector.aad.at && vector.tag.at &&
                          vector.message.at && vector.ciphertext.at,
                      "%s %ld is not whole", file, vector.id);
            vector_take(&vector, true, &count, judge);
            vector = none;
        }
    } while (more);
    cr_assert_eq(fclose(stream), 0);
    return count;
}

/* ---- both ---- */

struct vector_count vectors_each(const char *file, void (*judge)(const struct aead_vector *vector))
{
    return strstr(file, ".rsp") ? rsp_each(file, judge) : json_each(file, judge);
}

unsigned vectors_excluded(const struct vector_count *count)
{
    return count->other_nonce + count->other_tag + count->other_key + count->no_aead;
}
