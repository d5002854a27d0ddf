/* What the daemon itself may use. It reads what strangers send, so it has a cgroup of its own: a daemon that takes more
   memory than that is killed and started again, and takes nothing else of the host with it. */
#include <stdio.h>
#include <string.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/daemon/daemon.h"
#include "launcher/launcher.h"

#define SETTING "daemon-memory"
#define LEAF "daemon"
#define MEMORY_USUAL_BYTES (2ULL << 30)

enum {
    MACHINE_SHARE = 8, /* of its memory, where that is more than usual */
    SOCKET_SHARE = 16, /* of the daemon's memory, for buffers of sockets that cgroup v1 counts apart */
    TASKS_MAX = 512,   /* it has a few dozen threads */
};

static bool is_allowed(const char *text, uint64_t *ret) {
    uint64_t bytes;
    if (!parse_size(text, &bytes) || bytes < JAIL_DAEMON_MEMORY_LEAST || bytes > JAIL_DAEMON_MEMORY_MOST) return false;
    *ret = bytes;
    return true;
}

static uint64_t usual_memory(void) {
    uint64_t share = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / MACHINE_SHARE;
    return share > MEMORY_USUAL_BYTES ? share : MEMORY_USUAL_BYTES;
}

/* The daemon refuses to start with one that is out of bounds. */
static uint64_t memory_wanted(const struct launcher *launcher) {
    char text[DAEMON_SETTING_BYTES];
    uint64_t bytes;
    return daemon_setting(launcher, SETTING, text) && is_allowed(text, &bytes) ? bytes : usual_memory();
}

static void tell_unbounded(const struct launcher *launcher, const struct error *error) {
    launcher_log(launcher, LOG_WARN_LEVEL, "daemon_unbounded", "detail", error->detail, NULL);
}

void daemon_bounds_open(struct launcher *launcher, const char *instance) {
    char group[sizeof launcher->cgroups.group];
    struct error error;
    if (string_format(group, sizeof group, &error, JAIL_DAEMON_CGROUP "/%s", instance) < 0 ||
        cgroup_host_open_sibling(&launcher->cgroups, group, &launcher->daemon.cgroups, &error) < 0)
        tell_unbounded(launcher, &error);
}

void daemon_bounds_make(const struct launcher *launcher, struct cgroup *ret) {
    uint64_t memory = memory_wanted(launcher);
    struct jail_limits limits = {
        .memory_bytes = memory, .socket_memory_bytes = memory / SOCKET_SHARE, .os_tasks = TASKS_MAX};
    struct error error;
    if (!launcher->daemon.cgroups.version) return;
    if (cgroup_make(&launcher->daemon.cgroups, LEAF, &limits, ret, &error) < 0) tell_unbounded(launcher, &error);
}

void daemon_bounds_join(const struct launcher *launcher, const struct cgroup *cgroup) {
    struct error error;
    int failure = cgroup_join(cgroup);
    if (!failure) return;
    error_errno(&error, failure, "enter the daemon's cgroup");
    tell_unbounded(launcher, &error);
}

void daemon_bounds_close(const struct launcher *launcher) {
    if (!launcher->daemon.cgroups.version) return;
    cgroup_remove_if_empty(&launcher->daemon.cgroups, LEAF);
    cgroup_host_close(&launcher->daemon.cgroups);
}
