/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.c - one TLS 1.3 session of wolfSSL over two byte queues. Bytes pass the record filter on their way in; certificates are
 * judged inside the handshake, by our own reading, so that a refusal goes out as a TLS alert. */
#include "transport/alert.h"
#include "transport/bytes.h"
#include "transport/credentials.h"
#include "transport/log.h"
#include "transport/record_filter.h"

#include <wolfssl/options.h> /* before every other header of wolfSSL */

#include <wolfssl/error-ssl.h>
#include <wolfssl/ssl.h>
#include <wolfssl/wolfcrypt/ecc.h>
#include <wolfssl/wolfcrypt/error-crypt.h>
#include <wolfssl/wolfcrypt/sha256.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNREAD_MAX = 65536,
    SUITE_AES_256 = 0x1302, /* RFC 8446 B.4 */
    SUITE_CHACHA20 = 0x1303
};

/* X509_V_ERR_… of OpenSSL's x509_vfy.h, which wolfSSL's verify callback gets for some errors. */
enum {
    FAULT_SIGNATURE = 7,
    FAULT_NOT_BEFORE = 13,
    FAULT_NOT_AFTER = 14,
    FAULT_SELF_SIGNED = 18,
    FAULT_NO_ISSUER = 20,
    FAULT_PATH_LENGTH = 25
};

struct bytes {
    uint8_t *at;
    size_t begin, end, size;
};

struct sl_handshake {
    struct sealane_credentials *credentials;
    bool server;
    struct sl_name wanted; /* client */
    struct WOLFSSL_CTX *context;
    WOLFSSL *tls;
    bool leaf_accepted, exported;
    const char *suite;          /* set once secured */
    enum sealane_status failed; /* sticky, with `why` */
    char why[512];
    struct sl_record_filter filter;
    struct bytes in, out, text; /* from the link, to the link, out of TLS */
    uint8_t peer_fingerprint[SL_FINGERPRINT_BYTES];
    char peer[SL_NAME_TEXT + 8];
};

/* ---- queues ---- */

static SEALANE_RESULT bytes_push(struct bytes *bytes, const void *from, size_t count)
{
    if (bytes->begin == bytes->end)
        bytes->begin = bytes->end = 0;
    if (bytes->end + count > bytes->size) {
        size_t size = bytes->end + count + 4096;
        uint8_t *at = malloc(size);

        if (!at)
            return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu handshake bytes", size);
        if (bytes->at) {
            memcpy(at, bytes->at, bytes->end);
            sl_wipe(bytes->at, bytes->size);
            free(bytes->at);
        }
        bytes->at = at;
        bytes->size = size;
    }
    memcpy(bytes->at + bytes->end, from, count);
    bytes->end += count;
    return SEALANE_OK;
}

static void bytes_free(struct bytes *bytes)
{
    if (bytes->at)
        sl_wipe(bytes->at, bytes->size);
    free(bytes->at);
    *bytes = (struct bytes){.at = NULL};
}

/* ---- failing ---- */

static const char *peer_role(const struct sl_handshake *handshake)
{
    return handshake->server ? "client" : "server";
}

/* The first failure stays; it is told again on whatever thread asks. */
static enum sealane_status fail_keep(struct sl_handshake *handshake, enum sealane_status status)
{
    if (handshake->failed == SEALANE_OK) {
        handshake->failed = status;
        (void)snprintf(handshake->why, sizeof(handshake->why), "%s", sealane_last_error()->message);
        return status;
    }
    return SL_FAIL(handshake->failed, "%s", handshake->why);
}

#define SUITES_TEXT "TLS_CHACHA20_POLY1305_SHA256 and TLS_AES_256_GCM_SHA384"
#define PINNED_TEXT "; we speak TLS 1.3 with " SUITES_TEXT " only"

/* The peer judged: its alert, and which of our certificates it had been shown where it is about that. */
static enum sealane_status fail_alert(const struct sl_handshake *handshake, int code)
{
    const char *peer = peer_role(handshake);
    bool is_of_parameters = code == 40 || code == 70 || code == 71;

    if (sl_alert_is_about_certificate(code))
        return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, code,
                             "the %s refused our certificate %s: alert %s (%d)", peer,
                             sl_credentials_label(handshake->credentials), sl_alert_name(code),
                             code);
    return SL_FAIL_CAUSE(code == 0 ? SEALANE_UNAVAILABLE : SEALANE_UNAUTHENTICATED, code,
                         "the %s ended the handshake: alert %s (%d)%s", peer, sl_alert_name(code),
                         code, is_of_parameters ? PINNED_TEXT : "");
}

/* The codes of the library's reader of certificates, which comes before the verify callback. */
static bool is_of_certificate(int error)
{
    return error <= ASN_PARSE_E && error >= ASN_NO_PEM_HEADER;
}

/* We judged, and not about a certificate's content: that was said in the verify callback. */
static enum sealane_status fail_own(const struct sl_handshake *handshake, int error)
{
    const char *peer = peer_role(handshake);
    char text[WOLFSSL_MAX_ERROR_SZ];

    switch (error) {
    case NO_PEER_CERT:
        return SL_FAIL_CAUSE(
            SEALANE_UNAUTHENTICATED, error,
            "the %s sent no certificate, wanted one that an authority of \"%s\" issued", peer,
            sl_credentials_ca_file(handshake->credentials));
    case VERSION_ERROR:
        return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, error,
                             "the %s does not offer TLS 1.3, the only version accepted", peer);
    case MATCH_SUITE_ERROR:
    case UNSUPPORTED_SUITE:
        return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, error,
                             "the %s offers none of the accepted suites " SUITES_TEXT, peer);
    case UNKNOWN_ALPN_PROTOCOL_NAME_E:
        return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, error,
                             "the %s does not speak the protocol \"sealane/1\" (ALPN)", peer);
    default:
        return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, error, "%s%s: %s (%d)", peer,
                             is_of_certificate(error) ? " certificate" : ": TLS failed",
                             wolfSSL_ERR_error_string((unsigned long)error, text), error);
    }
}

static enum sealane_status fail_tls(struct sl_handshake *handshake, int error)
{
    WOLFSSL_ALERT_HISTORY history = {.last_rx = {-1, -1}, .last_tx = {-1, -1}};
    bool has_alert = wolfSSL_get_alert_history(handshake->tls, &history) == WOLFSSL_SUCCESS &&
                     history.last_rx.code >= 0;

    if (handshake->failed != SEALANE_OK) /* the verify callback has said it */
        return fail_keep(handshake, handshake->failed);
    if (has_alert && history.last_rx.code != 90)
        return fail_keep(handshake, fail_alert(handshake, history.last_rx.code));
    return fail_keep(handshake, fail_own(handshake, error));
}

/* ---- certificates ---- */

/* wolfSSL found fault with the chain, by OpenSSL's code where that has one: which field, what was seen, what was wanted. */
static enum sealane_status judge_chain(const struct sl_handshake *handshake,
                                       const struct sl_certificate *certificate,
                                       const WOLFSSL_X509_STORE_CTX *store)
{
    const char *who = peer_role(handshake), *what;
    char text[WOLFSSL_MAX_ERROR_SZ];

    switch (store->error) {
    case ASN_AFTER_DATE_E:
    case ASN_BEFORE_DATE_E:
    case FAULT_NOT_BEFORE:
    case FAULT_NOT_AFTER:
        SL_TRY(sl_certificate_check_dates(certificate, who));
        what = "its dates do not hold now";
        break;
    case ASN_NO_SIGNER_E:
    case ASN_SELF_SIGNED_E:
    case FAULT_SELF_SIGNED:
    case FAULT_NO_ISSUER:
        return SL_FAIL_CAUSE(
            SEALANE_UNAUTHENTICATED, store->error,
            "%s certificate \"%s\": issuer \"%s\" leads to none of the authorities in \"%s\"", who,
            certificate->subject, certificate->issuer,
            sl_credentials_ca_file(handshake->credentials));
    case EXTKEYUSE_AUTH_E:
    case FAULT_PATH_LENGTH:
        if (store->error_depth == 0)
            SL_TRY(sl_certificate_check_usage(certificate, !handshake->server));
        what = "its issuer allows no authority below itself, or not for this use";
        break;
    case ASN_SIG_CONFIRM_E:
    case FAULT_SIGNATURE:
        what = "its signature is not by the key of its issuer";
        break;
    default:
        what = wolfSSL_ERR_error_string((unsigned long)store->error, text);
    }
    return SL_FAIL_CAUSE(SEALANE_UNAUTHENTICATED, store->error, "%s certificate \"%s\": %s (%d)",
                         who, certificate->subject, what, store->error);
}

static SEALANE_RESULT judge_name(const struct sl_handshake *handshake,
                                 const struct sl_certificate *certificate)
{
    char names[180], wanted[SL_NAME_TEXT + 8];

    SL_TRY(sl_credentials_allow(handshake->credentials, certificate, peer_role(handshake)));
    if (handshake->server || sl_certificate_has(certificate, &handshake->wanted, false))
        return SEALANE_OK;
    sl_certificate_list(certificate, names, sizeof(names));
    sl_name_text(&handshake->wanted, wanted, sizeof(wanted));
    return SL_FAIL(SEALANE_UNAUTHENTICATED,
                   "server certificate \"%s\": subjectAltName has %s, wanted %s",
                   certificate->subject, names, wanted);
}

static SEALANE_RESULT judge(struct sl_handshake *handshake, const WOLFSSL_X509_STORE_CTX *store,
                            bool chain_is_good)
{
    const WOLFSSL_BUFFER_INFO *der;
    struct sl_certificate certificate;

    if (store->error_depth < 0 || store->error_depth >= store->totalCerts || !store->certs)
        return SL_FAIL(SEALANE_UNAUTHENTICATED, "TLS shows no certificate to judge");
    der = &store->certs[store->error_depth];
    if (!sl_certificate_parse(der->buffer, der->length, &certificate))
        return SL_FAIL(SEALANE_UNAUTHENTICATED, "%s certificate: %u bytes that are %s",
                       peer_role(handshake), der->length, SL_CERTIFICATE_UNREADABLE);
    if (!chain_is_good)
        return judge_chain(handshake, &certificate, store);
    SL_TRY(sl_certificate_check_signature(&certificate, peer_role(handshake)));
    if (store->error_depth > 0)
        return SEALANE_OK;
    SL_TRY(sl_certificate_check_usage(&certificate, !handshake->server));
    SL_TRY(judge_name(handshake, &certificate));
    if (wc_Sha256Hash(der->buffer, der->length, handshake->peer_fingerprint) != 0)
        return SL_FAIL(SEALANE_INTERNAL, "SHA-256 failed");
    sl_certificate_identity(&certificate, handshake->peer, sizeof(handshake->peer));
    handshake->leaf_accepted = true;
    return SEALANE_OK;
}

/* Called by wolfSSL for every certificate of the chain, good or bad. What is refused here goes out as an alert. */
static int verify(int chain_is_good, WOLFSSL_X509_STORE_CTX *store)
{
    struct sl_handshake *handshake = store->userCtx;
    enum sealane_status status = judge(handshake, store, chain_is_good != 0);

    if (status == SEALANE_OK)
        return 1;
    (void)fail_keep(handshake, status);
    return 0;
}

/* ---- wolfSSL's bytes ---- */

static int receive(WOLFSSL *tls, char *to, int most, void *argument)
{
    struct sl_handshake *handshake = argument;
    size_t left = handshake->in.end - handshake->in.begin;
    size_t count = left < (size_t)most ? left : (size_t)most;

    (void)tls;
    if (count == 0)
        return WOLFSSL_CBIO_ERR_WANT_READ;
    memcpy(to, handshake->in.at + handshake->in.begin, count);
    handshake->in.begin += count;
    return (int)count;
}

/* Never blocks and never asks to be called again: wolfSSL 5.5.4 loses its error when it is made to wait twice. */
static int transmit(WOLFSSL *tls, char *from, int count, void *argument)
{
    struct sl_handshake *handshake = argument;

    (void)tls;
    if (bytes_push(&handshake->out, from, (size_t)count) != SEALANE_OK)
        return WOLFSSL_CBIO_ERR_GENERAL;
    return count;
}

/* ---- making ---- */

static SEALANE_RESULT tls_pin(struct sl_handshake *handshake)
{
    static char alpn[] = "sealane/1";
    int groups[] = {WOLFSSL_ECC_X25519, WOLFSSL_ECC_SECP256R1};
    WOLFSSL *tls = handshake->tls;

    wolfSSL_SetCertCbCtx(tls, handshake);
    wolfSSL_set_verify(tls, WOLFSSL_VERIFY_PEER | WOLFSSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
    wolfSSL_KeepArrays(tls); /* the exporter needs them; freed after its one use */
    wolfSSL_SSLSetIORecv(tls, receive);
    wolfSSL_SSLSetIOSend(tls, transmit);
    wolfSSL_SetIOReadCtx(tls, handshake);
    wolfSSL_SetIOWriteCtx(tls, handshake);
    wolfSSL_set_using_nonblock(tls, 1);
    if (wolfSSL_set_groups(tls, groups, 2) != WOLFSSL_SUCCESS ||
        (!handshake->server && wolfSSL_UseKeyShare(tls, WOLFSSL_ECC_X25519) != WOLFSSL_SUCCESS) ||
        wolfSSL_UseALPN(tls, alpn, sizeof(alpn) - 1, WOLFSSL_ALPN_FAILED_ON_MISMATCH) !=
            WOLFSSL_SUCCESS)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                       "the TLS library refuses X25519, secp256r1 or ALPN");
    return SEALANE_OK;
}

/* On the helper's thread: reading certificates costs as much as the handshake's arithmetic. */
static SEALANE_RESULT tls_begin(struct sl_handshake *handshake)
{
    SL_TRY(sl_credentials_context(handshake->credentials, handshake->server, &handshake->context));
    handshake->tls = wolfSSL_new(handshake->context);
    if (!handshake->tls)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a TLS session");
    return tls_pin(handshake);
}

SEALANE_RESULT sl_handshake_new(const struct sl_handshake_options *options,
                                struct sl_handshake **handshake_p)
{
    struct sl_name wanted = {.type = SL_NAME_DNS};
    struct sl_handshake *handshake;

    if (!options->server) {
        if (!options->server_name)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a client needs the server's name");
        SL_TRY(sl_name_parse(options->server_name, &wanted));
    }
    handshake = calloc(1, sizeof(*handshake));
    if (!handshake)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a handshake");
    handshake->credentials = options->credentials;
    handshake->server = options->server;
    handshake->wanted = wanted;
    handshake->filter.server = options->server;
    *handshake_p = handshake;
    return SEALANE_OK;
}

static void session_end(struct sl_handshake *handshake)
{
    if (handshake->tls) {
        wolfSSL_FreeArrays(handshake->tls);
        wolfSSL_free(handshake->tls);
    }
    if (handshake->context)
        wolfSSL_CTX_free(handshake->context);
    handshake->tls = NULL;
    handshake->context = NULL;
}

void sl_handshake_free(struct sl_handshake *handshake)
{
    if (!handshake)
        return;
    session_end(handshake);
    bytes_free(&handshake->in);
    bytes_free(&handshake->out);
    bytes_free(&handshake->text);
    sl_wipe(handshake, sizeof(*handshake));
    free(handshake);
}

/* ---- moving ---- */

/* wolfSSL never sees what was refused here, so it cannot say so. Once keys are in use only it could. */
static void feed_refused(struct sl_handshake *handshake, enum sealane_status status)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 10}; /* fatal, unexpected_message */

    (void)fail_keep(handshake, status);
    if (!handshake->filter.protected &&
        bytes_push(&handshake->out, alert, sizeof(alert)) != SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "no memory for the alert: the peer learns nothing of \"%s\"",
               handshake->why);
}

void sl_handshake_feed(struct sl_handshake *handshake, const uint8_t *bytes, size_t count)
{
    enum sealane_status status = SEALANE_OK;

    if (handshake->failed != SEALANE_OK)
        return;
    if (handshake->in.end - handshake->in.begin + count > UNREAD_MAX)
        status = SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "more than %d handshake bytes wait unread",
                         UNREAD_MAX);
    if (status == SEALANE_OK)
        status = sl_record_filter_look(&handshake->filter, bytes, count);
    if (status == SEALANE_OK)
        status = bytes_push(&handshake->in, bytes, count);
    if (status != SEALANE_OK)
        feed_refused(handshake, status);
}

/* What both sides must have agreed on, whatever the library did. */
static SEALANE_RESULT check_agreed(struct sl_handshake *handshake)
{
    int suite = wolfSSL_get_current_cipher_suite(handshake->tls);
    const char *group = wolfSSL_get_curve_name(handshake->tls);
    char *alpn = NULL;
    word16 alpn_bytes = 0;

    if (wolfSSL_version(handshake->tls) != TLS1_3_VERSION)
        return SL_FAIL(SEALANE_UNAUTHENTICATED, "TLS agreed on version 0x%04x, wanted 1.3 (0x0304)",
                       (unsigned)wolfSSL_version(handshake->tls));
    if (suite != SUITE_AES_256 && suite != SUITE_CHACHA20)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "TLS agreed on suite 0x%04x, wanted 0x1302 or 0x1303", (unsigned)suite);
    if (!group || (strcmp(group, "X25519") != 0 && strcmp(group, "SECP256R1") != 0))
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "TLS agreed on group %s, wanted X25519 or SECP256R1",
                       group ? group : "(none)");
    if (wolfSSL_ALPN_GetProtocol(handshake->tls, &alpn, &alpn_bytes) != WOLFSSL_SUCCESS ||
        alpn_bytes != 9 || memcmp(alpn, "sealane/1", 9) != 0)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "the peer did not agree to the protocol \"sealane/1\" (ALPN)");
    if (!handshake->leaf_accepted)
        return SL_FAIL(SEALANE_UNAUTHENTICATED,
                       "TLS finished without a certificate of the peer that was judged");
    return SEALANE_OK;
}

static SEALANE_RESULT shake(struct sl_handshake *handshake)
{
    int result =
        handshake->server ? wolfSSL_accept(handshake->tls) : wolfSSL_connect(handshake->tls);
    int error = wolfSSL_get_error(handshake->tls, result);
    enum sealane_status status;

    if (handshake->failed == SEALANE_OK && error == WOLFSSL_ERROR_WANT_READ)
        return SL_AGAIN;
    if (handshake->failed != SEALANE_OK || result != WOLFSSL_SUCCESS)
        return fail_tls(handshake, error);
    status = check_agreed(handshake);
    if (status != SEALANE_OK) {
        (void)wolfSSL_shutdown(
            handshake->tls); /* no alert of its own: close_notify tells the peer */
        return fail_keep(handshake, status);
    }
    handshake->suite = wolfSSL_get_current_cipher_suite(handshake->tls) == SUITE_AES_256
                           ? "TLS_AES_256_GCM_SHA384"
                           : "TLS_CHACHA20_POLY1305_SHA256";
    return SEALANE_OK;
}

/* Decrypts what came. */
static SEALANE_RESULT decrypt(struct sl_handshake *handshake)
{
    uint8_t text[2048];

    for (;;) {
        int count = wolfSSL_read(handshake->tls, text, sizeof(text));
        int error;

        if (count > 0) {
            enum sealane_status status = bytes_push(&handshake->text, text, (size_t)count);

            sl_wipe(text, sizeof(text));
            if (status != SEALANE_OK)
                return fail_keep(handshake, status);
            continue;
        }
        error = wolfSSL_get_error(handshake->tls, count);
        if (error == WOLFSSL_ERROR_WANT_READ)
            return SEALANE_OK;
        return fail_tls(handshake, error);
    }
}

SEALANE_RESULT sl_handshake_advance(struct sl_handshake *handshake)
{
    enum sealane_status status = SEALANE_OK;

    if (handshake->failed != SEALANE_OK)
        return fail_keep(handshake, handshake->failed);
    if (handshake->exported)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                       "the session ended when its keys were exported");
    if (!handshake->tls)
        status = tls_begin(handshake);
    if (status != SEALANE_OK)
        return fail_keep(handshake, status);
    if (!handshake->suite)
        SL_TRY(shake(handshake));
    return decrypt(handshake);
}

size_t sl_handshake_pending(const struct sl_handshake *handshake, const uint8_t **bytes_p)
{
    *bytes_p = handshake->out.at + handshake->out.begin;
    return handshake->out.end - handshake->out.begin;
}

void sl_handshake_sent(struct sl_handshake *handshake, size_t count)
{
    handshake->out.begin += count;
}

/* ---- messages ---- */

static SEALANE_RESULT check_usable(struct sl_handshake *handshake)
{
    if (handshake->failed != SEALANE_OK)
        return fail_keep(handshake, handshake->failed);
    if (!handshake->suite || handshake->exported)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the TLS session is %s",
                       handshake->suite ? "over: its keys were exported" : "not secured yet");
    return SEALANE_OK;
}

SEALANE_RESULT sl_handshake_write(struct sl_handshake *handshake, const uint8_t *message,
                                  size_t bytes)
{
    uint8_t framed[2 + SL_TLS_MESSAGE_MAX];
    int total = (int)bytes + 2, wrote;

    SL_TRY(check_usable(handshake));
    if (bytes > SL_TLS_MESSAGE_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a message of %zu bytes, expected at most %d",
                       bytes, SL_TLS_MESSAGE_MAX);
    sl_put16(framed, (uint16_t)bytes);
    memcpy(framed + 2, message, bytes);
    wrote = wolfSSL_write(handshake->tls, framed, total);
    sl_wipe(framed, sizeof(framed));
    if (wrote != total)
        return fail_tls(handshake, wolfSSL_get_error(handshake->tls, wrote));
    return SEALANE_OK;
}

SEALANE_RESULT sl_handshake_read(struct sl_handshake *handshake, uint8_t *message, size_t *bytes_p)
{
    struct bytes *text = &handshake->text;
    size_t have = text->end - text->begin, bytes;

    if (have < 2)
        return SL_AGAIN;
    bytes = sl_get16(text->at + text->begin);
    if (bytes > SL_TLS_MESSAGE_MAX)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a message inside TLS says it has %zu bytes, expected at most %d", bytes,
                       SL_TLS_MESSAGE_MAX);
    if (have < 2 + bytes)
        return SL_AGAIN;
    memcpy(message, text->at + text->begin + 2, bytes);
    text->begin += 2 + bytes;
    *bytes_p = bytes;
    return SEALANE_OK;
}

SEALANE_RESULT sl_handshake_export(struct sl_handshake *handshake,
                                   const uint8_t context[SL_HASH_BYTES],
                                   uint8_t secret[SL_SECRET_BYTES])
{
    static const char label[] = "EXPORTER-sealane-lane-v1";

    SL_TRY(check_usable(handshake));
    if (wolfSSL_export_keying_material(handshake->tls, secret, SL_SECRET_BYTES, label,
                                       sizeof(label) - 1, context, SL_HASH_BYTES,
                                       1) != WOLFSSL_SUCCESS)
        return SL_FAIL(SEALANE_INTERNAL, "the TLS exporter failed");
    session_end(handshake);
    handshake->exported = true;
    return SEALANE_OK;
}

void sl_handshake_fingerprints(const struct sl_handshake *handshake,
                               uint8_t client[SL_FINGERPRINT_BYTES],
                               uint8_t server[SL_FINGERPRINT_BYTES])
{
    const uint8_t *own = sl_credentials_fingerprint(handshake->credentials);

    memcpy(client, handshake->server ? handshake->peer_fingerprint : own, SL_FINGERPRINT_BYTES);
    memcpy(server, handshake->server ? own : handshake->peer_fingerprint, SL_FINGERPRINT_BYTES);
}

const char *sl_handshake_peer(const struct sl_handshake *handshake)
{
    return handshake->peer;
}

const char *sl_handshake_suite(const struct sl_handshake *handshake)
{
    return handshake->suite ? handshake->suite : "none";
}

void sl_handshake_thread_end(void)
{
    wc_ecc_fp_free(); /* tables of points, one set per thread: megabytes */
}
