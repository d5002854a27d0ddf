/* Plays the processes that the launcher would start: bytes of the input choose what each says, which descriptors it
   keeps, and how it fails. */
#include "fuzz/fake/fake_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "launcher/egress/netlink.h"
#include "launcher/egress/network.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"
#include "launcher/start/spawn.h"

enum { KEPT_MAX = 256, KEEPER_PID = 4000 };

static struct {
    struct spawn *spawn; /* that is under way */
    int socket_fd;       /* the other end of the latest pair */
    int pipe_fd;         /* where the latest pipe is written to */
    int kept[KEPT_MAX];  /* what processes that live on hold */
    size_t kept_count;
} played = {.socket_fd = -1, .pipe_fd = -1};

void process_forget_all(void) {
    for (size_t i = 0; i < played.kept_count; i++) close(played.kept[i]);
    played.kept_count = 0;
    played.spawn = NULL;
    played.socket_fd = played.pipe_fd = -1;
}

static void keep(int fd) {
    if (played.kept_count < KEPT_MAX)
        played.kept[played.kept_count++] = fd;
    else
        close(fd);
}

static void say(int fd, const void *word, size_t size, int passed_fd) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr message = {.msg_iov = &(struct iovec){(void *)word, size}, .msg_iovlen = 1};
    if (passed_fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof passed_fd);
    }
    sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void make_failure(struct error *ret, unsigned choice) {
    *ret = (struct error){.code = (enum error_code)(choice % (E_COUNT + 2))};
    memset(ret->detail, 'x', sizeof ret->detail); /* with no end */
}

int __real_socketpair(int family, int type, int protocol, int fds[2]);
int __wrap_socketpair(int family, int type, int protocol, int fds[2]);
int __wrap_socketpair(int family, int type, int protocol, int fds[2]) {
    int failed = __real_socketpair(family, type, protocol, fds);
    played.socket_fd = failed ? -1 : fds[1];
    return failed;
}

int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags) {
    int failed = __real_pipe2(fds, flags);
    played.pipe_fd = failed ? -1 : fds[1];
    return failed;
}

void process_report_failure(unsigned choice) {
    struct error error;
    make_failure(&error, choice);
    if (played.pipe_fd >= 0 && writev(played.pipe_fd, &(struct iovec){&error, sizeof error}, 1) < 0) abort();
}

/* ---- nodes ---- */

int __real_sources_open(struct spawn *spawn, struct error *reterr);
int __wrap_sources_open(struct spawn *spawn, struct error *reterr);
int __wrap_sources_open(struct spawn *spawn, struct error *reterr) {
    played.spawn = spawn;
    return __real_sources_open(spawn, reterr);
}

/* With its own copies of the descriptors that were opened for it. */
static int build_jail(struct error *reterr) {
    struct spawn child = *played.spawn;
    CLEANUP_FREE int *trees = calloc(child.plan->count, sizeof *trees);
    if (!trees) abort();
    fake_play_child(true);
    for (size_t i = 0; i < child.plan->count; i++) trees[i] = fake_place(fcntl(child.trees[i], F_DUPFD_CLOEXEC, 0));
    child.trees = trees;
    int failed = start_enter(&child, reterr);
    fake_play_child(false);
    return failed;
}

static void say_filtered(void) {
    CLEANUP_FD int listener_fd = fake_listener();
    say(played.socket_fd, "F", 1, listener_fd);
}

/* What it says lies in the socket, and its end is closed with the launcher's copy of it. */
void process_start_node(void) {
    struct error error = {0};
    unsigned choice = fake_choose();
    int failed = played.spawn ? build_jail(&error) : 0;
    if (fake_fails_by(choice))
        make_failure(&error, choice);
    else if (!failed)
        say_filtered();
    if (failed || fake_fails_by(choice)) say(played.socket_fd, &error, sizeof error - (choice == 'z'), -1);
    if (choice == '1') say(played.socket_fd, "F", 1, -1);
    if (choice == '2') keep(fcntl(played.socket_fd, F_DUPFD_CLOEXEC, 0)); /* it never ends */
    played.spawn = NULL;
}

/* ---- ports ---- */

void process_start_forwarder(void) {
    struct forwarder_report report = {.inside_port = 4321};
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) make_failure(&report.error, choice);
    if (choice != '1') say(played.socket_fd, &report, sizeof report - (choice == '2'), -1);
    if (choice == '1' || choice == '3') keep(fcntl(played.socket_fd, F_DUPFD_CLOEXEC, 0));
}

int __real_socket(int family, int type, int protocol);

/* A listener of this process's own, at any port of the loopback, or none at all. */
static int listen_anywhere(unsigned choice) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = __real_socket(choice == '4' ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (choice != '5' && choice != '4' && bind(fd, (struct sockaddr *)&address, sizeof address) < 0) abort();
    return fd;
}

static void play_port(int socket_fd) {
    struct port_prepared prepared = {.device = 1, .inode = 1};
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) make_failure(&prepared.error, choice);
    CLEANUP_FD int opened_fd = listen_anywhere(choice);
    if (choice != '1') say(socket_fd, &prepared, sizeof prepared - (choice == '2'), choice == '3' ? -1 : opened_fd);
    if (choice == '1') keep(fcntl(socket_fd, F_DUPFD_CLOEXEC, 0));
}

/* ---- helpers ---- */

int __real_jailed_do_inside(const struct launcher *launcher, const struct jailed_node *node,
                            const struct inside_job *job, struct error *reterr);
int __wrap_jailed_do_inside(const struct launcher *launcher, const struct jailed_node *node,
                            const struct inside_job *job, struct error *reterr);
/* Chosen so, the helper ends without a word. */
int __wrap_jailed_do_inside(const struct launcher *launcher, const struct jailed_node *node,
                            const struct inside_job *job, struct error *reterr) {
    struct error error = {0};
    if (fake_choose()) return __real_jailed_do_inside(launcher, node, job, reterr);
    fake_play_child(true);
    if (!job->on_the_way || job->on_the_way(job->data, &error) == 0) job->inside(job->data, &error);
    fake_play_child(false);
    return error.code == E_NONE ? 0 : error_set(reterr, error.code, "%s", error.detail);
}

static void play_opener(int socket_fd) {
    struct opened opened = {0};
    unsigned choice = fake_choose();
    CLEANUP_FD int opened_fd = eventfd(0, EFD_CLOEXEC);
    if (fake_fails_by(choice)) make_failure(&opened.error, choice);
    opened.is_file = choice == '1';
    opened.signature = choice;
    if (choice != '2') say(socket_fd, &opened, sizeof opened - (choice == '3'), choice == '4' ? -1 : opened_fd);
    keep(fcntl(socket_fd, F_DUPFD_CLOEXEC, 0));
}

static void play_keeper(int greeting_fd) {
    struct egress_greeting greeting = {.pid = KEEPER_PID};
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) make_failure(&greeting.error, choice);
    size_t size = sizeof greeting - (choice == '1');
    if (choice == '2') keep(fcntl(greeting_fd, F_DUPFD_CLOEXEC, 0)); /* it says nothing yet */
    struct iovec piece = {&greeting, size};
    if (choice != '2' && writev(greeting_fd, &piece, 1) < 0) abort();
}

int __wrap_helper_start(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count,
                        int *ret_pidfd, struct error *reterr);
int __wrap_helper_start(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count,
                        int *ret_pidfd, struct error *reterr) {
    (void)body;
    if (fake_fails_by(fake_choose())) return error_errno(reterr, errno, "start a helper");
    *ret_pidfd = fake_place(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fd_count == 1 && !data)
        play_keeper(fds[0]);
    else if (fd_count == 1 && fds[0] == played.socket_fd)
        play_port(fds[0]);
    else if (fds[0] == played.socket_fd)
        play_opener(fds[0]);
    return 0;
}

/* ---- the network ---- */

int netlink_open(int protocol, struct netlink *ret, struct error *reterr) {
    (void)protocol;
    if (fake_fails_by(fake_choose())) return error_errno(reterr, errno, "open a netlink socket");
    *ret = (struct netlink){.fd = fake_place(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), .sequence = 1};
    return 0;
}

int netlink_open_in(int namespace_fd, int home_fd, int protocol, struct netlink *ret, struct error *reterr) {
    (void)namespace_fd, (void)home_fd;
    return netlink_open(protocol, ret, reterr);
}

void netlink_close(struct netlink *netlink) {
    fd_close(netlink->fd);
    netlink->fd = -1;
}

int netlink_ask(const struct netlink *netlink, const void *messages, size_t size, const char *what,
                struct error *reterr) {
    (void)netlink;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) sum += ((const uint8_t *)messages)[i]; /* all of them are there */
    return fake_fails_by(fake_choose()) || sum == UINT32_MAX ? error_errno(reterr, errno, "%s", what) : 0;
}

ssize_t netlink_get(const struct netlink *netlink, const void *question, size_t question_size, void *ret, size_t size) {
    (void)netlink, (void)question, (void)question_size;
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    memset(ret, (int)choice, choice < size ? choice : size);
    return (ssize_t)choice;
}

int __wrap_getifaddrs(struct ifaddrs **ret);
void __wrap_freeifaddrs(struct ifaddrs *list);

/* As many as chosen, of both kinds. */
int __wrap_getifaddrs(struct ifaddrs **ret) {
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    struct ifaddrs *list = NULL;
    for (unsigned i = 0; i < 1 + choice * 12; i++) {
        struct ifaddrs *entry = calloc(1, sizeof *entry + sizeof(struct sockaddr_in6));
        if (!entry) abort();
        struct sockaddr_in6 *address = (void *)(entry + 1);
        address->sin6_family = i % 3 ? AF_INET6 : AF_INET;
        memcpy(i % 3 ? (void *)&address->sin6_addr : (void *)&((struct sockaddr_in *)(void *)address)->sin_addr, &i,
               sizeof i);
        entry->ifa_addr = (struct sockaddr *)(void *)address;
        entry->ifa_next = list;
        list = entry;
    }
    *ret = list;
    return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list) {
    while (list) {
        struct ifaddrs *next = list->ifa_next;
        free(list);
        list = next;
    }
}
