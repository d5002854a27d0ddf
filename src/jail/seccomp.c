/* The system-call tables become filter programs, by libseccomp. */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jail/seccomp.h"
#include "jail/syscalls.h"

/* What the table's actions become in one filter. */
struct dialect {
    unsigned set;                      /* of the nodes' table */
    const struct syscall_table *table; /* NULL: the nodes' */
    bool exec_counted;
    bool quiet;    /* refuse at once what would notify */
    pid_t own_pid; /* whose threads it may signal; 0: as the table says */
};

static const struct {
    const char *name;
    unsigned set;
} set_names[SECCOMP_SETS] = {{"strict", SYSCALLS_STRICT}, {"network", SYSCALLS_NETWORK}, {"open", SYSCALLS_OPEN}};

int seccomp_set_find(const char *name) {
    for (int i = 0; i < SECCOMP_SETS; i++)
        if (strcmp(set_names[i].name, name) == 0) return i;
    return -1;
}

static bool find_set(const char *name, unsigned *ret) {
    int index = seccomp_set_find(name);
    if (index >= 0) *ret = set_names[index].set;
    return index >= 0;
}

static int resolve(const char *name) {
    return seccomp_syscall_resolve_name(name);
}

int seccomp_refusal(int nr) {
    /* What a kernel without the family says: the VM, which tries at every boot, takes it for an answer. */
    return nr == resolve("socket") ? EAFNOSUPPORT : EPERM;
}

static uint32_t action_of(const struct dialect *dialect, enum syscall_action action, int nr) {
    if (action == SYSCALL_ALLOW || (action == SYSCALL_EXEC && !dialect->exec_counted)) return SCMP_ACT_ALLOW;
    if (action == SYSCALL_REFUSE) return SCMP_ACT_ERRNO(EPERM);
    if (action == SYSCALL_PRETEND) return SCMP_ACT_ERRNO(0);
    return dialect->quiet ? SCMP_ACT_ERRNO((uint16_t)seccomp_refusal(nr)) : SCMP_ACT_NOTIFY;
}

static struct scmp_arg_cmp compare_of(const struct syscall_condition *condition) {
    static const enum scmp_compare compares[] = {
        [SYSCALL_EQUAL] = SCMP_CMP_EQ,
        [SYSCALL_DIFFERENT] = SCMP_CMP_NE,
        [SYSCALL_ABOVE] = SCMP_CMP_GT,
    };
    if (condition->mask)
        return (struct scmp_arg_cmp){condition->argument, SCMP_CMP_MASKED_EQ, condition->mask, condition->value};
    return (struct scmp_arg_cmp){condition->argument, compares[condition->compare], condition->value, 0};
}

static int add_call(scmp_filter_ctx context, const struct dialect *dialect, const struct syscall_rule *rule,
                    struct error *reterr) {
    int nr = resolve(rule->name);
    if (nr < 0) return 0; /* this architecture, or this libseccomp, doesn't know it: it stays refused */
    struct scmp_arg_cmp compares[SYSCALL_CONDITIONS_MAX];
    for (unsigned i = 0; i < rule->count; i++) compares[i] = compare_of(&rule->conditions[i]);
    int failed = seccomp_rule_add_exact_array(context, action_of(dialect, rule->action, nr), nr, rule->count, compares);
    return failed < 0 ? error_errno(reterr, -failed, "seccomp rule for %s", rule->name) : 0;
}

static int add_group(scmp_filter_ctx context, const struct dialect *dialect, const struct syscall_group *group,
                     struct error *reterr) {
    char name[SYSCALL_NAME_BYTES];
    for (const char *at = group->names; (at = syscall_next_name(at, name));)
        if (add_call(context, dialect, &(struct syscall_rule){.name = name, .action = group->action}, reterr) < 0)
            return -1;
    return 0;
}

static struct syscall_table table_of(const struct dialect *dialect) {
    struct syscall_table table;
    if (dialect->table) return *dialect->table;
    table.groups = syscall_groups(&table.group_count);
    table.rules = syscall_rules(&table.rule_count);
    return table;
}

static int add_all(scmp_filter_ctx context, const struct dialect *dialect, struct error *reterr) {
    struct syscall_table table = table_of(dialect);
    for (size_t i = 0; i < table.group_count; i++)
        if ((table.groups[i].sets & dialect->set) && add_group(context, dialect, &table.groups[i], reterr) < 0)
            return -1;
    for (size_t i = 0; i < table.rule_count; i++)
        if ((table.rules[i].sets & dialect->set) && add_call(context, dialect, &table.rules[i], reterr) < 0) return -1;
    if (!dialect->own_pid) return 0;
    struct syscall_rule own_threads = {
        "tgkill", dialect->set, SYSCALL_ALLOW, 1, {{0, SYSCALL_EQUAL, (uint64_t)dialect->own_pid, 0}}};
    return add_call(context, dialect, &own_threads, reterr);
}

static void cleanup_context(scmp_filter_ctx *context) {
    if (*context) seccomp_release(*context);
}

/* libseccomp 2.5 writes programs to descriptors only. */
static int export_program(scmp_filter_ctx context, struct sock_fprog **ret, struct error *reterr) {
    CLEANUP_FD int fd = memfd_create("seccomp", MFD_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "memfd_create");
    int failed = seccomp_export_bpf(context, fd);
    off_t size = lseek(fd, 0, SEEK_END);
    if (failed < 0 || size < 0) return error_errno(reterr, failed < 0 ? -failed : errno, "export the seccomp filter");
    if ((size_t)size / sizeof(struct sock_filter) > BPF_MAXINSNS)
        return error_set(reterr, E_TOO_LARGE, "the seccomp filter has more than %d instructions", BPF_MAXINSNS);
    CLEANUP_FREE struct sock_fprog *program = malloc(sizeof *program + (size_t)size);
    if (!program) return error_errno(reterr, ENOMEM, "seccomp filter");
    program->filter = (struct sock_filter *)(program + 1);
    program->len = (unsigned short)((size_t)size / sizeof(struct sock_filter));
    if (pread(fd, program->filter, (size_t)size, 0) != size) return error_errno(reterr, errno, "read the filter");
    *ret = take_ptr(program);
    return 0;
}

static int build(const struct dialect *dialect, struct sock_fprog **ret, struct error *reterr) {
    CLEANUP(cleanup_context) scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!context) return error_errno(reterr, ENOMEM, "seccomp_init");
    /* i386 and x32 calls have numbers of their own, which no rule here means. */
    int failed = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    /* A tree instead of a list of comparisons: 350 calls otherwise cost the last ones dearly. */
    if (failed == 0) failed = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (failed < 0) return error_errno(reterr, -failed, "seccomp_attr_set");
    if (add_all(context, dialect, reterr) < 0) return -1;
    return export_program(context, ret, reterr);
}

int seccomp_filter_build(const char *set, bool exec_counted, struct sock_fprog **ret, struct error *reterr) {
    struct dialect dialect = {.exec_counted = exec_counted};
    if (!find_set(set, &dialect.set)) return error_set(reterr, E_INVALID, "there is no system-call set '%s'", set);
    return build(&dialect, ret, reterr);
}

int seccomp_filter_build_quiet(const char *set, struct sock_fprog **ret, struct error *reterr) {
    struct dialect dialect = {.quiet = true};
    if (!find_set(set, &dialect.set)) return error_set(reterr, E_INVALID, "there is no system-call set '%s'", set);
    return build(&dialect, ret, reterr);
}

int seccomp_filter_build_own(const struct syscall_table *table, struct sock_fprog **ret, struct error *reterr) {
    struct dialect dialect = {.set = SYSCALLS_EVERY, .table = table, .quiet = true, .own_pid = getpid()};
    return build(&dialect, ret, reterr);
}

void seccomp_filter_free(struct sock_fprog *filter) {
    free(filter);
}

_Static_assert((int)SECCOMP_NAME_BYTES >= (int)SYSCALL_NAME_BYTES, "a name of the table fits the event's");

static bool group_names(const struct syscall_group *group, int nr, char ret[SYSCALL_NAME_BYTES]) {
    for (const char *at = group->names; (at = syscall_next_name(at, ret));)
        if (resolve(ret) == nr) return true;
    return false;
}

void seccomp_syscall_name(int nr, char ret[SECCOMP_NAME_BYTES]) {
    size_t count;
    const struct syscall_group *groups = syscall_groups(&count);
    for (size_t i = 0; i < count; i++)
        if (groups[i].action != SYSCALL_ALLOW && group_names(&groups[i], nr, ret)) return;
    const struct syscall_rule *rules = syscall_rules(&count);
    for (size_t i = 0; i < count; i++)
        if (rules[i].action != SYSCALL_ALLOW && resolve(rules[i].name) == nr) {
            snprintf(ret, SECCOMP_NAME_BYTES, "%s", rules[i].name);
            return;
        }
    snprintf(ret, SECCOMP_NAME_BYTES, "unknown");
}
