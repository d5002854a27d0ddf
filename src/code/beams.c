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

/* The flat folder of an older service: its bytes are read, and swept. */
static int old_path(const char *home, const char *name, char ret[PATH_MAX], struct error *reterr) {
    return string_format(ret, PATH_MAX, reterr, "%s/store/beams%s%s", home, name[0] ? "/" : "", name);
}

int beam_path(const struct beam_store *beams, const char *name, char ret[PATH_MAX], struct error *reterr) {
    return string_format(ret, PATH_MAX, reterr, "%s/store/beams/%u%s%s", beams->home, beams->owner, name[0] ? "/" : "",
                         name);
}

static int name_beam(const uint8_t *data, size_t size, char ret[CODE_DIGEST_BYTES], struct error *reterr) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, size, digest, NULL, EVP_sha256(), NULL) != 1)
        return error_set(reterr, E_NO_MEMORY, "no memory to hash a module");
    hex_encode(digest, (CODE_DIGEST_BYTES - 1) / 2, ret);
    return 0;
}

static int load(const char *path, const char *digest, uint8_t **ret, size_t *ret_size, struct error *reterr) {
    char found[CODE_DIGEST_BYTES];
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size = 0;
    int result = file_load(path, CODE_FILE_MAX_BYTES, &data, &size, reterr);
    if (result == 0) result = name_beam(data, size, found, reterr);
    if (result < 0) return result;
    if (strcmp(found, digest) != 0) return error_set(reterr, E_SYSTEM, "%s is damaged", path);
    *ret = take_ptr(data);
    *ret_size = size;
    return 0;
}

int code_beam_load(const struct beam_store *beams, const char *digest, uint8_t **ret, size_t *ret_size,
                   struct error *reterr) {
    char path[PATH_MAX], old[PATH_MAX];
    int result = beam_path(beams, digest, path, reterr);
    if (result < 0) return result;
    if (access(path, F_OK) < 0 && old_path(beams->home, digest, old, NULL) == 0 && access(old, F_OK) == 0)
        return load(old, digest, ret, ret_size, reterr);
    return load(path, digest, ret, ret_size, reterr);
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
static bool is_kept(const char *digest, const char *path) {
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 && load(path, digest, &data, &size, NULL) == 0;
}

static int make_folder(const char *path, struct error *reterr) {
    return mkdir(path, 0700) < 0 && errno != EEXIST ? error_errno(reterr, errno, "making %s", path) : 0;
}

static int make_folders(const struct beam_store *beams, struct error *reterr) {
    char path[PATH_MAX];
    int result = beam_path(beams, "", path, reterr);
    if (result < 0 || access(path, F_OK) == 0) return result;
    result = old_path(beams->home, "", path, reterr);
    if (result == 0) result = make_folder(path, reterr);
    if (result == 0) result = beam_path(beams, "", path, reterr);
    return result < 0 ? result : make_folder(path, reterr);
}

static int keep(struct beam_store *beams, const char *digest, const uint8_t *data, size_t size, struct error *reterr) {
    char path[PATH_MAX];
    int result = make_folders(beams, reterr);
    if (result == 0) result = beam_path(beams, digest, path, reterr);
    if (result < 0 || is_kept(digest, path)) return result;
    result = write_beam(beams->home, path, data, size, reterr);
    if (result == 0) beams->written_bytes += size;
    return result;
}

int code_beam_keep(struct beam_store *beams, const uint8_t *data, size_t size, char ret[CODE_DIGEST_BYTES],
                   struct error *reterr) {
    char digest[CODE_DIGEST_BYTES];
    int result = name_beam(data, size, digest, reterr);
    if (result == 0 && !beams->is_dry) result = keep(beams, digest, data, size, reterr);
    if (result == 0) memcpy(ret, digest, sizeof digest);
    return result;
}

void code_beam_sync(const struct beam_store *beams, const char *digest) {
    char path[PATH_MAX];
    if (beam_path(beams, digest, path, NULL) < 0) return;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) fsync(fd);
}

/* ---- the sweep ---- */

/* Whether a file was removed that no version names and that is old enough. Folders stay. */
static bool remove_unused(int folder, const char *name, const struct stat *status, const struct map *used,
                          int64_t min_age_s) {
    return S_ISREG(status->st_mode) && !map_get(used, name) && status->st_mtime <= time(NULL) - min_age_s &&
           unlinkat(folder, name, 0) == 0;
}

static void sweep(const char *path, const struct map *used, int64_t min_age_s, uint64_t *ret_removed_bytes,
                  uint64_t *ret_left_bytes) {
    DIR *directory = opendir(path);
    struct dirent *entry;
    struct stat status;
    *ret_removed_bytes = *ret_left_bytes = 0;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
        bool is_removed = remove_unused(dirfd(directory), entry->d_name, &status, used, min_age_s);
        *(is_removed ? ret_removed_bytes : ret_left_bytes) += (uint64_t)status.st_size;
    }
    if (directory) closedir(directory);
}

void code_beams_sweep(const struct beam_store *beams, const struct map *used, int64_t min_age_s,
                      uint64_t *ret_removed_bytes, uint64_t *ret_left_bytes) {
    char path[PATH_MAX];
    if (beam_path(beams, "", path, NULL) < 0) path[0] = '\0';
    sweep(path, used, min_age_s, ret_removed_bytes, ret_left_bytes);
}

void code_beams_sweep_old(const char *home, const struct map *used) {
    char path[PATH_MAX];
    uint64_t removed, left;
    if (old_path(home, "", path, NULL) == 0) sweep(path, used, 0, &removed, &left);
}

static bool add_owner(const char *name, uint32_t **owners, size_t *count) {
    uint64_t owner;
    if (!parse_u64(name, &owner) || owner > UINT32_MAX) return true; /* bytes of an older service */
    uint32_t *grown = realloc(*owners, (*count + 1) * sizeof *grown);
    if (!grown) return false;
    *owners = grown;
    grown[(*count)++] = (uint32_t)owner;
    return true;
}

uint32_t *code_beams_owners(const char *home, size_t *ret_count) {
    char path[PATH_MAX];
    uint32_t *owners = calloc(1, sizeof *owners);
    DIR *directory = owners && old_path(home, "", path, NULL) == 0 ? opendir(path) : NULL;
    struct dirent *entry;
    *ret_count = 0;
    while (directory && (entry = readdir(directory)) && add_owner(entry->d_name, &owners, ret_count)) {
    }
    if (directory) closedir(directory);
    return owners;
}
