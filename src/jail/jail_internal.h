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

/* ---- cgroups: one facade, a backend per version ---- */

enum { CGROUP_FDS_MAX = 8 };

/* Where this instance's cgroups live, found once at start. */
struct cgroup_host {
    int version;          /* 0: none usable; 1; 2 */
    char mount[PATH_MAX]; /* "/sys/fs/cgroup", or a fake tree in tests */
    char group[128];      /* the instance's directory below each hierarchy, e.g. "sandbox/3" */
    bool has_memory, has_cpu, has_tasks, has_freezer;
    char unified[PATH_MAX]; /* v2 or hybrid directory with cgroup.kill and cgroup.freeze; "" when absent */
};

/* One node's cgroups. */
struct cgroup {
    char node[JAIL_NAME_BYTES];
    int join_fds[CGROUP_FDS_MAX]; /* files to write "0" to, opened by cgroup_make, closed by cgroup_close */
    int join_count;
};

int cgroup_host_open(const char *mount, const char *group, bool root, struct cgroup_host *ret, struct error *reterr);
/* Make the directories and set the limits (memory is memory plus disk, swap 0). Nothing is left when it fails. */
int cgroup_make(const struct cgroup_host *host, const char *node, const struct jail_limits *limits, struct cgroup *ret,
                struct error *reterr);
/* In the child, after clone: only write(2). 0 or an errno. */
int cgroup_join(const struct cgroup *cgroup);
void cgroup_close(struct cgroup *cgroup);
int cgroup_set_limits(const struct cgroup_host *host, const char *node, const struct jail_limits *limits,
                      struct error *reterr);
int cgroup_lift_cpu(const struct cgroup_host *host, const char *node,
                    struct error *reterr); /* so that dying is quick */
int cgroup_freeze(const struct cgroup_host *host, const char *node, bool frozen,
                  struct error *reterr); /* returns when it took effect */
bool cgroup_is_frozen(const struct cgroup_host *host, const char *node);
uint64_t cgroup_oom_kills(const struct cgroup_host *host, const char *node);
/* Every pid in it, to adopt or to kill. Returns the count, at most max. */
size_t cgroup_pids(const struct cgroup_host *host, const char *node, pid_t *ret, size_t max);
/* Kill whatever is inside, and remove the directories; -EBUSY-like failures are retried for a bounded time. */
int cgroup_remove(const struct cgroup_host *host, const char *node, struct error *reterr);
/* Names of the nodes that have cgroups here, for adoption. */
int cgroup_list(const struct cgroup_host *host, void (*each)(void *data, const char *node), void *data,
                struct error *reterr);
void cgroup_memory_dir(const struct cgroup_host *host, const char *node,
                       char ret[PATH_MAX]); /* "" where there is none */
void cgroup_cpu_dir(const struct cgroup_host *host, const char *node, char ret[PATH_MAX]);

/* ---- seccomp: the system-call table as a filter ---- */

struct sock_fprog; /* linux/filter.h */

/* Build the BPF program of a set ("strict", "network", "open"); allocated, freed with seccomp_filter_free.
   exec_counted: execve and execveat notify. Done once per set, before any node is started. */
int seccomp_filter_build(const char *set, bool exec_counted, struct sock_fprog **ret, struct error *reterr);
void seccomp_filter_free(struct sock_fprog *filter);

#endif
