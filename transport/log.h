/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines for people, to standard error, never to standard output.
 *
 * SEALANE_LOG=lane=debug,link_local=warn chooses a level per subject; a subject is the name of the .c
 * file without its ending. A bare level ("SEALANE_LOG=info") is for all. Default: warn. Style: lower
 * case, "slot 3" and not "slot=3", never key material, never payload.
 */
#ifndef SL_LOG_H
#define SL_LOG_H

#include <sealane_status.h>

#include <stdbool.h>

enum sl_log_level {
    SL_LOG_ERROR,
    SL_LOG_WARN,
    SL_LOG_INFO,
    SL_LOG_DEBUG
};

/* True when a line of this subject (a __FILE__ is fine) and level would be written. */
bool sl_log_wants(const char *subject, enum sl_log_level level);

/* Writes one line; called through SL_LOG. */
SEALANE_PRINTF(3, 4)
void sl_log_write(const char *subject, enum sl_log_level level, const char *format, ...);

/* SL_LOG(SL_LOG_INFO, "lane %llu is up", id); arguments are not evaluated when nobody listens. */
#define SL_LOG(level, ...)                                \
    do {                                                  \
        if (sl_log_wants(__FILE__, (level)))              \
            sl_log_write(__FILE__, (level), __VA_ARGS__); \
    } while (0)

#endif
