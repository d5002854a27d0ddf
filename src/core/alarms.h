/* alarms: events that nodes cause, told at a bounded rate. */
#ifndef CORE_ALARMS_H
#define CORE_ALARMS_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/events.h"

struct engine;
struct node;

enum {
    ALARMS_BURST = 100,   /* events that one sandbox's nodes cause at once */
    ALARM_EVERY_MS = 500, /* and in the long run */
};

struct alarms {
    uint32_t left;
    uint64_t at_ms, suppressed;
};

/* Takes data over. */
void alarm_event(struct engine *engine, struct alarms *alarms, enum event_kind kind, const char *sandbox_id,
                 json_t *data);
/* What a node of a sandbox's tried and was refused. */
void alarm_violation(struct engine *engine, struct alarms *alarms, const char *sandbox_id, struct node *node,
                     const char *what, const char *detail);
/* The same of a node that worked for a user and no sandbox. */
void alarm_violation_of(struct engine *engine, struct alarms *alarms, uid_t owner, struct node *node, const char *what,
                        const char *detail);

#endif
