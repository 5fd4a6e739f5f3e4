/* SPDX-License-Identifier: Apache-2.0 */
/* record_filter.c - the rules of record_filter.h, byte by byte. */
#include "transport/record_filter.h"

enum {
    CHANGE_CIPHER_SPEC = 20,
    ALERT = 21,
    HANDSHAKE = 22,
    APPLICATION_DATA = 23,
    PLAIN_MAX = 16384,           /* RFC 8446 5.1 */
    PROTECTED_MAX = 16384 + 256, /* RFC 8446 5.2 */
    PROTECTED_MIN = 17           /* one byte of content type and a tag */
};

static SEALANE_RESULT first_record(const struct sl_record_filter *filter)
{
    uint8_t type = filter->header[0];

    if (type != HANDSHAKE && type != ALERT)
        return SL_FAIL(
            SEALANE_UNAUTHENTICATED,
            "the peer does not speak TLS: its first byte is 0x%02x, expected a TLS handshake record (22)",
            type);
    return SEALANE_OK;
}

static SEALANE_RESULT check_length(const struct sl_record_filter *filter, uint8_t type,
                                   size_t length)
{
    size_t least = 1, most = 1; /* of change_cipher_spec */

    if (type == ALERT) {
        least = most = 2;
    } else if (type == APPLICATION_DATA) {
        least = PROTECTED_MIN;
        most = PROTECTED_MAX;
    } else if (type == HANDSHAKE) {
        least = SL_MESSAGE_HEAD_BYTES;
        most = filter->server ? SL_FILTER_CLIENT_HELLO_MAX : PLAIN_MAX;
    }
    if (length < least || length > most)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a TLS record of type %u has %zu bytes, expected %zu to %zu", type, length,
                       least, most);
    return SEALANE_OK;
}

/* Which types may come now. An alert in plaintext after a protected record can only be forged. */
static SEALANE_RESULT check_order(const struct sl_record_filter *filter, uint8_t type)
{
    if ((type == HANDSHAKE || type == ALERT) && filter->protected)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a plaintext TLS record of type %u came after protected ones", type);
    if (type == CHANGE_CIPHER_SPEC && filter->change_seen)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a second change_cipher_spec record came, expected at most one");
    return SEALANE_OK;
}

static SEALANE_RESULT header_done(struct sl_record_filter *filter)
{
    uint8_t type = filter->header[0];
    size_t length = (size_t)filter->header[3] << 8 | filter->header[4];

    if (type < CHANGE_CIPHER_SPEC || type > APPLICATION_DATA)
        return SL_FAIL(SEALANE_DATA_LOSS, "a TLS record has type %u, expected 20 to 23", type);
    if (filter->header[1] != 3 || filter->header[2] < 1 || filter->header[2] > 4)
        return SL_FAIL(SEALANE_DATA_LOSS, "a TLS record has version %u.%u, expected 3.1 to 3.4",
                       filter->header[1], filter->header[2]);
    SL_TRY(check_order(filter, type));
    SL_TRY(check_length(filter, type, length));
    filter->total += (uint32_t)length;
    if (filter->total > SL_FILTER_HANDSHAKE_MAX)
        return SL_FAIL(SEALANE_DATA_LOSS, "the peer's handshake has more than %d bytes",
                       SL_FILTER_HANDSHAKE_MAX);
    filter->protected |= type == APPLICATION_DATA;
    filter->change_seen |= type == CHANGE_CIPHER_SPEC;
    filter->body_left = length;
    filter->body_at = 0;
    return SEALANE_OK;
}

/* A plaintext handshake record holds exactly one message: a hello. */
static SEALANE_RESULT message_head(struct sl_record_filter *filter, uint8_t byte)
{
    size_t length, record = filter->body_left + filter->body_at;

    if (filter->body_at >= sizeof(filter->message))
        return SEALANE_OK;
    filter->message[filter->body_at] = byte;
    if (filter->body_at + 1 < sizeof(filter->message))
        return SEALANE_OK;
    length =
        (size_t)filter->message[1] << 16 | (size_t)filter->message[2] << 8 | filter->message[3];
    if (filter->message[0] != (filter->server ? 1 : 2))
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a plaintext handshake message has type %u, expected %s of TLS 1.3",
                       filter->message[0], filter->server ? "ClientHello (1)" : "ServerHello (2)");
    if (length + sizeof(filter->message) != record)
        return SL_FAIL(
            SEALANE_DATA_LOSS,
            "a plaintext handshake record of %zu bytes holds a message of %zu, expected just one message",
            record, length + sizeof(filter->message));
    return SEALANE_OK;
}

static SEALANE_RESULT body_byte(struct sl_record_filter *filter, uint8_t byte)
{
    if (filter->header[0] == CHANGE_CIPHER_SPEC && byte != 1)
        return SL_FAIL(SEALANE_DATA_LOSS, "a change_cipher_spec record holds %u, expected 1", byte);
    if (filter->header[0] == HANDSHAKE)
        SL_TRY(message_head(filter, byte));
    filter->body_at++;
    if (--filter->body_left > 0)
        return SEALANE_OK;
    filter->header_bytes = 0;
    return SEALANE_OK;
}

SEALANE_RESULT sl_record_filter_look(struct sl_record_filter *filter, const uint8_t *bytes,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (filter->body_left > 0) {
            SL_TRY(body_byte(filter, bytes[i]));
            continue;
        }
        filter->header[filter->header_bytes++] = bytes[i];
        if (filter->header_bytes == 1 && filter->total == 0)
            SL_TRY(first_record(filter));
        if (filter->header_bytes == SL_RECORD_HEADER_BYTES)
            SL_TRY(header_done(filter));
    }
    return SEALANE_OK;
}
