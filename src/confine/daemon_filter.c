/* The daemon's own system-call filter, which it puts on itself. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine/confine_internal.h"
#include "jail/seccomp.h"

int confine_daemon(struct error *reterr) {
    CLEANUP(cleanup_seccomp_filter) struct sock_fprog *filter = NULL;
    if (seccomp_filter_build_own(confine_syscalls(), &filter, reterr) < 0) return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return error_errno(reterr, errno, "give up new privileges");
    long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, filter);
    if (failed < 0) return error_errno(reterr, errno, "enter the system-call filter");
    /* A thread that has a filter of its own: none of ours does. */
    return failed ? error_set(reterr, E_SYSTEM, "thread %ld can't be filtered", failed) : 0;
}
