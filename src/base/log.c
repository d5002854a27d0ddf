/* Log lines: time, level, event, and pairs of names and values with every value escaped. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/data/buf.h"
#include "base/util.h"

enum { VALUE_MAX_BYTES = 2048 };

/* A long value is cut rather than the line lost. */
static void append_value(struct buf *line, const char *key, const char *value) {
    size_t length = strlen(value);
    size_t kept = utf8_cut(value, length, VALUE_MAX_BYTES);
    buf_printf(line, " %s=\"", key);
    escape_text(line, value, kept);
    buf_append_string(line, kept < length ? "…\"" : "\"");
}

/* Lines that a queue had no room for, since the last one that it had. */
static atomic_uint lost_lines;

void log_line(const struct log *log, enum log_level level, const char *event, ...) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if (level < log->level) return;
    struct buf line = BUF_INIT;
    char now[RFC3339_BYTES];
    clock_rfc3339(clock_wall_ms(), now);
    buf_printf(&line, "%s %s %s", now, names[level], event);
    va_list arguments;
    va_start(arguments, event);
    const char *key;
    while ((key = va_arg(arguments, const char *))) {
        const char *value = va_arg(arguments, const char *);
        append_value(&line, key, value ? value : "");
    }
    va_end(arguments);
    unsigned lost = atomic_exchange(&lost_lines, 0);
    if (lost > 0) buf_printf(&line, " lost_lines=\"%u\"", lost);
    buf_append_byte(&line, '\n');
    /* One write per line keeps lines whole; a log that can't be written must not stop the program. */
    if (line.failed || write(log->fd, line.data, line.size) < 0) atomic_fetch_add(&lost_lines, lost + 1);
    buf_free(&line);
}
