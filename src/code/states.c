/* The states that a restart carries from one VM to the next, and the report of those that were lost. */
#include "code/code_internal.h"

#include <string.h>

enum {
    LOST_LISTED_MAX = 256,
    PLACE_MAX_BYTES = 1024,
    PLACE_NAMES_MAX = 32,
    OTHERS_BYTES = 64 << 10, /* for the other arguments of start */
};

void states_free(struct kept_states *states) {
    buf_free(&states->list);
    json_decref(take_ptr(states->lost));
    *states = (struct kept_states){0};
}

void states_none(struct kept_states *states, const struct error *why) {
    states_free(states);
    states->why_fresh = *why;
}

static size_t length_of(const struct term *list) {
    return list && list->type == TERM_LIST ? list->items.count : 0;
}

/* A path in the tree: the child identifiers on it, joined to one text. */
static json_t *place_json(const struct term *path) {
    CLEANUP(buf_free) struct buf place = BUF_INIT;
    size_t count = length_of(path);
    for (size_t i = 0; i < count && i < PLACE_NAMES_MAX && place.size <= PLACE_MAX_BYTES; i++) {
        json_t *name = answer_text(term_at(path, i));
        if (json_is_string(name)) buf_printf(&place, "%s%s", i > 0 ? "/" : "", json_string_value(name));
        json_decref(name);
    }
    return json_stringn(buf_string(&place), utf8_cut(buf_string(&place), place.size, PLACE_MAX_BYTES));
}

static void add_lost(struct kept_states *states, const struct term *list) {
    static const struct answer_member members[] = {{"path", place_json}, {"reason", answer_text}, {NULL, NULL}};
    if (!states->lost) states->lost = json_array();
    json_t *lost = answer_objects(list, members, LOST_LISTED_MAX - json_array_size(states->lost));
    json_array_extend(states->lost, lost);
    json_decref(lost);
    states->lost_count += length_of(list);
}

void states_take(struct kept_states *states, const struct term *snapshot) {
    struct error error;
    const struct term *list = term_map_get(snapshot, "states");
    states_free(states);
    states->list.max = STATES_MAX_BYTES;
    states->count = length_of(list);
    if (states->count > 0) {
        states->args = term_map_begin(&states->list);
        if (term_put(term_map_key(&states->args, "states"), list, &error) < 0) states->list.failed = true;
        states->list.max = 0;
        if (!states->list.failed)
            buf_reserve(&states->list, OTHERS_BYTES); /* otherwise the list is copied to make
                                                         room */
    }
    if (!states->list.failed) {
        add_lost(states, term_map_get(snapshot, "lost"));
        return;
    }
    error_set(&error, E_TOO_LARGE, "the states have more than %d MiB", STATES_MAX_BYTES >> 20);
    states_none(states, &error);
}

struct term_map states_begin_args(struct kept_states *states, struct buf *args) {
    if (!states || states->list.size == 0) {
        struct term_map map = term_map_begin(args);
        if (states) term_put_nil(term_map_key(&map, "states"));
        return map;
    }
    *args = states->list;
    states->list = (struct buf)BUF_INIT;
    states->args.buf = args;
    return states->args;
}

void states_read_refused(const struct term *started, struct kept_states *ret) {
    add_lost(ret, term_map_get(started, "lost"));
}

void states_arrived(struct kept_states *states, const struct kept_states *refused) {
    size_t i, count = refused->lost_count;
    json_t *lost;
    if (!states->lost) states->lost = json_array();
    json_array_foreach(refused->lost, i, lost) {
        if (json_array_size(states->lost) < LOST_LISTED_MAX) json_array_append(states->lost, lost);
    }
    states->lost_count += count;
    states->count -= count < states->count ? count : states->count;
}

json_t *states_to_json(const struct kept_states *states) {
    return json_pack("{s:I, s:o, s:I, s:s?}", "kept", (json_int_t)states->count, "lost",
                     states->lost ? json_incref(states->lost) : json_array(), "lost_count",
                     (json_int_t)states->lost_count, "fresh",
                     states->why_fresh.code != E_NONE ? states->why_fresh.detail : NULL);
}
