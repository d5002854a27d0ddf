/* What is asked of the launcher while a node runs. The node lives until each answer has come. */
#include "node/node_internal.h"

#include <stdlib.h>

struct asking {
    struct node *node;
    jail_done_fn done;
    void *data;
};

static struct asking *ask(struct node *node, jail_done_fn done, void *data) {
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking) abort(); /* as in node_call */
    *asking = (struct asking){node, done, data};
    node->open_handles++;
    return asking;
}

static void on_answer(void *data, const struct error *error) {
    struct asking *asking = data;
    asking->done(asking->data, error);
    node_handle_closed(asking->node);
    free(asking);
}

static void set_frozen(struct node *node, bool frozen) {
    node->frozen = frozen;
    node->last_alive_ms = uv_now(node->host->loop); /* its silence so far counts for nothing */
}

static void on_frozen(void *data, const struct error *error) {
    struct asking *asking = data;
    if (!error) set_frozen(asking->node, true);
    on_answer(asking, error);
}

static void on_thawed(void *data, const struct error *error) {
    struct asking *asking = data;
    if (!error) set_frozen(asking->node, false);
    on_answer(asking, error);
}

void node_freeze(struct node *node, bool frozen, jail_done_fn done, void *data) {
    jail_link_freeze(node->host->link, node->name, frozen, frozen ? on_frozen : on_thawed, ask(node, done, data));
}

static void on_limited(void *data, const struct error *error) {
    struct asking *asking = data;
    if (!error) asking->node->yields = false;
    on_answer(asking, error);
}

void node_limit(struct node *node, const struct jail_limits *limits, jail_done_fn done, void *data) {
    jail_link_limit(node->host->link, node->name, limits, on_limited, ask(node, done, data));
}

void node_set_resolved(struct node *node, const struct jail_host *hosts, size_t count, jail_done_fn done, void *data) {
    jail_link_resolved(node->host->link, node->name, hosts, count, on_answer, ask(node, done, data));
}

static void on_yield_answer(struct node *node, bool yields, const struct error *error) {
    node->is_yield_asked = false;
    if (!error) node->yields = yields;
    if (error && error->code == E_GUARANTEE) node->host->cannot_yield = true;
    node_handle_closed(node);
}

static void on_yielding(void *data, const struct error *error) {
    on_yield_answer(data, true, error);
}

static void on_yielding_no_longer(void *data, const struct error *error) {
    on_yield_answer(data, false, error);
}

void node_yield(struct node *node, bool yields) {
    if (node->is_yield_asked || node->host->cannot_yield || node->state >= NODE_ENDING) return;
    node->is_yield_asked = true;
    node->open_handles++;
    jail_link_yield(node->host->link, node->name, yields, yields ? on_yielding : on_yielding_no_longer, node);
}
