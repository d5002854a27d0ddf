/* The CPU watch: finds nodes that begin to work, ten times a second. While a node idles, its agent checks its limits
   with some of the beats only. A fork bomb in between must not get seconds, so a node that begins to use the processor
   gets a beat at once. One read tells what all nodes together use; the watch looks at each node only when that is much.
   A node that works flat out yields to others that work. So that it does soon, the watch looks at each working node a
   second time, over a shorter span. A look reads files of each node. Strangers choose how many nodes there are, so a
   look goes on in later turns of the loop once it has filled one. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/core_internal.h"

enum {
    CPU_WATCH_MS = 100,   /* and as long again until the agent has acted: a quarter of a second at most */
    SECOND_LOOK_MS = 25,  /* after the first */
    NEXT_TURN_MS = 1,     /* libuv runs a timer of 0 ms in the same turn again */
    WORK_NS = 2000000,    /* so much CPU time is enough for a thousand processes */
    IDLE_NODE_NS = 20000, /* what an idle node may use from one look to the next */
    SPARE_PERCENT = 20,   /* of one core: a machine that idles no more than that is full */
    SPAN_MAX_MS = 1000,   /* what it did over a longer one says nothing of now */
};

/* Its group tells what it uses, whether its agent is there or not and whatever is being done with it: a node could
   choose. */
static bool is_watched(const struct sandbox *sandbox) {
    return sandbox->metering.next_ms != 0 && sandbox->node && !node_is_frozen(sandbox->node);
}

/* True as well when it can't be told. */
static bool somebody_works(struct engine *engine, const struct node *any, size_t count) {
    uint64_t cpu_ns = node_cpu_of_all_ns(any), before_ns = engine->cpu_watch.used_ns;
    engine->cpu_watch.used_ns = cpu_ns;
    return cpu_ns == NODE_UNKNOWN || cpu_ns - before_ns > WORK_NS + count * IDLE_NODE_NS;
}

/* "12.34 56.78": since when the machine runs, and how long its cores have been idle in sum. */
static bool read_idle(uint64_t *ret_ns) {
    char text[64];
    unsigned long long s, cs;
    CLEANUP_FD int fd = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (count <= 0) return false;
    text[count] = '\0';
    if (sscanf(text, "%*u.%*u %llu.%llu", &s, &cs) != 2) return false;
    *ret_ns = (s * 100 + cs) * 10000000;
    return true;
}

/* Since the last look. One that can't be told about counts as full: then no sandbox yields for longer than it must. */
static bool machine_is_full(struct engine *engine, uint64_t now_ns) {
    uint64_t idle_ns, before_ns = engine->cpu_watch.machine_idle_ns, span_ns = now_ns - engine->cpu_watch.machine_ns;
    if (!read_idle(&idle_ns)) return true;
    engine->cpu_watch.machine_ns = now_ns;
    engine->cpu_watch.machine_idle_ns = idle_ns;
    return span_ns > SPAN_MAX_MS * UINT64_C(1000000) || (idle_ns - before_ns) * 100 < span_ns * SPARE_PERCENT;
}

/* Time in which it stood still is no calm. */
static void look_away(struct sandbox *sandbox) {
    sandbox->metering.cpu_watch_ns = 0;
    sandbox->metering.is_working = false;
    sandbox->metering.is_counted = false;
    sandbox->metering.pace.stirs = 0;
}

/* Judged by what it did since the last look. A counter that goes back is another one's. */
static void look_at(struct sandbox *sandbox, uint64_t now_ns, bool is_machine_full, bool is_brief) {
    struct metering *metering = &sandbox->metering;
    uint64_t cpu_ns = node_cpu_ns(sandbox->node);
    if (cpu_ns == NODE_UNKNOWN) {
        metering->pace.stirs = 0;
        return;
    }
    struct meter_work work = {now_ns - metering->cpu_watch_ns, cpu_ns - metering->cpu_watch_used_ns, is_machine_full,
                              is_brief};
    bool is_known = metering->cpu_watch_ns != 0 && cpu_ns >= metering->cpu_watch_used_ns;
    metering->cpu_watch_ns = now_ns;
    metering->cpu_watch_used_ns = cpu_ns;
    metering->is_working = !is_known || work.cpu_ns > WORK_NS;
    if (is_known) busy_wait_judge(&metering->busy_wait, work.span_ns, work.cpu_ns);
    work.cpu_ns = busy_wait_own_ns(&metering->busy_wait, work.cpu_ns, &metering->cpu_watch_busy_wait_ns);
    if (is_known) meter_pace(&metering->pace, &work);
}

static void let_yield(struct sandbox *sandbox) {
    node_yield(sandbox->node, sandbox->metering.pace.is_flat_out && sandbox->engine->cpu_watch.company.is_there);
}

/* ---- nodes one after another, over as many turns as it takes ---- */

/* False: the turn is full, and the rest has to wait. One fits in any case: strangers who keep every turn full must not
   keep nodes from being looked at. Sandboxes come and go meanwhile, so each has a mark instead of the map a place. */
static bool each_watched(struct engine *engine, void (*visit)(struct sandbox *sandbox)) {
    uint64_t round = engine->cpu_watch.round;
    bool is_full = false;
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        struct sandbox *sandbox = value;
        if (sandbox->metering.cpu_watch_round == round || !is_watched(sandbox)) continue;
        if (is_full) return false;
        sandbox->metering.cpu_watch_round = round;
        visit(sandbox);
        is_full = loop_turn_is_full(engine->loop);
    }
    return true;
}

static void begin_round(struct engine *engine, uv_timer_cb go_on) {
    engine->cpu_watch.round++;
    go_on(&engine->cpu_watch.timer);
}

static void begin_turn(uv_timer_t *timer) {
    loop_note(timer->loop, "cpu watch", NULL);
}

static void on_cpu_watch(uv_timer_t *timer);

/* ---- the second look ---- */

static void look_again(struct sandbox *sandbox) {
    if (!sandbox->metering.is_working) return;
    look_at(sandbox, uv_hrtime(), false, true);
    let_yield(sandbox);
}

static void go_on_again(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    begin_turn(timer);
    if (each_watched(engine, look_again))
        uv_timer_start(timer, on_cpu_watch, CPU_WATCH_MS - SECOND_LOOK_MS, 0);
    else
        uv_timer_start(timer, go_on_again, NEXT_TURN_MS, 0);
}

static void on_second_look(uv_timer_t *timer) {
    begin_round(timer->data, go_on_again);
}

/* ---- the first ---- */

struct census {
    const struct sandbox *any;
    size_t running, watched, yielding;
};

static struct census count_all(struct engine *engine) {
    struct census census = {0};
    size_t at = 0;
    void *value;
    while (map_next(&engine->sandboxes, &at, NULL, &value)) {
        struct sandbox *sandbox = value;
        census.running += sandbox->metering.next_ms != 0;
        if (!is_watched(sandbox)) {
            look_away(sandbox);
            continue;
        }
        census.any = sandbox;
        census.watched++;
        census.yielding += node_yields(sandbox->node);
    }
    return census;
}

/* A sandbox that works below full load is company for those at full load. */
static void look_first(struct sandbox *sandbox) {
    struct cpu_watch *watch = &sandbox->engine->cpu_watch;
    look_at(sandbox, uv_hrtime(), watch->is_machine_full, false);
    watch->has_company |= meter_is_company(&sandbox->metering.pace);
}

static void note_company(struct cpu_watch *watch) {
    uint64_t now_ns = uv_hrtime();
    meter_company(&watch->company, now_ns - watch->looked_ns, watch->has_company);
    watch->looked_ns = now_ns;
}

/* A node busy-waits only while no other sandbox has use for the processor. */
static void count_worker(struct sandbox *sandbox) {
    struct metering *metering = &sandbox->metering;
    metering->is_counted = metering->is_working || meter_is_company(&metering->pace);
    sandbox->engine->cpu_watch.counted += metering->is_counted;
}

static void tend(struct sandbox *sandbox) {
    let_yield(sandbox);
    count_worker(sandbox);
    if (!sandbox->metering.is_working) return;
    node_beat(sandbox->node);
    metering_hasten(sandbox);
    limit_look_at_forks(sandbox);
    /* A sandbox works that is not known to be at full load. */
    sandbox->engine->cpu_watch.looks_again |= !sandbox->metering.pace.is_flat_out;
}

static void go_on_tending(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    struct cpu_watch *watch = &engine->cpu_watch;
    begin_turn(timer);
    if (!each_watched(engine, tend)) {
        uv_timer_start(timer, go_on_tending, NEXT_TURN_MS, 0);
        return;
    }
    watch->workers = watch->counted;
    if (watch->looks_again)
        uv_timer_start(timer, on_second_look, SECOND_LOOK_MS, 0);
    else
        uv_timer_start(timer, on_cpu_watch, CPU_WATCH_MS, 0);
}

static void go_on_looking(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    begin_turn(timer);
    if (!each_watched(engine, look_first)) {
        uv_timer_start(timer, go_on_looking, NEXT_TURN_MS, 0);
        return;
    }
    note_company(&engine->cpu_watch);
    begin_round(engine, go_on_tending);
}

static void look_at_everybody(struct engine *engine, bool is_any_yielding) {
    struct cpu_watch *watch = &engine->cpu_watch;
    watch->is_machine_full = is_any_yielding && machine_is_full(engine, uv_hrtime());
    watch->has_company = watch->looks_again = false;
    watch->counted = 0;
    begin_round(engine, go_on_looking);
}

/* It goes on while something runs, whether that can be watched just now or not: a node could choose when. */
static void on_cpu_watch(uv_timer_t *timer) {
    struct engine *engine = timer->data;
    begin_turn(timer);
    struct census census = count_all(engine);
    bool is_due = census.any && (somebody_works(engine, census.any->node, census.watched) || census.yielding);
    if (is_due) {
        look_at_everybody(engine, census.yielding);
        return;
    }
    engine->cpu_watch.workers = 0;
    if (census.running) uv_timer_start(timer, on_cpu_watch, CPU_WATCH_MS, 0);
}

void cpu_watch_open(struct engine *engine) {
    engine->cpu_watch.timer.data = engine;
    uv_timer_init(engine->loop, &engine->cpu_watch.timer);
}

void cpu_watch_begin(struct engine *engine) {
    if (!engine->closing.is_begun && !uv_is_active((uv_handle_t *)&engine->cpu_watch.timer))
        uv_timer_start(&engine->cpu_watch.timer, on_cpu_watch, CPU_WATCH_MS, 0);
}

void cpu_watch_stop(struct engine *engine) {
    uv_timer_stop(&engine->cpu_watch.timer);
}
