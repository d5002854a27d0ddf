/* limits: what a sandbox may use, what enforces that, and what happens when it gets there. */
#ifndef CORE_LIMITS_LIMIT_TABLE_H
#define CORE_LIMITS_LIMIT_TABLE_H

#include <jansson.h>

#include "core/alarms.h"
#include "jail/jail.h"

struct sandbox;

/* name, what is done when a limit is reached, besides an event */
#define LIMIT_POLICY_LIST(X)                                                                                           \
    X(WARN, "warn")                 /* nothing */                                                                      \
    X(THROTTLE, "throttle")         /* it gets hardly any CPU time for a while */                                      \
    X(KILL_PROCESS, "kill_process") /* the process that has most dies */                                               \
    X(RESTART, "restart")           /* a new VM */                                                                     \
    X(FREEZE, "freeze")             /* it stands still until a user thaws it */                                        \
    X(DESTROY, "destroy")

enum limit_policy {
#define X(name, text) LIMIT_##name,
    LIMIT_POLICY_LIST(X)
#undef X
        LIMIT_POLICY_COUNT
};

enum limit_holder {
    HELD_BY_KERNEL,
    HELD_BY_AGENT,
    HELD_BY_SERVICE,
};

enum limit_unit { UNIT_COUNT, UNIT_SIZE, UNIT_PERCENT, UNIT_DURATION };

/* name, field of jail_limits, unit, holder, policies that make sense, the one by default */
#define LIMIT_LIST(X)                                                                                                  \
    X(MEMORY, "memory", "memory_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                          \
    X(SOCKET_MEMORY, "socket_memory", "socket_memory_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)     \
    X(CPU, "cpu", "cpu_percent", UNIT_PERCENT, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                              \
    X(PROCESSES, "processes", "processes", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                   \
    X(DISK, "disk", "disk_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                                \
    X(FILE_SIZE, "file_size", "file_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                      \
    X(DESCRIPTORS, "descriptors", "descriptors", UNIT_COUNT, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                \
    X(OS_TASKS, "os_tasks", "os_tasks", UNIT_COUNT, HELD_BY_KERNEL, LIMIT_OUTSIDE, LIMIT_WARN)                         \
    X(NETWORK_RATE, "network_rate", "network_rate_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_ANY, LIMIT_WARN)            \
    X(NETWORK_TOTAL, "network_total", "network_total_bytes", UNIT_SIZE, HELD_BY_KERNEL, LIMIT_ANY, LIMIT_WARN)         \
    X(CONNECTIONS, "connections", "connections", UNIT_COUNT, HELD_BY_KERNEL, LIMIT_ANY, LIMIT_WARN)                    \
    X(ATOMS, "atoms", "atoms", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                               \
    X(ETS_TABLES, "ets_tables", "ets_tables", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                \
    X(ETS_MEMORY, "ets_memory", "ets_bytes", UNIT_SIZE, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                  \
    X(PORTS, "ports", "ports", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                               \
    X(SOCKETS, "sockets", "sockets", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                         \
    X(MESSAGE_QUEUE, "message_queue", "message_queue", UNIT_COUNT, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)       \
    X(HEAP, "heap", "heap_bytes", UNIT_SIZE, HELD_BY_AGENT, LIMIT_ANY, LIMIT_KILL_PROCESS)                             \
    X(MAX_RUN, "max_run", "max_run_ms", UNIT_DURATION, HELD_BY_SERVICE, LIMIT_ANY, LIMIT_KILL_PROCESS)                 \
    X(TTL, "ttl", "ttl_ms", UNIT_DURATION, HELD_BY_SERVICE, 1u << LIMIT_DESTROY, LIMIT_DESTROY)

enum limit {
#define X(name, text, field, unit, holder, policies, policy) LIMIT_OF_##name,
    LIMIT_LIST(X)
#undef X
        LIMIT_COUNT
};

struct limit_policies {
    uint8_t of[LIMIT_COUNT]; /* enum limit_policy */
};

struct change_job;

/* What holds one sandbox to its limits now. */
struct limit_state {
    struct change_job *change;   /* of the limits, under way */
    uint64_t throttled_until_ms; /* 0: it is not throttled */
    struct error error;          /* why its VM is being ended; E_NONE: not for a limit */
    struct alarms alarms;        /* apart from violations, which would drive these out */
};

struct sandbox_config;

const char *limit_name(enum limit limit);
enum limit_holder limit_holder(enum limit limit);
bool limit_find(const char *name, enum limit *ret); /* by its name or its field's */
const char *limit_policy_name(enum limit_policy policy);

void limit_policies_default(struct limit_policies *ret);
json_t *limit_policies_to_json(const struct limit_policies *policies); /* those that are not the default */
void limit_policies_from_json(json_t *json, struct limit_policies *ret);

/* The caller's pairs, each "VALUE", ":POLICY" or "VALUE:POLICY", on top of what limits and policies hold. */
int limits_read(json_t *pairs, struct jail_limits *limits, struct limit_policies *policies, struct error *reterr);
/* All of them as a list. */
json_t *limits_to_json(const struct jail_limits *limits, const struct limit_policies *policies);

/* What a limit comes to: ETS may have half of the memory and a heap a quarter, unless something else was said. 0: no
   bound. */
uint64_t limit_value(const struct jail_limits *limits, enum limit limit);
bool limits_differ(const struct jail_limits *a, const struct jail_limits *b, enum limit_holder holder);
/* What the agent holds it to, as a term. */
void limits_put(struct buf *args, const struct jail_limits *limits, const struct limit_policies *policies);

/* ---- limit_reached.c ---- */

/* Tell, and do what the policy says. killed: how many processes died of it already. */
void limit_reached(struct sandbox *sandbox, enum limit limit, uint64_t count, uint64_t max, uint64_t killed);
void limit_bound_reached(struct sandbox *sandbox, const char *name); /* an egress limit, as the launcher reports */
void limit_look_at_refusals(struct sandbox *sandbox); /* what the kernel said no to since the last look */
/* Of these the forks alone, for busy sandboxes: at once, and a fork bomb is throttled whatever the policy.
 */
void limit_look_at_forks(struct sandbox *sandbox);
void limit_throttle_over(struct sandbox *sandbox); /* when its time has come: looked at with every measuring */
void limit_take_up(struct sandbox *sandbox);       /* a node that an earlier daemon may have throttled */
/* What the kernel is to hold it to for now. */
struct jail_limits limits_in_force(const struct sandbox *sandbox, const struct jail_limits *limits);

#endif
