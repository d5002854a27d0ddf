/* What the kernel lets us enforce is found out by trying it in a child that is thrown away: permissions, sysctls,
   security modules and container runtimes all have a say that no version number tells. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/egress/rules.h"
#include "launcher/features.h"
#include "launcher/volumes/volumes.h"

#define BIT(guarantee) (1u << JAIL_GUARANTEE_##guarantee)

enum { PROBE_UID = 1000000000 }; /* one that no account has */

/* A child in namespaces of its own; it ends when its end of the pipe is closed. */
struct subject {
    pid_t pid;
    int leash_fd; /* closing it lets the child go */
    int held_fd;  /* the number of a descriptor that the child has open */
    uint32_t guarantees;
};

static long seccomp_install(unsigned flags) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static uint32_t try_inside(void) {
    uint32_t guarantees = 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) == 0)
        guarantees |= BIT(NAMESPACES);
    if (unshare(CLONE_NEWNET) == 0) guarantees |= BIT(NETWORK);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* like a node's init */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return guarantees;
    if (seccomp_install(SECCOMP_FILTER_FLAG_NEW_LISTENER) >= 0) return guarantees | BIT(SECCOMP) | BIT(NOTIFY);
    return seccomp_install(0) == 0 ? guarantees | BIT(SECCOMP) : guarantees;
}

static _Noreturn void be_subject(int report_fd, int leash_fd) {
    uint32_t guarantees = try_inside();
    char byte;
    if (write(report_fd, &guarantees, sizeof guarantees) == sizeof guarantees) (void)!read(leash_fd, &byte, 1);
    _exit(0);
}

static bool subject_start(struct subject *ret) {
    int report[2], leash[2];
    if (pipe2(report, O_CLOEXEC) < 0) return false;
    CLEANUP_FD int report_read = report[0], report_write = report[1];
    if (pipe2(leash, O_CLOEXEC) < 0) return false;
    CLEANUP_FD int leash_read = leash[0], leash_write = leash[1];
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        close(leash_write);
        be_subject(report_write, leash_read);
    }
    fd_close(take_fd(&report_write));
    struct subject subject = {.pid = pid, .leash_fd = take_fd(&leash_write), .held_fd = leash_read};
    if (read(report_read, &subject.guarantees, sizeof subject.guarantees) != sizeof subject.guarantees)
        subject.guarantees = 0;
    *ret = subject;
    return true;
}

static void subject_end(struct subject *subject) {
    fd_close(subject->leash_fd);
    waitpid(subject->pid, NULL, 0);
}

static bool write_map(pid_t pid, const char *name) {
    char path[64], map[32];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    int length = snprintf(map, sizeof map, "0 %d 1", PROBE_UID);
    return fd >= 0 && write(fd, map, (size_t)length) == length;
}

/* A restarted launcher takes the listener out of an init that no user's process may trace. */
static bool try_takeover(const struct subject *subject) {
    CLEANUP_FD int pidfd = pidfd_open(subject->pid, 0);
    CLEANUP_FD int fd = pidfd < 0 ? -1 : pidfd_getfd(pidfd, subject->held_fd, 0);
    return fd >= 0;
}

static int detached_tmpfs(void) {
    CLEANUP_FD int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) return -1;
    return fsmount(context, FSMOUNT_CLOEXEC, 0);
}

/* With the user namespace of a process whose maps are written. */
static bool try_idmap(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    CLEANUP_FD int userns_fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int mount_fd = detached_tmpfs();
    if (userns_fd < 0 || mount_fd < 0) return false;
    struct mount_attr change = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (__u64)userns_fd};
    return mount_setattr(mount_fd, "", AT_EMPTY_PATH, &change, sizeof change) == 0;
}

static uint32_t try_outside(const struct subject *subject, bool root) {
    uint32_t guarantees = 0;
    if (try_takeover(subject)) guarantees |= BIT(TAKEOVER);
    if (!root || !write_map(subject->pid, "uid_map") || !write_map(subject->pid, "gid_map")) return guarantees;
    guarantees |= BIT(UID) | BIT(GROUPS);
    if (try_idmap(subject->pid)) guarantees |= BIT(IDMAP);
    return guarantees;
}

static uint32_t try_processes(bool root) {
    struct subject subject;
    if (!subject_start(&subject)) return 0;
    uint32_t guarantees = subject.guarantees | try_outside(&subject, root);
    subject_end(&subject);
    if (!(guarantees & BIT(NOTIFY))) guarantees &= ~BIT(TAKEOVER);
    return guarantees;
}

void features_note_cgroups(struct jail_features *features, const struct cgroup_host *host) {
    const struct {
        bool is_given;
        uint32_t guarantee;
    } found[] = {{host->version, BIT(CGROUPS)}, {host->has_memory, BIT(MEMORY)}, {host->counts_sockets, BIT(SOCKETS)},
                 {host->has_cpu, BIT(CPU)},     {host->has_tasks, BIT(TASKS)},   {host->has_freezer, BIT(FREEZER)}};
    features->cgroup_version = host->version;
    for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
        features->guarantees &= ~found[i].guarantee;
        if (found[i].is_given) features->guarantees |= found[i].guarantee;
    }
}

void features_probe(struct jail_features *ret) {
    struct jail_features features = {.root = geteuid() == 0};
    struct cgroup_host cgroups;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    features.landlock_abi = abi > 0 ? (int)abi : 0;
    features.guarantees = try_processes(features.root);
    cgroup_host_find("/sys/fs/cgroup", features.root, &cgroups);
    features_note_cgroups(&features, &cgroups);
    if (features.root && volumes_are_possible()) features.guarantees |= BIT(VOLUMES);
    if (features.root && egress_is_possible()) features.guarantees |= BIT(EGRESS);
    if (features.landlock_abi) features.guarantees |= BIT(LANDLOCK);
    *ret = features;
}
