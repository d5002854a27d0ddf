/* Long answers: how much memory those take that their callers have not read yet, and freeing them, which takes
   milliseconds for tens of megabytes, beside the loop. */
#include "api/api_internal.h"

#include <stdlib.h>

enum {
    ANSWERS_OF_ONE_BYTES = 64 << 20,
    ANSWERS_BYTES = 256 << 20,
    ANSWERS_OF_ADMINS_BYTES = 64 << 20, /* more, for them alone */
    FREED_HERE_BYTES = 256 << 10,
};

/* Of one caller, or of all. */
static size_t held(const struct api *api, const uid_t *uid) {
    size_t bytes = direct_answer_bytes(api, uid);
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        bool is_meant = !uid || exchange->request.caller.uid == *uid; /* its connection may be gone */
        if (is_meant && exchange->answer && !exchange->in_work) bytes += exchange->answer->size;
    }
    return bytes;
}

/* The answer itself is among those that are held. */
int answers_admit(const struct api *api, const struct caller *caller, struct error *reterr) {
    bool is_admin = caller->role == ROLE_ADMIN;
    if (!is_admin && held(api, &caller->uid) > ANSWERS_OF_ONE_BYTES)
        return error_set(reterr, E_LIMIT, "answers of %d bytes wait to be read by this user already",
                         ANSWERS_OF_ONE_BYTES);
    if (held(api, NULL) > ANSWERS_BYTES + (is_admin ? (size_t)ANSWERS_OF_ADMINS_BYTES : 0))
        return error_set(reterr, E_LIMIT, "answers of %d bytes wait to be read already", ANSWERS_BYTES);
    return 0;
}

/* ---- freeing ---- */

struct freeing {
    struct loop_work work;
    struct api *api;
    void *data;
};

static struct freeing *freeing_of(struct loop_work *work) {
    return (struct freeing *)((char *)work - offsetof(struct freeing, work));
}

static void run(struct loop_work *work) {
    free(freeing_of(work)->data);
}

static void on_done(struct loop_work *work) {
    freeing_of(work)->api->freeing_count--;
    free(freeing_of(work));
}

void answers_free(struct api *api, uid_t uid, void *data, size_t size) {
    bool is_short = size <= FREED_HERE_BYTES || api->closing; /* then nothing may wait for a thread any more */
    struct freeing *freeing = is_short ? NULL : malloc(sizeof *freeing);
    if (!freeing) {
        free(data);
        return;
    }
    *freeing = (struct freeing){.work = {.run = run, .done = on_done}, .api = api, .data = data};
    api->freeing_count++;
    loop_work_submit(&api->workers, uid, &freeing->work);
}
