/* Any patterns and paths: matching says the same as trying everything does, and a path is ignored for a reason. The
   input: a path, then a pattern on each line; one that begins with + is of those to include. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "watch/watch_internal.h"

enum { TEXT_MAX = 255 };

static void check(bool holds) {
    if (!holds) abort();
}

/* What the rest of the text is to each rest of the pattern, from behind. */
static bool matches_by_trial(const char *pattern, const char *text) {
    size_t length = strlen(pattern), size = strlen(text);
    bool after[TEXT_MAX + 2] = {0}, now[TEXT_MAX + 2] = {0};
    for (size_t t = size + 1; t-- > 0;) {
        now[length] = t == size;
        for (size_t p = length; p-- > 0;) {
            bool is_in_name = t < size && text[t] != '/';
            if (pattern[p] == '*')
                now[p] = now[p + 1] || (is_in_name && after[p]);
            else
                now[p] = t < size && (pattern[p] == text[t] || (pattern[p] == '?' && is_in_name)) && after[p + 1];
        }
        memcpy(after, now, sizeof now);
    }
    return after[0];
}

static void check_pattern(const char *pattern, const char *text) {
    if (strlen(pattern) > TEXT_MAX || strlen(text) > TEXT_MAX) return;
    check(watch_pattern_matches(pattern, text) == matches_by_trial(pattern, text));
}

static void check_patterns(const struct watch_patterns *patterns, const char *path) {
    struct watch_patterns copy;
    check(watch_patterns_copy(patterns, &copy) == 0);
    bool is_ignored = watch_ignores(&copy, path);
    for (const char *const *at = copy.include; *at; at++)
        if (!strchr(*at, '/') && !strchr(path, '/') && watch_pattern_matches(*at, path)) check(!is_ignored);
    watch_ignores_name(&copy, path);
    watch_patterns_free(&copy);
}

void fuzz_one(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size), *rest = text;
    const char *include[WATCH_PATTERNS_MAX + 2] = {0}, *ignore[WATCH_PATTERNS_MAX + 2] = {0};
    size_t included = 0, ignored = 0;
    check(text != NULL);
    const char *path = strsep(&rest, "\n");
    for (char *line; (line = strsep(&rest, "\n"));) {
        check_pattern(line, path);
        if (line[0] == '+' && included <= WATCH_PATTERNS_MAX)
            include[included++] = line + 1;
        else if (ignored <= WATCH_PATTERNS_MAX)
            ignore[ignored++] = line;
    }
    check_patterns(&(struct watch_patterns){include, ignore}, path);
    free(text);
}
