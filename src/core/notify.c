/* Chosen events to the webhook, and what the webhook says of its own troubles back as events. */
#include <string.h>

#include "core/core_internal.h"
#include "core/notify.h"
#include "webhook/webhook.h"

_Static_assert(EVENT_KINDS <= 64, "a set of kinds is one number");

static int choose(const char *name, uint64_t *chosen, struct error *reterr) {
    for (int kind = 0; kind < EVENT_KINDS; kind++) {
        if (strcmp(name, "all") != 0 && strcmp(name, event_slug((enum event_kind)kind)) != 0) continue;
        *chosen |= UINT64_C(1) << kind;
        if (strcmp(name, "all") != 0) return 0;
    }
    return strcmp(name, "all") == 0 ? 0 : error_set(reterr, E_INVALID, "there is no kind of event '%.60s'", name);
}

int notify_choose(const char *list, uint64_t *ret, struct error *reterr) {
    CLEANUP_FREE char *copy = strdup(list);
    char *rest = copy;
    uint64_t chosen = 0;
    int result = copy ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for the webhook's events");
    for (char *name = result == 0 ? strsep(&rest, ", ") : NULL; name && result == 0; name = strsep(&rest, ", "))
        if (name[0]) result = choose(name, &chosen, reterr);
    if (result < 0) return error_prefix(reterr, "webhook-events");
    *ret = chosen & ~(UINT64_C(1) << EVENT_WEBHOOK); /* it would tell the receiver that it can't be told */
    return 0;
}

static void on_report(void *data, const struct webhook_report *report) {
    struct engine *engine = data;
    alarm_event(engine, &engine->webhook.alarms, EVENT_WEBHOOK, NULL,
                json_pack("{s:s, s:s, s:I, s:I}", "state", webhook_state_name(report->state), "reason", report->reason,
                          "tries", (json_int_t)report->tries, "lost", (json_int_t)report->lost));
}

int notify_open(struct engine *engine, struct error *reterr) {
    const struct engine_config *config = &engine->config;
    struct webhook_settings settings = webhook_defaults;
    if (!config->webhook) return 0;
    settings.url = config->webhook;
    settings.secret = config->webhook_secret;
    engine->webhook.alarms.left = ALARMS_BURST;
    int result = notify_choose(config->webhook_events, &engine->webhook.kinds, reterr);
    return result < 0 ? result
                      : webhook_open(engine->loop, &settings, on_report, engine, &engine->webhook.sender, reterr);
}

void notify_event(struct engine *engine, enum event_kind kind, const json_t *event) {
    if (!engine->webhook.sender || !(engine->webhook.kinds >> kind & 1)) return;
    CLEANUP_FREE char *body = json_dumps(event, JSON_COMPACT);
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
    if (body) webhook_post(engine->webhook.sender, event_slug(kind), seq, body, strlen(body));
}

json_t *notify_to_json(struct engine *engine) {
    struct webhook_status status;
    if (!engine->webhook.sender) return json_null();
    webhook_status(engine->webhook.sender, &status);
    return json_pack("{s:I, s:I, s:I, s:I, s:s?}", "queued", (json_int_t)status.queued, "delivered",
                     (json_int_t)status.delivered, "lost", (json_int_t)status.lost, "failures",
                     (json_int_t)status.failures, "last_error", status.last_error[0] ? status.last_error : NULL);
}
