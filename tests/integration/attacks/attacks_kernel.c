/* Attacks on the kernel, from native code: the calls that have broken jails before. Only `low` loads native code when
   asked to, but a crafted BEAM file runs it at any profile. So the others have profiles here that add `nif` and keep
   their filter. Arguments are such that a call which got through would fail otherwise, or do no harm. */
#include "attacks.h"

#define EPERM_ANSWER "{error,1}"
#define ENOSYS_ANSWER "{error,38}"

#define EACCES_ANSWER "{error,13}"

/* A call that the launcher is asked about: refused, and told. */
#define REFUSED(call, arguments, what)                                                                                 \
    {                                                                                                                  \
        .name = "system_call_" call, .tries = what, .where = EVERY, .wall = "seccomp, no capabilities",                \
        .code = "attack:call(" call ", [" arguments "])", .answers = EPERM_ANSWER, .seen_kind = "violation",           \
        .seen_value = call                                                                                             \
    }

/* A call that is not there, or finds nothing it may do. */
#define ABSENT(call, arguments, what)                                                                                  \
    {                                                                                                                  \
        .name = "system_call_" call, .tries = what, .where = EVERY, .wall = "seccomp",                                 \
        .code = "attack:call(" call ", [" arguments "])", .answers = ENOSYS_ANSWER "|" EPERM_ANSWER "|" EACCES_ANSWER  \
    }

static const struct attack on_kernel[] = {
    REFUSED("mount", "<<\"none\\0\">>, <<\"/tmp\\0\">>, <<\"tmpfs\\0\">>, 0, 0", "mount a file system"),
    REFUSED("umount2", "<<\"/app\\0\">>, 0", "unmount what hides the host"),
    REFUSED("pivot_root", "<<\".\\0\">>, <<\".\\0\">>", "change the root"),
    REFUSED("chroot", "<<\"/tmp\\0\">>", "leave by `chroot`"),
    REFUSED("open_tree", "-100, <<\"/\\0\">>, 0", "take a mount by descriptor"),
    REFUSED("open_by_handle_at", "3, 0, 0", "open a file of the host's by its handle"),
    REFUSED("ptrace", "16, 1, 0, 0", "trace the node's init"),
    REFUSED("process_vm_readv", "1, 0, 0, 0, 0, 0", "read another process's memory"),
    REFUSED("bpf", "0, 0, 0", "load a BPF program"),
    REFUSED("perf_event_open", "0, 0, -1, -1, 0", "watch the kernel with perf"),
    REFUSED("userfaultfd", "0", "hold kernel threads with `userfaultfd`"),
    REFUSED("io_uring_setup", "1, 0", "use io_uring, which passes by seccomp"),
    REFUSED("keyctl", "0, -3, 0", "read the kernel's keyrings"),
    REFUSED("add_key", "<<\"user\\0\">>, <<\"x\\0\">>, <<\"x\">>, 1, -3", "add a key to the kernel's keyrings"),
    REFUSED("init_module", "<<0>>, 1, <<0>>", "load a kernel module"),
    REFUSED("finit_module", "-1, <<0>>, 0", "load a kernel module by descriptor"),
    REFUSED("kexec_load", "0, 0, 0, 0", "start another kernel"),
    REFUSED("reboot", "0, 0, 0, 0", "restart the machine"),
    REFUSED("unshare", "16#10000000", "a user namespace inside, where it would be root"),
    REFUSED("setns", "-1, 0", "enter another namespace"),
    REFUSED("clone", "16#10000000 bor 17, 0, 0, 0, 0", "a process in a user namespace of its own"),
    REFUSED("clock_settime", "0, 0", "set the clock"),
    REFUSED("swapon", "<<\"/data/x\\0\">>, 0", "swap to a file"),
    ABSENT("clone3", "0, 0", "a namespace by way of `clone3`, whose flags no filter sees"),
    ABSENT("mknodat", "-100, <<\"/data/disk\\0\">>, 8#60600, 16#800", "make a device node for the host's disk"),
    ABSENT("seccomp", "1, 0, 0", "install a filter of its own over ours"),
    ABSENT("setuid", "0", "become root"),
    ABSENT("pidfd_getfd", "0, 0, 0", "take a descriptor of another process"),
};

const struct attack_table attacks_on_kernel = ATTACK_TABLE("The kernel, from native code", on_kernel);
