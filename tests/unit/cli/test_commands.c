/* Whole command lines that need no service: what they print and what they exit with. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"
#include "client/peer.h"

enum { WORDS_MAX = 16, OUTPUT_BYTES = 65536 };

struct outcome {
    int exit_code;
    char out[OUTPUT_BYTES];
    char err[OUTPUT_BYTES];
};

/* Put a file in the place of a descriptor; the result undoes it. */
static int redirect(FILE *stream, int into) {
    fflush(stream);
    int kept = dup(fileno(stream));
    dup2(into, fileno(stream));
    return kept;
}

static void restore(FILE *stream, int kept, int file, char ret[OUTPUT_BYTES]) {
    fflush(stream);
    dup2(kept, fileno(stream));
    close(kept);
    ssize_t size = pread(file, ret, OUTPUT_BYTES - 1, 0);
    ret[size > 0 ? size : 0] = '\0';
    close(file);
}

static void run(struct outcome *outcome, const char *line) {
    char copy[1024], *words[WORDS_MAX] = {(char *)"sandbox"};
    int count = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word && count < WORDS_MAX; word = strtok(NULL, " ")) words[count++] = word;
    int out = open("/tmp", O_TMPFILE | O_RDWR, 0600), err = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    assert_true(out >= 0 && err >= 0);
    int kept_out = redirect(stdout, out), kept_err = redirect(stderr, err);
    outcome->exit_code = cli_main(count, words);
    restore(stdout, kept_out, out, outcome->out);
    restore(stderr, kept_err, err, outcome->err);
}

static void commands_exit_as_promised(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int exit_code;
        const char *out, *err; /* parts that must be there; NULL: nothing at all */
    } cases[] = {
        {"", 2, NULL, "usage: sandbox COMMAND"},
        {"--help", 0, "usage: sandbox COMMAND", NULL},
        {"-h", 0, "usage: sandbox COMMAND", NULL},
        {"help", 0, "Exit codes", NULL},
        {"op --help", 0, "usage: sandbox op NAME", NULL},
        {"completion -h", 0, "usage: sandbox completion bash", NULL},
        {"help create", 0, "usage: sandbox create ID SOURCE", NULL},
        {"help op", 0, "usage: sandbox op NAME", NULL},
        {"create --help", 0, "usage: sandbox create ID SOURCE", NULL},
        {"help nothing", 2, NULL, "there is no command"},
        {"lisst", 2, NULL, "did you mean list?"},
        {"--nonsense", 2, NULL, "there is no flag --nonsense"},
        {"info", 2, NULL, "usage: sandbox info ID"},
        {"version", 0, "sandbox " SANDBOX_VERSION "\n", NULL},
        {"version --json", 0, "{\"version\":\"" SANDBOX_VERSION "\"}\n", NULL},
        {"ops", 0, "/api/v1/sandboxes/:id/eval", NULL},
        {"ops --json", 0, "\"name\":\"create\"", NULL},
        {"op", 2, NULL, "name is missing"},
        {"op nothing", 2, NULL, "not an operation"},
        {"op version", 2, NULL, "not an operation"},
        {"op ops", 0, "\"name\":\"create\"", NULL},
        {"op info identity=x", 2, NULL, "no parameter \"identity\""},
        {"op info id", 2, NULL, "not NAME=VALUE"},
        {"completion bash", 0, "complete -F _sandbox sandbox", NULL},
        {"completion", 2, NULL, "the shell is missing"},
        {"completion fish", 2, NULL, "none for \"fish\"; bash"},
        {"list --no-autostart --home /nonexistent", 6, NULL, "The service does not answer"},
        {"list --home /dev/null", 2, NULL, "/dev/null/api.sock lies in no directory"},
        {"--home /nonexistent health", 6, NULL, "no service runs in /nonexistent"},
        {"list --no-autostart --home /nonexistent --json", 6, "\"code\":\"no_daemon\"", NULL},
        {"info --json", 2, "\"code\":\"invalid_input\"", NULL},
        {"shutdown --home /nonexistent", 0, NULL, "no service is running"},
        {"shutdown --home /nonexistent --json", 0, "{}\n", NULL},
        {"destroy a b --no-autostart --home /nonexistent --json", 6, "[{", NULL},
    };
    static struct outcome outcome;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        run(&outcome, cases[i].line);
        if (outcome.exit_code != cases[i].exit_code)
            fail_msg("'%s' exits with %d: %s", cases[i].line, outcome.exit_code, outcome.err);
        bool out_fits = cases[i].out ? strstr(outcome.out, cases[i].out) != NULL : !*outcome.out;
        bool err_fits = cases[i].err ? strstr(outcome.err, cases[i].err) != NULL : !*outcome.err;
        if (!out_fits) fail_msg("'%s' prints: %s", cases[i].line, outcome.out);
        if (!err_fits) fail_msg("'%s' says: %s", cases[i].line, outcome.err);
    }
}

static void the_command_lines_own_flags_are_not_sent(void **state) {
    (void)state;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\n"
                                 "Connection: close\r\n\r\n{\"items\":[],\"next\":null}";
    static const char *const lines[] = {"top --once --interval 1s", "stats", "stats --follow --history day"};
    static struct outcome outcome;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct peer peer = {.silent = false};
        char line[256];
        assert_true(peer_start(&peer, (const char *const[]){answer}, 1));
        snprintf(line, sizeof line, "%s --no-autostart --home %s", lines[i], peer.home);
        run(&outcome, line);
        if (outcome.exit_code != 0) fail_msg("'%s' says: %s", line, outcome.err);
        assert_true(string_starts(buf_string(&peer.requests[0]), "GET /api/v1/top?by=memory&count=20 HTTP"));
        peer_stop(&peer);
    }
}

static void a_home_too_long_is_bad_usage(void **state) {
    (void)state;
    static struct outcome outcome;
    char line[256] = "list --home /";
    memset(line + strlen(line), 'h', 150);
    run(&outcome, line);
    assert_int_equal(outcome.exit_code, 2);
    assert_non_null(strstr(outcome.err, "a socket's path leaves it"));
}

static void a_probe_reads_as_the_service_answers(void **state) {
    (void)state;
    char text[] = "namespaces=1 own view of processes\ncgroups=0\ncgroup_version=2\nnonsense\nroot=0\n";
    CLEANUP_JSON json_t *answer = probe_read(text);
    CLEANUP_JSON json_t *expected = json_loads("{\"guarantees\":[{\"name\":\"namespaces\",\"given\":true,"
                                               "\"meaning\":\"own view of processes\"},{\"name\":\"cgroups\","
                                               "\"given\":false,\"meaning\":\"\"}],\"cgroup_version\":2,\"root\":0}",
                                               0, NULL);
    assert_true(json_equal(answer, expected));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_exit_as_promised),
        cmocka_unit_test(the_command_lines_own_flags_are_not_sent),
        cmocka_unit_test(a_home_too_long_is_bad_usage),
        cmocka_unit_test(a_probe_reads_as_the_service_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
