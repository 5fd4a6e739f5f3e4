/* SPDX-License-Identifier: Apache-2.0 */
/* echo.h - what echo-server and echo-client share: the certificate options and how errors and lanes are printed. */
#ifndef ECHO_H
#define ECHO_H

#include "echo.sealane.h"

struct identity { /* file names; texts of the command line */
    const char *certs, *ca, *cert, *key;
};

/* --ca, --cert and --key, else DIR/ca.pem, DIR/<role>.pem and DIR/<role>.key of --certs DIR. Prints why and returns NULL when they do
 * not load. */
struct sealane_credentials *identity_load(const struct identity *identity, const char *role);

/* Prints sealane's last error: "<what>: <STATUS>: <message>". Returns main's status. */
int complain(const char *what);

/* Prints what protects a lane. */
void print_security(const struct sealane_security *security);

#endif
