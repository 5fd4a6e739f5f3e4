/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c - files become checked bytes once; bytes become a pinned wolfSSL context for each handshake. */
#include "transport/credentials.h"

#include <wolfssl/options.h> /* before every other header of wolfSSL */

#include <wolfssl/ssl.h>
#include <wolfssl/wolfcrypt/asn_public.h>
#include <wolfssl/wolfcrypt/ecc.h>
#include <wolfssl/wolfcrypt/error-crypt.h>
#include <wolfssl/wolfcrypt/sha256.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_BYTES_MAX = 256 * 1024,
    AEADS_MAX = 8,
    CHAIN_DEPTH = 3,
    RSA_BITS_MIN = 2048,
    ECC_BITS_MIN = 256,
    UNCOMPRESSED = 4 /* a point's first byte, SEC 1 2.3.3 */
};

#define KEY_IS_ANOTHERS "the key of \"%s\" is not that of the certificate in \"%s\""

struct pem {
    char *path;
    uint8_t *at;
    size_t bytes;
};

struct sealane_credentials {
    struct pem ca, certificate, key;
    char label[SL_NAME_TEXT + 300];
    uint8_t fingerprint[SL_FINGERPRINT_BYTES];
    struct sl_name *allowed;
    size_t allowed_count;
    enum sl_aead aeads[AEADS_MAX];
    size_t aead_count;
};

static pthread_once_t library_started = PTHREAD_ONCE_INIT;
static int library_result;

static void library_start(void)
{
    library_result = wolfSSL_Init();
}

/* ---- files ---- */

/* By read(2) and not by stdio, whose buffer would keep a copy of the key. */
static SEALANE_RESULT pem_fill(int file, struct pem *pem)
{
    pem->at = malloc(FILE_BYTES_MAX);
    if (!pem->at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for \"%s\"", pem->path);
    while (pem->bytes < FILE_BYTES_MAX) {
        ssize_t count = read(file, pem->at + pem->bytes, FILE_BYTES_MAX - pem->bytes);

        if (count < 0 && errno != EINTR)
            return SL_FAIL_CAUSE(SEALANE_NOT_FOUND, errno, "cannot read \"%s\": %s", pem->path,
                                 strerror(errno));
        if (count == 0)
            break;
        pem->bytes += count > 0 ? (size_t)count : 0;
    }
    if (pem->bytes == 0 || pem->bytes == FILE_BYTES_MAX)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "\"%s\" has %zu bytes, expected 1 to %d",
                       pem->path, pem->bytes, FILE_BYTES_MAX - 1);
    return SEALANE_OK;
}

static SEALANE_RESULT pem_read(const char *path, struct pem *pem)
{
    enum sealane_status status;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return SL_FAIL_CAUSE(SEALANE_NOT_FOUND, errno, "cannot read \"%s\": %s", path,
                             strerror(errno));
    pem->path = strdup(path);
    status = pem->path ? pem_fill(file, pem)
                       : SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for \"%s\"", path);
    (void)close(file);
    return status;
}

static void pem_free(struct pem *pem)
{
    if (pem->at)
        sl_wipe(pem->at, pem->bytes);
    free(pem->at);
    free(pem->path);
}

/* ---- the context ---- */

static SEALANE_RESULT refused(const struct pem *pem, const char *what, int result)
{
    char text[WOLFSSL_MAX_ERROR_SZ];

    return SL_FAIL_CAUSE(SEALANE_FAILED_PRECONDITION, result, "%s \"%s\" does not load: %s", what,
                         pem->path, wolfSSL_ERR_error_string((unsigned long)result, text));
}

/* One by one: given a list, the library skips those after the first that do not load, expired ones for instance. */
static SEALANE_RESULT load_authorities(WOLFSSL_CTX *context, const struct pem *ca)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    const uint8_t *end = ca->at + ca->bytes;
    const uint8_t *at = memmem(ca->at, ca->bytes, begin, strlen(begin)), *next;

    if (!at)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                       "the authority file \"%s\" holds no certificate in PEM", ca->path);
    for (; at < end; at = next) {
        size_t left = (size_t)(end - at) - strlen(begin);
        int result;

        next = memmem(at + strlen(begin), left, begin, strlen(begin));
        next = next ? next : end;
        result =
            wolfSSL_CTX_load_verify_buffer(context, at, (long)(next - at), WOLFSSL_FILETYPE_PEM);
        if (result != WOLFSSL_SUCCESS)
            return refused(ca, "the authority file", result);
    }
    return SEALANE_OK;
}

static SEALANE_RESULT load(WOLFSSL_CTX *context, const struct sealane_credentials *credentials)
{
    const struct pem *certificate = &credentials->certificate, *key = &credentials->key;
    int result;

    SL_TRY(load_authorities(context, &credentials->ca));
    result = wolfSSL_CTX_use_certificate_chain_buffer(context, certificate->at,
                                                      (long)certificate->bytes);
    if (result != WOLFSSL_SUCCESS)
        return refused(certificate, "the certificate file", result);
    result =
        wolfSSL_CTX_use_PrivateKey_buffer(context, key->at, (long)key->bytes, WOLFSSL_FILETYPE_PEM);
    if (result != WOLFSSL_SUCCESS)
        return refused(key, "the key file", result);
    if (wolfSSL_CTX_check_private_key(context) != WOLFSSL_SUCCESS)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, KEY_IS_ANOTHERS, key->path, certificate->path);
    return SEALANE_OK;
}

/* Debian's build verifies nobody and offers a suite without encryption: nothing is left to its defaults. Verify mode comes before the
 * authorities, or an expired one would be taken. */
static SEALANE_RESULT pin(WOLFSSL_CTX *context)
{
    static const char suites[] = "TLS13-CHACHA20-POLY1305-SHA256:TLS13-AES256-GCM-SHA384";

    wolfSSL_CTX_set_verify(context, WOLFSSL_VERIFY_PEER | WOLFSSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           NULL);
    wolfSSL_CTX_set_verify_depth(context, CHAIN_DEPTH);
    (void)wolfSSL_CTX_set_session_cache_mode(context, WOLFSSL_SESS_CACHE_OFF);
    if (wolfSSL_CTX_set_cipher_list(context, suites) != WOLFSSL_SUCCESS)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the TLS library lacks the suites %s", suites);
    if (wolfSSL_CTX_SetMinRsaKey_Sz(context, RSA_BITS_MIN) != WOLFSSL_SUCCESS ||
        wolfSSL_CTX_SetMinEccKey_Sz(context, ECC_BITS_MIN) != WOLFSSL_SUCCESS)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the TLS library takes no least key sizes");
    return SEALANE_OK;
}

SEALANE_RESULT sl_credentials_context(const struct sealane_credentials *credentials, bool server,
                                      struct WOLFSSL_CTX **context_p)
{
    WOLFSSL_CTX *context =
        wolfSSL_CTX_new(server ? wolfTLSv1_3_server_method() : wolfTLSv1_3_client_method());
    enum sealane_status status;

    if (!context)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a TLS context");
    status = pin(context);
    if (status == SEALANE_OK && server && wolfSSL_CTX_no_ticket_TLSv13(context) != 0)
        status = SL_FAIL(SEALANE_FAILED_PRECONDITION, "the TLS library cannot turn tickets off");
    if (status == SEALANE_OK)
        status = load(context, credentials);
    if (status != SEALANE_OK) {
        wolfSSL_CTX_free(context);
        return status;
    }
    *context_p = context;
    return SEALANE_OK;
}

/* ---- making ---- */

static SEALANE_RESULT point_of_key(const struct pem *pem, uint8_t *point, size_t *bytes_p)
{
    uint8_t *der = malloc(pem->bytes);
    int bytes =
        der ? wc_KeyPemToDer(pem->at, (int)pem->bytes, der, (int)pem->bytes, NULL) : MEMORY_E;
    word32 index = 0, count = (word32)*bytes_p;
    ecc_key key;
    int result = wc_ecc_init(&key);

    if (result == 0) {
        result = bytes < 0 ? bytes : wc_EccPrivateKeyDecode(der, &index, &key, (word32)bytes);
        if (result == 0)
            result = wc_ecc_make_pub(&key, NULL);
        if (result == 0)
            result = wc_ecc_export_x963(&key, point, &count);
        (void)wc_ecc_free(&key);
    }
    if (der)
        sl_wipe(der, pem->bytes);
    free(der);
    if (result != 0)
        return SL_FAIL_CAUSE(
            SEALANE_FAILED_PRECONDITION, result,
            "the key file \"%s\" holds no elliptic curve key, as its certificate has", pem->path);
    *bytes_p = count;
    return SEALANE_OK;
}

/* wolfSSL 5.5.4's own check takes any key of the certificate's curve. */
static SEALANE_RESULT check_point(const struct sealane_credentials *credentials,
                                  const struct sl_certificate *leaf)
{
    uint8_t point[1 + 2 * MAX_ECC_BYTES];
    size_t bytes = sizeof(point);

    if (leaf->public_key[0] != UNCOMPRESSED)
        return SEALANE_OK;
    SL_TRY(point_of_key(&credentials->key, point, &bytes));
    if (bytes != leaf->public_key_bytes || memcmp(point, leaf->public_key, bytes) != 0)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, KEY_IS_ANOTHERS, credentials->key.path,
                       credentials->certificate.path);
    return SEALANE_OK;
}

/* What peers will judge is judged here first: they could only say "certificate_expired". */
static SEALANE_RESULT own_judge(struct sealane_credentials *credentials, const uint8_t *der,
                                size_t bytes)
{
    const char *path = credentials->certificate.path;
    struct sl_certificate leaf;
    char name[SL_NAME_TEXT + 8], why[512];

    if (!sl_certificate_parse(der, bytes, &leaf))
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the certificate of \"%s\" is %s", path,
                       SL_CERTIFICATE_UNREADABLE);
    if (sl_certificate_check_dates(&leaf, "our own") != SEALANE_OK) {
        (void)snprintf(why, sizeof(why), "%s", sealane_last_error()->message);
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "\"%s\": %s", path, why);
    }
    SL_TRY(check_point(credentials, &leaf));
    sl_certificate_identity(&leaf, name, sizeof(name));
    (void)snprintf(credentials->label, sizeof(credentials->label), "\"%s\" of %.280s", name, path);
    return SEALANE_OK;
}

static SEALANE_RESULT own_leaf(struct sealane_credentials *credentials)
{
    const struct pem *pem = &credentials->certificate;
    uint8_t *der = malloc(pem->bytes);
    int bytes =
        der ? wc_CertPemToDer(pem->at, (int)pem->bytes, der, (int)pem->bytes, CERT_TYPE) : 0;
    enum sealane_status status;

    if (bytes <= 0 || wc_Sha256Hash(der, (word32)bytes, credentials->fingerprint) != 0)
        status = SL_FAIL_CAUSE(SEALANE_FAILED_PRECONDITION, bytes,
                               "\"%s\" holds no certificate in PEM", pem->path);
    else
        status = own_judge(credentials, der, (size_t)bytes);
    free(der);
    return status;
}

static SEALANE_RESULT take_allowed(struct sealane_credentials *credentials,
                                   const struct sealane_credentials_options *options)
{
    if (options->allowed_peer_count == 0)
        return SEALANE_OK;
    credentials->allowed = calloc(options->allowed_peer_count, sizeof(*credentials->allowed));
    if (!credentials->allowed)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu allowed peers",
                       options->allowed_peer_count);
    for (size_t i = 0; i < options->allowed_peer_count; i++) {
        if (!strchr(options->allowed_peers[i], ':'))
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "allowed_peers has \"%s\", expected dns:, ip: or uri: and a name",
                           options->allowed_peers[i]);
        SL_TRY(sl_name_parse(options->allowed_peers[i], &credentials->allowed[i]));
        credentials->allowed_count++;
    }
    return SEALANE_OK;
}

static bool has_aead(const enum sl_aead *list, size_t count, enum sl_aead aead)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == aead)
            return true;
    }
    return false;
}

static SEALANE_RESULT take_aead(struct sealane_credentials *credentials, enum sealane_aead wanted)
{
    enum sl_aead aead = (enum sl_aead)wanted;

    if (wanted != SEALANE_AES_256_GCM && wanted != SEALANE_AES_128_GCM &&
        wanted != SEALANE_CHACHA20_POLY1305)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%d is not the number of an AEAD", (int)wanted);
    if (has_aead(credentials->aeads, credentials->aead_count, aead))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%s stands twice in the list of AEADs",
                       sl_aead_name(aead));
    if (has_aead(sl_aead_supported, sl_aead_supported_count, aead))
        credentials->aeads[credentials->aead_count++] = aead;
    return SEALANE_OK;
}

static SEALANE_RESULT take_aeads(struct sealane_credentials *credentials,
                                 const struct sealane_credentials_options *options)
{
    for (size_t i = 0; i < options->aead_count; i++)
        SL_TRY(take_aead(credentials, options->aeads[i]));
    if (options->aead_count > 0 && credentials->aead_count == 0)
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "this build has none of the %zu AEADs asked for",
                       options->aead_count);
    for (size_t i = 0; options->aead_count == 0 && i < sl_aead_supported_count && i < AEADS_MAX;
         i++)
        credentials->aeads[credentials->aead_count++] = sl_aead_supported[i];
    return SEALANE_OK;
}

/* Both roles' contexts are tried once, so that what is wrong with the files is said now. */
static SEALANE_RESULT credentials_fill(struct sealane_credentials *credentials,
                                       const struct sealane_credentials_options *options)
{
    SL_TRY(take_allowed(credentials, options));
    SL_TRY(take_aeads(credentials, options));
    SL_TRY(pem_read(options->ca_file, &credentials->ca));
    SL_TRY(pem_read(options->certificate_file, &credentials->certificate));
    SL_TRY(pem_read(options->key_file, &credentials->key));
    for (int server = 0; server <= 1; server++) {
        struct WOLFSSL_CTX *context;

        SL_TRY(sl_credentials_context(credentials, server != 0, &context));
        wolfSSL_CTX_free(context);
    }
    return own_leaf(credentials);
}

SEALANE_RESULT sealane_credentials_new(const struct sealane_credentials_options *options,
                                       struct sealane_credentials **credentials_p)
{
    struct sealane_credentials *credentials;
    enum sealane_status status;

    if (!options || !options->ca_file || !options->certificate_file || !options->key_file)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "credentials need ca_file, certificate_file and key_file");
    (void)pthread_once(&library_started, library_start);
    if (library_result != WOLFSSL_SUCCESS)
        return SL_FAIL_CAUSE(SEALANE_INTERNAL, library_result, "wolfSSL does not start: %d",
                             library_result);
    credentials = calloc(1, sizeof(*credentials));
    if (!credentials)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for credentials");
    status = credentials_fill(credentials, options);
    if (status != SEALANE_OK) {
        sealane_credentials_free(credentials);
        return status;
    }
    *credentials_p = credentials;
    return SEALANE_OK;
}

void sealane_credentials_free(struct sealane_credentials *credentials)
{
    if (!credentials)
        return;
    pem_free(&credentials->ca);
    pem_free(&credentials->certificate);
    pem_free(&credentials->key);
    free(credentials->allowed);
    free(credentials);
}

/* ---- reading ---- */

const enum sl_aead *sl_credentials_aeads(const struct sealane_credentials *credentials,
                                         size_t *count_p)
{
    *count_p = credentials->aead_count;
    return credentials->aeads;
}

const uint8_t *sl_credentials_fingerprint(const struct sealane_credentials *credentials)
{
    return credentials->fingerprint;
}

const char *sl_credentials_label(const struct sealane_credentials *credentials)
{
    return credentials->label;
}

const char *sl_credentials_ca_file(const struct sealane_credentials *credentials)
{
    return credentials->ca.path;
}

SEALANE_RESULT sl_credentials_allow(const struct sealane_credentials *credentials,
                                    const struct sl_certificate *certificate, const char *who)
{
    char names[180], first[SL_NAME_TEXT + 8];

    for (size_t i = 0; i < credentials->allowed_count; i++) {
        if (sl_certificate_has(certificate, &credentials->allowed[i], true))
            return SEALANE_OK;
    }
    if (credentials->allowed_count == 0)
        return SEALANE_OK;
    sl_certificate_list(certificate, names, sizeof(names));
    sl_name_text(&credentials->allowed[0], first, sizeof(first));
    return SL_FAIL(SEALANE_UNAUTHENTICATED,
                   "%s certificate \"%s\": subjectAltName has %s, wanted %s%s of allowed_peers",
                   who, certificate->subject, names, first,
                   credentials->allowed_count > 1 ? " or another" : "");
}
