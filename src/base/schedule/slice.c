/* Sets a thread's time slice, where the kernel lets a thread choose it. */
#include "base/schedule/slice.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel has it; its header and libc's can't be included together. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void slice_set(uint64_t slice_ns) {
    struct scheduling wanted = {
        .size = sizeof wanted, .policy = SCHED_OTHER, .nice = getpriority(PRIO_PROCESS, 0), .runtime_ns = slice_ns};
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}
