/* Limits: one table of all that a sandbox is held to. A row makes the field of struct jail_limits, the bounds, the
   setting of profiles, the parameter of create and run, the line of plans and of the launcher's messages, the agent's
   name, the metric, and the row of the reference.

   A limit has one name. With its unit it is the field: "memory" and "memory_bytes". The command line and the settings
   write the name with dashes. */
#ifndef JAIL_LIMITS_H
#define JAIL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* ---- policies: what is done when a limit is reached, besides an event ---- */

#define JAIL_POLICY_LIST(X)                                                                                            \
    X(WARN, "warn")                 /* nothing */                                                                      \
    X(THROTTLE, "throttle")         /* it gets hardly any CPU time for a while */                                      \
    X(KILL_PROCESS, "kill_process") /* the process that has most dies */                                               \
    X(RESTART, "restart")           /* a new VM */                                                                     \
    X(FREEZE, "freeze")             /* it stands still until a user thaws it */                                        \
    X(DESTROY, "destroy")

enum jail_policy {
#define X(NAME, text) JAIL_POLICY_##NAME,
    JAIL_POLICY_LIST(X)
#undef X
        JAIL_POLICY_COUNT
};

/* Sets of them: any; those that need no process to be told apart; the end alone. */
#define JAIL_POLICIES_ANY ((1u << JAIL_POLICY_COUNT) - 1)
#define JAIL_POLICIES_WHOLE (JAIL_POLICIES_ANY & ~(1u << JAIL_POLICY_KILL_PROCESS))
#define JAIL_POLICIES_END (1u << JAIL_POLICY_DESTROY)

/* ---- the table ---- */

#define JAIL_KIB (1ULL << 10)
#define JAIL_MIB (1ULL << 20)
#define JAIL_TIB (1ULL << 40)
#define JAIL_DAY_MS (86400000ULL)

/* The columns:
   - NAME, name;
   - the unit: COUNT, BYTES, PERCENT (100 is one core), MS;
   - least and most;
   - what 0 means: REFUSED (there is no sandbox without the limit), UNBOUND, or SHARE(OF, parts) of another limit;
   - the holder: KERNEL (the launcher is told), AGENT, SERVICE;
   - the policies that it may have (JAIL_POLICIES_…), and the one by default;
   - where it is metered: OUTSIDE (without asking the VM), INSIDE (the agent tells), NOWHERE;
   - OPTION: create and run have a parameter of the name; PAIR: it is set by --limit alone;
   - what it bounds. */
#define JAIL_LIMIT_LIST(X)                                                                                             \
    /* An idle VM needs 12 MiB. */                                                                                     \
    X(MEMORY, memory, BYTES, 16 * JAIL_MIB, JAIL_TIB, REFUSED, KERNEL, WHOLE, WARN, OUTSIDE, OPTION,                   \
      "memory of the virtual machine")                                                                                 \
    /* Where memory does not count them: cgroup v1. A connection's two ends begin with 150 KiB of buffers. */          \
    X(SOCKET_MEMORY, socket_memory, BYTES, 256 * JAIL_KIB, JAIL_TIB, REFUSED, KERNEL, WHOLE, WARN, OUTSIDE, PAIR,      \
      "buffers of internet sockets, where memory does not count them (cgroup v1)")                                     \
    X(CPU, cpu, PERCENT, 1, 102400, UNBOUND, KERNEL, WHOLE, WARN, OUTSIDE, OPTION, "CPU time; 100% is one core")       \
    X(PROCESSES, processes, COUNT, 1, 1000000, REFUSED, AGENT, ANY, KILL_PROCESS, INSIDE, OPTION,                      \
      "the application's own processes")                                                                               \
    X(MAX_RUN, max_run, MS, 1, 30 * JAIL_DAY_MS, UNBOUND, SERVICE, ANY, KILL_PROCESS, NOWHERE, OPTION,                 \
      "how long one eval or run may take")                                                                             \
    X(TTL, ttl, MS, 1, 3650 * JAIL_DAY_MS, UNBOUND, SERVICE, END, DESTROY, NOWHERE, OPTION,                            \
      "destroy the sandbox after this time")                                                                           \
    X(DISK, disk, BYTES, 64 * JAIL_KIB, JAIL_TIB, REFUSED, KERNEL, WHOLE, WARN, OUTSIDE, OPTION,                       \
      "what it may write to /tmp, and at first the size of /data")                                                     \
    /* Each costs memory that the disk does not count; in a small disk there are as many as it has KiB. */             \
    X(FILES, files, COUNT, 64, 1 << 30, SHARE(DISK, 1024), KERNEL, WHOLE, WARN, OUTSIDE, PAIR,                         \
      "files and folders in /tmp, and in /data where that is in memory")                                               \
    /* The VM keeps machine code in files of 64 MiB at most. */                                                        \
    X(FILE_SIZE, file_size, BYTES, 64 * JAIL_MIB, JAIL_TIB, UNBOUND, KERNEL, WHOLE, WARN, NOWHERE, PAIR,               \
      "the size of one file")                                                                                          \
    /* An idle VM has 18. */                                                                                           \
    X(DESCRIPTORS, descriptors, COUNT, 64, 1 << 20, REFUSED, KERNEL, WHOLE, WARN, OUTSIDE, PAIR,                       \
      "descriptors of the VM, and of each program that it starts")                                                     \
    /* A VM has 11. */                                                                                                 \
    X(OS_TASKS, os_tasks, COUNT, 16, 32768, REFUSED, KERNEL, WHOLE, WARN, OUTSIDE, PAIR,                               \
      "processes and threads of the operating system")                                                                 \
    X(NETWORK_RATE, network_rate, BYTES, 16 * JAIL_KIB, JAIL_TIB, UNBOUND, KERNEL, ANY, WARN, NOWHERE, PAIR,           \
      "bytes a second to and from the outside, each way")                                                              \
    X(NETWORK_TOTAL, network_total, BYTES, JAIL_KIB, JAIL_TIB, UNBOUND, KERNEL, ANY, WARN, OUTSIDE, PAIR,              \
      "bytes to and from the outside together, of one VM")                                                             \
    X(CONNECTIONS, connections, COUNT, 1, 65536, REFUSED, KERNEL, ANY, WARN, NOWHERE, PAIR,                            \
      "connections to the outside at once")                                                                            \
    X(PORT_CONNECTIONS, port_connections, COUNT, 1, 8192, REFUSED, KERNEL, WHOLE, WARN, NOWHERE, PAIR,                 \
      "connections to one published port, or through one --connect, at once")                                          \
    X(PORT_RATE, port_rate, COUNT, 1, 1000000, UNBOUND, KERNEL, WHOLE, WARN, NOWHERE, PAIR,                            \
      "new connections a second to one published port, or through one --connect")                                      \
    /* An idle Elixir node has 15,000; the VM's own bound. */                                                          \
    X(ATOMS, atoms, COUNT, 20000, 1 << 20, UNBOUND, AGENT, ANY, KILL_PROCESS, INSIDE, PAIR, "atoms")                   \
    X(ETS_TABLES, ets_tables, COUNT, 1, 1000000, UNBOUND, AGENT, ANY, KILL_PROCESS, INSIDE, PAIR, "ETS tables")        \
    X(ETS_MEMORY, ets_memory, BYTES, JAIL_MIB, JAIL_TIB, SHARE(MEMORY, 2), AGENT, ANY, KILL_PROCESS, INSIDE, PAIR,     \
      "memory of ETS tables")                                                                                          \
    X(VM_PORTS, vm_ports, COUNT, 1, 1 << 20, UNBOUND, AGENT, ANY, KILL_PROCESS, INSIDE, PAIR,                          \
      "ports of the VM: programs, files and sockets that it talks to")                                                 \
    X(SOCKETS, sockets, COUNT, 1, 1 << 20, UNBOUND, AGENT, ANY, KILL_PROCESS, INSIDE, PAIR, "open sockets")            \
    X(MESSAGE_QUEUE, message_queue, COUNT, 10, 1000000000, UNBOUND, AGENT, ANY, KILL_PROCESS, INSIDE, PAIR,            \
      "messages that wait for one process")                                                                            \
    /* While it is collected, a heap is there twice, and the VM itself needs its share. */                             \
    X(HEAP, heap, BYTES, JAIL_MIB, JAIL_TIB, SHARE(MEMORY, 4), AGENT, ANY, KILL_PROCESS, NOWHERE, PAIR,                \
      "the heap of one process")

/* A limit's name with its unit. */
#define JAIL_FIELD_COUNT(name) name
#define JAIL_FIELD_BYTES(name) name##_bytes
#define JAIL_FIELD_PERCENT(name) name##_percent
#define JAIL_FIELD_MS(name) name##_ms
#define JAIL_TEXT(token) #token
#define JAIL_EXPANDED_TEXT(token) JAIL_TEXT(token)
#define JAIL_FIELD_TEXT(name, unit) JAIL_EXPANDED_TEXT(JAIL_FIELD_##unit(name))

enum jail_limit {
#define X(NAME, ...) JAIL_LIMIT_##NAME,
    JAIL_LIMIT_LIST(X)
#undef X
        JAIL_LIMIT_COUNT
};

struct jail_limits {
#define X(NAME, name, unit, ...) uint64_t JAIL_FIELD_##unit(name);
    JAIL_LIMIT_LIST(X)
#undef X
    uint64_t cpu_weight_percent; /* no limit: beside other nodes that want the CPU too; 0 is 100, as much as each */
};

enum jail_unit { JAIL_UNIT_COUNT, JAIL_UNIT_BYTES, JAIL_UNIT_PERCENT, JAIL_UNIT_MS };
enum jail_holder { JAIL_HELD_BY_KERNEL, JAIL_HELD_BY_AGENT, JAIL_HELD_BY_SERVICE };
enum jail_zero { JAIL_ZERO_IS_REFUSED, JAIL_ZERO_IS_UNBOUND, JAIL_ZERO_IS_SHARE };

struct jail_limit_kind {
    const char *name, *field;
    size_t offset; /* of the field */
    enum jail_unit unit;
    uint64_t least, most;
    struct {
        enum jail_zero meaning;
        enum jail_limit of; /* a share: of this limit, one of so many parts */
        unsigned parts;
    } zero;
    enum jail_holder holder;
    unsigned policies; /* a bit for each that it may have */
    enum jail_policy policy;
    const char *summary;
};

const struct jail_limit_kind *jail_limit_kind(enum jail_limit limit);
bool jail_limit_find(const char *name, enum jail_limit *ret); /* by its name alone */
uint64_t jail_limit_get(const struct jail_limits *limits, enum jail_limit limit);
void jail_limit_set(struct jail_limits *limits, enum jail_limit limit, uint64_t value);
/* What a limit comes to, shares of others computed; 0: no bound. */
uint64_t jail_limit_value(const struct jail_limits *limits, enum jail_limit limit);
bool jail_limit_is_within(enum jail_limit limit, uint64_t value); /* its bounds; 0 never is */

/* ---- limit_text.c: for people; the launcher knows none of it ---- */

/* Bounds of what a caller may ask for; E_INVALID names the limit, the value and the bounds. */
int jail_limits_check(const struct jail_limits *limits, struct error *reterr);
/* "64M", "50%", "5s", or "none" for 0, into its field; E_INVALID. */
int jail_limit_read(enum jail_limit limit, const char *text, struct jail_limits *limits, struct error *reterr);
void jail_limit_to_text(enum jail_limit limit, uint64_t value, char ret[QUANTITY_BYTES]);
const char *jail_holder_name(enum jail_holder holder);
const char *jail_policy_name(enum jail_policy policy);
bool jail_policy_find(const char *name, enum jail_policy *ret);

#endif
