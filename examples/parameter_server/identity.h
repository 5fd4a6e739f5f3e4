/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - the credentials that the command line names. */
#ifndef PARAMETER_SERVER_IDENTITY_H
#define PARAMETER_SERVER_IDENTITY_H

#include "options.h"

#include <sealane_transport.h>

/* --ca, --cert and --key, else what lies in --certs: ca.pem, and server.pem or worker-<rank>.pem or client.pem with its key.
 * NULL, after a line on stderr, when they do not load. Release with sealane_credentials_free. */
struct sealane_credentials *identity_load(const struct options *options);

/* One line: what protects a lane. */
void identity_print(const char *who, const struct sealane_security *security);

/* A line on stderr from sealane's last error: "<who>: <what>: <STATUS>: <message>". */
void identity_complain(const char *who, const char *what);

#endif
