/* sandbox-launcher: the service's first process and the only one with privileges. See docs/architecture.md. */
#include <fcntl.h>
#include <getopt.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/features.h"
#include "launcher/launcher.h"
#include "launcher/privileges.h"

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
    features_probe(&features);
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
    struct launcher *launcher = launcher_new();
    if (!launcher) return EXIT_FAILURE;
    launcher->log = (struct log){STDERR_FILENO, LOG_INFO_LEVEL};
    launcher->root = geteuid() == 0;
    launcher->command_line = arguments[0];
    launcher->command_line_size = command_line_size(count, arguments);
    launcher->daemon.options = options.daemon_options;
    launcher->daemon.wanted = !options.no_daemon;
    if (launcher_open(launcher, options.home, &error) == 0) {
        launcher_log(launcher, LOG_INFO_LEVEL, "launcher_ready", "home", launcher->home.path, NULL);
        while (!launcher->loop.ending) launcher_turn(launcher, true);
        status = launcher->loop.exit_status;
    } else {
        fprintf(stderr, "sandbox-launcher: %s\n", error.detail);
        status = exit_status_of(&error);
    }
    launcher_close(launcher);
    return status;
}
