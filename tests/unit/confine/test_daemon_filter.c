/* The daemon's own system-call filter, put on by a child: what the daemon does goes on, what code that has taken it
   over would begin with is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/base.h"
#include "confine/confine.h"
#include "folder.h"

static char folder[64];
static void *page; /* mapped before, for reading and writing */

static int raw(long result) {
    return result < 0 ? errno : 0;
}

/* ---- what the daemon does ---- */

static void *touch(void *data) {
    *(int *)data = 1;
    return NULL;
}

static int use_threads(void) {
    pthread_t thread;
    int touched = 0;
    int failed = pthread_create(&thread, NULL, touch, &touched);
    if (failed) return failed;
    pthread_join(thread, NULL);
    return touched ? 0 : ESRCH;
}

static void on_work(uv_work_t *work) {
    *(int *)work->data = 1;
}

static void on_worked(uv_work_t *work, int status) {
    if (status < 0) *(int *)work->data = 0;
}

static int use_a_loop(void) {
    uv_loop_t loop = {0};
    int worked = 0;
    uv_work_t work = {.data = &worked};
    int failed = uv_loop_init(&loop);
    if (!failed) failed = uv_queue_work(&loop, &work, on_work, on_worked);
    if (!failed) uv_run(&loop, UV_RUN_DEFAULT);
    return failed ? -failed : uv_loop_close(&loop) || !worked ? EBUSY : 0;
}

static int use_sqlite(void) {
    char path[96];
    sqlite3 *store = NULL;
    snprintf(path, sizeof path, "%s/store.db", folder);
    int failed = sqlite3_open(path, &store);
    if (!failed)
        failed = sqlite3_exec(store,
                              "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1); "
                              "BEGIN; UPDATE t SET x = 2; COMMIT; PRAGMA wal_checkpoint(TRUNCATE)",
                              NULL, NULL, NULL);
    sqlite3_close(store);
    unlink(path);
    return failed ? EIO : 0;
}

static int use_files(void) {
    char path[96], other[96];
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) < 0 || fcntl(fd, F_SETLK, &lock) < 0 || ftruncate(fd, 0) < 0)
        return errno;
    CLEANUP_FD int memory = memfd_create("x", MFD_CLOEXEC);
    if (memory < 0 || rename(path, other) < 0 || unlink(other) < 0) return errno;
    return 0;
}

static int watch_files(void) {
    CLEANUP_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    return fd < 0 ? errno : raw(inotify_add_watch(fd, folder, IN_CREATE));
}

static int use_sockets(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return errno;
    CLEANUP_FD int one = pair[0], other = pair[1];
    CLEANUP_FD int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (send(one, "x", 1, 0) != 1 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, other, &event) < 0) return errno;
    return epoll_wait(epoll_fd, &event, 1, 1000) == 1 ? 0 : ETIME;
}

static int use_the_internet(void) {
    CLEANUP_FD int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    CLEANUP_FD int datagram = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return stream < 0 || datagram < 0 ? errno : raw(listen(stream, 1));
}

/* What a process without a filter is told: not every root has a name to look up. */
static int unfiltered_answer;

static int ask_for_a_name(void) {
    struct addrinfo *found = NULL;
    int answer = getaddrinfo("localhost", "80", NULL, &found);
    if (answer == 0) freeaddrinfo(found);
    return answer & 0xFF;
}

static int look_up_a_name(void) {
    return ask_for_a_name() == unfiltered_answer ? 0 : ENOENT;
}

static int ask_without_filter(void) {
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(ask_for_a_name());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A daemon with a webhook loads it when the filter is on. */
static int load_a_library(void) {
    return dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) ? 0 : ENOENT;
}

static int signal_itself(void) {
    return pthread_kill(pthread_self(), 0);
}

static int look_at_its_limits(void) {
    struct rlimit limit;
    return raw(getrlimit(RLIMIT_NOFILE, &limit));
}

/* ---- what it needs in no case ---- */

static int run_a_program(void) {
    char *const words[] = {(char *)"true", NULL};
    return raw(execve("/bin/true", words, NULL));
}

static int run_a_program_by_descriptor(void) {
    CLEANUP_FD int fd = open("/bin/true", O_PATH | O_CLOEXEC);
    char *const words[] = {(char *)"true", NULL};
    return raw(execveat(fd, "", words, NULL, AT_EMPTY_PATH));
}

static int start_a_process(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    return raw(pid);
}

static int start_a_process_with_clone3(void) {
    return raw(syscall(SYS_clone3, NULL, 0));
}

static int trace(void) {
    return raw(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int read_another_process(void) {
    return raw(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}

static int signal_another_process(void) {
    return raw(kill(getppid(), 0));
}

static int signal_anothers_thread(void) {
    return raw(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

/* The kernel sends the signal when the pipe can be read, with our uid for permission. */
static int signal_by_descriptor(void) {
    int ends[2], result = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) return errno;
    CLEANUP_FD int read_fd = ends[0], write_fd = ends[1];
    if (fcntl(read_fd, F_SETOWN, getppid()) < 0) result = errno;
    if (result == 0 && fcntl(read_fd, F_SETSIG, SIGURG) < 0) result = errno;
    return result ? result : raw(fcntl(read_fd, F_SETFL, O_ASYNC));
}

static int take_a_descriptor(void) {
    return raw(syscall(SYS_pidfd_getfd, 0, 0, 0));
}

static int change_limits_of_another(void) {
    struct rlimit limit = {0};
    return raw(syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, NULL, &limit));
}

static int open_a_packet_socket(void) {
    return raw(socket(AF_PACKET, SOCK_RAW, 0));
}

static int open_a_raw_socket(void) {
    return raw(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int leave_its_namespaces(void) {
    return raw(unshare(CLONE_NEWUSER));
}

static int enter_a_namespace(void) {
    return raw(setns(-1, 0));
}

static int mount_something(void) {
    return raw(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int load_a_bpf_program(void) {
    return raw(syscall(SYS_bpf, 0, NULL, 0));
}

static int use_keys(void) {
    return raw(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

static int use_io_uring(void) {
    return raw(syscall(SYS_io_uring_setup, 1, NULL));
}

static int handle_page_faults(void) {
    return raw(syscall(SYS_userfaultfd, 0));
}

static int watch_performance(void) {
    return raw(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int type_into_a_terminal(void) {
    return raw(ioctl(STDIN_FILENO, TIOCSTI, "x"));
}

static int map_memory_of(int protection, int flags) {
    void *found = mmap(NULL, 4096, protection, flags, -1, 0);
    return found == MAP_FAILED ? errno : 0;
}

static int map_executable_memory(void) {
    return map_memory_of(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
}

static int map_writable_code(void) {
    return map_memory_of(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
}

static int make_memory_executable(void) {
    return raw(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

#define ROW(function, result)                                                                                          \
    { #function, function, result }

static const struct {
    const char *name;
    int (*attempt)(void);
    int expected; /* an errno; 0: it works */
} rows[] = {
    ROW(use_threads, 0),
    ROW(use_a_loop, 0),
    ROW(use_sqlite, 0),
    ROW(use_files, 0),
    ROW(watch_files, 0),
    ROW(use_sockets, 0),
    ROW(use_the_internet, 0),
    ROW(look_up_a_name, 0),
    ROW(load_a_library, 0),
    ROW(look_at_its_limits, 0),
    ROW(signal_itself, 0),
    ROW(run_a_program, EPERM),
    ROW(run_a_program_by_descriptor, EPERM),
    ROW(start_a_process, ENOSYS),
    ROW(start_a_process_with_clone3, ENOSYS),
    ROW(trace, EPERM),
    ROW(read_another_process, EPERM),
    ROW(signal_another_process, EPERM),
    ROW(signal_anothers_thread, ENOSYS),
    ROW(signal_by_descriptor, ENOSYS),
    ROW(take_a_descriptor, EPERM),
    ROW(change_limits_of_another, ENOSYS),
    ROW(open_a_packet_socket, EAFNOSUPPORT),
    ROW(open_a_raw_socket, ENOSYS),
    ROW(leave_its_namespaces, EPERM),
    ROW(enter_a_namespace, EPERM),
    ROW(mount_something, EPERM),
    ROW(load_a_bpf_program, EPERM),
    ROW(use_keys, EPERM),
    ROW(use_io_uring, ENOSYS),
    ROW(handle_page_faults, EPERM),
    ROW(watch_performance, EPERM),
    ROW(type_into_a_terminal, ENOSYS),
    ROW(map_executable_memory, EPERM),
    ROW(map_writable_code, EPERM),
    ROW(make_memory_executable, EPERM),
};

/* ---- in a child ---- */

static void *wait_and_leave(void *data) {
    pthread_barrier_wait(data);
    return (void *)(intptr_t)leave_its_namespaces();
}

/* A line for each row that is not as it should be. */
static void run_rows(int report_fd) {
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int result = rows[i].attempt();
        if (result != rows[i].expected)
            dprintf(report_fd, "%s: %s instead of %s\n", rows[i].name, strerrorname_np(result),
                    strerrorname_np(rows[i].expected));
    }
}

static void be_confined(int report_fd) {
    struct error error;
    pthread_t thread;
    pthread_barrier_t barrier;
    void *result = NULL;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, wait_and_leave, &barrier);
    if (confine_daemon(&error) < 0) dprintf(report_fd, "%s\n", error.detail);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, &result);
    if ((intptr_t)result != EPERM) dprintf(report_fd, "a thread from before is not filtered\n");
    run_rows(report_fd);
    _exit(0);
}

static void it_allows_the_daemons_work_and_nothing_else(void **state) {
    (void)state;
    int pipe_fds[2], status;
    char report[4096];
    assert_true(test_folder_make(folder));
    assert_int_equal(pipe(pipe_fds), 0);
    unfiltered_answer = ask_without_filter();
    pid_t pid = fork();
    if (pid == 0) be_confined(pipe_fds[1]);
    close(pipe_fds[1]);
    size_t size = 0;
    for (ssize_t got; (got = read(pipe_fds[0], report + size, sizeof report - 1 - size)) > 0;) size += (size_t)got;
    report[size] = '\0';
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_string_equal(report, "");
    assert_int_equal(status, 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_allows_the_daemons_work_and_nothing_else),
    };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0; /* a daemon that was built so has no filter */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
