/* A small file for each port, so that a later launcher knows it, and finds its forwarder. Beside the records of nodes,
   with names that no node has. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/record.h"

enum { RECORD_BYTES = 8192 };

static const char prefix[] = ".port-";

static void name_file(const struct launcher *launcher, const struct launcher_port *port, char ret[NAME_MAX]) {
    snprintf(ret, NAME_MAX, "%s%zu", prefix, ports_index(launcher, port));
}

static void print(const struct launcher_port *port, struct buf *text) {
    const struct forwarder *forwarder = &port->forwarder;
    bool has_one = forwarder->pidfd >= 0;
    buf_append_string(text, "port");
    wire_put_pair(text, "set", port->set);
    ports_describe(port, text);
    wire_put_number(text, "inside", port->inside);
    caller_put(&port->caller, text);
    wire_put_number(text, "device", port->device);
    wire_put_number(text, "inode", port->inode);
    wire_put_pair(text, "node", has_one ? forwarder->node : "");
    wire_put_number(text, "pid", has_one ? (uint64_t)forwarder->pid : 0);
    wire_put_number(text, "start", has_one ? forwarder->start_time : 0);
    wire_put_number(text, "as", has_one ? forwarder->uid : 0);
    buf_append_byte(text, '\n');
}

/* Written aside and renamed, as records are. */
int ports_record_write(const struct launcher *launcher, const struct launcher_port *port, struct error *reterr) {
    char file[NAME_MAX];
    CLEANUP(buf_free) struct buf text = {.max = RECORD_BYTES - 1};
    print(port, &text);
    if (text.failed) return error_set(reterr, E_TOO_LARGE, "the caller of a port has too many groups to keep");
    name_file(launcher, port, file);
    CLEANUP_FD int fd =
        openat(launcher->slot.records_fd, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || file_write_all(fd, text.data, text.size) < 0 ||
        renameat(launcher->slot.records_fd, ".new", launcher->slot.records_fd, file) < 0)
        return error_errno(reterr, errno, "write the record of a port of %s", port->set);
    return 0;
}

void ports_record_remove(const struct launcher *launcher, const struct launcher_port *port) {
    char file[NAME_MAX];
    name_file(launcher, port, file);
    unlinkat(launcher->slot.records_fd, file, 0);
}

/* ---- taking over ---- */

static bool read_forwarder(const struct wire_message *record, struct forwarder *ret) {
    const char *node = wire_message_value(record, "node");
    uint64_t pid, start, uid;
    if (!node || !wire_message_number(record, "pid", &pid) || !wire_message_number(record, "start", &start) ||
        !wire_message_number(record, "as", &uid) || pid > INT_MAX || uid > UINT32_MAX)
        return false;
    *ret = (struct forwarder){.pid = (pid_t)pid, .start_time = start, .uid = (uid_t)uid, .pidfd = -1, .page_fd = -1};
    return !*node || (plan_name_is_valid(node) && string_format(ret->node, sizeof ret->node, NULL, "%s", node) == 0);
}

static bool read_port(const struct wire_message *record, struct launcher_port *ret) {
    const char *set = wire_message_value(record, "set"), *way = wire_message_value(record, "way");
    const char *text = wire_message_value(record, "text");
    uint64_t inside;
    if (!set || !plan_name_is_valid(set) || !way || !text || jail_port_way_find(way, &ret->port.way) < 0 ||
        jail_port_parse(ret->port.way, text, &ret->port, NULL) < 0 || !wire_message_number(record, "inside", &inside) ||
        inside > JAIL_PORT_NAMES_MAX || !caller_take(record, &ret->caller) ||
        !wire_message_number(record, "device", &ret->device) || !wire_message_number(record, "inode", &ret->inode))
        return false;
    ret->inside = (unsigned)inside;
    return string_format(ret->set, sizeof ret->set, NULL, "%s", set) == 0 && read_forwarder(record, &ret->forwarder);
}

/* The pidfd comes first: if it still lives after the checks, it is the process that was checked. */
static int open_checked(const struct forwarder *forwarder) {
    CLEANUP_FD int pidfd = forwarder->pid > 1 ? pidfd_open(forwarder->pid, 0) : -1;
    if (pidfd < 0 || process_start_time(forwarder->pid) != forwarder->start_time ||
        process_uid(forwarder->pid) != forwarder->uid)
        return -1;
    return take_fd(&pidfd);
}

/* The listener of a published port and the counts are in the forwarder, whose own they are. Only root gets them from
   there: without it they are not to be had, and the port is opened anew when its next node is served. */
static void take_over(struct launcher *launcher, struct launcher_port *port, const struct forwarder *recorded) {
    const struct jailed_node *node = nodes_find(launcher, recorded->node);
    struct error error;
    port->forwarder = *recorded;
    port->forwarder.pidfd = open_checked(recorded);
    if (port->forwarder.pidfd < 0) {
        port->forwarder.node[0] = '\0';
        return;
    }
    port->is_served = node != NULL;
    if (port->port.way == JAIL_PORT_IN) port->fd = pidfd_getfd(port->forwarder.pidfd, FORWARDER_LISTENER_FD, 0);
    port->forwarder.page_fd = pidfd_getfd(port->forwarder.pidfd, FORWARDER_PAGE_FD, 0);
    off_t place = offsetof(struct jail_port_page, bounds);
    struct jail_port_bounds bounds;
    if (pread(port->forwarder.page_fd, &bounds, sizeof bounds, place) == sizeof bounds) port->bounds = bounds;
    if (launcher_watch(launcher, port->forwarder.pidfd, SOURCE_FORWARDER, ports_index(launcher, port), &error) < 0)
        launcher_log(launcher, LOG_ERROR_LEVEL, "watch_failed", "set", port->set, "detail", error.detail, NULL);
    if (!node) ports_end_of_node(launcher, recorded->node);
}

/* The operator may have changed the settings since. */
static void end_unless_allowed(struct launcher *launcher, struct launcher_port *port) {
    struct error error;
    if (ports_check_allowed(launcher, &port->port, &error) == 0) return;
    launcher_log(launcher, LOG_WARN_LEVEL, "port_not_allowed", "set", port->set, "detail", error.detail, NULL);
    ports_end(launcher, port, (struct request){0});
}

/* Read first and removed: a port may get another place than it had. */
static void adopt(struct launcher *launcher, const char *file) {
    char text[RECORD_BYTES];
    struct wire_message record;
    struct launcher_port recorded = {0}, *port;
    bool is_read = file_read_text(launcher->slot.records_fd, file, text, sizeof text) >= 0 &&
                   wire_message_parse(text, &record, NULL) == 0 && read_port(&record, &recorded);
    unlinkat(launcher->slot.records_fd, file, 0);
    if (!is_read || ports_add(launcher, &recorded, &port, NULL) < 0) {
        launcher_log(launcher, LOG_WARN_LEVEL, "port_record_refused", "file", file, NULL);
        return;
    }
    take_over(launcher, port, &recorded.forwarder);
    end_unless_allowed(launcher, port);
}

static size_t list_records(const struct launcher *launcher, char (*ret)[NAME_MAX], size_t max) {
    size_t count = 0;
    int fd = openat(launcher->slot.records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        fd_close(fd);
        return 0;
    }
    for (struct dirent *entry; count < max && (entry = readdir(listing));)
        if (string_starts(entry->d_name, prefix)) snprintf(ret[count++], NAME_MAX, "%.200s", entry->d_name);
    closedir(listing);
    return count;
}

void ports_adopt(struct launcher *launcher) {
    CLEANUP_FREE char(*files)[NAME_MAX] = calloc(JAIL_PORTS_OF_LAUNCHER, sizeof *files);
    size_t count = files ? list_records(launcher, files, JAIL_PORTS_OF_LAUNCHER) : 0;
    for (size_t i = 0; i < count; i++) adopt(launcher, files[i]);
    for (size_t i = 0; i < launcher->ports.end; i++)
        if (launcher->ports.items[i].state != PORT_FREE) /* not one that ended just now */
            ports_record_write(launcher, &launcher->ports.items[i], NULL);
}
