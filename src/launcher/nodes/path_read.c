/* The path of a refused system call lies in the node's memory. To read there waits for whatever the node does to its
   memory meanwhile, and the node can draw that out. So a process of its own reads, and the launcher does not wait. */
#include "launcher/nodes/path_read.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "jail/seccomp.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"

enum { PATH_BYTES = 256, PAGE_BYTES = 4096, PATIENCE_MS = 1000 };

struct job {
    pid_t pid;
    uint64_t call_id, address;
};

/* ---- in a process of its own ---- */

static ssize_t read_memory(const struct job *job, char *ret, size_t size) {
    struct iovec local = {ret, size}, remote = {(void *)(uintptr_t)job->address, size};
    ssize_t got = process_vm_readv(job->pid, &local, 1, &remote, 1, 0);
    if (got >= 0) return got;
    /* At a page's end less may be readable than is asked for. */
    remote.iov_len = PAGE_BYTES - job->address % PAGE_BYTES;
    return remote.iov_len < size ? process_vm_readv(job->pid, &local, 1, &remote, 1, 0) : -1;
}

/* The call is still under way afterwards, so it was its own process that was read. */
static void read_path(const void *data) {
    const struct job *job = data;
    char path[PATH_BYTES] = "";
    uint64_t id = job->call_id;
    if (read_memory(job, path, sizeof path - 1) <= 0 || ioctl(HELPER_FD, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0) return;
    file_write_all(HELPER_FD + 1, path, strlen(path));
}

/* ---- the launcher's side ---- */

static bool find_path(const struct seccomp_notif *call, uint64_t *ret_address) {
    static const struct {
        int number;
        unsigned argument;
    } with_path[] = {{SYS_execve, 0}, {SYS_execveat, 1}, {SYS_mount, 1},      {SYS_umount2, 0},
                     {SYS_chroot, 0}, {SYS_swapon, 0},   {SYS_pivot_root, 0}, {SYS_open_tree, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(with_path); i++) {
        if (with_path[i].number != call->data.nr) continue;
        *ret_address = call->data.args[with_path[i].argument];
        return true;
    }
    return false;
}

static int start(struct launcher *launcher, struct jailed_node *node, const struct job *job) {
    int fds[2];
    struct error ignored;
    if (helper_check_dying(launcher, node->uid, NULL) < 0 || pipe2(fds, O_CLOEXEC) < 0) return -1;
    CLEANUP_FD int read_fd = fds[0];
    CLEANUP_FD int write_fd = fds[1];
    int pidfd = -1;
    if (launcher_watch(launcher, read_fd, SOURCE_PATH, nodes_index(launcher, node), &ignored) < 0) return -1;
    if (helper_start(read_path, job, (int[]){node->listener_fd, write_fd}, 2, &pidfd, &ignored) < 0) {
        launcher_unwatch(launcher, read_fd);
        return -1;
    }
    node->path_reading.pidfd = pidfd;
    node->path_reading.fd = take_fd(&read_fd);
    return 0;
}

bool path_read_start(struct launcher *launcher, struct jailed_node *node, const struct seccomp_notif *call) {
    struct path_reading *reading = &node->path_reading;
    struct job job = {.pid = (pid_t)call->pid, .call_id = call->id};
    if (node->is_starting || reading->under_way || !find_path(call, &job.address) || !violation_is_detailed(node))
        return false;
    if (start(launcher, node, &job) < 0) return false;
    reading->under_way = true;
    reading->call_id = call->id;
    reading->number = call->data.nr;
    reading->due_ms = clock_monotonic_ms() + PATIENCE_MS;
    launcher_due_at(launcher, reading->due_ms);
    return true;
}

void path_read_call_off(struct launcher *launcher, struct jailed_node *node) {
    struct path_reading *reading = &node->path_reading;
    if (!reading->under_way) return;
    reading->under_way = false;
    launcher_unwatch(launcher, reading->fd);
    reading->fd = fd_close(reading->fd);
    reading->pidfd = helper_end_of(launcher, node->uid, reading->pidfd);
}

static void finish(struct launcher *launcher, struct jailed_node *node, const char *detail) {
    struct path_reading reading = node->path_reading;
    union notify_answer reply = {.answer = {.id = reading.call_id, .error = -seccomp_refusal(reading.number)}};
    path_read_call_off(launcher, node);
    violation_tell(launcher, node, reading.number, detail);
    /* Killed or interrupted meanwhile: there is nothing to refuse. */
    if (node->listener_fd >= 0 && ioctl(node->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &reply.answer) < 0) return;
}

void path_read_came(struct launcher *launcher, struct jailed_node *node) {
    char path[PATH_BYTES], detail[PATH_BYTES + 8] = "";
    ssize_t got = read(node->path_reading.fd, path, sizeof path - 1);
    if (got > 0) snprintf(detail, sizeof detail, "path=%.*s", (int)got, path);
    finish(launcher, node, detail);
}

uint64_t path_read_check(struct launcher *launcher, uint64_t now_ms) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < launcher->nodes.end; i++) {
        struct jailed_node *node = &launcher->nodes.items[i];
        if (!node->used || !node->path_reading.under_way) continue;
        if (now_ms >= node->path_reading.due_ms)
            finish(launcher, node, "");
        else if (node->path_reading.due_ms < next_ms)
            next_ms = node->path_reading.due_ms;
    }
    return next_ms;
}
