/* Collects files that a build has besides what was compiled: the sources of its applications, or the project's files
   for a task of Mix. */
#include <stdio.h>
#include <string.h>

#include "compile/job.h"

#define SEEN_FROM "/src/" /* where compiler nodes have their projects */

static const char *const extra_names[] = {
    [COMPILE_PLAIN] = "", [COMPILE_WITH_SOURCES] = "sources", [COMPILE_WITH_PROJECT] = "project"};

const char *compile_extra_name(enum compile_extra extra) {
    return extra_names[extra];
}

/* ---- sources ---- */

bool extras_source_folder(const struct model_app *app, size_t index, char ret[NAME_MAX + 1]) {
    const char *path = app->sources.items[index];
    size_t dir = strlen(app->dir);
    if (dir > 0 && (strncmp(path, app->dir, dir) != 0 || path[dir] != '/')) return false;
    const char *name = dir > 0 ? path + dir + 1 : path, *end = strchr(name, '/');
    if (!end || end - name > NAME_MAX) return false;
    snprintf(ret, NAME_MAX + 1, "%.*s", (int)(end - name), name);
    return true;
}

static bool is_known(const struct name_list *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0) return true;
    return false;
}

/* Headers of src may have no source beside them; the other folders are a build's own. */
static int collect_sources(struct compile_job *job, const struct model_app *app, struct error *reterr) {
    static const char *const elsewhere[] = {"src", "include", "priv", "ebin", "consolidated"};
    CLEANUP(name_list_free) struct name_list seen = {0};
    const char *rest;
    char name[NAME_MAX + 1];
    int folder = job_folder(job, app->dir, &rest);
    for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) name_list_add(&seen, elsewhere[i]);
    int result = folder < 0 ? 0 : collect_below(folder, rest, "src", app->name, &job->list, reterr);
    for (size_t i = 0; i < app->sources.count && folder >= 0 && result == 0; i++) {
        if (!extras_source_folder(app, i, name) || is_known(&seen, name)) continue;
        name_list_add(&seen, name);
        result = collect_below(folder, rest, name, app->name, &job->list, reterr);
    }
    return result;
}

/* ---- the project ---- */

/* Members of an umbrella are the project's own, wherever they lie. */
static bool is_dependency(const struct model *model, const char *dir, size_t size) {
    size_t deps = strlen("deps/");
    for (size_t i = 0; i < model->app_count; i++) {
        const struct model_app *app = &model->apps[i];
        if (size > 0 && strlen(app->dir) == size && memcmp(app->dir, dir, size) == 0) return !app->is_own;
    }
    return size > deps && memcmp(dir, "deps/", deps) == 0 && !memchr(dir + deps, '/', size - deps);
}

/* The rest of a path that leads into a dependency; NULL: it leads into none. */
static const char *in_dependency(const struct model *model, const char *path) {
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (is_dependency(model, path, (size_t)(slash - path))) return slash + 1;
    return NULL;
}

/* A dependency is compiled, so tasks need only what its mix.exs may read. */
bool extras_wants(const struct model *model, const char *seen, const char *path, bool is_folder) {
    static const char *const left_out[] = {".git", ".elixir_ls", "node_modules", NULL};
    static const char *const left_out_of_dependencies[] = {"priv", "test", "assets", "doc", NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char whole[PATH_MAX];
    if (string_format(whole, sizeof whole, NULL, "%s%s%s", seen, seen[0] ? "/" : "", path) < 0) return false;
    const char *rest = in_dependency(model, whole);
    if (is_folder)
        return strcmp(path, "_build") != 0 && !is_one_of(name, left_out) &&
               !(rest && is_one_of(name, left_out_of_dependencies));
    return rest ? !strchr(rest, '/') || string_ends(name, ".exs") || string_ends(name, ".app.src")
                : !string_ends(name, ".beam");
}

/* One of the folders that the job has. */
struct part {
    const struct compile_job *job;
    const char *seen; /* from the project; "": itself */
};

static bool is_wanted(const void *data, const char *path, bool is_folder) {
    const struct part *part = data;
    return extras_wants(&part->job->worker->model, part->seen, path, is_folder);
}

static int collect_part(struct compile_job *job, int fd, const char *seen, const char *place, struct error *reterr) {
    struct part part = {.job = job, .seen = seen};
    struct collect_choice choice = {.is_wanted = is_wanted, .data = &part, .what = "files of the project"};
    const char *app =
        json_string_value(json_object_get(json_array_get(json_object_get(job->facts, "apps"), 0), "name"));
    char target[PATH_MAX];
    int result = string_format(target, sizeof target, reterr, "%s/mix/%s", app, place + strlen(SEEN_FROM));
    return result < 0 ? result : collect_chosen(fd, target, &choice, &job->list, reterr);
}

static int collect_project(struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    int result = collect_part(job, job->project_fd, "", job->project_place, reterr);
    for (size_t i = 0; i < job->with_count && result == 0; i++)
        result = collect_part(job, job->withs[i].fd, job->withs[i].at.seen, job->withs[i].at.place, reterr);
    json_object_set_new(job->facts, "mix",
                        json_pack("{s:s, s:s}", "place", job->project_place + strlen(SEEN_FROM), "env",
                                  model->mix_env ? model->mix_env : "dev"));
    return result;
}

/* A file that was saved meanwhile: the build is not that of the content which it would be kept for. */
static bool is_as_before(const struct compile_job *job) {
    for (size_t i = 0; i < job->tree.count; i++) {
        const struct tree_file *file = &job->tree.files[i];
        const char *rest;
        int folder = job_folder(job, file->path, &rest);
        if (folder < 0 || !tree_file_is_same(folder, rest, file)) return false;
    }
    return true;
}

int extras_collect(struct compile_job *job, struct error *reterr) {
    const struct model *model = &job->worker->model;
    int result = 0;
    if (job->request.extra == COMPILE_PLAIN) return 0;
    if (job->request.extra == COMPILE_WITH_PROJECT) result = collect_project(job, reterr);
    for (size_t i = 0; i < model->app_count && job->request.extra == COMPILE_WITH_SOURCES && result == 0; i++)
        result = collect_sources(job, &model->apps[i], reterr);
    if (result == 0 && !is_as_before(job)) job_forget_content(job);
    return result;
}

int extras_check(const struct compile_job *job, struct error *reterr) {
    if (job->request.extra != COMPILE_WITH_PROJECT || job->kind == SOURCE_MIX) return 0;
    if (job->kind == SOURCE_REBAR3)
        return error_set(reterr, E_INVALID, "%s is a rebar3 project: it has no mix.exs, and tasks of Mix need one",
                         job->request.source);
    return error_set(reterr, E_INVALID, "%s is no Mix project: it has no mix.exs", job->request.source);
}
