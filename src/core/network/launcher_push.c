/* Pushes limits and resolved names of a sandbox's node to the launcher; push_schedule.c decides when. A launcher that
   is away, or a node that connects again and again, costs a few requests a second at most. */
#include <string.h>

#include "core/core_internal.h"
#include "core/network/names.h"
#include "core/sandbox/sandbox.h"

static void on_tick(uv_timer_t *timer);

static void come_back_at(struct engine *engine, uint64_t due_ms) {
    uint64_t now_ms = clock_monotonic_ms();
    if (due_ms >= engine->pushes.due_ms || engine->closing.is_begun) return;
    engine->pushes.due_ms = due_ms;
    uv_timer_start(&engine->pushes.timer, on_tick, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

struct message {
    struct sandbox_ref ref; /* it may be let go of before the launcher answers */
    enum push what;
};

static struct message *message_new(const struct sandbox *sandbox, enum push what) {
    struct message *message = new_or_abort(struct message);
    message->ref = sandbox_ref(sandbox);
    message->what = what;
    return message;
}

static void on_answer(void *data, const struct error *error) {
    struct message *message = data;
    struct sandbox *sandbox = sandbox_deref(&message->ref);
    if (sandbox) {
        push_schedule_answered(&sandbox->network.pushes, message->what, error != NULL, clock_monotonic_ms());
        come_back_at(message->ref.engine, push_schedule_next_ms(&sandbox->network.pushes));
    }
    free(message);
}

static void push_limits(struct sandbox *sandbox) {
    struct jail_limits limits = limits_in_force(sandbox, &sandbox->config.limits);
    node_limit(sandbox->node, &limits, on_answer, message_new(sandbox, PUSH_LIMITS));
}

static void push_names(struct sandbox *sandbox) {
    struct jail_host hosts[JAIL_RESOLVED_MAX];
    size_t count = names_addresses(sandbox, hosts);
    node_set_resolved(sandbox->node, hosts, count, on_answer, message_new(sandbox, PUSH_NAMES));
}

static void (*const pushers[PUSH_COUNT])(struct sandbox *sandbox) = {
    [PUSH_LIMITS] = push_limits, [PUSH_NAMES] = push_names};

static void push_due(struct sandbox *sandbox) {
    struct push_schedule *pushes = &sandbox->network.pushes;
    uint64_t now_ms = clock_monotonic_ms();
    /* Limits that are being changed on request are not to be changed back. */
    if (sandbox->limits.change) push_schedule_put_off(pushes, PUSH_LIMITS, now_ms);
    for (enum push what = 0; sandbox->node && what < PUSH_COUNT; what++)
        if (push_schedule_begin(pushes, what, now_ms)) pushers[what](sandbox);
    come_back_at(sandbox->engine, push_schedule_next_ms(pushes));
}

static void on_tick(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    size_t at = 0;
    void *value;
    engine->pushes.due_ms = UINT64_MAX;
    while (map_next(&engine->sandboxes, &at, NULL, &value))
        if (push_schedule_is_due(&((const struct sandbox *)value)->network.pushes)) push_due(value);
}

int launcher_push_open(struct engine *engine) {
    engine->pushes.timer.data = engine;
    engine->pushes.due_ms = UINT64_MAX;
    return uv_timer_init(engine->loop, &engine->pushes.timer);
}

void launcher_push_stop(struct engine *engine) {
    uv_timer_stop(&engine->pushes.timer);
}

void launcher_push(struct sandbox *sandbox, enum push what) {
    if (!sandbox->node) return;
    push_schedule_want(&sandbox->network.pushes, what);
    push_due(sandbox);
}

void launcher_push_forget(struct sandbox *sandbox) {
    sandbox->network.pushes = (struct push_schedule){0};
}
