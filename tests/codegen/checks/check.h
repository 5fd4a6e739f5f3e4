/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - for the programs of cases: says what is wrong and ends with 1. The case's own headers are included by -include. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* That the case links proves that the functions are there; gcc will not have their addresses compared with NULL. */
#define FUNCTIONS(...)           \
    (void)(sealane_function *[]) \
    {                            \
        __VA_ARGS__              \
    }
#define F(name) (sealane_function *)(name)

#endif
