/* SPDX-License-Identifier: Apache-2.0 */
/* alone.h - the training in one process: what servers and workers do together, without them. The reference for their weights. */
#ifndef PARAMETER_SERVER_ALONE_H
#define PARAMETER_SERVER_ALONE_H

#include "options.h"

/* Trains, reports, saves. Returns main's status. */
int train_alone(const struct options *options);

#endif
