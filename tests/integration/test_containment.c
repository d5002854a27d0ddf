/* What follows when one sandbox does what its profile refuses, again and again; all of it on one VM, which is given
   code that was compiled before; and a webhook hears of it. */
#include "processes.h"
#include "receiver.h"
#include "support.h"
#include "webhook/webhook_internal.h"

#define COUNTER EXAMPLES "/counter_erl"
#define SETTINGS                                                                                                       \
    "webhook = %s\n"                                                                                                   \
    "webhook-secret = a#secret  # that has a sign of comments in it\n"                                                 \
    "webhook-events = contained,rolled_back\n"                                                                         \
    "[profile held]\n"                                                                                                 \
    "inherits = high\n"                                                                                                \
    "on-violation = rollback, freeze, destroy\n"                                                                       \
    "escalate-after = 2\n"                                                                                             \
    "escalate-within = 10m\n"

static struct receiver *receiver;

static int open_world(void **state) {
    static const int script[] = {500, 0}; /* the first try fails */
    char url[64];
    receiver = receiver_open(script);
    receiver_listen(receiver);
    receiver_url(receiver, url, sizeof url);
    CLEANUP_FREE char *settings = string_print(SETTINGS, url);
    struct world *world = world_open(settings);
    world_do(world, "create", "{s:s, s:s, s:s, s:b}", "id", "a", "source", COUNTER, "profile", "held", "watch", true);
    *state = world;
    return 0;
}

static int close_world(void **state) {
    world_close(*state);
    receiver_close(receiver);
    return 0;
}

static void wait_contained(struct world *world, uint64_t since, const char *action) {
    json_decref(
        world_wait_event(world, since, &(struct event_pattern){"contained", "a", .field = "action", .value = action}));
}

static void assert_value(struct world *world, const char *value) {
    CLEANUP_FREE char *text = world_eval_text(world, "a", NULL, "counter:value()");
    assert_string_equal(text, value);
}

/* ---- what is saved ---- */

static const char *phase_of(json_t *records, size_t index) {
    const char *phase = json_string_value(json_object_get(json_array_get(records, index), "phase"));
    return phase ? phase : "";
}

static json_t *reloads_of(struct world *world) {
    return world_op(world, "audit", "{s:s, s:s}", "op", "reload", "sandbox_id", "a");
}

static bool is_recorded(void *world) {
    json_t *records = reloads_of(world);
    bool is_over = json_array_size(records) >= 2;
    json_decref(records);
    return is_over;
}

/* Watching begins with a reload, which no caller asked for. */
static void what_the_service_reloads_is_recorded_like_any(void **state) {
    struct world *world = *state;
    assert_true(wait_until(is_recorded, world, WORLD_DEADLINE_MS));
    json_t *records = reloads_of(world);
    json_t *first = json_array_get(records, 0);
    assert_string_equal(phase_of(records, 0), "begin");
    assert_string_equal(phase_of(records, 1), "end");
    assert_string_equal(json_string_value(json_object_get(first, "from")), "watch");
    json_decref(records);
    world_do(world, "watch", "{s:s, s:s}", "id", "a", "action", "off");
}

/* ---- logs ---- */

static void assert_found(struct world *world, const char *name, const char *value, const char *expected) {
    json_t *records = world_op(world, "logs", "{s:s, s:s}", "id", "a", name, value);
    json_t *last = json_array_get(records, json_array_size(records) - 1);
    const char *text = json_string_value(json_object_get(last, "text"));
    if (!text || !string_starts(text, expected)) fail_msg("%s %s: '%s'", name, value, text ? text : "nothing");
    json_decref(records);
}

/* What is said may arrive after the evaluation's answer. */
static bool has_said_all(void *world) {
    json_t *records = world_op(world, "logs", "{s:s, s:s}", "id", "a", "grep", "all is well");
    bool is_there = json_array_size(records) > 0;
    json_decref(records);
    return is_there;
}

static void what_it_says_can_be_searched(void **state) {
    struct world *world = *state;
    free(world_eval_text(world, "a", NULL,
                         "logger:error(\"on fire\"), logger:warning(\"smoke\"), "
                         "Eval = self(), spawn(fun() -> M = monitor(process, Eval), "
                         "receive {'DOWN', M, _, _, _} -> io:put_chars(\"all is well\\n\") end end)"));
    assert_true(wait_until(has_said_all, world, WORLD_DEADLINE_MS));
    assert_found(world, "level", "error", "on fire");
    assert_found(world, "level", "info", "smoke");
    assert_found(world, "grep", "IS WELL", "all is well");
    assert_found(world, "grep", "FIRE", "on fire");
    assert_found(world, "since_ms", "1h", "all is well");
    assert_found(world, "stream", "log", "smoke");
    json_t *none = world_op(world, "logs", "{s:s, s:s}", "id", "a", "level", "emergency");
    assert_int_equal(json_array_size(none), 0);
    json_decref(none);
}

/* ---- violations ---- */

/* Code that was given to it while it ran goes; what ran before runs on, with its state. */
static void code_that_breaks_out_is_taken_back(void **state) {
    struct world *world = *state;
    free(world_eval_text(world, "a", NULL, "counter:increment(41)"));
    world_do(world, "reload", "{s:s, s:[s]}", "id", "a", "paths", LABELLED "/guilty_cmd.beam");
    uint64_t since = world_now(world);
    free(world_try_eval(world, "a", NULL, "guilty_cmd:run(\"id\")", 5000));
    wait_contained(world, since, "rollback");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"rolled_back", "a", "code", "refused"}));
    CLEANUP_FREE char *left = world_eval_text(world, "a", NULL, "code:is_loaded(guilty_cmd)");
    assert_string_equal(left, "false");
    assert_value(world, "41");
    json_t *info = world_info(world, "a");
    const char *why = json_string_value(json_object_get(json_object_get(info, "last_error"), "detail"));
    assert_non_null(why ? strstr(why, "execve") : NULL);
    json_decref(info);
}

/* There is nothing left to go back to: the next step. */
static void who_goes_on_is_frozen_for_a_look(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    free(world_try_eval(world, "a", NULL, "os:cmd(\"id\")", 100));
    wait_contained(world, since, "freeze");
    json_decref(world_wait_event(world, since, &(struct event_pattern){"frozen", "a", "reason", "violation: execve"}));
    json_t *stats = world_op(world, "stats", "{s:s}", "id", "a");
    assert_true(json_array_size(json_object_get(stats, "tasks")) >= 2);
    json_decref(stats);
    json_t *records = world_op(world, "audit", "{s:s}", "op", "rollback");
    assert_int_equal(json_array_size(records), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(records, 0), "from")), "service");
    json_decref(records);
}

static void who_never_stops_is_destroyed(void **state) {
    struct world *world = *state;
    uint64_t since = world_now(world);
    world_do(world, "thaw", "{s:s}", "id", "a");
    assert_value(world, "41");
    free(world_try_eval(world, "a", NULL, "os:cmd(\"id\")", 1000));
    wait_contained(world, since, "destroy");
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "destroyed", .sandbox_id = "a"}));
}

/* ---- the webhook ---- */

static void assert_delivered(size_t number, const char *kind, const char *value) {
    const char *request = receiver_wait(receiver, number, WORLD_DEADLINE_MS);
    assert_non_null(request);
    CLEANUP_FREE char *told = receiver_header(request, "X-Sandbox-Event");
    CLEANUP_FREE char *timestamp = receiver_header(request, "X-Sandbox-Timestamp");
    CLEANUP_FREE char *signature = receiver_header(request, "X-Sandbox-Signature");
    const char *body = receiver_body(request);
    char expected[WEBHOOK_SIGNATURE_BYTES];
    assert_string_equal(told, kind);
    webhook_sign("a#secret", strtoll(timestamp, NULL, 10), body, strlen(body), expected);
    assert_string_equal(signature, expected);
    assert_non_null(strstr(body, value));
}

static void the_webhook_is_told(void **state) {
    struct world *world = *state;
    assert_delivered(0, "contained", "\"action\":\"rollback\"");
    assert_delivered(1, "contained", "\"action\":\"rollback\""); /* once more, a second later */
    assert_delivered(2, "rolled_back", "refused_by_policy");
    assert_delivered(3, "contained", "\"action\":\"freeze\"");
    assert_delivered(4, "contained", "\"action\":\"destroy\"");
    json_decref(world_wait_event(world, 0, &(struct event_pattern){"webhook", NULL, "state", "arriving"}));
    json_t *health = world_op(world, "health", NULL), *webhook = json_object_get(health, "webhook");
    assert_int_equal(json_integer_value(json_object_get(webhook, "delivered")), 4);
    assert_int_equal(json_integer_value(json_object_get(webhook, "lost")), 0);
    json_decref(health);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_service_reloads_is_recorded_like_any),
        cmocka_unit_test(what_it_says_can_be_searched),
        cmocka_unit_test(code_that_breaks_out_is_taken_back),
        cmocka_unit_test(who_goes_on_is_frozen_for_a_look),
        cmocka_unit_test(who_never_stops_is_destroyed),
        cmocka_unit_test(the_webhook_is_told),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
