/* validate: a caller's BEAM files, read with the caller's rights and checked without a VM. */
#include "compile/validate.h"

#include <fcntl.h>

#include "core/jobs/oneshot.h"

struct validation {
    struct errand errand;
    struct validate_request request;
    json_t *result;
};

static int run(struct errand *errand, struct error *reterr) {
    struct validation *validation = (struct validation *)errand;
    return validate_run(&validation->request, &validation->result, reterr);
}

static void on_validated(struct errand *errand, const struct error *error) {
    struct validation *validation = (struct validation *)errand;
    fd_close(validation->request.source.fd);
    if (error)
        errand_fail(errand, errand->why.code != E_NONE ? &errand->why : error, NULL);
    else
        errand_answer(errand, validation->result);
}

static void on_opened(struct errand *errand, const struct link_project *project) {
    struct validation *validation = (struct validation *)errand;
    struct error error;
    validation->request = (struct validate_request){
        .source = {.fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0),
                   .is_stream = project->is_stream,
                   .scratch = store_scratch(errand->engine->store),
                   .path = errand->source,
                   .is_file = project->is_file,
                   .call_off = &errand->call_off},
        .otp = toolchain_generation(&errand->engine->host.toolchain),
    };
    if (validation->request.source.fd >= 0) {
        errand_work(errand, run, on_validated);
        return;
    }
    error_set(&error, E_LIMIT, "too many files are open");
    errand_fail(errand, &error, NULL);
}

void engine_validate(struct engine *engine, struct request *request) {
    struct errand *errand = errand_begin(engine, request, sizeof(struct validation));
    if (errand) errand_open(errand, json_string_value(json_object_get(request->params, "path")), on_opened);
}
