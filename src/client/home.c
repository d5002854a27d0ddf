/* Where the home of an instance is: what the caller says, SANDBOX_HOME, or the default. */
#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "client/client_internal.h"

/* The longest name of a socket in a home. */
#define LONGEST_SOCKET "launcher.sock"
#define ROOT_HOME "/var/lib/sandbox"

static int default_home(char ret[PATH_MAX], struct error *reterr) {
    if (geteuid() == 0) return string_format(ret, PATH_MAX, reterr, "%s", ROOT_HOME);
    const char *state = getenv("XDG_STATE_HOME");
    if (state && state[0] == '/') return string_format(ret, PATH_MAX, reterr, "%s/sandbox", state);
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char text[4096];
    if (!home || home[0] != '/') {
        getpwuid_r(geteuid(), &entry, text, sizeof text, &found);
        if (!found) return error_set(reterr, E_INVALID, "no home directory to keep things in: set SANDBOX_HOME");
        home = found->pw_dir;
    }
    return string_format(ret, PATH_MAX, reterr, "%s/.local/state/sandbox", home);
}

static int make_absolute(const char *path, char ret[PATH_MAX], struct error *reterr) {
    if (path[0] == '/') return string_format(ret, PATH_MAX, reterr, "%s", path);
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) return error_errno(reterr, errno, "finding the working directory");
    return string_format(ret, PATH_MAX, reterr, "%s/%s", string_equal(here, "/") ? "" : here, path);
}

int client_home(const char *given, char ret[CLIENT_HOME_BYTES], struct error *reterr) {
    const char *wanted = given ? given : getenv("SANDBOX_HOME");
    char home[PATH_MAX];
    if (!wanted || (!given && !*wanted)) {
        int result = default_home(home, reterr);
        if (result < 0) return result;
        wanted = home;
    }
    if (!*wanted) return error_set(reterr, E_INVALID, "the home directory's name is empty");
    char absolute[PATH_MAX];
    int result = make_absolute(wanted, absolute, reterr);
    if (result < 0) return result;
    size_t length = strlen(absolute);
    while (length > 1 && absolute[length - 1] == '/') absolute[--length] = '\0';
    size_t longest = CLIENT_HOME_BYTES - sizeof "/" LONGEST_SOCKET;
    if (length > longest)
        return error_set(reterr, E_INVALID, "the home %s is %zu bytes long; a socket's path leaves it %zu", absolute,
                         length, longest);
    memcpy(ret, absolute, length + 1);
    return 0;
}
