/* The system calls that nodes may make, by set, as data. */
#include "jail/syscalls.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/base.h"

enum {
    STRICT = SYSCALLS_STRICT,
    NETWORK = SYSCALLS_NETWORK,
    OPEN = SYSCALLS_OPEN,
    EVERY = SYSCALLS_EVERY,
};

#define ALLOW SYSCALL_ALLOW
#define NOTIFY SYSCALL_NOTIFY

static const struct syscall_group groups[] = {
    /* memory; executable mappings too: the VM compiles to machine code */
    {EVERY, ALLOW, "brk mmap munmap mremap mprotect madvise msync mincore memfd_create membarrier"},
    /* files by descriptor */
    {EVERY, ALLOW,
     "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 "
     "fcntl flock sync_file_range ftruncate fallocate fadvise64 sendfile copy_file_range fstat fstatfs "
     "getdents getdents64 fchdir fchown futimesat readahead"},
    /* files by name; what they may name is Landlock's and the mounts' matter */
    {EVERY, ALLOW,
     "stat lstat newfstatat statx statfs access faccessat faccessat2 readlink readlinkat "
     "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat truncate "
     "chown lchown fchownat utime utimes utimensat getcwd chdir umask"},
    /* waiting */
    {EVERY, ALLOW,
     "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
     "eventfd2 timerfd_create timerfd_settime timerfd_gettime signalfd4 pipe pipe2"},
    /* time */
    {EVERY, ALLOW,
     "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getitimer setitimer alarm "
     "timer_create timer_settime timer_gettime timer_getoverrun timer_delete"},
    /* threads, processes and signals of its own pid namespace */
    {EVERY, ALLOW,
     "futex set_robust_list get_robust_list set_tid_address rseq arch_prctl gettid getpid getppid fork vfork exit "
     "exit_group wait4 waitid kill tgkill tkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
     "rt_sigtimedwait rt_sigsuspend rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack pause restart_syscall setsid getsid "
     "setpgid getpgid getpgrp sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler "
     "sched_get_priority_max sched_get_priority_min getcpu getpriority"},
    /* looking at itself */
    {EVERY, ALLOW,
     "getuid geteuid getgid getegid getresuid getresgid getgroups capget getrlimit getrusage sysinfo uname "
     "getrandom"},
    /* sockets; which families is decided where they are made */
    {EVERY, ALLOW,
     "bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt sendto "
     "sendmsg sendmmsg recvfrom recvmsg recvmmsg"},
    /* what shells and ordinary programs want besides */
    {OPEN, ALLOW,
     "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch splice tee getxattr "
     "lgetxattr fgetxattr listxattr llistxattr flistxattr setpriority ioprio_get pidfd_open pidfd_send_signal mlock "
     "munlock mlock2 shmget shmat shmdt shmctl semget semop semtimedop semctl"},

    /* All that a node can write is in memory, where nothing is to be synced. By way of its read-only binds it would
       have the host's disks flushed instead, as often as it likes. Success, since ordinary programs take a failure for
       a broken disk. */
    {EVERY, SYSCALL_PRETEND, "fsync fdatasync"},
    {OPEN, SYSCALL_PRETEND, "sync syncfs"},

    {EVERY, SYSCALL_EXEC, "execve execveat"},

    /* attempts worth an event: nothing of it is any application's business */
    {EVERY, NOTIFY, "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp perf_event_open bpf userfaultfd"},
    {EVERY, NOTIFY,
     "mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr "
     "open_by_handle_at swapon swapoff quotactl acct"},
    {EVERY, NOTIFY, "unshare setns personality sethostname setdomainname"},
    {EVERY, NOTIFY, "io_uring_setup io_uring_enter io_uring_register"},
    {EVERY, NOTIFY, "init_module finit_module delete_module kexec_load kexec_file_load reboot iopl ioperm syslog"},
    {EVERY, NOTIFY, "keyctl add_key request_key"},
    {EVERY, NOTIFY, "settimeofday clock_settime adjtimex clock_adjtime"},
};

/* Conditions. */
#define IS(argument, value) argument, SYSCALL_EQUAL, value, 0
#define ISNT(argument, value) argument, SYSCALL_DIFFERENT, value, 0
#define ABOVE(argument, value) argument, SYSCALL_ABOVE, value, 0
#define MASKED(argument, mask, value) argument, SYSCALL_EQUAL, value, mask

/* Rows that differ in one value. */
#define CLONE_FLAG(flag)                                                                                               \
    "clone", EVERY, NOTIFY, 1, {                                                                                       \
        { MASKED(0, flag, flag) }                                                                                      \
    }
#define IOCTL(sets, request)                                                                                           \
    "ioctl", sets, ALLOW, 1, {                                                                                         \
        { IS(1, request) }                                                                                             \
    }
#define PRCTL(option)                                                                                                  \
    "prctl", EVERY, ALLOW, 1, {                                                                                        \
        { IS(0, option) }                                                                                              \
    }
#define FAMILY(sets, action, family)                                                                                   \
    "socket", sets, action, 1, {                                                                                       \
        { IS(0, family) }                                                                                              \
    }
#define INTERNET(family, type, protocol)                                                                               \
    "socket", NETWORK | OPEN, ALLOW, 3, {                                                                              \
        {IS(0, family)}, {MASKED(1, TYPE_MASK, type)}, {                                                               \
            IS(2, protocol)                                                                                            \
        }                                                                                                              \
    }
#define EXOTIC(family, type, protocol)                                                                                 \
    "socket", NETWORK | OPEN, NOTIFY, 3, {                                                                             \
        {IS(0, family)}, {MASKED(1, TYPE_MASK, type)}, {                                                               \
            ABOVE(2, protocol)                                                                                         \
        }                                                                                                              \
    }
#define RAW(family)                                                                                                    \
    "socket", NETWORK | OPEN, NOTIFY, 2, {                                                                             \
        {IS(0, family)}, {                                                                                             \
            MASKED(1, TYPE_MASK, SOCK_RAW)                                                                             \
        }                                                                                                              \
    }

/* A file whose mode makes it another user's or group's program: in a folder of the caller's it would be the caller's.
 */
#define SET_ID (S_ISUID | S_ISGID)
#define TMPFILE_FLAG (O_TMPFILE & ~O_DIRECTORY)
#define MODE(sets, name, mode)                                                                                         \
    {name, sets, ALLOW, 1, {{MASKED(mode, SET_ID, 0)}}},                                                               \
        {name, sets, SYSCALL_REFUSE, 1, {{MASKED(mode, S_ISUID, S_ISUID)}}}, {                                         \
        name, sets, SYSCALL_REFUSE, 1, {                                                                               \
            { MASKED(mode, SET_ID, S_ISGID) }                                                                          \
        }                                                                                                              \
    }
/* A mode counts where a file is made; elsewhere the argument is whatever the register holds. */
#define MAKING (O_CREAT | TMPFILE_FLAG)
#define MADE_BY(name, flags, how, mode)                                                                                \
    {name, EVERY, ALLOW, 2, {{MASKED(flags, MAKING, how)}, {MASKED(mode, SET_ID, 0)}}},                                \
        {name, EVERY, SYSCALL_REFUSE, 2, {{MASKED(flags, MAKING, how)}, {MASKED(mode, S_ISUID, S_ISUID)}}}, {          \
        name, EVERY, SYSCALL_REFUSE, 2, {                                                                              \
            {MASKED(flags, MAKING, how)}, {                                                                            \
                MASKED(mode, SET_ID, S_ISGID)                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
#define OPENING(name, flags, mode)                                                                                     \
    {name, EVERY, ALLOW, 1, {{MASKED(flags, MAKING, 0)}}}, MADE_BY(name, flags, O_CREAT, mode),                        \
        MADE_BY(name, flags, TMPFILE_FLAG, mode), MADE_BY(name, flags, MAKING, mode)

#define NEW_NAMESPACES                                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define TYPE_MASK 0xf /* a socket's type without its flags, as the kernel takes it apart */

static const struct syscall_rule rules[] = {
    /* clone3 passes its flags in memory, where no filter sees them: it stays unknown, and libc falls back to clone. */
    {"clone", EVERY, ALLOW, 1, {{MASKED(0, NEW_NAMESPACES, 0)}}},
    {CLONE_FLAG(CLONE_NEWNS)},
    {CLONE_FLAG(CLONE_NEWCGROUP)},
    {CLONE_FLAG(CLONE_NEWUTS)},
    {CLONE_FLAG(CLONE_NEWIPC)},
    {CLONE_FLAG(CLONE_NEWUSER)},
    {CLONE_FLAG(CLONE_NEWPID)},
    {CLONE_FLAG(CLONE_NEWNET)},

    /* openat2 passes modes in memory: it stays unknown, and programs fall back to openat. */
    OPENING("open", 1, 2),
    OPENING("openat", 2, 3),
    MODE(EVERY, "creat", 1),
    MODE(EVERY, "chmod", 1),
    MODE(EVERY, "fchmod", 1),
    MODE(EVERY, "fchmodat", 2),
    MODE(OPEN, "mknod", 1),
    MODE(OPEN, "mknodat", 2),

    /* Its limits are the launcher's to change: the node may look at them only. */
    {"prlimit64", EVERY, ALLOW, 1, {{IS(2, 0)}}},

    {FAMILY(EVERY, ALLOW, AF_UNIX)},
    /* TIPC makes pairs too. */
    {"socketpair", EVERY, ALLOW, 1, {{IS(0, AF_UNIX)}}},
    {"socketpair", EVERY, NOTIFY, 1, {{ABOVE(0, AF_UNIX)}}},
    /* strict: anything else */
    {FAMILY(STRICT, NOTIFY, AF_UNSPEC)},
    {"socket", STRICT, NOTIFY, 1, {{ABOVE(0, AF_UNIX)}}},
    /* with a network: TCP and UDP, and the interface list */
    {INTERNET(AF_INET, SOCK_STREAM, 0)},
    {INTERNET(AF_INET, SOCK_STREAM, IPPROTO_TCP)},
    {INTERNET(AF_INET, SOCK_DGRAM, 0)},
    {INTERNET(AF_INET, SOCK_DGRAM, IPPROTO_UDP)},
    {INTERNET(AF_INET6, SOCK_STREAM, 0)},
    {INTERNET(AF_INET6, SOCK_STREAM, IPPROTO_TCP)},
    {INTERNET(AF_INET6, SOCK_DGRAM, 0)},
    {INTERNET(AF_INET6, SOCK_DGRAM, IPPROTO_UDP)},
    /* Other protocols of the same types (SCTP, MPTCP, L2TP) would make the host load their modules. */
    {EXOTIC(AF_INET, SOCK_STREAM, IPPROTO_TCP)},
    {EXOTIC(AF_INET, SOCK_DGRAM, IPPROTO_UDP)},
    {EXOTIC(AF_INET6, SOCK_STREAM, IPPROTO_TCP)},
    {EXOTIC(AF_INET6, SOCK_DGRAM, IPPROTO_UDP)},
    {RAW(AF_INET)},
    {RAW(AF_INET6)},
    {"socket", NETWORK | OPEN, ALLOW, 2, {{IS(0, AF_NETLINK)}, {IS(2, NETLINK_ROUTE)}}},
    {"socket", NETWORK | OPEN, NOTIFY, 2, {{IS(0, AF_NETLINK)}, {ISNT(2, NETLINK_ROUTE)}}},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_UNSPEC)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_AX25)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_IPX)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_APPLETALK)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_NETROM)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_BRIDGE)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_ATMPVC)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_X25)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_ROSE)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_DECnet)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_NETBEUI)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_SECURITY)},
    {FAMILY(NETWORK | OPEN, NOTIFY, AF_KEY)},
    {"socket", NETWORK | OPEN, NOTIFY, 1, {{ABOVE(0, AF_NETLINK)}}}, /* packet, vsock, alg, … */

    {IOCTL(EVERY, TCGETS)},
    {IOCTL(EVERY, FIONREAD)},
    {IOCTL(EVERY, FIONBIO)},
    {IOCTL(EVERY, FIOCLEX)},
    {IOCTL(EVERY, FIONCLEX)},
    {IOCTL(EVERY, TIOCGWINSZ)},
    {IOCTL(NETWORK | OPEN, SIOCGIFCONF)},
    {IOCTL(NETWORK | OPEN, SIOCGIFNAME)},
    {IOCTL(NETWORK | OPEN, SIOCGIFINDEX)},
    {IOCTL(NETWORK | OPEN, SIOCGIFFLAGS)},
    {IOCTL(NETWORK | OPEN, SIOCGIFADDR)},
    {IOCTL(NETWORK | OPEN, SIOCGIFDSTADDR)},
    {IOCTL(NETWORK | OPEN, SIOCGIFBRDADDR)},
    {IOCTL(NETWORK | OPEN, SIOCGIFNETMASK)},
    {IOCTL(NETWORK | OPEN, SIOCGIFMTU)},
    {IOCTL(NETWORK | OPEN, SIOCGIFHWADDR)},
    {IOCTL(OPEN, TCSETS)},
    {IOCTL(OPEN, TCSETSW)},
    {IOCTL(OPEN, TCSETSF)},
    {IOCTL(OPEN, TIOCGPGRP)},
    {IOCTL(OPEN, TIOCSPGRP)},
    /* Typing into another process's terminal. */
    {"ioctl", EVERY, NOTIFY, 1, {{IS(1, TIOCSTI)}}},

    {PRCTL(PR_SET_NAME)},
    {PRCTL(PR_GET_NAME)},
    {PRCTL(PR_GET_DUMPABLE)},
    {PRCTL(PR_GET_NO_NEW_PRIVS)},
    {PRCTL(PR_SET_PDEATHSIG)},
    {"prctl", EVERY, ALLOW, 2, {{IS(0, PR_SET_DUMPABLE)}, {IS(1, 0)}}},
};

const struct syscall_group *syscall_groups(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(groups);
    return groups;
}

const struct syscall_rule *syscall_rules(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(rules);
    return rules;
}

const char *syscall_next_name(const char *names, char ret[SYSCALL_NAME_BYTES]) {
    names += strspn(names, " ");
    size_t length = strcspn(names, " ");
    if (length == 0 || length >= SYSCALL_NAME_BYTES) return NULL;
    memcpy(ret, names, length);
    ret[length] = '\0';
    return names + length;
}
