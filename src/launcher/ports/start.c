/* Starting a forwarder: the launcher's side. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "launcher/forward/forward.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/helper.h"
#include "launcher/record.h"

enum { BACKLOG = 4096, PATIENCE_MS = 10000 };

void ports_write_bounds(const struct launcher_port *port) {
    off_t place = offsetof(struct jail_port_page, bounds);
    if (port->forwarder.page_fd < 0) return;
    ssize_t written = pwrite(port->forwarder.page_fd, &port->bounds, sizeof port->bounds, place);
    (void)written; /* a page of memory, which is there */
}

/* Of a fixed size, so that no process that has it mapped is hurt by another that has it open. */
static int make_page(struct launcher_port *port, struct error *reterr) {
    if (port->forwarder.page_fd >= 0) return 0; /* a successor counts on */
    CLEANUP_FD int fd = memfd_create("port", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof(struct jail_port_page)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(reterr, errno, "make the page of a port");
    port->forwarder.page_fd = take_fd(&fd);
    return 0;
}

static uid_t choose_uid(struct launcher *launcher, const struct launcher_port *port) {
    if (port->port.way == JAIL_PORT_OUT) return port->caller.uid;
    return nodes_choose_uid(launcher);
}

/* In a namespace of processes of its own it sees none of the host's; only root can have that. */
static pid_t clone_forwarder(const struct launcher *launcher, int *ret_pidfd) {
    struct clone_args arguments = {.flags = CLONE_PIDFD | (launcher->root ? CLONE_NEWPID : 0),
                                   .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
                                   .exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static int start_child(struct port_start *start, struct launcher_port *port, int *ret_fd, struct error *reterr) {
    int fds[2], pidfd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    CLEANUP_FD int own_fd = fds[0], its_fd = fds[1];
    start->sync_fd = its_fd;
    pid_t pid = clone_forwarder(start->launcher, &pidfd);
    if (pid == 0) {
        close(own_fd);
        ports_run_forwarder(start);
    }
    if (pid < 0) return error_errno(reterr, errno, "start a forwarder");
    port->forwarder.pid = pid;
    port->forwarder.pidfd = pidfd;
    port->forwarder.start_time = process_start_time(pid);
    port->forwarder.uid = start->uid;
    *ret_fd = take_fd(&own_fd);
    return 0;
}

/* A listener that refused its clients while nothing served them. */
static int listen_again(const struct launcher_port *port, struct error *reterr) {
    int on = 1;
    if (port->port.way == JAIL_PORT_OUT || port->port.protocol != JAIL_PORT_TCP) return 0;
    if (setsockopt(port->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && listen(port->fd, BACKLOG) == 0) return 0;
    return error_errno(reterr, errno, "listen again");
}

static int watch(struct launcher *launcher, struct launcher_port *port, struct error *reterr) {
    size_t index = ports_index(launcher, port);
    if (launcher_watch(launcher, port->forwarder.pidfd, SOURCE_FORWARDER, index, reterr) < 0) return -1;
    return launcher_watch(launcher, port->helper_fd, SOURCE_PORT, index, reterr);
}

static void undo(struct launcher *launcher, struct launcher_port *port) {
    siginfo_t info;
    if (port->forwarder.pidfd < 0) return;
    pidfd_send_signal(port->forwarder.pidfd, SIGKILL, NULL, 0);
    waitid(P_PIDFD, (id_t)port->forwarder.pidfd, &info, WEXITED);
    launcher_unwatch(launcher, port->forwarder.pidfd);
    port->forwarder.pidfd = fd_close(port->forwarder.pidfd);
}

int ports_start_forwarder(struct launcher *launcher, struct launcher_port *port, const struct jailed_node *node,
                          struct error *reterr) {
    struct port_start start = {.launcher = launcher, .port = port, .node = node, .uid = choose_uid(launcher, port)};
    if (!(launcher->features.guarantees & 1u << JAIL_GUARANTEE_NETWORK))
        return error_set(reterr, E_GUARANTEE, "without network namespaces no port of a sandbox can be told apart");
    if (make_page(port, reterr) < 0 || listen_again(port, reterr) < 0 ||
        cgroup_open(&launcher->cgroups, node->name, &start.cgroup, reterr) < 0)
        return -1;
    ports_write_bounds(port);
    int failed = start_child(&start, port, &port->helper_fd, reterr);
    cgroup_close(&start.cgroup);
    if (!failed) failed = watch(launcher, port, reterr);
    if (failed) {
        undo(launcher, port);
        port->helper_fd = fd_close(port->helper_fd);
        return -1;
    }
    port->state = PORT_STARTING;
    port->due_ms = clock_monotonic_ms() + PATIENCE_MS;
    launcher_due_at(launcher, port->due_ms);
    return 0;
}
