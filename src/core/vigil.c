/* While a node idles, its agent looks at its limits with each beat only. A bomb that goes off in between must not get
   seconds: whoever begins to use the processor gets a beat at once. One look tells what all nodes together use, and
   only when that is much is there one at each. */
#include "core/core_internal.h"

enum {
    VIGIL_MS = 100,       /* and as long again until the agent has acted: a quarter of a second at most */
    WORK_NS = 2000000,    /* so much CPU time is enough for a thousand processes */
    IDLE_NODE_NS = 20000, /* what an idle node may use from one look to the next */
};

static bool is_watched(const struct sandbox *sandbox) {
    return sandbox->status == STATUS_RUNNING && sandbox->node && node_is_ready(sandbox->node) &&
           !node_is_frozen(sandbox->node);
}

/* True as well when it can't be told. */
static bool somebody_works(struct engine *engine, const struct node *any, size_t count) {
    uint64_t cpu_ns = node_cpu_of_all_ns(any), before_ns = engine->vigil_cpu_ns;
    engine->vigil_cpu_ns = cpu_ns;
    return cpu_ns == NODE_UNKNOWN || cpu_ns - before_ns > WORK_NS + count * IDLE_NODE_NS;
}

static void look_at(struct sandbox *sandbox) {
    uint64_t cpu_ns = node_cpu_ns(sandbox->node), before_ns = sandbox->metering.vigil_cpu_ns;
    if (cpu_ns == NODE_UNKNOWN) return;
    sandbox->metering.vigil_cpu_ns = cpu_ns;
    if (cpu_ns - before_ns > WORK_NS) node_beat(sandbox->node);
}

/* It goes on while something runs, whether that can be watched just now or not: a node could choose when. */
static void on_vigil(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    const struct sandbox *any = NULL;
    size_t at = 0, running = 0, watched = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        const struct sandbox *sandbox = value;
        running += sandbox->metering.next_ms != 0;
        if (is_watched(sandbox)) any = sandbox, watched++;
    }
    if (running == 0) uv_timer_stop(timer);
    if (!any || !somebody_works(engine, any->node, watched)) return;
    for (at = 0; map_next(&engine->sandboxes, &at, NULL, &value);)
        if (is_watched(value)) look_at(value);
}

void vigil_open(struct engine *engine) {
    engine->vigil_timer.data = engine;
    uv_timer_init(engine->loop, &engine->vigil_timer);
}

void vigil_begin(struct engine *engine) {
    if (!engine->closing && !uv_is_active((uv_handle_t *)&engine->vigil_timer))
        uv_timer_start(&engine->vigil_timer, on_vigil, VIGIL_MS, VIGIL_MS);
}

void vigil_stop(struct engine *engine) {
    uv_timer_stop(&engine->vigil_timer);
}
