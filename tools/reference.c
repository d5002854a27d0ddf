/* Prints docs/reference.md from the tables that the programs themselves use. */
#include <stdio.h>
#include <string.h>

#include "core/events.h"
#include "daemon/settings.h"
#include "guard/profiles.h"
#include "jail/jail.h"
#include "ops/table.h"

static const char *audience(const struct op *op) {
    return op->start == OP_LOCAL && !op->path ? "command line only" : ops_role_name(op->role);
}

static void print_flag(const struct op_param *param) {
    if (param->flags & OP_POSITIONAL) {
        printf("in its place");
        return;
    }
    printf("`--");
    for (const char *at = param->flag ? param->flag : param->name; *at; at++) putchar(*at == '_' ? '-' : *at);
    printf("`");
}

/* A bar would end the cell. */
static void print_type(const struct op_param *param) {
    for (const char *at = param->choices ? param->choices : ops_type_name(param->type); *at; at++)
        *at == '|' ? (void)printf(" or ") : (void)putchar(*at);
    if (param->flags & OP_REQUIRED) printf(", required");
    if (param->fallback) printf(", default %s", param->fallback);
}

static void print_param(const struct op_param *param) {
    printf("| `%s` | ", param->name);
    print_flag(param);
    printf(" | ");
    print_type(param);
    printf(" | %s |\n", param->summary);
}

static void print_op(const struct op *op) {
    printf("\n### %s\n\n%c%s. ", op->name, op->summary[0] - ('a' <= op->summary[0] && op->summary[0] <= 'z' ? 32 : 0),
           op->summary + 1);
    if (op->path)
        printf("`%s %s`, answers %s %s, for: %s.\n", op->method, op->path, op->shape == OP_OBJECT ? "an" : "a",
               ops_shape_name(op->shape), audience(op));
    else
        printf("For the %s.\n", audience(op));
    if (op->example) printf("\n```\n%s\n```\n", op->example);
    if (op->param_count == 0) return;
    printf("\n| parameter | command line | type | is |\n|---|---|---|---|\n");
    for (size_t i = 0; i < op->param_count; i++) print_param(&op->params[i]);
}

static void print_errors(void) {
    printf(
        "\n## Errors\n\nA failure is a problem object (RFC 9457): `type, title, status, detail, code, category, "
        "recovery, retry, advice, sandbox_id, errors[]`; a failed compilation has\n"
        "its compilation object in `result`. `retry` tells whether the same request may succeed later. So many of a "
        "kind "
        "within five minutes are a pattern.\n\n| code | HTTP | exit | category | recovery | retry | pattern | title | "
        "advice |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int code = E_NONE + 1; code < E_COUNT; code++) {
        const struct error_kind *kind = error_kind((enum error_code)code);
        char trips[16] = "-";
        if (kind->trips) snprintf(trips, sizeof trips, "%u", kind->trips);
        printf("| `%s` | %d | %d | %s | %s | %s | %s | %s | %s |\n", kind->slug, kind->http_status, kind->exit_code,
               error_category_name(kind->category), error_recovery_name(kind->recovery), kind->may_pass ? "yes" : "no",
               trips, kind->title, kind->advice);
    }
}

static void print_events(void) {
    printf("\n## Events\n\n`seq, time, kind, sandbox_id, owner, data`. `owner` is `uid:N`, or null for the service's "
           "own: an event is "
           "shown to\nthat user and to admins, also after another user has taken the id. A reader that records pass by "
           "gets "
           "the item\n`{\"skipped\": N}` in their place.\n\n| kind | tells | data |\n|---|---|---|\n");
#define X(name, slug, meaning, data) printf("| `%s` | %s | %s |\n", slug, meaning, data);
    EVENT_KIND_LIST(X)
#undef X
}

static void print_guarantees(void) {
    printf("\n## Guarantees\n\nWhat `doctor` checks, `lost_guarantees` lists and `--require` demands.\n\n| name | "
           "means |\n|---|---|\n");
    for (int i = 0; i < JAIL_GUARANTEE_COUNT; i++)
        printf("| `%s` | %s |\n", jail_guarantee_name((enum jail_guarantee)i),
               jail_guarantee_meaning((enum jail_guarantee)i));
}

/* "outgoing: public addresses, 10 MiB/s, 256 connections" */
static void describe_network(const struct jail_profile *profile, char *ret, size_t size) {
    const struct jail_limits *limits = &profile->limits;
    char rate[32] = "";
    if (profile->network != JAIL_NETWORK_OUTGOING) {
        snprintf(ret, size, "%s", profile->network == JAIL_NETWORK_NONE ? "none" : "its own loopback");
        return;
    }
    if (limits->network_rate_bytes)
        snprintf(rate, sizeof rate, "%llu MiB/s, ", (unsigned long long)limits->network_rate_bytes >> 20);
    snprintf(ret, size, "outgoing: %s, %s%llu connections",
             profile->egress.reach == JAIL_REACH_PUBLIC ? "public addresses" : "anywhere but the host's loopback", rate,
             (unsigned long long)limits->connections);
}

static void print_profiles(void) {
    size_t count;
    const struct jail_profile *profiles = jail_profiles(&count);
    printf("\n## Profiles\n\n| name | memory | CPU | processes | a run may take | disk | network | programs | for "
           "|\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        const struct jail_profile *profile = &profiles[i];
        char cpu[32] = "no cap", network[96];
        if (!profile->is_public) continue;
        describe_network(profile, network, sizeof network);
        if (profile->limits.cpu_percent)
            snprintf(cpu, sizeof cpu, "%llu %%", (unsigned long long)profile->limits.cpu_percent);
        printf("| `%s` | %llu MiB | %s | %llu | %llu s | %llu MiB | %s | %s | %s |\n", profile->name,
               (unsigned long long)profile->limits.memory_bytes >> 20, cpu,
               (unsigned long long)profile->limits.processes, (unsigned long long)profile->limits.max_run_ms / 1000,
               (unsigned long long)profile->limits.disk_bytes >> 20, network,
               profile->may_exec ? "any it sees" : "the VM and its helper", profile->summary);
    }
}

static void print_zero(const struct jail_limit_kind *kind) {
    const char *of = jail_limit_kind(kind->zero.of)->name;
    switch (kind->zero.meaning) {
    case JAIL_ZERO_IS_REFUSED: printf("-"); break;
    case JAIL_ZERO_IS_UNBOUND: printf("no bound"); break;
    case JAIL_ZERO_IS_SHARE: printf("`%s` / %u", of, kind->zero.parts); break;
    }
}

static void print_policies(const struct jail_limit_kind *kind) {
    bool is_first = true;
    printf("`%s`", jail_policy_name(kind->policy));
    for (unsigned i = 0; i < JAIL_POLICY_COUNT; i++) {
        if (i == kind->policy || !(kind->policies & 1u << i)) continue;
        printf("%s`%s`", is_first ? "; or " : ", ", jail_policy_name(i));
        is_first = false;
    }
}

static void print_limits(void) {
    printf("\n## Limits\n\n`sandbox limits` shows and changes them, `--limit NAME=VALUE:POLICY` of `create` and `run` "
           "sets them. Answers\nhave them by their fields. A profile's setting is the name, with dashes for "
           "underscores. The first policy is the one by\ndefault.\n\n| name | field | bounds | from, to | `none` is | "
           "held "
           "by | policies |\n|---|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(i);
        char least[QUANTITY_BYTES], most[QUANTITY_BYTES];
        jail_limit_to_text(i, kind->least, least);
        jail_limit_to_text(i, kind->most, most);
        printf("| `%s` | `%s` | %s | %s to %s | ", kind->name, kind->field, kind->summary, least, most);
        print_zero(kind);
        printf(" | %s | ", jail_holder_name(kind->holder));
        print_policies(kind);
        printf(" |\n");
    }
}

static void print_profile_setting(const char *name, const char *summary) {
    printf("| `%s` | %s |\n", name, summary);
}

static void print_profile_settings(void) {
    printf("\n## Settings of a profile\n\nLines `name = value` of a section `[profile NAME]` of `sandbox.conf`. "
           "`[access NAME]` has `users` and `groups`\nalone, of a profile that is there already.\n\n| name | is "
           "|\n|---|---|\n");
    guard_profile_settings(print_profile_setting);
}

static void print_setting(void *data, const char *name, const char *summary) {
    char variable[64] = "SANDBOX_";
    size_t length = strlen(variable);
    (void)data;
    for (const char *at = name; *at; at++) variable[length++] = *at == '-' ? '_' : (char)(*at - 'a' + 'A');
    variable[length] = '\0';
    printf("| `%s` | `--%s` | `%s` | %s |\n", name, name, variable, summary);
}

static void print_settings(void) {
    printf("\n## Settings of the service\n\nFlags of `sandboxd` over environment over `sandbox.conf` in the home, "
           "whose lines are `name = value`.\n\n"
           "| name | flag | variable | is |\n|---|---|---|---|\n");
    settings_each(print_setting, NULL);
}

static void print_default(enum quota quota, char ret[QUANTITY_BYTES]) {
    uint64_t value = quota_row(quota)->fallback;
    if (value == QUOTA_HALF_THE_MEMORY)
        snprintf(ret, QUANTITY_BYTES, "half of the machine's");
    else
        quota_to_text(quota, value, ret);
}

static void print_quotas(void) {
    printf("\n## Quotas\n\nWhat one user may hold at once. Set in `sandbox.conf`, in the sections `[quota]`, "
           "`[quota user NAME]` and `[quota group NAME]`;\n`unlimited` is a value too. Root and the service's own user "
           "are not bound. `sandbox quotas` shows them.\n\n| name | default | bounds |\n|---|---|---|\n");
    for (unsigned i = 0; i < QUOTAS; i++) {
        char fallback[QUANTITY_BYTES];
        print_default(i, fallback);
        printf("| `%s` | %s | %s |\n", quota_row(i)->name, fallback, quota_row(i)->summary);
    }
}

int main(void) {
    size_t count;
    const struct op *table = ops_table(&count);
    printf("# Reference\n\nMade by `make docs` from the tables that the programs use.\n\n## Operations\n\n"
           "Each is a command of `sandbox`, a route of the HTTP service on `$SANDBOX_HOME/api.sock`, and a name for "
           "`sbx_op`. Streams are lines of JSON:\n"
           "`{\"item\": …}`, and last `{\"done\": …}` or `{\"problem\": …}`; lists are `{\"items\": […], \"next\": "
           "cursor or null}`.\n");
    for (size_t i = 0; i < count; i++) print_op(&table[i]);
    print_profiles();
    print_profile_settings();
    print_limits();
    print_guarantees();
    print_events();
    print_errors();
    print_settings();
    print_quotas();
    return 0;
}
