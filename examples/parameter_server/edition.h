/* SPDX-License-Identifier: Apache-2.0 */
/* edition.h - a shard's weights, which replies still read while the next step changes them: whoever changes an edition that is being
 * read goes on with a copy, and the old one goes with its last reader. */
#ifndef PARAMETER_SERVER_EDITION_H
#define PARAMETER_SERVER_EDITION_H

#include <sealane.h>

struct edition {
    size_t readers;
    bool replaced;
    size_t count;
    float values[];
};

/* Numbers to be filled in; NULL without memory. */
struct edition *edition_new(size_t count);

/* The call's reply, yet to be sent, reads these numbers until the call's end. */
void edition_lend(struct edition *edition, struct sealane_call *call);

/* Makes *edition_p one that nobody reads. False without memory: nothing changed. */
bool edition_own(struct edition **edition_p);

/* Not needed any more; it stays for its readers. NULL is fine. */
void edition_leave(struct edition *edition);

#endif
