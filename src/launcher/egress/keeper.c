/* The process that the egress namespace lives by: its pid is the namespace's name, and its end is the namespace's.
   It keeps slirp4netns running, which passes on between the namespace and the host's network, and outlives the
   launcher as nodes do. One that serves no node for a while ends by itself, so that nothing is left of a service that
   was killed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/egress/rules.h"
#include "launcher/privileges.h"
#include "launcher/project/helper.h"

enum {
    READY_TIMEOUT_MS = 3000,
    LOOK_S = 30,
    LONELY_LOOKS = 20,   /* ten minutes, as nodes that no daemon claims */
    OWN_INTERFACES = 2,  /* the loopback and the tap */
    RESTART_DELAY_S = 1, /* of a slirp4netns that ended */
};

struct keeper {
    const char *slirp;
    char namespace_path[64];
    int host_fd; /* the host's network namespace */
    pid_t slirp_pid;
    int leash_fd; /* slirp4netns ends when this end of a pipe is closed */
    struct netlink route;
};

/* In the host's network, where it connects from. */
static _Noreturn void run_slirp(const struct keeper *keeper, int ready_fd, int leash_fd) {
    char ready[16], leash[16];
    snprintf(ready, sizeof ready, "%d", fcntl(ready_fd, F_DUPFD, HELPER_FD));
    snprintf(leash, sizeof leash, "%d", fcntl(leash_fd, F_DUPFD, HELPER_FD));
    signals_reset();
    priority_reset();
    /* It unmounts everything it doesn't need; where mounts are shared, the host would lose them too. */
    if (keeper->slirp && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        setns(keeper->host_fd, CLONE_NEWNET) == 0)
        execl(keeper->slirp, keeper->slirp, "--netns-type=path", "--configure", "--mtu=65520", "--enable-ipv6",
              "--disable-host-loopback", "--enable-sandbox", "--enable-seccomp", "--cidr=" EGRESS_NETWORK, "--ready-fd",
              ready, "--exit-fd", leash, keeper->namespace_path, EGRESS_TAP, NULL);
    _exit(EXIT_FAILURE);
}

static int start_slirp(struct keeper *keeper, struct error *reterr) {
    int ready[2], leash[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    CLEANUP_FD int ready_read = ready[0], ready_write = ready[1];
    if (pipe2(leash, O_CLOEXEC) < 0) return error_errno(reterr, errno, "make a pipe");
    CLEANUP_FD int leash_read = leash[0];
    fd_close(keeper->leash_fd);
    keeper->leash_fd = leash[1];
    keeper->slirp_pid = fork();
    if (keeper->slirp_pid < 0) return error_errno(reterr, errno, "start slirp4netns");
    if (keeper->slirp_pid == 0) run_slirp(keeper, ready_write, leash_read);
    fd_close(take_fd(&ready_write));
    struct pollfd poll_ready = {.fd = ready_read, .events = POLLIN};
    if (poll(&poll_ready, 1, READY_TIMEOUT_MS) != 1 || read(ready_read, &byte, 1) != 1)
        return error_set(reterr, E_SYSTEM, "%s makes no egress from a network namespace here", keeper->slirp);
    return veth_prepare_tap(&keeper->route, reterr);
}

/* What the launcher wrote to is not ours to hold open. */
static void leave_terminal(void) {
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) dup2(null_fd, fd);
    fd_close(null_fd);
}

static int write_setting(const char *path, struct error *reterr) {
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1) return error_errno(reterr, errno, "write %s", path);
    return 0;
}

static int make_namespace(struct keeper *keeper, struct error *reterr) {
    keeper->host_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (keeper->host_fd < 0 || unshare(CLONE_NEWNET) < 0)
        return error_errno(reterr, errno, "make the egress network namespace");
    snprintf(keeper->namespace_path, sizeof keeper->namespace_path, "/proc/%d/ns/net", (int)getpid());
    if (write_setting("/proc/sys/net/ipv4/ip_forward", reterr) < 0 ||
        write_setting("/proc/sys/net/ipv6/conf/all/forwarding", reterr) < 0 ||
        netlink_open(NETLINK_ROUTE, &keeper->route, reterr) < 0)
        return -1;
    return start_slirp(keeper, reterr);
}

static size_t count_interfaces(void) {
    struct if_nameindex *list = if_nameindex();
    size_t count = 0;
    while (list && list[count].if_index) count++;
    if (list) if_freenameindex(list);
    return count;
}

/* SIGTERM: false. slirp4netns that ended: another. */
static bool serve(struct keeper *keeper, const sigset_t *signals) {
    int number = sigtimedwait(signals, NULL, &(struct timespec){.tv_sec = LOOK_S});
    if (number == SIGTERM) return false;
    if (number == SIGCHLD && waitpid(keeper->slirp_pid, NULL, WNOHANG) == keeper->slirp_pid) {
        if (sigtimedwait(signals, NULL, &(struct timespec){.tv_sec = RESTART_DELAY_S}) == SIGTERM) return false;
        return start_slirp(keeper, NULL) == 0;
    }
    return true;
}

static void end_slirp(const struct keeper *keeper) {
    fd_close(keeper->leash_fd);
    if (keeper->slirp_pid <= 0) return;
    kill(keeper->slirp_pid, SIGKILL);
    waitpid(keeper->slirp_pid, NULL, 0);
}

static void keep(struct keeper *keeper, const sigset_t *signals) {
    for (unsigned lonely = 0; lonely < LONELY_LOOKS && serve(keeper, signals);)
        lonely = count_interfaces() <= OWN_INTERFACES ? lonely + 1 : 0;
    end_slirp(keeper);
}

/* It is in a record, where the next launcher finds it. One whose launcher died before that would have no owner. */
static bool is_recorded(int ready_fd) {
    char byte;
    ssize_t size;
    do size = read(ready_fd, &byte, 1);
    while (size < 0 && errno == EINTR);
    return size == 1;
}

_Noreturn void egress_keep(int ready_fd) {
    struct keeper keeper = {.slirp = egress_find_slirp(), .leash_fd = -1, .slirp_pid = -1};
    struct egress_greeting greeting = {.pid = getpid()};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    setsid();
    leave_terminal();
    prctl(PR_SET_NAME, "sandbox-egress", 0, 0, 0);
    bool is_made = keeper.slirp && make_namespace(&keeper, &greeting.error) == 0;
    if (!keeper.slirp) error_set(&greeting.error, E_SYSTEM, "slirp4netns is not installed");
    if (send(ready_fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) is_made = false;
    if (is_made && is_recorded(ready_fd)) {
        fd_close(ready_fd);
        keep(&keeper, &signals);
    } else {
        end_slirp(&keeper);
    }
    _exit(EXIT_SUCCESS);
}
