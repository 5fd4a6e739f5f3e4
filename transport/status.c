/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - status names and the thread's last error. */
#include "transport/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct sealane_error last_error = {.file = ""};

static const char *const names[] = {
#define X(name, number, text) [number] = #name,
    SEALANE_STATUS_MAP(X)
#undef X
};

static const char *const texts[] = {
#define X(name, number, text) [number] = (text),
    SEALANE_STATUS_MAP(X)
#undef X
};

enum {
    STATUS_COUNT = sizeof(names) / sizeof(names[0])
};

const char *sealane_status_name(enum sealane_status status)
{
    return (unsigned)status < STATUS_COUNT ? names[status] : names[SEALANE_UNKNOWN];
}

const char *sealane_status_text(enum sealane_status status)
{
    return (unsigned)status < STATUS_COUNT ? texts[status] : texts[SEALANE_UNKNOWN];
}

const struct sealane_error *sealane_last_error(void)
{
    return &last_error;
}

enum sealane_status sl_fail(enum sealane_status status, int cause, const char *file, int line,
                            const char *format, ...)
{
    char message[sizeof(last_error.message)];
    va_list args;

    /* Formatted aside first: an argument may be the last error's own text. */
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    last_error.status = status;
    last_error.cause = cause;
    last_error.file = file;
    last_error.line = line;
    (void)snprintf(last_error.message, sizeof(last_error.message), "%s", message);
    return status;
}
