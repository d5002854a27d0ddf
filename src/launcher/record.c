/* A small file per node, so that a later launcher can tell our nodes from whatever else has their pids. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/record.h"

enum { RECORD_BYTES = 320, STAT_BYTES = 1024, START_TIME_FIELD = 22 };

/* Written aside and renamed, so that a record is whole or absent. Names of nodes never start with a dot. */
int record_write(const struct launcher *launcher, const struct jailed_node *node, struct error *reterr) {
    char text[RECORD_BYTES];
    int size = snprintf(text, sizeof text, "node pid=%d start=%llu uid=%u counted=%d execs=%llu used=%llu owner=%u\n",
                        (int)node->pid, (unsigned long long)node->start_time, (unsigned)node->uid, node->counts_execs,
                        (unsigned long long)node->execs_max, (unsigned long long)node->execs_used, node->owner);
    CLEANUP_FD int fd =
        openat(launcher->slot.records_fd, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text, (size_t)size) != size ||
        renameat(launcher->slot.records_fd, ".new", launcher->slot.records_fd, node->name) < 0)
        return error_errno(reterr, errno, "write the record of node %s", node->name);
    return 0;
}

void record_remove(const struct launcher *launcher, const char *name) {
    unlinkat(launcher->slot.records_fd, name, 0);
}

int record_read(const struct launcher *launcher, const char *name, struct jailed_node *ret, struct error *reterr) {
    char text[RECORD_BYTES];
    struct wire_message record;
    uint64_t pid, start, uid, counted, execs, used, owner = NODE_UNOWNED;
    if (file_read_text(launcher->slot.records_fd, name, text, sizeof text) < 0)
        return error_errno(reterr, errno, "read the record of node %s", name);
    if (wire_message_parse(text, &record, reterr) < 0) return -1;
    if (!wire_message_number(&record, "pid", &pid) || !wire_message_number(&record, "start", &start) ||
        !wire_message_number(&record, "uid", &uid) || !wire_message_number(&record, "counted", &counted) ||
        !wire_message_number(&record, "execs", &execs) || !wire_message_number(&record, "used", &used) || pid < 2 ||
        pid > INT_MAX || uid > UINT32_MAX)
        return error_set(reterr, E_FORMAT, "the record of node %s is not one", name);
    wire_message_number(&record, "owner", &owner); /* not there: an earlier version wrote it */
    struct jailed_node node = {.pid = (pid_t)pid,
                               .start_time = start,
                               .uid = (uid_t)uid,
                               .owner = (uid_t)owner,
                               .counts_execs = counted != 0,
                               .execs_max = execs,
                               .execs_used = used,
                               .pidfd = -1,
                               .listener_fd = -1};
    if (string_format(node.name, sizeof node.name, reterr, "%s", name) < 0) return -1;
    *ret = node;
    return 0;
}

uint64_t process_start_time(pid_t pid) {
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read_text(AT_FDCWD, path, text, sizeof text) < 0) return 0;
    /* The second field is a name that may hold spaces and parentheses; what follows its last one is regular. */
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < START_TIME_FIELD; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

uid_t process_uid(pid_t pid) {
    char path[64], text[STAT_BYTES];
    unsigned uid;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (file_read_text(AT_FDCWD, path, text, sizeof text) < 0) return (uid_t)-1;
    char *line = strstr(text, "\nUid:");
    return line && sscanf(line, "\nUid:\t%u", &uid) == 1 ? (uid_t)uid : (uid_t)-1;
}
