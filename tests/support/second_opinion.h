/* SPDX-License-Identifier: Apache-2.0 */
/* second_opinion.h - the AEAD that is linked, OpenSSL's and the bench library's copy beside it, in one shape. */
#ifndef SECOND_OPINION_H
#define SECOND_OPINION_H

#include "transport/seal.h"

struct seal_backend {
    const char *name;
    enum sealane_status (*key_new)(enum sl_aead aead, const uint8_t *key,
                                   struct sl_aead_key **key_p);
    void (*key_set)(struct sl_aead_key *key, const uint8_t *bytes);
    void (*key_free)(struct sl_aead_key *key);
    void (*seal)(struct sl_aead_key *key, const struct sl_aead_io *io, uint8_t tag[SL_TAG_BYTES]);
    bool (*open)(struct sl_aead_key *key, const struct sl_aead_io *io,
                 const uint8_t tag[SL_TAG_BYTES]);
};

/* Keys of one must not be given to another. */
extern const struct seal_backend second_opinion; /* second_opinion.c: libcrypto */
extern const struct seal_backend unsealed;       /* unsealed.c: no AEAD at all */

static const struct seal_backend linked_seal = {
    .name = "the linked AEAD",
    .key_new = sl_aead_key_new,
    .key_set = sl_aead_key_set,
    .key_free = sl_aead_key_free,
    .seal = sl_aead_seal,
    .open = sl_aead_open,
};

#endif
