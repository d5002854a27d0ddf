/* Turns a change of code into the sandbox's next history, and prepares the way back. Both are made on the pool before
   the change, since a change may have thousands of modules and the loop has only microseconds. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

/* ---- the next history ---- */

/* Adds the version that ran so far, if the sandbox began with it. */
static bool note_old(struct history *history, const struct change *change, const struct adopter *adopter) {
    struct version old = change->old_version;
    if (old.number == 0 || history_find(history, change->module, old.number)) return true;
    old.loaded_at_ms = adopter->started_at_ms;
    old.loaded_by = adopter->owner;
    json_incref(old.dependencies);
    return history_add(history, change->module, &old);
}

static bool note_change(struct history *history, const struct change *change, const struct adopter *adopter,
                        int64_t now_ms) {
    struct version version = change->version;
    if (!note_old(history, change, adopter)) return false;
    if (change->is_deletion || history_find(history, change->module, version.number)) {
        history_set_current(history, change->module, version.number);
        return true;
    }
    version.loaded_at_ms = now_ms;
    version.loaded_by = adopter->by;
    json_incref(version.dependencies);
    return history_add(history, change->module, &version);
}

static bool add_row(struct store_histories *rows, const struct history *history, const char *module) {
    CLEANUP_FREE char *text = history_text(history, module);
    return text && store_histories_add(rows, module, text);
}

/* ---- the way back ---- */

void way_back_free(struct way_back *back) {
    if (!back) return;
    free(back->undo);
    history_let_go(back->history);
    store_histories_free(back->rows);
    json_decref(back->facts);
    free(back);
}

static bool undo_all(struct history *history, struct store_histories *rows, const json_t *undo) {
    const char *module;
    json_t *number;
    json_object_foreach((json_t *)(uintptr_t)undo, module, number) {
        history_set_current(history, module, (uint32_t)json_integer_value(number));
        if (!add_row(rows, history, module)) return false;
    }
    return true;
}

struct way_back *way_back_make(const struct history *now, const char *sandbox, const json_t *undo) {
    struct way_back *back = calloc(1, sizeof *back);
    struct history history = {0};
    if (back) {
        back->undo = json_dumps(undo, JSON_COMPACT);
        back->rows = store_histories_new(sandbox);
        bool is_made = back->undo && back->rows && history_copy(now, &history) && undo_all(&history, back->rows, undo);
        back->history = history_share(&history);
        if (is_made) return back;
    }
    way_back_free(back);
    return NULL;
}

/* ---- both ---- */

static json_t *undo_of(const struct change_set *changes) {
    json_t *undo = json_object();
    for (size_t i = 0; i < changes->count; i++)
        json_object_set_new(undo, changes->items[i].module, json_integer(changes->items[i].old_version.number));
    return undo;
}

int adoption_make(const struct history *now, const struct change_set *changes, const struct adopter *adopter,
                  struct adoption *ret, struct error *reterr) {
    struct history history = {0};
    struct adoption adoption = {.rows = store_histories_new(adopter->sandbox)};
    int64_t now_ms = clock_wall_ms();
    bool is_made = adoption.rows && history_copy(now, &history);
    for (size_t i = 0; is_made && i < changes->count; i++)
        is_made = note_change(&history, &changes->items[i], adopter, now_ms) &&
                  add_row(adoption.rows, &history, changes->items[i].module);
    adoption.history = history_share(&history);
    json_t *undo = undo_of(changes);
    if (is_made) adoption.back = way_back_make(history_of(adoption.history), adopter->sandbox, undo);
    json_decref(undo);
    if (!adoption.back) {
        adoption_free(&adoption);
        return error_set(reterr, E_NO_MEMORY, "no memory for the history of a change of code");
    }
    *ret = adoption;
    return 0;
}

void adoption_free(struct adoption *adoption) {
    history_let_go(adoption->history);
    store_histories_free(adoption->rows);
    way_back_free(adoption->back);
    *adoption = (struct adoption){0};
}
