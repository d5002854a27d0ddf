#include "compile/room.h"

const struct diagnostics_room room_for_diagnostics = {.count = DIAGNOSTICS_MAX, .bytes = DIAGNOSTICS_MAX_BYTES};
const struct answer_room room_for_answers = {
    .bytes = ANSWERS_MAX_BYTES,
    .names = DEPENDENCIES_MAX,
    .warnings = {.count = DIAGNOSTICS_MAX, .bytes = DIAGNOSTICS_MAX_BYTES},
};

int room_take(struct answer_room *room, const struct answer_room *wanted, struct error *reterr) {
    if (wanted->names > room->names)
        return error_set(reterr, E_TOO_LARGE, "the project's files depend on more than %d modules and files in all",
                         DEPENDENCIES_MAX);
    if (wanted->bytes > room->bytes)
        return error_set(reterr, E_TOO_LARGE, "what was compiled, with what it depends on, is larger than %d MiB",
                         ANSWERS_MAX_BYTES >> 20);
    if (wanted->warnings.count > room->warnings.count || wanted->warnings.bytes > room->warnings.bytes)
        return error_set(reterr, E_TOO_LARGE, "the project has more than %d warnings, or %d MiB of them",
                         DIAGNOSTICS_MAX, DIAGNOSTICS_MAX_BYTES >> 20);
    room->names -= wanted->names;
    room->bytes -= wanted->bytes;
    room->warnings.count -= wanted->warnings.count;
    room->warnings.bytes -= wanted->warnings.bytes;
    return 0;
}

void room_give(struct answer_room *room, struct answer_room *held) {
    room->names += held->names;
    room->bytes += held->bytes;
    room->warnings.count += held->warnings.count;
    room->warnings.bytes += held->warnings.bytes;
    *held = (struct answer_room){0};
}

bool room_take_diagnostic(struct diagnostics_room *room, size_t bytes) {
    if (room->count == 0 || room->bytes < bytes) {
        room->count = 0;
        return false;
    }
    room->count--;
    room->bytes -= bytes;
    return true;
}
