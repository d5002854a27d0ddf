/* Where a compiler node sees a project and the folders that were handed over with it. */
#include "compile/project/places.h"

#include <string.h>

#include "compile/cache/manifest.h"

#define TREE_PLACE "/src/tree"

static bool is_within(const char *path, const char *above) {
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (!path[length] || path[length] == '/');
}

/* How many bytes of both are folders that they share, with the slash behind them. */
static size_t shared_length(const char *a, const char *b) {
    size_t shared = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/') shared = i + 1;
    return shared;
}

static int check_apart(const char *project, const char *const *withs, size_t count, struct error *reterr) {
    for (size_t i = 0; i < count; i++) {
        if (is_within(withs[i], project))
            return error_set(reterr, E_INVALID, "%s lies in the project: it is handed over already", withs[i]);
        if (is_within(project, withs[i]))
            return error_set(reterr, E_INVALID, "%s holds the project: name the folders in it that the project needs",
                             withs[i]);
        for (size_t k = 0; k < count; k++)
            if (k != i && is_within(withs[i], withs[k]))
                return error_set(reterr, E_INVALID, "%s lies in %s, which is handed over too", withs[i], withs[k]);
    }
    return 0;
}

static int see(const char *project, const char *with, char ret[PATH_MAX], struct error *reterr) {
    size_t length = 0, shared = shared_length(project, with);
    ret[0] = '\0';
    for (const char *name = project + shared; name; name = strchr(name, '/') ? strchr(name, '/') + 1 : NULL) {
        if (length + 4 >= PATH_MAX) return error_set(reterr, E_INVALID, "%s is too long", project);
        memcpy(ret + length, "../", 4);
        length += 3;
    }
    return string_format(ret + length, PATH_MAX - length, reterr, "%s", with + shared);
}

int places_choose(const char *project, const char *const *withs, size_t count, char ret_project[PATH_MAX],
                  struct with_place *ret, struct error *reterr) {
    if (count == 0) return string_format(ret_project, PATH_MAX, reterr, "%s", PROJECT_PLACE);
    int result = check_apart(project, withs, count, reterr);
    size_t shared = strlen(project);
    for (size_t i = 0; i < count && result == 0; i++) {
        size_t length = shared_length(project, withs[i]);
        if (length < shared) shared = length;
    }
    if (result == 0) result = string_format(ret_project, PATH_MAX, reterr, TREE_PLACE "/%s", project + shared);
    for (size_t i = 0; i < count && result == 0; i++) {
        result = string_format(ret[i].place, PATH_MAX, reterr, TREE_PLACE "/%s", withs[i] + shared);
        if (result == 0) result = see(project, withs[i], ret[i].seen, reterr);
    }
    return result;
}

const char *place_rest(const char *seen, const char *path) {
    size_t length = strlen(seen);
    if (strncmp(path, seen, length) != 0 || (path[length] && path[length] != '/')) return NULL;
    return path[length] ? path + length + 1 : path + length;
}

bool is_seen_path(const char *path) {
    while (string_starts(path, "../")) path += 3;
    return is_relative_path(path);
}
