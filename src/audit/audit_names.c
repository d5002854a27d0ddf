/* Names of the audit trail's files, and the head file with the last record's number and hash. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit_internal.h"

enum { NAME_DIGITS = 20 };

void audit_name_of(uint64_t seq, char ret[AUDIT_NAME_BYTES]) {
    snprintf(ret, AUDIT_NAME_BYTES, "%0*" PRIu64 AUDIT_SUFFIX, NAME_DIGITS, seq);
}

uint64_t audit_name_seq(const char *name) {
    return strtoull(name, NULL, 10);
}

static bool is_name(const char *name) {
    if (strlen(name) != NAME_DIGITS + strlen(AUDIT_SUFFIX) || !string_ends(name, AUDIT_SUFFIX)) return false;
    for (size_t i = 0; i < NAME_DIGITS; i++)
        if (!isdigit((unsigned char)name[i])) return false;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static int collect(DIR *directory, struct audit_names *names, struct error *reterr) {
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!is_name(entry->d_name)) continue;
        if (names->count == AUDIT_FILES_MAX)
            return error_set(reterr, E_TOO_LARGE, "the audit trail has more than %d files", AUDIT_FILES_MAX);
        memcpy(names->names[names->count++], entry->d_name, strlen(entry->d_name) + 1); /* is_name checked the length */
    }
    qsort(names->names, names->count, sizeof *names->names, by_name);
    return 0;
}

int audit_names_read(int folder, struct audit_names *ret, struct error *reterr) {
    CLEANUP(audit_names_free)
    struct audit_names names = {.names = calloc(AUDIT_FILES_MAX, sizeof *names.names)};
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory || !names.names) {
        fd_close(fd);
        return error_errno(reterr, errno, "reading the audit trail's folder");
    }
    int result = collect(directory, &names, reterr);
    closedir(directory);
    if (result < 0) return result;
    *ret = names;
    names = (struct audit_names){0};
    return 0;
}

void audit_names_free(struct audit_names *names) {
    free(names->names);
    *names = (struct audit_names){0};
}

/* ---- the head ---- */

bool audit_head_read(int folder, struct audit_chain *ret) {
    char text[AUDIT_HEAD_BYTES + 1] = "", again[AUDIT_HEAD_BYTES + 1], digits[NAME_DIGITS + 1] = "";
    struct audit_chain head = {0};
    CLEANUP_FD int fd = openat(folder, AUDIT_HEAD, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || pread(fd, text, sizeof text, 0) != AUDIT_HEAD_BYTES) return false;
    memcpy(digits, text, NAME_DIGITS);
    memcpy(head.hash, text + NAME_DIGITS + 1, AUDIT_HASH_BYTES - 1);
    if (!parse_u64(digits, &head.seq)) return false;
    snprintf(again, sizeof again, "%0*" PRIu64 " %s\n", NAME_DIGITS, head.seq, head.hash);
    if (memcmp(again, text, AUDIT_HEAD_BYTES) != 0) return false;
    *ret = head;
    return true;
}

/* Overwrites in place, always with the same width. A killed daemon leaves the old head or the new one. Either is at
   most too old. */
void audit_head_write(int fd, const struct audit_chain *chain) {
    char text[AUDIT_HEAD_BYTES + 1];
    snprintf(text, sizeof text, "%0*" PRIu64 " %s\n", NAME_DIGITS, chain->seq, chain->hash);
    if (pwrite(fd, text, AUDIT_HEAD_BYTES, 0) < 0) return; /* the next record writes it again */
}
