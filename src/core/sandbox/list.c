/* list: every sandbox that the caller may see. There may be thousands, so what does not fit into one turn of the loop
   goes on in a later one, and the callers take turns. */
#include "core/sandbox/list.h"

#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

struct listing {
    struct engine *engine;
    struct request *request;
    const struct list_form *form;
    struct loop_waiter turn; /* while it goes on */
    char (*ids)[SANDBOX_ID_BYTES];
    size_t count, at;
    json_t *items;
    bool is_called_off;
};

static int by_id(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The owner of each is checked again later: one may have gone meanwhile, and another user may have its id. */
static bool take_ids(struct listing *listing) {
    struct engine *engine = listing->engine;
    size_t at = 0;
    void *value;
    listing->ids = calloc(engine->sandboxes.count + 1, sizeof *listing->ids);
    if (!listing->ids) return false;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        if (sandbox_visible(sandbox, &listing->request->caller))
            memcpy(listing->ids[listing->count++], sandbox->id, SANDBOX_ID_BYTES);
    }
    qsort(listing->ids, listing->count, sizeof *listing->ids, by_id);
    return true;
}

static void add_next(struct listing *listing) {
    struct sandbox *sandbox = map_get(&listing->engine->sandboxes, listing->ids[listing->at++]);
    if (sandbox && sandbox_visible(sandbox, &listing->request->caller))
        json_array_append_new(listing->items, listing->form->item(sandbox));
}

static void finish(struct listing *listing) {
    struct engine *engine = listing->engine;
    const struct list_form *form = listing->form;
    answer_ok(engine, listing->request, form->end ? form->end(listing->request, listing->items) : listing->items);
    engine->listings--;
    free(listing->ids);
    free(listing);
    engine_wake(engine);
}

/* Without memory to wait for its turn it goes on. */
static void go_on(struct listing *listing) {
    const struct quotas *quotas = listing->engine->config.quotas;
    uid_t principal = quotas_principal(quotas, listing->request->caller.uid);
    loop_note(listing->engine->loop, "request", listing->form->name);
    while (listing->at < listing->count && !listing->is_called_off) {
        add_next(listing);
        bool is_full = loop_turn_is_full(listing->engine->loop);
        if (is_full && loop_turns_wait(&listing->engine->lists, principal, &listing->turn)) return;
    }
    finish(listing);
}

static void on_turn(struct loop_waiter *turn) {
    go_on((struct listing *)((char *)turn - offsetof(struct listing, turn)));
}

/* The caller has left: the list ends with what there is. */
static void on_cancel(struct request *request) {
    struct listing *listing = request->state;
    listing->is_called_off = true;
}

void list_sandboxes(struct engine *engine, struct request *request, const struct list_form *form) {
    struct listing *listing = new_or_abort(struct listing);
    *listing =
        (struct listing){.engine = engine, .request = request, .form = form, .turn.go = on_turn, .items = json_array()};
    engine->listings++;
    request->state = listing;
    request->cancel = on_cancel;
    if (take_ids(listing))
        go_on(listing);
    else
        finish(listing);
}

static const struct list_form as_list = {.name = "list", .item = sandbox_to_json};

void engine_list(struct engine *engine, struct request *request) {
    list_sandboxes(engine, request, &as_list);
}
