/* A project as its compiler node describes it: applications, paths, configuration; and whether that is still true. */
#include "compile/project/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/cache/hash.h"
#include "compile/compile_internal.h"
#include "compile/project/places.h"

enum {
    APPS_MAX = NODE_APPS_MAX,
    PATHS_MAX_BYTES = 4 << 20, /* of all files that it names: each is compared, hashed, told and kept many times */
};

static int bad_answer(struct error *reterr, const char *what) {
    return error_set(reterr, E_PROTOCOL, "the compiler node described the project with %s", what);
}

static bool digest_binary(const struct term *term, uint8_t ret[DIGEST_BYTES]) {
    return term && term->type == TERM_BINARY &&
           EVP_Digest(term->binary.data, term->binary.size, ret, NULL, EVP_sha256(), NULL) == 1;
}

static bool is_true(const struct term *term) {
    return term && term_is_atom(term, "true");
}

static int take_app(struct model_app *app, const struct term *term, struct error *reterr) {
    if (!text_at(term, "name", &app->name) || !is_app_name(app->name))
        return bad_answer(reterr, "an application that has no usable name");
    if (!text_at(term, "dir", &app->dir)) app->dir = strdup("");
    if (app->dir && strcmp(app->dir, ".") == 0) app->dir[0] = '\0';
    if (!app->dir || (app->dir[0] && !is_seen_path(app->dir)))
        return bad_answer(reterr, "an application outside its folder");
    if (!name_list_from_term(term_map_get(term, "sources"), PROJECT_ENTRIES_MAX, &app->sources))
        return bad_answer(reterr, "sources that are no files");
    for (size_t i = 0; i < app->sources.count; i++)
        if (!is_seen_path(app->sources.items[i])) return bad_answer(reterr, "a source outside its folder");
    if (!digest_binary(term_map_get(term, "options"), app->options)) return bad_answer(reterr, "no options");
    app->has_priv = is_true(term_map_get(term, "priv"));
    app->is_own = is_true(term_map_get(term, "own"));
    app->has_compilers = is_true(term_map_get(term, "compilers"));
    return 0;
}

static int take_apps(struct model *model, const struct term *apps, struct error *reterr) {
    size_t count = apps && apps->type == TERM_LIST ? apps->items.count : 0;
    if (count == 0) return bad_answer(reterr, "no applications");
    if (count > APPS_MAX)
        return error_set(reterr, E_TOO_LARGE, "the project has %zu applications with its dependencies, of at most %d",
                         count, APPS_MAX);
    model->apps = calloc(count, sizeof *model->apps);
    if (!model->apps) return error_set(reterr, E_NO_MEMORY, "no memory for a project's description");
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        model->app_count++;
        result = take_app(&model->apps[i], term_at(apps, i), reterr);
        if (result == 0 && model_find(model, model->apps[i].name) != &model->apps[i])
            result = bad_answer(reterr, "two applications of one name");
    }
    return result;
}

static int take_config(struct model *model, const struct term *config, struct error *reterr) {
    if (!config || config->type != TERM_BINARY) return 0;
    if (config->binary.size > BUILD_CONFIG_MAX_BYTES)
        return error_set(reterr, E_TOO_LARGE, "the project's configuration is larger than %d MiB",
                         BUILD_CONFIG_MAX_BYTES >> 20);
    model->config = malloc(config->binary.size + 1);
    if (!model->config) return error_set(reterr, E_NO_MEMORY, "no memory for the project's configuration");
    memcpy(model->config, config->binary.data, config->binary.size);
    model->config_size = config->binary.size;
    digest_binary(config, model->config_digest);
    return 0;
}

static size_t add_paths(const struct name_list *list, size_t *bytes) {
    for (size_t i = 0; i < list->count; i++) *bytes += strlen(list->items[i]);
    return list->count;
}

/* Of all applications together. */
static int check_paths(const struct model *model, struct error *reterr) {
    size_t bytes = 0, count = 0;
    add_paths(&model->described_by, &bytes);
    for (size_t i = 0; i < model->app_count; i++) count += add_paths(&model->apps[i].sources, &bytes);
    if (count <= PROJECT_ENTRIES_MAX && bytes <= PATHS_MAX_BYTES) return 0;
    return error_set(reterr, E_TOO_LARGE, "the project has more than %d sources, or their paths have more than %d MiB",
                     PROJECT_ENTRIES_MAX, PATHS_MAX_BYTES >> 20);
}

int model_from_term(const struct term *answer, struct model *ret, struct error *reterr) {
    struct model model = {0};
    const struct term *loose = term_map_get(answer, "loose");
    int result = take_apps(&model, term_map_get(answer, "apps"), reterr);
    if (result == 0) result = take_config(&model, term_map_get(answer, "config"), reterr);
    if (result == 0 &&
        !name_list_from_term(term_map_get(answer, "described_by"), PROJECT_ENTRIES_MAX, &model.described_by))
        result = bad_answer(reterr, "files that are none");
    if (result == 0) result = check_paths(&model, reterr);
    text_at(answer, "main", &model.main);
    if (model.main && !is_app_name(model.main)) free(take_ptr(model.main));
    text_at(answer, "program", &model.program);
    if (model.program && !is_module_name(model.program)) free(take_ptr(model.program));
    text_at(answer, "mix_env", &model.mix_env);
    if (model.mix_env && !is_app_name(model.mix_env)) free(take_ptr(model.mix_env));
    model.is_loose = loose && term_is_atom(loose, "true");
    model.problems =
        diagnostics_to_json(term_map_get(answer, "problems"), &whole_diagnostics_budget, &model.problems_left_out);
    if (result < 0)
        model_free(&model);
    else
        *ret = model;
    return result;
}

void model_free(struct model *model) {
    for (size_t i = 0; i < model->app_count; i++) {
        free(model->apps[i].name);
        free(model->apps[i].dir);
        name_list_free(&model->apps[i].sources);
    }
    free(model->apps);
    free(model->main);
    free(model->program);
    free(model->mix_env);
    free(model->config);
    name_list_free(&model->described_by);
    json_decref(model->problems);
    *model = (struct model){0};
}

static void release(void *model) {
    model_free(model);
    free(model);
}

void model_discard(uv_loop_t *loop, struct model *model) {
    struct model *copy = model->app_count > 0 || model->problems ? malloc(sizeof *copy) : NULL;
    if (!copy) {
        model_free(model);
        return;
    }
    *copy = *model;
    *model = (struct model){0};
    loop_discard(loop, release, copy);
}

const struct model_app *model_find(const struct model *model, const char *app) {
    for (size_t i = 0; i < model->app_count; i++)
        if (string_equal(model->apps[i].name, app)) return &model->apps[i];
    return NULL;
}

/* ---- has it changed? ---- */

static bool is_same_file(const struct tree_file *a, const struct tree_file *b) {
    return (!a && !b) || (a && b && memcmp(a->digest, b->digest, sizeof a->digest) == 0);
}

/* What may be a source, describe a project, or lead to one. */
static bool is_relevant(const struct tree_file *file) {
    static const char *const endings[] = {".ex",  ".exs",  ".erl", ".hrl",    ".yrl",
                                          ".xrl", ".beam", ".src", ".config", ".app"};
    if (!S_ISREG(file->mode)) return true;
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
        if (string_ends(file->path, endings[i])) return true;
    return false;
}

static const struct tree_file *next_relevant(const struct tree *tree, size_t *at) {
    while (*at < tree->count && !is_relevant(&tree->files[*at])) ++*at;
    return *at < tree->count ? &tree->files[(*at)++] : NULL;
}

static bool has_same_names(const struct tree *before, const struct tree *now) {
    size_t at_before = 0, at_now = 0;
    for (;;) {
        const struct tree_file *a = next_relevant(before, &at_before), *b = next_relevant(now, &at_now);
        if (!a || !b) return !a && !b;
        if (a->mode != b->mode || strcmp(a->path, b->path) != 0) return false;
    }
}

bool model_is_outdated(const struct model *model, const struct tree *before, const struct tree *now) {
    for (size_t i = 0; i < model->described_by.count; i++) {
        const char *path = model->described_by.items[i];
        if (!is_same_file(tree_find(before, path), tree_find(now, path))) return true;
    }
    return !has_same_names(before, now);
}
