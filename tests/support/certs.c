/* SPDX-License-Identifier: Apache-2.0 */
/* certs.c - finds and loads what make-test-certs.sh made; replaces time(2). */
#include "tests/support/certs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static long shift_seconds;

/* Stands before libc's, for wolfSSL as well. */
time_t time(time_t *seconds_p)
{
    struct timespec now = {.tv_sec = 0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += shift_seconds;
    if (seconds_p)
        *seconds_p = now.tv_sec;
    return now.tv_sec;
}

void certs_clock_shift(long seconds)
{
    shift_seconds = seconds;
}

const char *certs_path(const char *relative, char path[CERTS_PATH])
{
    (void)snprintf(path, CERTS_PATH, "%s/%s", SEALANE_TEST_CERTS, relative);
    return path;
}

SEALANE_RESULT certs_try(const struct certs_choice *choice,
                         struct sealane_credentials **credentials_p)
{
    char ca[CERTS_PATH], certificate[CERTS_PATH], key[CERTS_PATH], name[100];
    struct sealane_credentials_options options = {.ca_file = ca,
                                                  .certificate_file = certificate,
                                                  .key_file = key,
                                                  .allowed_peers = &choice->allowed,
                                                  .allowed_peer_count = choice->allowed != NULL};

    (void)snprintf(name, sizeof(name), "ca/%s.pem", choice->ca);
    certs_path(name, ca);
    (void)snprintf(name, sizeof(name), "%s.pem", choice->name);
    certs_path(name, certificate);
    (void)snprintf(name, sizeof(name), "%s.key", choice->name);
    certs_path(name, key);
    return sealane_credentials_new(&options, credentials_p);
}

struct sealane_credentials *certs_load(const char *ca, const char *name, const char *allowed)
{
    struct sealane_credentials *credentials = NULL;
    enum sealane_status status = certs_try(&(struct certs_choice){ca, name, allowed}, &credentials);

    cr_assert_eq(status, SEALANE_OK, "%s of %s: %s", name, ca, sealane_last_error()->message);
    return credentials;
}

size_t certs_cases(struct certs_case *cases)
{
    char path[CERTS_PATH], line[1024], trust[60];
    FILE *file = fopen(certs_path("index.tsv", path), "r");
    size_t count = 0;

    cr_assert(file, "%s", path);
    cr_assert(fgets(line, sizeof(line), file)); /* the head */
    while (fgets(line, sizeof(line), file)) {
        struct certs_case *one = &cases[count++];
        int fields =
            sscanf(line, "%39[^\t]\t%9[^\t]\t%59[^\t]\t%*[^\t]\t%59[^\t]\t%79[^\t]\t%9[^\t]",
                   one->name, one->role, one->chain, trust, one->verify, one->expect);

        cr_assert(fields == 6 && count < CERTS_CASES_MAX, "%s", line);
        one->chain[strlen(one->chain) - strlen(".pem")] = '\0';
        (void)snprintf(one->ca, sizeof(one->ca), "%.*s", (int)(strlen(trust) - strlen("ca/.pem")),
                       trust + strlen("ca/"));
    }
    (void)fclose(file);
    return count;
}
