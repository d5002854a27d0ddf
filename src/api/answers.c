/* Long answers: how much memory those take that their callers have not read yet, and freeing them, which takes
   milliseconds for tens of megabytes, beside the loop. */
#include "api/api_internal.h"

#include <stdlib.h>

enum {
    ANSWERS_BYTES = 256 << 20,
    PRINTS = 20, /* that are being printed, or wait for that */
    FREED_HERE_BYTES = 256 << 10,
};

/* ---- what waits to be printed ---- */

static size_t prints(const struct api *api, const uid_t *principal) {
    size_t count = direct_prints(api, principal);
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        count += exchange->prints && exchange_is_of(exchange, principal);
    }
    return count;
}

/* What was asked for has been done by now: it must not look as if asking again were harmless. */
int answers_admit_value(const struct api *api, const struct caller *caller, struct error *reterr) {
    uid_t principal = api_principal(api, caller->uid);
    struct share share = {.all = PRINTS, .used = prints(api, NULL) + 1, .own = prints(api, &principal) + 1};
    if (quotas_is_fair(api->config.quotas, caller->uid, &share)) return 0;
    return error_set(reterr, E_DISCARDED, "%d long answers are being printed, %d of them for this user",
                     (int)share.used - 1, (int)share.own - 1);
}

/* ---- what waits to be read ---- */

/* Of one principal, or of all. */
static size_t held(const struct api *api, const uid_t *principal) {
    size_t bytes = direct_answer_bytes(api, principal);
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) {
        if (!exchange_is_of(exchange, principal)) continue;
        if (exchange->answer && !exchange->in_work) bytes += exchange->answer->size;
        if (exchange->stream) bytes += exchange->stream->long_bytes;
    }
    return bytes;
}

/* The answer itself is among those that are held. */
int answers_admit(const struct api *api, const struct caller *caller, struct error *reterr) {
    uid_t principal = api_principal(api, caller->uid);
    struct share share = {.all = ANSWERS_BYTES, .used = held(api, NULL), .own = held(api, &principal)};
    if (quotas_is_fair(api->config.quotas, caller->uid, &share)) return 0;
    return error_set(reterr, E_DISCARDED,
                     "answers of %llu bytes, with this one, wait to be read, %llu of them by this user",
                     (unsigned long long)share.used, (unsigned long long)share.own);
}

/* ---- freeing ---- */

struct freeing {
    struct loop_work work;
    struct api *api;
    void *data;
    json_t *value;
};

static struct freeing *freeing_of(struct loop_work *work) {
    return (struct freeing *)((char *)work - offsetof(struct freeing, work));
}

static void run(struct loop_work *work) {
    free(freeing_of(work)->data);
    json_decref(freeing_of(work)->value);
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
    loop_work_submit(&api->workers, api_principal(api, uid), &freeing->work);
}

/* Not behind what the same caller has printed: that it is much is why it goes. */
void answers_discard(struct api *api, uid_t uid, json_t *value) {
    struct freeing *freeing = api->closing ? NULL : malloc(sizeof *freeing);
    if (!freeing) {
        json_decref(value);
        return;
    }
    *freeing = (struct freeing){.work = {.run = run, .done = on_done}, .api = api, .value = value};
    api->freeing_count++;
    loop_work_submit(&api->workers, UINT64_C(1) << 32 | api_principal(api, uid), &freeing->work);
}
