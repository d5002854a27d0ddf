/* Between the jail's own files: what the launcher needs of cgroups, system-call filters and wire words. */
#ifndef JAIL_JAIL_INTERNAL_H
#define JAIL_JAIL_INTERNAL_H

#include <limits.h>

#include "jail/jail.h"

/* ---- wire: words of plans and launcher messages ---- */

void wire_put_word(struct buf *buf, const char *word);                   /* percent-encoded; "" is written as "%" */
void wire_put_pair(struct buf *buf, const char *key, const char *value); /* " key=value" */
void wire_put_number(struct buf *buf, const char *key, uint64_t value);
/* Decode in place the word that starts at *at and ends at a space or newline; advances *at past the separator. NULL at
   the line's end, or when badly encoded: then *at stays on the word. */
char *wire_next_word(char **at);
/* Cut the line that starts at *at off the rest; NULL at the text's end. */
char *wire_next_line(char **at);

enum { WIRE_WORDS_MAX = 16 }; /* operands of one message */

/* A message of the launcher's socket; everything points into its text. */
struct wire_message {
    char *verb;
    char *words[WIRE_WORDS_MAX]; /* operands, decoded */
    size_t count;
    char *body; /* from the second line on; "" when there is none */
};

/* Takes the terminated text apart in place; E_FORMAT. */
int wire_message_parse(char *text, struct wire_message *ret, struct error *reterr);
const char *wire_message_word(const struct wire_message *message, size_t index);     /* NULL when absent */
const char *wire_message_value(const struct wire_message *message, const char *key); /* of key=value; NULL */
bool wire_message_number(const struct wire_message *message, const char *key, uint64_t *ret);

/* ---- plans ---- */

enum { PLAN_OPS_MAX = 2048 };

struct plan_verb {
    const char *word;
    const char *operands; /* W a word, N a number */
};

const struct plan_verb *plan_verb(enum jail_plan_verb verb);
bool plan_name_is_valid(const char *name); /* 1 to 64 of [A-Za-z0-9._-], not starting with a dot or dash */
/* Words are copied; NULL where the verb has none. E_TOO_LARGE, E_NO_MEMORY. */
int plan_add(struct jail_plan *plan, enum jail_plan_verb verb, const char *first, const char *second, uint64_t number,
             struct error *reterr);

/* ---- cgroups: one facade, a backend per version ---- */

#define CGROUP_OF_DAEMONS "sandbox-daemon" /* beside the nodes' */

enum { CGROUP_FDS_MAX = 8, CGROUP_HIERARCHY_BYTES = 512 };

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_CPU,
    CGROUP_CPUACCT, /* v1 only */
    CGROUP_PIDS,
    CGROUP_FREEZER, /* v1 only; the unified hierarchy freezes better */
    CGROUP_UNIFIED, /* v2, or the hybrid one beside v1: cgroup.freeze, cgroup.kill, cgroup.events */
    CGROUP_CONTROLLER_COUNT
};

/* Where this instance's cgroups live, found once at start. */
struct cgroup_host {
    int version;          /* 0: none usable; 1; 2 */
    char mount[PATH_MAX]; /* "/sys/fs/cgroup", or a fake tree in tests */
    char group[128];      /* the instance's directory below each hierarchy, e.g. "sandbox/3" */
    bool is_root;
    bool has_memory, has_cpu, has_tasks, has_freezer;
    bool counts_sockets; /* their buffers are bounded, with the memory (v2) or beside it (v1) */
    bool has_yielding;   /* known once the group was made */
    char hierarchies[CGROUP_CONTROLLER_COUNT][CGROUP_HIERARCHY_BYTES]; /* below mount; "" when absent */
};

/* One node's cgroups. */
struct cgroup {
    char node[JAIL_NAME_BYTES];
    int join_fds[CGROUP_FDS_MAX]; /* files to write "0" to, opened by cgroup_make, closed by cgroup_close */
    int join_count;
    bool has_unified;
    int unified_fd;   /* that hierarchy's directory, to start a process in */
    int unified_join; /* which of join_fds is that hierarchy's */
};

/* Look only: what an instance could use here. */
void cgroup_host_find(const char *mount, bool root, struct cgroup_host *ret);
/* The same, and make the group's directories. A host without usable cgroups is no failure: its version is 0 and every
   function below accepts it and does nothing. */
int cgroup_host_open(const char *mount, const char *group, bool root, struct cgroup_host *ret, struct error *reterr);
/* Another group of the same instance, in a directory of its own, where memory and tasks are bounded and the processor
   is not: what is in there has no part of the nodes' share. E_GUARANTEE where the host bounds neither. */
int cgroup_host_open_beside(const struct cgroup_host *nodes, const char *group, struct cgroup_host *ret,
                            struct error *reterr);
/* Remove the group's directories, and those above it that are ours and empty. */
void cgroup_host_close(const struct cgroup_host *host);
/* Make the directories and set the limits (memory is memory plus disk, swap 0). Nothing is left when it fails;
   E_EXISTS when somebody lives in cgroups of that name. A limit of 0 is no limit. */
int cgroup_make(const struct cgroup_host *host, const char *node, const struct jail_limits *limits, struct cgroup *ret,
                struct error *reterr);
/* In the child, after clone: only write(2). 0 or an errno. */
int cgroup_join(const struct cgroup *cgroup);
/* The process was started inside unified_fd, so that it need not join there: a process that moves waits for every CPU,
   milliseconds. */
void cgroup_started_inside(struct cgroup *cgroup);
void cgroup_close(struct cgroup *cgroup);
/* E_CONFLICT, and nothing changed, when the node uses more memory than the new limit, or its sockets do. A limit of 0
   stays as it is, but for the CPU's: no cap. */
int cgroup_set_limits(const struct cgroup_host *host, const char *node, const struct jail_limits *limits,
                      struct error *reterr);
/* Whether every other node goes first: it has the processor only while they want none. It has the usual weight when it
   no longer yields, and so has one whose limits are set. E_GUARANTEE where the kernel has no such thing. */
int cgroup_set_yielding(const struct cgroup_host *host, const char *node, bool yields, struct error *reterr);
bool cgroup_yields(const struct cgroup_host *host, const char *node);
int cgroup_lift_cpu(const struct cgroup_host *host, const char *node,
                    struct error *reterr); /* so that dying is quick, however busy the others are */
/* Returns when it took effect; E_TIMEOUT: not yet, after so long. The kernel goes on with it, v1 when it is asked
 * again.
 */
int cgroup_freeze(const struct cgroup_host *host, const char *node, bool frozen, uint32_t wait_ms,
                  struct error *reterr);
/* By whichever freezer it was frozen, and by whom: a frozen process does not die on v1. Fire and forget: there may be
   nothing to thaw. */
void cgroup_thaw_everywhere(const struct cgroup_host *host, const char *node);
bool cgroup_is_frozen(const struct cgroup_host *host, const char *node);
uint64_t cgroup_oom_kills(const struct cgroup_host *host, const char *node);
/* Every pid in it, to adopt or to kill. Returns the count, at most max. */
size_t cgroup_pids(const struct cgroup_host *host, const char *node, pid_t *ret, size_t max);
/* Kill whatever is inside, and remove the directories; -EBUSY-like failures are retried for a bounded time. */
int cgroup_remove(const struct cgroup_host *host, const char *node, struct error *reterr);
/* Remove the directories unless somebody is inside. */
void cgroup_remove_if_empty(const struct cgroup_host *host, const char *node);
/* Names of the nodes that have cgroups here, for adoption. */
int cgroup_list(const struct cgroup_host *host, void (*each)(void *data, const char *node), void *data,
                struct error *reterr);
void cgroup_memory_dir(const struct cgroup_host *host, const char *node,
                       char ret[PATH_MAX]); /* "" where there is none */
void cgroup_cpu_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]);
void cgroup_tasks_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]);

/* ---- features ---- */

/* What the cgroups that were found, or made, can enforce. */
void features_note_cgroups(struct jail_features *features, const struct cgroup_host *host);

/* ---- seccomp: the system-call table as a filter ---- */

struct sock_fprog; /* linux/filter.h */

/* Build the BPF program of a set ("strict", "network", "open"); allocated, freed with seccomp_filter_free.
   exec_counted: execve and execveat notify. Done once per set, before any node is started. */
int seccomp_filter_build(const char *set, bool exec_counted, struct sock_fprog **ret, struct error *reterr);
/* For a kernel without notifications: calls that would notify fail at once, and programs are not counted. */
int seccomp_filter_build_quiet(const char *set, struct sock_fprog **ret, struct error *reterr);
/* For the daemon itself, which must be the caller: of its own table, and it may signal its own threads. */
int seccomp_filter_build_for_daemon(struct sock_fprog **ret, struct error *reterr);
void seccomp_filter_free(struct sock_fprog *filter);
static inline void cleanup_seccomp_filter(struct sock_fprog **filter) {
    seccomp_filter_free(*filter);
}

enum { SECCOMP_NAME_BYTES = 32 };

/* The name of a call that notifies, for events; "unknown" for others. */
void seccomp_syscall_name(int nr, char ret[SECCOMP_NAME_BYTES]);
/* The errno that a refused call gets. */
int seccomp_refusal(int nr);

#endif
