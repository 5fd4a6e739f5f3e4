/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - see wire.h. */
#include "codegen/wire.h"

static bool read_varint(struct sl_wire *wire, uint64_t *value_p)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value_p = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct sl_wire *wire, uint64_t bytes)
{
    if (bytes > (uint64_t)(wire->end - wire->at))
        return false;
    wire->at += bytes;
    return true;
}

static bool read_value(struct sl_wire *wire, struct sl_wire_field *field)
{
    switch (field->type) {
    case SL_WIRE_VARINT:
        return read_varint(wire, &field->value);
    case SL_WIRE_64:
        return skip(wire, 8);
    case SL_WIRE_32:
        return skip(wire, 4);
    case SL_WIRE_BYTES:
        if (!read_varint(wire, &field->value))
            return false;
        field->data = wire->at;
        return skip(wire, field->value);
    }
    return false;
}

int sl_wire_next(struct sl_wire *wire, struct sl_wire_field *field_p)
{
    uint64_t tag = 0;
    if (wire->at == wire->end)
        return 0;
    if (!read_varint(wire, &tag) || tag > UINT32_MAX || tag < 8)
        return -1;
    *field_p = (struct sl_wire_field){.number = (uint32_t)(tag >> 3),
                                      .type = (enum sl_wire_type)(tag & 7)};
    return read_value(wire, field_p) ? 1 : -1;
}
