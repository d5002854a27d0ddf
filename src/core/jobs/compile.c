/* compile: a project, or source text handed in, compiled for its diagnostics and without a sandbox. */
#include "core/jobs/oneshot.h"

static void on_compiled(struct errand *errand, const char *digest) {
    (void)digest;
    errand_answer(errand, take_ptr(errand->report));
}

static void on_opened(struct errand *errand, const struct link_project *project) {
    errand_compile(errand, project, on_compiled);
}

static void compile_text(struct errand *errand, const struct link_project *none) {
    struct link_project project;
    struct error error;
    (void)none;
    errand->source = json_string_value(json_object_get(errand->request->params, "file"));
    if (source_text_open(errand->request->params, &project, &error) < 0) {
        errand_fail(errand, &error, NULL);
        return;
    }
    errand_compile(errand, &project, on_compiled);
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
    struct errand *errand = errand_begin(engine, request, sizeof *errand);
    if (!errand) return;
    if (source)
        errand_open_to_compile(errand, source, on_opened);
    else
        errand_prepare_to_compile(errand, compile_text);
}
