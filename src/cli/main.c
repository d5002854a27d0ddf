/* Finds the command, reads its words and runs it. Operations without a view of their own share one. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "cli/cli_internal.h"

/* Operations that are shown in a way of their own; all others as verb_any shows them. */
static const struct {
    const char *op;
    verb_fn *run;
} verbs[] = {
    {"create", verb_create},
    {"run", verb_run},
    {"mix", verb_mix},
    {"list", verb_list},
    {"restart", verb_restart},
    {"eval", verb_eval},
    {"events", verb_events},
    {"logs", verb_logs},
    {"doctor", verb_doctor},
    {"shutdown", verb_shutdown},
    {"ops", verb_ops},
    {"version", verb_version},
    {"demo", verb_demo},
    {"compile", verb_compile},
    {"validate", verb_validate},
    {"deps", verb_deps},
    {"reload", verb_reload},
    {"rollback", verb_reload},
    {"versions", verb_versions},
    {"export", verb_export},
    {"scan", verb_scan},
    {"audit", verb_audit},
    {"publish", verb_publish},
    {"unpublish", verb_publish},
    {"freeze", verb_freeze},
    {"thaw", verb_freeze},
    {"watch", verb_watch},
    {"stats", verb_stats},
    {"top", verb_top},
    {"limits", verb_limits},
    {"profiles", verb_profiles},
    {"quotas", verb_quotas},
    {"toolchains", verb_toolchains},
    {"volumes", verb_volumes},
    {"reload-config", verb_reload_config},
};

static const struct command commands[] = {
    {"cp", "cp SRC DST", "Copy files and folders; SRC or DST is ID:PATH, below /data or /mnt of a sandbox", command_cp},
    {"op", "op NAME K=V…", "Run any operation by its name", command_op},
    {"completion", "completion bash", "Print a script that completes commands", command_completion},
    {"help", "help [COMMAND]", "Show this text, or that of a command", command_help},
};

const struct command *commands_table(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(commands);
    return commands;
}

const struct command *commands_find(const char *name) {
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static verb_fn *verb_of(const struct op *op) {
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i].op, op->name) == 0) return verbs[i].run;
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_REST) return verb_each;
    return verb_any;
}

static int run_op(struct cli *cli, const struct op *op, int count, char **words) {
    CLEANUP(arguments_free) struct arguments arguments = {NULL, NULL};
    struct error error;
    if (args_parse(cli, op, count, words, &arguments, &error) < 0) return fail_usage(cli, op, &error);
    cli->source = json_string_value(json_object_get(arguments.params, "source"));
    if (!cli->wants_help) return verb_of(op)(cli, op, &arguments);
    usage_print_op(stdout, op);
    return 0;
}

static int unknown_command(const struct cli *cli, const char *name) {
    size_t op_count, known_count = 0;
    const struct op *table = ops_table(&op_count);
    CLEANUP_FREE const char **known = calloc(op_count + ARRAY_SIZE(commands), sizeof *known);
    for (size_t i = 0; known && i < op_count; i++) known[known_count++] = table[i].name;
    for (size_t i = 0; known && i < ARRAY_SIZE(commands); i++) known[known_count++] = commands[i].name;
    const char *nearest = usage_nearest(name, known, known_count);
    struct error error;
    error_set(&error, E_INVALID, "there is no command \"%.64s\"%s%s%s", name, nearest ? "; did you mean " : "",
              nearest ? nearest : "", nearest ? "?" : "");
    return fail_usage(cli, NULL, &error);
}

/* `volume create` and the like, which are operations of their own. */
static const struct op *find_in_family(int count, char **words) {
    static const struct {
        const char *family, *word, *op;
    } members[] = {{"volume", "create", "volume-create"},
                   {"volume", "remove", "volume-remove"},
                   {"volume", "rm", "volume-remove"},
                   {"volume", "list", "volumes"},
                   {"volume", "ls", "volumes"}};
    for (size_t i = 0; count > 1 && i < ARRAY_SIZE(members); i++)
        if (strcmp(members[i].family, words[0]) == 0 && strcmp(members[i].word, words[1]) == 0)
            return ops_find(members[i].op);
    return NULL;
}

static bool asks_for_help(int count, char **words) {
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) return true;
    return false;
}

static int dispatch(struct cli *cli, int count, char **words) {
    struct error error;
    while (count > 0 && words[0][0] == '-' && !cli->wants_help) {
        int taken = args_take_global(cli, count, words, &error);
        if (taken == 0) taken = error_set(&error, E_INVALID, "there is no flag %.40s", words[0]);
        if (taken < 0) return fail_usage(cli, NULL, &error);
        words += taken;
        count -= taken;
    }
    if (cli->wants_help) return command_help(cli, count > 1 ? count - 1 : 0, words + 1);
    if (count == 0) {
        usage_print_all(stderr);
        return error_kind(E_INVALID)->exit_code;
    }
    const struct op *op = ops_find(words[0]), *member = find_in_family(count, words);
    const struct command *command = commands_find(words[0]);
    if (member) return run_op(cli, member, count - 2, words + 2);
    if (op) return run_op(cli, op, count - 1, words + 1);
    if (command && asks_for_help(count - 1, words + 1)) return command_help(cli, count, words);
    if (command) return command->run(cli, count - 1, words + 1);
    return unknown_command(cli, words[0]);
}

/* Output that never arrived is a failure, whatever else went well. */
static int flush_output(int exit_code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return exit_code;
    if (errno == EPIPE) return exit_code; /* the reader has seen enough */
    fprintf(stderr, "sandbox: writing the output: %s\n", strerror(errno));
    return exit_code ? exit_code : 1;
}

int cli_main(int count, char **words) {
    /* The parent process may ignore it; a closed pipe should end us quietly. */
    signal(SIGPIPE, SIG_DFL);
    const char *no_colour = getenv("NO_COLOR");
    bool colour = !no_colour || !*no_colour;
    struct cli cli = {
        .out_colour = colour && isatty(STDOUT_FILENO),
        .err_colour = colour && isatty(STDERR_FILENO),
        .err_is_terminal = isatty(STDERR_FILENO),
        .cancel_fd = -1,
    };
    int exit_code = dispatch(&cli, count - 1, words + 1);
    session_close(&cli);
    return flush_output(exit_code);
}
