/* Answers that have an item for each sandbox that the caller may see. */
#ifndef CORE_SANDBOX_LIST_H
#define CORE_SANDBOX_LIST_H

#include <jansson.h>

struct engine;
struct request;
struct sandbox;

struct list_form {
    const char *name; /* of the operation */
    json_t *(*item)(struct sandbox *sandbox);
    json_t *(*end)(struct request *request, json_t *items); /* takes the reference; NULL: the items are the answer */
};

/* Answers the request, in a later turn of the loop where there are many. */
void list_sandboxes(struct engine *engine, struct request *request, const struct list_form *form);

#endif
