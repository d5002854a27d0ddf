/* Any term as a compiler node's answer: what is accepted has only paths that a project or a build may have, and reads
   back. */
#include <stdlib.h>
#include <string.h>

#include "compile/compile_internal.h"
#include "compile/project/model.h"
#include "fuzz/harness/fuzz.h"

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

static void check_names(const struct name_list *names) {
    for (size_t i = 0; i < names->count; i++)
        check(utf8_valid((const uint8_t *)names->items[i], strlen(names->items[i])));
}

static void check_model(const struct model *model) {
    check(model->app_count > 0);
    for (size_t i = 0; i < model->app_count; i++) {
        const struct model_app *app = &model->apps[i];
        check_path(app->name);
        if (app->dir[0]) check_path(app->dir);
        for (size_t k = 0; k < app->sources.count; k++) check_path(app->sources.items[k]);
    }
    check_json(json_incref(model->problems));
}

/* What is kept of it reads back as it was. */
static void check_record(const struct record *record) {
    json_t *json = record_to_json(record);
    struct record *again = record_from_json(json);
    check(again && again->module_count == record->module_count && again->files.count == record->files.count);
    for (size_t i = 0; i < record->module_count; i++) check_path(record->modules[i].name);
    for (size_t i = 0; i < record->files.count; i++) check_path(record->files.items[i]);
    check_names(&record->compile);
    record_free(again);
    check_json(json);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct error error = {0};
    struct term_doc *doc = NULL;
    struct model model = {0};
    if (term_decode(data, size, &bounds, &doc, &error) < 0) return;
    size_t left_out;
    struct answer_budget budget = whole_answer_budget;
    check_json(diagnostics_to_json(term_root(doc), &whole_diagnostics_budget, &left_out));
    if (model_from_term(term_root(doc), &model, &error) == 0)
        check_model(&model);
    else
        check(error.code != E_NONE && model.app_count == 0);
    model_free(&model);
    struct record *record = record_new("lib/a.ex", "app");
    if (record_take_answer(record, term_root(doc), &budget, &error) == 0) check_record(record);
    record_check_beams(record, 25, &budget, &error);
    record_free(record);
    term_free(doc);
}
