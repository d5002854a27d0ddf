#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli_internal.h"
#include "client/client.h"

enum { PROBE_MAX_BYTES = 64 * 1024, SHUTDOWN_MAX_MS = 30000 };

extern char **environ;

/* ---- version ---- */

int verb_version(struct cli *cli, const struct op *op, struct arguments *arguments) {
    (void)op, (void)arguments;
    CLEANUP_JSON json_t *version = json_pack("{s:s}", "version", sbx_version());
    if (cli->json)
        view_json(stdout, version);
    else
        printf("sandbox %s\n", sbx_version());
    return 0;
}

/* ---- shutdown ---- */

int verb_shutdown(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    CLEANUP(client_watch_close) struct client_watch watch = {{-1, -1}};
    struct progress *progress = progress_start(cli, "shutting down");
    int result = session_open(cli, op->start, &error);
    if (result == 0) client_watch_open(sbx_home(cli->sbx), &watch);
    if (result == 0) result = session_call(cli, op, arguments->params, &answer, &error);
    /* Whoever asks may want to remove the home next, so wait for the programs and not only for the answer. */
    bool ended = client_watch_wait(&watch, result == 0 ? SHUTDOWN_MAX_MS : 0);
    progress_stop(progress);
    /* No service is what was asked for. */
    bool absent = result < 0 && strcmp(error.code, error_kind(E_NO_DAEMON)->slug) == 0;
    if (result < 0 && !absent) return fail_call(cli, &error);
    if (absent) {
        sbx_error_clear(&error);
        answer = json_object();
    }
    if (result == 0 && !ended) {
        struct error late;
        error_set(&late, E_TIMEOUT, "the service has not ended yet");
        return fail_local(cli, &late);
    }
    if (cli->json) view_json(stdout, answer);
    if (!cli->json && absent) fputs("no service is running\n", stderr);
    return 0;
}

/* ---- doctor ---- */

/* The launcher's probe prints "NAME=0|1 MEANING" for each guarantee and "FACT=N" for the rest. */
static void read_probe_line(const char *line, json_t *answer, json_t *guarantees) {
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

/* In the shape in which the service answers. */
static json_t *read_probe(const char *text) {
    json_t *answer = json_object();
    json_t *guarantees = json_array();
    json_object_set_new(answer, "guarantees", guarantees);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        read_probe_line(line, answer, guarantees);
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

static int run_probe(struct buf *ret, struct error *reterr) {
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

static void check_line(const struct cli *cli, bool given, const char *name, const char *meaning) {
    fprintf(stdout, "%s%s%s ", style_code(cli->out_colour, given ? STYLE_GREEN : STYLE_RED), given ? "✓" : "✗",
            style_code(cli->out_colour, STYLE_PLAIN));
    printf("%-22s ", name);
    text_print(stdout, meaning);
    fputc('\n', stdout);
}

static void view_checks(const struct cli *cli, json_t *guarantees) {
    size_t index;
    json_t *entry;
    json_array_foreach(guarantees, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *meaning = json_string_value(json_object_get(entry, "meaning"));
        check_line(cli, json_is_true(json_object_get(entry, "given")), name ? name : "", meaning ? meaning : "");
    }
}

static void view_doctor(const struct cli *cli, json_t *answer) {
    json_t *guarantees = json_object_get(answer, "guarantees");
    if (json_is_array(guarantees)) view_checks(cli, guarantees);
    CLEANUP_JSON json_t *others = json_copy(answer);
    if (json_is_array(guarantees)) json_object_del(others, "guarantees");
    view_object(stdout, cli->out_colour, others);
}

int verb_doctor(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &answer, &error) < 0) {
        /* No service: the machine can still be looked at. */
        sbx_error_clear(&error);
        struct buf text = {.max = PROBE_MAX_BYTES};
        struct error local;
        int result = run_probe(&text, &local);
        if (result == 0) answer = read_probe(buf_string(&text));
        buf_free(&text);
        if (result < 0) return fail_local(cli, &local);
    }
    if (cli->json)
        view_json(stdout, answer);
    else
        view_doctor(cli, answer);
    return 0;
}
