/* Patterns of included and ignored files, with the built-in list of ignored names. */
#include <string.h>

#include "watch/watch_internal.h"

enum { NAME_STEPS_MAX = 8192 }; /* ten microseconds: the loop does it for each event, whose name a stranger chose */

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

/* Remembers the last star, which takes one character more when what follows it does not match. That may take as many
   steps as both are long, multiplied: NULL, or how many are left, and none when it gave up. */
static bool matches_within(const char *pattern, const char *text, unsigned *steps) {
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (steps && (*steps == 0 || --*steps == 0)) return false;
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

bool watch_pattern_matches(const char *pattern, const char *text) {
    return matches_within(pattern, text, NULL);
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool matches(const char *pattern, const char *path, unsigned *steps) {
    return matches_within(pattern, strchr(pattern, '/') ? path : name_of(path), steps);
}

static bool any_matches(const char *const *patterns, const char *path, unsigned *steps) {
    for (; patterns && *patterns; patterns++)
        if (matches(*patterns, path, steps)) return true;
    return false;
}

static bool is_built_in(const char *path, unsigned *steps) {
    const char *name = name_of(path);
    for (size_t i = 0; i < ARRAY_SIZE(built_in); i++)
        if (matches_within(built_in[i], name, steps)) return true;
    return false;
}

static bool ignores(const struct watch_patterns *patterns, const char *path, unsigned *steps) {
    if (any_matches(patterns->include, path, steps) || (steps && *steps == 0)) return false;
    return is_built_in(path, steps) || any_matches(patterns->ignore, path, steps);
}

bool watch_ignores(const struct watch_patterns *patterns, const char *path) {
    return ignores(patterns, path, NULL);
}

bool watch_ignores_name(const struct watch_patterns *patterns, const char *name) {
    unsigned steps = NAME_STEPS_MAX;
    for (const char *const *at = patterns->include; at && *at; at++)
        if (strchr(*at, '/')) return false; /* it may match a path below this name */
    return ignores(patterns, name, &steps);
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
