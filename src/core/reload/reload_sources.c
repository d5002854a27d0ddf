/* What a reload brings: the project as it is now, some of its files, other sources, BEAM files, or source text. One
   path after the other is opened with the caller's rights, and compiled or read. */
#include <fcntl.h>
#include <string.h>

#include "compile/check/beam_files.h"
#include "core/jobs/source_text.h"
#include "core/policy/permission.h"
#include "core/reload/reload_job.h"
#include "core/sandbox/tree.h"

enum {
    NAMES_TOLD = 40000,          /* in each list of a report, as many as one build has */
    RELOAD_MODULES_MAX = 100000, /* of all paths */
};

static struct engine *engine_of(const struct reload_job *reload) {
    return reload->job.sandbox->engine;
}

static const char *project_of(const struct reload_job *reload) {
    return reload->job.sandbox->config.source;
}

static struct reload_part *part_of(struct reload_job *reload) {
    return &reload->parts[reload->part_at];
}

void reload_release_project(struct reload_job *reload) {
    struct engine *engine = engine_of(reload);
    if (reload->token[0]) link_release_project(engine->host.link, reload->token);
    reload->token[0] = '\0';
    withs_release(&reload->withs);
    reload->has_withs = false;
    if (reload->has_project) quotas_give(engine->config.quotas, reload->project_uid, QUOTA_PROJECTS, 1);
    reload->has_project = false;
}

void reload_free_parts(struct reload_job *reload) {
    module_set_free(&reload->wanted);
    for (size_t i = 0; i < reload->part_count; i++) {
        build_free(&reload->parts[i].build);
        json_decref(reload->parts[i].facts);
        json_decref(reload->parts[i].chosen);
        module_set_free(&reload->parts[i].beams);
    }
    free(take_ptr(reload->parts));
    reload->part_count = 0;
    json_decref(take_ptr(reload->report));
}

static void release_report(void *report) {
    json_decref(report);
}

/* With as many names and texts as its project is large. */
static void discard_report(const struct reload_job *reload, json_t *report) {
    if (report) loop_discard(reload->loop, release_report, report);
}

bool reload_is_project(const struct reload_job *reload) {
    return reload->is_whole && reload->part_count == 1;
}

/* ---- all of it ---- */

static int choose(const struct reload_part *part, struct module_set *set, struct error *reterr) {
    CLEANUP_FREE bool *marks = calloc(set->count + 1, sizeof *marks);
    json_t *path;
    size_t i;
    if (!marks) return error_set(reterr, E_NO_MEMORY, "no memory for the modules of a reload");
    json_array_foreach(part->chosen, i, path) {
        if (module_set_mark(set, json_string_value(path), marks) == 0)
            return error_set(reterr, E_INVALID, "%s/%s is no source of the project", part->path,
                             json_string_value(path));
    }
    module_set_keep(set, marks);
    return 0;
}

static int join_part(struct reload_part *part, struct module_set *all, struct error *reterr) {
    CLEANUP(module_set_free) struct module_set set = {0};
    if (!part->build.digest[0]) return 0;
    int result = part->facts ? 0 : build_read_facts(part->build_path, &part->facts, reterr);
    if (result == 0) result = module_set_read(part->build_path, part->facts, &set, reterr);
    if (result == 0 && part->chosen) result = choose(part, &set, reterr);
    for (size_t i = 0; i < set.count; i++) set.items[i].named_by = part->path;
    return result < 0 ? result : module_set_join(all, &set, reterr);
}

int reload_join_parts(struct reload_job *reload, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; !reload->has_wanted && i < reload->part_count && result == 0; i++) {
        result = module_set_join(&reload->wanted, &reload->parts[i].beams, reterr);
        if (result == 0) result = join_part(&reload->parts[i], &reload->wanted, reterr);
    }
    if (result == 0) reload->has_wanted = true;
    return result;
}

/* ---- toolchain ---- */

int reload_check_sources(const struct request *request, struct error *reterr) {
    bool has_code = json_object_get(request->params, "code"), has_paths = json_object_get(request->params, "paths");
    int result = has_code ? 0 : caller_check_paths(&request->caller, reterr);
    return result < 0 ? result : source_text_check(request->params, has_paths, reterr);
}

static void list_parts(struct reload_job *reload) {
    json_t *paths = reload_param(reload, "paths");
    size_t count = json_array_size(paths);
    const char *file = json_string_value(reload_param(reload, "file"));
    reload->parts = zeroed_or_abort(count + 2, sizeof *reload->parts); /* the project may be added */
    for (size_t i = 0; i < count; i++) reload->parts[i].path = json_string_value(json_array_get(paths, i));
    if (count == 0) reload->parts[0].path = file ? file : project_of(reload);
    reload->part_count = count ? count : 1;
    for (size_t i = 0; i < reload->part_count; i++)
        if (strcmp(reload->parts[i].path, project_of(reload)) == 0) reload->is_whole = true;
}

static void on_toolchain(void *data, const struct error *error) {
    struct reload_job *reload = data;
    step_done(&reload->steps, error);
}

void reload_find_toolchain(void *job) {
    list_parts(job);
    toolchain_need(((struct reload_job *)job)->job.sandbox->toolchain, on_toolchain, job);
}

/* ---- open ---- */

/* The path of a file or folder in the sandbox's own project; NULL when it is elsewhere. */
static const char *path_in_project(const struct reload_job *reload, const char *path) {
    size_t length = strlen(project_of(reload));
    return strncmp(path, project_of(reload), length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* Files of the project are compiled with all of it, which comes last then. */
static void choose_in_project(struct reload_job *reload, const char *inside) {
    struct reload_part *last = &reload->parts[reload->part_count - 1];
    if (!last->chosen) {
        last = &reload->parts[reload->part_count++]; /* there is room for it */
        *last = (struct reload_part){.path = project_of(reload), .chosen = json_array()};
    }
    json_array_append_new(last->chosen, json_string(inside));
}

static bool holds_beams(const struct reload_job *reload, const struct link_project *project, const char *path) {
    if (strcmp(path, project_of(reload)) == 0) return false;
    if (project->is_file) return string_ends(path, ".beam");
    return !project->is_stream && source_is_ebin(project->fd);
}

/* The part at hand is complete. */
static void open_next(struct reload_job *reload) {
    reload_release_project(reload);
    reload->part_at++;
    step_go(&reload->steps, RELOAD_OPEN);
}

static void take_opened(struct reload_job *reload, const struct link_project *project) {
    const char *path = part_of(reload)->path, *inside = path_in_project(reload, path);
    bool has_beams = holds_beams(reload, project, path);
    if (!has_beams && inside) {
        if (!reload->is_whole) choose_in_project(reload, inside); /* otherwise it comes with the project */
        open_next(reload);
        return;
    }
    reload->project = project;
    step_go(&reload->steps, has_beams ? RELOAD_READ : RELOAD_COMPILE);
}

/* The launcher never answers from inside its call, so the next step begins before this returns. */
static void on_project(void *data, const struct link_project *project, const struct error *error) {
    struct reload_job *reload = data;
    if (error) {
        step_done(&reload->steps, error);
        return;
    }
    snprintf(reload->token, sizeof reload->token, "%s", project->token);
    take_opened(reload, project);
    fd_close(project->fd);
}

static int take_project(struct reload_job *reload, struct error *reterr) {
    reload->project_uid = reload->job.request->caller.uid;
    int result = quotas_take(engine_of(reload)->config.quotas, reload->project_uid, QUOTA_PROJECTS, 1, reterr);
    reload->has_project = result == 0;
    return result;
}

/* What its project reads besides: only the project itself does. */
static json_t *withs_of(struct reload_job *reload) {
    return string_equal(part_of(reload)->path, project_of(reload)) ? reload->job.sandbox->config.with : NULL;
}

static void on_withs(void *data, const struct error *error) {
    struct reload_job *reload = data;
    reload->has_withs = true;
    if (error)
        step_done(&reload->steps, error);
    else
        reload_open_part(reload);
}

void reload_open_part(void *job) {
    struct reload_job *reload = job;
    struct error error;
    if (reload->part_at < reload->part_count && withs_of(reload) && !reload->has_withs) {
        withs_open(&reload->withs, engine_of(reload), &reload->job.request->caller, withs_of(reload), on_withs, reload);
        return;
    }
    if (reload->part_at == reload->part_count)
        step_go(&reload->steps, RELOAD_COMPARE);
    else if (reload_param(reload, "code"))
        step_go(&reload->steps, RELOAD_COMPILE);
    else if (take_project(reload, &error) < 0)
        step_done(&reload->steps, &error);
    else
        caller_open_project(engine_of(reload), &reload->job.request->caller, part_of(reload)->path, on_project, reload);
}

/* ---- compile ---- */

static void add_names(json_t *all, const json_t *more) {
    for (size_t i = 0; i < json_array_size(more) && json_array_size(all) < NAMES_TOLD; i++)
        json_array_append(all, json_array_get(more, i));
}

/* What was left out of either, and what there is no room for now. */
static void add_left_out(json_t *report, const json_t *more, size_t count) {
    json_int_t all = (json_int_t)count + json_integer_value(json_object_get(report, "warnings_left_out")) +
                     json_integer_value(json_object_get(more, "warnings_left_out"));
    if (all > 0) json_object_set_new(report, "warnings_left_out", json_integer(all));
}

/* Several compilations are told as one, with as much as one of them could have. What fails has none but its own errors.
 */
static void merge_report(struct reload_job *reload, json_t *report) {
    static const char *const lists[] = {"beam_files", "compiled"};
    if (!reload->report || !report) {
        discard_report(reload, reload->report);
        reload->report = report;
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        add_names(json_object_get(reload->report, lists[i]), json_object_get(report, lists[i]));
    add_left_out(reload->report, report,
                 diagnostics_join(json_object_get(reload->report, "warnings"), json_object_get(report, "warnings")));
    json_int_t took_ms = json_integer_value(json_object_get(reload->report, "compilation_time_ms")) +
                         json_integer_value(json_object_get(report, "compilation_time_ms"));
    json_object_set_new(reload->report, "compilation_time_ms", json_integer(took_ms));
    if (!json_is_true(json_object_get(report, "cache_hit")))
        json_object_set_new(reload->report, "cache_hit", json_false());
    discard_report(reload, report);
}

/* The names of all of them are kept until the reload is over. */
static int count_modules(struct reload_job *reload, const json_t *facts, struct error *reterr) {
    reload->module_count += json_array_size(json_object_get(facts, "modules"));
    if (reload->module_count <= RELOAD_MODULES_MAX) return 0;
    return error_set(reterr, E_TOO_LARGE, "the paths of the reload have more than %d modules in all",
                     RELOAD_MODULES_MAX);
}

static int take_compiled(struct reload_job *reload, const char *digest, struct compile_job *compile,
                         struct error *reterr) {
    struct reload_part *part = part_of(reload);
    int result = store_build_path(engine_of(reload)->store, digest, part->build_path, sizeof part->build_path, reterr);
    if (result < 0) return result;
    snprintf(part->build.digest, sizeof part->build.digest, "%s", digest);
    part->build.facts = compile_take_facts(compile);
    return count_modules(reload, part->build.facts, reterr);
}

static void on_compiled(void *data, const char *digest, json_t *report, const struct error *error) {
    struct reload_job *reload = data;
    struct error bad;
    struct compile_job *compile = take_ptr(reload->compile);
    if (error) discard_report(reload, take_ptr(reload->report)); /* its own diagnostics, not those of others before */
    merge_report(reload, report);
    if (!error && !reload->steps.is_called_off && take_compiled(reload, digest, compile, &bad) < 0) error = &bad;
    if (error)
        step_done(&reload->steps, error);
    else
        open_next(reload);
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    struct reload_job *reload = data;
    tree_violation(reload->job.sandbox, node, what, detail);
}

static void begin_compiling(struct reload_job *reload, const struct link_project *project) {
    struct sandbox *sandbox = reload->job.sandbox;
    struct compile_request request = {
        .compiler = sandbox->engine->compiler,
        .toolchain = &sandbox->toolchain->toolchain,
        .project = project,
        .owner = sandbox->owner,
        .subject = sandbox->id,
        .source = part_of(reload)->path,
        .withs = reload->withs.opened,
        .with_count = withs_of(reload) ? reload->withs.count : 0,
        .mix_env = sandbox->config.mix_env,
        .extra = sandbox->config.extra,
        .violation = on_violation,
    };
    compile_bounds_apply(sandbox->engine, &sandbox->config.compile_bounds, &request);
    reload->compile = compile_start(&request, on_compiled, reload);
}

static void compile_text(struct reload_job *reload) {
    struct link_project project;
    struct error error;
    if (source_text_open(reload->job.request->params, &project, &error) < 0) {
        step_done(&reload->steps, &error);
        return;
    }
    begin_compiling(reload, &project);
    fd_close(project.fd);
}

void reload_compile_part(void *job) {
    struct reload_job *reload = job;
    if (reload->project)
        begin_compiling(reload, take_ptr(reload->project));
    else
        compile_text(reload);
}

void reload_abort_compiling(void *job) {
    struct reload_job *reload = job;
    compile_abort(reload->compile);
}

/* ---- read: BEAM files ---- */

static int take_beam(struct reload_job *reload, struct beam_files *files, size_t index, struct error *reterr) {
    struct reload_part *part = part_of(reload);
    char path[BEAM_FILE_NAME_BYTES];
    struct buf content = BUF_INIT;
    int result = beam_files_read(files, index, &content, reterr);
    if (result == 0) result = beam_files_count(files, content.size, reterr);
    if (result == 0) result = reload_room_count(reload, content.size, reterr);
    if (result < 0)
        buf_free(&content);
    else
        result = module_set_add_beam(&part->beams, part->path,
                                     toolchain_generation(&reload->job.sandbox->toolchain->toolchain), content.data,
                                     content.size, reterr);
    beam_files_name(files, index, path);
    return result < 0 ? error_prefix(reterr, "%.512s", path) : 0;
}

static void read_beams(struct reload_job *reload) {
    CLEANUP(beam_files_close) struct beam_files files;
    struct beam_source source = {.fd = reload->beams_fd,
                                 .is_stream = reload->beams_are_stream,
                                 .scratch = store_scratch(engine_of(reload)->store),
                                 .path = part_of(reload)->path,
                                 .is_file = reload->beams_are_file,
                                 .call_off = &reload->steps.is_called_off};
    int result = beam_files_open(&source, &files, &reload->work_error);
    for (size_t i = 0; i < files.count && result == 0; i++) result = take_beam(reload, &files, i, &reload->work_error);
}

static void only_read(uv_work_t *work) {
    read_beams(work->data);
}

static void on_only_read(uv_work_t *work, int status) {
    struct reload_job *reload = work->data;
    (void)status;
    fd_close(reload->beams_fd);
    reload_room_settle(reload);
    if (reload->work_error.code != E_NONE)
        step_done(&reload->steps, &reload->work_error);
    else
        open_next(reload);
}

/* The last part is compared in the same turn on the pool: each turn is two hand-overs between threads. */
static void read_and_compare(uv_work_t *work) {
    struct reload_job *reload = work->data;
    read_beams(reload);
    if (reload->work_error.code == E_NONE) reload_work_comparing(reload);
}

/* The project is released with the reload: otherwise the launcher would work beside the agent. */
static void on_read_and_compared(uv_work_t *work, int status) {
    struct reload_job *reload = work->data;
    (void)status;
    fd_close(reload->beams_fd);
    reload_room_settle(reload);
    reload->part_at++;
    reload_take_comparison(reload);
}

static int take_beams(struct reload_job *reload, const struct link_project *project, struct error *reterr) {
    reload->beams_fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0);
    reload->beams_are_stream = project->is_stream;
    reload->beams_are_file = project->is_file;
    return reload->beams_fd < 0 ? error_set(reterr, E_LIMIT, "too many files are open") : 0;
}

void reload_read_part(void *job) {
    struct reload_job *reload = job;
    struct node_host *host = &engine_of(reload)->host;
    uid_t owner = reload->job.sandbox->owner;
    struct error error;
    bool is_last = reload->part_at + 1 == reload->part_count && live_code_is_known(reload->job.sandbox);
    reload->work.data = reload;
    int result = take_beams(reload, take_ptr(reload->project), &error);
    if (result == 0) result = reload_room_take(reload, &error);
    if (result == 0 && is_last) result = reload_prepare_comparing(reload, &error);
    if (result < 0) {
        fd_close(reload->beams_fd);
        step_done(&reload->steps, &error);
    } else if (is_last)
        host_work(host, owner, &reload->work, read_and_compare, on_read_and_compared);
    else
        host_work(host, owner, &reload->work, only_read, on_only_read);
}
