/* jail: what a node may do (policy), made concrete as a plan (pure). The daemon makes plans and the launcher carries
   them out, so both know these values, and they need no event loop. The module knows nothing of BEAM: a node here is a
   program with arguments, mounts and limits. */
#ifndef JAIL_JAIL_H
#define JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "jail/limits.h"

enum {
    JAIL_PROTOCOL_VERSION = 2,       /* of the launcher's socket */
    JAIL_NAME_BYTES = 65,            /* names of nodes and profiles, terminator included */
    JAIL_MESSAGE_BYTES = 128 * 1024, /* the longest message on the launcher's socket, plan included */
    JAIL_NODES_MAX = 4096,           /* of one launcher */
    JAIL_PROJECTS_MAX = 256,         /* open at once; one caller has its share of them, see base/schedule/share.h */
    JAIL_VOLUMES_MAX = 1024,         /* named volumes of one home */
    JAIL_VOLUMES_MAKING_MAX = 8,     /* that are made at once */
    JAIL_DISKS = 2,                  /* /data and /tmp */
};

#define JAIL_DATA "/data"               /* what a sandbox writes for itself */
#define JAIL_VOLUME_PRIVATE '_'         /* what the name of a sandbox's own begins with */
#define JAIL_VOLUME_LEAST (16ULL << 20) /* of a named volume */
#define JAIL_VOLUME_MOST (1ULL << 40)
#define JAIL_VOLUMES "/mnt" /* where folders and volumes are mounted, besides below /data */

/* Of the daemon itself: what `daemon-memory` may say. */
#define JAIL_DAEMON_MEMORY_LEAST (128ULL << 20)
#define JAIL_DAEMON_MEMORY_MOST (1ULL << 40)
#define JAIL_DAEMON_CGROUP "sandbox-daemon" /* the directory of daemons' cgroups, beside that of the nodes' */

/* ---- policy: profiles ---- */

enum jail_network {
    JAIL_NETWORK_NONE,     /* a namespace with loopback down */
    JAIL_NETWORK_LOOPBACK, /* its own loopback */
    JAIL_NETWORK_OUTGOING, /* and connections to the outside, as jail_egress says */
};

const char *jail_network_name(enum jail_network network);

/* ---- policy: egress ---- */

enum {
    JAIL_HOSTS_MAX = 32,
    JAIL_PORTS_MAX = 32,
    JAIL_HOST_TEXT_BYTES = 72,
    JAIL_NAMES_MAX = 16,
    JAIL_RESOLVED_MAX = 64, /* addresses that all names together stand for */
    JAIL_DOMAIN_BYTES = 254,
};

#define JAIL_RESOLVER "198.18.0.3" /* resolves names for a node with egress */

/* What may be reached besides the hosts that are listed. */
enum jail_reach {
    JAIL_REACH_LISTED,   /* nothing */
    JAIL_REACH_PUBLIC,   /* public addresses: none of the host's own, private, link-local, metadata or multicast */
    JAIL_REACH_ANYWHERE, /* whatever the host reaches, but its loopback */
};

const char *jail_reach_name(enum jail_reach reach);
int jail_reach_find(const char *name, enum jail_reach *ret); /* negative when unknown */

/* Addresses that begin alike, and ports of them. */
struct jail_host {
    bool is_v6;
    uint8_t bits;                   /* how many of the address count */
    uint16_t first_port, last_port; /* 0: any */
    uint8_t address[16];            /* the first four of a v4 one */
};

/* "93.184.216.34", "10.1.0.0/16:5432", "2001:db8::/32", "[2001:db8::1]:8000-8010". E_INVALID. */
int jail_host_parse(const char *text, struct jail_host *ret, struct error *reterr);
void jail_host_print(const struct jail_host *host, char ret[JAIL_HOST_TEXT_BYTES]);

/* A host by its name: the launcher is told addresses. */
struct jail_named {
    char name[JAIL_DOMAIN_BYTES];
    uint16_t first_port, last_port; /* 0: any */
};

/* "db.example.org", "www.example.org:443". E_INVALID. */
int jail_named_parse(const char *text, struct jail_named *ret, struct error *reterr);
void jail_named_print(const struct jail_named *named, struct buf *ret);

struct jail_egress {
    enum jail_reach reach;
    struct jail_host hosts[JAIL_HOSTS_MAX];
    size_t host_count;
    struct jail_named names[JAIL_NAMES_MAX];
    size_t name_count;
    struct jail_host resolved[JAIL_RESOLVED_MAX]; /* what names stand for now; let through where they are public */
    size_t resolved_count;
    uint16_t ports[JAIL_PORTS_MAX]; /* of what is not listed; none: any */
    size_t port_count;
    uint64_t network_rate_bytes, network_total_bytes, connections; /* its limits; 0: no bound */
};

/* What a profile lets through, bounded as the limits say; and the limits that bound it. */
struct jail_egress jail_egress_bounded(const struct jail_egress *egress, const struct jail_limits *limits);
struct jail_limits jail_egress_bounds(const struct jail_egress *egress);
/* With what its names stand for, JAIL_RESOLVED_MAX at most. */
void jail_egress_resolve(struct jail_egress *egress, const struct jail_host *hosts, size_t count);

struct jail_profile {
    char name[JAIL_NAME_BYTES];
    const char *summary;
    const char *isolation;     /* high, medium, low: for people, and how violations are answered */
    struct jail_limits limits; /* defaults, which a caller may change */
    const char *operations;    /* comma-separated names of what it allows */
    enum jail_network network;
    struct jail_egress egress; /* where network is outgoing */
    bool may_exec;             /* programs other than the VM and its helper */
    bool native_code;          /* mapping the application's own files executable */
    bool is_public;            /* shown to users; the compiler's is not */
};

#define JAIL_DEFAULT_PROFILE "medium" /* of sandboxes, and what other profiles inherit from */
#define JAIL_STRICTEST_PROFILE "high"

/* The built-in profiles: high, medium, low, and "compiler" (no network, 768 MiB, no cap on processes, exec of the VM's
   helper only). */
const struct jail_profile *jail_profiles(size_t *ret_count);
const struct jail_profile *jail_profile_find(const char *name); /* NULL when unknown */

/* ---- what this host can enforce ---- */

/* name, what is lost without it. A guarantee is one bit of jail_features.guarantees. */
#define JAIL_GUARANTEE_LIST(X)                                                                                         \
    X(NAMESPACES, "namespaces", "own view of processes, mounts, ipc and hostname")                                     \
    X(NETWORK, "network_namespace", "a network of its own")                                                            \
    X(UID, "uid_per_node", "a uid of its own for every node")                                                          \
    X(GROUPS, "supplementary_groups", "none of the starting user's supplementary groups")                              \
    X(SECCOMP, "seccomp", "system calls filtered")                                                                     \
    X(NOTIFY, "violation_events", "attempts at forbidden calls reported")                                              \
    X(TAKEOVER, "listener_takeover", "a restarted launcher keeps deciding the node's system calls")                    \
    X(LANDLOCK, "landlock", "files and programs restricted by Landlock")                                               \
    X(CGROUPS, "cgroups", "resource limits by cgroup at all")                                                          \
    X(MEMORY, "memory_limit", "memory bounded")                                                                        \
    X(SOCKETS, "socket_memory",                                                                                        \
      "buffers of internet sockets bounded; where they are not, profiles with a network have no memory_limit")         \
    X(CPU, "cpu_limit", "CPU time bounded")                                                                            \
    X(TASKS, "task_limit", "processes and threads bounded")                                                            \
    X(FREEZER, "freezer", "freezing a node whole, instead of stopping its processes by signals")                       \
    X(VOLUMES, "volumes", "named volumes, whose size the kernel holds; takes root, loop devices and mkfs.ext4")        \
    X(IDMAP, "idmapped_project", "a project bound without a copy")                                                     \
    X(EGRESS, "egress",                                                                                                \
      "connections to the outside, filtered and counted, for profiles that allow them; takes root, /dev/net/tun, "     \
      "nftables and slirp4netns")

enum jail_guarantee {
#define X(name, slug, meaning) JAIL_GUARANTEE_##name,
    JAIL_GUARANTEE_LIST(X)
#undef X
        JAIL_GUARANTEE_COUNT
};

const char *jail_guarantee_name(enum jail_guarantee guarantee);
const char *jail_guarantee_meaning(enum jail_guarantee guarantee);
int jail_guarantee_find(const char *name, enum jail_guarantee *ret); /* negative when unknown */

struct jail_features {
    uint32_t guarantees; /* bits of enum jail_guarantee that can be given here */
    int cgroup_version;  /* 0: none usable, 1, 2 */
    int landlock_abi;    /* 0: none */
    bool root;           /* the launcher has privileges */
};

/* Those of them that hold for a node of this profile. */
uint32_t jail_guarantees_of(const struct jail_features *features, const struct jail_profile *profile);

/* ---- plan: a profile made concrete for one node ---- */

/* What a line of a plan says, and what the launcher does about it. A plan is a list of these, one per line, in the
   order they are carried out within their stage; plan_verbs.c has the words, and how each operand is checked. */
enum jail_plan_verb {
    JAIL_PLAN_NODE, /* name; always first */
    JAIL_PLAN_HOSTNAME,
    JAIL_PLAN_NETWORK,   /* none | loopback */
    JAIL_PLAN_LIMIT,     /* name and value of a limit that the kernel holds; absent: no bound */
    JAIL_PLAN_WEIGHT,    /* of the CPU, in percent of what other nodes get; absent: the same */
    JAIL_PLAN_BIND,      /* source, target: read-only, nosuid, nodev, noexec; opened with the daemon's rights */
    JAIL_PLAN_BIND_EXEC, /* the same, executable */
    JAIL_PLAN_TOOLCHAIN, /* token of an opened toolchain, target: as that, opened with its owner's rights */
    JAIL_PLAN_DEVICE,    /* null | zero | urandom under /dev */
    JAIL_PLAN_TMPFS,     /* target, percent: writable by the node, with so much of what limits its files */
    JAIL_PLAN_VOLUME,    /* name of a volume, /data: it is the node's, in place of a tmpfs */
    JAIL_PLAN_DIRECTORY, /* an empty read-only directory, a place to mount at later */
    JAIL_PLAN_PROC,      /* mount /proc where the kernel allows it */
    JAIL_PLAN_READ,      /* Landlock: read below */
    JAIL_PLAN_WRITE,     /* Landlock: read and write below */
    JAIL_PLAN_EXECUTE,   /* Landlock: read and execute */
    JAIL_PLAN_SECCOMP,   /* strict | network | open: sets of the system-call table */
    JAIL_PLAN_EXECS,     /* how many execve go through; absent: any number */
    JAIL_PLAN_REACH,     /* egress: listed | public | anywhere; absent: none */
    JAIL_PLAN_HOST,      /* listed: an address or a prefix, and ports */
    JAIL_PLAN_RESOLVED,  /* an address that a listed name stands for: let through if it is public */
    JAIL_PLAN_PORT,      /* of hosts that are not listed; absent: any */
    JAIL_PLAN_CHDIR,
    JAIL_PLAN_ENV,      /* NAME=value */
    JAIL_PLAN_PROGRAM,  /* path inside the jail */
    JAIL_PLAN_ARGUMENT, /* argv in turn, argv[0] first */
    JAIL_PLAN_VERB_COUNT
};

struct jail_plan_op {
    enum jail_plan_verb verb;
    char *words[2]; /* NULL where the verb has none */
    uint64_t number;
};

struct jail_plan {
    struct jail_plan_op *ops;
    size_t count;
};

struct jail_bind {
    const char *source; /* host path; of a toolchain, what stands for an opened one */
    const char *target;
    bool executable;
    bool is_toolchain; /* a user's own */
};

/* What the caller wants run; strings are only read. Lists end with a NULL (argv, env) or have a count. */
struct jail_request {
    const char *node;
    const struct jail_profile *profile;
    struct jail_limits limits;
    bool has_loopback;                /* its own, where the profile has no network */
    const struct jail_host *resolved; /* what the names that the profile lists stand for */
    size_t resolved_count;
    const struct jail_bind *binds;
    size_t bind_count;
    const char *const *directories; /* empty places to mount at later; NULL-terminated, may be NULL */
    const char *const *executables; /* what Landlock lets it execute, besides a loader among the binds; paths inside */
    const char *const *argv;
    const char *const *env;
    const char *program;
    const char *data_volume; /* what /data is; NULL: a tmpfs */
    bool takes_data;         /* /data is a tmpfs, and a volume may be mounted over it later */
    bool takes_volumes;      /* it has a place for folders and volumes that are mounted later */
    unsigned execs;          /* how many execve the program needs; ignored when the profile may exec */
};

/* profile + limits + features → plan. Pure. *ret_lost gets a bit for each guarantee that this host can't give. */
int jail_plan_build(const struct jail_request *request, const struct jail_features *features, struct jail_plan *ret,
                    uint32_t *ret_lost, struct error *reterr);
void jail_plan_free(struct jail_plan *plan);
const char *jail_plan_word(const struct jail_plan *plan, enum jail_plan_verb verb,
                           size_t index); /* words[0] of the index-th of that verb; NULL */
bool jail_plan_number(const struct jail_plan *plan, enum jail_plan_verb verb, uint64_t *ret); /* of the first */

/* Text: a verb and its operands per line; words are percent-encoded (space, %, control characters, bytes over 0x7e). */
void jail_plan_print(const struct jail_plan *plan, struct buf *ret);
int jail_plan_parse(const char *text, size_t size, struct jail_plan *ret,
                    struct error *reterr); /* E_FORMAT names the line */

/* ---- what a node died of: the launcher finds it out, the daemon tells it ---- */

enum jail_cause { JAIL_CAUSE_EXITED, JAIL_CAUSE_SIGNALED, JAIL_CAUSE_OOM, JAIL_CAUSE_KILLED, JAIL_CAUSE_UNKNOWN };

struct jail_death {
    enum jail_cause cause; /* from the OOM counter and the launcher's record of kills, never from the status alone */
    int status;            /* exit code or signal; -1 when the launcher could not wait for it */
    uint64_t oom_kills;
};

#endif
