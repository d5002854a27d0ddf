/* validate: a caller's BEAM files, read with the caller's rights and checked without a VM. */
#include "compile/check/validate.h"

#include <fcntl.h>

#include "core/jobs/oneshot.h"

struct validation {
    struct oneshot oneshot;
    struct validate_request request;
    json_t *result;
};

static int run(struct oneshot *oneshot, struct error *reterr) {
    struct validation *validation = (struct validation *)oneshot;
    return validate_run(&validation->request, &validation->result, reterr);
}

static void on_validated(struct oneshot *oneshot, const struct error *error) {
    struct validation *validation = (struct validation *)oneshot;
    fd_close(validation->request.source.fd);
    if (error)
        oneshot_fail(oneshot, oneshot->why.code != E_NONE ? &oneshot->why : error, NULL);
    else
        oneshot_answer(oneshot, validation->result);
}

static void on_opened(struct oneshot *oneshot, const struct link_project *project) {
    struct validation *validation = (struct validation *)oneshot;
    struct error error;
    validation->request = (struct validate_request){
        .source = {.fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0),
                   .is_stream = project->is_stream,
                   .scratch = store_scratch(oneshot->engine->store),
                   .path = oneshot->source,
                   .is_file = project->is_file,
                   .call_off = &oneshot->call_off},
        .otp = toolchain_generation(&oneshot->toolchain->toolchain),
    };
    if (validation->request.source.fd >= 0) {
        oneshot_work(oneshot, run, on_validated);
        return;
    }
    error_set(&error, E_LIMIT, "too many files are open");
    oneshot_fail(oneshot, &error, NULL);
}

void engine_validate(struct engine *engine, struct request *request) {
    struct oneshot *oneshot = oneshot_begin(engine, request, sizeof(struct validation));
    if (oneshot) oneshot_open(oneshot, json_string_value(json_object_get(request->params, "path")), on_opened);
}
