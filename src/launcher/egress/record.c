/* What a later launcher needs to know of egress: which process keeps it, and what each node may reach. Beside the
   records of nodes, with names that no node has. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail/egress_policy.h"
#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/egress/egress.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/record.h"

enum { KEEPER_BYTES = 128, POLICY_BYTES = 16384 };

static const char keeper_name[] = ".egress";
static const char policy_prefix[] = ".egress-";

static int write_file(const struct launcher *launcher, const char *name, const void *text, size_t size,
                      struct error *reterr) {
    CLEANUP_FD int fd =
        openat(launcher->slot.records_fd, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || file_write_all(fd, text, size) < 0 ||
        renameat(launcher->slot.records_fd, ".new", launcher->slot.records_fd, name) < 0)
        return error_errno(reterr, errno, "write the record %s", name);
    return 0;
}

/* Terminated; false when there is none, or it is longer than that. */
static bool read_file(const struct launcher *launcher, const char *name, char *ret, size_t size) {
    CLEANUP_FD int fd = openat(launcher->slot.records_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, ret, size);
    if (got < 0 || (size_t)got == size) return false;
    ret[got] = '\0';
    return true;
}

int egress_record_write(const struct launcher *launcher, pid_t keeper, struct error *reterr) {
    char text[KEEPER_BYTES];
    int size = snprintf(text, sizeof text, "egress pid=%d start=%llu\n", (int)keeper,
                        (unsigned long long)process_start_time(keeper));
    return write_file(launcher, keeper_name, text, (size_t)size, reterr);
}

pid_t egress_record_read(const struct launcher *launcher) {
    char text[KEEPER_BYTES];
    struct wire_message record;
    uint64_t pid, start;
    if (!read_file(launcher, keeper_name, text, sizeof text) || wire_message_parse(text, &record, NULL) < 0 ||
        !wire_message_number(&record, "pid", &pid) || !wire_message_number(&record, "start", &start) || pid < 2 ||
        pid > INT_MAX || start == 0 || process_start_time((pid_t)pid) != start)
        return 0;
    return (pid_t)pid;
}

void egress_record_remove(const struct launcher *launcher) {
    unlinkat(launcher->slot.records_fd, keeper_name, 0);
}

static void name_policy(const char *node, char ret[NAME_MAX]) {
    snprintf(ret, NAME_MAX, "%s%s", policy_prefix, node);
}

int egress_policy_write(const struct launcher *launcher, const struct jailed_node *node, struct error *reterr) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    CLEANUP(buf_free) struct buf text = {.max = POLICY_BYTES - 1};
    char name[NAME_MAX];
    struct jail_limits bounds = jail_egress_bounds(node->egress);
    if (plan_add(&plan, JAIL_PLAN_NODE, node->name, NULL, 0, reterr) < 0 ||
        egress_write(node->egress, &plan, reterr) < 0 || plan_add_limits(&plan, &bounds, reterr) < 0)
        return -1;
    jail_plan_print(&plan, &text);
    if (text.failed) return error_set(reterr, E_NO_MEMORY, "no memory for a record");
    name_policy(node->name, name);
    return write_file(launcher, name, text.data, text.size, reterr);
}

int egress_policy_read(const struct launcher *launcher, struct jailed_node *node, struct error *reterr) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    char text[POLICY_BYTES], name[NAME_MAX];
    struct jail_egress policy;
    name_policy(node->name, name);
    if (faccessat(launcher->slot.records_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) return 0;
    if (!read_file(launcher, name, text, sizeof text)) return error_set(reterr, E_FORMAT, "%s can't be read", name);
    if (jail_plan_parse(text, strlen(text), &plan, reterr) < 0 || egress_read(&plan, &policy, reterr) < 0) return -1;
    node->egress = malloc(sizeof *node->egress);
    if (!node->egress) return error_set(reterr, E_NO_MEMORY, "no memory for a policy");
    *node->egress = policy;
    return 0;
}

void egress_policy_remove(const struct launcher *launcher, const char *node) {
    char name[NAME_MAX];
    name_policy(node, name);
    unlinkat(launcher->slot.records_fd, name, 0);
}
