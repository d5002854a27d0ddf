/* Finds the operation for a method and a path, and takes the parameters that are in the path. */
#include <string.h>

#include "ops/table.h"

/* One step through a path: the segment up to the next slash. */
struct segment {
    const char *text;
    size_t size;
};

static bool next_segment(const char **path, struct segment *ret) {
    if (**path != '/') return false;
    const char *start = *path + 1;
    *ret = (struct segment){start, strcspn(start, "/")};
    *path = start + ret->size;
    return true;
}

static bool segment_matches(const struct segment *pattern, const struct segment *actual) {
    if (pattern->size > 0 && pattern->text[0] == ':') return actual->size > 0;
    return pattern->size == actual->size && memcmp(pattern->text, actual->text, actual->size) == 0;
}

static bool path_matches(const char *pattern, const char *path) {
    struct segment expected, actual;
    while (*pattern && *path) {
        if (!next_segment(&pattern, &expected) || !next_segment(&path, &actual)) return false;
        if (!segment_matches(&expected, &actual)) return false;
    }
    return *pattern == *path;
}

static int take_params(const char *pattern, const char *path, json_t *params, struct error *reterr) {
    struct segment expected, actual;
    while (next_segment(&pattern, &expected) && next_segment(&path, &actual)) {
        if (expected.size == 0 || expected.text[0] != ':') continue;
        json_t *value = json_stringn(actual.text, actual.size);
        if (!value) return error_set(reterr, E_INVALID, "the path is not UTF-8 text");
        if (json_object_setn_new(params, expected.text + 1, expected.size - 1, value) < 0)
            return error_set(reterr, E_NO_MEMORY, "no memory for the path's parameters");
    }
    return 0;
}

int ops_route(const char *method, const char *path, json_t *params, const struct op **ret, struct error *reterr) {
    size_t count;
    const struct op *table = ops_table(&count);
    bool path_known = false;
    for (const struct op *op = table; op < table + count; op++) {
        if (!op->path || !path_matches(op->path, path)) continue;
        path_known = true;
        if (strcmp(op->method, method) != 0) continue;
        int result = take_params(op->path, path, params, reterr);
        if (result == 0) *ret = op;
        return result;
    }
    if (path_known) return error_set(reterr, E_METHOD, "%.16s is not a method of %.200s", method, path);
    return error_set(reterr, E_NOT_FOUND, "nothing is served at %.200s", path);
}

void ops_allow(const char *path, char ret[OPS_ALLOW_BYTES]) {
    size_t count;
    const struct op *table = ops_table(&count);
    ret[0] = '\0';
    for (const struct op *op = table; op < table + count; op++) {
        if (!op->path || !path_matches(op->path, path) || strstr(ret, op->method)) continue;
        size_t used = strlen(ret);
        snprintf(ret + used, OPS_ALLOW_BYTES - used, "%s%s", used ? ", " : "", op->method);
    }
}
