/* SPDX-License-Identifier: Apache-2.0 */
/* reserved.h - lists of names that are taken, each sorted for bsearch by strcmp. */
#ifndef SL_RESERVED_H
#define SL_RESERVED_H

#include <stddef.h>

struct sl_reserved {
    const char *const *names;
    size_t count;
};

extern const struct sl_reserved
    sl_reserved_protobuf_c; /* keywords that protobuf-c's field rule knows */
extern const struct sl_reserved
    sl_reserved_words; /* keywords of C11, C23, C++20 that it does not know */
extern const struct sl_reserved
    sl_reserved_macros; /* object-like macros of small letters: glibc's headers, gnu11 */
extern const struct sl_reserved
    sl_reserved_functions; /* functions of libc and libm with a "_" inside */
extern const struct sl_reserved
    sl_reserved_types; /* types and macros with a capital first, of the headers included */

#endif
