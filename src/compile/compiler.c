/* What all compilations share: projects with their queues and workers. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/cache/hash.h"
#include "compile/job.h"

int compiler_open(struct node_host *host, struct store *store, const struct compiler_settings *settings,
                  void (*wake)(void *data), void *data, struct compiler **ret, struct error *reterr) {
    struct compiler *compiler = calloc(1, sizeof *compiler);
    if (!compiler) return error_set(reterr, E_NO_MEMORY, "no memory for the compiler");
    compiler->host = host;
    compiler->store = store;
    compiler->settings = *settings;
    compiler->wake = wake;
    compiler->wake_data = data;
    compiler->room = room_open();
    int result = compiler->room ? objects_open(&compiler->objects, host->home, settings->cache_max_bytes, reterr)
                                : error_set(reterr, E_NO_MEMORY, "no memory for the compiler");
    if (result < 0)
        compiler_free(compiler);
    else
        *ret = compiler;
    return result;
}

void compiler_change(struct compiler *compiler, const struct compiler_settings *settings) {
    compiler->settings.idle_ms = settings->idle_ms;
    compiler->settings.warm_max = settings->warm_max;
    compiler->settings.spares = settings->spares;
}

void compiler_quiesce(struct compiler *compiler) {
    compiler->quiescing = true;
    for (struct worker *worker = compiler->workers; worker; worker = worker->next)
        if (!worker->user) worker_kill(worker, "the service is shutting down");
}

void compiler_forget(struct compiler *compiler, const struct toolchain *toolchain) {
    for (struct worker *worker = compiler->workers; worker; worker = worker->next) {
        if (worker->toolchain != toolchain) continue;
        worker->toolchain = NULL;
        if (!worker->user) worker_kill(worker, "its toolchain is not used any more");
    }
}

bool compiler_is_quiet(const struct compiler *compiler) {
    return !compiler->workers && compiler->workspaces.count == 0;
}

struct compiler *compiler_free(struct compiler *compiler) {
    if (!compiler) return NULL;
    map_free(&compiler->workspaces);
    room_close(compiler->room);
    free(compiler);
    return NULL;
}

/* ---- workspaces ---- */

static struct workspace *open_workspace(struct compiler *compiler, const char *key) {
    struct workspace *workspace = map_get(&compiler->workspaces, key);
    if (workspace) return workspace;
    workspace = new_or_abort(struct workspace);
    if (!(workspace->key = strdup(key)) || !map_set(&compiler->workspaces, key, workspace)) abort();
    workspace->compiler = compiler;
    return workspace;
}

static void release_workspace(void *data) {
    struct workspace *workspace = data;
    tree_free(&workspace->tree);
    json_decref(workspace->facts);
    free(workspace->key);
    free(workspace);
}

/* Without a worker, what is known of the project is found on disk as quickly as it is compiled. */
static void close_workspace(struct workspace *workspace) {
    struct compiler *compiler = workspace->compiler;
    map_remove(&compiler->workspaces, workspace->key);
    if (workspace->copy[0]) remove_tree(workspace->copy); /* empty: no work for this thread */
    loop_discard(compiler->host->loop, release_workspace, workspace);
    compiler->wake(compiler->wake_data);
}

void compiler_worker_gone(struct compiler *compiler, struct worker *worker) {
    size_t at = 0;
    void *value;
    while (map_next(&compiler->workspaces, &at, NULL, &value)) {
        struct workspace *workspace = value;
        if (workspace->worker != worker) continue;
        workspace->worker = NULL;
        if (!workspace->jobs) close_workspace(workspace);
        return;
    }
}

/* ---- turns: one owner has only so many compilations under way, each of which may have a node ---- */

static void do_nothing(uv_work_t *work) {
    (void)work;
}

static void on_turn(struct compile_turn *turn, const struct error *error) {
    struct compile_job *job = (struct compile_job *)((char *)turn - offsetof(struct compile_job, turn));
    if (error) {
        job_fail(job, error);
        if (!job->aborted) job_work(job, do_nothing, NULL); /* the step finds it failed */
        return;
    }
    job->has_begun = true;
    job_begin(job);
}

static void begin_in_turn(struct compile_job *job) {
    if (job->request.has_turn)
        on_turn(&job->turn, NULL);
    else
        compile_turn_take(job->compiler, job->request.owner, &job->turn, on_turn);
}

void workspace_next(struct workspace *workspace, struct compile_job *ended) {
    struct compile_job **at = &workspace->jobs;
    compile_turn_give(&ended->turn);
    bool was_first = *at == ended;
    while (*at != ended) at = &(*at)->next;
    *at = ended->next;
    if (workspace->jobs && was_first)
        begin_in_turn(workspace->jobs);
    else if (!workspace->jobs && !workspace->worker)
        close_workspace(workspace);
}

/* ---- starting a compilation ---- */

static void open_project(struct compile_job *job, const struct link_project *project) {
    job->is_stream = project->is_stream;
    job->is_file = project->is_file;
    job->project_fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0);
    snprintf(job->token, sizeof job->token, "%s", project->token ? project->token : "");
    snprintf(job->file_name, sizeof job->file_name, "%s", project->name ? project->name : "");
}

/* Which folder it is, of whose: an inode's number alone is used again, and its next owner must not get what the last
   one had compiled in it. A copy has no place but the name it came by. */
static void name_place(struct compile_job *job) {
    struct stat status;
    uint8_t digest[DIGEST_BYTES];
    char hex[2 * DIGEST_BYTES + 1];
    if (!job->is_stream && fstat(job->project_fd, &status) == 0) {
        snprintf(job->place, sizeof job->place, "%u %llx %llx", job->request.owner, (unsigned long long)status.st_dev,
                 (unsigned long long)status.st_ino);
        return;
    }
    if (EVP_Digest(job->request.source, strlen(job->request.source), digest, NULL, EVP_sha256(), NULL) != 1) abort();
    hex_encode(digest, sizeof digest, hex);
    snprintf(job->place, sizeof job->place, "%u copy %s", job->request.owner, hex);
}

static const char *subject_of(const struct compile_job *job) {
    return job->request.subject ? job->request.subject : "";
}

/* What compiled one copy may have stayed in the compiler that gets the next: a copy's are its sandbox's alone. */
static void name_scope(struct compile_job *job) {
    struct hash hash;
    uint8_t digest[DIGEST_BYTES];
    hash_begin(&hash);
    hash_text(&hash, "scope");
    if (job->is_stream) hash_text(&hash, subject_of(job));
    hash_text(&hash, job->place);
    hash_text(&hash, job->name);
    hash_text(&hash, job->file_name);
    hash_text(&hash, job->mix_env);
    hash_text(&hash, job->with_key);
    hash_text(&hash, job->request.toolchain->digest);
    if (!hash_end(&hash, digest)) abort();
    hex_encode(digest, sizeof digest, job->scope);
}

/* Which folders they are, and where the project sees them. */
static void name_withs(struct compile_job *job) {
    struct hash hash;
    uint8_t digest[DIGEST_BYTES];
    struct stat status;
    if (job->with_count == 0) return;
    hash_begin(&hash);
    hash_text(&hash, job->project_place);
    for (size_t i = 0; i < job->with_count; i++) {
        hash_text(&hash, job->withs[i].at.place);
        if (fstat(job->withs[i].fd, &status) < 0) continue;
        hash_bytes(&hash, &status.st_dev, sizeof status.st_dev);
        hash_bytes(&hash, &status.st_ino, sizeof status.st_ino);
    }
    if (!hash_end(&hash, digest)) abort();
    hex_encode(digest, sizeof digest, job->with_key);
}

static int open_withs(struct compile_job *job, const struct compile_request *request, struct error *reterr) {
    const char *paths[WITHS_MAX] = {0};
    struct with_place places[WITHS_MAX];
    size_t count = request->with_count < WITHS_MAX ? request->with_count : WITHS_MAX;
    for (size_t i = 0; i < count; i++) paths[i] = request->withs[i].path;
    int result = places_choose(request->source, paths, count, job->project_place, places, reterr);
    if (result < 0 || count == 0) return result;
    job->withs = zeroed_or_abort(count, sizeof *job->withs);
    job->with_count = count;
    for (size_t i = 0; i < count; i++) {
        job->withs[i] = (struct job_with){.at = places[i], .fd = fcntl(request->withs[i].fd, F_DUPFD_CLOEXEC, 0)};
        memcpy(job->withs[i].token, request->withs[i].token, sizeof job->withs[i].token);
    }
    name_withs(job);
    return 0;
}

/* Compilations of one project for one sandbox wait for one another. A text without a sandbox has a meaningless name: it
   meets no other. */
static struct workspace *find_workspace(struct compile_job *job) {
    char key[768];
    job->is_alone = job->is_stream && !subject_of(job)[0] && !job->token[0];
    if (job->is_alone)
        snprintf(key, sizeof key, "text %llu", (unsigned long long)++job->compiler->texts);
    else
        snprintf(key, sizeof key, "%s %.64s %.128s %.255s %.64s %.64s", job->request.toolchain->digest, subject_of(job),
                 job->place, job->file_name, job->mix_env, job->with_key);
    return open_workspace(job->compiler, key);
}

static void take_part(struct compile_job *job) {
    const struct quotas *quotas = job->compiler->settings.quotas;
    uid_t owner = job->request.owner;
    room_begin(job->compiler->room, &job->room, quotas_principal(quotas, owner), quotas_is_bound(quotas, owner));
    job->list.room = &job->room;
}

struct compile_job *compile_start(const struct compile_request *request, compile_done_fn done, void *data) {
    struct compile_job *job = new_or_abort(struct compile_job);
    *job = (struct compile_job){
        .request = *request, .compiler = request->compiler, .done = done, .data = data, .project_fd = -1};
    job->work.data = job;
    take_part(job);
    open_project(job, request->project);
    job->request.project = NULL;
    if (job->request.memory_bytes == 0) job->request.memory_bytes = worker_default_memory();
    const char *slash = strrchr(request->source, '/');
    snprintf(job->name, sizeof job->name, "%s", slash ? slash + 1 : request->source);
    snprintf(job->mix_env, sizeof job->mix_env, "%s", request->mix_env ? request->mix_env : "");
    job->request.mix_env = NULL;
    struct error error;
    if (open_withs(job, request, &error) < 0) job_fail(job, &error);
    job->request.withs = NULL;
    name_place(job);
    name_scope(job);
    job->workspace = find_workspace(job);
    struct compile_job **at = &job->workspace->jobs;
    bool is_first = !*at;
    while (*at) at = &(*at)->next;
    *at = job;
    if (is_first) begin_in_turn(job);
    return job;
}
