/* One compilation from its beginning to its end: look at the project; if the same content was compiled before, be done;
   else get a worker, have it describe the project, compile what is stale round by round, and keep the build. */
#include "compile/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/cache/hash.h"

/* ---- ending ---- */

void job_fail(struct compile_job *job, const struct error *error) {
    if (job->error.code == E_NONE) job->error = *error;
}

static void complete_report(struct compile_job *job) {
    uint64_t took_ms = uv_now(job->compiler->host->loop) - job->started_ms;
    bool is_incremental = job->base_facts && job->compiled_files < job->manifest.count;
    json_object_set_new(job->report, "compilation_time_ms", json_integer((json_int_t)took_ms));
    json_object_set_new(job->report, "incremental", json_boolean(!job->is_cached && is_incremental));
    json_object_set_new(job->report, "cache_hit",
                        json_boolean(job->is_cached || (job->digest[0] && job->compiled_files == 0)));
    if (job->is_cached) json_object_set_new(job->report, "compiled", json_array());
}

/* On the pool: of a large project it takes as long as reading it. */
static void job_free(void *data) {
    struct compile_job *job = data;
    plan_free(&job->plan);
    manifest_free(&job->manifest);
    tree_free(&job->tree);
    file_list_free(&job->list);
    buf_free(&job->args);
    json_decref(job->base_facts);
    json_decref(job->compiled);
    json_decref(job->facts);
    json_decref(job->more_warnings);
    json_decref(job->brief);
    json_decref(job->kept_facts);
    json_decref(job->report);
    term_free(job->answer_doc);
    fd_close(job->project_fd);
    for (size_t i = 0; i < job->with_count; i++) fd_close(job->withs[i].fd);
    free(job->withs);
    free(job->round);
    room_end(&job->room);
    free(job);
}

enum { FEW_FILES = 1000 }; /* compared on the loop */

/* Whether the worker's model is right for the tree of this job. Of many files it is doubted rather than compared here:
   then the worker describes the project once more. */
static bool is_model_good(const struct compile_job *job) {
    const struct workspace *workspace = job->workspace;
    if (job->is_described_anew || job->is_model_compared) return !job->is_model_outdated || job->is_described_anew;
    if (memcmp(workspace->tree.digest, job->tree.digest, sizeof job->tree.digest) == 0) return true;
    if (job->tree.count + workspace->tree.count > FEW_FILES) return false;
    return !model_is_outdated(&workspace->worker->model, &workspace->tree, &job->tree);
}

/* What the project was like, for the next compilation of it. What it was like before is freed with the job. That
   compares with this tree, so a model that was read from an earlier one must still be right now: a job that found its
   build in the cache did not read it. */
static void remember(struct compile_job *job) {
    struct workspace *workspace = job->workspace;
    struct model *model = &workspace->worker->model;
    struct tree before = workspace->tree;
    json_t *facts_before = workspace->facts;
    if (!is_model_good(job) || job->is_torn) model_discard(job->compiler->host->loop, model);
    workspace->tree = job->tree;
    job->tree = before;
    if (!job->facts || !job->digest[0] || job->is_torn) return;
    workspace->facts = job->kept_facts;
    job->kept_facts = facts_before;
    memcpy(workspace->build, job->digest, sizeof workspace->build);
}

static void finish(struct compile_job *job) {
    struct compiler *compiler = job->compiler;
    const struct toolchain *toolchain = job->request.toolchain;
    struct worker *worker = take_ptr(job->worker);
    loop_note(compiler->host->loop, "compile", job->name);
    bool failed = job->error.code != E_NONE;
    if (job->report) complete_report(job);
    /* An error that is not the sources' own is a doubt. */
    if (worker && (job->is_alone || (failed && job->error.code != E_COMPILE))) worker->is_doubtful = true;
    if (worker) worker_rest(worker);
    if (job->workspace->worker && (job->tree.count > 0 || job->is_described_anew)) remember(job);
    job->done(job->data, failed ? NULL : job->digest, take_ptr(job->report), failed ? &job->error : NULL);
    workspace_next(job->workspace, job);
    loop_discard(compiler->host->loop, job_free, job);
    worker_refill(compiler, toolchain);
}

static void empty_copy(uv_work_t *work) {
    struct compile_job *job = work->data;
    empty_tree(job->workspace->copy);
}

static void on_copy_emptied(uv_work_t *work, int status) {
    (void)status;
    finish(work->data);
}

static void do_nothing(uv_work_t *work) {
    (void)work;
}

void job_end(struct compile_job *job) {
    if (job->is_ending) return;
    job->is_ending = true;
    if (job->aborted && job->error.code == E_NONE) error_set(&job->error, E_SHUTDOWN, "the compilation was called off");
    if (job->has_copy) /* thousands of files, perhaps: not on the loop's thread */
        host_work(job->compiler->host, job->request.owner, &job->work, empty_copy, on_copy_emptied);
    else
        finish(job);
}

void job_forget_content(struct compile_job *job) {
    job->content_key[0] = job->shared_key[0] = '\0';
}

/* ---- folders ---- */

int job_folder(const struct compile_job *job, const char *path, const char **ret_rest) {
    *ret_rest = path;
    if (!string_starts(path, "../")) return job->project_fd;
    for (size_t i = 0; i < job->with_count; i++) {
        *ret_rest = place_rest(job->withs[i].at.seen, path);
        if (*ret_rest) return job->withs[i].fd;
    }
    return -1;
}

int job_check_paths(const struct compile_job *job, const struct name_list *paths, struct error *reterr) {
    const char *rest;
    for (size_t i = 0; i < paths->count; i++)
        if (job_folder(job, paths->items[i], &rest) < 0)
            return error_set(reterr, E_PROTOCOL, "the compiler node named %.200s, which was not handed over",
                             paths->items[i]);
    return 0;
}

/* ---- steps ---- */

/* Said only when no other thread works for the job: it may fail too. */
static void blame_worker(struct compile_job *job) {
    if (!job->is_worker_gone || job->aborted || job->error.code != E_NONE) return;
    job_fail(job, &job->worker_error);
    if (job->error.code == E_LIMIT)
        error_set(&job->error, E_LIMIT,
                  "compiling %s took more memory than its %llu MiB; give it more, such as --compile-memory %lluM",
                  job->request.source, (unsigned long long)job->request.memory_bytes >> 20,
                  (unsigned long long)job->request.memory_bytes >> 19);
    else
        error_prefix(&job->error, "the compiler node ended");
}

struct step {
    uv_work_t work;
    struct compile_job *job;
    uv_work_cb run;
    void (*done)(struct compile_job *job);
};

static void run_step(uv_work_t *work) {
    struct step *step = work->data;
    if (step->job->error.code == E_NONE) step->run(&step->job->work);
}

static void on_step(uv_work_t *work, int status) {
    struct step *step = work->data;
    struct compile_job *job = step->job;
    void (*done)(struct compile_job *) = step->done;
    (void)status;
    free(step);
    loop_note(job->compiler->host->loop, "compile", job->name);
    job->is_working = false;
    blame_worker(job);
    if (job->aborted || job->error.code != E_NONE)
        job_end(job);
    else
        done(job);
}

void job_work(struct compile_job *job, uv_work_cb work, void (*done)(struct compile_job *job)) {
    struct step *step = new_or_abort(struct step);
    *step = (struct step){.job = job, .run = work, .done = done};
    step->work.data = step;
    job->is_working = true;
    host_work(job->compiler->host, job->request.owner, &step->work, run_step, on_step);
}

static uint64_t time_left_ms(const struct compile_job *job) {
    uint64_t taken_ms = uv_now(job->compiler->host->loop) - job->started_ms;
    return taken_ms < job->request.deadline_ms ? job->request.deadline_ms - taken_ms : 1;
}

void job_call(struct compile_job *job, const char *op, struct buf *args, node_reply_fn reply) {
    node_call(job->worker->node, op, args, time_left_ms(job), reply, job);
}

static void explain(struct compile_job *job) {
    struct error *error = &job->error;
    if (error->code == E_NODE || error->code == E_LIMIT) error_prefix(error, "compiling failed");
    if (error->code == E_INVALID) error_prefix(error, "%s", job->request.source); /* an empty project, say */
    if (error->code == E_TIMEOUT)
        error_set(error, E_TIMEOUT,
                  "compiling %s took longer than %llu ms; give it more, such as --compile-timeout %llus",
                  job->request.source, (unsigned long long)job->request.deadline_ms,
                  (unsigned long long)(2 * job->request.deadline_ms + 999) / 1000);
}

void job_keep_answer(struct compile_job *job, const struct term *answer) {
    job->answer = answer;
    job->answer_doc = node_keep_answer(job->worker->node);
    size_t bytes = job->answer_doc ? term_bytes(job->answer_doc) : 0;
    struct error error;
    if (room_take(&job->room, bytes, &error) < 0)
        job_fail(job, &error);
    else
        job->answer_bytes = bytes;
}

void job_drop_answer(struct compile_job *job) {
    job->answer_doc = term_free(job->answer_doc);
    room_give(&job->room, job->answer_bytes);
    job->answer_bytes = 0;
    job->answer = NULL;
}

static void take_failure(uv_work_t *work) {
    struct compile_job *job = work->data;
    job->report = failed_report(job->answer);
    job_drop_answer(job);
    job_fail(job, &job->failure);
    explain(job);
}

bool job_took_reply(struct compile_job *job, const struct term *reason, const struct error *error) {
    if (job->is_ending) return false;
    if (!error && !job->aborted && job->error.code == E_NONE) return true;
    if (error && error->code == E_NODE && !job->aborted && job->error.code == E_NONE && !job->is_worker_gone) {
        worker_await_end(job->worker); /* that tells why */
        return false;
    }
    if (error && error->code == E_COMPILE && reason && !job->aborted && job->error.code == E_NONE) {
        job->failure = *error;
        job_keep_answer(job, reason);
        job_work(job, take_failure, job_end); /* there may be thousands of diagnostics */
        return false;
    }
    if (error && !job->aborted && job->error.code == E_NONE) {
        job_fail(job, error);
        explain(job);
    }
    job_end(job);
    return false;
}

/* ---- the worker ---- */

static int check_model(const struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    int result = 0;
    for (size_t i = 0; i < model->app_count && result == 0; i++) {
        struct name_list dir = {.items = (char *[]){model->apps[i].dir}, .count = 1};
        result = job_check_paths(job, &model->apps[i].sources, reterr);
        if (result == 0) result = job_check_paths(job, &dir, reterr);
    }
    return result;
}

static void take_model(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    if (model_from_term(job->answer, &job->worker->model, &error) < 0 || check_model(job, &error) < 0)
        job_fail(job, &error);
    else
        job->is_described_anew = true;
    job_drop_answer(job);
}

static void on_described(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct compile_job *job = data;
    if (!job_took_reply(job, reason, error)) return;
    job_keep_answer(job, result);
    job_work(job, take_model, rounds_begin);
}

static void describe(struct compile_job *job) {
    struct buf args = BUF_INIT;
    model_discard(job->compiler->host->loop, &job->worker->model); /* should it fail, nothing is known */
    struct term_map map = term_map_begin(&args);
    term_map_text(&map, "source", job->project_place);
    term_map_atom(&map, "kind", source_kind_name(job->kind));
    term_map_text(&map, "file", job->is_file ? job->file_name : NULL);
    term_map_text(&map, "name", job->name);
    term_map_text(&map, "mix_env", job->mix_env[0] ? job->mix_env : NULL);
    term_map_key(&map, "with");
    if (job->with_count > 0) term_put_list(&args, job->with_count);
    for (size_t i = 0; i < job->with_count; i++) term_put_string(&args, job->withs[i].at.place);
    term_put_nil(&args);
    term_map_end(&map);
    job_call(job, "project", &args, on_described);
}

static void mount_next(struct compile_job *job);

static void on_mounted(void *data, const struct error *error) {
    struct compile_job *job = data;
    job->is_working = false;
    if (error) job_fail(job, error);
    blame_worker(job);
    if (job->error.code != E_NONE || job->aborted) {
        job_end(job);
        return;
    }
    if (job->mounted_count < job->with_count) {
        mount_next(job);
        return;
    }
    job->worker->is_mounted = true;
    describe(job);
}

static void mount_next(struct compile_job *job) {
    const struct job_with *with = &job->withs[job->mounted_count++];
    job->is_working = true;
    link_mount(job->compiler->host->link, node_name(job->worker->node), with->token, with->at.place, on_mounted, job);
}

static void mount(struct compile_job *job) {
    const char *source = job->is_stream ? job->workspace->copy : job->token;
    job->is_working = true;
    link_mount(job->compiler->host->link, node_name(job->worker->node), source, job->project_place, on_mounted, job);
}

/* Of twenty thousand files it takes milliseconds. */
static void compare_model(uv_work_t *work) {
    struct compile_job *job = work->data;
    job->is_model_outdated = model_is_outdated(&job->worker->model, &job->workspace->tree, &job->tree);
    job->is_model_compared = true;
}

static void on_model_compared(struct compile_job *job) {
    if (job->is_model_outdated)
        describe(job);
    else
        rounds_begin(job);
}

static void on_worker_ready(void *data, struct worker *worker) {
    struct compile_job *job = data;
    job->is_worker_used = true;
    if (job->aborted)
        job_end(job);
    else if (!worker->is_mounted)
        mount(job);
    else if (worker->model.app_count == 0 || !job->content_key[0])
        describe(job);
    else
        job_work(job, compare_model, on_model_compared);
}

static void on_worker_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct compile_job *job = data;
    if (job->request.violation) job->request.violation(job->data, node, what, detail);
}

static void get_worker(struct compile_job *job);

static void on_worker_gone(void *data, const struct error *error) {
    struct compile_job *job = data;
    /* A spare that was of no use is no fault of the project's: then one is booted for it. */
    if (job->worker->was_spare && !job->is_worker_used && !job->aborted && !job->is_ending) {
        worker_rest(take_ptr(job->worker));
        get_worker(job);
        return;
    }
    job->is_worker_gone = true;
    job->worker_error = *error;
    if (job->is_working || job->is_ending) return;
    blame_worker(job);
    job_end(job);
}

static void get_worker(struct compile_job *job) {
    static const struct worker_user user = {
        .ready = on_worker_ready, .violation = on_worker_violation, .gone = on_worker_gone};
    struct workspace *workspace = job->workspace;
    struct error error;
    if (workspace->worker && workspace->worker->memory_bytes != job->request.memory_bytes)
        worker_kill(workspace->worker, "it is to have another bound of memory");
    if (workspace->worker && worker_is_outdated(workspace->worker))
        worker_kill(workspace->worker, "another rebar3 was installed");
    if (workspace->worker && !workspace->worker->is_ending) {
        job->worker = workspace->worker;
        worker_take_again(job->worker, &user, job);
        return;
    }
    struct worker_needs needs = {job->request.toolchain, job->request.memory_bytes, job->request.owner};
    job->worker = workspace->worker = worker_take(job->compiler, &needs, &user, job, &error);
    if (job->worker) return;
    job_fail(job, &error);
    job_end(job);
}

/* ---- looking at the project, off the loop's thread ---- */

/* One folder for all copies of a project: its worker has it mounted. */
static int make_copy_folder(struct compile_job *job, struct error *reterr) {
    char name[17], path[PATH_MAX];
    uint64_t unique = clock_monotonic_us() ^ (uint64_t)(uintptr_t)job;
    hex_encode((const uint8_t *)&unique, 8, name);
    int result = string_format(path, sizeof path, reterr, "%s/project-%s", store_scratch(job->compiler->store), name);
    if (result < 0) return result;
    if (mkdir(path, 0755) < 0) return error_errno(reterr, errno, "making %s", path);
    memcpy(job->workspace->copy, path, sizeof path);
    return 0;
}

static int open_copy(struct compile_job *job, struct error *reterr) {
    const char *copy = job->workspace->copy;
    int result = copy[0] ? 0 : make_copy_folder(job, reterr);
    job->has_copy = result == 0;
    if (result == 0) result = receive_project(job->project_fd, copy, reterr);
    if (result < 0) return result;
    fd_close(job->project_fd);
    job->project_fd = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return job->project_fd < 0 ? error_errno(reterr, errno, "opening %s", copy) : 0;
}

/* With rebar3 there, or another one, a project may be something else. */
static void hash_rebar3(const struct compile_job *job, struct hash *hash) {
    struct toolchain_rebar3 rebar3 = {0};
    if (job->kind != SOURCE_REBAR3 || !toolchain_find_rebar3(job->request.toolchain, &rebar3)) return;
    hash_text(hash, rebar3.path);
    hash_bytes(hash, &rebar3.size, sizeof rebar3.size);
    hash_bytes(hash, &rebar3.modified_ns, sizeof rebar3.modified_ns);
}

static void hash_content(const struct compile_job *job, const char *whose, char ret_key[STORE_DIGEST_BYTES]) {
    struct hash hash;
    uint8_t digest[DIGEST_BYTES];
    hash_begin(&hash);
    hash_text(&hash, "content");
    hash_text(&hash, whose);
    hash_bytes(&hash, &job->request.owner, sizeof job->request.owner);
    hash_text(&hash, job->request.toolchain->digest);
    hash_text(&hash, source_kind_name(job->kind));
    hash_rebar3(job, &hash);
    hash_text(&hash, job->name);
    hash_text(&hash, job->file_name);
    hash_text(&hash, job->mix_env);
    hash_text(&hash, job->with_key);
    if (job->request.extra != COMPILE_PLAIN) hash_text(&hash, compile_extra_name(job->request.extra));
    hash_bytes(&hash, job->tree.digest, sizeof job->tree.digest);
    if (hash_end(&hash, digest)) hex_encode(digest, sizeof digest, ret_key);
}

/* A project that is not ours can change between being read here and being compiled, so its key also names its folder:
   a process that does that spoils only that folder's own builds. A copy can't change, but what compiled the one
   before may still be there: its key names its scope. */
static void name_content(struct compile_job *job) {
    hash_content(job, job->is_stream ? job->scope : job->place, job->content_key);
    if (job->is_stream) hash_content(job, "ours", job->shared_key);
}

static bool find_build(struct compile_job *job, const char *key, char ret_digest[STORE_DIGEST_BYTES], json_t **ret) {
    char path[PATH_MAX];
    struct error ignored;
    if (!cache_find(job->compiler->host->home, job->compiler->store, key, ret_digest)) return false;
    if (store_build_path(job->compiler->store, ret_digest, path, sizeof path, &ignored) == 0 &&
        build_read_facts(path, ret, &ignored) == 0)
        return true;
    ret_digest[0] = '\0'; /* damaged: make it anew */
    return false;
}

/* The last build of this project: most of it may still be good. */
static void find_base(struct compile_job *job) {
    struct error ignored;
    const struct workspace *workspace = job->workspace;
    if (workspace->facts) {
        job->base_facts = json_incref(workspace->facts);
        memcpy(job->base, workspace->build, sizeof job->base);
    } else if (!find_build(job, job->scope, job->base, &job->base_facts)) {
        return;
    }
    if (store_build_path(job->compiler->store, job->base, job->base_path, sizeof job->base_path, &ignored) < 0 ||
        !job->base_facts) {
        json_decref(take_ptr(job->base_facts)); /* it was swept */
        job->base[0] = '\0';
    }
}

static void scan_project(struct compile_job *job) {
    static const struct tree nothing; /* of a copy, files are new even where they look as before */
    const struct tree *before = job->is_stream ? &nothing : &job->workspace->tree;
    struct tree_folder folders[WITHS_MAX + 1] = {{job->project_fd, ""}};
    for (size_t i = 0; i < job->with_count; i++)
        folders[i + 1] = (struct tree_folder){job->withs[i].fd, job->withs[i].at.seen};
    if (tree_scan(folders, job->with_count + 1, before, &job->tree)) name_content(job);
}

static void find_earlier_build(struct compile_job *job) {
    job->is_cached = (job->shared_key[0] && find_build(job, job->shared_key, job->digest, &job->facts)) ||
                     (job->content_key[0] && find_build(job, job->content_key, job->digest, &job->facts));
    if (job->is_cached) {
        job->report = json_deep_copy(json_object_get(job->facts, "report"));
        job->brief = build_brief(job->facts);
        job->kept_facts = facts_to_keep(job->facts);
    } else if (job->content_key[0]) {
        find_base(job);
    }
}

static void look(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    int result = job->is_stream ? open_copy(job, &error) : 0;
    if (result == 0) {
        job->kind = job->is_file ? SOURCE_FILE : source_detect(job->project_fd);
        result = extras_check(job, &error);
    }
    if (result < 0) {
        job_fail(job, &error);
        return;
    }
    scan_project(job);
    find_earlier_build(job);
}

static void on_found(struct compile_job *job) {
    struct error error;
    bool elixir_needed = job->kind == SOURCE_MIX || (job->is_file && string_ends(job->file_name, ".ex"));
    if (job->is_cached) {
        job_end(job);
    } else if (elixir_needed && !job->request.toolchain->elixir_lib[0]) {
        error_set(&error, E_TOOLCHAIN, "%s is written in Elixir, which is not installed", job->request.source);
        job_fail(job, &error);
        job_end(job);
    } else {
        get_worker(job);
    }
}

/* On the pool: facts may be large. */
static void forget_found(uv_work_t *work) {
    struct compile_job *job = work->data;
    json_decref(take_ptr(job->facts));
    json_decref(take_ptr(job->report));
    json_decref(take_ptr(job->brief));
    json_decref(take_ptr(job->kept_facts));
    json_decref(take_ptr(job->base_facts));
    job->digest[0] = job->base[0] = '\0';
    job->is_cached = false;
}

/* A sweep that was requested before this job began does not know what the job found. Later ones leave its owner's
   builds alone. */
static void on_looked(struct compile_job *job) {
    const char *found = job->is_cached ? job->digest : job->base;
    if (found[0] && !store_build_stays(job->compiler->store, found))
        job_work(job, forget_found, on_found);
    else
        on_found(job);
}

void job_begin(struct compile_job *job) {
    job->started_ms = uv_now(job->compiler->host->loop);
    if (!job->aborted) job_work(job, look, on_looked);
}

void compile_abort(struct compile_job *job) {
    if (job->aborted || job->is_ending) return;
    bool only_waited = job->workspace->jobs != job || !job->has_begun;
    job->aborted = true;
    if (job->is_working) return; /* the step finds it called off */
    if (only_waited)
        job_work(job, do_nothing, NULL); /* likewise */
    else if (job->worker)
        worker_kill(job->worker, "the compilation was called off");
}

json_t *compile_take_facts(struct compile_job *job) {
    return json_incref(job->brief);
}
