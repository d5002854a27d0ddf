/* The write-ahead buffer: records that are not in the files yet, in a mapped file. Its content survives a kill of the
   daemon, and writing to it takes no system call. */
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

#include "audit/audit_internal.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { WRITTEN_MAX_BYTES = 1 << 20 }; /* the most that a full buffer can have become in the files */

struct audit_write_ahead_page {
    _Atomic uint64_t seq;  /* the trail's last record when the buffer was emptied */
    _Atomic uint64_t used; /* bytes of text */
    char text[];           /* lines */
};

enum { TEXT_BYTES = AUDIT_WRITE_AHEAD_BYTES - sizeof(struct audit_write_ahead_page) };

/* ---- writing ---- */

/* The length is stored last, so that a half-written record does not count. */
bool audit_write_ahead_add(struct audit_write_ahead *ahead, const char *members) {
    struct audit_write_ahead_page *page = ahead->page;
    size_t size = strlen(members), used = page ? atomic_load_explicit(&page->used, memory_order_relaxed) : 0;
    if (!page || size + 1 > TEXT_BYTES - used) return false;
    memcpy(page->text + used, members, size);
    page->text[used + size] = '\n';
    atomic_store_explicit(&page->used, used + size + 1, memory_order_release);
    return true;
}

void audit_write_ahead_clear(struct audit_write_ahead *ahead, uint64_t seq) {
    if (!ahead->page) return;
    atomic_store_explicit(&ahead->page->used, 0, memory_order_release);
    atomic_store_explicit(&ahead->page->seq, seq, memory_order_release);
}

/* ---- opening ---- */

/* Only file systems that overwrite existing bytes without allocating: a page without room would kill the daemon
   (SIGBUS). */
static bool is_suitable(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0) return false;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC;
}

/* Makes a new file each time: a copied file may have holes, or share its blocks with another. */
static struct audit_write_ahead_page *map_new(int folder) {
    CLEANUP_FREE char *zeros = calloc(1, AUDIT_WRITE_AHEAD_BYTES);
    unlinkat(folder, AUDIT_WRITE_AHEAD, 0);
    CLEANUP_FD int fd = openat(folder, AUDIT_WRITE_AHEAD, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!zeros || fd < 0 || !is_suitable(fd) || file_write_all(fd, zeros, AUDIT_WRITE_AHEAD_BYTES) < 0) return NULL;
    void *page = mmap(NULL, AUDIT_WRITE_AHEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

void audit_write_ahead_open(const struct audit_log *log, struct audit_write_ahead *ret) {
    *ret = (struct audit_write_ahead){.page = map_new(log->folder)};
    audit_write_ahead_clear(ret, log->chain.seq);
}

void audit_write_ahead_close(struct audit_write_ahead *ahead) {
    if (ahead->page) munmap(ahead->page, AUDIT_WRITE_AHEAD_BYTES);
    ahead->page = NULL;
}

/* ---- carrying over records of a killed daemon ---- */

/* Appends the file's content from record seq on, or all of it if it begins after that. */
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

/* Reads what was written since the buffer was emptied: its records are among the first of that. */
static void read_written(const struct audit_log *log, uint64_t seq, struct buf *to) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    if (audit_names_read(log->folder, &names, NULL) < 0) return;
    for (size_t i = 0; i < names.count && to->size < WRITTEN_MAX_BYTES; i++) {
        bool is_before = i + 1 < names.count && audit_name_seq(names.names[i + 1]) <= seq;
        if (!is_before) read_file(log, names.names[i], seq, to);
    }
}

/* Cuts the members out of a line, in place; NULL: the line is not a record. */
static char *members_of(char *line, size_t size) {
    char *start = strstr(line, "\",");
    if (!start || size < AUDIT_LINE_TAIL_BYTES || line + size - AUDIT_LINE_TAIL_BYTES < start + 2) return NULL;
    line[size - AUDIT_LINE_TAIL_BYTES] = '\0';
    return start + 2;
}

/* Members have a time and a correlation id, so they are unique. A hash map avoids searching the text for each of
   them. */
static bool note_written(struct buf *written, struct map *ret) {
    char *text = written->size > 0 ? (char *)(uintptr_t)buf_string(written) : NULL, *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const char *members = members_of(line, strlen(line));
        if (members && !map_set(ret, members, ret)) return false;
    }
    return !written->failed;
}

/* After a machine crash, the pages on disk may be from different times. */
static bool is_record(const char *members) {
    CLEANUP(buf_free) struct buf object = BUF_INIT;
    buf_printf(&object, "{%s}", members);
    json_t *record = object.failed ? NULL : json_loadb((const char *)object.data, object.size, 0, NULL);
    bool is_object = json_object_size(record) > 0;
    json_decref(record);
    return is_object;
}

static bool carry_lines(const struct audit_write_ahead_page *left, struct audit_log *log) {
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

bool audit_write_ahead_carry_over(struct audit_log *log) {
    CLEANUP_FREE char *left = calloc(1, AUDIT_WRITE_AHEAD_BYTES);
    /* Older daemons used this name. */
    renameat2(log->folder, "slate", log->folder, AUDIT_WRITE_AHEAD, RENAME_NOREPLACE);
    CLEANUP_FD int fd = openat(log->folder, AUDIT_WRITE_AHEAD, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT;
    bool is_read = left && pread(fd, left, AUDIT_WRITE_AHEAD_BYTES, 0) >= 0;
    return is_read && carry_lines((const struct audit_write_ahead_page *)(void *)left, log);
}
