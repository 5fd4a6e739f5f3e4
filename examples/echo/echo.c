/* SPDX-License-Identifier: Apache-2.0 */
/* echo.c - the shared part of echo-server and echo-client. */
#include "echo.h"

#include <limits.h>
#include <stdio.h>

int complain(const char *what)
{
    const struct sealane_error *error = sealane_last_error();

    (void)fprintf(stderr, "%s: %s: %s\n", what, sealane_status_name(error->status), error->message);
    return 1;
}

static const char *choose(const char *given, const char *folder, const char *name,
                          char path[PATH_MAX])
{
    if (given)
        return given;
    (void)snprintf(path, PATH_MAX, "%s/%s", folder ? folder : ".", name);
    return path;
}

struct sealane_credentials *identity_load(const struct identity *identity, const char *role)
{
    char paths[3][PATH_MAX], cert[32], key[32];
    struct sealane_credentials_options options = {0};
    struct sealane_credentials *credentials;

    (void)snprintf(cert, sizeof(cert), "%s.pem", role);
    (void)snprintf(key, sizeof(key), "%s.key", role);
    options.ca_file = choose(identity->ca, identity->certs, "ca.pem", paths[0]);
    options.certificate_file = choose(identity->cert, identity->certs, cert, paths[1]);
    options.key_file = choose(identity->key, identity->certs, key, paths[2]);
    if (sealane_credentials_new(&options, &credentials) == SEALANE_OK)
        return credentials;
    (void)complain("credentials");
    return NULL;
}

void print_security(const struct sealane_security *security)
{
    (void)printf("peer %s, %s, messages %s, tensors %s, link %s\n", security->peer,
                 security->tls_suite, security->message_aead, security->bulk_aead, security->link);
    (void)fflush(stdout);
}
