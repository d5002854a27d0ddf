/* Folders that a call hands over to be written, or to find a service in, are held open while it lasts: the kernel shows
   the launcher that this process wants it, which no word of another could (docs/volumes.md, docs/network.md). */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/client_internal.h"

static int hold_mount(const char *text) {
    struct mount_text mount;
    if (!text || mount_text_parse(text, &mount, NULL) < 0 || mount.is_read_only) return -1;
    if (!mount_text_is_folder(mount.source)) return -1;
    /* One that can't be opened is the service's to tell of. */
    return open(mount.source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* "[NAME=]unix:PATH[:PORT]" */
static int hold_service(const char *text) {
    static const char scheme[] = "unix:";
    char folder[PATH_MAX];
    const char *path = text ? strstr(text, scheme) : NULL, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) return -1;
    path += strlen(scheme);
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    /* Not to be read: that would let the folder be written. */
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void hold_all(const json_t *texts, int (*hold)(const char *text), struct held_folders *held) {
    size_t index;
    json_t *entry;
    json_array_foreach(texts, index, entry) {
        if (held->count == HELD_FOLDERS_MAX) return;
        int fd = hold(json_string_value(entry));
        if (fd >= 0) held->fds[held->count++] = fd;
    }
}

void folders_hold(const struct op *op, const json_t *params, struct held_folders *ret) {
    *ret = (struct held_folders){0};
    for (size_t i = 0; i < op->param_count; i++) {
        const json_t *texts = json_object_get(params, op->params[i].name);
        if (op->params[i].type == OP_MOUNTS) hold_all(texts, hold_mount, ret);
        if (strcmp(op->params[i].name, "connect") == 0) hold_all(texts, hold_service, ret);
    }
}

void folders_let_go(struct held_folders *held) {
    for (size_t i = 0; i < held->count; i++) fd_close(held->fds[i]);
    held->count = 0;
}
