/* One error object for the whole project: no allocation, passed last, filled once where the failure is understood. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

enum error_category {
    CATEGORY_COMPILATION,
    CATEGORY_RUNTIME,
    CATEGORY_RESOURCE,
    CATEGORY_SECURITY,
    CATEGORY_SYSTEM,
};

enum error_recovery {
    RECOVERY_RETRY,
    RECOVERY_ROLLBACK,
    RECOVERY_RESTART,
    RECOVERY_ISOLATE,
    RECOVERY_TERMINATE,
    RECOVERY_FIX_INPUT,
};

/* Every error there is: name, slug in JSON, HTTP status, CLI exit code, category, recovery, title. */
#define ERROR_LIST(X)                                                                                                  \
    X(INVALID, "invalid_input", 400, 2, SYSTEM, FIX_INPUT, "The request is not valid")                                 \
    X(FORMAT, "malformed_data", 400, 1, SYSTEM, FIX_INPUT, "The data is malformed")                                    \
    X(UNAUTHENTICATED, "unauthenticated", 401, 5, SECURITY, FIX_INPUT, "Who you are could not be established")         \
    X(FORBIDDEN, "forbidden", 403, 5, SECURITY, FIX_INPUT, "You may not do this")                                      \
    X(POLICY, "refused_by_policy", 403, 5, SECURITY, FIX_INPUT, "The policy refuses this")                             \
    X(GUARANTEE, "guarantee_missing", 403, 5, SECURITY, FIX_INPUT, "A required guarantee cannot be given here")        \
    X(NOT_FOUND, "not_found", 404, 3, SYSTEM, FIX_INPUT, "There is no such thing")                                     \
    X(METHOD, "method_not_allowed", 405, 2, SYSTEM, FIX_INPUT, "The method is not allowed here")                       \
    X(EXISTS, "already_exists", 409, 4, SYSTEM, FIX_INPUT, "It exists already")                                        \
    X(CONFLICT, "conflict", 409, 4, SYSTEM, RETRY, "The present state does not allow this")                            \
    X(TOO_LARGE, "too_large", 413, 5, RESOURCE, FIX_INPUT, "The request is too large")                                 \
    X(COMPILE, "compile_failed", 422, 1, COMPILATION, FIX_INPUT, "The sources do not compile")                         \
    X(START, "start_failed", 422, 1, RUNTIME, FIX_INPUT, "The application did not start")                              \
    X(RELOAD, "reload_failed", 422, 1, RUNTIME, FIX_INPUT, "The new code was not taken; the old runs on")              \
    X(RUNTIME, "runtime_error", 422, 1, RUNTIME, FIX_INPUT, "The code raised an exception")                            \
    X(TOOLCHAIN, "toolchain_missing", 422, 1, SYSTEM, FIX_INPUT, "The Erlang or Elixir toolchain is not usable")       \
    X(LIMIT, "limit_reached", 429, 5, RESOURCE, RETRY, "A limit was reached")                                          \
    X(SYSTEM, "system_error", 500, 1, SYSTEM, RETRY, "The system failed")                                              \
    X(PROTOCOL, "protocol_violation", 502, 1, SECURITY, TERMINATE, "The node broke the protocol")                      \
    X(NODE, "node_failed", 502, 1, RUNTIME, RESTART, "The virtual machine ended")                                      \
    X(NO_MEMORY, "out_of_memory", 503, 1, RESOURCE, RETRY, "Memory is exhausted")                                      \
    X(LAUNCHER, "launcher_unavailable", 503, 1, SYSTEM, RETRY, "The launcher does not answer")                         \
    X(NO_DAEMON, "no_daemon", 503, 6, SYSTEM, RETRY, "The service does not answer")                                    \
    X(SHUTDOWN, "shutting_down", 503, 6, SYSTEM, RETRY, "The service is shutting down")                                \
    X(TIMEOUT, "timeout", 504, 1, RUNTIME, RETRY, "The time allowed is over")                                          \
    X(DISK_FULL, "disk_full", 507, 5, RESOURCE, RETRY, "The disk is full")

enum error_code {
    E_NONE = 0,
#define X(name, slug, status, exit_code, category, recovery, title) E_##name,
    ERROR_LIST(X)
#undef X
        E_COUNT
};

enum { ERROR_DETAIL_BYTES = 1024 };

struct error {
    enum error_code code;
    char detail[ERROR_DETAIL_BYTES];
};

struct error_kind {
    const char *slug;
    int http_status;
    int exit_code;
    enum error_category category;
    enum error_recovery recovery;
    const char *title;
};

/* Fill the error and return a negative value, so that callers write `return error_set(reterr, …)`. NULL is accepted,
   here and below. Too long a detail is cut between two characters. */
int error_set(struct error *reterr, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_setv(struct error *reterr, enum error_code code, const char *format, va_list arguments);

/* The same for a failed system call: ": strerror" is appended; ENOSPC, ENOMEM and the like choose their own code. */
int error_errno(struct error *reterr, int errno_value, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the detail of an error that is already set; returns its negative code. */
int error_prefix(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A failure is negative whatever code it came with. Said in a header, and as a macro, because an analyser reads one
   file at a time and few calls deep: so it knows that nobody goes on after `if (result < 0) return result`. */
#define error_negative(call)                                                                                           \
    ({                                                                                                                 \
        int failure_ = (call);                                                                                         \
        failure_ < 0 ? failure_ : -(int)E_SYSTEM;                                                                      \
    })
#define error_set(...) error_negative(error_set(__VA_ARGS__))
#define error_setv(...) error_negative(error_setv(__VA_ARGS__))
#define error_errno(...) error_negative(error_errno(__VA_ARGS__))
#define error_prefix(...) error_negative(error_prefix(__VA_ARGS__))

const struct error_kind *error_kind(enum error_code code);
enum error_code error_code_from_slug(const char *slug); /* E_NONE when unknown */
const char *error_category_name(enum error_category category);
const char *error_recovery_name(enum error_recovery recovery);

#endif
