/* The built-in profiles. */
#include <stdint.h>
#include <string.h>

#include "jail/jail.h"

#define MINUTE_MS 60000ULL
#define DESCRIPTORS 1024

/* Also of high: its own takes effect where a profile that takes after it allows connections. */
#define USUAL_EGRESS                                                                                                   \
    { .reach = JAIL_REACH_PUBLIC }

static const struct jail_profile profiles[] = {
    {
        .name = "high",
        .summary = "Untrusted code: no network at all, no programs, half a core",
        .isolation = "high",
        .limits = {.memory_bytes = 64 * JAIL_MIB,
                   .socket_memory_bytes = 16 * JAIL_MIB,
                   .cpu_percent = 50,
                   .processes = 50,
                   .max_run_ms = MINUTE_MS,
                   .disk_bytes = 16 * JAIL_MIB,
                   .os_tasks = 64,
                   .descriptors = DESCRIPTORS,
                   .atoms = 100000,
                   .ets_tables = 500,
                   .vm_ports = 100,
                   .sockets = 50,
                   .message_queue = 100000,
                   .connections = 256,
                   .port_connections = 512,
                   .network_rate_bytes = 10 * JAIL_MIB},
        .operations = "basic_otp,math,string",
        .network = JAIL_NETWORK_NONE,
        .egress = USUAL_EGRESS,
        .is_public = true,
    },
    {
        .name = "medium",
        .summary = "Ordinary applications: connections to public addresses, no programs, one core",
        .isolation = "medium",
        .limits = {.memory_bytes = 128 * JAIL_MIB,
                   .socket_memory_bytes = 16 * JAIL_MIB,
                   .cpu_percent = 100,
                   .processes = 1000,
                   .max_run_ms = 5 * MINUTE_MS,
                   .disk_bytes = 16 * JAIL_MIB,
                   .os_tasks = 128,
                   .descriptors = DESCRIPTORS,
                   .atoms = 500000,
                   .ets_tables = 1000,
                   .vm_ports = 500,
                   .sockets = 250,
                   .message_queue = 200000,
                   .connections = 256,
                   .port_connections = 512,
                   .network_rate_bytes = 10 * JAIL_MIB},
        .operations = "basic_otp,math,string,file_read,network_client",
        .network = JAIL_NETWORK_OUTGOING,
        .egress = USUAL_EGRESS,
        .is_public = true,
    },
    {
        .name = "low",
        .summary = "Trusted code: programs and native code too, connections anywhere, any number of cores",
        .isolation = "low",
        .limits = {.memory_bytes = 256 * JAIL_MIB,
                   .socket_memory_bytes = 32 * JAIL_MIB,
                   .cpu_percent = 0,
                   .processes = 4000,
                   .max_run_ms = 10 * MINUTE_MS,
                   .disk_bytes = 16 * JAIL_MIB,
                   .os_tasks = 256,
                   .descriptors = DESCRIPTORS,
                   .atoms = 600000, /* well below the VM's own end: it is noticed a moment later */
                   .ets_tables = 5000,
                   .vm_ports = 900,
                   .sockets = 500,
                   .message_queue = 500000,
                   .connections = 1024,
                   .port_connections = 2048},
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
        .limits = {.memory_bytes = 768 * JAIL_MIB,
                   .socket_memory_bytes = 16 * JAIL_MIB,
                   .cpu_percent = 200,
                   .processes = 0,
                   .disk_bytes = 256 * JAIL_MIB,
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
