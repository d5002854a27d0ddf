/* Prints the bash completion, made from the operation table. */
#include <string.h>

#include "cli/cli_internal.h"

/* Ids come from a running service: a press of the Tab key starts none. */
static const char head[] = "_sandbox_ids() {\n"
                           "    sandbox list --no-autostart --timeout 1s 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
                           "}\n"
                           "_sandbox() {\n"
                           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                           "    local command=${COMP_WORDS[1]} common='--json --home --timeout --no-autostart --help'\n"
                           "    COMPREPLY=()\n"
                           "    case $before in\n";

static const char tail[] = "    *) COMPREPLY=($(compgen -W \"$common\" -- \"$word\")) ;;\n"
                           "    esac\n"
                           "}\n"
                           "complete -F _sandbox sandbox\n";

static void print_spaced(FILE *out, const char *choices) {
    for (const char *at = choices; *at; at++) fputc(*at == '|' ? ' ' : *at, out);
}

/* What may follow a flag. Flags of one name have the same choices in every operation. */
static void print_flag_values(FILE *out) {
    fputs("    --home) COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n"
          "    --lang) COMPREPLY=($(compgen -W '",
          out);
    print_spaced(out, ops_param(ops_find("eval"), "language")->choices);
    fputs("' -- \"$word\")); return ;;\n"
          "    --format) COMPREPLY=($(compgen -W '",
          out);
    print_spaced(out, ops_param(ops_find("deps"), "format")->choices);
    fputs("' -- \"$word\")); return ;;\n"
          "    --restart) COMPREPLY=($(compgen -W 'never on-failure always' -- \"$word\")); return ;;\n"
          "    --profile) COMPREPLY=($(compgen -W 'high medium low' -- \"$word\")); return ;;\n"
          "    --sandbox) COMPREPLY=($(compgen -W \"$(_sandbox_ids)\" -- \"$word\")); return ;;\n"
          "    esac\n",
          out);
}

static void print_command_names(FILE *out) {
    size_t count;
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '", out);
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) fprintf(out, "%s ", table[i].name);
    const struct command *commands = commands_table(&count);
    for (size_t i = 0; i < count; i++) fprintf(out, "%s ", commands[i].name);
    fputs("--help' -- \"$word\"))\n        return\n    fi\n", out);
}

static bool takes(const struct op *op, enum op_type type) {
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].type == type && (op->params[i].flags & OP_POSITIONAL)) return true;
    return false;
}

static void print_operation(FILE *out, const struct op *op) {
    fprintf(out, "    %s) COMPREPLY=($(compgen ", op->name);
    const struct op_param *target = ops_param(op, "target"); /* a path or an id */
    if (takes(op, OP_PATH) || target) fputs("-f ", out);
    fputs("-W \"$common", out);
    for (size_t i = 0; i < op->param_count; i++) {
        char flag[64];
        if (op->params[i].flags & OP_POSITIONAL) continue;
        args_flag_name(&op->params[i], flag, sizeof flag);
        fprintf(out, " --%s", flag);
    }
    const struct op_param *id = ops_param(op, "id");
    if (target || (id && (id->flags & OP_IN_PATH))) fputs(" $(_sandbox_ids)", out);
    fputs("\" -- \"$word\")) ;;\n", out);
}

void completion_print(FILE *out) {
    fputs(head, out);
    print_flag_values(out);
    print_command_names(out);
    fputs("    case $command in\n", out);
    size_t count;
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) print_operation(out, &table[i]);
    fputs(tail, out);
}

int command_completion(struct cli *cli, int count, char **words) {
    if (count == 1 && strcmp(words[0], "bash") == 0) {
        completion_print(stdout);
        return 0;
    }
    struct error error;
    if (count == 0)
        error_set(&error, E_INVALID, "completion: the shell is missing; bash is the one there is");
    else
        error_set(&error, E_INVALID, "completion: there is none for \"%.64s\"; bash is the one there is", words[0]);
    return fail_usage(cli, NULL, &error);
}
