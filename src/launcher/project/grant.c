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
    GRANT_BYTES = 32 * 1024, /* two paths and all of a caller's groups, as words */
};

/* Names of nodes never start with a dot. */
static const char *const prefixes[GRANT_KINDS] = {
    [GRANT_SOURCE] = ".grant-", [GRANT_TOOLCHAIN] = ".toolchain-", [GRANT_FOLDER] = ".folder-"};

static const char *const folder_words[] = {[FOLDER_NONE] = NULL, [FOLDER_READ] = "ro", [FOLDER_WRITE] = "rw"};

enum folder_access folder_access_find(const char *word) {
    if (string_equal(word, folder_words[FOLDER_READ])) return FOLDER_READ;
    return string_equal(word, folder_words[FOLDER_WRITE]) ? FOLDER_WRITE : FOLDER_NONE;
}

static enum grant_kind kind_of(const struct grant *grant) {
    if (grant->folder != FOLDER_NONE) return GRANT_FOLDER;
    return grant->below[0] ? GRANT_TOOLCHAIN : GRANT_SOURCE;
}

static void name_file(const char *name, enum grant_kind kind, char ret[NAME_MAX]) {
    snprintf(ret, NAME_MAX, "%s%s", prefixes[kind], name);
}

static size_t count_grants(const struct launcher *launcher, enum grant_kind kind) {
    size_t count = 0;
    int fd = openat(launcher->slot.records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return GRANTS_MAX;
    }
    for (struct dirent *entry; (entry = readdir(listing));) count += string_starts(entry->d_name, prefixes[kind]);
    closedir(listing);
    return count;
}

static void print(const struct grant *grant, struct buf *text) {
    buf_append_string(text, "grant");
    caller_put(&grant->caller, text);
    wire_put_pair(text, "path", grant->path);
    if (grant->below[0]) wire_put_pair(text, "below", grant->below);
    if (grant->folder != FOLDER_NONE) wire_put_pair(text, "folder", folder_words[grant->folder]);
    buf_append_byte(text, '\n');
}

/* Written aside and renamed, as records are. */
int grant_write(const struct launcher *launcher, const char *name, const struct grant *grant, struct error *reterr) {
    char file[NAME_MAX];
    enum grant_kind kind = kind_of(grant);
    CLEANUP(buf_free) struct buf text = {.max = GRANT_BYTES - 1};
    name_file(name, kind, file);
    if (faccessat(launcher->slot.records_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        count_grants(launcher, kind) >= GRANTS_MAX)
        return error_set(reterr, E_LIMIT, "%d sources may be opened again already", GRANTS_MAX);
    print(grant, &text);
    if (text.failed) return error_set(reterr, E_TOO_LARGE, "the path is too long to keep");
    CLEANUP_FD int fd =
        openat(launcher->slot.records_fd, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || file_write_all(fd, text.data, text.size) < 0 ||
        renameat(launcher->slot.records_fd, ".new", launcher->slot.records_fd, file) < 0)
        return error_errno(reterr, errno, "keep the permission to open %s", grant->path);
    return 0;
}

void grant_remove(const struct launcher *launcher, const char *name, enum grant_kind kind) {
    char file[NAME_MAX];
    name_file(name, kind, file);
    unlinkat(launcher->slot.records_fd, file, 0);
}

static bool has_line(const char *lines, const char *wanted) {
    size_t length = strlen(wanted);
    for (const char *at = lines; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, wanted, length) == 0 && (at[length] == '\n' || !at[length])) return true;
    return false;
}

void grant_keep(const struct launcher *launcher, enum grant_kind kind, const char *lines) {
    int fd = openat(launcher->slot.records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing));)
        if (string_starts(entry->d_name, prefixes[kind]) && !has_line(lines, entry->d_name + strlen(prefixes[kind])))
            unlinkat(launcher->slot.records_fd, entry->d_name, 0);
    closedir(listing);
}

static bool read_path(const char *value, char ret[PATH_MAX]) {
    if (!value || !path_is_clean(value) || strlen(value) >= PATH_MAX) return false;
    memcpy(ret, value, strlen(value) + 1);
    return true;
}

/* That a permission is of its kind, whatever its file's name. */
static bool read_kind(const struct wire_message *message, enum grant_kind kind, struct grant *ret) {
    const char *below = wire_message_value(message, "below"), *folder = wire_message_value(message, "folder");
    switch (kind) {
    case GRANT_TOOLCHAIN: return !folder && read_path(below, ret->below) && project_is_below(ret->path, ret->below);
    case GRANT_FOLDER: return !below && (ret->folder = folder_access_find(folder)) != FOLDER_NONE;
    default: return !below && !folder;
    }
}

static bool read_grant(const struct wire_message *message, enum grant_kind kind, struct grant *ret) {
    return caller_take(message, &ret->caller) && read_path(wire_message_value(message, "path"), ret->path) &&
           read_kind(message, kind, ret);
}

int grant_read(const struct launcher *launcher, const char *name, enum grant_kind kind, struct grant *ret,
               struct error *reterr) {
    static const char *const things[GRANT_KINDS] = {"source", "toolchain", "folder"};
    char file[NAME_MAX], text[GRANT_BYTES];
    struct wire_message message;
    struct grant grant = {0};
    name_file(name, kind, file);
    if (file_read_text(launcher->slot.records_fd, file, text, sizeof text) < 0)
        return error_set(reterr, E_FORBIDDEN, "there is no permission to open the %s of %s any more", things[kind],
                         name);
    if (wire_message_parse(text, &message, reterr) < 0) return -1;
    if (!read_grant(&message, kind, &grant))
        return error_set(reterr, E_FORMAT, "the permission for %s is not one", name);
    *ret = grant;
    return 0;
}
