/* The system calls that the daemon needs, as data: files, sockets, threads and waiting. It starts no program, so that
   code which takes the daemon over can't either. What is in no row fails with ENOSYS. */
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "confine/confine_internal.h"

#define DAEMON SYSCALLS_EVERY /* the daemon has one set */
#define ALLOW SYSCALL_ALLOW
#define REFUSE SYSCALL_NOTIFY /* without a supervisor: EPERM */

static const struct syscall_group groups[] = {
    {DAEMON, ALLOW, "brk munmap mremap madvise msync mincore membarrier memfd_create"},
    /* files by descriptor */
    {DAEMON, ALLOW,
     "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 "
     "flock fsync fdatasync sync_file_range ftruncate fallocate fadvise64 sendfile copy_file_range splice fstat "
     "fstatfs getdents getdents64 fchdir fchmod fchown readahead"},
    /* files by name; which of them is decided by its uid */
    {DAEMON, ALLOW,
     "open openat openat2 creat stat lstat newfstatat statx statfs access faccessat faccessat2 readlink readlinkat "
     "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat truncate chmod "
     "fchmodat utime utimes utimensat getcwd chdir umask"},
    /* waiting */
    {DAEMON, ALLOW,
     "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
     "eventfd2 timerfd_create timerfd_settime timerfd_gettime signalfd4 pipe pipe2 inotify_init1 inotify_add_watch "
     "inotify_rm_watch pidfd_open"},
    /* time */
    {DAEMON, ALLOW,
     "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getitimer setitimer alarm "
     "timer_create timer_settime timer_gettime timer_getoverrun timer_delete"},
    /* threads, and signals of its own */
    {DAEMON, ALLOW,
     "futex futex_waitv set_robust_list get_robust_list set_tid_address rseq arch_prctl gettid getpid getppid exit "
     "exit_group rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack "
     "pause restart_syscall sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler "
     "sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min getcpu getpriority"},
    /* looking at itself */
    {DAEMON, ALLOW,
     "getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid capget getrlimit getrusage "
     "sysinfo uname getrandom"},
    /* sockets; which families is decided where they are made */
    {DAEMON, ALLOW,
     "bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt sendto sendmsg "
     "sendmmsg "
     "recvfrom recvmsg recvmmsg"},

    /* what code that has taken the daemon over would begin with */
    {DAEMON, REFUSE, "execve execveat fork vfork"},
    {DAEMON, REFUSE, "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp perf_event_open bpf userfaultfd"},
    {DAEMON, REFUSE,
     "mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr "
     "open_by_handle_at"},
    {DAEMON, REFUSE, "unshare setns personality"},
    {DAEMON, REFUSE, "keyctl add_key request_key"},
    {DAEMON, REFUSE, "kill tkill pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo"},
};

#define IS(argument, value) argument, SYSCALL_EQUAL, value, 0
#define ABOVE(argument, value) argument, SYSCALL_ABOVE, value, 0
#define MASKED(argument, mask, value) argument, SYSCALL_EQUAL, value, mask

#define IOCTL(request)                                                                                                 \
    "ioctl", DAEMON, ALLOW, 1, {                                                                                       \
        { IS(1, request) }                                                                                             \
    }
#define FCNTL(command)                                                                                                 \
    "fcntl", DAEMON, ALLOW, 1, {                                                                                       \
        { IS(1, command) }                                                                                             \
    }
#define PRCTL(option)                                                                                                  \
    "prctl", DAEMON, ALLOW, 1, {                                                                                       \
        { IS(0, option) }                                                                                              \
    }
#define INTERNET(family, type, protocol)                                                                               \
    "socket", DAEMON, ALLOW, 3, {                                                                                      \
        {IS(0, family)}, {MASKED(1, TYPE_MASK, type)}, {                                                               \
            IS(2, protocol)                                                                                            \
        }                                                                                                              \
    }

#define TYPE_MASK 0xf /* a socket's type without its flags, as the kernel takes it apart */
#define THREAD_FLAGS (CLONE_VM | CLONE_THREAD)
#define WRITE_EXEC (PROT_WRITE | PROT_EXEC)

static const struct syscall_rule rules[] = {
    /* clone3 passes its flags in memory, where no filter sees them: it stays unknown, and libc falls back to clone. */
    {"clone", DAEMON, ALLOW, 1, {{MASKED(0, THREAD_FLAGS, THREAD_FLAGS)}}},

    /* Libraries are mapped later too: libcurl, and modules that look names up. So a file that it wrote can become code.
       No mapping is both written and executed, and nothing that is mapped becomes code later. */
    {"mmap", DAEMON, ALLOW, 1, {{MASKED(2, PROT_EXEC, 0)}}},
    {"mmap", DAEMON, ALLOW, 2, {{MASKED(2, WRITE_EXEC, PROT_EXEC)}, {MASKED(3, MAP_ANONYMOUS, 0)}}},
    {"mmap", DAEMON, REFUSE, 2, {{MASKED(2, WRITE_EXEC, PROT_EXEC)}, {MASKED(3, MAP_ANONYMOUS, MAP_ANONYMOUS)}}},
    {"mmap", DAEMON, REFUSE, 1, {{MASKED(2, WRITE_EXEC, WRITE_EXEC)}}},
    {"mprotect", DAEMON, ALLOW, 1, {{MASKED(2, PROT_EXEC, 0)}}},
    {"mprotect", DAEMON, REFUSE, 1, {{MASKED(2, PROT_EXEC, PROT_EXEC)}}},

    /* Its own limits; those of another process of its uid are not its business. */
    {"prlimit64", DAEMON, ALLOW, 1, {{IS(0, 0)}}},

    /* A thread may step back; its own nice value never goes down again. */
    {"setpriority", DAEMON, ALLOW, 2, {{IS(0, PRIO_PROCESS)}, {IS(1, 0)}}},

    {"socket", DAEMON, ALLOW, 1, {{IS(0, AF_UNIX)}}},
    {"socketpair", DAEMON, ALLOW, 1, {{IS(0, AF_UNIX)}}},
    /* webhooks, and looking their names up */
    {INTERNET(AF_INET, SOCK_STREAM, 0)},
    {INTERNET(AF_INET, SOCK_STREAM, IPPROTO_TCP)},
    {INTERNET(AF_INET, SOCK_DGRAM, 0)},
    {INTERNET(AF_INET, SOCK_DGRAM, IPPROTO_UDP)},
    {INTERNET(AF_INET6, SOCK_STREAM, 0)},
    {INTERNET(AF_INET6, SOCK_STREAM, IPPROTO_TCP)},
    {INTERNET(AF_INET6, SOCK_DGRAM, 0)},
    {INTERNET(AF_INET6, SOCK_DGRAM, IPPROTO_UDP)},
    {"socket", DAEMON, ALLOW, 2, {{IS(0, AF_NETLINK)}, {IS(2, NETLINK_ROUTE)}}},
    {"socket", DAEMON, REFUSE, 1, {{ABOVE(0, AF_NETLINK)}}}, /* packet, vsock, alg, … */

    /* Not F_SETOWN with F_SETSIG: a descriptor that becomes ready would send any signal to any process of its uid. */
    {FCNTL(F_DUPFD)},
    {FCNTL(F_DUPFD_CLOEXEC)},
    {FCNTL(F_GETFD)},
    {FCNTL(F_SETFD)},
    {FCNTL(F_GETFL)},
    {FCNTL(F_SETFL)},
    {FCNTL(F_GETLK)},
    {FCNTL(F_SETLK)},
    {FCNTL(F_SETLKW)},
    {FCNTL(F_OFD_GETLK)},
    {FCNTL(F_OFD_SETLK)},
    {FCNTL(F_OFD_SETLKW)},
    {FCNTL(F_GETPIPE_SZ)},
    {FCNTL(F_SETPIPE_SZ)},
    {FCNTL(F_ADD_SEALS)},
    {FCNTL(F_GET_SEALS)},

    {IOCTL(TCGETS)},
    {IOCTL(FIONREAD)},
    {IOCTL(FIONBIO)},
    {IOCTL(FIOCLEX)},
    {IOCTL(FIONCLEX)},
    {IOCTL(TIOCGWINSZ)},
    {IOCTL(SIOCGIFCONF)},
    {IOCTL(SIOCGIFNAME)},
    {IOCTL(SIOCGIFINDEX)},
    {IOCTL(SIOCGIFFLAGS)},

    {PRCTL(PR_SET_NAME)},
    {PRCTL(PR_GET_NAME)},
    {PRCTL(PR_GET_DUMPABLE)},
    {PRCTL(PR_GET_NO_NEW_PRIVS)},
    {PRCTL(PR_SET_TIMERSLACK)},
    {PRCTL(PR_SET_VMA)}, /* names of mappings */
};

const struct syscall_table *confine_syscalls(void) {
    static const struct syscall_table table = {groups, ARRAY_SIZE(groups), rules, ARRAY_SIZE(rules)};
    return &table;
}
