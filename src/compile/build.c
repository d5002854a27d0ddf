/* A build's own description, kept with it. */
#include <stdio.h>
#include <string.h>

#include "compile/compile.h"
#include "loop/loop.h"

static int read_description(const char *path, const char *name, json_t **ret, struct error *reterr) {
    char file[PATH_MAX];
    int result = string_format(file, sizeof file, reterr, "%s/%s", path, name);
    if (result < 0) return result;
    json_error_t problem;
    json_t *facts = json_load_file(file, 0, &problem);
    if (!facts) {
        const char *slash = strrchr(path, '/');
        return error_set(reterr, E_SYSTEM, "the build %.12s is damaged: %s", slash ? slash + 1 : path, problem.text);
    }
    *ret = facts;
    return 0;
}

int build_read_facts(const char *path, json_t **ret, struct error *reterr) {
    return read_description(path, BUILD_FACTS_FILE, ret, reterr);
}

uint64_t build_bytes(const json_t *facts) {
    json_int_t bytes = json_integer_value(json_object_get(facts, "bytes"));
    return bytes > 0 ? (uint64_t)bytes : 0;
}

json_t *build_brief(const json_t *facts) {
    static const char *const kept[] = {"apps",       "main",  "language", "supervisor", "modules",
                                       "has_config", "bytes", "mix",      "program"};
    json_t *brief = json_object();
    for (size_t i = 0; brief && i < ARRAY_SIZE(kept); i++) {
        json_t *fact = json_object_get(facts, kept[i]);
        if (fact) json_object_set(brief, kept[i], fact);
    }
    return brief;
}

int build_facts_text(const json_t *facts, char **ret, struct error *reterr) {
    CLEANUP_FREE char *text = json_dumps(facts, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) return error_set(reterr, E_NO_MEMORY, "no memory for the build's description");
    size_t size = strlen(text);
    if (size > BUILD_FACTS_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE,
                         "the project is too large: what its modules are made from, and call, takes %zu MiB to "
                         "describe, and %d MiB are allowed",
                         (size >> 20) + 1, BUILD_FACTS_MAX_BYTES >> 20);
    *ret = take_ptr(text);
    return 0;
}

/* Builds of earlier versions have no brief description of their own. */
int build_read_brief(const char *path, json_t **ret, struct error *reterr) {
    json_t *facts = NULL;
    if (read_description(path, BUILD_BRIEF_FILE, ret, NULL) == 0) return 0;
    int result = build_read_facts(path, &facts, reterr);
    if (result < 0) return result;
    *ret = build_brief(facts);
    json_decref(facts);
    return *ret ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a build's description");
}

int build_read(const struct store *store, const char *digest, struct build *ret, struct error *reterr) {
    char path[PATH_MAX];
    int result = store_build_path(store, digest, path, sizeof path, reterr);
    if (result == 0) result = build_read_brief(path, &ret->facts, reterr);
    if (result < 0) return result;
    snprintf(ret->digest, sizeof ret->digest, "%s", digest);
    return 0;
}

void build_free(struct build *build) {
    json_decref(build->facts);
    *build = (struct build){0};
}

static void release(void *facts) {
    json_decref(facts);
}

void build_discard(uv_loop_t *loop, struct build *build) {
    if (build->facts) loop_discard(loop, release, build->facts);
    *build = (struct build){0};
}
