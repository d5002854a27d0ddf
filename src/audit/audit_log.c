/* The files of the audit trail: opening them after a crash, appending, reserving disk space, and rotation. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/audit_internal.h"

const struct audit_limits audit_default_limits = {.file_max_bytes = 16 << 20, .files_kept = 64};

enum { TAIL_READ_BYTES = 2 * AUDIT_LINE_MAX_BYTES };

/* ---- opening ---- */

static int open_folder(const char *home, struct audit_log *log, struct error *reterr) {
    int result = string_format(log->folder_path, sizeof log->folder_path, reterr, "%s/" AUDIT_FOLDER, home);
    if (result < 0) return result;
    if (mkdir(log->folder_path, 0700) < 0 && errno != EEXIST)
        return error_errno(reterr, errno, "making %s", log->folder_path);
    log->folder = open(log->folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (log->folder < 0) return error_errno(reterr, errno, "opening %s", log->folder_path);
    return 0;
}

static int open_file(struct audit_log *log, const char *name, struct error *reterr) {
    fd_close(log->fd);
    log->fd = openat(log->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status;
    if (log->fd < 0 || fstat(log->fd, &status) < 0)
        return error_errno(reterr, errno, "opening %s/%s", log->folder_path, name);
    log->size = (uint64_t)status.st_size;
    log->reserved_end = 0;
    return 0;
}

/* The last whole line of the open file, and the number of bytes behind it. */
struct tail {
    char bytes[TAIL_READ_BYTES];
    const char *line;
    size_t line_size, torn_bytes;
};

static int read_tail(const struct audit_log *log, struct tail *tail, struct error *reterr) {
    uint64_t from = log->size > TAIL_READ_BYTES ? log->size - TAIL_READ_BYTES : 0;
    ssize_t got = pread(log->fd, tail->bytes, TAIL_READ_BYTES, (off_t)from);
    if (got < 0) return error_errno(reterr, errno, "reading the audit trail");
    const char *end = got > 0 ? memrchr(tail->bytes, '\n', (size_t)got) : NULL;
    tail->torn_bytes = (size_t)(tail->bytes + got - (end ? end + 1 : tail->bytes));
    if (!end) return 0;
    const char *before = end > tail->bytes ? memrchr(tail->bytes, '\n', (size_t)(end - tail->bytes)) : NULL;
    tail->line = before ? before + 1 : tail->bytes;
    tail->line_size = (size_t)(end - tail->line);
    return 0;
}

/* Cuts off a line that a killed daemon had not finished. */
static int cut_torn(struct audit_log *log, const struct tail *tail, struct error *reterr) {
    if (tail->torn_bytes == 0) return 0;
    log->size -= tail->torn_bytes;
    return ftruncate(log->fd, (off_t)log->size) < 0 ? error_errno(reterr, errno, "mending the audit trail") : 0;
}

/* Finds where the trail continues: behind the last valid record. An invalid record, which was changed from outside,
   stays for audit_verify; then the head gives the last number. */
static int find_end(struct audit_log *log, size_t *ret_torn, struct error *reterr) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    CLEANUP_FREE struct tail *tail = calloc(1, sizeof *tail);
    struct audit_chain head;
    char before[AUDIT_HASH_BYTES];
    int result = tail ? audit_names_read(log->folder, &names, reterr)
                      : error_set(reterr, E_NO_MEMORY, "no memory to open the audit trail");
    bool is_found = false;
    audit_chain_begin(&log->chain);
    for (size_t i = names.count; result == 0 && i > 0 && !is_found; i--) {
        *tail = (struct tail){.line = NULL};
        result = open_file(log, names.names[i - 1], reterr);
        if (result == 0) result = read_tail(log, tail, reterr);
        if (result == 0) result = cut_torn(log, tail, reterr);
        *ret_torn += tail->torn_bytes;
        is_found = tail->line != NULL;
        if (is_found) audit_line_read(tail->line, tail->line_size, &log->chain, before, NULL);
    }
    if (result < 0) return result;
    log->files_seq = log->chain.seq;
    log->had_head = audit_head_read(log->folder, &head);
    if (log->had_head) log->head_seq = head.seq;
    if (log->had_head && head.seq > log->chain.seq) log->chain = head;
    return 0;
}

static int note_torn(struct audit_log *log, size_t torn_bytes, struct error *reterr) {
    char members[128], now[RFC3339_BYTES];
    clock_rfc3339(clock_wall_ms(), now);
    if (torn_bytes == 0) return 0;
    snprintf(members, sizeof members, "\"time\":\"%s\",\"op\":\"audit\",\"event\":\"mended\",\"cut_bytes\":%zu", now,
             torn_bytes);
    return audit_log_add(log, members, true, NULL, reterr);
}

/* The head is overwritten in place. Longer content of a damaged head would make every later one unreadable. */
static int open_head(struct audit_log *log, struct error *reterr) {
    struct stat info;
    log->head = openat(log->folder, AUDIT_HEAD, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->head < 0 || fstat(log->head, &info) < 0 ||
        (info.st_size > AUDIT_HEAD_BYTES && ftruncate(log->head, AUDIT_HEAD_BYTES) < 0))
        return error_errno(reterr, errno, "opening %s/" AUDIT_HEAD, log->folder_path);
    return 0;
}

static int open_all(const char *home, struct audit_log *log, struct error *reterr) {
    size_t torn_bytes = 0;
    int result = open_folder(home, log, reterr);
    if (result == 0) result = find_end(log, &torn_bytes, reterr);
    if (result == 0) result = open_head(log, reterr);
    if (result < 0) return result;
    note_torn(log, torn_bytes, NULL); /* a full disk must not prevent the start */
    audit_log_seal(log);
    return 0;
}

int audit_log_open(const char *home, const struct audit_limits *limits, struct audit_log *ret, struct error *reterr) {
    *ret = (struct audit_log){.folder = -1, .fd = -1, .head = -1, .limits = *limits};
    int result = open_all(home, ret, reterr);
    if (result < 0) audit_log_close(ret);
    return result;
}

void audit_log_close(struct audit_log *log) {
    if (log->fd >= 0 && log->reserved_end > log->size && ftruncate(log->fd, (off_t)log->size) < 0)
        errno = 0; /* the next daemon uses the reserve that stays on the disk */
    log->fd = fd_close(log->fd);
    log->head = fd_close(log->head);
    log->folder = fd_close(log->folder);
}

/* ---- writing ---- */

/* Allocates room for these bytes and the reserve behind them. An urgent record may use the reserve up. */
static int reserve(struct audit_log *log, size_t bytes, bool urgent, struct error *reterr) {
    uint64_t wanted_end = log->size + bytes + AUDIT_RESERVE_BYTES;
    if (log->reserved_end >= wanted_end) return 0;
    uint64_t more_end = wanted_end + AUDIT_RESERVE_BYTES;
    if (fallocate(log->fd, FALLOC_FL_KEEP_SIZE, (off_t)log->size, (off_t)(more_end - log->size)) == 0) {
        log->reserved_end = more_end;
        return 0;
    }
    if (urgent || errno == EOPNOTSUPP || errno == ENOSYS) return 0;
    return error_errno(reterr, errno, "the audit trail has no room for what is asked for");
}

static int write_lines(struct audit_log *log, const struct buf *lines, const struct audit_chain *chain,
                       struct error *reterr) {
    size_t written = 0;
    while (written < lines->size) {
        ssize_t done = pwrite(log->fd, lines->data + written, lines->size - written, (off_t)(log->size + written));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            int cause = done < 0 ? errno : ENOSPC;
            if (ftruncate(log->fd, (off_t)log->size) == 0) log->reserved_end = 0;
            return error_errno(reterr, cause, "writing the audit trail");
        }
        written += (size_t)done;
    }
    log->size += lines->size;
    log->chain = *chain;
    return 0;
}

static int add_line(struct audit_log *log, const char *members, bool urgent, struct buf *line, struct error *reterr) {
    struct audit_chain chain = log->chain;
    int result = audit_chain_add(&chain, members, line, reterr);
    if (result == 0) result = reserve(log, line->size, urgent, reterr);
    if (result == 0) result = write_lines(log, line, &chain, reterr);
    return result;
}

/* Reports missed records once there is room again. */
static void note_missed(struct audit_log *log) {
    char members[128], now[RFC3339_BYTES];
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    clock_rfc3339(clock_wall_ms(), now);
    snprintf(members, sizeof members, "\"time\":\"%s\",\"op\":\"audit\",\"event\":\"missed\",\"records\":%" PRIu64, now,
             log->missed);
    if (add_line(log, members, false, &line, NULL) == 0) log->missed = 0;
}

/* ---- rotation ---- */

/* Reads the first record of the oldest remaining file, which is the new beginning of the trail. */
static bool read_first(const struct audit_log *log, const char *name, struct audit_chain *ret,
                       char ret_before[AUDIT_HASH_BYTES]) {
    CLEANUP_FREE char *text = malloc(AUDIT_LINE_MAX_BYTES);
    CLEANUP_FD int fd = openat(log->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = text && fd >= 0 ? pread(fd, text, AUDIT_LINE_MAX_BYTES, 0) : -1;
    const char *end = got > 0 ? memchr(text, '\n', (size_t)got) : NULL;
    return end && audit_line_read(text, (size_t)(end - text), ret, ret_before, NULL) == 0;
}

static void drop_oldest(struct audit_log *log, const struct audit_names *names) {
    struct audit_chain first;
    char before[AUDIT_HASH_BYTES], members[256], now[RFC3339_BYTES];
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    size_t gone = names->count > log->limits.files_kept ? names->count - log->limits.files_kept : 0;
    if (gone == 0 || !read_first(log, names->names[gone], &first, before)) return;
    clock_rfc3339(clock_wall_ms(), now);
    snprintf(members, sizeof members,
             "\"time\":\"%s\",\"op\":\"audit\",\"event\":\"" AUDIT_DROPPED "\",\"first_seq\":%" PRIu64
             ",\"first_prev\":\"%s\"",
             now, first.seq, before);
    if (add_line(log, members, true, &line, NULL) < 0) return;
    for (size_t i = 0; i < gone; i++) unlinkat(log->folder, names->names[i], 0);
}

static int rotate(struct audit_log *log, struct error *reterr) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    char name[AUDIT_NAME_BYTES];
    audit_name_of(log->chain.seq + 1, name);
    audit_log_sync(log);
    if (log->fd >= 0 && ftruncate(log->fd, (off_t)log->size) < 0)
        return error_errno(reterr, errno, "closing a file of the audit trail");
    int result = open_file(log, name, reterr);
    if (result == 0) result = audit_names_read(log->folder, &names, reterr);
    if (result == 0) drop_oldest(log, &names);
    return result;
}

int audit_log_add(struct audit_log *log, const char *members, bool urgent, char **ret_line, struct error *reterr) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    int result = log->fd < 0 || log->size > log->limits.file_max_bytes ? rotate(log, reterr) : 0;
    if (result == 0 && log->missed > 0) note_missed(log);
    if (result == 0) result = add_line(log, members, urgent, &line, reterr);
    if (result < 0) {
        log->missed += urgent;
        return result;
    }
    line.size--; /* the newline */
    if (ret_line) *ret_line = buf_take_string(&line);
    return 0;
}

bool audit_log_add_chained(struct audit_log *log, const struct buf *lines, const struct audit_chain *chain) {
    bool is_possible = log->missed == 0 && lines->size > 0 && lines->size <= audit_log_room(log);
    return is_possible && write_lines(log, lines, chain, NULL) == 0;
}

size_t audit_log_room(const struct audit_log *log) {
    uint64_t reserved_end = log->reserved_end > AUDIT_RESERVE_BYTES ? log->reserved_end - AUDIT_RESERVE_BYTES : 0;
    uint64_t end = reserved_end < log->limits.file_max_bytes ? reserved_end : log->limits.file_max_bytes;
    return log->fd >= 0 && end > log->size ? end - log->size : 0;
}

void audit_log_seal(struct audit_log *log) {
    if (log->chain.seq > 0) audit_head_write(log->head, &log->chain);
}

void audit_log_sync(struct audit_log *log) {
    if (log->fd >= 0) fdatasync(log->fd);
}
