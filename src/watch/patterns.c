/* Patterns of included and ignored files, with the built-in list of ignored names. */
#include <string.h>

#include "watch/watch_internal.h"

/* Build products, fetched dependencies, version control, and editors' own files. All of them are names, at any
   depth. */
static const char *const built_in[] = {
    "_build",
    "deps",
    ".git",
    ".hg",
    ".svn",
    ".elixir_ls",
    ".idea",
    ".vscode",
    "node_modules",
    "erl_crash.dump",
    "*~",
    "*.sw?",
    ".*.un~",
    "4913", /* vi and similar editors */
    "#*#",
    ".#*", /* Emacs: unsaved text and locks */
    "*___jb_tmp___",
    "*___jb_old___", /* JetBrains */
    ".goutputstream-*",
    "*.kate-swp",
    ".~lock.*",
    "*.bak",
    "*.orig",
    "*.rej",
    "*.tmp",
    ".DS_Store",
};

/* Remembers the last star, which takes one character more when what follows it does not match. */
bool watch_pattern_matches(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern && (*pattern == *text || (*pattern == '?' && *text != '/'))) {
            pattern++;
            text++;
        } else if (star && *resume != '/') {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool matches(const char *pattern, const char *path) {
    return watch_pattern_matches(pattern, strchr(pattern, '/') ? path : name_of(path));
}

static bool any_matches(const char *const *patterns, const char *path) {
    for (; patterns && *patterns; patterns++)
        if (matches(*patterns, path)) return true;
    return false;
}

static bool is_built_in(const char *path) {
    const char *name = name_of(path);
    for (size_t i = 0; i < ARRAY_SIZE(built_in); i++)
        if (watch_pattern_matches(built_in[i], name)) return true;
    return false;
}

bool watch_ignores(const struct watch_patterns *patterns, const char *path) {
    if (any_matches(patterns->include, path)) return false;
    return is_built_in(path) || any_matches(patterns->ignore, path);
}

bool watch_ignores_name(const struct watch_patterns *patterns, const char *name) {
    for (const char *const *at = patterns->include; at && *at; at++)
        if (strchr(*at, '/')) return false; /* it may match a path below this name */
    return watch_ignores(patterns, name);
}

/* ---- copies ---- */

static void free_list(const char *const *list) {
    for (const char *const *at = list; at && *at; at++) free((char *)*at);
    free((void *)list);
}

static const char *const *copy_list(const char *const *list) {
    size_t count = 0;
    while (list && list[count] && count < WATCH_PATTERNS_MAX) count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        if (!(copy[i] = strndup(list[i], WATCH_PATTERN_MAX_BYTES))) {
            free_list((const char *const *)copy);
            return NULL;
        }
    return (const char *const *)copy;
}

int watch_patterns_copy(const struct watch_patterns *patterns, struct watch_patterns *ret) {
    struct watch_patterns copy = {copy_list(patterns->include), copy_list(patterns->ignore)};
    if (!copy.include || !copy.ignore) {
        watch_patterns_free(&copy);
        return -1;
    }
    *ret = copy;
    return 0;
}

void watch_patterns_free(struct watch_patterns *patterns) {
    free_list(patterns->include);
    free_list(patterns->ignore);
    *patterns = (struct watch_patterns){0};
}
