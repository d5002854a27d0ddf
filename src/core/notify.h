/* notify: chosen events to the webhook. */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

#include <jansson.h>
#include <stdint.h>

#include "base/base.h"
#include "core/events.h"

struct engine;

/* "alert, violation", or "all": a bit for each kind. */
int notify_choose(const char *list, uint64_t *ret, struct error *reterr);
int notify_open(struct engine *engine, struct error *reterr);
void notify_event(struct engine *engine, enum event_kind kind, const json_t *event);
json_t *notify_to_json(struct engine *engine);

#endif
