/* deps: the modules of a sandbox's build, or of a project that is compiled for it, and what each needs. */
#include <stdio.h>

#include "compile/graph/graph_read.h"
#include "core/jobs/oneshot.h"
#include "core/sandbox/sandbox.h"

struct inquiry {
    struct oneshot oneshot;
    char digest[STORE_DIGEST_BYTES];
    enum graph_format format;
    struct graph_style style;
    json_t *graph;
};

static int run(struct oneshot *oneshot, struct error *reterr) {
    struct inquiry *inquiry = (struct inquiry *)oneshot;
    return graph_of_build(oneshot->engine->store, inquiry->digest, inquiry->format, &inquiry->style, &inquiry->graph,
                          reterr);
}

static void on_read(struct oneshot *oneshot, const struct error *error) {
    struct inquiry *inquiry = (struct inquiry *)oneshot;
    if (error)
        oneshot_fail(oneshot, error, NULL);
    else
        oneshot_answer(oneshot, inquiry->graph);
}

static void read_build(struct oneshot *oneshot, const char *digest) {
    struct inquiry *inquiry = (struct inquiry *)oneshot;
    snprintf(inquiry->digest, sizeof inquiry->digest, "%s", digest);
    oneshot_work(oneshot, run, on_read);
}

static void on_opened(struct oneshot *oneshot, const struct link_project *project) {
    oneshot_compile(oneshot, project, read_build);
}

static void read_sandbox(struct oneshot *oneshot, const char *id) {
    struct sandbox *sandbox = map_get(&oneshot->engine->sandboxes, id);
    struct error error;
    if (sandbox && !sandbox_visible(sandbox, &oneshot->request->caller)) sandbox = NULL;
    if (sandbox && sandbox->code.build.digest[0]) {
        oneshot->reads_of = sandbox->owner;
        read_build(oneshot, sandbox->code.build.digest);
        return;
    }
    if (sandbox)
        error_set(&error, E_CONFLICT, "the sandbox '%s' is %s: it has no build yet", sandbox->id,
                  status_name(sandbox->status));
    else
        error_set(&error, E_NOT_FOUND, "there is no sandbox '%.64s'", id);
    oneshot_fail(oneshot, &error, NULL);
}

static enum graph_format format_of(const char *name) {
    return string_equal(name, "dot") ? GRAPH_DOT : string_equal(name, "text") ? GRAPH_TEXT : GRAPH_JSON;
}

void engine_deps(struct engine *engine, struct request *request) {
    struct inquiry *inquiry = (struct inquiry *)oneshot_begin(engine, request, sizeof *inquiry);
    if (!inquiry) return;
    const char *target = json_string_value(json_object_get(request->params, "target"));
    inquiry->format = format_of(json_string_value(json_object_get(request->params, "format")));
    inquiry->style.external = json_is_true(json_object_get(request->params, "external"));
    if (target[0] == '/')
        oneshot_open_to_compile(&inquiry->oneshot, target, on_opened);
    else
        read_sandbox(&inquiry->oneshot, target);
}
