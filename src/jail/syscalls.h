/* The system calls that a node may make, as data; the daemon's own table (confine) has the same form. What is in no row
   fails with ENOSYS. */
#ifndef JAIL_SYSCALLS_H
#define JAIL_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SYSCALLS_STRICT = 1,  /* the VM, its helper and the node's init */
    SYSCALLS_NETWORK = 2, /* the same with internet sockets */
    SYSCALLS_OPEN = 4,    /* ordinary programs too */
    SYSCALLS_EVERY = 7,
    SYSCALL_CONDITIONS_MAX = 3,
    SYSCALL_NAME_BYTES = 32,
};

enum syscall_action {
    SYSCALL_ALLOW,
    SYSCALL_NOTIFY,  /* the launcher is asked: it refuses and reports */
    SYSCALL_EXEC,    /* the launcher is asked when programs are counted, else allowed */
    SYSCALL_REFUSE,  /* EPERM, and no word of it */
    SYSCALL_PRETEND, /* nothing is done, and the caller is told that it was */
};

enum syscall_compare { SYSCALL_EQUAL, SYSCALL_DIFFERENT, SYSCALL_ABOVE };

struct syscall_condition {
    unsigned argument;
    enum syscall_compare compare;
    uint64_t value;
    uint64_t mask; /* 0: the whole argument; only with SYSCALL_EQUAL */
};

/* Calls whose arguments don't matter; names are separated by spaces. */
struct syscall_group {
    unsigned sets;
    enum syscall_action action;
    const char *names;
};

/* A call when all conditions hold. Rules of one call never overlap, so that their order doesn't matter. */
struct syscall_rule {
    const char *name;
    unsigned sets;
    enum syscall_action action;
    unsigned count;
    struct syscall_condition conditions[SYSCALL_CONDITIONS_MAX];
};

struct syscall_table {
    const struct syscall_group *groups;
    size_t group_count;
    const struct syscall_rule *rules;
    size_t rule_count;
};

const struct syscall_group *syscall_groups(size_t *ret_count);
const struct syscall_rule *syscall_rules(size_t *ret_count);

/* The next name of a group, copied to ret; NULL at the end, else where to go on. */
const char *syscall_next_name(const char *names, char ret[SYSCALL_NAME_BYTES]);

#endif
