/* The code of module versions: files in store/beams, named by the SHA-256 of their content and written once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "code/code_internal.h"

int beam_path(const char *home, const char *name, char ret[PATH_MAX], struct error *reterr) {
    return string_format(ret, PATH_MAX, reterr, "%s/store/beams%s%s", home, name[0] ? "/" : "", name);
}

static int name_beam(const uint8_t *data, size_t size, char ret[CODE_DIGEST_BYTES], struct error *reterr) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, size, digest, NULL, EVP_sha256(), NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory to hash a module");
    hex_encode(digest, (CODE_DIGEST_BYTES - 1) / 2, ret);
    return 0;
}

int code_beam_load(const char *home, const char *digest, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    char path[PATH_MAX], found[CODE_DIGEST_BYTES];
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size = 0;
    int result = beam_path(home, digest, path, reterr);
    if (result == 0) result = file_load(path, CODE_FILE_MAX_BYTES, &data, &size, reterr);
    if (result == 0) result = name_beam(data, size, found, reterr);
    if (result < 0) return result;
    if (strcmp(found, digest) != 0) return error_set(reterr, E_SYSTEM, "%s is damaged", path);
    *ret = take_ptr(data);
    *ret_size = size;
    return 0;
}

/* A name that no other thread writes to. A file of a killed daemon is overwritten. */
static int open_temporary(const char *home, const char *path) {
    unlink(path);
    return store_open_file(home, path);
}

static int write_beam(const char *home, const char *path, const uint8_t *data, size_t size, struct error *reterr) {
    char temporary[PATH_MAX + 16];
    int result = 0;
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)gettid());
    CLEANUP_FD int fd = open_temporary(home, temporary);
    if (fd < 0) return error_errno(reterr, errno, "making %s", temporary);
    if (file_write_all(fd, data, size) < 0) result = error_errno(reterr, errno, "keeping a module");
    if (result == 0 && rename(temporary, path) < 0) result = error_errno(reterr, errno, "naming %s", path);
    if (result < 0) unlink(temporary);
    return result;
}

/* An existing file that a power failure left incomplete is written again. A valid one gets a new time for the sweep. */
static bool is_kept(const char *home, const char *digest, const char *path) {
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 &&
           code_beam_load(home, digest, &data, &size, NULL) == 0;
}

int code_beam_keep(const char *home, const uint8_t *data, size_t size, char ret[CODE_DIGEST_BYTES],
                   struct error *reterr) {
    char path[PATH_MAX], digest[CODE_DIGEST_BYTES];
    int result = beam_path(home, "", path, reterr);
    if (result == 0 && mkdir(path, 0700) < 0 && errno != EEXIST) result = error_errno(reterr, errno, "making %s", path);
    if (result == 0) result = name_beam(data, size, digest, reterr);
    if (result == 0) result = beam_path(home, digest, path, reterr);
    if (result == 0 && !is_kept(home, digest, path)) result = write_beam(home, path, data, size, reterr);
    if (result == 0) memcpy(ret, digest, sizeof digest);
    return result;
}

void code_beam_sync(const char *home, const char *digest) {
    char path[PATH_MAX];
    if (beam_path(home, digest, path, NULL) < 0) return;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) fsync(fd);
}

static bool is_older(int folder, const char *name, int64_t age_s) {
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mtime <= time(NULL) - age_s;
}

void code_beams_sweep(const char *home, const struct map *used, int64_t min_age_s) {
    char path[PATH_MAX];
    DIR *directory = beam_path(home, "", path, NULL) == 0 ? opendir(path) : NULL;
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !map_get(used, entry->d_name) &&
            is_older(dirfd(directory), entry->d_name, min_age_s))
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory) closedir(directory);
}
