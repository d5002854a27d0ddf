/* A number that stands for what lies in a project, from names, sizes and times alone: for a daemon that can't look
   itself. Runs with the caller's rights; what the caller can't read is not there. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/project/project.h"

enum { ENTRIES_MAX = 20000, TOOLCHAIN_ENTRIES_MAX = 100000, DEPTH_MAX = 64 };

struct signing {
    uint64_t sum;
    size_t entries;
    bool is_toolchain; /* then nothing is ignored, and a stranger's file is refused */
    uid_t owner;
    bool is_unsafe;
    char unsafe[256]; /* the file's name */
};

/* FNV-1a: a user gains nothing by two own projects with the same number. */
static uint64_t hash_byte(uint64_t value, uint8_t byte) {
    return (value ^ byte) * UINT64_C(1099511628211);
}

static uint64_t hash_name(uint64_t value, const char *name) {
    for (; *name; name++) value = hash_byte(value, (uint8_t)*name);
    return hash_byte(value, '/');
}

static uint64_t hash_number(uint64_t value, uint64_t number) {
    for (unsigned shift = 0; shift < 64; shift += 8) value = hash_byte(value, (uint8_t)(number >> shift));
    return value;
}

static uint64_t hash_status(uint64_t value, const struct stat *status) {
    const uint64_t facts[] = {(uint64_t)status->st_mode,         (uint64_t)status->st_ino,
                              (uint64_t)status->st_size,         (uint64_t)status->st_mtim.tv_sec,
                              (uint64_t)status->st_mtim.tv_nsec, (uint64_t)status->st_ctim.tv_sec,
                              (uint64_t)status->st_ctim.tv_nsec};
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) value = hash_number(value, facts[i]);
    return value;
}

static bool is_ignored(const char *name, unsigned depth) {
    static const char *const names[] = {"_build", "deps", ".git", ".elixir_ls", "node_modules"};
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return true;
    for (size_t i = 0; depth == 0 && i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void sign_folder(struct signing *signing, int folder, const char *name, uint64_t path, unsigned depth);

/* Added up, since a folder is not read in the same order twice. A folder's own times say nothing: they change with what
   is ignored in it. */
static void sign_entry(struct signing *signing, int folder, const char *name, uint64_t path, unsigned depth) {
    struct stat status;
    size_t most = signing->is_toolchain ? TOOLCHAIN_ENTRIES_MAX : ENTRIES_MAX;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || ++signing->entries > most) return;
    if (signing->is_toolchain && !signing->is_unsafe && !toolchain_is_safe(&status, signing->owner)) {
        signing->is_unsafe = true;
        snprintf(signing->unsafe, sizeof signing->unsafe, "%s", name);
    }
    if (S_ISDIR(status.st_mode))
        sign_folder(signing, folder, name, hash_name(path, name), depth + 1);
    else
        signing->sum += hash_status(hash_name(path, name), &status);
}

static void sign_folder(struct signing *signing, int folder, const char *name, uint64_t path, unsigned depth) {
    int fd = depth > DEPTH_MAX ? -1 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing));)
        if (!is_ignored(entry->d_name, signing->is_toolchain ? 1 : depth))
            sign_entry(signing, fd, entry->d_name, path, depth);
    closedir(listing);
}

uint64_t project_sign(int source_fd, bool is_file) {
    struct stat status;
    struct signing signing = {.sum = UINT64_C(14695981039346656037)};
    if (is_file && fstat(source_fd, &status) == 0) return hash_status(signing.sum, &status);
    sign_folder(&signing, source_fd, ".", signing.sum, 0);
    return signing.sum;
}

int toolchain_sign(int source_fd, uid_t owner, uint64_t *ret, struct error *reterr) {
    struct signing signing = {.sum = UINT64_C(14695981039346656037), .is_toolchain = true, .owner = owner};
    sign_folder(&signing, source_fd, ".", signing.sum, 0);
    if (signing.is_unsafe)
        return error_set(reterr, E_TOOLCHAIN,
                         "other users can write '%s' in it, or it is another user's; `chmod -R go-w` keeps them out",
                         signing.unsafe);
    if (signing.entries > TOOLCHAIN_ENTRIES_MAX)
        return error_set(reterr, E_TOOLCHAIN, "it has more than %d files", TOOLCHAIN_ENTRIES_MAX);
    *ret = signing.sum;
    return 0;
}
