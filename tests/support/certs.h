/* SPDX-License-Identifier: Apache-2.0 */
/* certs.h - the certificates that make-test-certs.sh made for this build, and a clock that tests can move. */
#ifndef CERTS_H
#define CERTS_H

#include <sealane_transport.h>

enum {
    CERTS_PATH = 512,
    CERTS_CASES_MAX = 100
};

/* "good/client-p256.pem" -> its whole path. */
const char *certs_path(const char *relative, char path[CERTS_PATH]);

/* What `ca` ("root-p256") issued, certificate and key by `name` ("good/client-p256"). */
struct certs_choice {
    const char *ca, *name;
    const char *allowed; /* one of allowed_peers, or NULL */
};
SEALANE_RESULT certs_try(const struct certs_choice *choice,
                         struct sealane_credentials **credentials_p);

/* The same; the test fails when they do not load. */
struct sealane_credentials *certs_load(const char *ca, const char *name, const char *allowed);

/* From now on time(2) in this process is off by so much, in wolfSSL too: a certificate may be loaded while it is valid and be
 * judged when it is not. */
void certs_clock_shift(long seconds);

/* A line of index.tsv. */
struct certs_case {
    char name[40], role[10], ca[40], verify[80], expect[10];
    char chain[60]; /* without .pem */
};
size_t certs_cases(struct certs_case *cases);

#endif
