/* Nodes that run: their table, and what the launcher does to one of them. */
#ifndef LAUNCHER_NODES_NODES_H
#define LAUNCHER_NODES_NODES_H

#include <signal.h>

#include "jail/jail.h"
#include "jail/plan.h"
#include "launcher/server.h"

enum {
    JAILED_ID_INSIDE = 1000,      /* a node's uid and gid, as it sees them */
    JAILED_LISTENER_FD = 4,       /* where a node's init keeps its duplicate for a later launcher */
    JAILED_SIGNAL_STOP = SIGUSR1, /* to a node's init: stop every process, or continue it */
    JAILED_SIGNAL_GO_ON = SIGUSR2,
};

struct launcher;

/* How many violations a node may still tell of in this second; the rest are only counted. */
struct violation_budget {
    uint64_t window_start_ms;
    unsigned told;
    uint64_t held_back;
    int held_back_syscall; /* or VIOLATION_SEVERAL, VIOLATION_NETWORK */
};

/* The path of a refused call, which is read by a process of its own; see path_read.h. */
struct path_reading {
    bool under_way;
    uint64_t call_id; /* not answered until then */
    int number;       /* the system call's */
    int fd;           /* where the path comes from */
    int pidfd;
    uint64_t due_ms;
};

struct burial {
    bool under_way;
    bool we_killed; /* it lived when we began */
    bool forced;    /* the second attempt has been made */
    struct request request;
    uint64_t deadline_ms; /* of its death; then when to look at its cgroups again */
    uint64_t dead_ms;     /* since when only its cgroups stay; 0: it may live */
    struct jail_death death;
};

#define NODE_UNOWNED ((uid_t)-1)

struct freezing; /* a freeze or thaw that is under way; see freeze.c */

struct jailed_node {
    bool used;
    bool is_starting; /* and its calls are answered at once, since nothing else is served until it runs */
    char name[JAIL_NAME_BYTES];
    pid_t pid; /* the node's init */
    uint64_t start_time;
    uid_t uid;
    uid_t owner; /* of what it has been given: volumes, folders, ports; NODE_UNOWNED: it has none */
    int pidfd;
    int listener_fd; /* -1: none, or not taken over */
    bool frozen;
    struct freezing *freezing; /* NULL: nothing is under way */
    bool yields;               /* the processor to all other nodes */
    bool counts_execs;
    uint64_t execs_max;
    uint64_t execs_used;
    struct jail_egress *egress;  /* what it may reach; NULL: it has no egress */
    bool egress_is_up;           /* and has it now */
    uint64_t traffic_used_bytes; /* of egress that it had before */
    bool inet_refused;           /* every VM tries once at boot: not worth a word */
    struct violation_budget violations;
    struct violation_budget refusals; /* of the network: neither drives the other out */
    struct path_reading path_reading;
    struct burial burial;
};

struct jailed_table {
    struct jailed_node *items; /* JAIL_NODES_MAX of them */
    size_t count;
    size_t end; /* no entry from here on was ever used */
    uid_t next_uid;
};

/* ---- table.c ---- */

struct jailed_node *nodes_find(struct launcher *launcher, const char *name);
uid_t nodes_choose_uid(struct launcher *launcher); /* that no process of ours has */
/* A new entry with a uid of its own; E_EXISTS, E_LIMIT. */
int nodes_add(struct launcher *launcher, const char *name, struct jailed_node **ret, struct error *reterr);
/* E_LIMIT when the launcher's own descriptors would not do for one more, or one more port. */
int nodes_check_room(const struct launcher *launcher, struct error *reterr);
size_t nodes_index(const struct launcher *launcher, const struct jailed_node *node);
/* Forget it: descriptors, record and uid. Its cgroups and its processes are gone before. */
void nodes_remove(struct launcher *launcher, struct jailed_node *node);
bool jailed_is_dead(const struct jailed_node *node);

/* The node is given something of this user's. What is another user's is refused from then on, unless the node is
   root's: a daemon in a stranger's hands could give one user's volume to another user's code. */
int jailed_claim(const struct launcher *launcher, struct jailed_node *node, uid_t owner, struct error *reterr);

/* ---- notify.c, violation.c ---- */

/* Answer at most one pending system call, so that no node makes another wait. */
void notify_serve(struct launcher *launcher, struct jailed_node *node);
void notify_adopt_listener(struct jailed_node *node);                          /* set-up of a listener just received */
enum { VIOLATION_SEVERAL = -1, VIOLATION_NETWORK = -2, VIOLATION_BOUND = -3 }; /* in place of a system call's number */
void violation_tell(struct launcher *launcher, struct jailed_node *node, int syscall_number, const char *detail);
/* Whether one that came now would be told with what takes long to find out: the first few of each second are. */
bool violation_is_detailed(const struct jailed_node *node);
void violation_tell_bound(struct launcher *launcher, const struct jailed_node *node, const char *limit);
/* Tell of what was held back; returns when to come again, UINT64_MAX for never. */
uint64_t violation_flush(struct launcher *launcher, uint64_t now_ms);

/* ---- bury.c ---- */

void bury_start(struct launcher *launcher, struct jailed_node *node, struct request request);
void bury_finish(struct launcher *launcher, struct jailed_node *node); /* its pidfd says that it is dead, once */
uint64_t bury_check(struct launcher *launcher, uint64_t now_ms);       /* deadlines; returns the next */
void bury_everything(struct launcher *launcher);
/* After any node has gone: the shutdown that waited for it may be answered. */
void shutdown_advance(struct launcher *launcher);

/* ---- inside.c, mount.c ---- */

/* What a helper does: on its way in, where the host's files can still be seen, and inside the node's mounts. */
struct inside_job {
    int (*on_the_way)(void *data, struct error *reterr); /* may be NULL */
    int (*inside)(void *data, struct error *reterr);
    void *data;
};

/* By this process, for good. */
void jailed_go_inside(const struct launcher *launcher, const struct jailed_node *node, const struct inside_job *job,
                      struct error *ret);
/* By another, which is waited for, up to two seconds: E_TIMEOUT. */
int jailed_do_inside(const struct launcher *launcher, const struct jailed_node *node, const struct inside_job *job,
                     struct error *reterr);
/* A process of the node through which the launcher can see its mounts; 0 when it is ending. */
pid_t jailed_door(const struct launcher *launcher, const struct jailed_node *node);
pid_t jailed_program(const struct jailed_node *node); /* the init's first child; 0 when there is none */
/* Where its writable files are; the descriptors can be asked for space and open nothing. */
int jailed_open_disks(const struct launcher *launcher, const struct jailed_node *node, int ret_fds[JAIL_DISKS],
                      struct error *reterr);

/* What bounds one writable mount, which has so much of the whole: options of a tmpfs. Never "0", which is no bound. */
struct disk_bounds {
    char size[32], inodes[32];
};
struct disk_bounds disk_bounds(const struct jail_limits *limits, uint64_t percent);
/* Add what its writable mounts are held to now to ret, which has none of it yet. */
void jailed_disk_limits(const struct launcher *launcher, const struct jailed_node *node, struct jail_limits *ret);
bool jailed_disk_differs(const struct jail_limits *left, const struct jail_limits *right);
/* Share them out among its writable mounts as they were shared before; E_CONFLICT when more is used. */
int jailed_resize(const struct launcher *launcher, const struct jailed_node *node, struct jail_limits limits,
                  struct error *reterr);

struct jailed_bind {
    const char *source, *target; /* source: a path, an opened project's token, or a volume's name */
    bool executable;
    int volume_fd;                /* what was opened of it */
    bool is_volume, is_read_only; /* read-only is all else anyway, or as it was opened */
};

int jailed_mount(const struct launcher *launcher, const struct jailed_node *node, const struct jailed_bind *binds,
                 size_t count, struct error *reterr);

/* ---- rlimit.c ---- */

enum { JAILED_RLIMITS = 2 };
/* The limits that the kernel keeps per process. */
extern const struct jailed_rlimit {
    enum jail_limit limit;
    int resource;
} jailed_rlimits[JAILED_RLIMITS];

/* E_CONFLICT for more than it was started with. */
int jailed_check_rlimits(const struct jailed_node *node, const struct jail_limits *limits, struct error *reterr);
void jailed_set_rlimits(const struct launcher *launcher, const struct jailed_node *node,
                        const struct jail_limits *limits);

/* ---- freeze.c ---- */

/* Freeze the node, or thaw it; the request is answered when that is done, or when it is not done in time. */
void freezing_begin(struct launcher *launcher, struct jailed_node *node, bool frozen, struct request request);
/* The requests that wait for it are answered that it is not to be. */
void freezing_call_off(struct launcher *launcher, struct jailed_node *node);
uint64_t freezing_check(struct launcher *launcher, uint64_t now_ms); /* goes on with it; returns when to come again */
/* Freezing takes a turn of each thread: a node that yields gets the processor meanwhile. */
void freezing_hold_up_yielding(const struct launcher *launcher, const struct jailed_node *node, bool held_up);
bool jailed_is_frozen(const struct launcher *launcher, const struct jailed_node *node);

/* ---- stop.c: without a freezer ---- */

struct jailed_stop_check; /* at whether all of its processes have stopped */

struct jailed_stop_check *jailed_stop_check_new(void); /* NULL: no memory */
void jailed_stop_check_free(struct jailed_stop_check *check);
/* Have its init stop or continue every process. */
void jailed_signal(const struct jailed_node *node, bool frozen);
/* Goes on checking, until then at the latest. False: not done yet. */
bool jailed_stop_check_on(struct jailed_stop_check *check, const struct jailed_node *node, uint64_t until_us,
                          bool *ret_all_stopped);
bool process_is_stopped(pid_t pid); /* its first thread is */

#endif
