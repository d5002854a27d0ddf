/* Records on their way to the files, in memory that is a file's: it is there when the daemon has been killed, and costs
   no system call. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "guard/audit_internal.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum {
    BOOT_BYTES = 40,
    TAIL_BYTES = 1 << 20, /* of a file of the trail: what a full slate may have become there */
    TAIL_FILES = 2,
};

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

struct audit_slate_page {
    char boot[BOOT_BYTES]; /* when the machine stops, it may come back older than the trail */
    _Atomic uint64_t used; /* of text */
    char text[];           /* lines */
};

enum { TEXT_BYTES = AUDIT_SLATE_BYTES - sizeof(struct audit_slate_page) };

/* ---- opening ---- */

/* Where bytes that are there can be written again without asking for room: a page that finds none would be our end. */
static bool is_suitable(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0) return false;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC;
}

static bool fill(int fd) {
    struct stat status;
    CLEANUP_FREE char *zeros = calloc(1, AUDIT_SLATE_BYTES);
    if (!zeros || fstat(fd, &status) < 0) return false;
    if (status.st_size == AUDIT_SLATE_BYTES) return true;
    return ftruncate(fd, 0) == 0 && file_write_all(fd, zeros, AUDIT_SLATE_BYTES) == 0;
}

static struct audit_slate_page *map(int folder) {
    CLEANUP_FD int fd = openat(folder, AUDIT_SLATE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !is_suitable(fd) || !fill(fd)) return NULL;
    void *page = mmap(NULL, AUDIT_SLATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

void audit_slate_open(int folder, struct audit_slate *ret) {
    char boot[BOOT_BYTES] = "";
    *ret = (struct audit_slate){.page = NULL};
    if (file_read_text(AT_FDCWD, BOOT_ID, boot, sizeof boot) < 0) return;
    ret->page = map(folder);
    if (!ret->page || memcmp(ret->page->boot, boot, BOOT_BYTES) == 0) return;
    audit_slate_wipe(ret);
    memcpy(ret->page->boot, boot, BOOT_BYTES);
}

void audit_slate_close(struct audit_slate *slate) {
    if (slate->page) munmap(slate->page, AUDIT_SLATE_BYTES);
    slate->page = NULL;
}

/* ---- writing ---- */

/* The length comes last: a record that is half there is none. */
bool audit_slate_add(struct audit_slate *slate, const char *members) {
    struct audit_slate_page *page = slate->page;
    size_t size = strlen(members), used = page ? audit_slate_used(slate) : 0;
    if (!page || size + 1 > TEXT_BYTES - used) return false;
    memcpy(page->text + used, members, size);
    page->text[used + size] = '\n';
    atomic_store_explicit(&page->used, used + size + 1, memory_order_release);
    return true;
}

void audit_slate_wipe(struct audit_slate *slate) {
    if (slate->page) atomic_store_explicit(&slate->page->used, 0, memory_order_release);
}

size_t audit_slate_used(const struct audit_slate *slate) {
    uint64_t used = slate->page ? atomic_load_explicit(&slate->page->used, memory_order_acquire) : 0;
    return used <= TEXT_BYTES ? used : 0;
}

/* ---- what a killed daemon left ---- */

static void read_tail(const struct audit_log *log, const char *name, struct buf *to) {
    struct stat status;
    CLEANUP_FD int fd = openat(log->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP_FREE char *bytes = malloc(TAIL_BYTES);
    if (fd < 0 || !bytes || fstat(fd, &status) < 0) return;
    ssize_t got = pread(fd, bytes, TAIL_BYTES, status.st_size > TAIL_BYTES ? status.st_size - TAIL_BYTES : 0);
    if (got > 0) buf_append(to, bytes, (size_t)got);
}

static void read_tails(const struct audit_log *log, struct buf *to) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    if (audit_names_read(log->folder, &names, NULL) < 0) return;
    for (size_t i = names.count; i > 0 && i + TAIL_FILES > names.count; i--) read_tail(log, names.names[i - 1], to);
}

/* Members have a time and a correlation id, so no two are alike. */
static bool is_written(const struct buf *tails, const char *members) {
    return tails->size > 0 && memmem(tails->data, tails->size, members, strlen(members));
}

static bool is_record(const char *members) {
    CLEANUP(buf_free) struct buf object = BUF_INIT;
    buf_printf(&object, "{%s}", members);
    json_t *record = object.failed ? NULL : json_loadb((const char *)object.data, object.size, 0, NULL);
    bool is_object = json_object_size(record) > 0;
    json_decref(record);
    return is_object;
}

void audit_slate_carry_over(struct audit_slate *slate, struct audit_log *log) {
    size_t used = audit_slate_used(slate);
    CLEANUP_FREE char *text = used > 0 ? strndup(slate->page->text, used) : NULL;
    CLEANUP(buf_free) struct buf tails = BUF_INIT;
    char *rest = NULL;
    if (text) read_tails(log, &tails);
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        if (is_record(line) && !is_written(&tails, line)) audit_log_add(log, line, true, NULL, NULL);
    audit_log_seal(log);
    audit_slate_wipe(slate);
}
