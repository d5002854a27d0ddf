/* Records on their way to the files, in memory that is a file's: it is there when the daemon has been killed, and costs
   no system call. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "guard/audit_internal.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { WRITTEN_MAX_BYTES = 1 << 20 }; /* what all of a slate may have become in the files */

struct audit_slate_page {
    _Atomic uint64_t seq;  /* of the trail's last record when the first was put here */
    _Atomic uint64_t used; /* of text */
    char text[];           /* lines */
};

enum { TEXT_BYTES = AUDIT_SLATE_BYTES - sizeof(struct audit_slate_page) };

/* ---- writing ---- */

/* The length comes last: a record that is half there is none. */
bool audit_slate_add(struct audit_slate *slate, const char *members) {
    struct audit_slate_page *page = slate->page;
    size_t size = strlen(members), used = page ? atomic_load_explicit(&page->used, memory_order_relaxed) : 0;
    if (!page || size + 1 > TEXT_BYTES - used) return false;
    memcpy(page->text + used, members, size);
    page->text[used + size] = '\n';
    atomic_store_explicit(&page->used, used + size + 1, memory_order_release);
    return true;
}

void audit_slate_wipe(struct audit_slate *slate, uint64_t seq) {
    if (!slate->page) return;
    atomic_store_explicit(&slate->page->used, 0, memory_order_release);
    atomic_store_explicit(&slate->page->seq, seq, memory_order_release);
}

/* ---- opening ---- */

/* Where bytes that are there can be written again without asking for room: a page that finds none would be our end. */
static bool is_suitable(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0) return false;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC;
}

/* Anew each time: a file that was copied may have holes, or share its blocks with another. */
static struct audit_slate_page *map_new(int folder) {
    CLEANUP_FREE char *zeros = calloc(1, AUDIT_SLATE_BYTES);
    unlinkat(folder, AUDIT_SLATE, 0);
    CLEANUP_FD int fd = openat(folder, AUDIT_SLATE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!zeros || fd < 0 || !is_suitable(fd) || file_write_all(fd, zeros, AUDIT_SLATE_BYTES) < 0) return NULL;
    void *page = mmap(NULL, AUDIT_SLATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

void audit_slate_open(const struct audit_log *log, struct audit_slate *ret) {
    *ret = (struct audit_slate){.page = map_new(log->folder)};
    audit_slate_wipe(ret, log->chain.seq);
}

void audit_slate_close(struct audit_slate *slate) {
    if (slate->page) munmap(slate->page, AUDIT_SLATE_BYTES);
    slate->page = NULL;
}

/* ---- what a killed daemon left ---- */

/* The file's content from that record on, or from its beginning if all comes after it. */
static void read_file(const struct audit_log *log, const char *name, uint64_t seq, struct buf *to) {
    struct stat status;
    char mark[32];
    CLEANUP_FD int fd = openat(log->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size == 0) return;
    size_t size = (size_t)status.st_size;
    char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) return;
    snprintf(mark, sizeof mark, "{\"seq\":%" PRIu64 ",", seq);
    const char *from = audit_name_seq(name) >= seq ? bytes : memmem(bytes, size, mark, strlen(mark));
    size_t left = from ? size - (size_t)(from - bytes) : 0, room = WRITTEN_MAX_BYTES - to->size;
    buf_append(to, from, left < room ? left : room);
    munmap(bytes, size);
}

/* What was written since the slate was wiped: its records are among the first of it. */
static void read_written(const struct audit_log *log, uint64_t seq, struct buf *to) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    if (audit_names_read(log->folder, &names, NULL) < 0) return;
    for (size_t i = 0; i < names.count && to->size < WRITTEN_MAX_BYTES; i++) {
        bool is_before = i + 1 < names.count && audit_name_seq(names.names[i + 1]) <= seq;
        if (!is_before) read_file(log, names.names[i], seq, to);
    }
}

/* What stands between the hashes of a line, cut out in place; NULL: it is no record. */
static char *members_of(char *line, size_t size) {
    char *start = strstr(line, "\",");
    if (!start || size < AUDIT_LINE_TAIL_BYTES || line + size - AUDIT_LINE_TAIL_BYTES < start + 2) return NULL;
    line[size - AUDIT_LINE_TAIL_BYTES] = '\0';
    return start + 2;
}

/* Members have a time and a correlation id, so no two are alike. A set of them: to look each up in the text would take
   the product of both. */
static bool note_written(struct buf *written, struct map *ret) {
    char *text = written->size > 0 ? (char *)(uintptr_t)buf_string(written) : NULL, *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const char *members = members_of(line, strlen(line));
        if (members && !map_set(ret, members, ret)) return false;
    }
    return !written->failed;
}

/* When the machine has stopped, pages may be there that never belonged together. */
static bool is_record(const char *members) {
    CLEANUP(buf_free) struct buf object = BUF_INIT;
    buf_printf(&object, "{%s}", members);
    json_t *record = object.failed ? NULL : json_loadb((const char *)object.data, object.size, 0, NULL);
    bool is_object = json_object_size(record) > 0;
    json_decref(record);
    return is_object;
}

static bool carry_lines(const struct audit_slate_page *left, struct audit_log *log) {
    size_t used = left->used <= TEXT_BYTES ? left->used : 0;
    CLEANUP_FREE char *text = strndup(left->text, used);
    CLEANUP(buf_free) struct buf written = BUF_INIT;
    CLEANUP(map_free) struct map known = MAP_INIT;
    char *rest = NULL;
    if (used > 0) read_written(log, left->seq + 1, &written);
    if (!text || !note_written(&written, &known)) return false;
    bool is_all = true;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (is_record(line) && !map_get(&known, line)) is_all &= audit_log_add(log, line, true, NULL, NULL) == 0;
    audit_log_seal(log);
    return is_all;
}

bool audit_slate_carry_over(struct audit_log *log) {
    CLEANUP_FREE char *left = calloc(1, AUDIT_SLATE_BYTES);
    CLEANUP_FD int fd = openat(log->folder, AUDIT_SLATE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT;
    bool is_read = left && pread(fd, left, AUDIT_SLATE_BYTES, 0) >= 0;
    return is_read && carry_lines((const struct audit_slate_page *)(void *)left, log);
}
