/* logs: records of what a sandbox printed and logged, and filters that choose among them. */
#ifndef CORE_SANDBOX_LOGS_H
#define CORE_SANDBOX_LOGS_H

#include "core/core_internal.h"

enum {
    LOG_RECORDS_KEPT = 1000,    /* of one sandbox */
    LOG_KEPT_BYTES = 256 << 10, /* of text in them, all told */
    LOG_RECORD_MAX_BYTES = 4096,
    LOG_TAIL_BYTES = 8192,
};

struct log_filter {
    int level;                 /* at least this one; -1: any, and what has none */
    const char *stream, *text; /* NULL: any; case does not matter in the text */
    char since[RFC3339_BYTES]; /* ""; else only what is not older */
};

/* Pure. The texts are the parameters' own. */
struct log_filter log_filter_of(const json_t *params, int64_t now_ms);
bool log_matches(const struct log_filter *filter, const json_t *record);

struct log_text {
    const char *bytes; /* a stranger's */
    size_t size;
};

/* Where it was logged, as far as the node says. */
struct log_place {
    struct log_text pid, function;
    uint64_t line; /* 0: unknown */
};

/* As one record, or as several when it is long. level and place may be NULL. */
void log_add(struct sandbox *sandbox, const char *stream, const char *level, const struct log_place *place,
             const char *bytes, size_t size);
/* The agent's events of these names. */
void log_take_record(struct sandbox *sandbox, const struct term *term);
void log_take_output(struct sandbox *sandbox, const struct term *term);

/* The newest texts, LOG_TAIL_BYTES of them at most, oldest first; a text that does not end its line gets a newline. */
json_t *log_tail(const struct sandbox *sandbox);

#endif
