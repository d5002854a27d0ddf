/* The built-in profiles, and the bounds of every limit. */
#include <stdint.h>
#include <string.h>

#include "jail/jail.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define TIB (1ULL << 40)
#define MINUTE_MS 60000ULL
#define DAY_MS (MINUTE_MS * 60 * 24)
#define DESCRIPTORS 1024

/* Also of high: its own takes effect where a profile that takes after it allows connections. */
#define USUAL_EGRESS                                                                                                   \
    { .reach = JAIL_REACH_PUBLIC }

static const struct jail_profile profiles[] = {
    {
        .name = "high",
        .summary = "Untrusted code: no network at all, no programs, half a core",
        .isolation = "high",
        .limits = {.memory_bytes = 64 * MIB,
                   .socket_memory_bytes = 16 * MIB,
                   .cpu_percent = 50,
                   .processes = 50,
                   .max_run_ms = MINUTE_MS,
                   .disk_bytes = 16 * MIB,
                   .os_tasks = 64,
                   .descriptors = DESCRIPTORS,
                   .atoms = 100000,
                   .ets_tables = 500,
                   .ports = 100,
                   .sockets = 50,
                   .message_queue = 100000,
                   .connections = 256,
                   .network_rate_bytes = 10 * MIB},
        .operations = "basic_otp,math,string",
        .network = JAIL_NETWORK_NONE,
        .egress = USUAL_EGRESS,
        .is_public = true,
    },
    {
        .name = "medium",
        .summary = "Ordinary applications: connections to public addresses, no programs, one core",
        .isolation = "medium",
        .limits = {.memory_bytes = 128 * MIB,
                   .socket_memory_bytes = 16 * MIB,
                   .cpu_percent = 100,
                   .processes = 100,
                   .max_run_ms = 5 * MINUTE_MS,
                   .disk_bytes = 16 * MIB,
                   .os_tasks = 128,
                   .descriptors = DESCRIPTORS,
                   .atoms = 500000,
                   .ets_tables = 1000,
                   .ports = 500,
                   .sockets = 250,
                   .message_queue = 200000,
                   .connections = 256,
                   .network_rate_bytes = 10 * MIB},
        .operations = "basic_otp,math,string,file_read,network_client",
        .network = JAIL_NETWORK_OUTGOING,
        .egress = USUAL_EGRESS,
        .is_public = true,
    },
    {
        .name = "low",
        .summary = "Trusted code: programs and native code too, connections anywhere, any number of cores",
        .isolation = "low",
        .limits = {.memory_bytes = 256 * MIB,
                   .socket_memory_bytes = 32 * MIB,
                   .cpu_percent = 0,
                   .processes = 200,
                   .max_run_ms = 10 * MINUTE_MS,
                   .disk_bytes = 16 * MIB,
                   .os_tasks = 256,
                   .descriptors = DESCRIPTORS,
                   .atoms = 600000, /* well below the VM's own end: it is noticed a moment later */
                   .ets_tables = 5000,
                   .ports = 900,
                   .sockets = 500,
                   .message_queue = 500000,
                   .connections = 1024},
        .operations = "all",
        .network = JAIL_NETWORK_OUTGOING,
        .egress = {.reach = JAIL_REACH_ANYWHERE},
        .may_exec = true,
        .native_code = true,
        .is_public = true,
    },
    {
        .name = "compiler",
        .summary = "Compiling one sandbox's sources, whose macros are as untrusted as the rest",
        .isolation = "high",
        .limits = {.memory_bytes = 768 * MIB,
                   .socket_memory_bytes = 16 * MIB,
                   .cpu_percent = 200,
                   .processes = 0,
                   .disk_bytes = 256 * MIB,
                   .os_tasks = 256,
                   .descriptors = DESCRIPTORS},
        .operations = "compile",
        .network = JAIL_NETWORK_NONE,
    },
};

const struct jail_profile *jail_profiles(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(profiles);
    return profiles;
}

const struct jail_profile *jail_profile_find(const char *name) {
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
        if (strcmp(profiles[i].name, name) == 0) return &profiles[i];
    return NULL;
}

#define LIMIT(field) #field, offsetof(struct jail_limits, field), sizeof(((struct jail_limits *)NULL)->field)

static const struct jail_limit_kind kinds[] = {
    {LIMIT(memory_bytes), false, 16 * MIB, TIB}, /* an idle VM needs 12 MiB */
    {LIMIT(cpu_percent), true, 1, 100ULL * 1024},
    {LIMIT(processes), false, 1, 1000000},
    {LIMIT(max_run_ms), true, 1, 30 * DAY_MS},
    {LIMIT(ttl_ms), true, 1, 3650 * DAY_MS},
    {LIMIT(disk_bytes), false, 64 * KIB, TIB},
    {LIMIT(os_tasks), false, 16, 32768},  /* a VM has 11 */
    {LIMIT(atoms), true, 20000, 1 << 20}, /* an idle Elixir node has 15,000; the VM's own bound */
    {LIMIT(ets_tables), true, 1, 1000000},
    {LIMIT(ports), true, 1, 1 << 20},
    {LIMIT(message_queue), true, 10, 1000000000},
    {LIMIT(ets_bytes), true, MIB, TIB},
    {LIMIT(heap_bytes), true, MIB, TIB},
    {LIMIT(descriptors), false, 64, 1 << 20}, /* an idle VM has 18 */
    {LIMIT(file_bytes), true, 64 * MIB, TIB}, /* the VM keeps machine code in files of that size at most */
    {LIMIT(sockets), true, 1, 1 << 20},
    {LIMIT(network_rate_bytes), true, 16 * KIB, TIB},
    {LIMIT(network_total_bytes), true, KIB, TIB},
    {LIMIT(connections), false, 1, 65536},
    {LIMIT(socket_memory_bytes), false, 256 * KIB, TIB}, /* a connection's two ends begin with 150 KiB of buffers */
};

const struct jail_limit_kind *jail_limit_kinds(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(kinds);
    return kinds;
}

const struct jail_limit_kind *jail_limit_find(const char *name) {
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

uint64_t jail_limit_get(const struct jail_limits *limits, const struct jail_limit_kind *kind) {
    const uint8_t *at = (const uint8_t *)limits + kind->offset;
    uint32_t narrow;
    uint64_t wide;
    memcpy(&narrow, at, sizeof narrow);
    if (kind->size == sizeof narrow) return narrow;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

void jail_limit_set(struct jail_limits *limits, const struct jail_limit_kind *kind, uint64_t value) {
    uint8_t *at = (uint8_t *)limits + kind->offset;
    uint32_t narrow = (uint32_t)value;
    if (kind->size == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
}

int jail_limits_check(const struct jail_limits *limits, struct error *reterr) {
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const struct jail_limit_kind *kind = &kinds[i];
        uint64_t value = jail_limit_get(limits, kind);
        if (value == 0 && kind->zero_is_none) continue;
        if (value < kind->least || value > kind->most)
            return error_set(reterr, E_INVALID, "%s is %llu; it must be from %llu to %llu", kind->name,
                             (unsigned long long)value, (unsigned long long)kind->least,
                             (unsigned long long)kind->most);
    }
    return 0;
}
