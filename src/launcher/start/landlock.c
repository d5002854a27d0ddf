/* The plan's read, write and execute lines become Landlock rules of the node. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/start/spawn.h"

/* Newer than the headers we are built with. */
#define ACCESS_TRUNCATE (1ULL << 14)
#define ACCESS_IOCTL_DEV (1ULL << 15)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset_attributes {
    uint64_t access_fs;
    uint64_t access_net;
    uint64_t scoped;
};

/* What each version of Landlock can handle, and the size of what it reads. */
static const struct {
    int abi;
    uint64_t access_fs;
    uint64_t scoped;
    size_t attributes_size;
} generations[] = {
    {6, (1ULL << 16) - 1, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, 24},
    {5, (1ULL << 16) - 1, 0, 16},
    {4, (1ULL << 15) - 1, 0, 16},
    {3, (1ULL << 15) - 1, 0, 8},
    {2, (1ULL << 14) - 1, 0, 8},
    {1, (1ULL << 13) - 1, 0, 8},
};

enum {
    OF_FILES = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
               ACCESS_TRUNCATE | ACCESS_IOCTL_DEV,
    READING = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    EXECUTING = READING | LANDLOCK_ACCESS_FS_EXECUTE,
    WRITING = READING | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
              LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
              LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |
              LANDLOCK_ACCESS_FS_REFER,
};

static uint64_t access_of_verb(enum jail_plan_verb verb) {
    switch (verb) {
    case JAIL_PLAN_READ: return READING;
    case JAIL_PLAN_WRITE:
    case JAIL_PLAN_DEVICE: return WRITING;
    case JAIL_PLAN_EXECUTE: return EXECUTING;
    default: return 0;
    }
}

static bool has_rules(const struct jail_plan *plan) {
    for (size_t i = 0; i < plan->count; i++)
        if (plan->ops[i].verb != JAIL_PLAN_DEVICE && access_of_verb(plan->ops[i].verb)) return true;
    return false;
}

static int add_rule(int ruleset_fd, const char *path, uint64_t access, struct error *reterr) {
    struct stat status;
    CLEANUP_FD int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0) return error_errno(reterr, errno, "Landlock rule for %s", path);
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    if (!S_ISDIR(status.st_mode)) rule.allowed_access &= OF_FILES;
    if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return error_errno(reterr, errno, "Landlock rule for %s", path);
    return 0;
}

static int add_rules(int ruleset_fd, const struct jail_plan *plan, uint64_t handled, struct error *reterr) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct jail_plan_op *op = &plan->ops[i];
        uint64_t access = access_of_verb(op->verb) & handled;
        char path[PATH_MAX];
        if (!access) continue;
        snprintf(path, sizeof path, "%s%s", op->verb == JAIL_PLAN_DEVICE ? "/dev/" : "", op->words[0]);
        if (add_rule(ruleset_fd, path, access, reterr) < 0) return -1;
    }
    return 0;
}

int landlock_enter(const struct jail_plan *plan, struct error *reterr) {
    if (!has_rules(plan)) return 0;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    size_t generation = 0;
    while (generation < ARRAY_SIZE(generations) && abi < generations[generation].abi) generation++;
    if (generation == ARRAY_SIZE(generations))
        return error_set(reterr, E_GUARANTEE, "the plan has Landlock rules and the kernel no Landlock");
    struct ruleset_attributes attributes = {.access_fs = generations[generation].access_fs,
                                            .scoped = generations[generation].scoped};
    CLEANUP_FD int ruleset_fd =
        (int)syscall(SYS_landlock_create_ruleset, &attributes, generations[generation].attributes_size, 0);
    if (ruleset_fd < 0) return error_errno(reterr, errno, "make a Landlock ruleset");
    if (add_rules(ruleset_fd, plan, attributes.access_fs, reterr) < 0) return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0) return error_errno(reterr, errno, "enter Landlock");
    return 0;
}
