/* What is wrong with a toolchain that is there: folders that other users can write, an Elixir that does not fit. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node.h"

static bool is_ours(uid_t uid) {
    return uid == 0 || uid == geteuid();
}

/* In a sticky folder no other user can put something else in the place of what is ours. */
static int check_level(const char *path, bool is_above, struct error *reterr) {
    struct stat status;
    if (stat(path, &status) < 0) return error_set(reterr, E_TOOLCHAIN, "%s: %s", path, strerror(errno));
    if (!is_ours(status.st_uid))
        return error_set(reterr, E_TOOLCHAIN, "%s is of uid %u; a toolchain for all users must be root's", path,
                         status.st_uid);
    bool is_shared = status.st_mode & (S_IWGRP | S_IWOTH);
    if (!is_shared || (is_above && status.st_mode & S_ISVTX)) return 0;
    return error_set(reterr, E_TOOLCHAIN, "other users can write %s (mode %04o); `chmod go-w` keeps them out", path,
                     status.st_mode & 07777u);
}

int toolchain_check_folder(const char *path, struct error *reterr) {
    char real[PATH_MAX];
    if (!realpath(path, real)) return error_set(reterr, E_TOOLCHAIN, "%s: %s", path, strerror(errno));
    int result = check_level(real, false, reterr);
    for (char *slash; result == 0 && (slash = strrchr(real, '/')) && real[1];) {
        slash[slash == real] = '\0'; /* the root keeps its slash */
        result = check_level(real, true, reterr);
    }
    return result;
}

int toolchain_check_place(const char *path, struct error *reterr) {
    static const char *const taken[] = {"/app", "/data", "/dev", "/proc", "/sandbox", "/src", "/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        size_t length = strlen(taken[i]);
        if (strncmp(path, taken[i], length) == 0 && (!path[length] || path[length] == '/'))
            return error_set(reterr, E_TOOLCHAIN, "%s can't be seen by nodes, which have a %s of their own: move it",
                             path, taken[i]);
    }
    return 0;
}

/* The least OTP of each Elixir; older ones run on all that we do. */
static const struct { unsigned minor, otp; } least[] = {{17, 25}, {18, 25}, {19, 26}, {20, 27}};

int toolchain_check_fit(unsigned otp, const char *elixir_version, struct error *reterr) {
    unsigned major = 0, minor = 0, needed = 0;
    if (sscanf(elixir_version, "%u.%u", &major, &minor) != 2 || major != 1) return 0;
    for (size_t i = 0; i < ARRAY_SIZE(least); i++)
        if (minor >= least[i].minor) needed = least[i].otp;
    if (otp == 0 || otp >= needed) return 0;
    return error_set(reterr, E_TOOLCHAIN, "Elixir %s needs OTP %u or newer, and this is OTP %u", elixir_version, needed,
                     otp);
}

bool toolchain_version_is_plain(const char *text) {
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-");
    return length > 0 && !text[length];
}
