/* audit: operations in the audit trail, and the trail as a feed. */
#ifndef CORE_POLICY_AUDIT_H
#define CORE_POLICY_AUDIT_H

#include "core/core.h"

struct audit;
struct feed;

enum {
    AUDIT_RECORDS_KEPT = 1024, /* in memory, for followers */
};

struct audit_state {
    struct audit *audit;
    struct feed *feed;
    unsigned readers;   /* that read the trail's files now, and may go on to follow it */
    unsigned admitting; /* operations that wait to be in the trail */
};

/* Something that the service did for a user: data is what is told of it. */
void audit_note(struct engine *engine, const char *op, uid_t uid, const char *sandbox_id, json_t *data);
void audited_end(struct request *request, const struct error *error); /* it is being answered */
void audit_feed_record(void *engine, const char *line);

#endif
