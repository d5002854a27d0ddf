/* compile: a project, or source text handed in, compiled for its diagnostics and without a sandbox. */
#include "core/jobs/oneshot.h"
#include "core/jobs/source_text.h"

static void on_compiled(struct oneshot *oneshot, const char *digest) {
    (void)digest;
    oneshot_answer(oneshot, take_ptr(oneshot->report));
}

static void on_opened(struct oneshot *oneshot, const struct link_project *project) {
    oneshot_compile(oneshot, project, on_compiled);
}

static void compile_text(struct oneshot *oneshot, const struct link_project *none) {
    struct link_project project;
    struct error error;
    (void)none;
    oneshot->source = json_string_value(json_object_get(oneshot->request->params, "file"));
    if (source_text_open(oneshot->request->params, &project, &error) < 0) {
        oneshot_fail(oneshot, &error, NULL);
        return;
    }
    oneshot_compile(oneshot, &project, on_compiled);
    fd_close(project.fd);
}

static int check(json_t *params, struct error *reterr) {
    bool has_source = json_object_get(params, "source");
    if (!has_source && !json_object_get(params, "code"))
        return error_set(reterr, E_INVALID, "a path is missing, or code");
    return source_text_check(params, has_source, reterr);
}

void engine_compile(struct engine *engine, struct request *request) {
    struct error error;
    const char *source = json_string_value(json_object_get(request->params, "source"));
    if (check(request->params, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct oneshot *oneshot = oneshot_begin(engine, request, sizeof *oneshot);
    if (!oneshot) return;
    if (source)
        oneshot_open_to_compile(oneshot, source, on_opened);
    else
        oneshot_prepare_to_compile(oneshot, compile_text);
}
