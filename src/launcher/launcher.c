/* The launcher's life: what it opens before it serves, and what it closes at its end. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "launcher/cgroup/cgroup.h"
#include "launcher/daemon/daemon.h"
#include "launcher/egress/egress.h"
#include "launcher/egress/rules.h"
#include "launcher/features.h"
#include "launcher/home.h"
#include "launcher/launcher.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/path_read.h"
#include "launcher/project/helper.h"
#include "launcher/project/project.h"
#include "launcher/record.h"
#include "launcher/server.h"
#include "launcher/start/spawn.h"
#include "launcher/start/userns.h"

struct launcher *launcher_new(void) {
    struct launcher *launcher = calloc(1, sizeof *launcher);
    if (!launcher) return NULL;
    launcher->loop = (struct loop){.epoll_fd = -1, .signal_fd = -1, .due_ms = UINT64_MAX};
    launcher->home.fd = launcher->home.lock_fd = -1;
    launcher->slot.fd = launcher->slot.records_fd = -1;
    launcher->server.fd = launcher->server.link_fd = -1;
    launcher->opener = (struct opener){.socket_fd = -1, .pidfd = -1, .file_fd = -1};
    launcher->daemon.pidfd = -1;
    egress_init(&launcher->egress);
    volumes_init(&launcher->volumes);
    return launcher;
}

static int watch_signals(struct launcher *launcher, struct error *reterr) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    launcher->loop.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launcher->loop.signal_fd < 0) return error_errno(reterr, errno, "receive signals");
    return launcher_watch(launcher, launcher->loop.signal_fd, SOURCE_SIGNAL, 0, reterr);
}

/* Several homes of one user share what was delegated to that user: each has a name of its own there. */
static void name_instance(const struct launcher *launcher, char *ret, size_t size) {
    uint32_t hash = 2166136261u;
    for (const char *at = launcher->home.path; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
    if (launcher->root)
        snprintf(ret, size, "%u", launcher->slot.number);
    else
        snprintf(ret, size, "u%u-%08x", launcher->daemon_uid, hash);
}

static int open_cgroups(struct launcher *launcher, struct error *reterr) {
    char instance[64], group[128];
    name_instance(launcher, instance, sizeof instance);
    snprintf(group, sizeof group, "sandbox/%s", instance);
    if (cgroup_host_open("/sys/fs/cgroup", group, launcher->root, &launcher->cgroups, reterr) < 0) return -1;
    if (launcher->daemon.wanted) daemon_bounds_open(launcher, instance);
    return 0;
}

/* Read before there is a daemon that could write them. What can't be read allows nothing. */
static void read_ranges(const struct launcher *launcher, const char *setting, const char *fallback,
                        struct jail_port_ranges *ret) {
    char text[DAEMON_SETTING_BYTES];
    struct error error;
    if (!daemon_setting(launcher, setting, text)) snprintf(text, sizeof text, "%s", fallback);
    if (jail_port_ranges_parse(text, ret, &error) < 0)
        launcher_log(launcher, LOG_ERROR_LEVEL, "setting_refused", "name", setting, "detail", error.detail, NULL);
}

int launcher_open(struct launcher *launcher, const char *home, struct error *reterr) {
    if (egress_rules_check(reterr) < 0) return -1;
    launcher->nodes.items = calloc(JAIL_NODES_MAX, sizeof *launcher->nodes.items);
    launcher->projects = calloc(JAIL_PROJECTS_MAX, sizeof *launcher->projects);
    launcher->ports.items = calloc(JAIL_PORTS_OF_LAUNCHER, sizeof *launcher->ports.items);
    if (!launcher->nodes.items || !launcher->projects || !launcher->ports.items)
        return error_set(reterr, E_NO_MEMORY, "no memory for the tables");
    principals_load(NULL, &launcher->principals);
    launcher->loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (launcher->loop.epoll_fd < 0) return error_errno(reterr, errno, "make an epoll descriptor");
    if (launcher->root && setgroups(0, NULL) < 0) return error_errno(reterr, errno, "drop groups");
    if (home_open(launcher, home, reterr) < 0) return -1;
    launcher_log_open(launcher);
    if (volumes_open(launcher, reterr) < 0) return -1;
    /* The folder we were started in is private: a helper's /proc/self/cwd would lead there. */
    if (chdir("/") < 0) return error_errno(reterr, errno, "go to /");
    features_probe(&launcher->features);
    if (open_cgroups(launcher, reterr) < 0) return -1;
    /* A controller that is there may still not be ours to have. */
    features_note_cgroups(&launcher->features, &launcher->cgroups);
    if (watch_signals(launcher, reterr) < 0 || adopt_all(launcher, reterr) < 0) return -1;
    egress_adopt(launcher);
    read_ranges(launcher, "publish-addresses", JAIL_PUBLISH_DEFAULT, &launcher->publish_ranges);
    read_ranges(launcher, "connect-addresses", JAIL_CONNECT_DEFAULT, &launcher->connect_ranges);
    ports_adopt(launcher);
    if (server_open(launcher, reterr) < 0) return -1;
    installation_find_agent(launcher);
    return supervise_start(launcher, reterr);
}

void launcher_close(struct launcher *launcher) {
    if (launcher->server.fd >= 0) unlinkat(launcher->home.fd, "launcher.sock", 0);
    daemon_bounds_close(launcher);
    if (launcher->shutting_down && launcher->nodes.count == 0) {
        egress_end(launcher);
        ports_end_all(launcher);
        home_close(launcher);
    }
    egress_close(launcher);
    for (size_t i = 0; i < launcher->nodes.end; i++)
        if (launcher->nodes.items[i].used) {
            freezing_call_off(launcher, &launcher->nodes.items[i]);
            path_read_call_off(launcher, &launcher->nodes.items[i]);
            fd_close(launcher->nodes.items[i].pidfd);
            fd_close(launcher->nodes.items[i].listener_fd);
            free(launcher->nodes.items[i].egress);
        }
    volumes_close(launcher);
    jailed_files_close(launcher);
    project_release_all(launcher);
    ports_close(launcher);
    helper_forget_dying(launcher);
    opener_end(launcher);
    filters_free(&launcher->filters);
    userns_cache_free(&launcher->user_namespaces);
    free(launcher->nodes.items);
    free(launcher->projects);
    principals_free(&launcher->principals);
    free(launcher);
}
