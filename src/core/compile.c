/* compile: a project, or source text handed in, compiled for its diagnostics and without a sandbox. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/errand.h"

static void on_compiled(struct errand *errand, const char *digest) {
    (void)digest;
    errand_answer(errand, take_ptr(errand->report));
}

static void on_opened(struct errand *errand, const struct jail_project *project) {
    errand_compile(errand, project, on_compiled);
}

/* ---- source text: a file that is nowhere but in the compiler's copy of it ---- */

static void put_encoded(struct buf *buf, const char *name) {
    for (const uint8_t *at = (const uint8_t *)name; *at; at++)
        if (isalnum(*at) || *at == '.' || *at == '_' || *at == '-')
            buf_append_byte(buf, *at);
        else
            buf_printf(buf, "%%%02X", *at);
}

/* As the launcher would send it: see the stream of a project in docs/architecture.md. */
static int stream_of(const char *name, const char *code, size_t size, struct error *reterr) {
    CLEANUP(buf_free) struct buf head = BUF_INIT;
    buf_printf(&head, "F 644 %zu ", size);
    put_encoded(&head, name);
    buf_append_byte(&head, '\n');
    CLEANUP_FD int fd = memfd_create("source", MFD_CLOEXEC);
    if (fd < 0 || head.failed || file_write_all(fd, head.data, head.size) < 0 || file_write_all(fd, code, size) < 0 ||
        file_write_all(fd, "E\n", 2) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(reterr, errno, "handing %s to the compiler", name);
    return take_fd(&fd);
}

static void compile_text(struct errand *errand, const struct jail_project *none) {
    json_t *code = json_object_get(errand->request->params, "code");
    struct error error;
    (void)none;
    errand->source = json_string_value(json_object_get(errand->request->params, "file"));
    CLEANUP_FD int fd = stream_of(errand->source, json_string_value(code), json_string_length(code), &error);
    if (fd < 0) {
        errand_fail(errand, &error, NULL);
        return;
    }
    struct jail_project project = {.token = "", .fd = fd, .is_stream = true, .is_file = true, .name = errand->source};
    errand_compile(errand, &project, on_compiled);
}

/* ---- checking what was asked for ---- */

static int check(json_t *params, struct error *reterr) {
    bool has_source = json_object_get(params, "source"), has_code = json_object_get(params, "code");
    const char *file = json_string_value(json_object_get(params, "file"));
    if (has_source == has_code)
        return error_set(reterr, E_INVALID, "%s", has_code ? "a path or code, not both" : "a path is missing, or code");
    if (has_code && !file) return error_set(reterr, E_INVALID, "file is missing: the name that the code goes by");
    if (has_source && file) return error_set(reterr, E_INVALID, "file: a path has its own name");
    if (file && (strchr(file, '/') || file[0] == '.'))
        return error_set(reterr, E_INVALID, "file: \"%s\" is not a file's name such as counter.ex", file);
    return 0;
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
        errand_open(errand, source, on_opened);
    else
        errand_prepare(errand, compile_text);
}
