/* Reads the words of a command line by the rows of the operation table: flags, positional words, global options. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cli/cli_internal.h"

/* The words of a command line that are still to be read. */
struct words {
    char **at;
    int left;
    bool flags_over;   /* "--" was seen */
    bool are_verbatim; /* so is "--" itself: a parameter takes all of them */
};

struct parse {
    struct cli *cli;
    const struct op *op;
    struct words words;
    struct arguments *into;
    size_t positional; /* index of the next parameter that takes a bare word */
};

void arguments_free(struct arguments *arguments) {
    json_decref(arguments->params);
    json_decref(arguments->rest);
}

void args_flag_name(const struct op_param *param, char *ret, size_t size) {
    snprintf(ret, size, "%s", param->flag ? param->flag : param->name);
    for (char *at = ret; *at; at++)
        if (*at == '_') *at = '-';
}

void args_placeholder(const struct op_param *param, char *ret, size_t size) {
    snprintf(ret, size, "%s", param->type == OP_CHOICE ? param->choices : param->flag ? param->flag : param->name);
    if (param->type == OP_CHOICE) return;
    for (char *at = ret; *at; at++) *at = (char)toupper((unsigned char)*at);
}

/* ---- flags of every command ---- */

static int set_home(struct cli *cli, const char *value, struct error *reterr) {
    if (!*value) return error_set(reterr, E_INVALID, "--home: the directory's name is empty");
    cli->home = value;
    return 0;
}

static int set_timeout(struct cli *cli, const char *value, struct error *reterr) {
    uint64_t timeout_ms;
    if (!parse_duration(value, &timeout_ms) || timeout_ms == 0 || timeout_ms > UINT32_MAX)
        return error_set(reterr, E_INVALID, "--timeout: \"%.40s\" is not a duration such as 250ms, 5s or 1h", value);
    cli->timeout_ms = (uint32_t)timeout_ms;
    return 0;
}

static int set_json(struct cli *cli, const char *value, struct error *reterr) {
    (void)value, (void)reterr;
    cli->json = true;
    return 0;
}

static int set_no_autostart(struct cli *cli, const char *value, struct error *reterr) {
    (void)value, (void)reterr;
    cli->no_autostart = true;
    return 0;
}

static int set_help(struct cli *cli, const char *value, struct error *reterr) {
    (void)value, (void)reterr;
    cli->wants_help = true;
    return 0;
}

static const struct {
    const char *word;
    bool has_value;
    int (*set)(struct cli *cli, const char *value, struct error *reterr);
} globals[] = {
    {"--home", true, set_home},  {"--timeout", true, set_timeout}, {"--json", false, set_json},
    {"--help", false, set_help}, {"-h", false, set_help},          {"--no-autostart", false, set_no_autostart},
};

int args_take_global(struct cli *cli, int count, char **words, struct error *reterr) {
    size_t size = strcspn(words[0], "=");
    const char *inside = words[0][size] ? words[0] + size + 1 : NULL;
    for (size_t i = 0; i < ARRAY_SIZE(globals); i++) {
        if (strlen(globals[i].word) != size || strncmp(globals[i].word, words[0], size) != 0) continue;
        if (!globals[i].has_value && inside) return error_set(reterr, E_INVALID, "%s takes no value", globals[i].word);
        if (globals[i].has_value && !inside && count < 2)
            return error_set(reterr, E_INVALID, "%s needs a value", globals[i].word);
        const char *value = inside || !globals[i].has_value ? inside : words[1];
        int result = globals[i].set(cli, value, reterr);
        return result < 0 ? result : globals[i].has_value && !inside ? 2 : 1;
    }
    return 0;
}

/* ---- values ---- */

int args_absolute_path(const char *path, char ret[PATH_MAX], struct error *reterr) {
    if (realpath(path, ret)) return 0;
    char here[PATH_MAX];
    while (string_starts(path, "./") && path[2] != '/' && path[2]) path += 2;
    if (path[0] == '/') return string_format(ret, PATH_MAX, reterr, "%s", path);
    if (!getcwd(here, sizeof here)) return error_errno(reterr, errno, "finding the working directory");
    return string_format(ret, PATH_MAX, reterr, "%s/%s", here, path);
}

/* A word as the JSON that the row's check takes. */
static int read_word(const struct op_param *param, const char *word, json_t **ret, struct error *reterr) {
    char path[PATH_MAX];
    uint64_t ignored;
    if (param->type == OP_PATH) {
        int result = args_absolute_path(word, path, reterr);
        if (result < 0) return result;
        word = path;
    }
    if (param->type == OP_DURATION && parse_u64(word, &ignored))
        return error_set(reterr, E_INVALID, "%s has no unit: write %ss or %sms", word, word, word);
    json_t *value = json_string(word);
    if (!value) return error_set(reterr, E_INVALID, "the text is not UTF-8");
    *ret = value;
    return 0;
}

/* In a list of paths "-" is the standard input and stays as it is. */
static int add_text(json_t *params, const struct op_param *param, const char *word, struct error *reterr) {
    json_t *list = json_object_get(params, param->name);
    char path[PATH_MAX];
    if (param->type == OP_PATHS && strcmp(word, "-") != 0) {
        int result = args_absolute_path(word, path, reterr);
        if (result < 0) return result;
        word = path;
    }
    if (!list) json_object_set_new(params, param->name, list = json_array());
    if (json_array_append_new(list, json_string(word)) < 0)
        return error_set(reterr, E_INVALID, "the text is not UTF-8");
    return 0;
}

/* A folder by its real path, as the service wants it; a volume by its name, as it is. */
static int add_mount(json_t *params, const struct op_param *param, const char *word, struct error *reterr) {
    struct mount_text mount;
    char path[PATH_MAX];
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    int result = mount_text_parse(word, &mount, reterr);
    bool is_folder = result == 0 && mount_text_is_folder(mount.source);
    if (is_folder) result = args_absolute_path(mount.source, path, reterr);
    if (result < 0) return result;
    buf_printf(&text, "%s:%s%s", is_folder ? path : mount.source, mount.place, mount.is_read_only ? ":ro" : "");
    return add_text(params, param, buf_string(&text), reterr);
}

static int add_pair(json_t *params, const struct op_param *param, const char *word, struct error *reterr) {
    size_t size = strcspn(word, "=");
    if (!word[size] || size == 0) return error_set(reterr, E_INVALID, "\"%.64s\" is not NAME=VALUE", word);
    json_t *pairs = json_object_get(params, param->name);
    if (!pairs) json_object_set_new(params, param->name, pairs = json_object());
    if (json_object_setn_new(pairs, word, size, json_string(word + size + 1)) < 0)
        return error_set(reterr, E_INVALID, "the text is not UTF-8");
    return 0;
}

/* The service gets the name alone of the path; what stays here keeps all of it. */
static int add_file(json_t *params, const struct op_param *param, const char *word, struct error *reterr) {
    const char *slash = strrchr(word, '/');
    const char *name = slash && !(param->flags & OP_CLIENT) ? slash + 1 : word;
    json_t *files = json_object_get(params, param->name), *text = NULL;
    if (json_object_get(files, name)) return error_set(reterr, E_INVALID, "a file of this name is given twice");
    int result = given_file_read(word, &text, reterr);
    if (result < 0) return result;
    if (!files) json_object_set_new(params, param->name, files = json_object());
    if (json_object_set_new(files, name, text) < 0) return error_set(reterr, E_INVALID, "the file's name is not UTF-8");
    return 0;
}

/* Check now, so that the complaint can speak of the flag the user wrote. */
static int add_value(struct parse *parse, const struct op_param *param, const char *word, struct error *reterr) {
    json_t *params = parse->into->params;
    if (param->type == OP_TEXTS || param->type == OP_WORDS || param->type == OP_EXPRESSIONS || param->type == OP_PATHS)
        return add_text(params, param, word, reterr);
    if (param->type == OP_MOUNTS) return add_mount(params, param, word, reterr);
    if (param->type == OP_PAIRS) return add_pair(params, param, word, reterr);
    if (param->type == OP_FILES) return add_file(params, param, word, reterr);
    if (json_object_get(params, param->name)) return error_set(reterr, E_INVALID, "given twice");
    CLEANUP_JSON json_t *value = NULL;
    json_t *checked = NULL;
    int result = read_word(param, word, &value, reterr);
    if (result == 0) result = ops_convert(param, value, &checked, reterr);
    if (result < 0) return result;
    if (param->flags & OP_REST)
        json_array_append_new(parse->into->rest, checked);
    else
        json_object_set_new(params, param->name, checked);
    return 0;
}

/* ---- words ---- */

static const struct op_param *find_flag(const struct op *op, const char *name, size_t size) {
    for (size_t i = 0; i < op->param_count; i++) {
        char flag[64];
        args_flag_name(&op->params[i], flag, sizeof flag);
        if (!(op->params[i].flags & OP_POSITIONAL) && strlen(flag) == size && strncmp(flag, name, size) == 0)
            return &op->params[i];
    }
    return NULL;
}

static int unknown_flag(const struct parse *parse, const char *word, struct error *reterr) {
    char names[32][64];
    const char *known[ARRAY_SIZE(names)];
    size_t count = 0;
    for (size_t i = 0; i < parse->op->param_count && count < ARRAY_SIZE(names); i++) {
        if (parse->op->params[i].flags & OP_POSITIONAL) continue;
        memcpy(names[count], "--", 2);
        args_flag_name(&parse->op->params[i], names[count] + 2, sizeof names[count] - 2);
        known[count] = names[count];
        count++;
    }
    const char *nearest = usage_nearest(word, known, count);
    if (nearest) return error_set(reterr, E_INVALID, "there is no flag %.40s; did you mean %s?", word, nearest);
    return error_set(reterr, E_INVALID, "there is no flag %.40s; after -- a word may begin with a dash", word);
}

static const char *long_flag(const char *word) {
    static const struct {
        const char *word, *flag;
    } short_flags[] = {{"-e", "--env"}, {"-p", "--publish"}, {"-v", "--volume"}};
    for (size_t i = 0; i < ARRAY_SIZE(short_flags); i++)
        if (strcmp(short_flags[i].word, word) == 0) return short_flags[i].flag;
    return word;
}

static int take_flag(struct parse *parse, struct error *reterr) {
    const char *word = long_flag(parse->words.at[0]);
    size_t size = strcspn(word, "=");
    const struct op_param *param = string_starts(word, "--") ? find_flag(parse->op, word + 2, size - 2) : NULL;
    if (!param) {
        int taken = args_take_global(parse->cli, parse->words.left, parse->words.at, reterr);
        return taken ? taken : unknown_flag(parse, word, reterr);
    }
    bool inside = word[size] == '=';
    bool alone = param->type == OP_BOOLEAN && !inside;
    if (!inside && !alone && parse->words.left < 2) return error_set(reterr, E_INVALID, "%s needs a value", word);
    const char *value = alone ? "true" : inside ? word + size + 1 : parse->words.at[1];
    if (add_value(parse, param, value, reterr) < 0) return error_prefix(reterr, "%.*s", (int)size, word);
    return alone || inside ? 1 : 2;
}

static const struct op_param *next_positional(struct parse *parse) {
    for (; parse->positional < parse->op->param_count; parse->positional++) {
        const struct op_param *param = &parse->op->params[parse->positional];
        if (!(param->flags & OP_POSITIONAL)) continue;
        bool takes_all =
            (param->flags & OP_REST) || param->type == OP_PATHS || param->type == OP_WORDS || param->type == OP_PAIRS;
        if (!takes_all) parse->positional++;
        return param;
    }
    return NULL;
}

static int take_word(struct parse *parse, struct error *reterr) {
    const char *word = parse->words.at[0];
    bool has_flags = !parse->words.flags_over && !parse->words.are_verbatim;
    if (has_flags && strcmp(word, "--") == 0) {
        parse->words.flags_over = true;
        return 1;
    }
    if (has_flags && word[0] == '-' && word[1]) return take_flag(parse, reterr);
    const struct op_param *param = next_positional(parse);
    if (!param) return error_set(reterr, E_INVALID, "\"%.64s\" is one word too many", word);
    char placeholder[64];
    args_placeholder(param, placeholder, sizeof placeholder);
    if (add_value(parse, param, word, reterr) < 0) return error_prefix(reterr, "%s", placeholder);
    if (param->flags & OP_VERBATIM) parse->words.are_verbatim = true;
    return 1;
}

static int check_missing(const struct parse *parse, struct error *reterr) {
    for (size_t i = 0; i < parse->op->param_count; i++) {
        const struct op_param *param = &parse->op->params[i];
        bool given = param->flags & OP_REST ? json_array_size(parse->into->rest) > 0
                                            : json_object_get(parse->into->params, param->name) != NULL;
        if (!(param->flags & OP_REQUIRED) || given) continue;
        char word[64];
        args_placeholder(param, word, sizeof word);
        return error_set(reterr, E_INVALID, "%s is missing: %s", word, param->summary);
    }
    return 0;
}

int args_parse(struct cli *cli, const struct op *op, int count, char **words, struct arguments *ret,
               struct error *reterr) {
    CLEANUP(arguments_free) struct arguments arguments = {.params = json_object()};
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_REST) arguments.rest = json_array();
    struct parse parse = {.cli = cli, .op = op, .words = {.at = words, .left = count}, .into = &arguments};
    while (parse.words.left > 0 && !cli->wants_help) {
        int taken = take_word(&parse, reterr);
        if (taken < 0) return taken;
        parse.words.at += taken;
        parse.words.left -= taken;
    }
    int result = cli->wants_help ? 0 : check_missing(&parse, reterr);
    if (result == 0) result = given_files_merge(op, arguments.params, reterr);
    if (result < 0) return result;
    *ret = arguments;
    arguments = (struct arguments){NULL, NULL};
    return 0;
}
