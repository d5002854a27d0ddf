/* Finds the service's programs beside the running program or the shared library. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "client/client_internal.h"

/* Cut the file's name off a path. */
static void to_directory(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
}

static bool program_directory(char ret[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    if (length <= 0) return false;
    ret[length] = '\0';
    to_directory(ret);
    return true;
}

/* Where this code was loaded from: the shared library's directory, for programs that embed it. */
static bool library_directory(char ret[PATH_MAX]) {
    Dl_info info;
    if (!dladdr(&client_find_program, &info) || !info.dli_fname || !realpath(info.dli_fname, ret)) return false;
    to_directory(ret);
    return true;
}

static bool find_below(const char *directory, const char *name, char ret[PATH_MAX]) {
    /* The last two are for libraries in a folder of their architecture. */
    static const char *const places[] = {".", "../libexec/sandbox", "../bin", "../../libexec/sandbox", "../../bin"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char path[PATH_MAX];
        if (string_format(path, sizeof path, NULL, "%s/%s/%s", directory, places[i], name) < 0) continue;
        if (access(path, X_OK) == 0 && realpath(path, ret)) return true;
    }
    return false;
}

int client_find_program(const char *name, char ret[PATH_MAX], struct error *reterr) {
    char directory[PATH_MAX], found[PATH_MAX];
    if ((program_directory(directory) && find_below(directory, name, found)) ||
        (library_directory(directory) && find_below(directory, name, found))) {
        memcpy(ret, found, PATH_MAX);
        return 0;
    }
    return error_set(reterr, E_NO_DAEMON, "the program %s is neither beside this one nor in its ../libexec/sandbox",
                     name);
}
