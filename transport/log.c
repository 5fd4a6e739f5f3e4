/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - SEALANE_LOG and the one place that writes to standard error. */
#include "transport/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RULES_MAX = 16,
    SUBJECT_BYTES = 32
};

struct rule {
    char subject[SUBJECT_BYTES]; /* empty: all subjects */
    enum sl_log_level level;
};

static struct rule rules[RULES_MAX];
static size_t rule_count;
static pthread_once_t parsed = PTHREAD_ONCE_INIT;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static enum sl_log_level level_of(const char *text)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0)
            return (enum sl_log_level)i;
    }
    (void)fprintf(
        stderr,
        "sealane: SEALANE_LOG: \"%s\" is no level (error, warn, info, debug); info is taken\n",
        text);
    return SL_LOG_INFO;
}

static void parse_rules(void)
{
    const char *text = getenv("SEALANE_LOG");
    char copy[512];
    char *state = NULL;

    if (!text)
        return;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, ",", &state); word && rule_count < RULES_MAX;
         word = strtok_r(NULL, ",", &state)) {
        struct rule *rule = &rules[rule_count++];
        char *equals = strchr(word, '=');

        if (equals) {
            *equals = '\0';
            (void)snprintf(rule->subject, sizeof(rule->subject), "%s", word);
            rule->level = level_of(equals + 1);
        } else {
            rule->level = level_of(word);
        }
    }
}

/* "…/transport/lane.c" and "lane" both name the subject lane. */
static void subject_name(const char *subject, char name[SUBJECT_BYTES])
{
    const char *slash = strrchr(subject, '/');
    const char *base = slash ? slash + 1 : subject;
    size_t length = strcspn(base, ".");

    if (length >= SUBJECT_BYTES)
        length = SUBJECT_BYTES - 1;
    memcpy(name, base, length);
    name[length] = '\0';
}

bool sl_log_wants(const char *subject, enum sl_log_level level)
{
    enum sl_log_level limit = SL_LOG_WARN;
    char name[SUBJECT_BYTES];

    (void)pthread_once(&parsed, parse_rules);
    if (rule_count == 0)
        return level <= limit;
    subject_name(subject, name);
    for (size_t i = 0; i < rule_count; i++) {
        if (rules[i].subject[0] == '\0' || strcmp(rules[i].subject, name) == 0)
            limit = rules[i].level;
    }
    return level <= limit;
}

void sl_log_write(const char *subject, enum sl_log_level level, const char *format, ...)
{
    char name[SUBJECT_BYTES];
    char line[700];
    struct timespec now;
    va_list args;

    subject_name(subject, name);
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)fprintf(stderr, "sealane %lld.%06ld %s %s: %s\n", (long long)now.tv_sec,
                  now.tv_nsec / 1000, level_names[level], name, line);
}
