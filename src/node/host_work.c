/* Work for callers on the loop's thread pool, which has few threads: one caller's waits for its own, see
   base/schedule/turns.h.
 */
#include <stdlib.h>

#include "node/node.h"

enum { DISCARDED_HERE_BYTES = 128 << 10 };

struct piece {
    struct turn turn; /* first, so that it leads back here */
    struct node_host *host;
    uv_work_t own;
    uv_work_t *work; /* the asker's */
    uv_work_cb run;
    uv_after_work_cb after;
};

static void run(uv_work_t *own) {
    const struct piece *piece = own->data;
    piece->run(piece->work);
}

/* The next one of the same caller begins first: what follows may queue more. */
static void after_run(uv_work_t *own, int status) {
    struct piece *piece = own->data;
    uv_work_t *work = piece->work;
    uv_after_work_cb after = piece->after;
    loop_note(piece->host->loop, "pool", NULL);
    turns_give_back(&piece->host->turns, &piece->turn);
    free(piece);
    after(work, status);
}

static void begin(struct turn *turn) {
    struct piece *piece = (struct piece *)turn;
    loop_queue_work(piece->host->loop, &piece->own, run, after_run);
}

void host_work(struct node_host *host, uid_t caller, uv_work_t *work, uv_work_cb run_work, uv_after_work_cb after) {
    struct piece *piece = new_or_abort(struct piece);
    *piece = (struct piece){.turn = {.owner = principals_of(host->principals, caller), .begin = begin},
                            .host = host,
                            .work = work,
                            .run = run_work,
                            .after = after};
    piece->own.data = piece;
    turns_take(&host->turns, &piece->turn);
}

void host_discard(struct node_host *host, struct buf *buf) {
    if (buf->capacity > DISCARDED_HERE_BYTES)
        loop_discard(host->loop, free, buf->data);
    else
        buf_free(buf);
    *buf = (struct buf)BUF_INIT;
}
