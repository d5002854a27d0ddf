/* Holds the files of a build in memory, and collects those that come from the project as they are, such as priv. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/compile_internal.h"

static bool grow(struct file_list *list) {
    if (list->count < list->capacity) return true;
    size_t capacity = list->capacity ? list->capacity * 2 : 64;
    struct store_file *files = realloc(list->files, capacity * sizeof *files);
    if (!files) return false;
    list->files = files;
    list->capacity = capacity;
    return true;
}

static int make_room(struct file_list *list, size_t size, struct error *reterr) {
    if (list->count >= FILES_MAX || list->total_bytes + size > BUILD_MAX_BYTES || !grow(list))
        return error_set(reterr, E_TOO_LARGE,
                         "the build has more than %d files or %d MiB, or there is no memory for them", FILES_MAX,
                         BUILD_MAX_BYTES >> 20);
    return list->room ? room_take(list->room, size, reterr) : 0;
}

int file_list_add(struct file_list *list, const char *path, void *data, size_t size, struct error *reterr) {
    char *name = strdup(path);
    int result = name ? make_room(list, size, reterr) : error_set(reterr, E_NO_MEMORY, "no memory for %s", path);
    if (result < 0) {
        free(name);
        free(data);
        return result;
    }
    list->files[list->count++] = (struct store_file){.path = name, .data = data, .size = size};
    list->total_bytes += size;
    return 0;
}

int file_list_add_copy(struct file_list *list, const char *path, const void *data, size_t size, struct error *reterr) {
    void *copy = malloc(size ? size : 1);
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for %s", path);
    memcpy(copy, data, size);
    return file_list_add(list, path, copy, size, reterr);
}

void file_list_free(struct file_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free((void *)list->files[i].path);
        free((void *)list->files[i].data);
    }
    free(list->files);
    *list = (struct file_list){0};
}

bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

/* A folder on its way into a build. */
struct collection {
    struct file_list *list;
    const struct collect_choice *choice; /* NULL: all of it */
    size_t source_at;                    /* where in a path of the build its path in the project begins */
};

static bool is_wanted(const struct collection *into, const char *path, bool is_folder) {
    return !into->choice || into->choice->is_wanted(into->choice->data, path + into->source_at, is_folder);
}

static int check_size(const struct collection *into, const char *path, int64_t size, struct error *reterr) {
    if (size <= PROJECT_FILE_MAX_BYTES && into->list->total_bytes + (size_t)size <= COLLECTED_TOTAL_MAX_BYTES) return 0;
    return error_set(reterr, E_TOO_LARGE, "%s makes the %s larger than %d MiB", path,
                     into->choice ? into->choice->what : "folders that are taken as they are, such as priv,",
                     COLLECTED_TOTAL_MAX_BYTES >> 20);
}

static int read_whole(int folder, const char *name, const char *path, const struct collection *into,
                      struct error *reterr) {
    CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "reading %s", path);
    if (!S_ISREG(status.st_mode)) return 0; /* sockets, devices and links stay out */
    int result = check_size(into, path, status.st_size, reterr);
    if (result < 0) return result;
    size_t size = (size_t)status.st_size, have = 0;
    CLEANUP_FREE uint8_t *data = malloc(size + 1);
    if (!data) return error_set(reterr, E_NO_MEMORY, "no memory for %s", path);
    while (have < size) {
        ssize_t count = read(fd, data + have, size - have);
        if (count < 0) return error_errno(reterr, errno, "reading %s", path);
        if (count == 0) return error_set(reterr, E_CONFLICT, "%s shrank while it was read", path);
        have += (size_t)count;
    }
    return file_list_add(into->list, path, take_ptr(data), have, reterr);
}

int open_below(int folder, const char *path) {
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && *path) {
        char name[NAME_MAX + 1];
        size_t length = strcspn(path, "/");
        if (length == 0 || length > NAME_MAX || (length == 2 && memcmp(path, "..", 2) == 0)) {
            errno = EINVAL;
            return fd_close(fd);
        }
        memcpy(name, path, length);
        name[length] = '\0';
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        fd_close(fd);
        fd = next;
        path += length + (path[length] == '/');
    }
    return fd;
}

static int collect_folder(int fd, const char *path, unsigned depth, const struct collection *into,
                          struct error *reterr);

/* Files and folders; links, sockets and devices stay out. */
static int collect_entry(int folder, const char *name, const char *path, unsigned depth, const struct collection *into,
                         struct error *reterr) {
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return error_errno(reterr, errno, "reading %s", path);
    if (!is_wanted(into, path, S_ISDIR(status.st_mode))) return 0;
    if (S_ISREG(status.st_mode)) return read_whole(folder, name, path, into, reterr);
    if (!S_ISDIR(status.st_mode)) return 0;
    if (depth >= PROJECT_DEPTH_MAX) return error_set(reterr, E_TOO_LARGE, "%s lies too deep", path);
    return collect_folder(openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), path, depth + 1, into,
                          reterr);
}

/* Takes fd over. */
static int collect_folder(int fd, const char *path, unsigned depth, const struct collection *into,
                          struct error *reterr) {
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        fd_close(fd);
        return error_errno(reterr, errno, "reading %s", path);
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(directory))) {
        char below[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = string_format(below, sizeof below, reterr, "%s/%s", path, entry->d_name);
        if (result == 0) result = collect_entry(dirfd(directory), entry->d_name, below, depth, into, reterr);
    }
    closedir(directory);
    return result;
}

int collect_below(int project, const char *app_dir, const char *name, const char *app, struct file_list *list,
                  struct error *reterr) {
    char source[PATH_MAX], target[PATH_MAX];
    int result = string_format(source, sizeof source, reterr, "%s%s%s", app_dir, app_dir[0] ? "/" : "", name);
    if (result == 0) result = string_format(target, sizeof target, reterr, "%s/%s", app, name);
    if (result < 0) return result;
    struct collection into = {.list = list};
    int fd = open_below(project, source);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EINVAL)) return 0;
    return collect_folder(fd, target, 0, &into, reterr);
}

int collect_chosen(int folder, const char *target, const struct collect_choice *choice, struct file_list *list,
                   struct error *reterr) {
    struct collection into = {.list = list, .choice = choice, .source_at = strlen(target) + 1};
    return collect_folder(open_below(folder, ""), target, 0, &into, reterr);
}

static void remove_below(int parent, const char *name);

static void empty_below(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(dirfd(directory), entry->d_name, 0) < 0) remove_below(dirfd(directory), entry->d_name);
    }
    if (directory)
        closedir(directory);
    else
        fd_close(fd);
}

static void remove_below(int parent, const char *name) {
    empty_below(parent, name);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void remove_tree(const char *path) {
    remove_below(AT_FDCWD, path);
}

void empty_tree(const char *path) {
    empty_below(AT_FDCWD, path);
}
