/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - reads protobuf's wire format field by field, within bounds. */
#ifndef SL_WIRE_H
#define SL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_wire {
    const uint8_t *at;
    const uint8_t *end;
};

enum sl_wire_type {
    SL_WIRE_VARINT = 0,
    SL_WIRE_64 = 1,
    SL_WIRE_BYTES = 2,
    SL_WIRE_32 = 5
};

struct sl_wire_field {
    uint32_t number;
    enum sl_wire_type type;
    uint64_t value;      /* of a varint; the length of bytes */
    const uint8_t *data; /* of bytes, borrowed from the input */
};

/* 1: a field; 0: the clean end; -1: malformed, groups included. */
int sl_wire_next(struct sl_wire *wire, struct sl_wire_field *field_p);

#endif
