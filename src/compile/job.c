/* One compilation: receive the project if need be, start a compiler node, ask it, keep what it made, throw it away. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

struct compile_job {
    struct compile_request request;
    compile_done_fn done;
    void *data;
    uint64_t started_ms;

    int project_fd; /* a folder to read priv from */
    char token[64];
    char file_name[NAME_MAX + 1]; /* of a single file */
    bool is_stream, is_file;
    char copy[PATH_MAX]; /* our copy of a streamed project; "" when there is none */
    enum source_kind kind;
    char name[NAME_MAX + 1];      /* of the project, as its path ends */
    char key[STORE_DIGEST_BYTES]; /* in the cache; "" when it can't be told */
    bool cached;

    uv_work_t work;
    struct node *node;
    bool aborted;
    bool build_under_way;
    struct file_list list;
    json_t *facts;
    json_t *report;
    char digest[STORE_DIGEST_BYTES];
    struct error error;
};

static void fail(struct compile_job *job, const struct error *error) {
    if (job->error.code == E_NONE) job->error = *error;
}

static void finish(struct compile_job *job);

static void remove_copy(uv_work_t *work) {
    struct compile_job *job = work->data;
    remove_tree(job->copy);
}

static void on_copy_removed(uv_work_t *work, int status) {
    struct compile_job *job = work->data;
    (void)status;
    job->copy[0] = '\0';
    finish(job);
}

/* Every way through a job ends here, once its node is gone. */
static void finish(struct compile_job *job) {
    if (job->copy[0]) { /* thousands of files, perhaps: not on the loop's thread */
        uv_queue_work(job->request.host->loop, &job->work, remove_copy, on_copy_removed);
        return;
    }
    if (job->aborted && job->error.code == E_NONE) error_set(&job->error, E_SHUTDOWN, "the compilation was called off");
    if (job->report) {
        uint64_t took_ms = uv_now(job->request.host->loop) - job->started_ms;
        json_object_set_new(job->report, "compilation_time_ms", json_integer((json_int_t)took_ms));
        json_object_set_new(job->report, "incremental", json_false());
        json_object_set_new(job->report, "cache_hit", json_boolean(job->cached));
    }
    bool failed = job->error.code != E_NONE;
    job->done(job->data, failed ? NULL : job->digest, take_ptr(job->report), failed ? &job->error : NULL);
    file_list_free(&job->list);
    json_decref(job->facts);
    fd_close(job->project_fd);
    free(job);
}

static void end_node(struct compile_job *job) {
    if (job->node)
        node_kill(job->node, "the compilation is over");
    else
        finish(job);
}

/* ---- keeping what was made ---- */

static void on_build_kept(void *data, const char *digest, const struct error *error) {
    struct compile_job *job = data;
    job->build_under_way = false;
    if (error) {
        fail(job, error);
    } else {
        snprintf(job->digest, sizeof job->digest, "%s", digest);
        if (job->key[0]) cache_keep(job->request.host->home, job->key, digest);
    }
    end_node(job);
}

static void collect_all_priv(uv_work_t *work) {
    struct compile_job *job = work->data;
    json_t *app;
    size_t i;
    struct error error;
    json_array_foreach(json_object_get(job->facts, "apps"), i, app) {
        const char *folder = json_string_value(json_object_get(app, "dir"));
        const char *name = json_string_value(json_object_get(app, "name"));
        if (!json_is_true(json_object_get(app, "priv"))) continue;
        if (folder && collect_priv(job->project_fd, folder, name, &job->list, &error) < 0) fail(job, &error);
    }
}

static void keep_build(uv_work_t *work, int status) {
    struct compile_job *job = work->data;
    (void)status;
    struct error error;
    json_object_set(job->facts, "report", job->report);
    char *facts = json_dumps(job->facts, JSON_SORT_KEYS | JSON_COMPACT);
    if (!facts || file_list_add(&job->list, BUILD_FACTS_FILE, facts, strlen(facts), &error) < 0) {
        error_set(&error, E_NO_MEMORY, "no memory for the build's description");
        fail(job, &error);
    }
    if (job->error.code != E_NONE || job->aborted) {
        job->build_under_way = false;
        end_node(job);
        return;
    }
    store_put_build(job->request.store, job->list.files, job->list.count, on_build_kept, job);
}

/* ---- asking the compiler node ---- */

static json_t *failed_report(const struct term *reason) {
    json_t *report = json_object();
    json_object_set_new(report, "status", json_string("error"));
    json_object_set_new(report, "beam_files", json_array());
    json_object_set_new(report, "compiled", json_array());
    json_object_set_new(report, "app_file", json_null());
    json_object_set_new(report, "warnings", diagnostics_to_json(term_map_get(reason, "warnings")));
    json_object_set_new(report, "errors", diagnostics_to_json(term_map_get(reason, "errors")));
    return report;
}

static void on_compiled(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct compile_job *job = data;
    struct error bad;
    if (error) {
        if (error->code == E_COMPILE && reason) job->report = failed_report(reason);
        fail(job, error);
        if (error->code == E_NODE || error->code == E_LIMIT) error_prefix(&job->error, "compiling failed");
        if (error->code == E_TIMEOUT)
            error_set(&job->error, E_TIMEOUT, "compiling %s took longer than %llu ms", job->request.source,
                      (unsigned long long)job->request.deadline_ms);
    } else if (answer_to_build(result, &job->list, &job->facts, &job->report, &bad) < 0) {
        fail(job, &bad);
    }
    if (job->error.code == E_INVALID) error_prefix(&job->error, "%s", job->request.source); /* an empty project, say */
    if (job->error.code != E_NONE) {
        end_node(job);
        return;
    }
    job->build_under_way = true;
    job->work.data = job;
    uv_queue_work(job->request.host->loop, &job->work, collect_all_priv, keep_build);
}

static void on_compiler_ready(void *data, struct node *node) {
    struct compile_job *job = data;
    struct buf args = BUF_INIT;
    if (job->build_under_way || job->aborted) return;
    term_put_map(&args, 4);
    term_put_atom(&args, "source");
    term_put_string(&args, "/src");
    term_put_atom(&args, "kind");
    term_put_atom(&args, source_kind_name(job->kind));
    term_put_atom(&args, "file");
    if (job->is_file)
        term_put_string(&args, job->file_name);
    else
        term_put_atom(&args, "nil");
    term_put_atom(&args, "name");
    term_put_string(&args, job->name);
    node_call(node, "compile", &args, job->request.deadline_ms, on_compiled, job);
}

static void on_compiler_gone(void *data, struct node *node, const struct node_end *end) {
    (void)node;
    struct compile_job *job = data;
    job->node = NULL;
    bool finished = job->digest[0] || job->error.code != E_NONE || job->aborted;
    if (!finished) {
        fail(job, &end->error);
        error_prefix(&job->error, "the compiler node ended");
    }
    if (!job->build_under_way) finish(job);
}

static void on_compiler_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct compile_job *job = data;
    if (job->request.violation) job->request.violation(job->data, node, what, detail);
}

static void start_node(struct compile_job *job) {
    static const struct node_handler handler = {
        .ready = on_compiler_ready, .violation = on_compiler_violation, .gone = on_compiler_gone};
    const struct jail_profile *profile = jail_profile_find("compiler");
    struct node_spec spec = {
        .kind = NODE_COMPILER,
        .profile = profile,
        .limits = profile->limits,
        .project = job->copy[0] ? job->copy : job->token,
        .project_is_token = !job->copy[0],
    };
    struct error error;
    if (job->aborted || node_start(job->request.host, &spec, &handler, job, &job->node, &error) < 0) {
        if (!job->aborted) fail(job, &error);
        finish(job);
    }
}

/* ---- looking at the project, off the loop's thread ---- */

static int open_copy(struct compile_job *job, struct error *reterr) {
    char name[17];
    int result = snprintf(job->copy, sizeof job->copy, "%s/store/tmp/project-", job->request.host->home) < 0 ? -1 : 0;
    uint64_t unique = clock_monotonic_us() ^ (uint64_t)(uintptr_t)job;
    hex_encode((const uint8_t *)&unique, 8, name);
    strncat(job->copy, name, sizeof job->copy - strlen(job->copy) - 1);
    if (mkdir(job->copy, 0755) < 0) result = error_errno(reterr, errno, "making %s", job->copy);
    if (result == 0) result = receive_project(job->project_fd, job->copy, reterr);
    if (result < 0) return result;
    fd_close(job->project_fd);
    job->project_fd = open(job->copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return job->project_fd < 0 ? error_errno(reterr, errno, "opening %s", job->copy) : 0;
}

static void look_at_project(uv_work_t *work) {
    struct compile_job *job = work->data;
    struct error error;
    if (job->is_stream && open_copy(job, &error) < 0) fail(job, &error);
    job->kind = job->is_file ? SOURCE_FILE : source_detect(job->project_fd);
    const struct node_host *host = job->request.host;
    struct cache_subject subject = {.folder = job->project_fd,
                                    .is_ours = job->is_stream,
                                    .owner = job->request.owner,
                                    .toolchain = host->toolchain.digest,
                                    .kind = source_kind_name(job->kind),
                                    .name = job->name};
    if (job->error.code != E_NONE || !cache_key(&subject, job->key)) job->key[0] = '\0';
    job->cached = job->key[0] && cache_find(host->home, job->request.store, job->key, job->digest);
}

/* The same content was compiled before: its build is there, and says what the compiler said. */
static void use_cached(struct compile_job *job) {
    struct build build = {0};
    struct error error;
    if (build_read(job->request.store, job->digest, &build, &error) < 0) { /* damaged: make it anew */
        job->digest[0] = '\0';
        job->cached = false;
        start_node(job);
        return;
    }
    job->report = json_deep_copy(json_object_get(build.facts, "report"));
    build_free(&build);
    finish(job);
}

static void on_looked(uv_work_t *work, int status) {
    struct compile_job *job = work->data;
    (void)status;
    bool elixir_needed = job->kind == SOURCE_MIX || (job->is_file && string_ends(job->file_name, ".ex"));
    if (elixir_needed && !job->request.host->toolchain.elixir_lib[0] && job->error.code == E_NONE)
        error_set(&job->error, E_TOOLCHAIN, "%s is written in Elixir, which is not installed", job->request.source);
    if (job->error.code != E_NONE)
        finish(job);
    else if (job->cached)
        use_cached(job);
    else
        start_node(job);
}

struct compile_job *compile_start(const struct compile_request *request, compile_done_fn done, void *data) {
    struct compile_job *job = calloc(1, sizeof *job);
    if (!job) abort(); /* as in node_call */
    const struct jail_project *project = request->project;
    *job = (struct compile_job){
        .request = *request, .done = done, .data = data, .is_stream = project->is_stream, .is_file = project->is_file};
    job->started_ms = uv_now(request->host->loop);
    job->request.project = NULL;
    job->project_fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0);
    snprintf(job->token, sizeof job->token, "%s", project->token ? project->token : "");
    snprintf(job->file_name, sizeof job->file_name, "%s", project->name ? project->name : "");
    const char *slash = strrchr(request->source, '/');
    snprintf(job->name, sizeof job->name, "%s", slash ? slash + 1 : request->source);
    job->work.data = job;
    uv_queue_work(request->host->loop, &job->work, look_at_project, on_looked);
    return job;
}

void compile_abort(struct compile_job *job) {
    job->aborted = true;
    if (job->node && !job->build_under_way) node_kill(job->node, "the compilation was called off");
}
