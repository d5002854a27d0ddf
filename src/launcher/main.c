/* sandbox-launcher: the service's first process and the only one with privileges. See docs/architecture.md. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/start/spawn.h"

enum { EVENTS_PER_TURN = 64, SOURCE_SHIFT = 32 };

int launcher_watch(struct launcher *launcher, int fd, enum source source, size_t index, struct error *reterr) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)source << SOURCE_SHIFT | index};
    if (epoll_ctl(launcher->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_errno(reterr, errno, "watch a descriptor");
    return 0;
}

void launcher_unwatch(struct launcher *launcher, int fd) {
    if (fd >= 0) epoll_ctl(launcher->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void launcher_want_output(struct launcher *launcher, bool wanted) {
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0),
                                .data.u64 = (uint64_t)SOURCE_LINK << SOURCE_SHIFT};
    epoll_ctl(launcher->epoll_fd, EPOLL_CTL_MOD, launcher->link_fd, &event);
}

void launcher_due_at(struct launcher *launcher, uint64_t due_ms) {
    if (due_ms < launcher->due_ms) launcher->due_ms = due_ms;
}

void launcher_end(struct launcher *launcher, int exit_status) {
    launcher->ending = true;
    launcher->exit_status = exit_status;
}

static void on_signal(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    struct signalfd_siginfo info;
    if (read(launcher->signal_fd, &info, sizeof info) == sizeof info) supervise_stop(launcher);
}

static void on_server(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    server_accept(launcher);
}

static void on_link(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    if (launcher->link_fd >= 0) server_receive(launcher, events);
}

static void on_daemon(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->daemon.pidfd >= 0) supervise_ended(launcher);
}

/* An earlier event of the same turn may have ended what a later one is about: all of these look first. */
static void on_notify(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    if (launcher->nodes[index].used) notify_serve(launcher, &launcher->nodes[index]);
}

static void on_death(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    struct launcher_node *node = &launcher->nodes[index];
    if (node->used && node->burial.under_way && node_is_dead(node)) bury_finish(launcher, node);
}

static void on_project(struct launcher *launcher, size_t index, uint32_t events) {
    (void)events;
    if (launcher->projects[index].state == PROJECT_OPENING) project_advance(launcher, &launcher->projects[index]);
}

static void on_refusals(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.log.fd >= 0) egress_tell_refusals(launcher);
}

static void on_addresses(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.addresses.fd >= 0) egress_addresses_changed(launcher);
}

static void on_greeting(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.greeting_fd >= 0) egress_greeting_came(launcher);
}

static void on_keeper(struct launcher *launcher, size_t index, uint32_t events) {
    (void)index;
    (void)events;
    if (launcher->egress.keeper_fd >= 0) egress_keeper_ended(launcher);
}

typedef void (*source_fn)(struct launcher *launcher, size_t index, uint32_t events);

static const source_fn source_functions[SOURCE_COUNT] = {
    [SOURCE_SIGNAL] = on_signal,   [SOURCE_SERVER] = on_server,     [SOURCE_LINK] = on_link,
    [SOURCE_DAEMON] = on_daemon,   [SOURCE_NOTIFY] = on_notify,     [SOURCE_DEATH] = on_death,
    [SOURCE_PROJECT] = on_project, [SOURCE_REFUSALS] = on_refusals, [SOURCE_ADDRESSES] = on_addresses,
    [SOURCE_KEEPER] = on_keeper,   [SOURCE_GREETING] = on_greeting,
};

/* All that waits for time, and how long the loop may sleep. */
static int run_due(struct launcher *launcher) {
    static uint64_t (*const checks[])(struct launcher *, uint64_t) = {
        bury_check, project_check, opener_check, violation_flush, supervise_check, egress_check, standstill_check};
    uint64_t now_ms = clock_monotonic_ms();
    if (now_ms >= launcher->due_ms) {
        launcher->due_ms = UINT64_MAX;
        for (size_t i = 0; i < ARRAY_SIZE(checks); i++) launcher_due_at(launcher, checks[i](launcher, now_ms));
    }
    if (launcher->due_ms == UINT64_MAX) return -1;
    return launcher->due_ms <= now_ms ? 1 : (int)(launcher->due_ms - now_ms);
}

static void run_loop(struct launcher *launcher) {
    while (!launcher->ending) {
        struct epoll_event events[EVENTS_PER_TURN];
        int count = epoll_wait(launcher->epoll_fd, events, EVENTS_PER_TURN, run_due(launcher));
        for (int i = 0; i < count; i++)
            source_functions[events[i].data.u64 >> SOURCE_SHIFT](launcher, events[i].data.u64 & UINT32_MAX,
                                                                 events[i].events);
    }
}

static int watch_signals(struct launcher *launcher, struct error *reterr) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    launcher->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launcher->signal_fd < 0) return error_errno(reterr, errno, "receive signals");
    return launcher_watch(launcher, launcher->signal_fd, SOURCE_SIGNAL, 0, reterr);
}

/* Several homes of one user share what was delegated to that user: each has a name of its own there. */
static void name_instance(const struct launcher *launcher, char *ret, size_t size) {
    uint32_t hash = 2166136261u;
    for (const char *at = launcher->home; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
    if (launcher->root)
        snprintf(ret, size, "%u", launcher->slot);
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

static int open_all(struct launcher *launcher, const char *home, struct error *reterr) {
    launcher->nodes = calloc(JAIL_NODES_MAX, sizeof *launcher->nodes);
    launcher->projects = calloc(JAIL_PROJECTS_MAX, sizeof *launcher->projects);
    if (!launcher->nodes || !launcher->projects) return error_set(reterr, E_NO_MEMORY, "no memory for the tables");
    launcher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (launcher->epoll_fd < 0) return error_errno(reterr, errno, "make an epoll descriptor");
    if (launcher->root && setgroups(0, NULL) < 0) return error_errno(reterr, errno, "drop groups");
    if (home_open(launcher, home, reterr) < 0) return -1;
    launcher_log_open(launcher);
    /* Wherever we were started is nobody's business, and a helper's /proc/self/cwd would lead there. */
    if (chdir("/") < 0) return error_errno(reterr, errno, "go to /");
    jail_features_probe(&launcher->features);
    if (open_cgroups(launcher, reterr) < 0) return -1;
    /* A controller that is there may still not be ours to have. */
    features_note_cgroups(&launcher->features, &launcher->cgroups);
    if (watch_signals(launcher, reterr) < 0 || adopt_all(launcher, reterr) < 0) return -1;
    egress_adopt(launcher);
    if (server_open(launcher, reterr) < 0) return -1;
    installation_find_agent(launcher);
    return supervise_start(launcher, reterr);
}

/* Nodes live on, unless the service was shut down. */
static void close_all(struct launcher *launcher) {
    if (launcher->server_fd >= 0) unlinkat(launcher->home_fd, "launcher.sock", 0);
    daemon_bounds_close(launcher);
    if (launcher->shutting_down && launcher->node_count == 0) {
        egress_end(launcher);
        home_close(launcher);
    }
    egress_close(launcher);
    for (size_t i = 0; i < launcher->nodes_end; i++)
        if (launcher->nodes[i].used) {
            standstill_call_off(launcher, &launcher->nodes[i]);
            fd_close(launcher->nodes[i].pidfd);
            fd_close(launcher->nodes[i].listener_fd);
            free(launcher->nodes[i].egress);
        }
    project_release_all(launcher);
    helper_forget_dying(launcher);
    opener_end(launcher);
    filters_free(&launcher->filters);
    userns_cache_free(&launcher->user_namespaces);
    free(launcher->nodes);
    free(launcher->projects);
}

struct options {
    const char *home;
    bool no_daemon;
    char **daemon_options;
};

static const char usage[] =
    "usage: sandbox-launcher --home DIR [--no-daemon] [-- OPTION…]\n"
    "       sandbox-launcher --probe\n"
    "Starts the service whose home is DIR: builds jails, and keeps sandboxd running with the options after --.\n"
    "  --home DIR    where everything of this instance lives (default: $SANDBOX_HOME)\n"
    "  --no-daemon   start no sandboxd; whoever dials DIR/launcher.sock with its uid is served\n"
    "  --probe       print what this host can enforce, and start nothing\n";

/* "NAME=0|1 MEANING" for each guarantee, and facts. */
static int print_probe(void) {
    struct jail_features features;
    jail_features_probe(&features);
    for (int i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        printf("%s=%d %s\n", jail_guarantee_name((enum jail_guarantee)i), (features.guarantees & 1u << i) != 0,
               jail_guarantee_meaning((enum jail_guarantee)i));
    printf("cgroup_version=%d\nlandlock_abi=%d\nroot=%d\n", features.cgroup_version, features.landlock_abi,
           features.root);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* -1: go on; else the status to exit with. */
static int parse_options(int count, char **arguments, struct options *ret) {
    static const struct option names[] = {{"home", required_argument, NULL, 'H'},
                                          {"no-daemon", no_argument, NULL, 'n'},
                                          {"probe", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {.home = getenv("SANDBOX_HOME")};
    for (int option; (option = getopt_long(count, arguments, "+h", names, NULL)) != -1;) {
        if (option == 'h') return fputs(usage, stdout) < 0;
        if (option == '?') return fputs(usage, stderr), EXIT_USAGE;
        if (option == 'p') return print_probe();
        if (option == 'H') options.home = optarg;
        if (option == 'n') options.no_daemon = true;
    }
    options.daemon_options = arguments + optind;
    if (!options.home || !*options.home) return fputs(usage, stderr), EXIT_USAGE;
    *ret = options;
    return -1;
}

static bool is_for_the_service(const char *variable) {
    static const char *const starts[] = {"SANDBOX_", "PATH=", "TZ=", "LANG="};
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (string_starts(variable, starts[i])) return true;
    return false;
}

/* Root's variables may hold root's secrets; an ordinary user's daemon has that user's rights anyway. */
static void shed_environment(void) {
    char **kept = environ;
    for (char **variable = environ; *variable; variable++)
        if (is_for_the_service(*variable)) *kept++ = *variable;
    *kept = NULL;
}

/* What our starter left us would be the daemon's too: open descriptors, the keys of a session, a mask for modes. Those
   that are given numbers later must never be 0, 1 or 2. */
static void shed_inheritance(void) {
    int fd;
    close_range(STDERR_FILENO + 1, ~0U, 0);
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    fd_close(fd);
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL); /* a kernel without keyrings has none to leak */
    umask(022);
    if (geteuid() == 0) shed_environment();
}

/* The kernel lays arguments out one after the other. */
static size_t command_line_size(int count, char **arguments) {
    const char *last = arguments[count - 1];
    return (size_t)(last + strlen(last) + 1 - arguments[0]);
}

/* Two for every node: the usual soft limit is for programs that use select. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int exit_status_of(const struct error *error) {
    return error->code == E_CONFLICT ? EXIT_CONFLICT : error->code == E_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}

int main(int count, char **arguments) {
    struct options options = {0};
    struct error error = {0};
    int status = parse_options(count, arguments, &options);
    if (status >= 0) return status;
    shed_inheritance();
    raise_descriptor_limit();
    priority_raise();
    struct launcher *launcher = calloc(1, sizeof *launcher);
    if (!launcher) return EXIT_FAILURE;
    *launcher = (struct launcher){.log = {STDERR_FILENO, LOG_INFO_LEVEL},
                                  .root = geteuid() == 0,
                                  .due_ms = UINT64_MAX,
                                  .server_fd = -1,
                                  .link_fd = -1,
                                  .opener = {.socket_fd = -1, .pidfd = -1, .file_fd = -1},
                                  .daemon_options = options.daemon_options,
                                  .command_line = arguments[0],
                                  .command_line_size = command_line_size(count, arguments),
                                  .daemon = {.pidfd = -1, .wanted = !options.no_daemon}};
    egress_init(&launcher->egress);
    if (open_all(launcher, options.home, &error) == 0) {
        launcher_log(launcher, LOG_INFO_LEVEL, "launcher_ready", "home", launcher->home, NULL);
        run_loop(launcher);
        status = launcher->exit_status;
    } else {
        fprintf(stderr, "sandbox-launcher: %s\n", error.detail);
        status = exit_status_of(&error);
    }
    close_all(launcher);
    free(launcher);
    return status;
}
