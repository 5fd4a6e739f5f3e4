/* SPDX-License-Identifier: Apache-2.0 */
/* credentials_test.c - what loads, what does not and what is then said; and which AEADs may be used. */
#include "tests/support/certs.h"
#include "transport/credentials.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DAY = 86400
};

static void fails(const struct certs_choice *choice, enum sealane_status wanted, const char *words)
{
    struct sealane_credentials *credentials = NULL;
    enum sealane_status status = certs_try(choice, &credentials);

    cr_assert_eq(status, wanted, "%s of %s: %d %s", choice->name, choice->ca, status,
                 sealane_last_error()->message);
    cr_assert(strstr(sealane_last_error()->message, words), "wanted \"%s\" in: %s", words,
              sealane_last_error()->message);
    cr_assert_null(credentials);
}

Test(credentials, load_with_keys_of_every_kind)
{
    static const struct certs_choice choices[] = {
        {"root-p256", "good/server-p256", NULL},
        {"root-p256", "good/p384-leaf", NULL},
        {"root-p256", "good/sec1", NULL},
        {"root-rsa2048", "good/server-rsa2048", NULL},
        {"root-ed25519", "good/server-ed25519", NULL},
    };

    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        sealane_credentials_free(certs_load(choices[i].ca, choices[i].name, NULL));
}

Test(credentials, load_and_know_themselves)
{
    struct sealane_credentials *credentials = certs_load("root-p256", "good/server-p256", NULL);
    uint8_t zero[SL_FINGERPRINT_BYTES] = {0};

    cr_assert(strstr(sl_credentials_label(credentials),
                     "\"uri:spiffe://cluster.test/ns/default/sa/server\" of /"));
    cr_assert(strstr(sl_credentials_label(credentials), "good/server-p256.pem"));
    cr_assert(strstr(sl_credentials_ca_file(credentials), "ca/root-p256.pem"));
    cr_assert_arr_neq(sl_credentials_fingerprint(credentials), zero, sizeof(zero));
    sealane_credentials_free(credentials);
    sealane_credentials_free(NULL);
}

Test(credentials, need_all_three_files)
{
    struct sealane_credentials_options options = {.ca_file = "a", .certificate_file = "b"};
    struct sealane_credentials *credentials = NULL;

    cr_assert_eq(sealane_credentials_new(NULL, &credentials), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sealane_credentials_new(&options, &credentials), SEALANE_INVALID_ARGUMENT);
    cr_assert(strstr(sealane_last_error()->message, "key_file"));
    options.key_file = "c";
    options.ca_file = NULL;
    cr_assert_eq(sealane_credentials_new(&options, &credentials), SEALANE_INVALID_ARGUMENT);
    cr_assert_null(credentials);
}

Test(credentials, name_a_file_that_is_not_there)
{
    fails(&(struct certs_choice){.ca = "nowhere", .name = "good/server-p256"}, SEALANE_NOT_FOUND,
          "ca/nowhere.pem\": No such file or directory");
    fails(&(struct certs_choice){.ca = "root-p256", .name = "good/nobody"}, SEALANE_NOT_FOUND,
          "good/nobody.pem\": No such file or directory");
}

Test(credentials, refuse_a_key_that_is_another_certificate_s)
{
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/key-mismatch"},
          SEALANE_FAILED_PRECONDITION, "bad/key-mismatch.key\" is not that of the certificate in");
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/key-mismatch-p384"},
          SEALANE_FAILED_PRECONDITION,
          "bad/key-mismatch-p384.key\" is not that of the certificate in");
    fails(&(struct certs_choice){.ca = "root-ed25519", .name = "bad/key-mismatch-ed25519"},
          SEALANE_FAILED_PRECONDITION,
          "bad/key-mismatch-ed25519.key\" is not that of the certificate in");
    fails(&(struct certs_choice){.ca = "root-rsa2048", .name = "bad/key-mismatch-rsa2048"},
          SEALANE_FAILED_PRECONDITION,
          "bad/key-mismatch-rsa2048.key\" is not that of the certificate in");
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/key-mismatch-kind"},
          SEALANE_FAILED_PRECONDITION, "bad/key-mismatch-kind");
}

Test(credentials, refuse_an_expired_authority_wherever_it_stands)
{
    fails(&(struct certs_choice){.ca = "old-root", .name = "good/server-p256"},
          SEALANE_FAILED_PRECONDITION, "ca/old-root.pem");
    fails(&(struct certs_choice){.ca = "old-and-good", .name = "good/server-p256"},
          SEALANE_FAILED_PRECONDITION, "ca/old-and-good.pem");
    fails(&(struct certs_choice){.ca = "good-and-old", .name = "good/server-p256"},
          SEALANE_FAILED_PRECONDITION, "ca/good-and-old.pem");
}

Test(credentials, refuse_their_own_certificate_out_of_its_dates)
{
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/expired"},
          SEALANE_FAILED_PRECONDITION,
          "bad/expired.pem\": our own certificate \"CN=server.test\": expired: notAfter ");
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/future"},
          SEALANE_FAILED_PRECONDITION,
          "our own certificate \"CN=server.test\": not yet valid: notBefore ");
}

Test(credentials, refuse_a_weak_key_of_their_own)
{
    fails(&(struct certs_choice){.ca = "root-p256", .name = "bad/weak-key"},
          SEALANE_FAILED_PRECONDITION, "bad/weak-key.pem");
}

static char *write_file(const char *name, const char *text)
{
    char *path = malloc(200);
    FILE *file;

    (void)snprintf(path, 200, "/tmp/sealane-credentials-%d-%s", (int)getpid(), name);
    file = fopen(path, "w");
    cr_assert(file);
    (void)fputs(text, file);
    cr_assert_eq(fclose(file), 0);
    return path;
}

Test(credentials, refuse_files_that_hold_something_else)
{
    static const char *const texts[] = {
        "", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
    char ca[CERTS_PATH], certificate[CERTS_PATH], key[CERTS_PATH];

    certs_path("ca/root-p256.pem", ca);
    certs_path("good/server-p256.pem", certificate);
    certs_path("good/server-p256.key", key);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) * 3; i++) {
        char *path = write_file("odd.pem", texts[i / 3]);
        struct sealane_credentials_options options = {.ca_file = i % 3 == 0 ? path : ca,
                                                      .certificate_file =
                                                          i % 3 == 1 ? path : certificate,
                                                      .key_file = i % 3 == 2 ? path : key};
        struct sealane_credentials *credentials = NULL;

        cr_assert_eq(sealane_credentials_new(&options, &credentials), SEALANE_FAILED_PRECONDITION,
                     "%zu", i);
        cr_assert(strstr(sealane_last_error()->message, path), "%s", sealane_last_error()->message);
        (void)unlink(path);
        free(path);
    }
}

Test(credentials, refuse_allowed_peers_without_a_known_type)
{
    static const char *const bad[] = {"server.test", "10.0.0.7",       "email:a@b.test",
                                      "dns:",        "ip:server.test", "dns:*.test"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fails(&(struct certs_choice){.ca = "root-p256",
                                     .name = "good/server-p256",
                                     .allowed = bad[i]},
              SEALANE_INVALID_ARGUMENT, "\"");
}

/* ---- AEADs ---- */

static struct sealane_credentials *with_aeads(const enum sealane_aead *aeads, size_t count,
                                              enum sealane_status wanted)
{
    char ca[CERTS_PATH], certificate[CERTS_PATH], key[CERTS_PATH];
    struct sealane_credentials_options options = {
        .ca_file = certs_path("ca/root-p256.pem", ca),
        .certificate_file = certs_path("good/server-p256.pem", certificate),
        .key_file = certs_path("good/server-p256.key", key),
        .aeads = aeads,
        .aead_count = count};
    struct sealane_credentials *credentials = NULL;

    cr_assert_eq(sealane_credentials_new(&options, &credentials), wanted, "%s",
                 sealane_last_error()->message);
    return credentials;
}

Test(credentials, allow_all_aeads_of_the_build_by_default)
{
    struct sealane_credentials *credentials = with_aeads(NULL, 0, SEALANE_OK);
    size_t count;
    const enum sl_aead *aeads = sl_credentials_aeads(credentials, &count);

    cr_assert_eq(count, sl_aead_supported_count);
    cr_assert(memcmp(aeads, sl_aead_supported, count * sizeof(*aeads)) == 0);
    sealane_credentials_free(credentials);
}

Test(credentials, keep_the_user_s_order_of_aeads)
{
    static const enum sealane_aead list[] = {SEALANE_CHACHA20_POLY1305, SEALANE_AES_128_GCM};
    struct sealane_credentials *credentials = with_aeads(list, 2, SEALANE_OK);
    size_t count;
    const enum sl_aead *aeads = sl_credentials_aeads(credentials, &count);

    cr_assert_eq(count, 2);
    cr_assert(aeads[0] == SL_AEAD_CHACHA20_POLY1305 && aeads[1] == SL_AEAD_AES_128_GCM);
    sealane_credentials_free(credentials);
}

Test(credentials, refuse_unknown_aeads_and_the_unsealed_one)
{
    static const enum sealane_aead none[] = {(enum sealane_aead)0},
                                   odd[] = {SEALANE_AES_256_GCM, (enum sealane_aead)77};
    static const enum sealane_aead twice[] = {SEALANE_AES_256_GCM, SEALANE_AES_256_GCM};

    cr_assert_null(with_aeads(none, 1, SEALANE_INVALID_ARGUMENT));
    cr_assert_null(with_aeads(odd, 2, SEALANE_INVALID_ARGUMENT));
    cr_assert_null(with_aeads(twice, 2, SEALANE_INVALID_ARGUMENT));
}

/* ---- tools/make-certs.sh ---- */

static int tool(const char *arguments)
{
    char command[CERTS_PATH * 2];
    int result;

    (void)snprintf(command, sizeof(command), "'%s/tools/make-certs.sh' %s >/dev/null 2>&1",
                   SEALANE_SOURCE_DIR, arguments);
    result = system(command);
    return result;
}

static void loads(const char *directory, const char *name)
{
    char ca[100], certificate[100], key[100];
    struct sealane_credentials_options options = {.ca_file = ca,
                                                  .certificate_file = certificate,
                                                  .key_file = key};
    struct sealane_credentials *credentials = NULL;
    struct stat about;

    (void)snprintf(ca, sizeof(ca), "%s/ca.pem", directory);
    (void)snprintf(certificate, sizeof(certificate), "%s/%s.pem", directory, name);
    (void)snprintf(key, sizeof(key), "%s/%s.key", directory, name);
    cr_assert_eq(sealane_credentials_new(&options, &credentials), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    sealane_credentials_free(credentials);
    cr_assert_eq(stat(key, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600, "%s", key);
}

Test(credentials, are_made_by_the_tool)
{
    char directory[60], text[300];

    (void)snprintf(directory, sizeof(directory), "/tmp/sealane-certs-%d", (int)getpid());
    cr_assert_eq(tool(directory), 0);
    loads(directory, "server");
    loads(directory, "client");
    (void)snprintf(text, sizeof(text),
                   "%s --add worker-0 both dns:worker-0.test,uri:spiffe://sealane.test/worker/0",
                   directory);
    cr_assert_eq(tool(text), 0);
    loads(directory, "worker-0"); /* under the same authority */
    cr_assert_neq(tool(text), 0, "a certificate is not overwritten");
    (void)snprintf(text, sizeof(text), "%s --add x server mail:a@b", directory);
    cr_assert_neq(tool(text), 0);
    (void)snprintf(text, sizeof(text), "%s --add ../x server dns:a", directory);
    cr_assert_neq(tool(text), 0);
    cr_assert_neq(tool("--help"), 0);
    cr_assert_eq(tool(directory), 0, "again: what is there is kept");
    loads(directory, "server");
    (void)snprintf(text, sizeof(text), "rm -r %s", directory);
    cr_assert_eq(system(text), 0);
}
