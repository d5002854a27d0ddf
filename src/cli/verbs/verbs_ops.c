/* `ops`, `op` and `help`: the operation table itself, and any operation by its name. */
#include <string.h>

#include "cli/cli_internal.h"

/* ---- the table ---- */

int verb_ops(struct cli *cli, const struct op *op, struct arguments *arguments) {
    (void)op, (void)arguments;
    static const struct column columns[] = {
        {"NAME", "name", false}, {"METHOD", "method", false}, {"PATH", "path", false},
        {"ROLE", "role", false}, {"SHAPE", "shape", false},   {"SUMMARY", "summary", false},
    };
    CLEANUP_JSON json_t *operations = ops_describe();
    if (cli->json)
        view_json(stdout, operations);
    else
        columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), operations);
    return 0;
}

/* ---- op NAME K=V… ---- */

/* Values that read as JSON are JSON, all else is text: `code=1+1`, `follow=true`, `env={"A":"b"}`. */
static json_t *read_value(const struct op_param *param, const char *text) {
    static const bool structured_types[OP_TYPE_COUNT] = {[OP_TEXTS] = true, [OP_PATHS] = true, [OP_EXPRESSIONS] = true,
                                                         [OP_PAIRS] = true, [OP_FILES] = true, [OP_MOUNTS] = true};
    bool structured = structured_types[param->type];
    json_t *value = structured ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return value ? value : json_string(text);
}

static int read_pair(const struct op *op, const char *word, json_t *params, struct error *reterr) {
    size_t size = strcspn(word, "=");
    if (!word[size]) return error_set(reterr, E_INVALID, "\"%.64s\" is not NAME=VALUE", word);
    CLEANUP_FREE char *name = strndup(word, size);
    const struct op_param *param = name ? ops_param(op, name) : NULL;
    if (!param) return error_set(reterr, E_INVALID, "%s has no parameter \"%.64s\"", op->name, name ? name : "");
    if (json_object_set_new(params, name, read_value(param, word + size + 1)) < 0)
        return error_set(reterr, E_INVALID, "%s is not UTF-8 text", name);
    return 0;
}

static int read_pairs(struct cli *cli, const struct op *op, int count, char **words, json_t *params,
                      struct error *reterr) {
    while (count > 0) {
        int taken = words[0][0] == '-' ? args_take_global(cli, count, words, reterr) : 0;
        if (taken < 0) return taken;
        if (taken == 0) {
            int result = read_pair(op, words[0], params, reterr);
            if (result < 0) return result;
            taken = 1;
        }
        words += taken;
        count -= taken;
    }
    return 0;
}

int command_op(struct cli *cli, int count, char **words) {
    struct error error;
    if (count < 1 || words[0][0] == '-') {
        error_set(&error, E_INVALID, "op: an operation's name is missing; sandbox ops lists them");
        return fail_usage(cli, NULL, &error);
    }
    const struct op *op = ops_find(words[0]);
    if (!op || !op->path) {
        error_set(&error, E_INVALID, "op: \"%.64s\" is not an operation of the service; sandbox ops lists them",
                  words[0]);
        return fail_usage(cli, NULL, &error);
    }
    CLEANUP(arguments_free) struct arguments arguments = {.params = json_object()};
    if (read_pairs(cli, op, count - 1, words + 1, arguments.params, &error) < 0) return fail_usage(cli, op, &error);
    cli->json = true;
    return op->start == OP_LOCAL ? verb_ops(cli, op, &arguments) : verb_any(cli, op, &arguments);
}

/* ---- help ---- */

int command_help(struct cli *cli, int count, char **words) {
    const struct op *op = count > 0 ? ops_find(words[0]) : NULL;
    const struct command *command = count > 0 ? commands_find(words[0]) : NULL;
    if (op) {
        usage_print_op(stdout, op);
    } else if (command) {
        printf("%s: %s\n\nusage: sandbox %s\n", command->name, command->summary, command->usage);
    } else if (count > 0 && words[0][0] != '-') {
        struct error error;
        error_set(&error, E_INVALID, "there is no command \"%.64s\"", words[0]);
        return fail_usage(cli, NULL, &error);
    } else {
        usage_print_all(stdout);
    }
    return 0;
}
