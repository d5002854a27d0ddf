/* The launcher: one process, one thread, one struct. Everything that it knows is here, in fixed tables. */
#ifndef LAUNCHER_LAUNCHER_H
#define LAUNCHER_LAUNCHER_H

#include "base/base.h"
#include "jail/jail.h"
#include "launcher/cgroup/cgroup.h"
#include "launcher/daemon/daemon.h"
#include "launcher/egress/egress.h"
#include "launcher/home.h"
#include "launcher/nodes/files.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/server.h"
#include "launcher/start/spawn.h"
#include "launcher/start/userns.h"
#include "launcher/volumes/volumes.h"

enum { EXIT_USAGE = 2, EXIT_CONFLICT = 4 };

struct loop {
    int epoll_fd;
    int signal_fd;
    uint64_t due_ms; /* when something next waits for time; UINT64_MAX for never */
    bool ending;     /* leave the loop at the next turn */
    int exit_status;
};

struct launcher {
    bool root;
    struct log log;
    bool follows_log; /* standard error is the home's daemon.log, which the daemon rotates */
    struct loop loop;
    struct server server;
    struct home home;
    struct slot slot;
    struct jail_features features;
    char agent[PATH_MAX]; /* the folder that holds the agent's ebin; "" when there is none */
    char *command_line;   /* where the kernel reads it from */
    size_t command_line_size;

    uid_t daemon_uid;
    gid_t daemon_gid;
    struct supervisor daemon;

    struct jailed_table nodes;
    struct cgroup_host cgroups;
    struct filter_cache filters;
    struct userns_cache user_namespaces;
    struct egress egress;
    bool shutting_down; /* every node dies, and the launcher after the daemon */
    struct request shutdown_request;

    struct launcher_project *projects; /* JAIL_PROJECTS_MAX of them */
    struct principals principals;      /* whose share of them a caller's are */
    uint64_t project_serial;
    struct opener opener;
    struct helpers helpers;
    struct volumes volumes;
    struct files files;

    struct launcher_ports ports;
    struct jail_port_ranges publish_ranges, connect_ranges; /* what the operator allows */
};

/* ---- launcher.c: its life ---- */

/* With nothing open yet. */
struct launcher *launcher_new(void); /* NULL: no memory */
int launcher_open(struct launcher *launcher, const char *home, struct error *reterr);
/* Nodes live on, unless the service was shut down. Frees it, whether it was opened or not. */
void launcher_close(struct launcher *launcher);

/* ---- loop.c ---- */

enum source {
    SOURCE_SIGNAL,
    SOURCE_SERVER,    /* a process dials */
    SOURCE_LINK,      /* the daemon says something */
    SOURCE_DAEMON,    /* the daemon's pidfd */
    SOURCE_NOTIFY,    /* a node's listener; the index is the node's */
    SOURCE_PATH,      /* what a refused call was made with; the index is the node's */
    SOURCE_DEATH,     /* a node's pidfd, while it is buried */
    SOURCE_VOLUME,    /* what a process that works on a volume says; the index is its work's */
    SOURCE_FILE,      /* what a helper inside a node says; the index is its doing's */
    SOURCE_PROJECT,   /* a helper's answer; the index is the project's */
    SOURCE_REFUSALS,  /* packets that egress refused */
    SOURCE_ADDRESSES, /* the host's own have changed */
    SOURCE_GREETING,  /* egress is made, or not */
    SOURCE_KEEPER,    /* the pidfd of the process that egress lives by */
    SOURCE_PORT,      /* what a port's helper or forwarder says; the index is the port's */
    SOURCE_FORWARDER, /* a forwarder's pidfd; the index is its port's */
    SOURCE_COUNT,
};

int launcher_watch(struct launcher *launcher, int fd, enum source source, size_t index, struct error *reterr);
/* Descriptors that others hold too must be unwatched before they are closed: epoll would go on reporting them. */
void launcher_unwatch(struct launcher *launcher, int fd);
/* Also say when the link can be written to. */
void launcher_want_output(struct launcher *launcher, bool wanted);
/* Have the deadlines looked at by then. */
void launcher_due_at(struct launcher *launcher, uint64_t due_ms);
void launcher_end(struct launcher *launcher, int exit_status);
/* Wait for an event, unless told not to, and serve all that have come. */
void launcher_turn(struct launcher *launcher, bool waits);

/* ---- log.c ---- */

void launcher_log_open(struct launcher *launcher);
/* Before a line is written, and before a process inherits the file: it may have another name by now, or none. */
void launcher_log_follow(const struct launcher *launcher);
/* log_line, to the file that is the log now. */
#define launcher_log(launcher, ...) (launcher_log_follow(launcher), log_line(&(launcher)->log, __VA_ARGS__))

/* ---- installation.c: what lies beside the launcher ---- */

int installation_open_daemon(int *ret_fd, struct error *reterr); /* to execute */
void installation_find_agent(struct launcher *launcher);
bool installation_is_agent(const struct launcher *launcher, const char *path); /* exactly its ebin */
/* When it was last written: another agent wants another boot file, and the daemon may not be able to look. */
uint32_t installation_agent_stamp(const struct launcher *launcher);

#endif
