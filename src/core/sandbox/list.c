/* list: every sandbox that the caller may see. There may be thousands, so what does not fit into one turn of the loop
   goes on in the next. */
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"

struct listing {
    struct engine *engine;
    struct request *request;
    uv_idle_t idle; /* active while it goes on */
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
        json_array_append_new(listing->items, sandbox_to_json(sandbox));
}

/* Whether all is there. */
static bool go_on(struct listing *listing) {
    while (listing->at < listing->count && !listing->is_called_off) {
        add_next(listing);
        if (loop_turn_is_full(listing->engine->loop)) break;
    }
    return listing->at == listing->count || listing->is_called_off;
}

static void on_closed(uv_handle_t *handle) {
    struct listing *listing = handle->data;
    struct engine *engine = listing->engine;
    engine->listings--;
    free(listing->ids);
    free(listing);
    engine_wake(engine);
}

static void finish(struct listing *listing) {
    answer_ok(listing->engine, listing->request, listing->items);
    uv_close((uv_handle_t *)&listing->idle, on_closed);
}

static void on_turn(uv_idle_t *idle) {
    loop_note(idle->loop, "request", "list");
    if (go_on(idle->data)) finish(idle->data);
}

/* The caller has left: the list ends with what there is. */
static void on_cancel(struct request *request) {
    struct listing *listing = request->state;
    listing->is_called_off = true;
}

void engine_list(struct engine *engine, struct request *request) {
    struct listing *listing = new_or_abort(struct listing);
    *listing = (struct listing){.engine = engine, .request = request, .items = json_array()};
    uv_idle_init(engine->loop, &listing->idle);
    listing->idle.data = listing;
    engine->listings++;
    request->state = listing;
    request->cancel = on_cancel;
    if (!take_ids(listing) || go_on(listing))
        finish(listing);
    else
        uv_idle_start(&listing->idle, on_turn);
}
