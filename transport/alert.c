/* SPDX-License-Identifier: Apache-2.0 */
/* alert.c - the table of RFC 8446 section 6. */
#include "transport/alert.h"

#include <stddef.h>

static const struct alert {
    int code;
    const char *name;
    bool about_certificate;
} alerts[] = {
    {0, "close_notify", false},
    {10, "unexpected_message", false},
    {20, "bad_record_mac", false},
    {22, "record_overflow", false},
    {40, "handshake_failure", false},
    {42, "bad_certificate", true},
    {43, "unsupported_certificate", true},
    {44, "certificate_revoked", true},
    {45, "certificate_expired", true},
    {46, "certificate_unknown", true},
    {47, "illegal_parameter", false},
    {48, "unknown_ca", true},
    {49, "access_denied", true},
    {50, "decode_error", false},
    {51, "decrypt_error", true},
    {70, "protocol_version", false},
    {71, "insufficient_security", false},
    {80, "internal_error", false},
    {86, "inappropriate_fallback", false},
    {90, "user_canceled", false},
    {109, "missing_extension", false},
    {110, "unsupported_extension", false},
    {112, "unrecognized_name", false},
    {113, "bad_certificate_status_response", true},
    {115, "unknown_psk_identity", false},
    {116, "certificate_required", true},
    {120, "no_application_protocol", false},
};

static const struct alert *find(int code)
{
    for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if (alerts[i].code == code)
            return &alerts[i];
    }
    return NULL;
}

const char *sl_alert_name(int code)
{
    const struct alert *alert = find(code);
    return alert ? alert->name : "unknown alert";
}

bool sl_alert_is_about_certificate(int code)
{
    const struct alert *alert = find(code);
    return alert && alert->about_certificate;
}
