/* The folder of images: what is in it, and whose. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/schedule/share.h"
#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
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

static bool read_entry(const struct launcher *launcher, const char *file, struct volume *ret) {
    struct stat status;
    if (!volume_read_file_name(file, ret) ||
        fstatat(launcher->volumes.folder_fd, file, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
        return false;
    ret->size_bytes = (uint64_t)status.st_size;
    return true;
}

/* What begins with a dot is unfinished, a spare one, or empty ones to copy, which another version of us may make
   otherwise. */
static int read_folder(struct launcher *launcher, struct error *reterr) {
    DIR *listing = open_listing(launcher);
    int failed = listing ? 0 : error_errno(reterr, errno, "list the volumes");
    for (struct dirent *entry; !failed && (entry = readdir(listing));) {
        struct volume volume;
        if (string_starts(entry->d_name, ".new-") || string_starts(entry->d_name, ".blank-") ||
            string_starts(entry->d_name, VOLUME_SPARE_PREFIX))
            unlinkat(launcher->volumes.folder_fd, entry->d_name, 0);
        else if (read_entry(launcher, entry->d_name, &volume))
            failed = volume_add(launcher, &volume, reterr);
    }
    if (listing) closedir(listing);
    return failed;
}

void volumes_init(struct volumes *volumes) {
    *volumes = (struct volumes){.folder_fd = -1};
}

int volumes_open(struct launcher *launcher, struct error *reterr) {
    if (!launcher->root) return 0;
    mkdirat(launcher->home.fd, folder, 0700);
    CLEANUP_FD int fd = openat(launcher->home.fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return error_errno(reterr, errno, "open %s/%s", launcher->home.path, folder);
    if (check_folder(fd, launcher->home.path, reterr) < 0) return -1;
    launcher->volumes.folder_fd = take_fd(&fd);
    return read_folder(launcher, reterr);
}

/* ---- what is there ---- */

bool volume_is_private(const char *name) {
    return name[0] == JAIL_VOLUME_PRIVATE;
}

/* No list would show another. */
bool volume_name_is_listed(const char *name) {
    return !volume_is_private(name) || (name[1] && strspn(name + 1, "0123456789abcdef") == strlen(name + 1));
}

const struct volume *volume_find(const struct launcher *launcher, const char *name) {
    for (size_t i = 0; i < launcher->volumes.known_count; i++)
        if (strcmp(launcher->volumes.known[i].name, name) == 0) return &launcher->volumes.known[i];
    return NULL;
}

int volumes_check_room(const struct launcher *launcher, const struct volume *wanted, struct error *reterr) {
    bool is_private = volume_is_private(wanted->name);
    uid_t principal = principals_of(&launcher->principals, wanted->owner);
    struct share share = {.all = is_private ? JAIL_NODES_MAX : JAIL_VOLUMES_MAX, .used = 1, .own = 1};
    for (size_t i = 0; i < launcher->volumes.known_count; i++) {
        const struct volume *volume = &launcher->volumes.known[i];
        if (volume_is_private(volume->name) != is_private) continue;
        share.used++;
        share.own += principals_of(&launcher->principals, volume->owner) == principal;
    }
    if (share.used <= share.all && share_is_fair(&share, wanted->owner != 0)) return 0;
    return error_set(reterr, E_LIMIT, "there are %d volumes, %d of them of uid %u, and no more are made for it",
                     (int)share.used - 1, (int)share.own - 1, wanted->owner);
}

int volume_add(struct launcher *launcher, const struct volume *volume, struct error *reterr) {
    struct volumes *volumes = &launcher->volumes;
    if (volumes->known_count == volumes->known_room) {
        size_t room = volumes->known_room ? 2 * volumes->known_room : 16;
        struct volume *known = realloc(volumes->known, room * sizeof *known);
        if (!known) return error_set(reterr, E_NO_MEMORY, "no memory for the list of volumes");
        volumes->known = known;
        volumes->known_room = room;
    }
    volumes->known[volumes->known_count++] = *volume;
    return 0;
}

void volume_forget(struct launcher *launcher, const char *name) {
    struct volumes *volumes = &launcher->volumes;
    const struct volume *volume = volume_find(launcher, name);
    if (volume) volumes->known[volume - volumes->known] = volumes->known[--volumes->known_count];
}

int volumes_print(const struct launcher *launcher, char digit, struct buf *text, struct error *reterr) {
    for (size_t i = 0; i < launcher->volumes.known_count; i++) {
        const struct volume *volume = &launcher->volumes.known[i];
        if (digit ? !volume_is_private(volume->name) || volume->name[1] != digit : volume_is_private(volume->name))
            continue;
        buf_append_byte(text, '\n');
        wire_put_word(text, volume->name);
        wire_put_number(text, "uid", volume->owner);
        wire_put_number(text, "size", volume->size_bytes);
    }
    if (text->size < JAIL_MESSAGE_BYTES - 64) return 0;
    return error_set(reterr, E_TOO_LARGE, "there are more volumes than an answer has room for");
}
