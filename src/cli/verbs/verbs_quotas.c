/* quotas: what each user holds and may hold. The service knows users by number; the names are looked up here. */
#include <pwd.h>
#include <string.h>

#include "cli/cli_internal.h"

/* The service never asks the system for names, which can take long: it is done here. */
static void number_user(json_t *params) {
    const char *name = json_string_value(json_object_get(params, "user"));
    uint64_t number;
    if (!name || parse_u64(name, &number)) return;
    const struct passwd *user = getpwnam(name);
    if (user) json_object_set_new(params, "user", json_sprintf("%u", user->pw_uid));
}

static json_t *user_of(json_t *row) {
    json_t *uid = json_object_get(row, "principal"), *name = json_object_get(row, "user");
    if (json_is_string(name)) return json_incref(name);
    const struct passwd *user = json_is_integer(uid) ? getpwuid((uid_t)json_integer_value(uid)) : NULL;
    if (user) return json_string(user->pw_name);
    return json_is_integer(uid) ? json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(uid)) : json_null();
}

static json_t *amount_of(json_t *row, const char *key) {
    static const struct {
        const char *unit, *key, *suffix;
    } units[] = {{"bytes", "_bytes", ""}, {"percent", "_percent", ""}, {"bytes_per_minute", "_bytes", "/min"}};
    json_t *value = json_object_get(row, key);
    const char *unit = json_string_value(json_object_get(row, "unit"));
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (json_is_null(value)) return json_string("unlimited");
    size_t i = 0;
    while (i < ARRAY_SIZE(units) && !string_equal(units[i].unit, unit)) i++;
    format_value(i < ARRAY_SIZE(units) ? units[i].key : "", value, &text);
    if (i < ARRAY_SIZE(units)) buf_append_string(&text, units[i].suffix);
    return json_string(buf_string(&text));
}

static void show_principals(const struct cli *cli, json_t *list) {
    static const struct column columns[] = {{"USER", "user", false},
                                            {"QUOTA", "quota", false},
                                            {"USED", "used", true},
                                            {"LIMIT", "limit", true},
                                            {"RULE", "rule", false}};
    CLEANUP_JSON json_t *rows = json_array();
    size_t index;
    json_t *row;
    json_array_foreach(list, index, row) {
        if (json_is_null(json_object_get(row, "principal"))) continue;
        json_t *rule = json_object_get(row, "rule");
        json_array_append_new(rows, json_pack("{s:o, s:O?, s:o, s:o, s:o}", "user", user_of(row), "quota",
                                              json_object_get(row, "quota"), "used", amount_of(row, "used"), "limit",
                                              amount_of(row, "limit"), "rule",
                                              json_is_string(rule) ? json_incref(rule) : json_string("not bound")));
    }
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), rows);
}

/* Only an admin is told the rules. */
static void show_rules(const struct cli *cli, json_t *list) {
    static const struct column columns[] = {
        {"RULE", "rule", false}, {"QUOTA", "quota", false}, {"LIMIT", "limit", true}};
    CLEANUP_JSON json_t *rows = json_array();
    size_t index;
    json_t *row;
    json_array_foreach(list, index, row) {
        if (!json_is_null(json_object_get(row, "principal"))) continue;
        json_array_append_new(rows, json_pack("{s:O?, s:O?, s:o}", "rule", json_object_get(row, "rule"), "quota",
                                              json_object_get(row, "quota"), "limit", amount_of(row, "limit")));
    }
    if (json_array_size(rows) == 0) return;
    columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), rows);
    fputc('\n', stdout);
}

int verb_quotas(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *list = NULL;
    struct sbx_error error;
    number_user(arguments->params);
    if (session_call(cli, op, arguments->params, &list, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, list);
        return 0;
    }
    show_rules(cli, list);
    show_principals(cli, list);
    return 0;
}
