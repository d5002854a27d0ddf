/* The cache of single files: results by the digest of their inputs, in several variants, bounded in bytes. */
#include "compile/cache/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compile/cache/hash.h"
#include "compile/compile_internal.h"

enum { VARIANTS_MAX = 4, OBJECT_MAX_BYTES = 64 << 20, SWEEPS_PER_BOUND = 16 };

/* An object is a digest of what follows, then variants, newest first: each the sizes and texts of a record as JSON and
   of its beams. All sizes are 32 bits, big endian. */

int objects_open(struct objects *objects, const char *home, uint64_t max_bytes, struct error *reterr) {
    char parent[PATH_MAX];
    objects->max_bytes = max_bytes;
    objects->home = home;
    int result = string_format(parent, sizeof parent, reterr, "%s/store", home);
    if (result == 0) result = string_format(objects->folder, sizeof objects->folder, reterr, "%s/store/objects", home);
    if (result < 0) return result;
    if ((mkdir(parent, 0700) < 0 && errno != EEXIST) || (mkdir(objects->folder, 0700) < 0 && errno != EEXIST))
        return error_errno(reterr, errno, "making %s", objects->folder);
    return 0;
}

static bool object_path(const struct objects *objects, const char *scope, const struct record *record,
                        char ret[PATH_MAX]) {
    uint8_t digest[DIGEST_BYTES];
    char name[2 * DIGEST_BYTES + 1];
    struct hash hash;
    hash_begin(&hash);
    hash_text(&hash, scope);
    hash_text(&hash, record->app);
    hash_text(&hash, record->path);
    hash_bytes(&hash, record->digest, DIGEST_BYTES);
    hash_bytes(&hash, record->options, DIGEST_BYTES);
    if (!hash_end(&hash, digest)) return false;
    hex_encode(digest, sizeof digest, name);
    int length = snprintf(ret, PATH_MAX, "%s/%s", objects->folder, name);
    return length > 0 && length < PATH_MAX;
}

/* ---- reading ---- */

static bool read_file(int fd, struct buf *ret) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size > OBJECT_MAX_BYTES) return false;
    if (!buf_reserve(ret, (size_t)status.st_size)) return false;
    ssize_t count;
    uint8_t chunk[16 * 1024];
    while ((count = read(fd, chunk, sizeof chunk)) > 0) buf_append(ret, chunk, (size_t)count);
    return count == 0 && !ret->failed;
}

struct reading {
    const uint8_t *at, *end;
};

static bool read_object(int fd, struct buf *content, struct reading *ret) {
    uint8_t digest[DIGEST_BYTES];
    if (!read_file(fd, content) || content->size < DIGEST_BYTES) return false;
    *ret = (struct reading){content->data + DIGEST_BYTES, content->data + content->size};
    /* Torn by a failing power, perhaps. */
    return EVP_Digest(ret->at, (size_t)(ret->end - ret->at), digest, NULL, EVP_sha256(), NULL) == 1 &&
           memcmp(digest, content->data, sizeof digest) == 0;
}

static bool next_part(struct reading *reading, const uint8_t **ret, size_t *ret_size) {
    if (reading->end - reading->at < 4) return false;
    size_t size =
        (size_t)reading->at[0] << 24 | (size_t)reading->at[1] << 16 | (size_t)reading->at[2] << 8 | reading->at[3];
    if ((size_t)(reading->end - reading->at) - 4 < size) return false;
    *ret = reading->at + 4;
    *ret_size = size;
    reading->at += 4 + size;
    return true;
}

static bool read_beam(struct reading *reading, struct compiled_module *module) {
    const uint8_t *data;
    size_t size;
    if (!next_part(reading, &data, &size)) return false;
    module->beam = malloc(size + 1);
    if (!module->beam) return false;
    memcpy(module->beam, data, size);
    module->beam_size = size;
    return true;
}

/* The next variant; NULL at the end. */
static struct record *read_variant(struct reading *reading) {
    const uint8_t *text;
    size_t size;
    if (!next_part(reading, &text, &size)) return NULL;
    json_t *json = json_loadb((const char *)text, size, 0, NULL);
    struct record *record = record_from_json(json);
    json_decref(json);
    for (size_t i = 0; record && i < record->module_count; i++)
        if (!read_beam(reading, &record->modules[i])) record = record_free(record);
    return record;
}

/* The output changes hands; what is left of the variant is freed. */
static void adopt(struct record *record, struct record *variant) {
    char *path = take_ptr(record->path), *app = take_ptr(record->app);
    unsigned compilations = record->compilations;
    record_forget_output(record);
    free(variant->path);
    free(variant->app);
    *record = *variant;
    record->path = path;
    record->app = app;
    record->compilations = compilations;
    free(variant);
}

bool objects_find(struct objects *objects, const char *scope, struct plan *plan, struct record *record) {
    char path[PATH_MAX];
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    struct reading reading;
    CLEANUP_FD int fd = object_path(objects, scope, record, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || !read_object(fd, &content, &reading)) return false;
    struct record *variant;
    while ((variant = read_variant(&reading))) {
        uint8_t inputs[DIGEST_BYTES];
        plan_inputs(plan, variant, inputs);
        if (memcmp(inputs, variant->inputs, sizeof inputs) == 0) {
            futimens(fd, NULL); /* used now: it is swept last */
            adopt(record, variant);
            return true;
        }
        record_free(variant);
    }
    return false;
}

/* ---- writing ---- */

static void put_part(struct buf *buf, const void *data, size_t size) {
    buf_append_u32(buf, (uint32_t)size);
    buf_append(buf, data, size);
}

static bool put_variant(struct buf *buf, const struct record *record) {
    json_t *json = record_to_json(record);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (!text) return false;
    put_part(buf, text, strlen(text));
    free(text);
    for (size_t i = 0; i < record->module_count; i++) {
        if (!record->modules[i].beam) return false;
        put_part(buf, record->modules[i].beam, record->modules[i].beam_size);
    }
    return true;
}

/* What was kept before, without what the record replaces. */
static void put_older(struct buf *buf, const char *path, const struct record *record) {
    CLEANUP(buf_free) struct buf content = BUF_INIT;
    struct reading reading;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !read_object(fd, &content, &reading)) return;
    struct record *variant;
    for (int left = VARIANTS_MAX - 1; left > 0 && (variant = read_variant(&reading)); record_free(variant)) {
        if (memcmp(variant->inputs, record->inputs, sizeof record->inputs) == 0) continue;
        put_variant(buf, variant);
        left--;
    }
}

static bool write_whole(const struct objects *objects, const char *path, const struct buf *content) {
    CLEANUP_FD int fd = store_open_file(objects->home, path);
    return fd >= 0 && file_write_all(fd, content->data, content->size) == 0;
}

void objects_keep(struct objects *objects, const char *scope, const struct record *record) {
    static _Atomic unsigned serial; /* of temporary files: writers must not meet in one */
    char path[PATH_MAX], temporary[PATH_MAX + 32];
    uint8_t room[DIGEST_BYTES] = {0};
    CLEANUP(buf_free) struct buf content = {.max = OBJECT_MAX_BYTES};
    if (!object_path(objects, scope, record, path)) return;
    buf_append(&content, room, sizeof room);
    if (!put_variant(&content, record)) return;
    put_older(&content, path, record);
    if (content.failed || EVP_Digest(content.data + DIGEST_BYTES, content.size - DIGEST_BYTES, content.data, NULL,
                                     EVP_sha256(), NULL) != 1)
        return;
    snprintf(temporary, sizeof temporary, "%s.%u", path, ++serial);
    if (!write_whole(objects, temporary, &content) || rename(temporary, path) < 0) unlink(temporary);
    objects->written_bytes += content.size;
}

/* ---- sweeping ---- */

struct swept {
    char name[2 * DIGEST_BYTES + 24];
    uint64_t bytes;
    struct timespec used;
};

static int oldest_first(const void *a, const void *b) {
    const struct timespec *left = &((const struct swept *)a)->used, *right = &((const struct swept *)b)->used;
    if (left->tv_sec != right->tv_sec) return left->tv_sec < right->tv_sec ? -1 : 1;
    return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

static struct swept *list_objects(DIR *directory, size_t *ret_count, uint64_t *ret_bytes) {
    struct swept *all = NULL;
    size_t count = 0, capacity = 0;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
            continue;
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 256;
            struct swept *grown = realloc(all, capacity * sizeof *grown);
            if (!grown) break;
            all = grown;
        }
        size_t length = strlen(entry->d_name);
        if (length >= sizeof all[count].name) continue;
        memcpy(all[count].name, entry->d_name, length + 1);
        all[count].bytes = (uint64_t)status.st_blocks * 512;
        all[count].used = status.st_mtim;
        *ret_bytes += all[count++].bytes;
    }
    *ret_count = count;
    return all;
}

void objects_sweep(struct objects *objects) {
    if (objects->written_bytes < objects->max_bytes / SWEEPS_PER_BOUND) return;
    objects->written_bytes = 0;
    DIR *directory = opendir(objects->folder);
    if (!directory) return;
    size_t count = 0;
    uint64_t bytes = 0;
    CLEANUP_FREE struct swept *all = list_objects(directory, &count, &bytes);
    if (count > 0) qsort(all, count, sizeof *all, oldest_first);
    uint64_t wanted = objects->max_bytes - objects->max_bytes / SWEEPS_PER_BOUND;
    for (size_t i = 0; i < count && bytes > wanted; i++)
        if (unlinkat(dirfd(directory), all[i].name, 0) == 0) bytes -= all[i].bytes;
    closedir(directory);
}
