/* Source text that a caller hands in: a file that is nowhere but in the compiler's copy of it. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core_internal.h"
#include "core/jobs/source_text.h"

int source_text_check(const json_t *params, bool has_path, struct error *reterr) {
    bool has_code = json_object_get(params, "code");
    const char *file = json_string_value(json_object_get(params, "file"));
    if (has_code && has_path) return error_set(reterr, E_INVALID, "a path or code, not both");
    if (has_code && !file) return error_set(reterr, E_INVALID, "file is missing: the name that the code goes by");
    if (!has_code && file) return error_set(reterr, E_INVALID, "file: a path has its own name");
    if (file && (strchr(file, '/') || file[0] == '.'))
        return error_set(reterr, E_INVALID, "file: \"%s\" is not a file's name such as counter.ex", file);
    return 0;
}

static void put_encoded(struct buf *buf, const char *name) {
    for (const uint8_t *at = (const uint8_t *)name; *at; at++)
        if (isalnum(*at) || *at == '.' || *at == '_' || *at == '-')
            buf_append_byte(buf, *at);
        else
            buf_printf(buf, "%%%02X", *at);
}

/* As the launcher would send it: see the stream of a project in docs/protocols/launcher.md. */
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

int source_text_open(const json_t *params, struct link_project *ret, struct error *reterr) {
    const char *file = json_string_value(json_object_get(params, "file"));
    const json_t *code = json_object_get(params, "code");
    int fd = stream_of(file, json_string_value(code), json_string_length(code), reterr);
    if (fd < 0) return fd;
    *ret = (struct link_project){.token = "", .fd = fd, .is_stream = true, .is_file = true, .name = file};
    return 0;
}
