/* A build's own description, kept with it. */
#include <stdio.h>

#include "compile/compile.h"

int build_read(const struct store *store, const char *digest, struct build *ret, struct error *reterr) {
    char path[PATH_MAX], file[PATH_MAX];
    int result = store_build_path(store, digest, path, sizeof path, reterr);
    if (result == 0) result = string_format(file, sizeof file, reterr, "%s/" BUILD_FACTS_FILE, path);
    if (result < 0) return result;
    json_error_t problem;
    json_t *facts = json_load_file(file, 0, &problem);
    if (!facts) return error_set(reterr, E_SYSTEM, "the build %.12s is damaged: %s", digest, problem.text);
    ret->facts = facts;
    snprintf(ret->digest, sizeof ret->digest, "%s", digest);
    return 0;
}

void build_free(struct build *build) {
    json_decref(build->facts);
    *build = (struct build){0};
}
