/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_inside.h - what exchange.c and exchange_calls.c share. */
#ifndef PARAMETER_SERVER_EXCHANGE_INSIDE_H
#define PARAMETER_SERVER_EXCHANGE_INSIDE_H

#include "exchange.h"

/* Keeps the first failure; what it brings down need not be told. */
void exchange_fail(const struct peer *peer, const char *doing, enum sealane_status status,
                   const char *message);

/* The same, of sealane's last error. */
void exchange_fail_last(const struct peer *peer, const char *doing);

/* Moves the node until every answer of this round is in. */
bool exchange_round(struct exchange *exchange);

/* Bytes a second; 0 before the first. */
double exchange_speed(const struct traffic *traffic);

#endif
