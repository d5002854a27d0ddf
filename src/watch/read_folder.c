/* Reads a folder on the thread pool: its files, and an inotify watch on each of its folders. The folder's owner may
   change it meanwhile with bad intent. So only real folders are followed, each through its parent's descriptor, within
   bounds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "watch/watch_internal.h"

/* Larger files are compared by times and size only: reading them at each save would be slow. */
#define DIGEST_MAX_BYTES (UINT64_C(4) << 20)

enum {
    WATCHED_EVENTS = IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK
};

/* File systems whose files change from outside this machine, which inotify can't see. */
static const struct {
    uint32_t type;
    const char *name;
} silent[] = {
    {NFS_SUPER_MAGIC, "NFS"},     {SMB_SUPER_MAGIC, "SMB"}, {0xFE534D42, "SMB"},
    {0xFF534D42, "CIFS"},         {V9FS_MAGIC, "9p"},       {FUSE_SUPER_MAGIC, "FUSE"},
    {CEPH_SUPER_MAGIC, "Ceph"},   {AFS_SUPER_MAGIC, "AFS"}, {AFS_FS_MAGIC, "AFS"},
    {CODA_SUPER_MAGIC, "Coda"},   {0x786F4256, "vboxsf"},   {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {OCFS2_SUPER_MAGIC, "OCFS2"}, {0x01161970, "GFS2"},     {0x0BD00BD0, "Lustre"},
};

struct walk {
    struct watch_reading *reading;
    size_t entries; /* files and folders */
    char path[PATH_MAX];
};

static int64_t time_ns(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* ---- one file ---- */

static bool digest_content(int fd, uint8_t ret[WATCH_DIGEST_BYTES]) {
    uint8_t chunk[16 * 1024];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    ssize_t count = -1;
    uint64_t total = 0;
    while (good && total <= DIGEST_MAX_BYTES && (count = read(fd, chunk, sizeof chunk)) > 0) {
        total += (uint64_t)count;
        good = EVP_DigestUpdate(context, chunk, (size_t)count) == 1;
    }
    good = good && count >= 0 && EVP_DigestFinal_ex(context, ret, NULL) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

static bool digest_bytes(const void *data, size_t size, uint8_t ret[WATCH_DIGEST_BYTES]) {
    return EVP_Digest(data, size, ret, NULL, EVP_sha256(), NULL) == 1;
}

static bool digest_link(int folder, const char *name, uint8_t ret[WATCH_DIGEST_BYTES]) {
    char target[PATH_MAX];
    ssize_t length = readlinkat(folder, name, target, sizeof target);
    return length >= 0 && digest_bytes(target, (size_t)length, ret);
}

static bool digest_entry(const struct walk *walk, int folder, const char *name, struct watch_file *file) {
    const struct watch_listing *before = walk->reading->before;
    const struct watch_file *known = watch_listing_find(before, file->path);
    if (S_ISLNK(file->kind)) return digest_link(folder, name, file->digest);
    if (known && watch_file_is_same(before, known, file)) {
        memcpy(file->digest, known->digest, sizeof file->digest);
        return true;
    }
    if (file->size > DIGEST_MAX_BYTES)
        return digest_bytes((uint64_t[]){file->inode, file->size, (uint64_t)file->modified_ns}, 24, file->digest);
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    return fd >= 0 && digest_content(fd, file->digest);
}

static bool take_file(struct walk *walk, int folder, const char *name, const struct stat *status) {
    struct watch_listing *listing = &walk->reading->listing;
    struct watch_file *file = watch_listing_add(listing, walk->path);
    if (!file) return false;
    file->kind = status->st_mode & S_IFMT;
    file->inode = status->st_ino;
    file->size = (uint64_t)status->st_size;
    file->changed_ns = time_ns(&status->st_ctim);
    file->modified_ns = time_ns(&status->st_mtim);
    if (digest_entry(walk, folder, name, file)) return true;
    free(file->path); /* gone meanwhile, or not readable: it counts as missing */
    listing->count--;
    return true;
}

/* ---- folders ---- */

/* Watches by descriptor: this is the folder that is read, whatever its path leads to by now. */
static void watch_folder(struct walk *walk, int fd, size_t path_length) {
    struct watch_reading *reading = walk->reading;
    char place[64];
    walk->path[path_length] = '\0';
    if (reading->folders.count >= reading->folders_max) {
        snprintf(reading->polling, sizeof reading->polling, "it has more than %zu folders", reading->folders_max);
        return;
    }
    snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(reading->inotify_fd, place, WATCHED_EVENTS);
    if (wd >= 0 && watch_folders_add(&reading->folders, wd, walk->path)) return;
    if (reading->polling[0]) return;
    if (reading->inotify_fd < 0)
        snprintf(reading->polling, sizeof reading->polling,
                 "this machine gives no more inotify descriptors (fs.inotify.max_user_instances)");
    else if (wd < 0 && errno == ENOSPC)
        snprintf(reading->polling, sizeof reading->polling,
                 "this machine lets a user watch no more folders (fs.inotify.max_user_watches)");
    else
        snprintf(reading->polling, sizeof reading->polling, "folders can't be watched here: %s", strerror(errno));
}

static bool walk_folder(struct walk *walk, int fd, size_t path_length, unsigned depth);

static bool too_many(struct walk *walk) {
    error_set(&walk->reading->error, E_LIMIT,
              "there are more than %zu files and folders to watch; tell which to ignore (--watch-ignore)",
              walk->reading->files_max);
    return false;
}

static bool visit(struct walk *walk, int folder, const char *name, size_t path_length, unsigned depth) {
    struct stat status;
    size_t name_length = strlen(name), length = path_length + name_length + (path_length > 0);
    if (length >= sizeof walk->path) return true; /* such a path can't be opened anyway */
    if (path_length > 0) walk->path[path_length] = '/';
    memcpy(walk->path + length - name_length, name, name_length + 1);
    if (watch_ignores(walk->reading->patterns, walk->path)) return true;
    if (++walk->entries > walk->reading->files_max) return too_many(walk);
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return true;
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
        return take_file(walk, folder, name, &status) || too_many(walk);
    if (!S_ISDIR(status.st_mode) || depth == WATCH_DEPTH_MAX) return true;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 || walk_folder(walk, fd, length, depth + 1);
}

/* Takes ownership of the descriptor. */
static bool walk_folder(struct walk *walk, int fd, size_t path_length, unsigned depth) {
    watch_folder(walk, fd, path_length);
    DIR *directory = fdopendir(fd);
    bool whole = true;
    struct dirent *entry;
    if (!directory) {
        fd_close(fd);
        return true;
    }
    while (whole && (entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            whole = visit(walk, fd, entry->d_name, path_length, depth);
    closedir(directory);
    return whole;
}

/* ---- everything ---- */

static void find_silence(struct watch_reading *reading) {
    struct statfs status;
    if (fstatfs(reading->folder_fd, &status) < 0) return;
    for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
        if (silent[i].type == (uint32_t)status.f_type)
            snprintf(reading->polling, sizeof reading->polling, "it lies on %s, where changes are not always told",
                     silent[i].name);
}

static void read_everything(struct watch_reading *reading) {
    struct walk walk = {.reading = reading};
    reading->is_whole = true;
    find_silence(reading);
    int fd = openat(reading->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        error_errno(&reading->error, errno, "open the folder");
    else
        walk_folder(&walk, fd, 0, 0);
    watch_folders_sort(&reading->folders);
}

/* ---- named files ---- */

/* Opens as the walk does, without following links. */
static int open_parent(int folder, const char *path, size_t length) {
    char parent[PATH_MAX] = ".";
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    if (length >= sizeof parent) return -1;
    if (length > 0) memcpy(parent, path, length), parent[length] = '\0';
    return file_open_how(folder, parent, &how);
}

/* False: the whole folder must be read. A missing file is not listed. */
static bool read_one(struct walk *walk, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat status;
    if (string_format(walk->path, sizeof walk->path, NULL, "%s", path) < 0) return true;
    if (watch_ignores(walk->reading->patterns, path)) return true;
    CLEANUP_FD int parent = open_parent(walk->reading->folder_fd, path, slash ? (size_t)(slash - path) : 0);
    if (parent < 0) return false;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return errno == ENOENT;
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) return take_file(walk, parent, name, &status);
    return !S_ISDIR(status.st_mode);
}

static bool read_named(struct watch_reading *reading) {
    struct walk walk = {.reading = reading};
    bool is_enough = !reading->named.is_everything;
    for (size_t i = 0; i < reading->named.count && is_enough; i++) is_enough = read_one(&walk, reading->named.paths[i]);
    if (!is_enough) watch_listing_free(&reading->listing);
    return is_enough;
}

/* ---- the whole ---- */

void watch_reading_run(struct watch_reading *reading) {
    struct stat status;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    reading->is_gone = reading->is_whole = fstat(reading->folder_fd, &status) < 0 || status.st_nlink == 0;
    if (reading->is_gone) return;
    if (!read_named(reading)) read_everything(reading);
    reading->listing.read_at_ns = time_ns(&now);
    watch_listing_sort(&reading->listing);
}

void watch_reading_compare(struct watch_reading *reading) {
    struct watch_change **changes = &reading->changes;
    size_t *count = &reading->change_count;
    if (reading->is_first || reading->is_gone || reading->error.code != E_NONE) return;
    bool is_known = reading->is_whole ? watch_listing_compare(reading->before, &reading->listing, changes, count)
                                      : watch_listing_compare_named(reading->before, &reading->listing, &reading->named,
                                                                    changes, count);
    if (!is_known) error_set(&reading->error, E_NO_MEMORY, "no memory to compare files");
}

void watch_reading_free(struct watch_reading *reading) {
    free(reading->changes);
    watch_listing_free(&reading->listing);
    watch_folders_free(&reading->folders);
    watch_named_free(&reading->named);
    *reading = (struct watch_reading){0};
}
