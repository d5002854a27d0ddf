/* The system-call tables as filter programs. */
#ifndef JAIL_SECCOMP_H
#define JAIL_SECCOMP_H

#include <stdbool.h>

#include "base/base.h"

struct syscall_table; /* jail/syscalls.h */
struct sock_fprog;    /* linux/filter.h */

enum { SECCOMP_SETS = 3 };

/* The index of a set ("strict", "network", "open"); negative: there is none of that name. */
int seccomp_set_find(const char *name);
/* Build the BPF program of a set; allocated, freed with seccomp_filter_free.
   exec_counted: execve and execveat notify. Done once per set, before any node is started. */
int seccomp_filter_build(const char *set, bool exec_counted, struct sock_fprog **ret, struct error *reterr);
/* For a kernel without notifications: calls that would notify fail at once, and programs are not counted. */
int seccomp_filter_build_quiet(const char *set, struct sock_fprog **ret, struct error *reterr);
/* For the calling process itself: what the table has, and signals to its own threads. What would notify fails. */
int seccomp_filter_build_own(const struct syscall_table *table, struct sock_fprog **ret, struct error *reterr);
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
