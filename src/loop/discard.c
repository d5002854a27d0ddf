/* Freeing takes about as long as making did: what may be large is freed on the pool. */
#include "loop/loop.h"

#include <stdlib.h>

struct discard {
    uv_work_t work;
    void (*release)(void *value);
    void *value;
};

static void run(uv_work_t *work) {
    const struct discard *discard = work->data;
    discard->release(discard->value);
}

static void on_released(uv_work_t *work, int status) {
    (void)status;
    free(work->data);
}

/* Without memory, or while the loop ends, it is freed here. */
void loop_discard(uv_loop_t *loop, void (*release)(void *value), void *value) {
    struct discard *discard = calloc(1, sizeof *discard);
    if (discard) {
        *discard = (struct discard){.work.data = discard, .release = release, .value = value};
        if (loop_queue_work(loop, &discard->work, run, on_released) == 0) return;
        free(discard);
    }
    release(value);
}
