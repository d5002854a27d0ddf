/* Tells the launcher what a sandbox's node is to be held to; push_schedule.c says when. Whatever happens meanwhile, a
   launcher that is away or a node that dials again and again, costs a few requests a second. */
#include <string.h>

#include "core/core_internal.h"
#include "core/network/names.h"

static void on_tick(uv_timer_t *timer);

static void come_back_at(struct engine *engine, uint64_t due_ms) {
    uint64_t now_ms = clock_monotonic_ms();
    if (due_ms >= engine->telling_due_ms || engine->closing) return;
    engine->telling_due_ms = due_ms;
    uv_timer_start(&engine->telling_timer, on_tick, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

struct message {
    struct engine *engine;
    char id[SANDBOX_ID_BYTES]; /* the sandbox may be let go of before the launcher answers */
    uint64_t number;           /* the sandbox's, since its id may be taken again */
    enum tell what;
};

static struct message *message_new(const struct sandbox *sandbox, enum tell what) {
    struct message *message = calloc(1, sizeof *message);
    if (!message) abort(); /* as in node_call */
    message->engine = sandbox->engine;
    message->what = what;
    memcpy(message->id, sandbox->id, sizeof message->id);
    message->number = sandbox->number;
    return message;
}

static void on_answer(void *data, const struct error *error) {
    struct message *message = data;
    struct sandbox *sandbox = sandbox_again(message->engine, message->id, message->number);
    if (sandbox) {
        telling_answered(&sandbox->telling, message->what, error != NULL, clock_monotonic_ms());
        come_back_at(message->engine, telling_next_ms(&sandbox->telling));
    }
    free(message);
}

static void tell_limits(struct sandbox *sandbox) {
    struct jail_limits limits = limits_in_force(sandbox, &sandbox->config.limits);
    node_limit(sandbox->node, &limits, on_answer, message_new(sandbox, TELL_LIMITS));
}

static void tell_names(struct sandbox *sandbox) {
    struct jail_host hosts[JAIL_RESOLVED_MAX];
    size_t count = names_addresses(sandbox, hosts);
    node_set_resolved(sandbox->node, hosts, count, on_answer, message_new(sandbox, TELL_NAMES));
}

static void (*const tellers[TELL_COUNT])(struct sandbox *sandbox) = {
    [TELL_LIMITS] = tell_limits, [TELL_NAMES] = tell_names};

static void tell(struct sandbox *sandbox) {
    struct telling *telling = &sandbox->telling;
    uint64_t now_ms = clock_monotonic_ms();
    /* Limits that are being changed on request are not to be changed back. */
    if (sandbox->change) telling_put_off(telling, TELL_LIMITS, now_ms);
    for (enum tell what = 0; sandbox->node && what < TELL_COUNT; what++)
        if (telling_begin(telling, what, now_ms)) tellers[what](sandbox);
    come_back_at(sandbox->engine, telling_next_ms(telling));
}

static void on_tick(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    size_t at = 0;
    void *value;
    engine->telling_due_ms = UINT64_MAX;
    while (map_next(&engine->sandboxes, &at, NULL, &value))
        if (telling_is_due(&((const struct sandbox *)value)->telling)) tell(value);
}

int tell_open(struct engine *engine) {
    engine->telling_timer.data = engine;
    engine->telling_due_ms = UINT64_MAX;
    return uv_timer_init(engine->loop, &engine->telling_timer);
}

void tell_stop(struct engine *engine) {
    uv_timer_stop(&engine->telling_timer);
}

void tell_launcher(struct sandbox *sandbox, enum tell what) {
    if (!sandbox->node) return;
    telling_want(&sandbox->telling, what);
    tell(sandbox);
}

void tell_forget(struct sandbox *sandbox) {
    sandbox->telling = (struct telling){0};
}
