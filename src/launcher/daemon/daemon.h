/* The daemon: started, watched and bounded by the launcher. */
#ifndef LAUNCHER_DAEMON_DAEMON_H
#define LAUNCHER_DAEMON_DAEMON_H

#include "launcher/cgroup/cgroup.h"

struct launcher;

enum { DAEMON_SETTING_BYTES = 1024 };

struct supervisor {
    pid_t pid;
    int pidfd; /* -1: no daemon */
    bool is_child;
    bool wanted; /* false: --no-daemon, or the service is ending */
    uint64_t started_ms;
    uint64_t start_due_ms; /* 0: not waiting to start it */
    uint64_t stop_due_ms;  /* 0: not waiting for its end */
    unsigned failures;
    char *const *options;       /* NULL-terminated */
    struct cgroup_host cgroups; /* version 0: the daemon has none */
};

/* ---- setting.c ---- */

/* One of the daemon's own settings, as it will read it. False: it is not set, or too long. */
bool daemon_setting(const struct launcher *launcher, const char *name, char ret[DAEMON_SETTING_BYTES]);

/* ---- bounds.c: what the daemon may use ---- */

/* In a directory of the instance's name. A host that bounds nothing is said in the log. */
void daemon_bounds_open(struct launcher *launcher, const char *instance);
/* For the daemon that is started next; ret stays empty where there is none. */
void daemon_bounds_make(const struct launcher *launcher, struct cgroup *ret);
void daemon_bounds_join(const struct launcher *launcher, const struct cgroup *cgroup); /* in the daemon's process */
void daemon_bounds_close(const struct launcher *launcher); /* nothing is left, unless the daemon lives */

/* ---- supervise.c: the daemon ---- */

int supervise_start(struct launcher *launcher, struct error *reterr);
void supervise_ended(struct launcher *launcher); /* its pidfd says so */
uint64_t supervise_check(struct launcher *launcher, uint64_t now_ms);
void supervise_stop(struct launcher *launcher); /* SIGTERM; the loop ends when it has gone */

#endif
