/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - certificates by folder or by name. */
#include "identity.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct files {
    char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
};

static void in_folder(const struct options *options, const char *name, const char *suffix,
                      char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/%s%s", options->certs ? options->certs : ".", name, suffix);
}

static void choose(const struct options *options, struct files *files)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "worker-%llu", (unsigned long long)options->rank);
    in_folder(options, "ca", ".pem", files->ca);
    in_folder(options, name, ".pem", files->cert);
    if (options->program == PROGRAM_SERVER)
        (void)snprintf(name, sizeof(name), "server");
    else if (access(files->cert, F_OK) != 0)
        (void)snprintf(name, sizeof(name), "client");
    in_folder(options, name, ".pem", files->cert);
    in_folder(options, name, ".key", files->key);
}

struct sealane_credentials *identity_load(const struct options *options)
{
    struct files files;
    struct sealane_credentials_options wanted = {.allowed_peers = options->allow.texts,
                                                 .allowed_peer_count = options->allow.count};
    struct sealane_credentials *credentials;

    choose(options, &files);
    wanted.ca_file = options->ca ? options->ca : files.ca;
    wanted.certificate_file = options->cert ? options->cert : files.cert;
    wanted.key_file = options->key ? options->key : files.key;
    if (sealane_credentials_new(&wanted, &credentials) == SEALANE_OK)
        return credentials;
    identity_complain("credentials", wanted.certificate_file);
    return NULL;
}

void identity_print(const char *who, const struct sealane_security *security)
{
    (void)printf("%s: peer %s, handshake %s; ", who, security->peer, security->tls_suite);
    if (strcmp(security->message_aead, security->bulk_aead) == 0)
        (void)printf("data sealed with %s", security->bulk_aead);
    else
        (void)printf("messages sealed with %s, tensors with %s", security->message_aead,
                     security->bulk_aead);
    (void)printf(", link %s\n", security->link);
    (void)fflush(stdout);
}

void identity_complain(const char *who, const char *what)
{
    const struct sealane_error *error = sealane_last_error();

    (void)fprintf(stderr, "%s: %s: %s: %s\n", who, what, sealane_status_name(error->status),
                  error->message);
}
