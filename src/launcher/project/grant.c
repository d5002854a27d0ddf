/* Standing permission: a caller lets the service open one path again, with the caller's rights, after the caller has
   gone, until it is withdrawn. Kept where records of nodes are, which a daemon in a stranger's hands can't write, so
   that it also outlives us. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/project/project.h"

enum {
    GRANTS_MAX = JAIL_NODES_MAX,
    GRANT_BYTES = 16 * 1024, /* a path and all of a caller's groups, as words */
};

static const char prefix[] = ".grant-"; /* names of nodes never start with a dot */

static void name_file(const char *name, char ret[NAME_MAX]) {
    snprintf(ret, NAME_MAX, "%s%s", prefix, name);
}

static size_t count_grants(const struct launcher *launcher) {
    size_t count = 0;
    int fd = openat(launcher->slot.records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return GRANTS_MAX;
    }
    for (struct dirent *entry; (entry = readdir(listing));) count += string_starts(entry->d_name, prefix);
    closedir(listing);
    return count;
}

static void print(const struct caller *caller, const char *path, struct buf *text) {
    CLEANUP(buf_free) struct buf groups = BUF_INIT;
    for (size_t i = 0; i < caller->group_count; i++) buf_printf(&groups, "%s%u", i ? "," : "", caller->groups[i]);
    buf_append_string(text, "grant");
    wire_put_number(text, "uid", caller->uid);
    wire_put_number(text, "gid", caller->gid);
    wire_put_pair(text, "groups", buf_string(&groups));
    wire_put_pair(text, "path", path);
    buf_append_byte(text, '\n');
    if (groups.failed) text->failed = true;
}

/* Written aside and renamed, as records are. */
int grant_write(const struct launcher *launcher, const char *name, const struct caller *caller, const char *path,
                struct error *reterr) {
    char file[NAME_MAX];
    CLEANUP(buf_free) struct buf text = {.max = GRANT_BYTES - 1};
    name_file(name, file);
    if (faccessat(launcher->slot.records_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        count_grants(launcher) >= GRANTS_MAX)
        return error_set(reterr, E_LIMIT, "%d sources may be opened again already", GRANTS_MAX);
    print(caller, path, &text);
    if (text.failed) return error_set(reterr, E_TOO_LARGE, "the path is too long to keep");
    CLEANUP_FD int fd =
        openat(launcher->slot.records_fd, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || file_write_all(fd, text.data, text.size) < 0 ||
        renameat(launcher->slot.records_fd, ".new", launcher->slot.records_fd, file) < 0)
        return error_errno(reterr, errno, "keep the permission to open %s", path);
    return 0;
}

void grant_remove(const struct launcher *launcher, const char *name) {
    char file[NAME_MAX];
    name_file(name, file);
    unlinkat(launcher->slot.records_fd, file, 0);
}

static bool read_groups(const char *list, struct caller *caller) {
    for (const char *at = list; at && *at;) {
        char word[16];
        uint64_t group;
        size_t length = strcspn(at, ",");
        if (length >= sizeof word || caller->group_count == CALLER_GROUPS_MAX) return false;
        memcpy(word, at, length);
        word[length] = '\0';
        if (!parse_u64(word, &group) || group >= UINT32_MAX) return false;
        caller->groups[caller->group_count++] = (gid_t)group;
        at += length + (at[length] == ',');
    }
    return list != NULL;
}

int grant_read(const struct launcher *launcher, const char *name, struct caller *ret_caller, char ret_path[PATH_MAX],
               struct error *reterr) {
    char file[NAME_MAX], text[GRANT_BYTES];
    struct wire_message grant;
    struct caller caller = {0};
    uint64_t uid, gid;
    name_file(name, file);
    if (file_read_text(launcher->slot.records_fd, file, text, sizeof text) < 0)
        return error_set(reterr, E_FORBIDDEN, "nobody lets us open the source of %s any more", name);
    if (wire_message_parse(text, &grant, reterr) < 0) return -1;
    const char *path = wire_message_value(&grant, "path");
    if (!wire_message_number(&grant, "uid", &uid) || !wire_message_number(&grant, "gid", &gid) || uid >= UINT32_MAX ||
        gid >= UINT32_MAX || !read_groups(wire_message_value(&grant, "groups"), &caller) || !path ||
        !path_is_clean(path) || strlen(path) >= PATH_MAX)
        return error_set(reterr, E_FORMAT, "the permission for %s is not one", name);
    caller.uid = (uid_t)uid;
    caller.gid = (gid_t)gid;
    *ret_caller = caller;
    memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}
