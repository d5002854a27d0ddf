/* Any term as a compiler node's answer: what is accepted has only paths that a build may have, and facts that print. */
#include <stdlib.h>
#include <string.h>

#include "compile/compile_internal.h"
#include "fuzz/fuzz.h"

static const struct term_bounds bounds = {.max_bytes = 1 << 16, .max_terms = 1 << 14, .max_depth = 64};

static void check(bool holds) {
    if (!holds) abort();
}

static void check_path(const char *path) {
    check(path[0] != '/' && path[0] != '\0' && utf8_valid((const uint8_t *)path, strlen(path)));
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        size_t length = strcspn(at, "/");
        check(length > 0 && length <= 255 && !(length <= 2 && strspn(at, ".") >= length));
    }
}

static void check_json(json_t *json) {
    char *text = json_dumps(json, 0);
    check(text != NULL);
    free(text);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error error = {0};
    struct term_doc *doc = NULL;
    struct file_list list = {0};
    json_t *facts = NULL, *report = NULL;
    if (term_decode(data, size, &bounds, &doc, &error) < 0) return 0;
    check_json(diagnostics_to_json(term_root(doc)));
    if (answer_to_build(term_root(doc), &list, &facts, &report, &error) == 0) {
        check(json_array_size(json_object_get(facts, "modules")) > 0);
        check_json(facts);
        check_json(report);
    } else {
        check(!facts && !report && error.code != E_NONE);
    }
    for (size_t i = 0; i < list.count; i++) check_path(list.files[i].path);
    file_list_free(&list);
    term_free(doc);
    return 0;
}
