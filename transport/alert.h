/* SPDX-License-Identifier: Apache-2.0 */
/* alert.h - TLS alerts by the names of RFC 8446 section 6. */
#ifndef SL_ALERT_H
#define SL_ALERT_H

#include <stdbool.h>

/* "certificate_expired"; "unknown alert" for codes that RFC 8446 does not have. */
const char *sl_alert_name(int code);

/* True when the alert says that the certificate we showed, or its absence, was the reason. */
bool sl_alert_is_about_certificate(int code);

#endif
