/* Commands on the service: version, profiles, toolchains, reload-config, doctor, shutdown. */
#include <string.h>

#include "cli/cli_internal.h"
#include "client/client.h"

enum { SHUTDOWN_MAX_MS = 30000 };

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

/* ---- profiles ---- */

static void add_names(struct buf *text, json_t *access, const char *key) {
    size_t index;
    json_t *name;
    json_array_foreach(json_object_get(access, key), index, name) {
        if (index == 0) buf_printf(text, "%s%s ", text->size > 0 ? "; " : "", key);
        buf_printf(text, "%s%s", index > 0 ? ", " : "", json_string_value(name));
    }
}

/* The users that a profile is for: "everyone", "users alice, bob; groups staff", or "admins". */
static void add_access(json_t *profiles) {
    size_t index;
    json_t *profile;
    json_array_foreach(profiles, index, profile) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        json_t *access = json_object_get(profile, "access");
        add_names(&text, access, "users");
        add_names(&text, access, "groups");
        if (text.size == 0) buf_append_string(&text, json_is_object(access) ? "admins" : "everyone");
        json_object_set_new(profile, "for", json_string(buf_string(&text)));
    }
}

/* ---- volumes ---- */

int verb_volumes(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {{"NAME", "name", false},
                                            {"SIZE", "size_bytes", true},
                                            {"OWNER", "owner", false},
                                            {"SANDBOXES", "sandboxes", false}};
    CLEANUP_JSON json_t *volumes = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &volumes, &error) < 0) return fail_call(cli, &error);
    if (cli->json)
        view_json(stdout, volumes);
    else
        columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), volumes);
    return 0;
}

/* The columns that people choose by; JSON has the rest. */
int verb_profiles(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {
        {"NAME", "name", false},
        {"ISOLATION", "isolation", false},
        {"MEMORY", "memory_bytes", true},
        {"CPU", "cpu_percent", true},
        {"PROCESSES", "processes", true},
        {"MAX RUN", "max_run_ms", true},
        {"DISK", "disk_bytes", true},
        {"NETWORK", "network", false},
        {"EXEC", "may_exec", false},
        {"VIOLATION", "on_violation", false},
        {"FOR", "for", false},
        {"SUMMARY", "summary", false},
    };
    CLEANUP_JSON json_t *profiles = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &profiles, &error) < 0) return fail_call(cli, &error);
    if (!cli->json) add_access(profiles);
    if (cli->json)
        view_json(stdout, profiles);
    else
        columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), profiles);
    return 0;
}

/* ---- toolchains ---- */

int verb_toolchains(struct cli *cli, const struct op *op, struct arguments *arguments) {
    static const struct column columns[] = {
        {"NAME", "name", false},     {"OTP", "otp", false},         {"ELIXIR", "elixir", false},
        {"SOURCE", "source", false}, {"PATH", "path", false},       {"DEFAULT", "default", false},
        {"USABLE", "usable", false}, {"PROBLEM", "problem", false},
    };
    CLEANUP_JSON json_t *toolchains = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &toolchains, &error) < 0) return fail_call(cli, &error);
    if (cli->json)
        view_json(stdout, toolchains);
    else
        columns_print(stdout, cli->out_colour, columns, ARRAY_SIZE(columns), toolchains);
    return 0;
}

/* ---- reload-config ---- */

static void print_names(FILE *out, const char *what, json_t *names) {
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    if (json_array_size(names) == 0) return;
    format_value("names", names, &line);
    fprintf(out, "%s%s\n", what, buf_string(&line));
}

int verb_reload_config(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &answer, &error) < 0) return fail_call(cli, &error);
    if (cli->json) {
        view_json(stdout, answer);
        return 0;
    }
    if (json_array_size(json_object_get(answer, "changed")) == 0) puts("nothing has changed");
    print_names(stdout, "changed: ", json_object_get(answer, "changed"));
    print_names(stderr, "these have effect when the service starts: ", json_object_get(answer, "at_start"));
    return 0;
}

/* ---- shutdown ---- */

/* Never starts a service; but one whose launcher has died needs a new one, to end its nodes. */
static int open_to_end(struct cli *cli, const struct op *op, struct sbx_error *reterr) {
    int result = session_open(cli, op->start, reterr);
    if (result < 0 || cli->no_autostart) return result;
    session_close(cli);
    return session_open(cli, OP_STARTS_SERVICE, reterr);
}

int verb_shutdown(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    CLEANUP(client_watch_close) struct client_watch watch = {{-1, -1}};
    struct progress *progress = progress_start(cli, "shutting down");
    int result = open_to_end(cli, op, &error);
    if (result == 0) client_watch_open(sbx_home(cli->sbx), &watch);
    if (result == 0) result = session_call(cli, op, arguments->params, &answer, &error);
    /* The user may want to remove the home next, so wait for the programs and not only for the answer. */
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

/* "✗ node_failed            run of counter failed 10 times; restart the sandbox" */
static void view_patterns(const struct cli *cli, json_t *patterns) {
    size_t index;
    json_t *entry;
    json_array_foreach(patterns, index, entry) {
        CLEANUP(buf_free) struct buf line = BUF_INIT;
        const char *code = json_string_value(json_object_get(entry, "code"));
        const char *op = json_string_value(json_object_get(entry, "op"));
        const char *id = json_string_value(json_object_get(entry, "sandbox_id"));
        const char *advice = json_string_value(json_object_get(entry, "advice"));
        buf_printf(&line, "%s%s%s failed %lld times of late", op ? op : "", id ? " of " : "", id ? id : "",
                   (long long)json_integer_value(json_object_get(entry, "count")));
        if (advice && advice[0]) buf_printf(&line, "; %s", advice);
        check_line(cli, false, code ? code : "", buf_string(&line));
    }
}

static void view_doctor(const struct cli *cli, json_t *answer) {
    json_t *guarantees = json_object_get(answer, "guarantees");
    if (json_is_array(guarantees)) view_checks(cli, guarantees);
    view_patterns(cli, json_object_get(answer, "patterns"));
    CLEANUP_JSON json_t *others = json_copy(answer);
    json_object_del(others, "patterns");
    if (json_is_array(guarantees)) json_object_del(others, "guarantees");
    view_object(stdout, cli->out_colour, others);
}

int verb_doctor(struct cli *cli, const struct op *op, struct arguments *arguments) {
    CLEANUP_JSON json_t *answer = NULL;
    struct sbx_error error;
    if (session_call(cli, op, arguments->params, &answer, &error) < 0) {
        /* No service: the machine can still be looked at. */
        sbx_error_clear(&error);
        struct error local;
        if (probe_run(&answer, &local) < 0) return fail_local(cli, &local);
    }
    if (cli->json)
        view_json(stdout, answer);
    else
        view_doctor(cli, answer);
    return 0;
}
