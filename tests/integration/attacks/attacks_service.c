/* Attacks that take more than an expression: on the scheduler, on destroying, on the service's rights. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "attacks.h"
#include "client/client.h"

enum {
    STRANGER = 12345,                     /* a user without any rights */
    STOPPER = 12346,                      /* another, who has no processes but those of the attack */
    STOPPED = 4,                          /* as many as the daemon has threads, and a user compilations at once */
    SENT_BYTES = 200000,                  /* more than a pipe holds, of a file of 60 MiB */
    CREATE_MAX_MS = 10000,                /* on a loaded machine; it took 39 s */
    ANSWER_MAX_MS = 1000,                 /* of a neighbour, while others spin */
    DESTROY_MAX_MS = 500 * TEST_SLOWNESS, /* on a loaded machine; it takes 5 */
    CPU_PERIOD_US = 100000,               /* the kernel's own */
    CPU_QUOTA_US = 2000,                  /* 2 % */
};

static char *eval(struct scene *scene, const char *id, const char *code) {
    return world_try_eval(scene->world, id, "erlang", code, WORLD_DEADLINE_MS);
}

/* ---- the scheduler ---- */

static char *slowest_answer(struct scene *scene) {
    uint64_t worst_ms = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t begin_ms = clock_monotonic_ms();
        CLEANUP_FREE char *answer = eval(scene, "neighbour", "victim_counter:value()");
        uint64_t took_ms = clock_monotonic_ms() - begin_ms;
        if (strcmp(answer, "42") != 0) return string_print("the neighbour answered %s", answer);
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    return worst_ms <= ANSWER_MAX_MS ? NULL : string_print("the neighbour took %d ms", (int)worst_ms);
}

static char *spin_everywhere(struct scene *scene) {
    char *failure = NULL;
    for (int i = 0; i < PROFILES; i++) {
        CLEANUP_FREE char *answer = eval(scene, profile_names[i], "attack:spin()");
        if (strcmp(answer, "ok") != 0 && !failure) failure = string_print("%s: %s", profile_names[i], answer);
    }
    if (!failure) failure = slowest_answer(scene);
    for (int i = 0; i < PROFILES; i++) free(eval(scene, profile_names[i], "attack:stop_spinning()"));
    return failure;
}

/* ---- from outside in ---- */

static char *dial_from_host(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return string_print("port %d inside is the host's port too", port);
    return errno == ECONNREFUSED ? NULL : string_print("connecting: %s", strerror(errno));
}

static char *listen_for_the_host(struct scene *scene) {
    char *failure = NULL;
    for (int i = 1; i < PROFILES && !failure; i++) {
        CLEANUP_FREE char *port = eval(scene, profile_names[i], "attack:listen()");
        failure = atoi(port) > 0 ? dial_from_host(atoi(port)) : string_print("it can't listen: %s", port);
    }
    return failure;
}

/* ---- destroying ---- */

static bool lists_controller(const char *names, size_t length, const char *controller) {
    for (const char *end = names + length; names < end;) {
        size_t size = strcspn(names, ",:");
        if (size == strlen(controller) && strncmp(names, controller, size) == 0) return true;
        names += size + 1;
    }
    return length == 0 && !*controller;
}

/* The path of a process's cgroup in one of the hierarchies; the unified one has the controller "". */
static bool cgroup_of(pid_t pid, const char *controller, char ret[PATH_MAX]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    CLEANUP_FREE char *text = read_whole(path);
    char *next = NULL;
    for (char *line = text ? strtok_r(text, "\n", &next) : NULL; line; line = strtok_r(NULL, "\n", &next)) {
        char *names = strchr(line, ':') + 1, *below = strchr(names, ':');
        size_t length = (size_t)(below - names);
        if (!lists_controller(names, length, controller)) continue;
        snprintf(ret, PATH_MAX, "/sys/fs/cgroup/%s%s", *controller ? controller : "unified", below + 1);
        if (access(ret, F_OK) == 0) return true;
        snprintf(ret, PATH_MAX, "/sys/fs/cgroup%s", below + 1); /* the unified hierarchy alone */
        if (access(ret, F_OK) == 0) return true;
    }
    return false;
}

static bool write_control(const char *cgroup, const char *file, const char *value) {
    char path[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "%s/%s", cgroup, file) < 0) return false;
    FILE *control = fopen(path, "we");
    if (!control) return false;
    bool written = fputs(value, control) >= 0;
    return fclose(control) == 0 && written;
}

static bool throttle(pid_t pid) {
    char cgroup[PATH_MAX], quota[32];
    snprintf(quota, sizeof quota, "%d %d", CPU_QUOTA_US, CPU_PERIOD_US);
    if (cgroup_of(pid, "", cgroup) && write_control(cgroup, "cpu.max", quota)) return true;
    snprintf(quota, sizeof quota, "%d", CPU_QUOTA_US);
    return cgroup_of(pid, "cpu", cgroup) && write_control(cgroup, "cpu.cfs_quota_us", quota);
}

/* By both freezers, so that destroying it has to undo either. */
static bool freeze(pid_t pid) {
    char cgroup[PATH_MAX];
    bool is_frozen = cgroup_of(pid, "", cgroup) && write_control(cgroup, "cgroup.freeze", "1");
    /* Where there is no such hierarchy, there is nothing to hold out in. */
    return is_frozen && (!cgroup_of(pid, "freezer", cgroup) || write_control(cgroup, "freezer.state", "FROZEN"));
}

static char *destroy_in_time(struct scene *scene, const char *what) {
    struct sbx_error error;
    uint64_t begin_us = clock_monotonic_us();
    int result = sbx_destroy(world_client(scene->world), "holdout", &error);
    uint64_t took_us = clock_monotonic_us() - begin_us;
    if (result < 0) return string_print("destroying: %s", error.detail);
    print_message("             %s: destroyed in %.1f ms\n", what, (double)took_us / 1000);
    return took_us <= DESTROY_MAX_MS * 1000 ? NULL : string_print("destroying took %d ms", (int)(took_us / 1000));
}

static char *hold_out(struct scene *scene, bool (*hold)(pid_t pid), const char *what) {
    json_t *sandbox = world_create(scene->world, "holdout", VICTIM, "low");
    pid_t pid = (pid_t)json_integer_value(json_object_get(sandbox, "os_pid"));
    json_decref(sandbox);
    CLEANUP_FREE char *answer = eval(scene, "holdout", "attack:spin()");
    if (strcmp(answer, "ok") != 0) return string_print("it can't spin: %s", answer);
    if (!hold(pid)) return string_print("it can't be held: %s", strerror(errno));
    return destroy_in_time(scene, what);
}

static char *hold_out_throttled(struct scene *scene) {
    return hold_out(scene, throttle, "spinning at 2 % of a core");
}

static char *hold_out_frozen(struct scene *scene) {
    return hold_out(scene, freeze, "spinning and frozen");
}

/* ---- the service's rights ---- */

/* The command line, run by a user without rights; what it prints goes to the descriptor. */
static pid_t start_as(uid_t user, char *const arguments[], int output_fd) {
    char program[PATH_MAX];
    struct error error;
    if (client_find_program("sandbox", program, &error) < 0) return -1;
    CLEANUP_FD int program_fd = open(program, O_PATH | O_CLOEXEC); /* the build may lie where the user can't go */
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setgid(user) < 0 || setuid(user) < 0) _exit(126);
        if (dup2(output_fd, STDOUT_FILENO) < 0 || dup2(output_fd, STDERR_FILENO) < 0) _exit(126);
        execveat(program_fd, "", arguments, environ, AT_EMPTY_PATH);
        _exit(127);
    }
    return child;
}

static pid_t run_as(struct scene *scene, uid_t user, const char *verb, const char *first, const char *second) {
    CLEANUP_FD int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char *const arguments[] = {"sandbox",      "--home", (char *)world_home(scene->world), (char *)verb, (char *)first,
                               (char *)second, NULL};
    return start_as(user, arguments, null_fd);
}

static int exit_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The exit status when a user without rights asks for a sandbox of this project. */
static int create_as_stranger(struct scene *scene, const char *id, const char *project) {
    return exit_of(run_as(scene, STRANGER, "create", id, project));
}

static int give_entry(const char *path, uid_t owner, mode_t mode) {
    return chown(path, owner, owner) == 0 ? chmod(path, mode) : -1;
}

/* A project of one file, private to root. */
static const char *private_project(struct scene *scene, const char *name) {
    char file[64];
    snprintf(file, sizeof file, "%s/src/%s.erl", name, name);
    CLEANUP_FREE char *text = string_print("-module(%s).\n-export([f/0]).\nf() -> 1.\n", name);
    const char *source = world_file(scene->world, file, text);
    snprintf(file, sizeof file, "%s/src", name);
    const char *folder = world_path(scene->world, file), *project = world_path(scene->world, name);
    assert_int_equal(give_entry(source, 0, 0600), 0);
    assert_int_equal(give_entry(folder, 0, 0700), 0);
    assert_int_equal(give_entry(project, 0, 0700), 0);
    return project;
}

/* A project of compiled modules that belongs to the stranger alone. */
static const char *strangers_project(struct scene *scene) {
    const char *beam = world_copy(scene->world, "own/compiled.beam", COMPILED "/compiled.beam", SIZE_MAX);
    const char *project = world_path(scene->world, "own");
    assert_int_equal(give_entry(beam, STRANGER, 0600), 0);
    assert_int_equal(give_entry(project, STRANGER, 0700), 0);
    return project;
}

static char *read_a_project_of_root(struct scene *scene) {
    int refused = create_as_stranger(scene, "stolen", private_project(scene, "roots"));
    if (refused != 1 && refused != 3 && refused != 5) return string_print("somebody else's project: exit %d", refused);
    json_decref(world_fails(scene->world, "info", "not_found", "{s:s}", "id", "stolen"));
    int allowed = create_as_stranger(scene, "own", strangers_project(scene));
    if (allowed != 0) return string_print("the caller's own project: exit %d", allowed);
    world_destroy(scene->world, "own");
    return NULL;
}

static char *read_a_project_through_a_link(struct scene *scene) {
    const char *private = private_project(scene, "hidden");
    const char *link = world_path(scene->world, "link");
    assert_int_equal(symlink(private, link), 0);
    int refused = create_as_stranger(scene, "stolen", link);
    return refused == 1 || refused == 3 || refused == 5 ? NULL : string_print("through a link: exit %d", refused);
}

/* ---- processes of the service's that have a caller's uid ---- */

/* How much it has written; 0 where it is none of that user's that sends a project's files. */
static unsigned long long sent_bytes(const char *pid, uid_t user) {
    char path[64], text[2048];
    unsigned uid = 0;
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    const char *line = file_read_text(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "\nUid:") : NULL;
    if (!line || !strstr(text, "Name:\tsandbox-launch") || sscanf(line, "\nUid:\t%u", &uid) != 1 || uid != user)
        return 0;
    snprintf(path, sizeof path, "/proc/%.20s/io", pid);
    line = file_read_text(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "wchar: ") : NULL;
    return line && sscanf(line, "wchar: %llu", &bytes) == 1 ? bytes : 0;
}

/* As their user may, at any time. How many are in the middle of it and stand still now. */
static int stop_senders(uid_t user) {
    int stopped = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry; (entry = readdir(processes));)
        if (sent_bytes(entry->d_name, user) > SENT_BYTES) stopped += kill(atoi(entry->d_name), SIGSTOP) == 0;
    closedir(processes);
    return stopped;
}

static char *create_beside(struct scene *scene) {
    uint64_t begin_ms = clock_monotonic_ms();
    json_decref(world_create(scene->world, "beside", VICTIM, "medium"));
    uint64_t took_ms = clock_monotonic_ms() - begin_ms;
    world_destroy(scene->world, "beside");
    return took_ms <= CREATE_MAX_MS ? NULL : string_print("another's create took %d ms", (int)took_ms);
}

/* More of them than the daemon has threads to wait for them. */
static char *stop_project_openers(struct scene *scene) {
    pid_t clients[STOPPED];
    const char *large = world_file(scene->world, "large.erl", "");
    assert_int_equal(truncate(large, 60 << 20), 0);
    assert_int_equal(give_entry(large, STOPPER, 0600), 0);
    for (int i = 0; i < STOPPED; i++) clients[i] = run_as(scene, STOPPER, "compile", large, NULL);
    uint64_t end_ms = clock_monotonic_ms() + WORLD_DEADLINE_MS;
    int stopped = 0;
    while (stopped < STOPPED && clock_monotonic_ms() < end_ms && waitpid(clients[0], NULL, WNOHANG) == 0)
        stopped = stop_senders(STOPPER);
    char *failure = create_beside(scene);
    for (int i = 0; i < STOPPED; i++) {
        kill(clients[i], SIGKILL);
        waitpid(clients[i], NULL, 0);
    }
    return failure || stopped >= STOPPED / 2 ? failure : string_print("only %d could be stopped", stopped);
}

/* What root did under this id, and where its project lay, is not for the next user of the id. */
static char *read_the_history_of_an_id(struct scene *scene) {
    CLEANUP_FD int output_fd = memfd_create("events", MFD_CLOEXEC);
    char text[16384] = "";
    json_decref(world_fails(scene->world, "create", "not_found", "{s:s, s:s}", "id", "reused", "source",
                            "/nowhere/a-name-of-roots"));
    int allowed = create_as_stranger(scene, "reused", strangers_project(scene));
    if (allowed != 0) return string_print("creating: exit %d", allowed);
    char *const arguments[] = {"sandbox", "--home", (char *)world_home(scene->world), "events", "--sandbox",
                               "reused",  NULL};
    int read_exit = exit_of(start_as(STRANGER, arguments, output_fd));
    ssize_t size = pread(output_fd, text, sizeof text - 1, 0);
    world_destroy(scene->world, "reused");
    if (read_exit != 0 || size <= 0 || !strstr(text, "created")) return string_print("exit %d: %s", read_exit, text);
    return strstr(text, "a-name-of-roots") || strstr(text, "create_failed") ? strdup(text) : NULL;
}

static const struct attack on_service[] = {
    {.name = "spin_on_every_core",
     .tries = "spin in more processes than there are cores, in three sandboxes at once",
     .where = EVERY,
     .wall = "cgroup: CPU quota and shares",
     .run = spin_everywhere},
    {.name = "listen_for_the_host",
     .tries = "open a port that others on the host could take for a service of its",
     .where = MEDIUM | LOW,
     .wall = "network namespace",
     .run = listen_for_the_host},
    {.name = "outlast_destroy_throttled",
     .tries = "hold the CPU during destroy, at 2 % of a core",
     .where = LOW,
     .wall = "launcher: the quota is lifted first",
     .run = hold_out_throttled},
    {.name = "outlast_destroy_frozen",
     .tries = "be frozen during destroy",
     .where = LOW,
     .wall = "launcher: killed, then thawed",
     .run = hold_out_frozen},
    {.name = "read_a_project_of_root",
     .tries = "have the service read a project that its caller can't",
     .where = MEDIUM,
     .wall = "launcher: projects are opened with the caller's rights",
     .run = read_a_project_of_root},
    {.name = "read_a_project_through_a_link",
     .tries = "the same through a symbolic link",
     .where = MEDIUM,
     .wall = "launcher: projects are opened with the caller's rights",
     .run = read_a_project_through_a_link},
    {.name = "stop_project_openers",
     .tries = "stop the processes that send the caller's own project, and have others wait for them",
     .where = MEDIUM,
     .wall = "daemon: no thread waits for a stream; launcher: kills who sends it",
     .run = stop_project_openers},
    {.name = "read_the_history_of_an_id",
     .tries = "take an id that root has used, and read its events",
     .where = MEDIUM,
     .wall = "daemon: an event is its owner's of that time",
     .run = read_the_history_of_an_id},
};

const struct attack_table attacks_on_service = ATTACK_TABLE("The service and its host", on_service);
