/* Any messages to the launcher, behind the parser: every verb is carried out, on a kernel that is played. Nothing is
   left open, and every request is answered once.

   The input: a byte for the host, then what is sent, each piece ended by a zero byte: a line, of which the first byte
   says what is sent along and how much time passes, and the others what the kernel's calls return; then the message. */
#include <dirent.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fuzz/fake/fake_kernel.h"
#include "fuzz/harness/fuzz.h"
#include "jail/seccomp.h"
#include "jail/wire.h"
#include "launcher/launcher.h"

enum {
    DAEMON_UID = SLOT_UID_BASE,
    TURNS_MAX = 8,
    LAST_TURNS = 64,
    PIECES_MAX = 48,
    LONG_MS = 12000, /* every patience of the launcher's ends within */
    LIMIT_FDS = 4096,
};

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_verbs: %s\n", what);
    abort();
}

/* ---- what stays from input to input ---- */

static struct filter_cache filters; /* to build one takes milliseconds */
static int caller_fds[2] = {-1, -1};

static void connect_caller(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int listener_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(bind(listener_fd, (struct sockaddr *)&address, sizeof address.sun_family) == 0, "bind");
    socklen_t size = sizeof address;
    check(getsockname(listener_fd, (struct sockaddr *)&address, &size) == 0 && listen(listener_fd, 1) == 0, "listen");
    caller_fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(connect(caller_fds[0], (struct sockaddr *)&address, size) == 0, "connect");
    caller_fds[1] = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC);
    check(caller_fds[1] >= 0, "accept");
}

/* A call without a fake must not be made: the target may run as root. What libFuzzer and sanitizers need is left. */
static void forbid_real_calls(void) {
    static const char *const names[] = {"capset",
                                        "fsconfig",
                                        "fsmount",
                                        "fsopen",
                                        "fspick",
                                        "kill",
                                        "mount",
                                        "mount_setattr",
                                        "move_mount",
                                        "open_tree",
                                        "pidfd_getfd",
                                        "pidfd_open",
                                        "pidfd_send_signal",
                                        "pivot_root",
                                        "setfsgid",
                                        "setfsuid",
                                        "setgroups",
                                        "sethostname",
                                        "setns",
                                        "setresgid",
                                        "setresuid",
                                        "umount2",
                                        "unshare"};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        check(seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, seccomp_syscall_resolve_name(names[i]), 0) == 0,
              "seccomp");
    check(seccomp_load(filter) == 0, "seccomp");
    seccomp_release(filter);
}

void fuzz_prepare(void) {
    static const char *const sets[] = {"strict", "network", "open"};
    struct rlimit limit;
    check(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max < LIMIT_FDS ? limit.rlim_max : LIMIT_FDS;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (size_t i = 0; i < SECCOMP_SETS; i++)
        for (size_t counted = 0; counted < 2; counted++)
            check(seccomp_filter_build(sets[i], counted, &filters.filters[i][counted], NULL) == 0, "build a filter");
    connect_caller();
    forbid_real_calls();
}

static size_t count_descriptors(void) {
    DIR *listing = opendir("/proc/self/fd");
    size_t count = 0;
    check(listing != NULL, "/proc/self/fd");
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

/* ---- the launcher ---- */

static void choose_cgroups(struct cgroup_host *host, unsigned kind) {
    *host = (struct cgroup_host){.version = kind & 4 ? 0 : kind & 2 ? 1 : 2, .is_root = true};
    snprintf(host->mount, sizeof host->mount, "/sys/fs/cgroup");
    snprintf(host->group, sizeof host->group, "sandbox/1");
    if (host->version == 0) return;
    static const char *const v1_names[CGROUP_CONTROLLER_COUNT] = {"memory", "cpu", "cpuacct", "pids", "freezer", ""};
    for (size_t i = 0; i < CGROUP_CONTROLLER_COUNT; i++)
        snprintf(host->hierarchies[i], sizeof host->hierarchies[i], "%s", host->version == 1 ? v1_names[i] : ".");
    host->has_memory = host->has_cpu = host->has_tasks = host->has_freezer = host->has_yielding = true;
}

static struct launcher *make_launcher(unsigned kind) {
    struct launcher *launcher = launcher_new();
    check(launcher != NULL, "memory");
    launcher->log = (struct log){-1, LOG_ERROR_LEVEL + 1};
    launcher->root = !(kind & 1);
    snprintf(launcher->home.path, sizeof launcher->home.path, "/run/home");
    launcher->daemon_uid = launcher->daemon_gid = DAEMON_UID;
    launcher->filters = filters;
    launcher->features.guarantees = kind & 8 ? 0 : ~0u;
    choose_cgroups(&launcher->cgroups, kind);
    launcher->nodes.items = calloc(JAIL_NODES_MAX, sizeof *launcher->nodes.items);
    launcher->projects = calloc(JAIL_PROJECTS_MAX, sizeof *launcher->projects);
    launcher->ports.items = calloc(JAIL_PORTS_OF_LAUNCHER, sizeof *launcher->ports.items);
    check(launcher->ports.items && jail_port_ranges_parse(JAIL_PUBLISH_DEFAULT, &launcher->publish_ranges, NULL) == 0 &&
              jail_port_ranges_parse(JAIL_CONNECT_DEFAULT, &launcher->connect_ranges, NULL) == 0,
          "ports");
    launcher->loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    check(launcher->nodes.items && launcher->projects && launcher->loop.epoll_fd >= 0, "memory");
    return launcher;
}

/* As the process's end does. */
static void end_launcher(struct launcher *launcher) {
    server_drop_link(launcher);
    launcher->filters = (struct filter_cache){0};
    fd_close(launcher->loop.epoll_fd);
    launcher_close(launcher);
}

/* ---- the daemon's side ---- */

struct daemon {
    struct launcher *launcher;
    int fd;
    uint64_t serial; /* the link that it has */
    uint64_t ids[PIECES_MAX];
    size_t id_count; /* requests that wait for an answer */
};

static void dial(struct daemon *daemon) {
    int fds[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0, "socketpair");
    fd_close(daemon->fd);
    daemon->fd = fds[0];
    daemon->id_count = 0;
    fake_accept_next(fds[1], DAEMON_UID);
    server_accept(daemon->launcher);
    daemon->serial = daemon->launcher->server.link_serial;
    check(daemon->launcher->server.link_fd >= 0, "the daemon is not let in");
}

static bool has_link(const struct daemon *daemon) {
    return daemon->launcher->server.link_fd >= 0 && daemon->launcher->server.link_serial == daemon->serial;
}

static void note_answer(struct daemon *daemon, char *text) {
    struct wire_message message;
    uint64_t id;
    check(wire_message_parse(text, &message, NULL) == 0, "an answer that does not parse");
    if (strcmp(message.verb, "ok") != 0 && strcmp(message.verb, "error") != 0) return;
    check(message.count > 0 && parse_u64(message.words[0], &id), "an answer without an id");
    for (size_t i = 0; i < daemon->id_count; i++) {
        if (daemon->ids[i] != id) continue;
        daemon->ids[i] = daemon->ids[--daemon->id_count];
        return;
    }
    check(false, "an answer to no request");
}

/* The whole answer, and the descriptors that came with it closed. */
static bool receive(struct daemon *daemon) {
    static char text[JAIL_MESSAGE_BYTES + 1];
    union {
        char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &(struct iovec){text, sizeof text - 1},
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t size = recvmsg(daemon->fd, &message, MSG_CMSG_CLOEXEC);
    if (size <= 0) return false;
    check(!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)), "an answer that is too long");
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        for (size_t at = 0; at < header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            close(fd);
        }
    text[size] = '\0';
    note_answer(daemon, text);
    return true;
}

/* As the loop does, but that it never sleeps. */
static void turn(struct daemon *daemon) {
    launcher_turn(daemon->launcher, false);
    while (receive(daemon)) {
    }
}

/* ---- the input ---- */

struct piece {
    uint8_t control;
    const uint8_t *choices;
    size_t choice_count;
    const uint8_t *text;
    size_t size;
};

static bool next_piece(const uint8_t **data, size_t *size, struct piece *ret) {
    if (*size == 0) return false;
    const uint8_t *zero = memchr(*data, 0, *size);
    size_t length = zero ? (size_t)(zero - *data) : *size;
    const uint8_t *line = memchr(*data, '\n', length);
    size_t line_size = line ? (size_t)(line - *data) : length;
    *ret = (struct piece){.control = line_size ? **data : 0,
                          .choices = *data + 1,
                          .choice_count = line_size > 1 ? line_size - 1 : 0,
                          .text = line ? line + 1 : *data + length,
                          .size = line ? length - line_size - 1 : 0};
    *data += length + (zero != NULL);
    *size -= length + (zero != NULL);
    return true;
}

/* The caller's connection, or something else; one, or more than the launcher wants. */
static void send_piece(const struct daemon *daemon, const struct piece *piece) {
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){(void *)piece->text, piece->size}, .msg_iovlen = 1};
    size_t count = piece->control & 3;
    if (count) {
        int fds[] = {caller_fds[piece->control >> 2 & 1], caller_fds[0], daemon->fd};
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    check(sendmsg(daemon->fd, &message, MSG_NOSIGNAL) == (ssize_t)piece->size, "the launcher does not read");
}

/* What does not parse is not a request, and ends the link. */
static void note_request(struct daemon *daemon, const struct piece *piece) {
    struct wire_message message;
    CLEANUP_FREE char *copy = strndup((const char *)piece->text, piece->size);
    uint64_t id;
    check(copy != NULL, "memory");
    if (wire_message_parse(copy, &message, NULL) == 0 && message.count > 0 && parse_u64(message.words[0], &id))
        daemon->ids[daemon->id_count++] = id;
}

static void carry_out(struct daemon *daemon, const struct piece *piece) {
    if (!has_link(daemon)) dial(daemon);
    fake_decide(piece->choices, piece->choice_count);
    if (piece->size > 0 && piece->size <= JAIL_MESSAGE_BYTES) {
        note_request(daemon, piece);
        send_piece(daemon, piece);
    }
    turn(daemon);
    for (size_t i = 0; i < (piece->control >> 3 & 1) * TURNS_MAX; i++) {
        fake_pass_time(LONG_MS / TURNS_MAX / 4);
        turn(daemon);
    }
}

/* By now every patience has ended, and nothing fails any more. */
static void wait_for_answers(struct daemon *daemon) {
    fake_decide(NULL, 0);
    for (size_t i = 0; i < LAST_TURNS && has_link(daemon) && daemon->id_count > 0; i++) {
        turn(daemon);
        fake_pass_time(LONG_MS / 16);
    }
    check(!has_link(daemon) || daemon->id_count == 0, "a request that was not answered");
}

void fuzz_one(const uint8_t *data, size_t size) {
    if (size == 0) return;
    size_t before = count_descriptors();
    fake_begin();
    struct daemon daemon = {.launcher = make_launcher(data[0]), .fd = -1};
    struct piece piece;
    data++, size--;
    for (size_t i = 0; i < PIECES_MAX && next_piece(&data, &size, &piece); i++) carry_out(&daemon, &piece);
    wait_for_answers(&daemon);
    end_launcher(daemon.launcher);
    fd_close(daemon.fd);
    fake_end();
    check(count_descriptors() == before, "a descriptor is left open");
}
