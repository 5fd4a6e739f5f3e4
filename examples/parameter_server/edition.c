/* SPDX-License-Identifier: Apache-2.0 */
/* edition.c - counted readers, copy on write. */
#include "edition.h"

#include <stdlib.h>
#include <string.h>

struct edition *edition_new(size_t count)
{
    struct edition *edition = malloc(sizeof(*edition) + count * sizeof(float));

    if (edition)
        *edition = (struct edition){.count = count};
    return edition;
}

static void has_been_read(void *user)
{
    struct edition *edition = user;

    edition->readers--;
    if (edition->readers == 0 && edition->replaced)
        free(edition);
}

void edition_lend(struct edition *edition, struct sealane_call *call)
{
    edition->readers++;
    sealane_call_on_end(call, has_been_read, edition);
}

bool edition_own(struct edition **edition_p)
{
    struct edition *old = *edition_p, *copy;

    if (old->readers == 0)
        return true;
    copy = edition_new(old->count);
    if (!copy)
        return false;
    memcpy(copy->values, old->values, old->count * sizeof(float));
    edition_leave(old);
    *edition_p = copy;
    return true;
}

void edition_leave(struct edition *edition)
{
    if (!edition)
        return;
    edition->replaced = true;
    if (edition->readers == 0)
        free(edition);
}
