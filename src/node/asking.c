/* What is asked of the launcher while a node runs. The node lives until each answer has come. */
#include "node/node_internal.h"

#include <stdlib.h>

enum { YIELD_AGAIN_MS = 250, YIELD_AGAIN_MAX_MS = 30000 }; /* after a failure: it is a help, no more */

struct asking {
    struct node *node;
    link_done_fn done;
    void *data;
};

static struct asking *ask(struct node *node, link_done_fn done, void *data) {
    struct asking *asking = new_or_abort(struct asking);
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
    node->last_alive_ms = loop_attended_ms(node->host->loop); /* its silence so far counts for nothing */
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

void node_freeze(struct node *node, bool frozen, link_done_fn done, void *data) {
    link_freeze(node->host->link, node->name, frozen, frozen ? on_frozen : on_thawed, ask(node, done, data));
}

/* Setting them ends yielding; where that failed, it is not known how far it went. */
static void on_limited(void *data, const struct error *error) {
    struct asking *asking = data;
    struct yielding *yielding = &asking->node->yielding;
    if (error)
        yielding->is_in_doubt |= yielding->yields;
    else
        yielding->yields = yielding->is_in_doubt = false;
    on_answer(asking, error);
}

void node_limit(struct node *node, const struct jail_limits *limits, link_done_fn done, void *data) {
    link_limit(node->host->link, node->name, limits, on_limited, ask(node, done, data));
}

void node_set_resolved(struct node *node, const struct jail_host *hosts, size_t count, link_done_fn done, void *data) {
    link_resolved(node->host->link, node->name, hosts, count, on_answer, ask(node, done, data));
}

static void on_yield_answer(struct node *node, bool yields, const struct error *error) {
    struct yielding *yielding = &node->yielding;
    bool can_not = error && error->code == E_GUARANTEE;
    yielding->is_asked = false;
    yielding->is_in_doubt = error && !can_not;
    yielding->failures = error ? yielding->failures + 1 : 0;
    yielding->next_ms =
        error ? clock_monotonic_ms() + backoff_ms(YIELD_AGAIN_MS, YIELD_AGAIN_MAX_MS, yielding->failures) : 0;
    if (!error) yielding->yields = yields;
    node->host->cannot_yield |= can_not;
    node_handle_closed(node);
}

static void on_yielding(void *data, const struct error *error) {
    on_yield_answer(data, true, error);
}

static void on_yielding_no_longer(void *data, const struct error *error) {
    on_yield_answer(data, false, error);
}

void node_yield(struct node *node, bool yields) {
    struct yielding *yielding = &node->yielding;
    bool is_so = yielding->yields == yields && !yielding->is_in_doubt;
    if (is_so || yielding->is_asked || node->host->cannot_yield || node->state >= NODE_ENDING) return;
    if (clock_monotonic_ms() < yielding->next_ms) return;
    yielding->is_asked = true;
    node->open_handles++;
    link_yield(node->host->link, node->name, yields, yields ? on_yielding : on_yielding_no_longer, node);
}

bool node_yields(const struct node *node) {
    return !node->host->cannot_yield && (node->yielding.yields || node->yielding.is_in_doubt);
}
