/* The outcome of a compilation becomes a build: its files, the facts about it, and the report for the caller. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/job.h"

static bool is_elixir(const char *module) {
    return string_starts(module, "Elixir.");
}

static bool app_is_elixir(const struct compile_job *job, const char *app, bool *ret_has_modules) {
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        if (app && strcmp(record->app, app) != 0) continue;
        for (size_t k = 0; k < record->module_count; k++) {
            *ret_has_modules = true;
            if (is_elixir(record->modules[k].name)) return true;
        }
    }
    return false;
}

/* That of the application to start, or of all when it has no modules. */
static const char *language(const struct compile_job *job) {
    bool has_modules = false;
    bool elixir = app_is_elixir(job, job->worker->model.main, &has_modules);
    if (!has_modules) elixir = app_is_elixir(job, NULL, &has_modules);
    return elixir ? "elixir" : "erlang";
}

/* Where consolidated protocols go: with the application to start. */
static const char *first_app(const struct compile_job *job) {
    const struct model *model = &job->worker->model;
    return model->main && model_find(model, model->main) ? model->main : model->apps[0].name;
}

static bool has_base_protocols(const struct compile_job *job) {
    const json_t *first = json_array_get(json_object_get(job->base_facts, "apps"), 0);
    return json_object_get(job->base_facts, "consolidated") &&
           string_equal(json_string_value(json_object_get(first, "name")), first_app(job));
}

/* Protocols are made fast together with all their implementations, so a change of any makes them anew. */
static bool wants_protocols(const struct compile_job *job) {
    bool ignored;
    return app_is_elixir(job, NULL, &ignored) && ((job->changed_parts & PART_OF_PROTOCOL) || !has_base_protocols(job));
}

/* Where nothing says how the project starts, its applications and supervisors do. */
static bool wants_start(const struct compile_job *job) {
    return job->worker->model.is_loose && (job->changed_parts & PART_OF_START);
}

static bool wants_compilers(const struct compile_job *job) {
    const struct model *model = &job->worker->model;
    for (size_t i = 0; i < model->app_count; i++)
        if (model->apps[i].has_compilers) return true;
    return false;
}

bool assemble_needs_worker(const struct compile_job *job) {
    return wants_compilers(job) || job->is_described_anew || !job->base_facts || job->has_new_modules ||
           wants_start(job) || wants_protocols(job);
}

/* ---- what the worker says at the end ---- */

static json_t *json_text_at(const struct term *map, const char *key) {
    CLEANUP_FREE char *text = NULL;
    json_t *value = text_at(map, key, &text) && is_module_name(text) ? json_string(text) : NULL;
    return value ? value : json_null();
}

static int add_app_file(struct compile_job *job, const struct term *app, struct error *reterr) {
    char path[256];
    CLEANUP_FREE char *name = NULL;
    const struct term *content = term_map_get(app, "app_file");
    if (!text_at(app, "name", &name) || !model_find(&job->worker->model, name) || !content ||
        content->type != TERM_BINARY)
        return error_set(reterr, E_PROTOCOL, "the compiler node described an application that is none");
    snprintf(path, sizeof path, "%s/ebin/%s.app", name, name);
    return file_list_add_copy(&job->list, path, content->binary.data, content->binary.size, reterr);
}

/* A file that a compiler of the project made, below the application's folder. */
static int add_made_file(struct compile_job *job, const char *app, const struct term *file, struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FREE char *name = NULL;
    const struct term *data = term_map_get(file, "data");
    bool is_fit = text_at(file, "path", &name) && is_relative_path(name) && data && data->type == TERM_BINARY;
    bool is_module = is_fit && string_starts(name, "ebin/") && string_ends(name, ".beam");
    if (!is_fit || (!is_module && !string_starts(name, "priv/")))
        return error_set(reterr, E_PROTOCOL, "the compiler node made a file of %s where none may be", app);
    int result = string_format(path, sizeof path, reterr, "%s/%s", app, name);
    if (result == 0) result = file_list_add_copy(&job->list, path, data->binary.data, data->binary.size, reterr);
    return result;
}

static int add_made_files(struct compile_job *job, const struct term *app, struct error *reterr) {
    const struct term *files = term_map_get(app, "files");
    CLEANUP_FREE char *name = NULL;
    size_t count = files && files->type == TERM_LIST ? files->items.count : 0;
    int result = 0;
    if (count == 0 || !text_at(app, "name", &name)) return 0;
    if (count > FILES_MAX) return error_set(reterr, E_TOO_LARGE, "the compilers of %s made too many files", name);
    for (size_t i = 0; i < count && result == 0; i++) result = add_made_file(job, name, term_at(files, i), reterr);
    return result;
}

static int add_consolidated(struct compile_job *job, const struct term *module, json_t *names, struct error *reterr) {
    char path[512];
    CLEANUP_FREE char *name = NULL;
    const struct term *bytes = term_map_get(module, "beam");
    if (!text_at(module, "module", &name) || !is_module_name(name) || !bytes || bytes->type != TERM_BINARY)
        return error_set(reterr, E_PROTOCOL, "the compiler node consolidated a protocol that is none");
    snprintf(path, sizeof path, "%s/consolidated/%s.beam", first_app(job), name);
    json_array_append_new(names, json_string(name));
    return file_list_add_copy(&job->list, path, bytes->binary.data, bytes->binary.size, reterr);
}

static size_t list_size(const struct term *list) {
    return list && list->type == TERM_LIST ? list->items.count : 0;
}

static int take_finish(struct compile_job *job, const struct term *result, struct error *reterr) {
    const struct term *apps = term_map_get(result, "apps"), *protocols = term_map_get(result, "consolidated");
    int outcome = 0;
    for (size_t i = 0; i < list_size(apps) && outcome == 0; i++) outcome = add_app_file(job, term_at(apps, i), reterr);
    for (size_t i = 0; i < list_size(apps) && outcome == 0; i++)
        outcome = add_made_files(job, term_at(apps, i), reterr);
    size_t left_out;
    job->more_warnings = diagnostics_to_json(term_map_get(result, "warnings"), &whole_diagnostics_budget, &left_out);
    if (wants_protocols(job)) {
        json_t *names = json_array();
        json_object_set_new(job->facts, "consolidated", names);
        for (size_t i = 0; i < list_size(protocols) && outcome == 0; i++)
            outcome = add_consolidated(job, term_at(protocols, i), names, reterr);
    }
    json_object_set_new(job->facts, "supervisor", json_text_at(result, "supervisor"));
    return outcome;
}

/* "app/consolidated/Module.beam", "app/ebin/Module.beam" */
static bool is_named(const struct beam *beam, const char *path) {
    const char *name = strrchr(path, '/') + 1;
    struct beam_text module = beam_module(beam);
    return strlen(name) == module.size + strlen(".beam") && memcmp(name, module.data, module.size) == 0;
}

static int check_beam(const struct store_file *file, struct error *reterr) {
    CLEANUP_BEAM struct beam *beam = NULL;
    char name[512];
    if (beam_read(file->data, file->size, &beam_default_options, &beam, reterr) < 0)
        return error_prefix(reterr, "the compiler node made %s", file->path);
    if (!is_named(beam, file->path))
        return error_set(reterr, E_FORMAT, "%s, which the compiler node made, is another module", file->path);
    struct beam_text module = beam_module(beam);
    snprintf(name, sizeof name, "%.*s", (int)module.size, (const char *)module.data);
    return compile_check_name(name, E_COMPILE, reterr);
}

/* Off the loop's thread, as all reading of beams; the list holds nothing yet but what the worker said. */
static int check_made(const struct compile_job *job, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; i < job->list.count && result == 0; i++)
        if (string_ends(job->list.files[i].path, ".beam")) result = check_beam(&job->list.files[i], reterr);
    return result;
}

/* ---- from the last build, where it still holds ---- */

static int add_from_base(struct compile_job *job, const char *path, struct error *reterr) {
    char whole[PATH_MAX];
    uint8_t *data = NULL;
    size_t size = 0;
    int result = string_format(whole, sizeof whole, reterr, "%s/%s", job->base_path, path);
    if (result == 0) result = file_load(whole, PROJECT_FILE_MAX_BYTES, &data, &size, reterr);
    return result < 0 ? result : file_list_add(&job->list, path, data, size, reterr);
}

static int keep_app_files(struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    char path[256];
    int result = 0;
    for (size_t i = 0; i < model->app_count && result == 0; i++) {
        snprintf(path, sizeof path, "%s/ebin/%s.app", model->apps[i].name, model->apps[i].name);
        result = add_from_base(job, path, reterr);
    }
    json_object_set(job->facts, "supervisor", json_object_get(job->base_facts, "supervisor"));
    return result;
}

static int keep_consolidated(struct compile_job *job, struct error *reterr) {
    json_t *names = json_object_get(job->base_facts, "consolidated"), *name;
    size_t i;
    char path[512];
    int result = 0;
    if (json_object_get(job->facts, "consolidated") || !has_base_protocols(job)) return 0;
    json_object_set(job->facts, "consolidated", names);
    json_array_foreach(names, i, name) {
        snprintf(path, sizeof path, "%s/consolidated/%s.beam", first_app(job), json_string_value(name));
        if (result == 0) result = add_from_base(job, path, reterr);
    }
    return result;
}

/* ---- the build ---- */

static int add_module(struct compile_job *job, const struct record *record, struct compiled_module *module,
                      json_t *modules, json_t *beam_files, struct error *reterr) {
    char path[512];
    int result = module->beam ? 0 : load_beam(job, record, module, reterr);
    if (result < 0) return result;
    snprintf(path, sizeof path, "%s/ebin/%s.beam", record->app, module->name);
    json_array_append_new(modules, json_string(term_module_name(module->name)));
    json_array_append_new(beam_files, json_string(path));
    room_give(&job->room, module->beam_size); /* it only moves */
    return file_list_add(&job->list, path, take_ptr(module->beam), module->beam_size, reterr);
}

/* Modules that compilers of the project made. None is another file's. */
static int tell_made(const struct compile_job *job, json_t *modules, json_t *beam_files, struct error *reterr) {
    for (size_t i = 0; i < job->list.count; i++) {
        char name[512];
        const char *path = job->list.files[i].path, *file = strstr(path, "/ebin/");
        if (!file || !string_ends(path, ".beam")) continue;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(file + 6) - strlen(".beam")), file + 6);
        if (map_get(&job->plan.modules, name))
            return error_set(reterr, E_COMPILE, "the module %s is made by a source and by a compiler of the project",
                             term_module_name(name));
        json_array_append_new(modules, json_string(term_module_name(name)));
        json_array_append_new(beam_files, json_string(path));
    }
    return 0;
}

static int add_modules(struct compile_job *job, struct error *reterr) {
    json_t *modules = json_array(), *beam_files = json_array();
    json_object_set_new(job->facts, "modules", modules);
    json_object_set_new(job->report, "beam_files", beam_files);
    int result = tell_made(job, modules, beam_files, reterr);
    for (size_t i = 0; i < job->manifest.count; i++) {
        struct record *record = job->manifest.records[i];
        bool is_kept = record->is_new && job->content_key[0] && has_known_source(record);
        if (is_kept) objects_keep(&job->compiler->objects, job->scope, record);
        for (size_t k = 0; k < record->module_count && result == 0; k++)
            result = add_module(job, record, &record->modules[k], modules, beam_files, reterr);
    }
    objects_sweep(&job->compiler->objects);
    if (result == 0 && json_array_size(modules) == 0)
        return error_set(reterr, E_INVALID, "%s: the project holds no modules", job->request.source);
    return result;
}

static json_t *app_facts(const struct model_app *app) {
    return json_pack("{s:s, s:s, s:b}", "name", app->name, "dir", app->dir, "priv", (int)app->has_priv);
}

/* An application's priv and headers. Mix puts what was built natively into priv of its own folder, where the
   application has none. */
static int add_app_folders(struct compile_job *job, const struct model_app *app, struct error *reterr) {
    const char *rest, *env = job->mix_env[0] ? job->mix_env : "dev";
    char built[PATH_MAX];
    int folder = job_folder(job, app->dir, &rest);
    if (folder < 0) return 0;
    int result = collect_below(folder, rest, "include", app->name, &job->list, reterr);
    if (result == 0 && app->has_priv) return collect_below(folder, rest, "priv", app->name, &job->list, reterr);
    if (result < 0 || job->kind != SOURCE_MIX) return result;
    result = string_format(built, sizeof built, reterr, "_build/%s/lib/%s", env, app->name);
    return result < 0 ? result : collect_below(job->project_fd, built, "priv", app->name, &job->list, reterr);
}

static int add_apps(struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    json_t *apps = json_array();
    int result = 0;
    json_object_set_new(job->facts, "apps", apps);
    for (size_t i = 0; i < model->app_count && result == 0; i++) {
        const struct model_app *app = &model->apps[i];
        if (string_equal(app->name, first_app(job)))
            json_array_insert_new(apps, 0, app_facts(app)); /* the one to start comes first */
        else
            json_array_append_new(apps, app_facts(app));
        result = add_app_folders(job, app, reterr);
    }
    return result;
}

static int add_config(struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    json_object_set_new(job->facts, "has_config", json_boolean(model->config != NULL));
    if (!model->config) return 0;
    return file_list_add_copy(&job->list, BUILD_CONFIG_FILE, model->config, model->config_size, reterr);
}

static bool is_own(const struct compile_job *job, const struct record *record) {
    const struct model_app *app = model_find(&job->worker->model, record->app);
    return !app || app->is_own;
}

/* Those of dependencies are told once, when they are compiled: their author is another one. */
static json_t *all_warnings(const struct compile_job *job, bool with_new, size_t *ret_left_out) {
    const struct model *model = &job->worker->model;
    struct diagnostics_budget budget = whole_diagnostics_budget;
    json_t *all = json_array();
    json_array_extend(all, model->problems);
    *ret_left_out = model->problems_left_out;
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        if (!is_own(job, record) && !(with_new && record->is_new)) continue;
        json_array_extend(all, record->warnings);
        *ret_left_out += record->warnings_left_out;
    }
    if (job->more_warnings) json_array_extend(all, job->more_warnings);
    *ret_left_out += diagnostics_cut(all, &budget);
    return all;
}

static void put_diagnostics(json_t *report, const char *kind, json_t *list, size_t left_out) {
    char key[32];
    snprintf(key, sizeof key, "%s_left_out", kind);
    json_object_set_new(report, kind, list);
    if (left_out > 0) json_object_set_new(report, key, json_integer((json_int_t)left_out));
}

static void describe(struct compile_job *job) {
    const char *app = first_app(job);
    size_t left_out = 0, left_out_again = 0;
    json_object_set_new(job->facts, "main",
                        job->worker->model.main ? json_string(job->worker->model.main) : json_null());
    if (job->worker->model.program) json_object_set_new(job->facts, "program", json_string(job->worker->model.program));
    json_object_set_new(job->facts, "language", json_string(language(job)));
    json_object_set_new(job->facts, "sources", manifest_to_json(&job->manifest));
    json_object_set_new(job->report, "status", json_string("ok"));
    json_object_set_new(job->report, "app_file", json_sprintf("%s/ebin/%s.app", app, app));
    put_diagnostics(job->report, "errors", json_array(), 0);
    json_object_set(job->report, "compiled", job->compiled);
    json_t *again = json_copy(job->report); /* what is told of the build when it is found in the cache */
    json_t *warnings = all_warnings(job, false, &left_out_again);
    put_diagnostics(again, "warnings", warnings, left_out_again);
    json_object_set_new(job->facts, "report", again);
    warnings = all_warnings(job, true, &left_out);
    put_diagnostics(job->report, "warnings", warnings, left_out);
}

static int add_facts(struct compile_job *job, struct error *reterr) {
    char *text;
    json_object_set_new(job->facts, "bytes", json_integer((json_int_t)job->list.total_bytes)); /* but for this file */
    int result = build_facts_text(job->facts, &text, reterr);
    if (result < 0) return result;
    job->brief = build_brief(job->facts);
    result = file_list_add(&job->list, BUILD_FACTS_FILE, text, strlen(text), reterr);
    if (result == 0) result = build_facts_text(job->brief, &text, reterr);
    return result < 0 ? result : file_list_add(&job->list, BUILD_BRIEF_FILE, text, strlen(text), reterr);
}

static bool are_same(const struct compile_job *job, const struct name_list *paths) {
    for (size_t i = 0; i < paths->count; i++) {
        const struct tree_file *file = tree_find(&job->tree, paths->items[i]);
        const char *rest;
        int folder = job_folder(job, paths->items[i], &rest);
        if (file && (folder < 0 || !tree_file_is_same(folder, rest, file))) return false;
    }
    return true;
}

/* A link stays the same when what it leads to changes. */
static bool leads_to_same(const struct compile_job *job, const struct record *record) {
    const struct tree_file *file = tree_find(&job->tree, record->path);
    uint8_t digest[DIGEST_BYTES];
    if (!file || !S_ISLNK(file->mode)) return true;
    return digest_source(job, record->path, digest) && memcmp(digest, record->digest, sizeof digest) == 0;
}

/* Whether something was saved between being read here and being compiled: then it is not known which of the two was
   compiled. */
static bool is_torn(const struct compile_job *job) {
    if (!are_same(job, &job->worker->model.described_by)) return true;
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        struct name_list source = {.items = (char *[]){record->path}, .count = 1};
        if (!record->is_new) continue;
        if (!are_same(job, &source) || !are_same(job, &record->files) || !leads_to_same(job, record)) return true;
    }
    return false;
}

void assemble_collect(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    if (!job->facts) job->facts = json_object();
    if (!job->report) job->report = json_object();
    job->is_torn = is_torn(job);
    if (job->is_torn) job_forget_content(job);
    int result = check_made(job, &error);
    if (result == 0 && !json_object_get(job->facts, "supervisor")) result = keep_app_files(job, &error);
    if (result == 0) result = keep_consolidated(job, &error);
    if (result == 0) result = add_modules(job, &error);
    if (result == 0) result = add_apps(job, &error);
    if (result == 0) result = add_config(job, &error);
    if (result == 0) result = extras_collect(job, &error);
    if (result == 0) {
        describe(job);
        result = add_facts(job, &error);
    }
    if (result < 0)
        job_fail(job, &error);
    else
        job->kept_facts = facts_to_keep(job->facts);
}

/* Made by a compiler that has seen nothing else, of nothing that was made before: the same for any user. */
static bool is_of_content_alone(const struct compile_job *job) {
    return job->worker && job->worker->uses == 1 && !job->base[0] && job->found_files == 0;
}

static void name_in_cache(const struct compile_job *job) {
    const char *home = job->compiler->host->home;
    struct cached_build build = {.owner = job->request.owner, .bytes = job->list.total_bytes};
    memcpy(build.digest, job->digest, sizeof build.digest);
    if (job->shared_key[0] && is_of_content_alone(job)) cache_keep(home, job->shared_key, &build);
    if (job->content_key[0]) cache_keep(home, job->content_key, &build);
    if (job->content_key[0]) cache_keep(home, job->scope, &build);
}

static void on_build_kept(void *data, const char *digest, const struct error *error) {
    struct compile_job *job = data;
    const struct build_keeper *keeper = job->compiler->settings.keeper;
    job->is_working = false;
    if (keeper) keeper->kept(keeper->data, job->request.owner, error ? "" : digest, job->list.total_bytes);
    if (error) {
        job_fail(job, error);
    } else if (job->error.code == E_NONE) {
        snprintf(job->digest, sizeof job->digest, "%s", digest);
        name_in_cache(job);
    }
    job_end(job);
}

static void keep(struct compile_job *job) {
    const struct build_keeper *keeper = job->compiler->settings.keeper;
    struct error error;
    if (keeper && keeper->admit(keeper->data, job->request.owner, job->list.total_bytes, &error) < 0) {
        job_fail(job, &error);
        job_end(job);
        return;
    }
    job->is_working = true;
    store_put_build(job->compiler->store, job->base, job->list.files, job->list.count, on_build_kept, job);
}

/* ---- from the rounds to here ---- */

static void finish_and_collect(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    int result = take_finish(job, job->answer, &error);
    job_drop_answer(job);
    if (result == 0)
        assemble_collect(work);
    else
        job_fail(job, &error);
}

static void on_finished(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct compile_job *job = data;
    if (!job_took_reply(job, reason, error)) return;
    job_keep_answer(job, result);
    job_work(job, finish_and_collect, keep);
}

static void put_app_modules(const struct compile_job *job, const char *app, struct buf *args) {
    struct buf names = BUF_INIT;
    size_t count = 0;
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        for (size_t k = 0; strcmp(record->app, app) == 0 && k < record->module_count; k++, count++)
            term_put_string(&names, record->modules[k].name);
    }
    struct term_map map = term_map_begin(args);
    term_map_text(&map, "name", app);
    term_put_list(term_map_key(&map, "modules"), count);
    buf_append(args, names.data, names.size);
    if (count > 0) term_put_nil(args);
    term_map_end(&map);
    buf_free(&names);
}

void assemble_encode(struct compile_job *job) {
    const struct model *model = &job->worker->model;
    struct term_map map = term_map_begin(&job->args);
    term_put_list(term_map_key(&map, "apps"), model->app_count);
    for (size_t i = 0; i < model->app_count; i++) put_app_modules(job, model->apps[i].name, &job->args);
    if (model->app_count > 0) term_put_nil(&job->args);
    term_map_bool(&map, "consolidate", wants_protocols(job));
    term_map_end(&map);
    job->asks = ASK_FINISH;
}

void assemble_begin(struct compile_job *job) {
    if (job->facts) {
        keep(job); /* it needed nothing of the worker, and is collected */
        return;
    }
    job->facts = json_object();
    job->report = json_object();
    job_call(job, "finish", &job->args, on_finished);
}

json_t *failed_report(const struct term *reason) {
    json_t *report = json_object();
    json_object_set_new(report, "status", json_string("error"));
    json_object_set_new(report, "beam_files", json_array());
    json_object_set_new(report, "compiled", json_array());
    json_object_set_new(report, "app_file", json_null());
    static const char *const kinds[] = {"warnings", "errors"};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        size_t left_out = 0;
        json_t *list = diagnostics_to_json(term_map_get(reason, kinds[i]), &whole_diagnostics_budget, &left_out);
        put_diagnostics(report, kinds[i], list, left_out);
    }
    return report;
}
