/* Rounds: find what is stale, take what the cache has of it, have the worker compile the rest, and look again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/job.h"

enum { PUT_MAX_BYTES = 16 << 20 }; /* of modules in one call, about */

/* ---- the project's files as records ---- */

bool digest_source(const struct compile_job *job, const char *path, uint8_t ret[DIGEST_BYTES]) {
    const struct tree_file *file = tree_find(&job->tree, path);
    const char *rest;
    int folder = job_folder(job, path, &rest);
    if (folder < 0) return false;
    if (!file) return tree_digest_file(folder, rest, ret); /* in a folder that is no source otherwise */
    if (S_ISLNK(file->mode)) return tree_digest_target(folder, rest, ret);
    if (!S_ISREG(file->mode)) return false;
    memcpy(ret, file->digest, DIGEST_BYTES);
    return true;
}

bool has_known_source(const struct record *record) {
    static const uint8_t unknown[DIGEST_BYTES];
    return memcmp(record->digest, unknown, sizeof unknown) != 0;
}

static bool record_key(const char *app, const char *path, char ret[PATH_MAX + 128]) {
    int length = snprintf(ret, PATH_MAX + 128, "%s:%s", app, path);
    return length > 0 && length < PATH_MAX + 128;
}

/* What is known of the files from the last build, by application and path. */
static void index_base(const struct compile_job *job, struct manifest *base, struct map *by_path) {
    char key[PATH_MAX + 128];
    if (!job->base_facts || !manifest_from_json(json_object_get(job->base_facts, "sources"), base)) return;
    for (size_t i = 0; i < base->count; i++) {
        base->records[i]->mark = (unsigned)i;
        if (record_key(base->records[i]->app, base->records[i]->path, key)) map_set(by_path, key, base->records[i]);
    }
}

static struct record *take_known(struct manifest *base, struct map *by_path, const char *app, const char *path) {
    char key[PATH_MAX + 128];
    struct record *known = base->count > 0 && record_key(app, path, key) ? map_remove(by_path, key) : NULL;
    if (known) base->records[known->mark] = NULL;
    if (known) known->mark = 0;
    return known;
}

static bool add_source(struct compile_job *job, const struct model_app *app, const char *path, struct manifest *base,
                       struct map *by_path) {
    struct error ignored; /* what does not fit is compiled again, and refused then if it still does not */
    struct record *record = take_known(base, by_path, app->name, path);
    if (!record) record = record_new(path, app->name);
    if (!record) return false;
    if (record_hold(record, &job->budget, &ignored) < 0) record_forget_output(record);
    memcpy(record->options, app->options, sizeof record->options);
    if (!digest_source(job, path, record->digest)) {
        memset(record->digest, 0, sizeof record->digest);
        record_give_budget(record, &job->budget);
        record_forget_output(record); /* it may be out of date */
    }
    return manifest_add(&job->manifest, record);
}

/* Whether files of the last build are gone: their modules go with them. */
static void notice_removed(struct compile_job *job, const struct manifest *base) {
    for (size_t i = 0; i < base->count; i++) {
        const struct record *record = base->records[i];
        for (size_t k = 0; record && k < record->module_count; k++) {
            job->has_new_modules = true;
            job->changed_parts |= record->modules[k].parts;
        }
    }
}

static void list_sources(uv_work_t *work) {
    struct compile_job *job = work->data;
    const struct model *model = &job->worker->model;
    struct manifest base = {0};
    CLEANUP(map_free) struct map by_path = MAP_INIT;
    bool good = true;
    job->budget = whole_answer_budget;
    job->budget.room = &job->room;
    index_base(job, &base, &by_path);
    for (size_t i = 0; i < model->app_count; i++)
        for (size_t k = 0; good && k < model->apps[i].sources.count; k++)
            good = add_source(job, &model->apps[i], model->apps[i].sources.items[k], &base, &by_path);
    notice_removed(job, &base);
    manifest_free(&base);
    memcpy(job->plan.config, model->config_digest, sizeof job->plan.config);
    job->plan.manifest = &job->manifest;
    job->plan.tree = &job->tree;
    job->round = calloc(job->manifest.count + 1, sizeof *job->round);
    job->compiled = json_array();
    if (!good || !job->round || !plan_link(&job->plan))
        error_set(&job->error, E_NO_MEMORY, "no memory for the project's %zu files", job->manifest.count);
}

/* ---- what the worker must have ---- */

int load_beam(struct compile_job *job, const struct record *record, struct compiled_module *module,
              struct error *reterr) {
    char path[PATH_MAX];
    int result =
        string_format(path, sizeof path, reterr, "%s/%s/ebin/%s.beam", job->base_path, record->app, module->name);
    if (result == 0) result = file_load(path, PROJECT_FILE_MAX_BYTES, &module->beam, &module->beam_size, reterr);
    if (result < 0 || room_take(&job->room, module->beam_size, reterr) == 0) return result;
    free(take_ptr(module->beam));
    return -E_LIMIT;
}

static bool worker_lacks(const struct compile_job *job, const struct record *record,
                         const struct compiled_module *module) {
    return !string_equal(worker_module(job->worker, record->app, module->name), module->checksum);
}

/* ---- what the cache has ---- */

static void link_all(struct compile_job *job) {
    struct error error;
    if (plan_link(&job->plan)) return;
    error_set(&error, E_NO_MEMORY, "no memory for the project's dependencies");
    job_fail(job, &error);
}

static unsigned parts_of(const struct record *record) {
    unsigned parts = 0;
    for (size_t i = 0; i < record->module_count; i++) parts |= record->modules[i].parts;
    return parts;
}

/* As a record of its own: the plan points into those that there are. */
static struct record *find_object(struct compile_job *job, const struct record *record) {
    struct record *found = has_known_source(record) ? record_new(record->path, record->app) : NULL;
    if (!found) return NULL;
    memcpy(found->digest, record->digest, sizeof found->digest);
    memcpy(found->options, record->options, sizeof found->options);
    struct error error;
    if (!objects_find(&job->compiler->objects, job->scope, &job->plan, found)) return record_free(found);
    if (record_hold(found, &job->budget, &error) == 0) return found;
    job_fail(job, &error);
    return record_free(found);
}

static void take_object(struct compile_job *job, struct record *record, struct record *object) {
    struct record before = *record;
    job->changed_parts |= parts_of(record) | parts_of(object);
    job->has_new_modules = true;
    job->found_files++;
    *record = *object;
    *object = before;
    record->compilations = before.compilations + 1;
    record_free(object);
}

/* Look the round's files up in the cache; those that are not there stay in the round. */
static void look_up(struct compile_job *job) {
    size_t missing = 0, count = job->round_count;
    CLEANUP_FREE struct record **objects = calloc(count + 1, sizeof *objects);
    if (!objects || !job->content_key[0]) return;
    for (size_t i = 0; i < count; i++) record_give_budget(job->round[i], &job->budget); /* all of it is replaced */
    for (size_t i = 0; i < count && job->error.code == E_NONE; i++) objects[i] = find_object(job, job->round[i]);
    for (size_t i = 0; i < count; i++) {
        if (objects[i])
            take_object(job, job->round[i], objects[i]);
        else
            job->round[missing++] = job->round[i];
    }
    job->round_count = missing;
    if (missing < count) link_all(job);
}

/* The worker gets every module that is good and that it lacks: macros may want any of them. */
static void load_missing(struct compile_job *job) {
    struct error error;
    for (size_t i = 0; i < job->manifest.count; i++) {
        struct record *record = job->manifest.records[i];
        if (!record->is_compiled || record->is_in_round) continue;
        for (size_t k = 0; k < record->module_count; k++) {
            struct compiled_module *module = &record->modules[k];
            if (module->beam || !worker_lacks(job, record, module)) continue;
            if (load_beam(job, record, module, &error) == 0) continue;
            job_fail(job, &error);
            return;
        }
    }
}

/* ---- choosing what to compile, which takes longer than the loop may be kept ---- */

/* Of the first application that has something stale. */
static void choose_round(struct compile_job *job) {
    const struct model *model = &job->worker->model;
    job->round_count = 0;
    for (size_t i = 0; i < job->manifest.count; i++) job->manifest.records[i]->is_in_round = false;
    for (size_t i = 0; i < model->app_count && job->round_count == 0; i++) {
        size_t stale = plan_stale(&job->plan, model->apps[i].name, job->round);
        job->round_app = &model->apps[i];
        job->round_count = job->takes_all ? stale : plan_ready(&job->plan, job->round, stale);
        job->has_waiting = job->round_count < stale;
    }
    for (size_t i = 0; i < job->round_count; i++) job->round[i]->is_in_round = true;
}

/* Two files with a module of the same name: a VM has only one of them. */
static void refuse_doubled(struct compile_job *job) {
    struct error error;
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        for (size_t k = 0; k < record->module_count; k++) {
            const struct place *place = map_get(&job->plan.modules, record->modules[k].name);
            if (!place || place->module == &record->modules[k]) continue;
            error_set(&error, E_COMPILE, "the module %s is defined in %s and in %s",
                      term_module_name(record->modules[k].name), record->path, place->record->path);
            job_fail(job, &error);
            return;
        }
    }
}

/* ---- what the worker is told, encoded on a thread too: strangers choose how much it is ---- */

static void put_module(struct buf *modules, const struct record *record, const struct compiled_module *module) {
    struct term_map map = term_map_begin(modules);
    term_map_text(&map, "app", record->app);
    term_map_text(&map, "module", module->name);
    term_map_bytes(&map, "beam", module->beam, module->beam_size);
    term_map_end(&map);
}

/* As many as fit one call; how many there were. */
static size_t collect_put(struct compile_job *job, struct buf *modules) {
    size_t count = 0;
    for (size_t i = 0; i < job->manifest.count && modules->size < PUT_MAX_BYTES; i++) {
        const struct record *record = job->manifest.records[i];
        if (!record->is_compiled || record->is_in_round) continue;
        for (size_t k = 0; k < record->module_count && modules->size < PUT_MAX_BYTES; k++) {
            const struct compiled_module *module = &record->modules[k];
            if (!module->beam || !worker_lacks(job, record, module)) continue;
            put_module(modules, record, module);
            worker_set_module(job->worker, record->app, module->name, module->checksum);
            count++;
        }
    }
    return count;
}

static bool is_stale_in_worker(const struct compile_job *job, const char *key) {
    const char *slash = strchr(key, '/');
    const struct place *place = slash ? map_get(&job->plan.modules, slash + 1) : NULL;
    size_t length = slash ? (size_t)(slash - key) : 0;
    bool is_there = place && strlen(place->record->app) == length && memcmp(place->record->app, key, length) == 0;
    return !is_there || place->record->is_in_round;
}

/* Modules that the worker has and must not: of files that are about to be compiled, or are gone. */
static size_t collect_forget(struct compile_job *job, struct buf *names) {
    size_t at = 0, count = 0;
    const char *key;
    void *checksum;
    while (map_next(&job->worker->modules, &at, &key, &checksum)) {
        if (!is_stale_in_worker(job, key)) continue;
        term_put_string(names, strchr(key, '/') + 1);
        count++;
        map_remove(&job->worker->modules, key);
        free(checksum);
    }
    return count;
}

static void put_list(struct buf *args, size_t count, struct buf *elements) {
    term_put_list(args, count);
    buf_append(args, elements->data, elements->size);
    if (count > 0) term_put_nil(args);
    if (elements->failed) args->failed = true;
    buf_free(elements);
}

static void encode_compile(struct compile_job *job) {
    struct buf files = BUF_INIT, names = BUF_INIT;
    size_t forgotten = collect_forget(job, &names);
    for (size_t i = 0; i < job->round_count; i++) term_put_string(&files, job->round[i]->path);
    struct term_map map = term_map_begin(&job->args);
    term_map_text(&map, "app", job->round_app->name);
    put_list(term_map_key(&map, "files"), job->round_count, &files);
    put_list(term_map_key(&map, "forget"), forgotten, &names);
    term_map_end(&map);
    job->asks = ASK_COMPILE;
}

/* False: it has all modules that there are. */
static bool encode_put(struct compile_job *job) {
    struct buf modules = BUF_INIT;
    size_t count = collect_put(job, &modules);
    if (count > 0) {
        struct term_map map = term_map_begin(&job->args);
        put_list(term_map_key(&map, "modules"), count, &modules);
        term_map_end(&map);
        job->asks = ASK_PUT;
    }
    buf_free(&modules);
    return count > 0;
}

/* For what needs all modules at once: a worker that has just them. */
static bool is_settled(struct compile_job *job) {
    size_t at = 0;
    const char *key;
    while (map_next(&job->worker->modules, &at, &key, NULL))
        if (is_stale_in_worker(job, key)) return false;
    for (size_t i = 0; i < job->manifest.count; i++) {
        const struct record *record = job->manifest.records[i];
        for (size_t k = 0; k < record->module_count; k++)
            if (worker_lacks(job, record, &record->modules[k])) return false;
    }
    return true;
}

/* What the worker is asked next: nothing, where the build is collected already. A worker that is not settled gets a
   round without files. */
static void encode_next(struct compile_job *job) {
    job->asks = ASK_NOTHING;
    if (job->error.code != E_NONE || (job->round_count == 0 && !assemble_needs_worker(job))) return;
    if (job->round_count == 0 && is_settled(job)) {
        assemble_encode(job);
        return;
    }
    load_missing(job);
    if (job->error.code == E_NONE && !encode_put(job)) encode_compile(job);
}

/* Until there is something that only the worker can compile, or nothing is stale any more. */
static void prepare_round(uv_work_t *work) {
    struct compile_job *job = work->data;
    do {
        choose_round(job);
        if (job->round_count == 0) {
            refuse_doubled(job);
            if (job->error.code == E_NONE && !assemble_needs_worker(job)) assemble_collect(work);
            break;
        }
        look_up(job);
    } while (job->round_count == 0 && job->error.code == E_NONE);
    encode_next(job);
}

/* ---- taking its answer ---- */

/* By the file that each is for. */
static int index_answers(const struct compile_job *job, const struct term *files, struct map *ret,
                         struct error *reterr) {
    size_t count = files && files->type == TERM_LIST ? files->items.count : 0;
    if (count > job->round_count)
        return error_set(reterr, E_PROTOCOL, "the compiler node answered for more files than it was asked for");
    for (size_t i = 0; i < count; i++) {
        CLEANUP_FREE char *path = NULL;
        const struct term *file = term_at(files, i);
        if (text_at(file, "file", &path)) map_set(ret, path, (void *)(uintptr_t)file);
    }
    return 0;
}

static bool has_same_names(const struct record *record, struct name_list *before) {
    if (record->module_count != before->count) return false;
    for (size_t i = 0; i < before->count; i++)
        if (strcmp(record->modules[i].name, before->items[i]) != 0) return false;
    return true;
}

static int take_file(struct compile_job *job, struct record *record, const struct term *file, struct error *reterr) {
    struct name_list before = {0};
    if (!file) return error_set(reterr, E_PROTOCOL, "the compiler node did not answer for %s", record->path);
    job->changed_parts |= parts_of(record);
    for (size_t i = 0; i < record->module_count; i++) name_list_add(&before, record->modules[i].name);
    int result = record_take_answer(record, file, &job->budget, reterr);
    if (result == 0) result = job_check_paths(job, &record->files, reterr);
    if (result == 0 && !has_same_names(record, &before)) job->has_new_modules = true;
    name_list_free(&before);
    record->compilations++;
    record->is_new = true;
    job->compiled_files++;
    return result;
}

static int take_files(struct compile_job *job, const struct term *files, struct error *reterr) {
    CLEANUP(map_free) struct map answers = MAP_INIT;
    int result = index_answers(job, files, &answers, reterr);
    for (size_t i = 0; i < job->round_count && result == 0; i++)
        result = take_file(job, job->round[i], map_get(&answers, job->round[i]->path), reterr);
    return result;
}

/* A file may be compiled again in a later round of the same job. */
static void tell_compiled(struct compile_job *job, const struct record *record, const char *module) {
    const char *name = term_module_name(module);
    json_t *told;
    size_t i;
    if (record->compilations > 1)
        json_array_foreach(job->compiled, i, told) if (strcmp(json_string_value(told), name) == 0) return;
    json_array_append_new(job->compiled, json_string(name));
}

static void note_round(struct compile_job *job) {
    for (size_t i = 0; i < job->round_count; i++) {
        const struct record *record = job->round[i];
        for (size_t k = 0; k < record->module_count; k++) {
            const struct compiled_module *module = &record->modules[k];
            worker_set_module(job->worker, record->app, module->name, module->checksum);
            tell_compiled(job, record, module->name);
        }
        job->changed_parts |= parts_of(record);
    }
}

/* Reading beams takes longer than the loop may be kept. What comes next is found on the way. */
static void check_round(uv_work_t *work) {
    struct compile_job *job = work->data;
    unsigned otp = toolchain_generation(job->request.toolchain);
    struct error error;
    for (size_t i = 0; i < job->round_count; i++) {
        if (record_check_beams(job->round[i], otp, &job->budget, &error) == 0) continue;
        job_fail(job, &error);
        return;
    }
    link_all(job);
    for (size_t i = 0; i < job->round_count; i++) plan_inputs(&job->plan, job->round[i], job->round[i]->inputs);
    note_round(job);
    if (job->error.code == E_NONE) prepare_round(work);
}

static void take_round(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    int result = take_files(job, term_map_get(job->answer, "files"), &error);
    job_drop_answer(job);
    if (result == 0)
        check_round(work);
    else
        job_fail(job, &error);
}

/* A file may have come to need one whose turn comes later: the compilers find the order themselves, given all. */
static bool may_take_all(const struct compile_job *job, const struct error *error) {
    bool is_fit = !job->is_ending && !job->aborted && job->error.code == E_NONE;
    return is_fit && error && error->code == E_COMPILE && job->has_waiting && !job->takes_all;
}

static void next_round(struct compile_job *job);
static void on_prepared(struct compile_job *job);

static void on_compiled(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct compile_job *job = data;
    if (may_take_all(job, error)) {
        job->takes_all = true;
        next_round(job);
        return;
    }
    if (!job_took_reply(job, reason, error)) return;
    job_keep_answer(job, result);
    job_work(job, take_round, on_prepared);
}

/* ---- the next call ---- */

static void encode_again(uv_work_t *work) {
    encode_next(work->data);
}

static void on_put(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct compile_job *job = data;
    (void)result;
    if (job_took_reply(job, reason, error)) job_work(job, encode_again, on_prepared);
}

static void on_prepared(struct compile_job *job) {
    switch (job->asks) {
    case ASK_PUT: job_call(job, "put", &job->args, on_put); break;
    case ASK_COMPILE: job_call(job, "compile", &job->args, on_compiled); break;
    case ASK_FINISH:
    case ASK_NOTHING: assemble_begin(job); break;
    }
}

static void next_round(struct compile_job *job) {
    job_work(job, prepare_round, on_prepared);
}

static void prepare_first(uv_work_t *work) {
    struct compile_job *job = work->data;
    list_sources(work);
    if (job->error.code == E_NONE) prepare_round(work);
}

void rounds_begin(struct compile_job *job) {
    job_work(job, prepare_first, on_prepared);
}
