/* Events that nodes cause. They are kept for all to see, so they come no faster than ALARM_EVERY_MS in the long run: a
   hostile node would drive other nodes' events out. */
#include <string.h>

#include "core/core_internal.h"

static bool may_tell(struct alarms *alarms, uint64_t now_ms) {
    uint64_t grown = (now_ms - alarms->at_ms) / ALARM_EVERY_MS;
    if (grown > 0) {
        alarms->left = grown < ALARMS_BURST - alarms->left ? alarms->left + (uint32_t)grown : ALARMS_BURST;
        alarms->at_ms = now_ms;
    }
    if (alarms->left > 0) return alarms->left--;
    alarms->suppressed++;
    return false;
}

/* False: it is not told, and data is gone. */
static bool admit(struct engine *engine, struct alarms *alarms, json_t *data) {
    if (!may_tell(alarms, uv_now(engine->loop))) {
        json_decref(data);
        return false;
    }
    if (alarms->suppressed) json_object_set_new(data, "suppressed", json_integer((json_int_t)alarms->suppressed));
    alarms->suppressed = 0;
    return true;
}

void alarm_event(struct engine *engine, struct alarms *alarms, enum event_kind kind, const char *sandbox_id,
                 json_t *data) {
    if (admit(engine, alarms, data)) engine_event(engine, kind, sandbox_id, data);
}

static json_t *violation_json(struct node *node, const char *what, const char *detail) {
    CLEANUP(buf_free) struct buf clean = BUF_INIT;
    escape_text(&clean, detail, strlen(detail));
    return json_pack("{s:s, s:s, s:s}", "what", what, "detail", buf_string(&clean), "node", node_name(node));
}

void alarm_violation(struct engine *engine, struct alarms *alarms, const char *sandbox_id, struct node *node,
                     const char *what, const char *detail) {
    alarm_event(engine, alarms, EVENT_VIOLATION, sandbox_id, violation_json(node, what, detail));
}

void alarm_violation_of(struct engine *engine, struct alarms *alarms, uid_t owner, struct node *node, const char *what,
                        const char *detail) {
    json_t *data = violation_json(node, what, detail);
    if (admit(engine, alarms, data)) engine_event_of(engine, EVENT_VIOLATION, owner, data);
}
