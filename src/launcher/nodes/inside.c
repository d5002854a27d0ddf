/* Changes inside a node that runs already: a helper goes in, since mounts can only be attached and sized from there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/project/helper.h"

enum { PATIENCE_MS = 2000 }; /* a mount takes half a millisecond, and everyone waits for it */

/* The node's uid in there, so that what is made belongs to it; capabilities over its namespaces stay. */
static int take_identity(struct error *reterr) {
    if (setresgid(JAILED_ID_INSIDE, JAILED_ID_INSIDE, JAILED_ID_INSIDE) < 0 ||
        setresuid(JAILED_ID_INSIDE, JAILED_ID_INSIDE, JAILED_ID_INSIDE) < 0)
        return error_errno(reterr, errno, "take the node's uid");
    return 0;
}

pid_t jailed_program(const struct jailed_node *node) {
    char path[64], text[32];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)node->pid, (int)node->pid);
    return file_read_text(AT_FDCWD, path, text, sizeof text) > 0 ? atoi(text) : 0;
}

/* The init lets only root in, since it is not dumpable; its first child, the program, lets its own user in. */
pid_t jailed_door(const struct launcher *launcher, const struct jailed_node *node) {
    return launcher->root ? node->pid : jailed_program(node);
}

/* Without root, mounts of the host can be cloned only in a copy of them that the node's user namespace owns. */
static int visit_copy(const struct inside_job *job, struct error *reterr) {
    if (!job->on_the_way) return 0;
    if (unshare(CLONE_NEWNS) < 0) return error_errno(reterr, errno, "copy the mounts");
    return job->on_the_way(job->data, reterr);
}

static int enter(const struct launcher *launcher, const struct jailed_node *node, const struct inside_job *job,
                 struct error *reterr) {
    if (launcher->root) {
        if (job->on_the_way && job->on_the_way(job->data, reterr) < 0) return -1;
        if (setns(node->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0) return error_errno(reterr, errno, "enter the node");
        return take_identity(reterr);
    }
    CLEANUP_FD int door_fd = pidfd_open(jailed_door(launcher, node), 0);
    if (door_fd < 0 || setns(door_fd, CLONE_NEWUSER) < 0)
        return error_errno(reterr, errno, "enter the node's user namespace");
    if (take_identity(reterr) < 0 || visit_copy(job, reterr) < 0) return -1;
    if (setns(door_fd, CLONE_NEWNS) < 0) return error_errno(reterr, errno, "enter the node's mounts");
    return 0;
}

void jailed_go_inside(const struct launcher *launcher, const struct jailed_node *node, const struct inside_job *job,
                      struct error *ret) {
    *ret = (struct error){0};
    if (enter(launcher, node, job, ret) == 0) job->inside(job->data, ret);
}

static _Noreturn void run_helper(const struct launcher *launcher, const struct jailed_node *node,
                                 const struct inside_job *job, int report_fd) {
    struct error error;
    jailed_go_inside(launcher, node, job, &error);
    _exit(write(report_fd, &error, sizeof error) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

int jailed_do_inside(const struct launcher *launcher, const struct jailed_node *node, const struct inside_job *job,
                     struct error *reterr) {
    int fds[2];
    struct error error = {0};
    if (pipe2(fds, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    CLEANUP_FD int read_fd = fds[0];
    CLEANUP_FD int write_fd = fds[1];
    pid_t pid = fork();
    if (pid < 0) return error_errno(reterr, errno, "start a helper");
    if (pid == 0) run_helper(launcher, node, job, write_fd);
    fd_close(take_fd(&write_fd));
    /* Everything else waits for it: a file system that hangs must not make that for ever. A process that waits for one
       does not end when it is killed, so that is not waited for. */
    bool is_late = poll(&(struct pollfd){.fd = read_fd, .events = POLLIN}, 1, PATIENCE_MS) <= 0;
    if (is_late) kill(pid, SIGKILL);
    ssize_t size = is_late ? -1 : read(read_fd, &error, sizeof error);
    waitpid(pid, NULL, is_late ? WNOHANG : 0);
    if (is_late) return error_set(reterr, E_TIMEOUT, "the file system of node %s did not answer in time", node->name);
    if (size != (ssize_t)sizeof error) return error_set(reterr, E_SYSTEM, "the helper inside the node ended early");
    return helper_error(&error, reterr);
}
