/* Every operation in the audit trail: what changes something before it begins, and how it ended; and the trail itself
   for callers that may read it. */
#include "audit/audit.h"

#include <string.h>

#include "core/jobs/oneshot.h"
#include "core/policy/audit.h"
#include "core/policy/audit_record.h"
#include "core/sandbox/sandbox.h"

/* ---- records ---- */

/* Hangs off its request until that is answered. */
struct audited {
    struct engine *engine;
    struct audit_subject subject;
    struct request *request;
    engine_fn *run;
    uint64_t began_ms;
    bool is_gone; /* the caller, while the first record was written */
};

static void add_end(struct engine *engine, const struct audit_subject *subject, const struct request *request,
                    const struct error *error, uint64_t duration_ms, bool is_first) {
    CLEANUP(buf_free) struct buf record = BUF_INIT;
    audit_record_begin(&record, subject->op, request, "end");
    audit_record_outcome(&record, error, duration_ms);
    if (is_first) audit_record_params(&record, request->params);
    quotas_charge(engine->config.quotas, request->caller.uid, QUOTA_LOG, record.size);
    audit_add(engine->trail.audit, &record, !is_first, NULL, NULL); /* of what was refused nothing has happened */
}

void audit_note(struct engine *engine, const char *op, uid_t uid, const char *sandbox_id, json_t *data) {
    CLEANUP(buf_free) struct buf record = BUF_INIT;
    json_t *params = json_copy(data);
    struct request request = {.params = params, .caller = {.uid = uid, .peer_fd = -1, .is_service = true}};
    json_object_set_new(params, "sandbox_id", json_string(sandbox_id));
    audit_record_begin(&record, op, &request, "end");
    audit_record_outcome(&record, NULL, 0);
    audit_record_params(&record, params);
    quotas_charge(engine->config.quotas, uid, QUOTA_LOG, record.size);
    audit_add(engine->trail.audit, &record, true, NULL, NULL);
    json_decref(params);
}

/* ---- around an operation ---- */

/* Whether the sandbox's profile wants to have it in the trail although it changes nothing. */
static bool is_watched(struct engine *engine, const struct request *request) {
    const char *id = json_string_value(json_object_get(request->params, "id"));
    const struct sandbox *sandbox = id ? map_get(&engine->sandboxes, id) : NULL;
    return sandbox && sandbox->config.profile->audit == GUARD_AUDIT_ALL;
}

/* What is a caller's to mend is no trouble of the service's, unless it is about permissions. */
static bool is_of_service(const struct error *error) {
    const struct error_kind *kind = error_kind(error->code);
    return kind->may_pass || kind->category == CATEGORY_SECURITY;
}

/* A request for another user's sandbox fails without an event of that sandbox. */
static void note_outcome(const struct audited *audited, const struct request *request, const struct error *error) {
    const char *id = json_string_value(json_object_get(request->params, "id"));
    struct sandbox *sandbox = id ? map_get(&audited->engine->sandboxes, id) : NULL;
    bool is_seen = sandbox && sandbox_visible(sandbox, &request->caller);
    if (is_seen || !error || is_of_service(error))
        patterns_note(audited->engine, is_seen ? sandbox : NULL, audited->subject.op, error);
}

void audited_end(struct request *request, const struct error *error) {
    struct audited *audited = request->audited;
    if (!audited) return;
    request->audited = NULL;
    note_outcome(audited, request, error);
    add_end(audited->engine, &audited->subject, request, error, clock_monotonic_ms() - audited->began_ms,
            audited->subject.kind == AUDIT_READS);
    free(audited);
}

static void on_cancel(struct request *request) {
    struct audited *audited = request->audited;
    audited->is_gone = true;
}

/* It is in the trail: now it may begin. */
static void on_begun(void *data, const struct error *error) {
    struct audited *audited = data;
    struct engine *engine = audited->engine;
    engine->trail.admitting--;
    audited->request->cancel = NULL;
    if (error)
        answer_error(engine, audited->request, error, NULL);
    else if (audited->is_gone)
        answer_fail(engine, audited->request, E_TIMEOUT, "the caller has gone");
    else
        audited->run(engine, audited->request);
    engine_wake(engine);
}

static struct audited *new_audited(struct engine *engine, const struct audit_subject *subject, struct request *request,
                                   engine_fn *run) {
    struct audited *audited = new_or_abort(struct audited);
    *audited = (struct audited){
        .engine = engine, .subject = *subject, .request = request, .run = run, .began_ms = clock_monotonic_ms()};
    request->audited = audited;
    return audited;
}

/* Whether its caller may still cause records. The last one of an operation is written in any case, and charged. */
static int check_room(struct engine *engine, enum audit_kind kind, const struct request *request, size_t bytes,
                      struct error *reterr) {
    struct quotas *quotas = engine->config.quotas;
    uid_t uid = request->caller.uid;
    int result = quotas_spend(quotas, uid, QUOTA_LOG, bytes, kind == AUDIT_ENDS, reterr);
    if (result < 0) quotas_leave_out(quotas, uid);
    return result;
}

void engine_refuse(struct engine *engine, const struct audit_subject *subject, struct request *request,
                   const struct error *error) {
    if (subject->kind != AUDIT_NOT && check_room(engine, AUDIT_READS, request, 0, NULL) == 0)
        add_end(engine, subject, request, error, 0, true);
    answer_error(engine, request, error, NULL);
}

/* How it ended is in the trail, if it is to be there at all. */
static void carry_out_reading(struct engine *engine, const struct audit_subject *subject, struct request *request,
                              engine_fn *run) {
    struct audit_subject watched = {.op = subject->op, .kind = AUDIT_READS};
    struct error error;
    bool is_audited = subject->kind == AUDIT_READS || is_watched(engine, request);
    if (is_audited && check_room(engine, AUDIT_READS, request, 0, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    if (is_audited) new_audited(engine, &watched, request, run);
    run(engine, request);
}

/* A refusal for want of room is in no record: it would be one more. */
static void carry_out_writing(struct engine *engine, const struct audit_subject *subject, struct request *request,
                              engine_fn *run) {
    struct error error;
    CLEANUP(buf_free) struct buf record = BUF_INIT;
    audit_record_begin(&record, subject->op, request, "begin");
    audit_record_params(&record, request->params);
    if (check_room(engine, subject->kind, request, record.size, &error) < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct audited *audited = new_audited(engine, subject, request, run);
    request->cancel = on_cancel;
    engine->trail.admitting++;
    audit_add(engine->trail.audit, &record, subject->kind == AUDIT_ENDS, on_begun, audited);
}

void engine_carry_out(struct engine *engine, const struct audit_subject *subject, struct request *request,
                      engine_fn *run) {
    struct error error;
    if (request_admit(engine, request, &error) < 0)
        engine_refuse(engine, subject, request, &error);
    else if (subject->kind <= AUDIT_READS)
        carry_out_reading(engine, subject, request, run);
    else
        carry_out_writing(engine, subject, request, run);
}

/* ---- the operation `audit` ---- */

/* The past is read from the files page by page, as the reader takes it. */
struct look {
    struct oneshot oneshot;
    struct audit_filter filter;
    bool verifies, follows;
    struct audit_chain known; /* that was written when it was asked */
    json_t *verdict;
    bool has_sought;
    struct audit_cursor cursor;
    struct buf lines; /* the page */
};

static struct audit_filter filter_of(json_t *params) {
    json_t *uid = json_object_get(params, "uid");
    return (struct audit_filter){
        .since = (uint64_t)json_integer_value(json_object_get(params, "since")),
        .limit = (size_t)json_integer_value(json_object_get(params, "limit")),
        .op = json_string_value(json_object_get(params, "op")),
        .sandbox_id = json_string_value(json_object_get(params, "sandbox_id")),
        .outcome = json_string_value(json_object_get(params, "outcome")),
        .uid = json_is_integer(uid) ? json_integer_value(uid) : -1,
    };
}

static int run(struct oneshot *oneshot, struct error *reterr) {
    struct look *look = (struct look *)oneshot;
    const char *home = oneshot->engine->config.home;
    atomic_bool *call_off = &oneshot->call_off;
    if (look->verifies) return audit_verify(home, &look->known, call_off, &look->verdict, reterr);
    int result = look->has_sought ? 0 : audit_seek(home, &look->filter, call_off, &look->cursor, reterr);
    look->has_sought = true;
    if (result == 0) result = audit_read_page(home, &look->filter, call_off, &look->cursor, &look->lines, reterr);
    return result;
}

static void end_look(struct look *look) {
    look->oneshot.engine->trail.readers--;
    look->oneshot.request->more = NULL;
    buf_free(&look->lines);
    json_decref(look->verdict);
}

static void fail_look(struct look *look, const struct error *error) {
    end_look(look);
    oneshot_fail(&look->oneshot, error, NULL);
}

static bool may_see(void *data, const struct caller *caller, const json_t *record) {
    const struct request *request = data;
    struct audit_filter filter = filter_of(request->params);
    (void)caller;
    return audit_matches(&filter, (json_t *)record);
}

/* The past has been sent; what came meanwhile and what comes is in the feed. */
static void follow(struct look *look) {
    struct engine *engine = look->oneshot.engine;
    struct request *request = look->oneshot.request;
    struct feed_filter filter = {.since =
                                     look->cursor.seen > look->filter.since ? look->cursor.seen : look->filter.since,
                                 .tail = SIZE_MAX,
                                 .may_see = may_see,
                                 .data = request};
    end_look(look);
    oneshot_release(&look->oneshot);
    feed_stream(engine, engine->trail.feed, request, &filter, true);
}

/* Whether the feed goes on where the files were left: a reader that took its time has to go on with the files. */
static bool feed_goes_on(const struct look *look) {
    const struct feed *feed = look->oneshot.engine->trail.feed;
    return feed->count == 0 || feed_record_seq(feed_record_at(feed, feed->gone)) <= look->cursor.seen + 1;
}

static void send_line(struct request *request, const char *line, size_t size) {
    struct audit_chain record = {0};
    if (request->item_text) {
        audit_line_end(line, &record);
        request->item_text(request, record.seq, line, size);
        return;
    }
    json_t *item = json_loadb(line, size, 0, NULL);
    if (item) request->item(request, item);
}

static void send_page(struct look *look) {
    struct request *request = look->oneshot.request;
    char *line = (char *)buf_string(&look->lines), *newline;
    if (look->cursor.skipped > 0)
        request->item(request, json_pack("{s:I}", "skipped", (json_int_t)look->cursor.skipped));
    look->cursor.skipped = 0;
    for (; (newline = strchr(line, '\n')); line = newline + 1) {
        *newline = '\0';
        send_line(request, line, (size_t)(newline - line));
    }
    buf_clear(&look->lines);
}

static void on_read(struct oneshot *oneshot, const struct error *error);

/* Nothing is under way that would notice. */
static void on_called_off(struct oneshot *oneshot) {
    fail_look((struct look *)oneshot, &oneshot->why);
}

static void on_more(struct request *request) {
    struct oneshot *oneshot = request->state;
    if (!oneshot->waiting) return;
    oneshot->waiting = NULL;
    oneshot_work(oneshot, run, on_read);
}

static void read_on(struct look *look) {
    struct request *request = look->oneshot.request;
    look->oneshot.waiting = on_called_off;
    request->more = on_more;
    if (!request->has_room || request->has_room(request)) on_more(request);
}

static void on_read(struct oneshot *oneshot, const struct error *error) {
    struct look *look = (struct look *)oneshot;
    if (error || oneshot->why.code != E_NONE) {
        fail_look(look, oneshot->why.code != E_NONE ? &oneshot->why : error);
        return;
    }
    if (look->verifies)
        oneshot->request->item(oneshot->request, json_incref(look->verdict));
    else
        send_page(look);
    if (oneshot->why.code != E_NONE) { /* the reader has gone at one of them */
        fail_look(look, &oneshot->why);
    } else if (!look->verifies && (!look->cursor.is_at_end || (look->follows && !feed_goes_on(look)))) {
        read_on(look);
    } else if (look->follows) {
        follow(look);
    } else {
        end_look(look);
        oneshot_answer(oneshot, json_object());
    }
}

/* What was answered before is in the files now. */
static void on_flushed(void *data, const struct error *error) {
    struct look *look = data;
    (void)error;
    look->known = *audit_last(look->oneshot.engine->trail.audit);
    oneshot_work(&look->oneshot, run, on_read);
}

void engine_audit(struct engine *engine, struct request *request) {
    struct look *look = (struct look *)oneshot_begin(engine, request, sizeof *look);
    if (!look) return;
    look->filter = filter_of(request->params);
    look->verifies = json_is_true(json_object_get(request->params, "verify"));
    look->follows = !look->verifies && json_is_true(json_object_get(request->params, "follow"));
    engine->trail.readers++;
    audit_flush(engine->trail.audit, on_flushed, look);
}

/* Kept only for callers that follow, or are about to: the others read the files. */
void audit_feed_record(void *data, const char *line) {
    struct engine *engine = data;
    bool is_wanted = engine->trail.readers > 0 || engine->trail.feed->followers > 0;
    json_t *record = is_wanted ? json_loads(line, 0, NULL) : NULL;
    if (record) feed_put(engine->trail.feed, record);
}
