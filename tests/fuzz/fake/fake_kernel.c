/* The calls that the linker leads here with --wrap. Descriptors are real ones, of nothing, so that it shows when one is
   not closed; all else is chosen. Processes are not started: what they would say is written for them. */
#include "fuzz/fake/fake_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/base.h"
#include "fuzz/fake/fake_process.h"

enum {
    CHILD_FDS = 1024, /* where descriptors of a process that is played start */
    PAUSE_MS = 100,   /* that a short sleep takes: loops that wait end soon */
    LOOK_US = 50,     /* that pass between two looks at the clock: about what is done in between takes */
    FIRST_PID = 4242,
    CAPABILITIES = 41,
    LANDLOCK_ABI = 5,
};

static struct {
    bool is_on, is_child;
    const uint8_t *choices;
    size_t count, at;
    uint64_t now_us;
    int next_pid;
    int accept_fd;
    uid_t peer_uid;
    bool is_frozen, writes_freezer;
} fake;

void fake_begin(void) {
    memset(&fake, 0, sizeof fake);
    fake.is_on = true;
    fake.now_us = 1000000;
    fake.next_pid = FIRST_PID;
    fake.accept_fd = -1;
}

void fake_end(void) {
    fake.is_on = false;
    process_forget_all();
}

void fake_decide(const uint8_t *choices, size_t count) {
    fake.choices = choices;
    fake.count = count;
    fake.at = 0;
}

void fake_pass_time(uint64_t ms) {
    fake.now_us += ms * 1000;
}

void fake_accept_next(int fd, uid_t uid) {
    fake.accept_fd = fd;
    fake.peer_uid = uid;
}

unsigned fake_choose(void) {
    if (fake.at >= fake.count) return 0;
    uint8_t choice = fake.choices[fake.at++];
    return choice == '.' ? 0 : choice;
}

bool fake_fails_by(unsigned choice) {
    static const int numbers[] = {EPERM,  ENOENT, EBUSY,  EEXIST, EINVAL, ENOSPC,      EAGAIN,
                                  ENOMEM, EACCES, EMFILE, EINTR,  ESRCH,  ETOOMANYREFS};
    if (choice < 'a') return false;
    errno = numbers[(choice - 'a') % ARRAY_SIZE(numbers)];
    return true;
}

static int result_of_choice(void) {
    return fake_fails_by(fake_choose()) ? -1 : 0;
}

/* ---- descriptors ---- */

int fake_place(int fd) {
    if (fd < 0 || !fake.is_child) return fd;
    int placed = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FDS);
    close(fd);
    return placed;
}

static int new_descriptor(unsigned value) {
    return fake_place(eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK));
}

static int descriptor_or_failure(void) {
    return result_of_choice() < 0 ? -1 : new_descriptor(0);
}

/* As many calls as chosen wait in it. */
int fake_listener(void) {
    return fake_place(eventfd(fake_choose() % 8, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
}

void fake_play_child(bool begins) {
    fake.is_child = begins;
    if (!begins) close_range(CHILD_FDS, ~0U, 0);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_openat64(int folder_fd, const char *path, int flags, ...);
int __real_openat64(int folder_fd, const char *path, int flags, ...);

/* What lies in files that are read, by the ends of their paths. */
static const struct {
    const char *part, *text;
} contents[] = {
    {"/status", "Name:\ta\nUid:\t1000\t1000\n"},
    {"/stat", "7 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n"},
    {"/children", "7 8 \n"},
    {"/mounts", "tmpfs /data tmpfs rw,size=1 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/x / ext4 ro 0 0\n"},
    {"cgroup.procs", "7\n8\n0\n"},
    {"cpu.idle", "1\n"},
    {".grant-", "grant uid=1000 gid=1000 groups=1,2 path=/srv/project\n"},
    {".folder-", "grant uid=1000 gid=1000 groups= path=/srv/folder folder=rw\n"},
    {".egress-", "node n\nreach public\nhost 10.0.0.1\nconnections 8\n"},
};

static const char *const odd_contents[] = {
    "", "max\n", "-1\n", "18446744073709551616\n", "7 (a", "frozen 0\n", "\n\n", "THAWED\n", "oom_kill 3\n"};

static const char *content_of(const char *path, unsigned choice) {
    if (choice) return odd_contents[choice % ARRAY_SIZE(odd_contents)];
    if (strstr(path, "cgroup.events")) return fake.is_frozen ? "populated 1\nfrozen 1\n" : "populated 1\nfrozen 0\n";
    if (strstr(path, "freezer.state")) return fake.is_frozen ? "FROZEN\n" : "THAWED\n";
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
        if (strstr(path, contents[i].part)) return contents[i].text;
    return "0\n";
}

static int open_text(const char *path, unsigned choice) {
    const char *text = content_of(path, choice);
    int fd = memfd_create("fake", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, text, strlen(text), 0) < 0) abort();
    return fake_place(fd);
}

static int open_any(const char *path, int flags) {
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    if (flags & O_PATH) return new_descriptor(0);
    if (flags & O_DIRECTORY) return fake_place(__real_open64("/proc/self/ns", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if ((flags & O_ACCMODE) == O_RDONLY) return open_text(path, choice);
    fake.writes_freezer = strstr(path, "cgroup.freeze") || strstr(path, "freezer.state");
    return fake_place(__real_open64("/dev/null", O_RDWR | O_CLOEXEC));
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int __wrap_open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return fake.is_on ? open_any(path, flags) : __real_open64(path, flags, mode);
}

int __wrap_openat64(int folder_fd, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return fake.is_on ? open_any(path, flags) : __real_openat64(folder_fd, path, flags, mode);
}

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode) {
    if (!fake.is_on) return __real_fopen64(path, mode);
    int fd = open_any(path, O_RDONLY);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path) {
    if (!fake.is_on) return __real_opendir(path);
    return result_of_choice() < 0 ? NULL : __real_opendir("/proc/self/ns");
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (!fake.is_on) return __real_write(fd, data, size);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    if (fake.writes_freezer && size) fake.is_frozen = memchr("1F", *(const char *)data, 2) != NULL;
    return choice && size > 1 ? (ssize_t)size - 1 : (ssize_t)size;
}

/* ---- time ---- */

uint64_t __real_clock_monotonic_us(void);
uint64_t __wrap_clock_monotonic_us(void);
uint64_t __wrap_clock_monotonic_us(void) {
    return fake.is_on ? fake.now_us += LOOK_US : __real_clock_monotonic_us();
}

uint64_t __real_clock_monotonic_ms(void);
uint64_t __wrap_clock_monotonic_ms(void);
uint64_t __wrap_clock_monotonic_ms(void) {
    return fake.is_on ? (fake.now_us += LOOK_US) / 1000 : __real_clock_monotonic_ms();
}

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left) {
    if (!fake.is_on) return __real_nanosleep(time, left);
    fake_pass_time(PAUSE_MS);
    return 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    if (!fake.is_on) return __real_poll(fds, count, timeout_ms);
    int ready = __real_poll(fds, count, 0);
    if (ready == 0 && timeout_ms < 0) abort(); /* it would wait for ever */
    if (ready == 0) fake_pass_time((uint64_t)timeout_ms);
    return ready;
}

/* ---- processes ---- */

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) {
    if (!fake.is_on) return __real_fork();
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    if (choice) process_report_failure(choice);
    return fake.next_pid++;
}

static long clone_process(const struct clone_args *arguments) {
    if (result_of_choice() < 0) return -1;
    if (arguments->flags & CLONE_PIDFD) {
        *(int *)(uintptr_t)arguments->pidfd = new_descriptor(fake_choose() ? 1 : 0);
        if (arguments->flags & CLONE_NEWUSER)
            process_start_node();
        else
            process_start_forwarder();
    }
    return fake.next_pid++;
}

static long make_ruleset(const void *attributes) {
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    return attributes ? new_descriptor(0) : (long)(choice ? choice % 10 : LANDLOCK_ABI);
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (!fake.is_on) return __real_syscall(number, a, b, c, d, e, f);
    switch (number) {
    case SYS_clone3: return clone_process((const struct clone_args *)a);
    case SYS_openat2: return open_any((const char *)b, O_PATH);
    case SYS_landlock_create_ruleset: return make_ruleset((const void *)a);
    default: return result_of_choice();
    }
}

int __real_pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags);
int __wrap_pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags);
int __wrap_pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags) {
    if (!fake.is_on) return __real_pidfd_send_signal(fd, number, info, flags);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    if (number == SIGKILL && !choice) eventfd_write(fd, 1); /* chosen otherwise, it lives on */
    return 0;
}

int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
    if (!fake.is_on) return __real_waitid(type, id, info, options);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    memset(info, 0, sizeof *info);
    info->si_pid = choice & 1 ? 0 : FIRST_PID;
    info->si_code = choice & 2 ? CLD_KILLED : CLD_EXITED;
    info->si_status = (int)choice * 4;
    return 0;
}

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options) {
    return fake.is_on ? pid : __real_waitpid(pid, status, options);
}

int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    if (!fake.is_on) return __real_prctl(option, a, b, c, d);
    if (option == PR_CAPBSET_READ) return a < CAPABILITIES ? 1 : -1;
    return result_of_choice();
}

int __real_prlimit64(pid_t pid, int resource, const struct rlimit *wanted, struct rlimit *ret);
int __wrap_prlimit64(pid_t pid, int resource, const struct rlimit *wanted, struct rlimit *ret);
int __wrap_prlimit64(pid_t pid, int resource, const struct rlimit *wanted, struct rlimit *ret) {
    if (!fake.is_on) return __real_prlimit64(pid, resource, wanted, ret);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    if (ret) *ret = (struct rlimit){1024, choice ? choice : RLIM_INFINITY};
    return 0;
}

/* ---- sockets ---- */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    if (!fake.is_on) return __real_accept4(fd, address, size, flags);
    return take_fd(&fake.accept_fd);
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    if (!fake.is_on) return __real_getsockopt(fd, level, name, value, size);
    if (name == SO_PEERCRED) {
        *(struct ucred *)value = (struct ucred){.uid = fake.peer_uid, .gid = fake.peer_uid};
        return 0;
    }
    if (name == SO_TYPE) return __real_getsockopt(fd, level, name, value, size);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    size_t groups = choice * 8; /* up to the most there is room for */
    if (groups > *size / sizeof(gid_t)) groups = *size / sizeof(gid_t);
    memset(value, 1, groups * sizeof(gid_t));
    *size = (socklen_t)(groups * sizeof(gid_t));
    return 0;
}

ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags) {
    if (!fake.is_on) return __real_send(fd, data, size, flags);
    if (result_of_choice() < 0) return -1;
    return size == 1 ? 1 : __real_send(fd, data, size, flags); /* one byte is for a node that is played already */
}

ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags) {
    if (!fake.is_on) return __real_recv(fd, data, size, flags);
    unsigned choice = fake_choose();
    if (choice && choice < 'a' && size >= choice) {
        memset(data, (int)choice, choice);
        return (ssize_t)choice;
    }
    errno = EAGAIN;
    return -1;
}

/* ---- what a node does ---- */

static int receive_notification(int listener_fd, struct seccomp_notif *call) {
    static const int numbers[] = {SYS_execve, SYS_socket, SYS_mount, SYS_ptrace, SYS_execveat, 100000, -1};
    unsigned choice = fake_choose();
    eventfd_read(listener_fd, &(eventfd_t){0});
    if (fake_fails_by(choice)) return -1;
    *call = (struct seccomp_notif){.id = 1, .pid = 7, .data.nr = numbers[choice % ARRAY_SIZE(numbers)]};
    for (size_t i = 0; i < 6; i++) call->data.args[i] = choice * 4000;
    return 0;
}

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument) {
    if (!fake.is_on) return __real_ioctl(fd, request, argument);
    return request == SECCOMP_IOCTL_NOTIF_RECV ? receive_notification(fd, argument) : result_of_choice();
}

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags) {
    if (!fake.is_on) return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
    if (result_of_choice() < 0) return -1;
    size_t size = local->iov_len < remote->iov_len ? local->iov_len : remote->iov_len;
    memset(local->iov_base, '/', size);
    return (ssize_t)size;
}

int __real_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret) {
    if (!fake.is_on) return __real_fstatfs64(fd, ret);
    unsigned choice = fake_choose();
    if (fake_fails_by(choice)) return -1;
    *ret = (struct statfs){.f_blocks = choice == '0' ? 0 : 1024, .f_bsize = choice == '1' ? INT32_MAX : 4096};
    return 0;
}

/* ---- calls of which only the result matters ---- */

#define FAKE_CALL(name, parameters, arguments)                                                                         \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters {                                                                                     \
        return fake.is_on ? result_of_choice() : __real_##name arguments;                                              \
    }

FAKE_CALL(mkdir, (const char *path, mode_t mode), (path, mode))
FAKE_CALL(mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAKE_CALL(mknodat, (int fd, const char *path, mode_t mode, dev_t device), (fd, path, mode, device))
FAKE_CALL(rmdir, (const char *path), (path))
FAKE_CALL(unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
FAKE_CALL(renameat, (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to))
FAKE_CALL(ftruncate64, (int fd, off_t size), (fd, size))
FAKE_CALL(access, (const char *path, int mode), (path, mode))
FAKE_CALL(faccessat, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags))
FAKE_CALL(chdir, (const char *path), (path))
FAKE_CALL(fchdir, (int fd), (fd))
FAKE_CALL(kill, (pid_t pid, int number), (pid, number))
FAKE_CALL(setns, (int fd, int type), (fd, type))
FAKE_CALL(unshare, (int flags), (flags))
FAKE_CALL(setresuid, (uid_t a, uid_t b, uid_t c), (a, b, c))
FAKE_CALL(setresgid, (gid_t a, gid_t b, gid_t c), (a, b, c))
FAKE_CALL(setfsuid, (uid_t uid), (uid))
FAKE_CALL(setfsgid, (gid_t gid), (gid))
FAKE_CALL(setgroups, (size_t count, const gid_t *groups), (count, groups))
FAKE_CALL(setsid, (void), ())
FAKE_CALL(umask, (mode_t mask), (mask))
FAKE_CALL(sethostname, (const char *name, size_t size), (name, size))
FAKE_CALL(setrlimit64, (int resource, const struct rlimit *limit), (resource, limit))
FAKE_CALL(setsockopt, (int fd, int level, int name, const void *value, socklen_t size), (fd, level, name, value, size))
FAKE_CALL(mount, (const char *source, const char *target, const char *type, unsigned long flags, const void *data),
          (source, target, type, flags, data))
FAKE_CALL(umount2, (const char *target, int flags), (target, flags))
FAKE_CALL(mount_setattr, (int fd, const char *path, unsigned flags, void *attributes, size_t size),
          (fd, path, flags, attributes, size))
FAKE_CALL(move_mount, (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
          (from_fd, from, to_fd, to, flags))
FAKE_CALL(fsconfig, (int fd, unsigned command, const char *key, const void *value, int aux),
          (fd, command, key, value, aux))

#define FAKE_OPENING(name, parameters, arguments)                                                                      \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters {                                                                                     \
        return fake.is_on ? descriptor_or_failure() : __real_##name arguments;                                         \
    }

FAKE_OPENING(open_tree, (int fd, const char *path, unsigned flags), (fd, path, flags))
FAKE_OPENING(fspick, (int fd, const char *path, unsigned flags), (fd, path, flags))
FAKE_OPENING(fsopen, (const char *type, unsigned flags), (type, flags))
FAKE_OPENING(fsmount, (int fd, unsigned flags, unsigned attributes), (fd, flags, attributes))
FAKE_OPENING(pidfd_open, (pid_t pid, unsigned flags), (pid, flags))
FAKE_OPENING(pidfd_getfd, (int pidfd, int fd, unsigned flags), (pidfd, fd, flags))
FAKE_OPENING(socket, (int family, int type, int protocol), (family, type, protocol))
