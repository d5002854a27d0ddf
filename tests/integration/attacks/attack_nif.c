/* Raw system calls for hostile native code: attack_nif:syscall(Name, Arguments) and one that never gives its scheduler
   back. */
#include <erl_nif.h>

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARGUMENTS = 6, NAME_BYTES = 32 };

static const struct {
    const char *name;
    long number;
} calls[] = {
    {"kill", SYS_kill},
    {"mount", SYS_mount},
    {"umount2", SYS_umount2},
    {"pivot_root", SYS_pivot_root},
    {"chroot", SYS_chroot},
    {"open_tree", SYS_open_tree},
    {"fsopen", SYS_fsopen},
    {"open_by_handle_at", SYS_open_by_handle_at},
    {"mknodat", SYS_mknodat},
    {"ptrace", SYS_ptrace},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"pidfd_getfd", SYS_pidfd_getfd},
    {"bpf", SYS_bpf},
    {"perf_event_open", SYS_perf_event_open},
    {"userfaultfd", SYS_userfaultfd},
    {"io_uring_setup", SYS_io_uring_setup},
    {"keyctl", SYS_keyctl},
    {"add_key", SYS_add_key},
    {"request_key", SYS_request_key},
    {"init_module", SYS_init_module},
    {"finit_module", SYS_finit_module},
    {"delete_module", SYS_delete_module},
    {"kexec_load", SYS_kexec_load},
    {"reboot", SYS_reboot},
    {"unshare", SYS_unshare},
    {"setns", SYS_setns},
    {"clone", SYS_clone},
    {"clone3", SYS_clone3},
    {"setuid", SYS_setuid},
    {"sethostname", SYS_sethostname},
    {"personality", SYS_personality},
    {"clock_settime", SYS_clock_settime},
    {"socket", SYS_socket},
    {"swapon", SYS_swapon},
    {"syslog", SYS_syslog},
    {"acct", SYS_acct},
    {"quotactl", SYS_quotactl},
    {"seccomp", SYS_seccomp},
    {"memfd_create", SYS_memfd_create},
    {"execveat", SYS_execveat},
};

static long number_of(const char *name) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(calls[i].name, name) == 0) return calls[i].number;
    return -1;
}

/* An integer as it is, a binary as the address of its bytes. */
static int take_argument(ErlNifEnv *env, ERL_NIF_TERM term, long *ret) {
    ErlNifBinary binary;
    ErlNifSInt64 number;
    if (enif_get_int64(env, term, &number)) {
        *ret = (long)number;
        return 1;
    }
    if (!enif_inspect_binary(env, term, &binary)) return 0;
    *ret = (long)(intptr_t)binary.data;
    return 1;
}

static ERL_NIF_TERM call(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    char name[NAME_BYTES];
    long arguments[ARGUMENTS] = {0};
    ERL_NIF_TERM head, rest = argv[1];
    (void)argc;
    if (!enif_get_atom(env, argv[0], name, sizeof name, ERL_NIF_LATIN1)) return enif_make_badarg(env);
    for (int i = 0; i < ARGUMENTS && enif_get_list_cell(env, rest, &head, &rest); i++)
        if (!take_argument(env, head, &arguments[i])) return enif_make_badarg(env);
    long number = number_of(name);
    if (number < 0) return enif_make_badarg(env);
    errno = 0;
    long result = syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    const char *tag = result < 0 ? "error" : "ok";
    return enif_make_tuple2(env, enif_make_atom(env, tag), enif_make_int64(env, result < 0 ? errno : result));
}

/* Waiting holds the scheduler as well as spinning would, and costs the machine nothing. */
static ERL_NIF_TERM occupy(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc, (void)argv;
    for (volatile int on = 1; on;) poll(NULL, 0, -1);
    return enif_make_atom(env, "never");
}

static ErlNifFunc functions[] = {{"syscall", 2, call, 0}, {"occupy", 0, occupy, 0}};

ERL_NIF_INIT(attack_nif, functions, NULL, NULL, NULL, NULL)
