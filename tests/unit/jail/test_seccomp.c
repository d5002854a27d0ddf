/* Tests the seccomp filters on the running kernel: a child makes each call, and its errno is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "jail/seccomp.h"
#include "jail/syscalls.h"

enum { DEADLINE_MS = 20000 };

static int install(const struct sock_fprog *filter, unsigned flags) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, filter);
}

static struct sock_fprog *quiet_filter(const char *set) {
    struct sock_fprog *filter = NULL;
    struct error error = {0};
    if (seccomp_filter_build_quiet(set, &filter, &error) < 0) fail_msg("%s", error.detail);
    return filter;
}

/* ---- single calls: a child makes each and its errno is compared ---- */

static int raw(long result) {
    return result < 0 ? errno : 0;
}

static int try_socket_of(int family, int type, int protocol) {
    int fd = socket(family, type, protocol);
    int result = raw(fd);
    fd_close(fd);
    return result;
}

static int try_unix(void) {
    return try_socket_of(AF_UNIX, SOCK_STREAM, 0);
}
static int try_inet(void) {
    return try_socket_of(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}
static int try_inet6(void) {
    return try_socket_of(AF_INET6, SOCK_STREAM, 0);
}
static int try_tcp(void) {
    return try_socket_of(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
}
static int try_udp(void) {
    return try_socket_of(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
}
static int try_sctp(void) {
    return try_socket_of(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}
static int try_udplite(void) {
    return try_socket_of(AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE);
}
static int try_ping(void) {
    return try_socket_of(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
}
static int try_pair_of(int family) {
    int pair[2] = {-1, -1};
    int result = raw(socketpair(family, SOCK_SEQPACKET, 0, pair));
    fd_close(pair[0]), fd_close(pair[1]);
    return result;
}
static int try_unix_pair(void) {
    return try_pair_of(AF_UNIX);
}
static int try_tipc_pair(void) {
    return try_pair_of(AF_TIPC);
}
static int try_raw(void) {
    return try_socket_of(AF_INET, SOCK_RAW, 1);
}
static int try_route(void) {
    return try_socket_of(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}
static int try_audit(void) {
    return try_socket_of(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
}
static int try_packet(void) {
    return try_socket_of(AF_PACKET, SOCK_DGRAM, 0);
}
static int try_vsock(void) {
    return try_socket_of(AF_VSOCK, SOCK_STREAM, 0);
}
static int try_alg(void) {
    return try_socket_of(AF_ALG, SOCK_SEQPACKET, 0);
}
static int try_ptrace(void) {
    return raw(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
static int try_unshare(void) {
    return raw(unshare(CLONE_NEWNS));
}
static int try_clone_namespace(void) {
    long pid = syscall(SYS_clone, CLONE_NEWUTS | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0) _exit(0);
    return raw(pid);
}
static int try_clone(void) {
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0) _exit(0);
    return raw(pid) || waitpid((pid_t)pid, NULL, 0) != pid;
}
static int try_clone3(void) {
    return raw(syscall(SYS_clone3, NULL, 0));
}
static int try_mount(void) {
    return raw(syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL));
}
static int try_chroot(void) {
    return raw(chroot("/"));
}
static int try_bpf(void) {
    return raw(syscall(SYS_bpf, 0, NULL, 0));
}
static int try_io_uring(void) {
    return raw(syscall(SYS_io_uring_setup, 1, NULL));
}
static int try_keyctl(void) {
    return raw(syscall(SYS_keyctl, 0, -3, 0));
}
static int try_personality(void) {
    return raw(syscall(SYS_personality, 0xffffffff));
}
static int try_seccomp(void) {
    return raw(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, NULL));
}
static int try_setuid(void) {
    return raw(syscall(SYS_setuid, 1));
}
static int try_inotify(void) {
    return raw(syscall(SYS_inotify_init1, 0));
}
static int try_sti(void) {
    return raw(ioctl(0, TIOCSTI, "x"));
}
static int try_set_terminal(void) {
    return raw(ioctl(-1, TCSETS, NULL)) == EBADF ? 0 : errno;
}
static int try_window_size(void) {
    return raw(ioctl(-1, TIOCGWINSZ, NULL)) == EBADF ? 0 : errno;
}
static int try_interface_list(void) {
    return raw(ioctl(-1, SIOCGIFCONF, NULL)) == EBADF ? 0 : errno;
}
static int try_set_interface(void) {
    return raw(ioctl(-1, SIOCSIFFLAGS, NULL));
}
static int try_name(void) {
    return raw(prctl(PR_SET_NAME, "x", 0, 0, 0));
}
static int try_keep_caps(void) {
    return raw(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
}
static int try_dumpable(void) {
    return raw(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
static int try_socket_with_high_bits(void) {
    return raw(syscall(SYS_socket, 0x100000001UL, SOCK_STREAM, 0));
}

/* Of no descriptor: who would really sync something says EBADF. */
static int try_fsync(void) {
    return raw(fsync(-1));
}
static int try_fdatasync(void) {
    return raw(fdatasync(-1));
}
static int try_syncfs(void) {
    return raw(syncfs(-1));
}

/* The errno of each call in each set; 0: it goes through. */
static const struct {
    const char *name;
    int (*attempt)(void);
    int strict, network, open;
} attempts[] = {
    {"unix", try_unix, 0, 0, 0},
    {"inet", try_inet, EAFNOSUPPORT, 0, 0},
    {"inet6", try_inet6, EAFNOSUPPORT, 0, 0},
    {"tcp", try_tcp, EAFNOSUPPORT, 0, 0},
    {"udp", try_udp, EAFNOSUPPORT, 0, 0},
    {"sctp", try_sctp, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"udplite", try_udplite, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"ping", try_ping, EAFNOSUPPORT, ENOSYS, ENOSYS},
    {"unix pair", try_unix_pair, 0, 0, 0},
    {"tipc pair", try_tipc_pair, EPERM, EPERM, EPERM},
    {"raw", try_raw, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"route", try_route, EAFNOSUPPORT, 0, 0},
    {"audit", try_audit, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"packet", try_packet, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"vsock", try_vsock, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"alg", try_alg, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"high bits", try_socket_with_high_bits, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT},
    {"ptrace", try_ptrace, EPERM, EPERM, EPERM},
    {"unshare", try_unshare, EPERM, EPERM, EPERM},
    {"clone with a namespace", try_clone_namespace, EPERM, EPERM, EPERM},
    {"clone", try_clone, 0, 0, 0},
    {"clone3", try_clone3, ENOSYS, ENOSYS, ENOSYS},
    {"mount", try_mount, EPERM, EPERM, EPERM},
    {"chroot", try_chroot, EPERM, EPERM, EPERM},
    {"bpf", try_bpf, EPERM, EPERM, EPERM},
    {"io_uring", try_io_uring, EPERM, EPERM, EPERM},
    {"keyctl", try_keyctl, EPERM, EPERM, EPERM},
    {"personality", try_personality, EPERM, EPERM, EPERM},
    {"seccomp", try_seccomp, ENOSYS, ENOSYS, ENOSYS},
    {"setuid", try_setuid, ENOSYS, ENOSYS, ENOSYS},
    {"inotify", try_inotify, ENOSYS, ENOSYS, 0},
    {"TIOCSTI", try_sti, EPERM, EPERM, EPERM},
    {"TCSETS", try_set_terminal, ENOSYS, ENOSYS, 0},
    {"TIOCGWINSZ", try_window_size, 0, 0, 0},
    {"SIOCGIFCONF", try_interface_list, ENOSYS, 0, 0},
    {"SIOCSIFFLAGS", try_set_interface, ENOSYS, ENOSYS, ENOSYS},
    {"PR_SET_NAME", try_name, 0, 0, 0},
    {"PR_SET_KEEPCAPS", try_keep_caps, ENOSYS, ENOSYS, ENOSYS},
    {"PR_SET_DUMPABLE", try_dumpable, ENOSYS, ENOSYS, ENOSYS},
    {"fsync", try_fsync, 0, 0, 0},
    {"fdatasync", try_fdatasync, 0, 0, 0},
    {"syncfs", try_syncfs, ENOSYS, ENOSYS, 0},
};

static void assert_attempts(const char *set, size_t column) {
    struct sock_fprog *filter = quiet_filter(set);
    int results[ARRAY_SIZE(attempts)] = {0};
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (install(filter, 0) < 0) _exit(1);
        for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) results[i] = attempts[i].attempt();
        _exit(write(pipes[1], results, sizeof results) == sizeof results ? 0 : 1);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], results, sizeof results), sizeof results);
    close(pipes[0]);
    waitpid(pid, NULL, 0);
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        int expected = (&attempts[i].strict)[column];
        if (results[i] != expected)
            fail_msg("%s in %s: errno %d instead of %d", attempts[i].name, set, results[i], expected);
    }
    seccomp_filter_free(filter);
}

static void each_set_refuses_what_it_should(void **state) {
    (void)state;
    assert_attempts("strict", 0);
    assert_attempts("network", 1);
    assert_attempts("open", 2);
}

/* ---- foreign architectures ---- */

static void foreign_calls_kill(void **state) {
    (void)state;
#ifdef __x86_64__
    struct sock_fprog *filter = quiet_filter("open");
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (install(filter, 0) < 0) _exit(1);
            if (i == 0)
                syscall(0x40000000 | SYS_getpid); /* x32 */
            else
                __asm__ volatile("int $0x80" ::"a"(20) : "memory"); /* i386 getpid */
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
    seccomp_filter_free(filter);
#endif
}

/* ---- notifications ---- */

static int take_listener(pid_t pid, int from) {
    int fd = -1;
    assert_int_equal(read(from, &fd, sizeof fd), sizeof fd);
    assert_true(fd >= 0);
    CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}

static int receive_call(int listener, bool go_on) {
    struct seccomp_notif request = {0};
    assert_int_equal(poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, DEADLINE_MS), 1);
    assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request), 0);
    struct seccomp_notif_resp answer = {.id = request.id};
    if (go_on)
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        answer.error = -seccomp_refusal(request.data.nr);
    assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
    return request.data.nr;
}

static void assert_name(int nr, const char *expected) {
    char name[SECCOMP_NAME_BYTES];
    seccomp_syscall_name(nr, name);
    assert_string_equal(name, expected);
}

static void dangerous_calls_notify(void **state) {
    (void)state;
    struct sock_fprog *filter = NULL;
    struct error error;
    int pipes[2];
    assert_int_equal(seccomp_filter_build("strict", true, &filter, &error), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int listener = install(filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (write(pipes[1], &listener, sizeof listener) != sizeof listener || listener < 0) _exit(1);
        if (try_ptrace() != EPERM || try_inet() != EAFNOSUPPORT || try_clone_namespace() != EPERM) _exit(2);
        execl("/bin/true", "true", NULL);
        _exit(3);
    }
    CLEANUP_FD int listener = take_listener(pid, pipes[0]);
    assert_true(listener >= 0);
    assert_name(receive_call(listener, false), "ptrace");
    assert_name(receive_call(listener, false), "socket");
    assert_name(receive_call(listener, false), "clone");
    assert_name(receive_call(listener, true), "execve");
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(pipes[0]), close(pipes[1]);
    seccomp_filter_free(filter);
}

static void names_only_what_notifies(void **state) {
    (void)state;
    assert_name(SYS_io_uring_enter, "io_uring_enter");
    assert_name(SYS_mount, "mount");
    assert_name(SYS_ioctl, "ioctl");
    assert_name(SYS_read, "unknown");
    assert_name(-1, "unknown");
}

static void unknown_sets_are_refused(void **state) {
    (void)state;
    struct sock_fprog *filter = NULL;
    struct error error;
    assert_int_equal(seccomp_filter_build("lenient", true, &filter, &error), -E_INVALID);
    assert_int_equal(seccomp_filter_build_quiet("", &filter, &error), -E_INVALID);
    assert_null(filter);
}

/* ---- a real VM under each set ---- */

#define WORK                                                                                                           \
    "ok = file:write_file(\"f\", <<\"x\">>), {ok, <<\"x\">>} = file:read_file(\"f\"), ok = file:rename(\"f\", \"g\")," \
    "{ok, [\"g\"]} = file:list_dir(\".\"), ok = file:change_mode(\"g\", 8#600), ok = file:delete(\"g\"),"              \
    "{ok, L} = gen_tcp:listen(0, [{ifaddr, {local, \"s\"}}, binary, {active, false}]),"                                \
    "{ok, C} = gen_tcp:connect({local, \"s\"}, 0, [binary]), {ok, S} = gen_tcp:accept(L, 1000),"                       \
    "ok = gen_tcp:send(C, <<\"hi\">>), {ok, <<\"hi\">>} = gen_tcp:recv(S, 2, 1000), ok = file:delete(\"s\"),"          \
    "erlang:send_after(1, self(), tick), receive tick -> ok after 1000 -> exit(no_timer) end,"                         \
    "true = os:putenv(\"A\", \"b\"), \"b\" = os:getenv(\"A\"), 4 = byte_size(crypto:strong_rand_bytes(4)),"
#define NO_INTERNET "{error, eafnosupport} = gen_udp:open(0),"
#define INTERNET                                                                                                       \
    "{ok, T} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]), {ok, P} = inet:port(T),"                                     \
    "{ok, _} = gen_tcp:connect({127, 0, 0, 1}, P, []), {ok, [_ | _]} = inet:getifaddrs(),"
#define DONE "halt(0)."

/* Elixir's own, from Erlang: its command would take longer to start than all of this. */
#define ELIXIR_WORK                                                                                                    \
    "{ok, _} = application:ensure_all_started(elixir), {<<\"b\">>, _} = 'Elixir.Code':eval_string("                    \
    "<<\"1 = Task.async(fn -> 1 end) |> Task.await(); File.write!(\\\"a\\\", \\\"b\\\"); File.rm!(\\\"a\\\");"         \
    "Code.eval_string(\\\"~s(b)\\\") |> elem(0)\">>),"

struct machine {
    const char *set;
    const char *const argv[7];
    char directory[TEST_FOLDER_BYTES];
    pid_t pid;
};

static void start_machine(struct machine *machine) {
    struct sock_fprog *filter = quiet_filter(machine->set);
    assert_non_null(test_folder_make(machine->directory));
    machine->pid = fork();
    if (machine->pid == 0) {
        if (chdir(machine->directory) < 0 || install(filter, 0) < 0) _exit(97);
        setenv("HOME", machine->directory, 1);
        setenv("ERL_CRASH_DUMP_BYTES", "0", 1);
        setenv("ERL_AFLAGS", "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none", 1); /* three at once, on few cores */
        alarm(DEADLINE_MS / 1000);
        execvp(machine->argv[0], (char *const *)machine->argv);
        _exit(98);
    }
    seccomp_filter_free(filter);
}

static void assert_machine_worked(const struct machine *machine) {
    int status;
    assert_int_equal(waitpid(machine->pid, &status, 0), machine->pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s under %s: status %x", machine->argv[0], machine->set, (unsigned)status);
    assert_int_equal(rmdir(machine->directory), 0);
}

/* ---- modes: no call makes a file that runs as its owner or group ---- */

static long make_by_open(int flags, mode_t mode) {
    long fd = syscall(SYS_openat, AT_FDCWD, flags & O_DIRECTORY ? "." : "made", flags | O_WRONLY, mode);
    if (fd >= 0) close((int)fd);
    return fd;
}

static bool is_refused(long result) {
    return result < 0 && errno == EPERM;
}

/* In a child that has the filter: the number of the first check that failed, or 0. */
static int check_modes(void) {
    static const mode_t marks[] = {S_ISUID, S_ISGID, S_ISUID | S_ISGID};
    if (make_by_open(O_CREAT, 0755) < 0 || make_by_open(O_TMPFILE, 0755) < 0) return 1;
    if (make_by_open(0, 07777) < 0) return 2; /* no file is made: the mode is none */
    int fd = open("made", O_RDONLY);
    if (chmod("made", 01700) < 0 || fchmod(fd, 0700) < 0 || fchmodat(AT_FDCWD, "made", 0755, 0) < 0) return 3;
    for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
        mode_t mode = marks[i] | 0755;
        if (!is_refused(chmod("made", mode)) || !is_refused(fchmod(fd, mode))) return 10;
        if (!is_refused(fchmodat(AT_FDCWD, "made", mode, 0)) || !is_refused(syscall(SYS_creat, "new", mode))) return 11;
        if (!is_refused(make_by_open(O_CREAT, mode)) || !is_refused(make_by_open(O_TMPFILE, mode))) return 12;
        if (!is_refused(make_by_open(O_CREAT | O_TMPFILE, mode))) return 13;
        if (syscall(SYS_mknod, "new", S_IFREG | mode, 0) == 0) return 14;
    }
    uint64_t how[3] = {O_CREAT | O_WRONLY, S_ISUID | 0755, 0};
    if (syscall(SYS_openat2, AT_FDCWD, "new", how, sizeof how) >= 0 || errno != ENOSYS) return 15;
    return 0;
}

static void no_call_makes_a_set_id_file(void **state) {
    static const char *const sets[] = {"strict", "network", "open"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
        char directory[] = "/tmp/test_modes_XXXXXX";
        struct sock_fprog *filter = quiet_filter(sets[i]);
        int status;
        assert_non_null(mkdtemp(directory));
        pid_t pid = fork();
        if (pid == 0) _exit(chdir(directory) < 0 || install(filter, 0) < 0 ? 99 : check_modes());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0) fail_msg("%s: %x", sets[i], (unsigned)status);
        seccomp_filter_free(filter);
        CLEANUP_FD int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        unlinkat(fd, "made", 0);
        assert_int_equal(rmdir(directory), 0);
    }
}

static void virtual_machines_work(void **state) {
    (void)state;
    struct machine machines[] = {
        {.set = "strict", .argv = {"erl", "-noshell", "-pa", ELIXIR_EBIN, "-eval", ELIXIR_WORK WORK NO_INTERNET DONE}},
        {.set = "network", .argv = {"erl", "-noshell", "-eval", WORK INTERNET DONE}},
        {.set = "open",
         .argv = {"erl", "-noshell", "-eval", WORK INTERNET "\"x\\n\" = os:cmd(\"echo x | cat\")," DONE}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(machines); i++) start_machine(&machines[i]);
    for (size_t i = 0; i < ARRAY_SIZE(machines); i++) assert_machine_worked(&machines[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_set_refuses_what_it_should), cmocka_unit_test(foreign_calls_kill),
        cmocka_unit_test(dangerous_calls_notify),          cmocka_unit_test(names_only_what_notifies),
        cmocka_unit_test(unknown_sets_are_refused),        cmocka_unit_test(virtual_machines_work),
        cmocka_unit_test(no_call_makes_a_set_id_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
