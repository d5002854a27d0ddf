/* Setting and naming errors. The table of all of them is in error.h. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/data/utf8.h"

/* What the macros of these names wrap is defined here. */
#undef error_set
#undef error_setv
#undef error_errno
#undef error_prefix

static const struct error_kind kinds[E_COUNT] = {
    [E_NONE] = {"none", 200, 0, CATEGORY_SYSTEM, RECOVERY_RETRY, false, 0, "No error", ""},
#define X(name, slug, status, exit_code, category, recovery, retry, trips, title, advice)                              \
    [E_##name] = {slug, status, exit_code, CATEGORY_##category, RECOVERY_##recovery, retry, trips, title, advice},
    ERROR_LIST(X)
#undef X
};

/* Copy text that may be too long, without cutting a character in two: details end up in JSON. */
static void set_detail(struct error *error, const char *text, size_t length) {
    size_t kept = utf8_cut(text, length, sizeof error->detail - 1);
    memcpy(error->detail, text, kept);
    error->detail[kept] = '\0';
}

int error_setv(struct error *reterr, enum error_code code, const char *format, va_list arguments) {
    if (reterr) {
        /* The arguments may point into the error itself. One byte more shows set_detail what it cuts. */
        char text[sizeof reterr->detail + 1];
        vsnprintf(text, sizeof text, format, arguments);
        reterr->code = code;
        set_detail(reterr, text, strlen(text));
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
        char text[sizeof reterr->detail + 128];
        int length = snprintf(text, sizeof text, "%s: %s", reterr->detail, strerror(errno_value));
        set_detail(reterr, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    }
    return -(int)code;
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error) return -(int)E_SYSTEM;
    struct error prefix;
    va_list arguments;
    va_start(arguments, format);
    error_setv(&prefix, error->code, format, arguments);
    va_end(arguments);
    char text[2 * sizeof error->detail + 2];
    int length = snprintf(text, sizeof text, "%s: %s", prefix.detail, error->detail);
    set_detail(error, text, (size_t)length);
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
