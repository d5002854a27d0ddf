/* Structured log lines: `time level event key="escaped value" …`. Only programs log; libraries return errors. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG_LEVEL, LOG_INFO_LEVEL, LOG_WARN_LEVEL, LOG_ERROR_LEVEL };

struct log {
    int fd;
    enum log_level level; /* lines below it are not written */
};

/* Key and value pairs follow, all strings, closed by NULL: log_line(log, LOG_INFO_LEVEL, "started", "home", home,
   NULL). */
void log_line(const struct log *log, enum log_level level, const char *event, ...) __attribute__((sentinel));

#endif
