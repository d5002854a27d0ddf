/* Asks the launcher what this host can enforce, without a service. `doctor` uses it. */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli_internal.h"
#include "client/client.h"

enum { PROBE_MAX_BYTES = 64 * 1024 };

extern char **environ;

/* The launcher's probe prints "NAME=0|1 MEANING" for each guarantee and "FACT=N" for the rest. */
static void read_line(const char *line, json_t *answer, json_t *guarantees) {
    static const char *const facts[] = {"cgroup_version", "landlock_abi", "root"};
    char name[64], meaning[256] = "";
    unsigned value;
    if (sscanf(line, "%63[^=]=%9u %255[^\n]", name, &value, meaning) < 2) return;
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
        if (strcmp(facts[i], name) == 0) {
            json_object_set_new(answer, name, json_integer(value));
            return;
        }
    json_array_append_new(guarantees, json_pack("{s:s, s:s, s:b}", "name", name, "meaning", meaning, "given", value));
}

json_t *probe_read(char *text) {
    json_t *answer = json_object();
    json_t *guarantees = json_array();
    json_object_set_new(answer, "guarantees", guarantees);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_line(line, answer, guarantees);
    return answer;
}

static int read_all(int fd, struct buf *ret, struct error *reterr) {
    char bytes[4096];
    ssize_t size;
    while ((size = read(fd, bytes, sizeof bytes)) != 0) {
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return error_errno(reterr, errno, "reading from the launcher");
        buf_append(ret, bytes, (size_t)size);
    }
    return ret->failed ? error_set(reterr, E_TOO_LARGE, "the launcher's probe said too much") : 0;
}

static int run_launcher(struct buf *ret, struct error *reterr) {
    char program[PATH_MAX];
    int result = client_find_program("sandbox-launcher", program, reterr);
    if (result < 0) return result;
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0) return error_errno(reterr, errno, "making a pipe");
    CLEANUP_FD int read_fd = pipe_fds[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[1]);
    char *words[] = {program, (char *)"--probe", NULL};
    pid_t pid;
    int spawned = posix_spawn(&pid, program, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    fd_close(pipe_fds[1]);
    if (spawned != 0) return error_errno(reterr, spawned, "starting %s", program);
    result = read_all(read_fd, ret, reterr);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (result == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        return error_set(reterr, E_SYSTEM, "%s --probe failed", program);
    return result;
}

int probe_run(json_t **ret, struct error *reterr) {
    struct buf output = {.max = PROBE_MAX_BYTES};
    int result = run_launcher(&output, reterr);
    CLEANUP_FREE char *text = buf_take_string(&output);
    if (result < 0) return result;
    if (!text) return error_set(reterr, E_NO_MEMORY, "no memory for the probe's answer");
    *ret = probe_read(text);
    return 0;
}
