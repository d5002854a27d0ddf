/* event_bound: how large an event may be. Each is printed on the loop, for the registry and the webhook, and thousands
   are kept: in memory and on the disk. Much of one is a stranger's, such as what a compiler said. Pure. */
#ifndef CORE_EVENT_BOUND_H
#define CORE_EVENT_BOUND_H

#include <jansson.h>

enum {
    EVENT_DATA_BYTES = 16 << 10, /* as printed */
    EVENT_TEXT_BYTES = 1 << 10,  /* of one text in data that would be longer */
};

/* Data that is small enough as it is; otherwise a copy with texts cut, lists ended early and a member `cut`. The data
   is taken over. */
json_t *event_bounded(json_t *data);

#endif
