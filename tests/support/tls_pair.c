/* SPDX-License-Identifier: Apache-2.0 */
/* tls_pair.c - shuttles bytes between two ends. */
#include "tests/support/tls_pair.h"

#include "tests/support/certs.h"

#include <wolfssl/options.h>
#include <wolfssl/ssl.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUEUE_BYTES = 256 * 1024,
    ROUNDS_MAX = 100
};

struct queue {
    uint8_t at[QUEUE_BYTES];
    size_t begin, end;
};

struct tls_peer {
    WOLFSSL_CTX *context;
    WOLFSSL *tls;
    struct queue in, out;
    bool server;
    int error;
};

/* ---- the peer without rules ---- */

static int peer_receive(WOLFSSL *tls, char *to, int most, void *argument)
{
    struct queue *in = &((struct tls_peer *)argument)->in;
    size_t count = in->end - in->begin;

    (void)tls;
    count = count < (size_t)most ? count : (size_t)most;
    if (count == 0)
        return WOLFSSL_CBIO_ERR_WANT_READ;
    memcpy(to, in->at + in->begin, count);
    in->begin += count;
    return (int)count;
}

static int peer_send(WOLFSSL *tls, char *from, int count, void *argument)
{
    struct queue *out = &((struct tls_peer *)argument)->out;

    (void)tls;
    cr_assert(out->end + (size_t)count <= QUEUE_BYTES);
    memcpy(out->at + out->end, from, (size_t)count);
    out->end += (size_t)count;
    return count;
}

static WOLFSSL_METHOD *peer_method(const struct tls_peer_options *options)
{
    if (options->tls_1_2)
        return options->server ? wolfTLSv1_2_server_method() : wolfTLSv1_2_client_method();
    return options->server ? wolfTLSv1_3_server_method() : wolfTLSv1_3_client_method();
}

static void peer_identity(struct tls_peer *peer, const char *name)
{
    char relative[100], path[CERTS_PATH];

    (void)snprintf(relative, sizeof(relative), "%s.pem", name);
    cr_assert_eq(wolfSSL_CTX_use_certificate_chain_file(peer->context, certs_path(relative, path)),
                 WOLFSSL_SUCCESS, "%s", path);
    (void)snprintf(relative, sizeof(relative), "%s.key", name);
    cr_assert_eq(wolfSSL_CTX_use_PrivateKey_file(peer->context, certs_path(relative, path),
                                                 WOLFSSL_FILETYPE_PEM),
                 WOLFSSL_SUCCESS, "%s", path);
}

struct tls_peer *tls_peer_new(const struct tls_peer_options *options)
{
    struct tls_peer *peer = calloc(1, sizeof(*peer));

    cr_assert(peer);
    cr_assert_eq(wolfSSL_Init(), WOLFSSL_SUCCESS);
    peer->server = options->server;
    peer->error = WOLFSSL_ERROR_WANT_READ;
    peer->context = wolfSSL_CTX_new(peer_method(options));
    cr_assert(peer->context);
    wolfSSL_CTX_set_verify(peer->context, WOLFSSL_VERIFY_NONE, NULL);
    if (options->certificate)
        peer_identity(peer, options->certificate);
    if (options->suites)
        cr_assert_eq(wolfSSL_CTX_set_cipher_list(peer->context, options->suites), WOLFSSL_SUCCESS);
    peer->tls = wolfSSL_new(peer->context);
    cr_assert(peer->tls);
    wolfSSL_SSLSetIORecv(peer->tls, peer_receive);
    wolfSSL_SSLSetIOSend(peer->tls, peer_send);
    wolfSSL_SetIOReadCtx(peer->tls, peer);
    wolfSSL_SetIOWriteCtx(peer->tls, peer);
    if (options->alpn) {
        char alpn[40];

        (void)snprintf(alpn, sizeof(alpn), "%s", options->alpn);
        cr_assert_eq(wolfSSL_UseALPN(peer->tls, alpn, (unsigned)strlen(alpn),
                                     WOLFSSL_ALPN_CONTINUE_ON_MISMATCH),
                     WOLFSSL_SUCCESS);
    }
    return peer;
}

static void peer_advance(struct tls_peer *peer)
{
    char byte;
    int result;

    if (peer->error == WOLFSSL_ERROR_WANT_READ) {
        result = peer->server ? wolfSSL_accept(peer->tls) : wolfSSL_connect(peer->tls);
        peer->error = result == WOLFSSL_SUCCESS ? 0 : wolfSSL_get_error(peer->tls, result);
    }
    if (peer->error == 0) { /* an alert may come yet */
        result = wolfSSL_read(peer->tls, &byte, 1);
        if (result <= 0 && wolfSSL_get_error(peer->tls, result) != WOLFSSL_ERROR_WANT_READ)
            peer->error = wolfSSL_get_error(peer->tls, result);
    }
}

int tls_peer_error(const struct tls_peer *peer)
{
    return peer->error;
}

void tls_peer_free(struct tls_peer *peer)
{
    if (!peer)
        return;
    wolfSSL_free(peer->tls);
    wolfSSL_CTX_free(peer->context);
    free(peer);
}

/* ---- ends ---- */

struct sl_handshake *tls_ours(struct sealane_credentials *credentials, const char *server_name)
{
    struct sl_handshake_options options = {.credentials = credentials,
                                           .server = !server_name,
                                           .server_name = server_name};
    struct sl_handshake *handshake = NULL;

    cr_assert_eq(sl_handshake_new(&options, &handshake), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return handshake;
}

static void end_advance(struct tls_end *end)
{
    if (end->peer) {
        peer_advance(end->peer);
        return;
    }
    end->status = sl_handshake_advance(end->ours);
    if (end->status != SEALANE_OK && end->status != SL_AGAIN)
        (void)snprintf(end->why, sizeof(end->why), "%s", sealane_last_error()->message);
}

static void end_feed(struct tls_end *end, const uint8_t *bytes, size_t count)
{
    if (end->ours) {
        sl_handshake_feed(end->ours, bytes, count);
        return;
    }
    cr_assert(end->peer->in.end + count <= QUEUE_BYTES);
    memcpy(end->peer->in.at + end->peer->in.end, bytes, count);
    end->peer->in.end += count;
}

/* Takes what the end has to send; the caller frees it. */
static uint8_t *end_take(struct tls_end *end, size_t *count_p)
{
    const uint8_t *bytes;
    uint8_t *copy;

    if (end->ours) {
        *count_p = sl_handshake_pending(end->ours, &bytes);
    } else {
        bytes = end->peer->out.at + end->peer->out.begin;
        *count_p = end->peer->out.end - end->peer->out.begin;
        end->peer->out.begin = end->peer->out.end;
    }
    copy = malloc(*count_p + 1);
    cr_assert(copy);
    memcpy(copy, bytes, *count_p);
    if (end->ours)
        sl_handshake_sent(end->ours, *count_p);
    return copy;
}

static bool move(struct tls_pair *pair, bool from_client)
{
    struct tls_end *from = from_client ? &pair->client : &pair->server;
    struct tls_end *to = from_client ? &pair->server : &pair->client;
    size_t count, step;
    uint8_t *bytes = end_take(from, &count);

    if (pair->damage && count > 0)
        pair->damage(pair, from_client, bytes, count);
    for (size_t at = 0; at < count; at += step) {
        step = pair->piece > 0 && pair->piece < count - at ? pair->piece : count - at;
        end_feed(to, bytes + at, step);
        end_advance(to);
    }
    free(bytes);
    return count > 0;
}

void tls_pair_run(struct tls_pair *pair)
{
    end_advance(&pair->client);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool moved = move(pair, true);

        moved |= move(pair, false);
        if (!moved)
            return;
    }
    cr_assert_fail("the ends talk for ever");
}

void tls_pair_free(struct tls_pair *pair)
{
    sl_handshake_free(pair->client.ours);
    sl_handshake_free(pair->server.ours);
    tls_peer_free(pair->client.peer);
    tls_peer_free(pair->server.peer);
}
