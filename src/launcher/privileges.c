/* Privileges, signals and priority of processes that leave the launcher's behind. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/privileges.h"

int privileges_drop_bounding(struct error *reterr) {
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return error_errno(reterr, errno, "drop capability %lu", capability);
    return 0;
}

int privileges_drop_all(struct error *reterr) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0)
        return error_errno(reterr, errno, "drop all capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return error_errno(reterr, errno, "set no_new_privs");
    return 0;
}

int privileges_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct error *reterr) {
    if (setgroups(group_count, groups) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return error_errno(reterr, errno, "become uid %u", uid);
    return 0;
}

/* ---- whose turn it is ---- */

enum { SERVICE_NICE = -10 };

/* A woken process waits while the running one is within its slice, and then for the next tick, which is
   milliseconds, unless its own slice is the shorter one. The kernel's is 3 ms, and it takes none below 0.1. Nodes
   with that as well take turns so often that they use a fifth more of the processor. */
enum { SERVICE_SLICE_NS = 100000, OTHERS_SLICE_NS = 500000 };

/* Where the kernel weighs sessions against each other, ours counts; a session that we only share is left alone. */
static void raise_session(void) {
    char nice[8];
    int size = snprintf(nice, sizeof nice, "%d", SERVICE_NICE);
    CLEANUP_FD int fd = getsid(0) == getpid() ? open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC) : -1;
    ssize_t written = fd < 0 ? 0 : write(fd, nice, (size_t)size);
    (void)written; /* slower without it, not less safe */
}

void priority_raise(void) {
    if (setpriority(PRIO_PROCESS, 0, SERVICE_NICE) == 0) raise_session();
    slice_set(SERVICE_SLICE_NS);
}

void priority_reset(void) {
    setpriority(PRIO_PROCESS, 0, 0);
    slice_set(OTHERS_SLICE_NS);
}

/* ---- signals ---- */

void signals_reset(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
