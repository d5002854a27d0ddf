/* The forwarder's own side: from a copy of the launcher to a process that can do nothing but move bytes between its
   listener and one place. A published port's lives in the network of its node and has a uid of its own; a connection's
   lives in the host's, with the rights of its caller. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/seccomp.h"
#include "jail/syscalls.h"
#include "launcher/cgroup/cgroup.h"
#include "launcher/forward/forward.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/privileges.h"
#include "launcher/project/project.h"

enum {
    END_FD = FORWARDER_PAGE_FD + 1, /* the node's pidfd */
    SYNC_FD,
    KEPT_FDS,
    SPARE_FD = 64,
    INSIDE_BACKLOG = 1024,
    DESCRIPTORS_PER_CONNECTION = 6, /* two sockets, and a pipe each way while bytes wait */
    DESCRIPTORS_OWN = 256,
    OLDEST_LANDLOCK_WITH_PORTS = 4,
    OLDEST_LANDLOCK_WITH_SCOPES = 6,
};

/* ---- the network of its node ---- */

static int enter_network(const struct port_start *start, struct error *reterr) {
    CLEANUP_FD int door_fd = -1;
    if (start->launcher->root) {
        if (setns(start->node->pidfd, CLONE_NEWNET) == 0) return 0;
    } else {
        door_fd = pidfd_open(jailed_door(start->launcher, start->node), 0);
        if (door_fd >= 0 && setns(door_fd, CLONE_NEWUSER | CLONE_NEWNET) == 0) return 0;
    }
    return error_errno(reterr, errno, "enter the node's network");
}

/* On a loopback address of its own, which its name stands for inside. */
static int listen_inside(const struct launcher_port *port, struct error *reterr) {
    int on = 1;
    uint32_t address = port->inside ? 0x7f010000u + port->inside : INADDR_LOOPBACK;
    struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons(port->port.port), .sin_addr = {htonl(address)}};
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_errno(reterr, errno, "make a socket inside");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&place, sizeof place) < 0 || listen(fd, INSIDE_BACKLOG) < 0)
        return error_set(reterr, errno == EADDRINUSE ? E_CONFLICT : E_SYSTEM, "port %u inside the sandbox: %s",
                         port->port.port, strerror(errno));
    return take_fd(&fd);
}

static _Noreturn void run_inside(const struct port_start *start, int socket_fd) {
    struct error error = {0};
    int fd = enter_network(start, &error) < 0 ? -1 : listen_inside(start->port, &error);
    fd_send(socket_fd, &error, sizeof error, &fd, fd >= 0, 0);
    _exit(EXIT_SUCCESS);
}

/* A process goes in and hands its socket out, since there may be no way back. */
static int fetch_listener(struct port_start *start, struct error *reterr) {
    struct error report = {0};
    int fds[2], fd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return error_errno(reterr, errno, "make a socket pair");
    pid_t pid = fork();
    if (pid < 0) return error_errno(reterr, errno, "start a process inside");
    if (pid == 0) run_inside(start, fds[1]);
    close(fds[1]);
    ssize_t size = fd_receive(fds[0], &report, sizeof report, &fd, 1, 0);
    waitpid(pid, NULL, 0);
    close(fds[0]);
    if (size == (ssize_t)sizeof report && report.code != E_NONE)
        return error_set(reterr, report.code, "%s", report.detail);
    if (fd < 0) return error_set(reterr, E_SYSTEM, "no socket came from inside");
    start->listener_fd = fd;
    return 0;
}

static int enter_places(struct port_start *start, struct error *reterr) {
    int failed = cgroup_join(&start->cgroup);
    if (failed) return error_errno(reterr, failed, "join the node's cgroups");
    if (start->port->port.way == JAIL_PORT_OUT) return fetch_listener(start, reterr);
    start->listener_fd = start->port->fd;
    return enter_network(start, reterr);
}

/* ---- no files ---- */

/* What the sandbox can write in the service's folder must not lead its forwarder elsewhere: in a mount of this folder
   alone no link is followed, and nothing is above it. Only root can have that. */
static int hold_folder(struct port_start *start, struct error *reterr) {
    struct mount_attr change = {.attr_set =
                                    MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                                .propagation = MS_PRIVATE};
    bool is_named = start->port->port.way == JAIL_PORT_OUT && start->port->port.protocol == JAIL_PORT_UNIX;
    start->folder_fd = is_named ? start->port->fd : -1;
    if (!is_named || !start->launcher->root) return 0;
    start->folder_fd = open_tree(start->port->fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (start->folder_fd < 0 || mount_setattr(start->folder_fd, "", AT_EMPTY_PATH, &change, sizeof change) < 0)
        return error_errno(reterr, errno, "hold the service's folder");
    return 0;
}

/* Without root the host's mounts can't be left by a process that stays in the host's network: Landlock keeps it from
   every file. */
static int leave_files(const struct port_start *start, struct error *reterr) {
    bool can_leave = start->launcher->root || start->port->port.way == JAIL_PORT_IN;
    if (!can_leave) return 0;
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
              "size=4096,nr_inodes=1,mode=0555") < 0 ||
        chdir("/tmp") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_errno(reterr, errno, "leave the host's files");
    return 0;
}

/* First out of the way of where they are wanted, then there; all else closes. */
static int arrange_descriptors(struct port_start *start, struct error *reterr) {
    const int wanted[] = {start->listener_fd, start->port->forwarder.page_fd, start->node->pidfd, start->sync_fd};
    int spare[ARRAY_SIZE(wanted)];
    _Static_assert(FORWARDER_LISTENER_FD + ARRAY_SIZE(wanted) == KEPT_FDS, "one after the other");
    if (start->folder_fd >= 0 && fchdir(start->folder_fd) < 0)
        return error_errno(reterr, errno, "go to the service's folder");
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if ((spare[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, SPARE_FD)) < 0)
            return error_errno(reterr, errno, "arrange descriptors");
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (dup3(spare[i], FORWARDER_LISTENER_FD + (int)i, O_CLOEXEC) < 0)
            return error_errno(reterr, errno, "arrange descriptors");
    start->sync_fd = SYNC_FD;
    if (close_range(0, FORWARDER_LISTENER_FD - 1, 0) < 0 || close_range(KEPT_FDS, ~0U, 0) < 0)
        return error_errno(reterr, errno, "close descriptors");
    return 0;
}

/* ---- no rights ---- */

static int bound_process(struct error *reterr) {
    struct rlimit descriptors, none = {0, 0}, core = {1, 1};
    rlim_t wanted = (rlim_t)FORWARD_CONNECTIONS_MAX * DESCRIPTORS_PER_CONNECTION + DESCRIPTORS_OWN;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0) return error_errno(reterr, errno, "look at its bounds");
    if (descriptors.rlim_max > wanted) descriptors.rlim_max = wanted;
    descriptors.rlim_cur = descriptors.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0 || setrlimit(RLIMIT_FSIZE, &none) < 0 ||
        setrlimit(RLIMIT_NPROC, &none) < 0 || setrlimit(RLIMIT_MEMLOCK, &none) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
        return error_errno(reterr, errno, "bound a forwarder");
    return 0;
}

static int drop_rights(const struct port_start *start, struct error *reterr) {
    const struct launcher *launcher = start->launcher;
    /* Without root the capabilities to drop are those over the node's namespaces. */
    bool has_bounding = launcher->root || start->port->port.way == JAIL_PORT_IN;
    if (has_bounding && privileges_drop_bounding(reterr) < 0) return -1;
    if (launcher->root && start->port->port.way == JAIL_PORT_OUT) {
        if (caller_become(&start->port->caller, true, reterr) < 0) return -1;
    } else if (launcher->root && privileges_become(start->uid, start->uid, NULL, 0, reterr) < 0) {
        return -1;
    }
    if (privileges_drop_all(reterr) < 0) return -1;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return error_errno(reterr, errno, "become non-dumpable");
    return 0;
}

struct ruleset_attributes {
    uint64_t access_fs, access_net, scoped;
};

struct port_rule {
    uint64_t allowed_access, port;
};

enum { RULE_NET_PORT = 2, NET_BIND = 1 << 0, NET_CONNECT = 1 << 1, SCOPE_ALL = 3 };

/* No file, and where the kernel can tell, no port but the one it is for. */
static int enter_landlock(const struct port_start *start, struct error *reterr) {
    const struct jail_port *port = &start->port->port;
    int abi = start->launcher->features.landlock_abi;
    bool knows_ports = abi >= OLDEST_LANDLOCK_WITH_PORTS, knows_scopes = abi >= OLDEST_LANDLOCK_WITH_SCOPES;
    struct ruleset_attributes attributes = {.access_fs = (1ULL << 13) - 1,
                                            .access_net = knows_ports ? NET_BIND | NET_CONNECT : 0,
                                            .scoped = knows_scopes ? SCOPE_ALL : 0};
    if (abi == 0) return 0;
    size_t size = knows_scopes ? sizeof attributes : knows_ports ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    CLEANUP_FD int fd = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
    struct port_rule rule = {NET_CONNECT, port->way == JAIL_PORT_IN ? port->port : port->host.first_port};
    if (fd < 0 || (knows_ports && rule.port && syscall(SYS_landlock_add_rule, fd, RULE_NET_PORT, &rule, 0) < 0) ||
        syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return error_errno(reterr, errno, "restrict a forwarder with Landlock");
    return 0;
}

static const struct syscall_group calls[] = {
    {SYSCALLS_EVERY, SYSCALL_ALLOW, "epoll_create1 epoll_ctl epoll_wait epoll_pwait"},
    {SYSCALLS_EVERY, SYSCALL_ALLOW, "accept4 connect shutdown splice pipe2 close"},
    {SYSCALLS_EVERY, SYSCALL_ALLOW, "sendto recvfrom getsockopt getsockname getpeername"},
    {SYSCALLS_EVERY, SYSCALL_ALLOW, "brk munmap newfstatat"},
    {SYSCALLS_EVERY, SYSCALL_ALLOW, "clock_gettime rt_sigreturn restart_syscall exit exit_group"},
};

static const struct syscall_rule rules[] = {
    /* A name, and nothing of what is in the file. */
    {"openat", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{2, SYSCALL_EQUAL, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0}}},
    {"socket", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{0, SYSCALL_EQUAL, AF_INET, 0}}},
    {"socket", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{0, SYSCALL_EQUAL, AF_INET6, 0}}},
    {"socket", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{0, SYSCALL_EQUAL, AF_UNIX, 0}}},
    {"setsockopt", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{1, SYSCALL_EQUAL, SOL_SOCKET, 0}}},
    {"setsockopt", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{1, SYSCALL_EQUAL, IPPROTO_TCP, 0}}},
    {"mmap", SYSCALLS_EVERY, SYSCALL_ALLOW, 1, {{2, SYSCALL_EQUAL, 0, PROT_EXEC}}},
};

static int enter_filter(const struct sock_fprog *filter, struct error *reterr) {
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) < 0)
        return error_errno(reterr, errno, "install the forwarder's filter");
    return 0;
}

static struct jail_port_page *map_page(struct error *reterr) {
    struct jail_port_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, FORWARDER_PAGE_FD, 0);
    if (page != MAP_FAILED) return page;
    error_errno(reterr, errno, "map the port's page");
    return NULL;
}

/* ---- all of it ---- */

static int enter_jail(struct port_start *start, struct error *reterr) {
    static const struct syscall_table table = {calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules)};
    CLEANUP(cleanup_seccomp_filter) struct sock_fprog *filter = NULL;
    if (seccomp_filter_build_own(&table, &filter, reterr) < 0) return -1;
    if (enter_places(start, reterr) < 0 || hold_folder(start, reterr) < 0 || leave_files(start, reterr) < 0) return -1;
    if (arrange_descriptors(start, reterr) < 0 || bound_process(reterr) < 0 || drop_rights(start, reterr) < 0)
        return -1;
    return enter_landlock(start, reterr) < 0 ? -1 : enter_filter(filter, reterr);
}

/* A child that outlives the launcher for a moment must neither keep the next one out nor hide its end. */
static void leave_launcher(const struct launcher *launcher) {
    fd_close(launcher->server.link_fd);
    fd_close(launcher->home.lock_fd);
    if (launcher->root) fd_close(launcher->slot.fd);
    setsid();
    prctl(PR_SET_NAME, "sandbox-forward", 0, 0, 0);
    memset(launcher->command_line, 0, launcher->command_line_size);
    signals_reset();
    signal(SIGPIPE, SIG_IGN);
    priority_reset();
}

static uint16_t inside_port(const struct port_start *start) {
    struct sockaddr_in place = {0};
    socklen_t size = sizeof place;
    bool is_inside = start->port->port.way == JAIL_PORT_OUT;
    return is_inside && getsockname(FORWARDER_LISTENER_FD, (struct sockaddr *)&place, &size) == 0
               ? ntohs(place.sin_port)
               : 0;
}

_Noreturn void ports_run_forwarder(struct port_start *start) {
    struct forwarder_report report = {0};
    struct forward forward = {.way = start->port->port.way,
                              .protocol = start->port->port.protocol,
                              .proxy = start->port->port.proxy,
                              .sees_host = !start->launcher->root,
                              .listener_fd = FORWARDER_LISTENER_FD,
                              .end_fd = END_FD};
    forward_aim(&forward, &start->port->port);
    leave_launcher(start->launcher);
    if (enter_jail(start, &report.error) == 0) forward.page = map_page(&report.error);
    bool is_ready = forward.page != NULL;
    if (is_ready) report.inside_port = inside_port(start);
    send(start->sync_fd, &report, sizeof report, MSG_NOSIGNAL);
    close(start->sync_fd);
    if (is_ready) forward_run(&forward);
    _exit(is_ready ? EXIT_SUCCESS : EXIT_FAILURE);
}
