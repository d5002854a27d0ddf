/* link: the daemon's side of the launcher's socket. Requests, their answers, and what the launcher says unasked;
   docs/protocols/launcher.md has the messages. */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <uv.h>

#include "jail/ports.h"

struct link_node {
    const char *name;
    pid_t pid;                 /* the node's init, as the host sees it */
    uint64_t start_time;       /* of that pid, in clock ticks, so that pid reuse is noticed */
    uid_t uid;                 /* the node's, on the host */
    int pidfd;                 /* the receiver's from now on */
    int output_fd;             /* the receiver's: what it writes to stdout and stderr; -1 for one that was adopted */
    const char *memory_cgroup; /* directories to read usage from; "" where there is none */
    const char *cpu_cgroup;
    const char *tasks_cgroup;
    bool frozen;
};

struct link_violation {
    const char *node;
    const char *syscall;
    const char *detail; /* e.g. "family=inet", "path=/bin/sh", or "" */
    uint64_t count;     /* how many this stands for: a flood is throttled */
};

struct link_project {
    const char *token; /* names it in plans until released */
    int fd;            /* the receiver's: a directory to openat from, or (is_stream) a file with all of its files */
    bool is_stream;
    bool is_file; /* the path named a single file: fd holds a directory with just that file, which name tells */
    const char *name;
};

/* What a node that waited is given. */
struct link_equipment {
    const struct jail_limits *limits;
    const struct jail_bind *binds; /* of paths that the daemon can read */
    size_t bind_count;
    const struct jail_egress *egress; /* NULL: no egress */
};

/* A published port or a connection to a service, as the launcher has it. */
struct link_port {
    const char *set; /* the sandbox's id; "" in answers */
    struct jail_port port;
    int page_fd; /* the receiver's, to be read only: struct jail_port_page; -1: it is not served */
};

struct link_handler {
    void (*up)(void *data, const struct jail_features *features); /* connected; known nodes have been told before */
    void (*down)(void *data);
    void (*node)(void *data, const struct link_node *node); /* one that runs already */
    void (*port)(void *data, const struct link_port *port); /* one that there is already; may be NULL */
    void (*violation)(void *data, const struct link_violation *violation);
};

struct launcher_link;
struct principals;

typedef void (*link_done_fn)(void *data, const struct error *error); /* error NULL: done */
typedef void (*link_spawned_fn)(void *data, const struct link_node *node, const struct error *error);
typedef void (*link_buried_fn)(void *data, const struct jail_death *death, const struct error *error);
typedef void (*link_project_fn)(void *data, const struct link_project *project, const struct error *error);
/* fds are the receiver's; error set: there are none. */
typedef void (*link_disks_fn)(void *data, const int fds[JAIL_DISKS], const struct error *error);
typedef void (*link_port_fn)(void *data, const struct link_port *port, const struct error *error);
struct link_volume {
    char name[JAIL_NAME_BYTES];
    uid_t owner;
    uint64_t size_bytes;
};
/* error set: there are none. */
typedef void (*link_volumes_fn)(void *data, const struct link_volume *volumes, size_t count, const struct error *error);
typedef void (*link_signature_fn)(void *data, uint64_t signature, const struct error *error);

/* Dial $home/launcher.sock, and again whenever it goes away. Every request gets exactly one answer, E_LAUNCHER when the
   link is down or goes down, or when the launcher takes longer than half a minute, which ends the link too; none is
   called from inside the request itself. */
int link_open(uv_loop_t *loop, const char *home, const struct link_handler *handler, void *data,
              struct launcher_link **ret, struct error *reterr);
/* Requests under way are answered E_LAUNCHER, and so are those made from now on until closed is called, which frees
   the link: after that there is nothing to ask. An answer must not ask again then. */
void link_close(struct launcher_link *link, void (*closed)(void *data), void *data);

/* Users take turns at the launcher: who is one user, and whose a node is. */
void link_use_principals(struct launcher_link *link, const struct principals *principals);
void link_set_owner(struct launcher_link *link, const char *node, uid_t owner);

void link_spawn(struct launcher_link *link, const struct jail_plan *plan, link_spawned_fn done, void *data);
/* Kill it if it lives, wait, remove its cgroups, and say what it died of. Also for a node that ended by itself. */
void link_bury(struct launcher_link *link, const char *node, link_buried_fn done, void *data);
void link_freeze(struct launcher_link *link, const char *node, bool frozen, link_done_fn done, void *data);
/* Whether every other node gets the processor before it; setting its limits ends that. */
void link_yield(struct launcher_link *link, const char *node, bool yields, link_done_fn done, void *data);
void link_limit(struct launcher_link *link, const char *node, const struct jail_limits *limits, link_done_fn done,
                void *data);
/* What the names that its profile lists stand for now, in place of what they stood for. */
void link_resolved(struct launcher_link *link, const char *node, const struct jail_host *hosts, size_t count,
                   link_done_fn done, void *data);
/* Places of the node's writable files, for fstatfs alone. */
void link_disks(struct launcher_link *link, const char *node, link_disks_fn done, void *data);
/* Open path with the rights of the process at the other end of peer_fd (a connected unix socket), and no more. */
void link_open_project(struct launcher_link *link, int peer_fd, const char *path, link_project_fn done, void *data);
/* Let path be opened again under this name, with the rights of the process at the other end of peer_fd, after that has
   gone: until it is withdrawn, or the machine starts anew. */
void link_grant(struct launcher_link *link, int peer_fd, const char *name, const char *path, link_done_fn done,
                void *data);
void link_withdraw(struct launcher_link *link, const char *name);
/* The same for folders of a toolchain, which lie below a folder of the caller's; no link is followed out of it. Their
   names are apart from those of projects. They are never streams. E_TOOLCHAIN: other users can write there. */
void link_open_toolchain(struct launcher_link *link, int peer_fd, const char *path, const char *below,
                         link_project_fn done, void *data);
void link_grant_toolchain(struct launcher_link *link, int peer_fd, const char *name, const char *path,
                          const char *below, link_done_fn done, void *data);
void link_withdraw_toolchain(struct launcher_link *link, const char *name);
/* Withdraw all for toolchains but those whose names the lines are. */
void link_keep_toolchains(struct launcher_link *link, const struct buf *lines);
void link_open_granted_toolchain(struct launcher_link *link, const char *name, link_project_fn done, void *data);
void link_sign_toolchain(struct launcher_link *link, const char *name, link_signature_fn done, void *data);
void link_open_granted(struct launcher_link *link, const char *name, link_project_fn done, void *data);
/* The same for a folder that is mounted into a sandbox, to be read or written. Its path leads over no link. */
void link_grant_folder(struct launcher_link *link, int peer_fd, const char *name, const char *path, bool is_read_only,
                       link_done_fn done, void *data);
void link_withdraw_folder(struct launcher_link *link, const char *name);
void link_keep_folders(struct launcher_link *link, const struct buf *lines);
/* No descriptor comes with it: it is mounted, by link_mount_folder, and released. */
void link_open_granted_folder(struct launcher_link *link, const char *name, link_project_fn done, void *data);
void link_mount_folder(struct launcher_link *link, const char *node, const char *token, const char *place,
                       bool is_executable, link_done_fn done, void *data);
/* A number that changes when the names, sizes or times of its files do. */
void link_sign_granted(struct launcher_link *link, const char *name, link_signature_fn done, void *data);
void link_release_project(struct launcher_link *link, const char *token);
/* Bind a directory that the daemon can read, or an opened project by its token, at a place inside a running node,
   read-only, noexec. */
void link_mount(struct launcher_link *link, const char *node, const char *source, const char *target, link_done_fn done,
                void *data);
/* Give a running pool node to its sandbox. */
void link_equip(struct launcher_link *link, const char *node, const struct link_equipment *equipment, link_done_fn done,
                void *data);
/* Take the host's side of a port with the rights of the process at the other end of peer_fd: bind it, or find the
   service. It is the set's, a sandbox's, until it is unpublished; a number that was to be any free one is told. inside
   is a connection's place among those that have names, from 1; 0 without a name. E_CONFLICT: it is taken; E_EXISTS: the
   set has it already. */
void link_publish(struct launcher_link *link, int peer_fd, const char *set, const struct jail_port *port,
                  unsigned inside, link_port_fn done, void *data);
/* Have a forwarder serve it to this node, as long as that lives. E_NOT_FOUND: it is to be published again. */
void link_serve(struct launcher_link *link, const char *set, const struct jail_port *port, const char *node,
                const struct jail_port_bounds *bounds, link_port_fn done, void *data);
/* Port NULL: all of the set. Done when they are free. */
void link_unpublish(struct launcher_link *link, const char *set, const struct jail_port *port, link_done_fn done,
                    void *data);
/* A named volume, of the process at the other end of peer_fd. */
void link_make_volume(struct launcher_link *link, int peer_fd, const char *name, uint64_t size_bytes, link_done_fn done,
                      void *data);
void link_remove_volume(struct launcher_link *link, int peer_fd, const char *name, link_done_fn done, void *data);
/* Those that are sandboxes' own, with this first digit of their key; NUL: the named ones. */
void link_volumes(struct launcher_link *link, char digit, link_volumes_fn done, void *data);
void link_mount_volume(struct launcher_link *link, const char *node, const char *name, const char *place,
                       bool is_read_only, bool is_executable, link_done_fn done, void *data);
/* A piece of a file of a running node, or the list of a folder: see docs/protocols/launcher.md. The call takes no
   descriptor over; the answer's is closed when done returns. */
struct link_file {
    const char *kind; /* read, write, mkdir, list */
    const char *path;
    uint64_t offset, length;
    unsigned mode;
};
typedef void (*link_file_fn)(void *data, int fd, const struct error *error); /* fd -1: nothing came */
void link_file(struct launcher_link *link, const char *node, const struct link_file *file, int data_fd,
               link_file_fn done, void *data);
/* Kill every node and end the launcher after the daemon has gone. */
void link_shutdown(struct launcher_link *link, link_done_fn done, void *data);

#endif
