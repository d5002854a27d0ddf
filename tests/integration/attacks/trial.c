/* Runs one attack and checks its outcome: the answer, the events, and whether the sandbox lives or died of the right
   cause. */
#include "attacks.h"

enum {
    EVAL_MAX_MS = 10000,
    FILL_MAX_MS = 60000, /* to write to all memory there is, on a machine with other work; its end ends the wait */
    ATTEMPTS = 5,
};

bool answer_fits(const char *answer, const char *alternatives) {
    while (alternatives) {
        size_t length = strcspn(alternatives, "|");
        if (strncmp(answer, alternatives, length) == 0) return true;
        alternatives = alternatives[length] ? alternatives + length + 1 : NULL;
    }
    return false;
}

/* A failing test jumps out of its functions, and takes nothing along. */
void fail_with(struct buf *failures) {
    char text[4096];
    if (failures->size == 0) return;
    snprintf(text, sizeof text, "%s", buf_string(failures));
    buf_free(failures);
    fail_msg("%s", text);
}

static const char *event_field(const char *kind) {
    return strcmp(kind, "violation") == 0 ? "what" : strcmp(kind, "limit") == 0 ? "limit" : "to";
}

/* A node's violations are told ten a second at most. One that is held back comes when the second is over, by its own
   name since every trial waits for its own. */
char *trial_check_seen(const struct trial *trial) {
    const struct attack *attack = trial->attack;
    if (!attack->seen_kind) return NULL;
    struct event_pattern pattern = {attack->seen_kind, trial->id, event_field(attack->seen_kind), attack->seen_value};
    json_t *event = world_find_event(trial->scene->world, trial->since, &pattern, WORLD_DEADLINE_MS);
    bool seen = event != NULL;
    json_decref(event);
    if (seen) return NULL;
    json_t *events = world_op(trial->scene->world, "events", "{s:s}", "sandbox_id", trial->id);
    CLEANUP_FREE char *text = json_dumps(events, JSON_COMPACT);
    json_decref(events);
    size_t length = strlen(text), last = length > 1500 ? length - 1500 : 0;
    return string_print("no event %s %s=%s; the last ones: %s", pattern.kind, pattern.field, pattern.value,
                        text + last);
}

/* Why it ended, where it has; as JSON. */
static char *last_error_of(const struct trial *trial) {
    json_t *info = world_info(trial->scene->world, trial->id);
    char *text = json_dumps(json_object_get(info, "last_error"), JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(info);
    return text;
}

/* The sandbox still does what it is asked. A call may be lost while the agent dials again. */
static char *check_lives(const struct trial *trial) {
    const char *code = trial->attack->lives ? trial->attack->lives : "still_here";
    CLEANUP_FREE char *answer = NULL;
    for (int i = 0; i < ATTEMPTS; i++) {
        free(answer);
        answer = world_try_eval(trial->scene->world, trial->id, "erlang", code, EVAL_MAX_MS);
        if (strcmp(answer, "still_here") == 0) return NULL;
    }
    CLEANUP_FREE char *error = last_error_of(trial);
    return string_print("does not answer any more: %s; its last error: %s", answer, error);
}

/* The row before may have reached a limit a moment ago, which a reason tells first. */
static const char *skip_blame(const char *reason) {
    static const char blame_end[] = "gives it more; ";
    const char *end = reason && string_starts(reason, "its limit on ") ? strstr(reason, blame_end) : NULL;
    return end ? end + strlen(blame_end) : reason;
}

/* Ended, with the cause where one is to be known. */
static char *check_died(const struct trial *trial) {
    struct world *world = trial->scene->world;
    const struct event_pattern ends[] = {{"status", trial->id, "to", "error"}, {"status", trial->id, "to", "stopped"}};
    bool halts = trial->attack->cause == NULL;
    json_t *event = world_find_event(world, trial->since, &ends[halts], WORLD_DEADLINE_MS);
    json_t *data = json_object_get(event, "data");
    const char *reason = skip_blame(json_string_value(json_object_get(data, "reason")));
    char *failure = NULL;
    if (!event)
        failure = string_print("it did not become %s", ends[halts].value);
    else if (trial->attack->cause && (!reason || !answer_fits(reason, trial->attack->cause)))
        failure = string_print("it ended because %s, not %s", reason, trial->attack->cause);
    json_decref(event);
    return failure;
}

static char *restart(const struct trial *trial) {
    struct sbx_error error;
    if (sbx_restart(world_client(trial->scene->world), trial->id, true, NULL, &error) == 0) return NULL;
    char *failure = string_print("restarting: %s", error.detail);
    sbx_error_clear(&error);
    return failure;
}

static char *check(const struct trial *trial, const char *answer) {
    const char *expected = trial->attack->answers;
    if (expected && !answer_fits(answer, expected)) return string_print("it got %s, not %s", answer, expected);
    char *failure = trial_check_seen(trial);
    if (!failure) failure = trial->attack->fate == LIVES ? check_lives(trial) : check_died(trial);
    return failure;
}

void trial_run(struct trial *trial) {
    if (trial->restart && (trial->failure = restart(trial))) return;
    CLEANUP_FREE char *code = scene_expand(trial->scene, trial->attack->code);
    uint32_t timeout_ms = trial->attack->fills ? FILL_MAX_MS : EVAL_MAX_MS;
    CLEANUP_FREE char *answer = world_try_eval(trial->scene->world, trial->id, "erlang", code, timeout_ms);
    trial->failure = check(trial, answer);
}
