/* Passes the lines of the audit trail's files to a callback, one by one. Runs on the thread pool. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "audit/audit_internal.h"

enum { FILE_MAX_BYTES = 256 << 20 };

static int walk_lines(struct audit_walk *walk, const char *text, size_t size, struct error *reterr) {
    const char *end = text + size;
    int result = 0;
    walk->line = 0;
    while (result == 0 && text && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((newline ? newline : end) - text);
        walk->line++;
        result = walk->each(walk->data, text, length, newline != NULL, reterr);
        text += length + 1;
    }
    return result;
}

int audit_walk_file(struct audit_walk *walk, const char *folder, struct error *reterr) {
    char path[PATH_MAX];
    CLEANUP_FREE uint8_t *text = NULL;
    size_t size = 0;
    if (atomic_load(walk->call_off)) return error_set(reterr, E_SHUTDOWN, "it was called off");
    int result = string_format(path, sizeof path, reterr, "%s/%s", folder, walk->name);
    if (result == 0) result = file_load(path, FILE_MAX_BYTES, &text, &size, reterr);
    return result < 0 ? result : walk_lines(walk, (const char *)text, size, reterr);
}

int audit_folder_open(const char *home, char path[PATH_MAX], struct error *reterr) {
    int result = string_format(path, PATH_MAX, reterr, "%s/" AUDIT_FOLDER, home);
    if (result < 0) return result;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(reterr, errno, "opening %s", path) : fd;
}

int audit_walk_all(struct audit_walk *walk, int folder, const char *path, struct error *reterr) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    int result = audit_names_read(folder, &names, reterr);
    for (size_t i = 0; result == 0 && i < names.count; i++) {
        memcpy(walk->name, names.names[i], sizeof walk->name);
        walk->files++;
        result = audit_walk_file(walk, path, reterr);
    }
    return result;
}
