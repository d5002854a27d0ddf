/* The loop's watch: at the end of each turn it compares the thread's CPU time with that of the turn before, and it
   remembers which noted piece of work took longest. */
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_NS = 300 * 1000 };

struct loop_watch {
    uv_loop_t *loop;
    uv_prepare_t prepare;
    struct loop_pool *pool;
    struct attention attention;
    struct loop_report report;
    uint64_t cpu_ns;        /* of the thread, when the turn began */
    uint64_t turn_at_ns;    /* when its first work was noted; 0: none was */
    uint64_t work_at_ns;    /* when the work at hand was noted; 0: none was in this turn */
    struct loop_turn work;  /* at hand */
    bool has_begun;         /* what came before the first turn is the start of the program */
    struct loop_turn heavy; /* the longest in this turn; its cpu_us is time on the wall, which is cheaper to ask for */
};

static struct loop_watch *watch_of(const uv_loop_t *loop) {
    return loop->data;
}

uint64_t loop_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void end_work(struct loop_watch *watch, uint64_t now_ns) {
    if (watch->work_at_ns == 0) return;
    watch->work.cpu_us = (now_ns - watch->work_at_ns) / 1000;
    if (!watch->heavy.work || watch->work.cpu_us > watch->heavy.cpu_us) watch->heavy = watch->work;
    watch->work_at_ns = 0;
}

static void end_turn(struct loop_watch *watch, uint64_t now_ns) {
    uint64_t cpu_ns = loop_cpu_ns();
    end_work(watch, now_ns);
    struct loop_turn turn = watch->heavy;
    turn.cpu_us = (cpu_ns - watch->cpu_ns) / 1000;
    if (!turn.work) turn.work = "other";
    if (turn.cpu_us > LOOP_TURN_LONG_US) turn.at_ms = clock_wall_ms();
    if (watch->has_begun) loop_report_add(&watch->report, &turn);
    watch->has_begun = true;
    watch->cpu_ns = cpu_ns;
    watch->turn_at_ns = 0;
    watch->heavy = (struct loop_turn){0};
}

static void on_prepare(uv_prepare_t *prepare) {
    struct loop_watch *watch = prepare->data;
    uint64_t now_ns = uv_hrtime();
    end_turn(watch, now_ns);
    attention_poll(&watch->attention, now_ns, uv_backend_timeout(watch->loop));
}

int loop_watch_open(uv_loop_t *loop, struct loop_watch **ret, struct error *reterr) {
    struct loop_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return error_set(reterr, E_NO_MEMORY, "no memory to watch the loop");
    int result = loop_pool_open(loop, &watch->pool, reterr);
    if (result < 0) {
        free(watch);
        return result;
    }
    watch->loop = loop;
    watch->cpu_ns = loop_cpu_ns();
    attention_begin(&watch->attention, uv_hrtime());
    uv_prepare_init(loop, &watch->prepare);
    watch->prepare.data = watch;
    uv_prepare_start(&watch->prepare, on_prepare);
    uv_unref((uv_handle_t *)&watch->prepare); /* the loop ends when nothing else is left */
    loop->data = watch;
    *ret = watch;
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void loop_watch_close(struct loop_watch *watch) {
    if (!watch) return;
    watch->loop->data = NULL;
    loop_pool_close(watch->pool);
    uv_close((uv_handle_t *)&watch->prepare, on_closed);
}

struct loop_pool *loop_pool_of(const uv_loop_t *loop) {
    const struct loop_watch *watch = watch_of(loop);
    return watch ? watch->pool : NULL;
}

uint64_t loop_attended_ms(const uv_loop_t *loop) {
    const struct loop_watch *watch = watch_of(loop);
    return watch ? attention_ms(&watch->attention, uv_hrtime()) : uv_now(loop);
}

bool loop_deadline_is_early(uv_timer_t *timer, uint64_t due_ms, uv_timer_cb callback) {
    uint64_t now_ms = loop_attended_ms(timer->loop);
    if (now_ms >= due_ms) return false;
    uv_timer_start(timer, callback, due_ms - now_ms, uv_timer_get_repeat(timer));
    return true;
}

void loop_note(uv_loop_t *loop, const char *work, const char *detail) {
    struct loop_watch *watch = watch_of(loop);
    if (!watch) return;
    uint64_t now_ns = uv_hrtime();
    end_work(watch, now_ns);
    watch->work_at_ns = now_ns;
    if (watch->turn_at_ns == 0) watch->turn_at_ns = now_ns;
    watch->work.work = work;
    size_t length = detail ? strnlen(detail, LOOP_DETAIL_BYTES - 1) : 0;
    memcpy(watch->work.detail, detail ? detail : "", length);
    watch->work.detail[length] = '\0';
}

bool loop_turn_is_longer(const uv_loop_t *loop, uint32_t us) {
    const struct loop_watch *watch = watch_of(loop);
    return watch && watch->turn_at_ns > 0 && uv_hrtime() - watch->turn_at_ns > us * UINT64_C(1000);
}

bool loop_turn_is_full(const uv_loop_t *loop) {
    return loop_turn_is_longer(loop, LOOP_TURN_FULL_US);
}

bool loop_slice_is_over(const uv_loop_t *loop, uint32_t full_us, uint64_t begun_ns) {
    return loop_turn_is_longer(loop, full_us) && uv_hrtime() - begun_ns > SLICE_NS;
}

const struct loop_report *loop_report(const uv_loop_t *loop) {
    const struct loop_watch *watch = watch_of(loop);
    return watch ? &watch->report : NULL;
}
