/* The folder of images: what is in it, and whose. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/project/project.h"
#include "launcher/volumes/volumes.h"

static const char folder[] = "volumes";

/* ---- names ---- */

void volume_name_file(const char *name, uid_t owner, char ret[VOLUME_FILE_BYTES]) {
    snprintf(ret, VOLUME_FILE_BYTES, "%u-%s", owner, name);
}

bool volume_read_file_name(const char *file, struct volume *ret) {
    char digits[16];
    uint64_t owner;
    size_t length = strcspn(file, "-");
    if (length == 0 || length >= sizeof digits || !file[length] || !plan_name_is_valid(file + length + 1)) return false;
    memcpy(digits, file, length);
    digits[length] = '\0';
    if (!parse_u64(digits, &owner) || owner >= UINT32_MAX) return false;
    *ret = (struct volume){.owner = (uid_t)owner};
    snprintf(ret->name, sizeof ret->name, "%s", file + length + 1);
    snprintf(ret->file, sizeof ret->file, "%s", file);
    return true;
}

/* ---- the folder ---- */

/* The home is the daemon's, which may put anything in the folder's place, but nothing that is root's alone. */
static int check_folder(int fd, const char *home, struct error *reterr) {
    struct stat status;
    if (fstat(fd, &status) < 0) return error_errno(reterr, errno, "look at %s/%s", home, folder);
    if (status.st_uid == 0 && (status.st_mode & 07777) == 0700) return 0;
    return error_set(reterr, E_FORBIDDEN, "%s/%s is not root's alone", home, folder);
}

static DIR *open_listing(const struct launcher *launcher) {
    CLEANUP_FD int fd = openat(launcher->volumes.folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing) take_fd(&fd);
    return listing;
}

static void remove_unfinished(const struct launcher *launcher) {
    DIR *listing = open_listing(launcher);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (string_starts(entry->d_name, ".new-")) unlinkat(launcher->volumes.folder_fd, entry->d_name, 0);
    if (listing) closedir(listing);
}

void volumes_init(struct volumes *volumes) {
    volumes->folder_fd = -1;
    for (size_t i = 0; i < JAIL_VOLUMES_MAKING_MAX; i++)
        volumes->making[i] = (struct volume_making){.report_fd = -1, .pidfd = -1};
}

int volumes_open(struct launcher *launcher, struct error *reterr) {
    if (!launcher->root) return 0;
    mkdirat(launcher->home.fd, folder, 0700);
    CLEANUP_FD int fd = openat(launcher->home.fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return error_errno(reterr, errno, "open %s/%s", launcher->home.path, folder);
    if (check_folder(fd, launcher->home.path, reterr) < 0) return -1;
    launcher->volumes.folder_fd = take_fd(&fd);
    remove_unfinished(launcher);
    return 0;
}

/* ---- what is there ---- */

static bool read_entry(const struct launcher *launcher, const char *file, struct volume *ret) {
    struct stat status;
    if (!volume_read_file_name(file, ret) ||
        fstatat(launcher->volumes.folder_fd, file, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
        return false;
    ret->size_bytes = (uint64_t)status.st_size;
    return true;
}

int volume_find(const struct launcher *launcher, const char *name, struct volume *ret, struct error *reterr) {
    DIR *listing = open_listing(launcher);
    bool found = false;
    for (struct dirent *entry; listing && !found && (entry = readdir(listing));) {
        const char *dash = strchr(entry->d_name, '-');
        found = dash && strcmp(dash + 1, name) == 0 && read_entry(launcher, entry->d_name, ret);
    }
    if (listing) closedir(listing);
    return found ? 0 : error_set(reterr, E_NOT_FOUND, "there is no volume '%s'", name);
}

int volumes_print(const struct launcher *launcher, struct buf *text, struct error *reterr) {
    DIR *listing = open_listing(launcher);
    if (!listing && launcher->volumes.folder_fd >= 0) return error_errno(reterr, errno, "list the volumes");
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        struct volume volume;
        if (!read_entry(launcher, entry->d_name, &volume)) continue;
        buf_append_byte(text, '\n');
        wire_put_word(text, volume.name);
        wire_put_number(text, "uid", volume.owner);
        wire_put_number(text, "size", volume.size_bytes);
    }
    if (listing) closedir(listing);
    return 0;
}

bool volume_is_private(const char *name) {
    return name[0] == JAIL_VOLUME_PRIVATE;
}

int volume_remove(const struct launcher *launcher, int peer_fd, const char *name, struct error *reterr) {
    struct caller caller = {0};
    struct volume volume;
    if (!volume_is_private(name) && project_caller(launcher, peer_fd, &caller, reterr) < 0) return -1;
    if (volume_find(launcher, name, &volume, reterr) < 0) return -1;
    if (caller.uid != volume.owner && caller.uid != 0)
        return error_set(reterr, E_NOT_FOUND, "there is no volume '%s'", name);
    if (unlinkat(launcher->volumes.folder_fd, volume.file, 0) < 0)
        return error_errno(reterr, errno, "remove the volume '%s'", name);
    return 0;
}
