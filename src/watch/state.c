/* The state of a watched project, from facts about its folder, compilation and reload. Pure functions. */
#include "watch/watch.h"

static const char *const names[] = {
#define X(name, slug, meaning) [WATCH_##name] = slug,
    WATCH_STATE_LIST(X)
#undef X
};

const char *watch_state_name(enum watch_state state) {
    return names[state];
}

/* The first fact that holds is what the user wants to know. */
enum watch_state watch_state_of(const struct watch_facts *facts) {
    const struct {
        bool holds;
        enum watch_state state;
    } rules[] = {
        {!facts->is_on, WATCH_OFF},        {facts->is_working, WATCH_COMPILING}, {!facts->has_folder, WATCH_PAUSED},
        {facts->has_failed, WATCH_FAILED}, {facts->is_polling, WATCH_POLLING},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (rules[i].holds) return rules[i].state;
    return WATCH_WATCHING;
}
