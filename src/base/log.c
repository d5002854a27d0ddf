#include "base/log.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
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
    buf_append_byte(&line, '\n');
    /* One write per line keeps lines whole; a log that can't be written must not stop the program. */
    if (!line.failed && write(log->fd, line.data, line.size) < 0) { /* nowhere left to say so */
    }
    buf_free(&line);
}
