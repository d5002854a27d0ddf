/* Processes that do one thing for the launcher, with fewer rights, and end. */
#ifndef LAUNCHER_PROJECT_HELPER_H
#define LAUNCHER_PROJECT_HELPER_H

#include <stddef.h>
#include <sys/types.h>

#include "base/base.h"

enum { HELPER_FD = 3, HELPER_FDS_MAX = 4 };

/* Run body in a process that is reaped by the system, with nothing open but the standard descriptors and fds, which
   are HELPER_FD and the next there. *ret_pidfd is the process. */
int helper_start(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count, int *ret_pidfd,
                 struct error *reterr);
/* The error that such a process reports, if it is one: it came through a pipe, and is not believed. 0: it is none. */
int helper_error(const struct error *report, struct error *reterr);
/* Kill it, whatever it does or whether it was stopped, and close the descriptor. Returns -1, for the variable. */
int helper_end(int pidfd);

/* ---- those that were killed and have not ended ---- */

enum { HELPERS_DYING_OF_ONE = 32, HELPERS_DYING_MAX = 256 };

struct dying_helper {
    uid_t uid;
    int pidfd;
};

struct launcher;

struct helpers {
    struct dying_helper dying[HELPERS_DYING_MAX];
    size_t dying_count;
};

/* helper_end for a process that may be closing a file of its user: until it has ended, it is counted. */
int helper_end_of(struct launcher *launcher, uid_t uid, int pidfd);
/* E_LIMIT while too many of one user's have not ended. */
int helper_check_dying(struct launcher *launcher, uid_t uid, struct error *reterr);
void helper_forget_dying(struct launcher *launcher);

#endif
