/* Folders that a call hands over to be written are held open while it lasts: the kernel shows the service that this
   process wants it, which no word of another could (docs/volumes.md). */
#include <fcntl.h>

#include "client/client_internal.h"

static int hold(const char *text) {
    struct mount_text mount;
    if (!text || mount_text_parse(text, &mount, NULL) < 0 || mount.is_read_only) return -1;
    if (!mount_text_is_folder(mount.source)) return -1;
    /* One that can't be opened is the service's to tell of. */
    return open(mount.source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void folders_hold(const struct op *op, const json_t *params, struct held_folders *ret) {
    size_t index;
    json_t *entry;
    *ret = (struct held_folders){0};
    for (size_t i = 0; i < op->param_count; i++) {
        if (op->params[i].type != OP_MOUNTS) continue;
        json_array_foreach(json_object_get(params, op->params[i].name), index, entry) {
            if (ret->count == HELD_FOLDERS_MAX) return;
            int fd = hold(json_string_value(entry));
            if (fd >= 0) ret->fds[ret->count++] = fd;
        }
    }
}

void folders_let_go(struct held_folders *held) {
    for (size_t i = 0; i < held->count; i++) fd_close(held->fds[i]);
    held->count = 0;
}
