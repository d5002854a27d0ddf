/* Between the launcher's own files. One process, one thread, one struct: everything it knows is here, in fixed tables.
 */
#ifndef LAUNCHER_LAUNCHER_INTERNAL_H
#define LAUNCHER_LAUNCHER_INTERNAL_H

#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/egress/egress.h"

#define SLOT_UID_BASE 1000000000u /* far from the ids that people, services and subordinate ranges have */

enum {
    EXIT_USAGE = 2,
    EXIT_CONFLICT = 4,
    SLOT_UIDS = 65536,
    SLOTS_MAX = 4096,
    NODE_ID_INSIDE = 1000,      /* a node's uid and gid, as it sees them */
    NODE_LISTENER_FD = 4,       /* where a node's init keeps its duplicate for a later launcher */
    NODE_SIGNAL_STOP = SIGUSR1, /* to a node's init: stop everybody, or let everybody go on */
    NODE_SIGNAL_GO_ON = SIGUSR2,
    HELPER_FD = 3,
    HELPER_FDS_MAX = 4,
    OPEN_TIMEOUT_S = 10,    /* for a project */
    STREAM_TIMEOUT_S = 120, /* for its files, where they come as a stream */
    FILTER_SETS = 3,
    MESSAGE_FDS_MAX = 2,
    PROJECT_TOKEN_BYTES = 32,
    CALLER_GROUPS_MAX = 256,
};

/* Who asked: an answer is for the connection that the request came over, and for no later one. */
struct request {
    uint64_t id;
    uint64_t link_serial;
};

/* How many violations a node may still tell of in this second; the rest are only counted. */
struct violation_budget {
    uint64_t window_start_ms;
    unsigned told;
    uint64_t held_back;
    int held_back_syscall; /* or VIOLATION_SEVERAL, VIOLATION_NETWORK */
};

struct burial {
    bool under_way;
    bool we_killed; /* it lived when we began */
    bool forced;    /* the second attempt has been made */
    struct request request;
    uint64_t deadline_ms;
};

struct standstill; /* what is under way of standing still, or of going on; see standstill.c */

struct launcher_node {
    bool used;
    char name[JAIL_NAME_BYTES];
    pid_t pid; /* the node's init */
    uint64_t start_time;
    uid_t uid;
    int pidfd;
    int listener_fd; /* -1: nobody to answer, or taken by nobody */
    bool frozen;
    struct standstill *standstill; /* NULL: nothing is under way */
    bool yields;                   /* the processor to all other nodes */
    bool counts_execs;
    uint64_t execs_max;
    uint64_t execs_used;
    uint64_t disk_bytes;         /* of its writable mounts together */
    struct jail_egress *egress;  /* what it may reach; NULL: it has no way out */
    bool has_way_out;            /* and has it now */
    uint64_t traffic_used_bytes; /* through ways out that it had before */
    bool inet_refused;           /* every VM tries once at boot: not worth a word */
    struct violation_budget violations;
    struct violation_budget refusals; /* of the network: neither drives the other out */
    struct burial burial;
};

struct caller {
    uid_t uid;
    gid_t gid;
    gid_t groups[CALLER_GROUPS_MAX];
    size_t group_count;
};

enum project_state { PROJECT_FREE, PROJECT_OPENING, PROJECT_OPEN };

struct launcher_project {
    enum project_state state;
    char token[PROJECT_TOKEN_BYTES];
    char path[PATH_MAX];
    struct request request;
    struct caller caller;
    uint64_t deadline_ms; /* of the helper: to open it, then to send its files; UINT64_MAX: there is none */
    int helper_pidfd;     /* the process that opens it, or sends its files; -1: there is none */
    int helper_fd;        /* while opening: where the helper's answer comes from */
    int file_fd;          /* and where the content comes from, should it be a single file */
    int source_fd;        /* opened with the caller's rights */
    bool wants_signature; /* and nothing else: it is not kept open */
    bool bindable;        /* else its files went out as a stream */
};

/* What the process that opens a project says, with the descriptor when it is a success. */
struct opened {
    struct error error;
    bool is_file;
    bool must_be_streamed; /* a folder that is not to be bound, whether it can be or not */
    uint64_t signature;    /* when that is all that is wanted: then no descriptor comes with it */
};

/* The process that waits for the next project to open. */
struct opener {
    int socket_fd; /* -1: none waits */
    int pidfd;
    int file_fd; /* where the content comes from, should it be a single file */
    uint64_t refill_due_ms;
};

struct supervisor {
    pid_t pid;
    int pidfd; /* -1: no daemon */
    bool is_child;
    bool wanted; /* false: --no-daemon, or the service is ending */
    uint64_t started_ms;
    uint64_t start_due_ms; /* 0: not waiting to start it */
    uint64_t stop_due_ms;  /* 0: not waiting for its end */
    unsigned failures;
};

struct filter_cache {
    struct sock_fprog *filters[FILTER_SETS][2]; /* by set, by whether execs are counted; NULL until needed */
};

struct userns_map {
    uid_t inside_uid, outside_uid;
    gid_t inside_gid, outside_gid;
};

enum { USERNS_KEPT = 16 }; /* callers whose projects are opened often */

struct userns_cache {
    struct userns_entry {
        bool is_used;
        struct userns_map map;
        int fd;
    } entries[USERNS_KEPT];
    size_t next; /* to be replaced */
};

enum { EGRESS_OWN_MAX = 512 };

/* The way out of nodes, once one has been made. */
struct egress {
    int keeper_fd;   /* the pidfd of the process it lives by; -1: there is none */
    int greeting_fd; /* where its first word comes from, while it is being made; else -1 */
    uint64_t greeting_due_ms;
    int home_fd;                      /* our own network namespace */
    int namespace_fd;                 /* the one that nodes go through */
    struct netlink route, rules, log; /* in there */
    struct netlink addresses;         /* at home: which are the host's own */
    struct jail_host own[EGRESS_OWN_MAX];
    size_t own_count;
    uint64_t remake_due_ms;   /* UINT64_MAX: nobody misses it */
    uint64_t remake_delay_ms; /* until the next attempt, when one failed */
};

enum { HELPERS_DYING_OF_ONE = 32, HELPERS_DYING_MAX = 256 };

struct dying_helper {
    uid_t uid;
    int pidfd;
};

struct launcher {
    struct log log;
    bool root;
    bool ending;        /* leave the loop at the next turn */
    bool follows_log;   /* standard error is the home's daemon.log, which the daemon rotates */
    bool shutting_down; /* every node dies, and we after the daemon */
    int exit_status;
    char home[PATH_MAX];
    int home_fd;
    int lock_fd;
    int slot_fd;
    unsigned slot;
    int records_fd;
    char *const *daemon_options; /* NULL-terminated */
    char agent[PATH_MAX];        /* the folder that holds the agent's ebin; "" when there is none */
    char *command_line;          /* where the kernel reads it from */
    size_t command_line_size;
    uid_t daemon_uid;
    gid_t daemon_gid;
    struct jail_features features;
    struct cgroup_host cgroups;
    struct cgroup_host daemon_cgroups; /* version 0: the daemon has none */
    struct filter_cache filters;
    struct userns_cache user_namespaces;
    struct egress egress;

    uint64_t due_ms; /* when something next waits for time; UINT64_MAX for never */
    int epoll_fd;
    int signal_fd;
    int server_fd;
    int link_fd;
    uint64_t link_serial;
    size_t announce_at; /* the next node to tell a new daemon of */
    struct request shutdown_request;

    struct supervisor daemon;
    struct launcher_node *nodes; /* JAIL_NODES_MAX of them */
    size_t node_count;
    size_t nodes_end; /* no entry from here on was ever used */
    uid_t next_uid;
    struct dying_helper dying[HELPERS_DYING_MAX];
    size_t dying_count;
    struct launcher_project *projects; /* JAIL_PROJECTS_MAX of them */
    uint64_t project_serial;
    struct opener opener;
    char message[JAIL_MESSAGE_BYTES + 1];
};

/* ---- installation.c: what lies beside the launcher ---- */

int installation_open_daemon(int *ret_fd, struct error *reterr); /* to execute */
void installation_find_agent(struct launcher *launcher);
bool installation_is_agent(const struct launcher *launcher, const char *path); /* exactly its ebin */
/* When it was last written: another agent wants another boot file, and the daemon may not be able to look. */
uint32_t installation_agent_stamp(const struct launcher *launcher);

/* ---- launcher.c: the loop ---- */

enum source {
    SOURCE_SIGNAL,
    SOURCE_SERVER,    /* somebody dials */
    SOURCE_LINK,      /* the daemon says something */
    SOURCE_DAEMON,    /* the daemon's pidfd */
    SOURCE_NOTIFY,    /* a node's listener; the index is the node's */
    SOURCE_DEATH,     /* a node's pidfd, while it is buried */
    SOURCE_PROJECT,   /* a helper's answer; the index is the project's */
    SOURCE_REFUSALS,  /* packets that the way out refused */
    SOURCE_ADDRESSES, /* the host's own have changed */
    SOURCE_GREETING,  /* the way out is made, or not */
    SOURCE_KEEPER,    /* the pidfd of whom the way out lives by */
    SOURCE_COUNT,
};

int launcher_watch(struct launcher *launcher, int fd, enum source source, size_t index, struct error *reterr);
/* Descriptors that others hold too must be unwatched before they are closed: epoll would go on telling. */
void launcher_unwatch(struct launcher *launcher, int fd);
/* Also say when the link can be written to. */
void launcher_want_output(struct launcher *launcher, bool wanted);
/* Have the deadlines looked at by then. */
void launcher_due_at(struct launcher *launcher, uint64_t due_ms);
void launcher_end(struct launcher *launcher, int exit_status);

/* ---- launcher_log.c ---- */

void launcher_log_open(struct launcher *launcher);
/* Before a line is written, and before a process inherits the file: it may have another name by now, or none. */
void launcher_log_follow(const struct launcher *launcher);
/* log_line, to the file that is the log now. */
#define launcher_log(launcher, ...) (launcher_log_follow(launcher), log_line(&(launcher)->log, __VA_ARGS__))

/* ---- home.c, slot.c: what is ours on this machine ---- */

/* Make and open the home, take its lock; as root take a slot too and give the home to the daemon's uid. */
int home_open(struct launcher *launcher, const char *path, struct error *reterr);
/* Remove what a service that ends for good leaves: sockets, records, the slot. */
void home_close(struct launcher *launcher);
/* E_CONFLICT when another launcher serves this home. Fills slot, slot_fd, records_fd. */
int slot_take(struct launcher *launcher, struct error *reterr);
void slot_give_back(struct launcher *launcher);
/* Act with the daemon's uid and gid on files, until fs_rights_restore; capabilities over files are off meanwhile. */
void fs_rights_of_daemon(const struct launcher *launcher);
void fs_rights_restore(const struct launcher *launcher);

/* ---- launcher_server.c: the socket; requests.c: the verbs ---- */

int server_open(struct launcher *launcher, struct error *reterr);
void server_accept(struct launcher *launcher);
void server_receive(struct launcher *launcher, uint32_t events);
void server_drop_link(struct launcher *launcher);
void server_announce_all(struct launcher *launcher); /* every node there is, then "ready" */
/* "verb id" or "verb NAME" begin the text; descriptors stay the caller's. False when it could not be sent. */
bool server_send(struct launcher *launcher, struct buf *text, const int *fds, size_t fd_count);
/* Answers; text is what follows "ok ID". An answer that can't be sent ends the link: the daemon dials again and asks.
 */
void server_ok(struct launcher *launcher, struct request request, const char *text, const int *fds, size_t fd_count);
void server_fail(struct launcher *launcher, struct request request, const struct error *error);

/* Carry out one message; fd (or -1) came with it and is closed by the caller. */
void requests_handle(struct launcher *launcher, char *text, int fd);
/* " pid= start= …" of a node, for answers and announcements. */
void requests_describe_node(const struct launcher *launcher, const struct launcher_node *node, struct buf *text);

/* ---- launcher_nodes.c, record.c: the table, and what outlives us ---- */

struct launcher_node *nodes_find(struct launcher *launcher, const char *name);
/* A new entry with a uid of its own; E_EXISTS, E_LIMIT. */
int nodes_add(struct launcher *launcher, const char *name, struct launcher_node **ret, struct error *reterr);
/* E_LIMIT when the launcher's own descriptors would not do for one more. */
int nodes_check_room(const struct launcher *launcher, struct error *reterr);
size_t nodes_index(const struct launcher *launcher, const struct launcher_node *node);
/* Forget it: descriptors, record and uid. Its cgroups and its processes are gone before. */
void nodes_remove(struct launcher *launcher, struct launcher_node *node);
bool node_is_dead(const struct launcher_node *node);

int record_write(const struct launcher *launcher, const struct launcher_node *node, struct error *reterr);
void record_remove(const struct launcher *launcher, const char *name);
/* Fills name, pid, start_time, uid, disk and the exec count; the rest of ret is zero. */
int record_read(const struct launcher *launcher, const char *name, struct launcher_node *ret, struct error *reterr);
/* The start time of a process in clock ticks since boot; 0 when there is no such process. */
uint64_t process_start_time(pid_t pid);
/* The uid a process runs with; (uid_t)-1 when there is no such process. */
uid_t process_uid(pid_t pid);

/* ---- adopt.c ---- */

/* Take over every node of an earlier launcher that is what its record says; kill and remove all else. */
int adopt_all(struct launcher *launcher, struct error *reterr);

/* ---- notify.c, violation.c ---- */

/* Answer at most one pending system call, so that no node makes another wait. */
void notify_serve(struct launcher *launcher, struct launcher_node *node);
void notify_adopt_listener(struct launcher_node *node);                        /* set-up of a listener just received */
enum { VIOLATION_SEVERAL = -1, VIOLATION_NETWORK = -2, VIOLATION_BOUND = -3 }; /* in place of a system call's number */
void violation_tell(struct launcher *launcher, struct launcher_node *node, int syscall_number, const char *detail);
void violation_tell_bound(struct launcher *launcher, const struct launcher_node *node, const char *limit);
/* Tell of what was held back; returns when to come again, UINT64_MAX for never. */
uint64_t violation_flush(struct launcher *launcher, uint64_t now_ms);

/* ---- egress.c, egress_record.c: the way out ---- */

void egress_init(struct egress *egress);
/* Let go of it: it lives on. */
void egress_close(struct launcher *launcher);
/* End it, with all that goes through it. */
void egress_end(struct launcher *launcher);
/* Take over what an earlier launcher made, after its nodes. */
void egress_adopt(struct launcher *launcher);
/* As the plan's lines say. */
int egress_attach(struct launcher *launcher, struct launcher_node *node, const struct jail_plan *plan,
                  struct error *reterr);
void egress_release(struct launcher *launcher, struct launcher_node *node); /* also where it has none */
struct egress_place egress_place_of(const struct launcher *launcher, const struct launcher_node *node);
void egress_tell_refusals(struct launcher *launcher);
void egress_addresses_changed(struct launcher *launcher);
void egress_greeting_came(struct launcher *launcher);
void egress_keeper_ended(struct launcher *launcher);
uint64_t egress_check(struct launcher *launcher, uint64_t now_ms); /* what was lost; returns when to come again */

/* ---- egress_change.c: what is changed of it while a node runs ---- */

/* The node has one already: E_CONFLICT unless it is what the plan's lines say. What its names stand for may have
   changed since, and is put in force. */
int egress_confirm(struct launcher *launcher, struct launcher_node *node, const struct jail_plan *plan,
                   struct error *reterr);
/* What its names stand for, from the plan's lines. */
int egress_set_resolved(struct launcher *launcher, struct launcher_node *node, const struct jail_plan *plan,
                        struct error *reterr);
/* Nothing where it has no way out, or where they are as before. */
int egress_set_bounds(struct launcher *launcher, struct launcher_node *node, const struct jail_limits *limits,
                      struct error *reterr);

int egress_record_write(const struct launcher *launcher, pid_t keeper, struct error *reterr);
pid_t egress_record_read(const struct launcher *launcher); /* 0: none, or it has ended */
void egress_record_remove(const struct launcher *launcher);
int egress_policy_write(const struct launcher *launcher, const struct launcher_node *node, struct error *reterr);
void egress_policy_read(const struct launcher *launcher, struct launcher_node *node); /* into node->egress */
void egress_policy_remove(const struct launcher *launcher, const char *node);

/* ---- bury.c ---- */

void bury_start(struct launcher *launcher, struct launcher_node *node, struct request request);
void bury_finish(struct launcher *launcher, struct launcher_node *node); /* its pidfd says that it is dead */
uint64_t bury_check(struct launcher *launcher, uint64_t now_ms);         /* deadlines; returns the next */
void bury_everything(struct launcher *launcher);
/* After any node has gone: the shutdown that waited for it may be answered. */
void shutdown_advance(struct launcher *launcher);

/* ---- project.c, opener.c, project_stream.c, project_sign.c, project_mounts.c, grant.c, caller.c ---- */

void project_open(struct launcher *launcher, struct request request, int peer_fd, const char *path);
/* By a standing permission; or just find out whether it is as it was. */
void project_open_granted(struct launcher *launcher, struct request request, const char *name, bool wants_signature);
/* The caller at the other end, if he may bring projects. */
int project_caller(const struct launcher *launcher, int peer_fd, struct caller *ret, struct error *reterr);
uint64_t project_sign(int source_fd, bool is_file);
/* By the process that opens it: this may wait for a file system. */
bool project_must_be_streamed(int source_fd);
bool project_mount_forbids_binding(char *line, const char *folder); /* one line of mountinfo, which is changed */
int grant_write(const struct launcher *launcher, const char *name, const struct caller *caller, const char *path,
                struct error *reterr);
int grant_read(const struct launcher *launcher, const char *name, struct caller *ret_caller, char ret_path[PATH_MAX],
               struct error *reterr); /* E_FORBIDDEN: there is none */
void grant_remove(const struct launcher *launcher, const char *name);
void project_advance(struct launcher *launcher, struct launcher_project *project);
uint64_t project_check(struct launcher *launcher, uint64_t now_ms); /* deadlines; returns the next */
struct launcher_project *project_find(struct launcher *launcher, const char *token);
void project_release(struct launcher *launcher, struct launcher_project *project);
void project_release_all(struct launcher *launcher);
/* What is the project's owner's belongs to uid and gid. */
struct userns_map project_map(const struct launcher_project *project, uid_t uid, gid_t gid);
/* A detached read-only mount of the project, with its owners as the user namespace maps them. */
int project_mount(const struct launcher_project *project, int userns_fd, int *ret_fd, struct error *reterr);
/* Who is at the other end of an accepted connection. */
int caller_of(int peer_fd, struct caller *ret, struct error *reterr);
/* Become the caller, for good, in a process of one's own. */
int caller_become(const struct caller *caller, bool root, struct error *reterr);
/* Run body in a process that is reaped by the system, with nothing open but the standard descriptors and fds, which
   are HELPER_FD and the next there. *ret_pidfd is the process. */
int helper_start(void (*body)(const void *data), const void *data, const int *fds, size_t fd_count, int *ret_pidfd,
                 struct error *reterr);
/* The error that such a process reports, if it is one: it came through a pipe, and is not believed. 0: it is none. */
int helper_error(const struct error *report, struct error *reterr);
/* Kill it, whatever it does or whether it was stopped, and close the descriptor. Returns -1, for the variable. */
int helper_end(int pidfd);
/* Have a project opened by a process that becomes its caller: its answer comes to helper_fd. */
int opener_begin(struct launcher *launcher, struct launcher_project *project, struct error *reterr);
void opener_used(struct launcher *launcher); /* a project is not used any more */
uint64_t opener_check(struct launcher *launcher,
                      uint64_t now_ms); /* whether another is to wait; returns when to look */
void opener_end(struct launcher *launcher);
/* In such a process; name is the file's, NULL for a tree. */
void opener_write_stream(const struct launcher *launcher, const char *path, int source_fd, const char *name);
/* Write the tree or file at source_fd to out_fd as docs/architecture.md says; name is the file's, NULL for a tree. */
int project_stream_write(int source_fd, const char *name, int out_fd, struct error *reterr);

/* ---- helper_dying.c ---- */

/* helper_end for a process that may be closing a file of its user: until it has ended, it is counted. */
int helper_end_of(struct launcher *launcher, uid_t uid, int pidfd);
/* E_LIMIT while too many of one user's have not ended. */
int helper_check_dying(struct launcher *launcher, uid_t uid, struct error *reterr);
void helper_forget_dying(struct launcher *launcher);

/* ---- daemon_bounds.c: what the daemon may use ---- */

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

/* ---- privileges.c: for processes that leave the launcher's behind ---- */

int privileges_drop_bounding(struct error *reterr);
int privileges_drop_all(struct error *reterr); /* capabilities, and no_new_privs */
int privileges_become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count, struct error *reterr);
void signals_reset(void); /* defaults, none blocked */
/* The service does not wait for its turn behind those that it holds. Root's alone to have. */
void priority_raise(void);
void priority_reset(void); /* whatever runs for others runs like others */

/* ---- node_inside.c, node_mount.c: a running node ---- */

/* What a helper does: on its way in, where the host's files can still be seen, and inside the node's mounts. */
struct inside_job {
    int (*on_the_way)(void *data, struct error *reterr); /* may be NULL */
    int (*inside)(void *data, struct error *reterr);
    void *data;
};

int node_do_inside(const struct launcher *launcher, const struct launcher_node *node, const struct inside_job *job,
                   struct error *reterr);
/* A process of the node through which the launcher can see its mounts; 0 when it is ending. */
pid_t node_door(const struct launcher *launcher, const struct launcher_node *node);
pid_t node_program(const struct launcher_node *node); /* the init's first child; 0 when there is none */
/* Where its writable files are; the descriptors can be asked for space and open nothing. */
int node_open_disks(const struct launcher *launcher, const struct launcher_node *node, int ret_fds[JAIL_DISKS],
                    struct error *reterr);

/* Share disk_bytes out among the node's writable mounts as they were shared before; E_CONFLICT when more is used. */
int node_resize(const struct launcher *launcher, const struct launcher_node *node, uint64_t disk_bytes,
                struct error *reterr);

struct node_bind {
    const char *source, *target; /* source: a path, or an opened project's token */
    bool executable;
};

int node_mount(const struct launcher *launcher, const struct launcher_node *node, const struct node_bind *binds,
               size_t count, struct error *reterr);

/* ---- node_rlimit.c ---- */

/* E_CONFLICT for more than it was started with. */
int node_check_rlimits(const struct launcher_node *node, const struct jail_limits *limits, struct error *reterr);
void node_set_rlimits(const struct launcher *launcher, const struct launcher_node *node,
                      const struct jail_limits *limits);

/* ---- standstill.c ---- */

/* Have the node stand still, or go on; the request is answered when it does, or when it does not in time. */
void standstill_begin(struct launcher *launcher, struct launcher_node *node, bool frozen, struct request request);
/* Whoever waits for it is told that it is not to be. */
void standstill_call_off(struct launcher *launcher, struct launcher_node *node);
uint64_t standstill_check(struct launcher *launcher, uint64_t now_ms); /* goes on with it; returns when to come again */
/* To stand still takes a turn of each thread: one that yields does not while it comes to that. */
void standstill_hold_up_yielding(const struct launcher *launcher, const struct launcher_node *node, bool held_up);
bool node_stands_still(const struct launcher *launcher, const struct launcher_node *node);

/* ---- node_stop.c: without a freezer ---- */

struct node_look; /* at whether all of its processes have stopped */

struct node_look *node_look_new(void); /* NULL: no memory */
void node_look_free(struct node_look *look);
/* Have its init stop everybody, or let everybody go on. */
void node_signal(const struct launcher_node *node, bool frozen);
/* Go on looking, until then at the latest; false: not done yet. */
bool node_look_on(struct node_look *look, const struct launcher_node *node, uint64_t until_us, bool *ret_all_stopped);
bool process_is_stopped(pid_t pid); /* its first thread is */

/* ---- userns.c ---- */

/* Write "inside outside 1" maps for a process in a new user namespace. */
int userns_write_maps(pid_t pid, const struct userns_map *map, bool root, struct error *reterr);
/* A user namespace with just these two mappings, for an idmapped mount. */
int userns_make(const struct userns_map *map, int *ret_fd, struct error *reterr);
/* The same from those that were made lately; the descriptor stays the cache's. Negative: there is none to be had. */
int userns_get(struct userns_cache *cache, const struct userns_map *map, struct error *reterr);
void userns_cache_free(struct userns_cache *cache);

#endif
