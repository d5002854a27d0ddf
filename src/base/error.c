#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct error_kind kinds[E_COUNT] = {
    [E_NONE] = {"none", 200, 0, CATEGORY_SYSTEM, RECOVERY_RETRY, "No error"},
#define X(name, slug, status, exit_code, category, recovery, title)                                                    \
    [E_##name] = {slug, status, exit_code, CATEGORY_##category, RECOVERY_##recovery, title},
    ERROR_LIST(X)
#undef X
};

int error_setv(struct error *reterr, enum error_code code, const char *format, va_list arguments) {
    if (reterr) {
        reterr->code = code;
        vsnprintf(reterr->detail, sizeof reterr->detail, format, arguments);
    }
    return -(int)code;
}

int error_set(struct error *reterr, enum error_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = error_setv(reterr, code, format, arguments);
    va_end(arguments);
    return result;
}

static enum error_code code_of_errno(int errno_value) {
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT: return E_DISK_FULL;
    case ENOMEM: return E_NO_MEMORY;
    case ETIMEDOUT: return E_TIMEOUT;
    default: return E_SYSTEM;
    }
}

int error_errno(struct error *reterr, int errno_value, const char *format, ...) {
    enum error_code code = code_of_errno(errno_value);
    va_list arguments;
    va_start(arguments, format);
    error_setv(reterr, code, format, arguments);
    va_end(arguments);
    if (reterr) {
        size_t used = strlen(reterr->detail);
        snprintf(reterr->detail + used, sizeof reterr->detail - used, ": %s", strerror(errno_value));
    }
    return -(int)code;
}

int error_prefix(struct error *error, const char *format, ...) {
    char prefix[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix - 2, format, arguments);
    va_end(arguments);
    strcat(prefix, ": ");
    size_t length = strlen(prefix);
    memmove(error->detail + length, error->detail, sizeof error->detail - length);
    memcpy(error->detail, prefix, length);
    error->detail[sizeof error->detail - 1] = '\0';
    return -(int)error->code;
}

const struct error_kind *error_kind(enum error_code code) {
    return &kinds[code < E_COUNT ? code : E_SYSTEM];
}

enum error_code error_code_from_slug(const char *slug) {
    for (int code = E_NONE + 1; code < E_COUNT; code++)
        if (strcmp(kinds[code].slug, slug) == 0) return (enum error_code)code;
    return E_NONE;
}

const char *error_category_name(enum error_category category) {
    static const char *const names[] = {"compilation", "runtime", "resource", "security", "system"};
    return names[category];
}

const char *error_recovery_name(enum error_recovery recovery) {
    static const char *const names[] = {"retry", "rollback", "restart", "isolate", "terminate", "fix_input"};
    return names[recovery];
}
