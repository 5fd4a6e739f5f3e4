/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - numeric addresses of links that go to other hosts: "1.2.3.4:7000", "[::1]:7000", "[fe80::1%eth0]:7000". Names are
 * resolved elsewhere: that can block. */
#ifndef SL_ADDRESS_H
#define SL_ADDRESS_H

#include "transport/link.h"

#include <sys/socket.h>

/* By the form of its host: well or badly formed, such an address is not one of another kind. */
bool sl_address_is_numeric(const char *address);

/* INVALID_ARGUMENT says what is wrong with it. */
SEALANE_RESULT sl_address_parse(const char *address, struct sockaddr_storage *at_p,
                                socklen_t *bytes_p);

void sl_address_write(const struct sockaddr *at, char to[SL_ADDRESS_BYTES]);

#endif
