/* One error object for the whole project: no allocation, passed last, filled once where the failure is understood. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

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

/* Every error there is: name, slug in JSON, HTTP status, CLI exit code, category, recovery, whether the same request
   may succeed later, how many of them within PATTERN_WITHIN_MS are a pattern (0: never), title, what to tell the user.
 */
#define ERROR_LIST(X)                                                                                                  \
    X(INVALID, "invalid_input", 400, 2, SYSTEM, FIX_INPUT, false, 0, "The request is not valid", "")                   \
    X(FORMAT, "malformed_data", 400, 1, SYSTEM, FIX_INPUT, false, 0, "The data is malformed",                          \
      "make the data anew where it came from")                                                                         \
    X(UNAUTHENTICATED, "unauthenticated", 401, 5, SECURITY, FIX_INPUT, false, 20,                                      \
      "Who you are could not be established", "say who you are, with a token that is valid")                           \
    X(FORBIDDEN, "forbidden", 403, 5, SECURITY, FIX_INPUT, false, 20, "You may not do this",                           \
      "ask whoever runs the service, or the sandbox's owner")                                                          \
    X(POLICY, "refused_by_policy", 403, 5, SECURITY, FIX_INPUT, false, 20, "The policy refuses this",                  \
      "change the code, or choose a profile that allows it: sandbox profiles")                                         \
    X(GUARANTEE, "guarantee_missing", 403, 5, SECURITY, FIX_INPUT, false, 0,                                           \
      "A required guarantee cannot be given here", "sandbox doctor tells what this machine lacks")                     \
    X(NOT_FOUND, "not_found", 404, 3, SYSTEM, FIX_INPUT, false, 0, "Not found", "")                                    \
    X(METHOD, "method_not_allowed", 405, 2, SYSTEM, FIX_INPUT, false, 0, "The method is not allowed here",             \
      "the reference has the methods of each address")                                                                 \
    X(EXISTS, "already_exists", 409, 4, SYSTEM, FIX_INPUT, false, 0, "Already there", "")                              \
    X(CONFLICT, "conflict", 409, 4, SYSTEM, RETRY, true, 0, "The present state does not allow this",                   \
      "try again once that is over")                                                                                   \
    X(TOO_LARGE, "too_large", 413, 5, RESOURCE, FIX_INPUT, false, 0, "The request is too large", "send less at once")  \
    X(DISCARDED, "answer_discarded", 413, 5, RESOURCE, FIX_INPUT, false, 0,                                            \
      "The operation was carried out, its answer discarded", "read answers sooner, or ask for less at once")           \
    X(COMPILE, "compile_failed", 422, 1, COMPILATION, FIX_INPUT, false, 0, "The sources do not compile",               \
      "correct the sources; what ran before runs on")                                                                  \
    X(START, "start_failed", 422, 1, RUNTIME, FIX_INPUT, false, 5, "The application did not start",                    \
      "correct the application, then try again")                                                                       \
    X(RELOAD, "reload_failed", 422, 1, RUNTIME, ROLLBACK, false, 5, "The new code was not taken; the old runs on",     \
      "nothing is lost: correct the new code and reload again")                                                        \
    X(RUNTIME, "runtime_error", 422, 1, RUNTIME, FIX_INPUT, false, 0, "The code raised an exception", "")              \
    X(TOO_NEW, "too_new", 422, 1, SYSTEM, FIX_INPUT, false, 0, "This is too new for this version of the service",      \
      "upgrade the service, or use an older release of Erlang/OTP: sandbox toolchains")                                \
    X(TOOLCHAIN, "toolchain_missing", 422, 1, SYSTEM, FIX_INPUT, false, 0,                                             \
      "The Erlang or Elixir toolchain is not usable", "see sandbox toolchains; install it, or name another")           \
    X(LIMIT, "limit_reached", 429, 5, RESOURCE, RETRY, true, 20, "A limit was reached",                                \
      "wait until less is used, or have it raised: sandbox quotas and sandbox limits ID show what there is")           \
    X(SYSTEM, "system_error", 500, 1, SYSTEM, RETRY, true, 5, "The system failed",                                     \
      "try again; daemon.log in the home has more if it stays")                                                        \
    X(PROTOCOL, "protocol_violation", 502, 1, SECURITY, TERMINATE, false, 3, "The node broke the protocol",            \
      "its VM was ended; do not trust this code")                                                                      \
    X(NODE, "node_failed", 502, 1, RUNTIME, RESTART, true, 10, "The virtual machine ended",                            \
      "a create that fails shows its last words, else sandbox logs ID has them; restart the sandbox")                  \
    X(NO_MEMORY, "out_of_memory", 503, 1, RESOURCE, RETRY, true, 3, "Memory is exhausted",                             \
      "free memory on this machine, then try again")                                                                   \
    X(LAUNCHER, "launcher_unavailable", 503, 1, SYSTEM, RETRY, true, 5, "The launcher does not answer",                \
      "it comes back by itself; try again in a moment")                                                                \
    X(NO_DAEMON, "no_daemon", 503, 6, SYSTEM, RETRY, true, 0, "The service does not answer",                           \
      "daemon.log in the home tells more, if one ran there")                                                           \
    X(SHUTDOWN, "shutting_down", 503, 6, SYSTEM, RETRY, true, 0, "The service is shutting down",                       \
      "try again once it runs")                                                                                        \
    X(TIMEOUT, "timeout", 504, 1, RUNTIME, RETRY, true, 10, "The time allowed is over",                                \
      "try again, or allow more time")                                                                                 \
    X(DISK_FULL, "disk_full", 507, 5, RESOURCE, RETRY, true, 3, "The disk is full", "make room, then try again")

enum error_code {
    E_NONE = 0,
#define X(name, slug, status, exit_code, category, recovery, retry, trips, title, advice) E_##name,
    ERROR_LIST(X)
#undef X
        E_COUNT
};

enum { ERROR_DETAIL_BYTES = 1024, PATTERN_WITHIN_MS = 300000 };

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
    bool may_pass;  /* the same request may succeed later */
    uint32_t trips; /* so many of them are a pattern; 0: never */
    const char *title;
    const char *advice; /* "": the detail says it */
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
   file at a time and few calls deep: so it knows that no caller continues after `if (result < 0) return result`. */
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
