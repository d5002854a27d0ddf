/* scan: what a project does that a profile does not allow. It is compiled, its modules are scanned, and then its
   sources for what is in none of them. */
#include <fcntl.h>
#include <string.h>

#include "compile/check/scan_run.h"
#include "core/jobs/oneshot.h"

struct scanning {
    struct oneshot oneshot;
    struct scan_request request;
    char build[PATH_MAX];
    const char *profile;
    json_t *result;
};

static int run(struct oneshot *oneshot, struct error *reterr) {
    struct scanning *scanning = (struct scanning *)oneshot;
    return scan_run(&scanning->request, &scanning->result, reterr);
}

static void on_scanned(struct oneshot *oneshot, const struct error *error) {
    struct scanning *scanning = (struct scanning *)oneshot;
    fd_close(scanning->request.source.fd);
    if (error) {
        oneshot_fail(oneshot, oneshot->why.code != E_NONE ? &oneshot->why : error, NULL);
        return;
    }
    json_object_set_new(scanning->result, "profile", json_string(scanning->profile));
    oneshot_answer(oneshot, scanning->result);
}

static void scan_opened(struct oneshot *oneshot, const struct link_project *project) {
    struct scanning *scanning = (struct scanning *)oneshot;
    struct error error;
    scanning->request.build = scanning->build[0] ? scanning->build : NULL;
    scanning->request.source = (struct beam_source){.fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0),
                                                    .is_stream = project->is_stream,
                                                    .scratch = store_scratch(oneshot->engine->store),
                                                    .path = oneshot->source,
                                                    .is_file = project->is_file,
                                                    .call_off = &oneshot->call_off};
    if (scanning->request.source.fd >= 0) {
        oneshot_work(oneshot, run, on_scanned);
        return;
    }
    error_set(&error, E_LIMIT, "too many files are open");
    oneshot_fail(oneshot, &error, NULL);
}

/* The compilation has had its own look at the project, which may have come as a stream: it is opened once more. */
static void on_compiled(struct oneshot *oneshot, const char *digest) {
    struct scanning *scanning = (struct scanning *)oneshot;
    struct error error;
    link_release_project(oneshot->engine->host.link, oneshot->token);
    oneshot->token[0] = '\0';
    if (store_build_path(oneshot->engine->store, digest, scanning->build, sizeof scanning->build, &error) < 0)
        oneshot_fail(oneshot, &error, NULL);
    else
        oneshot_open(oneshot, oneshot->source, scan_opened);
}

static void on_opened(struct oneshot *oneshot, const struct link_project *project) {
    if (project->is_file && string_ends(oneshot->source, ".beam")) {
        compile_turn_give(&oneshot->turn); /* there is nothing to compile */
        scan_opened(oneshot, project);
    } else {
        oneshot_compile(oneshot, project, on_compiled);
    }
}

static int find_operations(json_t *params, struct scanning *scanning, struct error *reterr) {
    const char *name = json_string_value(json_object_get(params, "profile"));
    const struct guard_profile *profile = guard_profile_find(&scanning->oneshot.engine->profiles, name);
    if (!profile)
        return error_set(reterr, E_INVALID, "there is no profile '%.60s'; `sandbox profiles` lists them", name);
    scanning->profile = profile->jail.name;
    scanning->request.allowed = profile->operations;
    return 0;
}

void engine_scan(struct engine *engine, struct request *request) {
    struct error error;
    struct scanning *scanning = (struct scanning *)oneshot_begin(engine, request, sizeof *scanning);
    if (!scanning) return;
    if (find_operations(request->params, scanning, &error) < 0)
        oneshot_fail(&scanning->oneshot, &error, NULL);
    else
        oneshot_open_to_compile(&scanning->oneshot, json_string_value(json_object_get(request->params, "path")),
                                on_opened);
}
