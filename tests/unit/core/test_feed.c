#include "core/stage.h"

enum { CAPACITY = 4 };

/* A reader whose items and end go into the story; it may leave at an item. */
struct reader {
    struct request request;
    struct stage *stage;
    char name;
    int64_t leaves_at; /* the seq of the item at which it cancels */
    bool answered;
};

static void on_item(struct request *request, json_t *item) {
    struct reader *reader = request->transport;
    int64_t seq = json_integer_value(json_object_get(item, "seq"));
    assert_true(json_is_string(json_object_get(item, "time")));
    buf_printf(&reader->stage->story, "%c%lld ", reader->name, (long long)seq);
    json_decref(item);
    if (seq == reader->leaves_at && request->cancel) request->cancel(request);
}

static void on_done(struct request *request, json_t *result, const struct error *error) {
    struct reader *reader = request->transport;
    assert_false(reader->answered);
    assert_null(request->cancel);
    reader->answered = true;
    buf_printf(&reader->stage->story, "%c:%s ", reader->name, error ? error_kind(error->code)->slug : "done");
    json_decref(result);
}

static struct reader reader_of(struct stage *stage, char name) {
    return (struct reader){.stage = stage, .name = name, .request = {.item = on_item, .done = on_done}};
}

static void stream(struct reader *reader, struct feed *feed, struct feed_filter filter, bool follow) {
    reader->request.transport = reader;
    feed_stream(&reader->stage->engine, feed, &reader->request, &filter, follow);
}

static void add(struct feed *feed, const char *id) {
    feed_add(feed, json_pack("{s:s?}", "sandbox_id", id));
}

static void run(struct stage *stage) {
    uv_run(&stage->loop, UV_RUN_DEFAULT);
}

static const struct feed_filter all = {.tail = SIZE_MAX};

static void test_the_newest_are_kept(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    assert_true(feed_init(&feed, CAPACITY, 0));
    for (int i = 0; i < CAPACITY + 2; i++) add(&feed, NULL);
    struct reader reader = reader_of(stage, 'a');
    stream(&reader, &feed, all, false);
    stage_expect(stage, "a3 a4 a5 a6 "); /* the answer never comes from inside */
    run(stage);
    stage_expect(stage, "a:done ");
    feed_free(&feed);
}

static void test_text_is_bounded_in_bytes(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    assert_true(feed_init(&feed, CAPACITY, 10));
    static const char *const texts[] = {"1234", "5678", "90", "a", "longer than all of it"};
    static const char *const stories[] = {"a1 a:done ", "a1 a2 a:done ", "a1 a2 a3 a:done ", "a2 a3 a4 a:done ",
                                          "a5 a:done "};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        feed_add(&feed, json_pack("{s:s}", "text", texts[i]));
        struct reader reader = reader_of(stage, 'a');
        stream(&reader, &feed, all, false);
        run(stage);
        stage_expect(stage, stories[i]);
    }
    feed_free(&feed);
}

static void test_tail_and_since(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    for (int i = 0; i < CAPACITY + 1; i++) add(&feed, i % 2 ? "x" : "y");
    static const struct {
        struct feed_filter filter;
        const char *story;
    } cases[] = {
        {{.tail = 2}, "a4 a5 a:done "},
        {{.tail = 0}, "a:done "},
        {{.tail = 100}, "a2 a3 a4 a5 a:done "},
        {{.tail = SIZE_MAX, .since = 4}, "a5 a:done "},
        {{.tail = SIZE_MAX, .since = 99}, "a:done "},
        {{.tail = SIZE_MAX, .sandbox_id = "x"}, "a2 a4 a:done "},
        {{.tail = 1, .sandbox_id = "x"}, "a4 a:done "},
        {{.tail = SIZE_MAX, .sandbox_id = "z"}, "a:done "},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct reader reader = reader_of(stage, 'a');
        stream(&reader, &feed, cases[i].filter, false);
        run(stage);
        stage_expect(stage, cases[i].story);
    }
    feed_free(&feed);
}

static void test_followers_get_what_comes_and_an_answer_at_the_end(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    add(&feed, "x");
    char id[8] = "x";
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    stream(&a, &feed, all, true);
    stream(&b, &feed, (struct feed_filter){.tail = SIZE_MAX, .sandbox_id = id}, true);
    strcpy(id, "gone"); /* the filter keeps its own */
    add(&feed, "y");
    add(&feed, "x");
    stage_expect(stage, "a1 b1 a2 b3 a3 ");
    run(stage);
    feed_end(&stage->engine, &feed);
    add(&feed, "x");
    stage_expect(stage, "");
    run(stage);
    stage_expect(stage, "b:done a:done ");
    feed_free(&feed);
}

static void test_one_who_cancels_is_answered_and_gets_no_more(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b');
    stream(&a, &feed, all, true);
    stream(&b, &feed, all, true);
    a.request.cancel(&a.request);
    add(&feed, NULL);
    run(stage);
    stage_expect(stage, "b1 a:done ");
    b.request.cancel(&b.request);
    run(stage);
    stage_expect(stage, "b:done ");
    feed_free(&feed);
}

/* A transport cuts a slow reader off from inside the item that was too much. */
static void test_one_who_cancels_inside_an_item(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), b = reader_of(stage, 'b'), c = reader_of(stage, 'c');
    a.leaves_at = b.leaves_at = 1;
    stream(&a, &feed, all, true);
    stream(&b, &feed, all, true);
    stream(&c, &feed, all, true);
    add(&feed, NULL);
    add(&feed, NULL);
    run(stage);
    stage_expect(stage, "c1 b1 a1 c2 b:done a:done ");
    feed_end(&stage->engine, &feed);
    run(stage);
    stage_expect(stage, "c:done ");
    feed_free(&feed);
}

static void test_followers_are_bounded(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    struct reader *readers = calloc(SUBSCRIBERS_MAX + 1, sizeof *readers);
    for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
        readers[i] = reader_of(stage, 'a');
        stream(&readers[i], &feed, all, true);
    }
    struct reader *late = &readers[SUBSCRIBERS_MAX];
    *late = reader_of(stage, 'z');
    stream(late, &feed, all, true);
    run(stage);
    stage_expect(stage, "z:limit_reached ");
    feed_end(&stage->engine, &feed);
    run(stage);
    free(readers);
    feed_free(&feed);
}

static void test_nobody_follows_an_engine_that_closes(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    add(&feed, NULL);
    stage->engine.closing = true;
    struct reader a = reader_of(stage, 'a');
    stream(&a, &feed, all, true);
    run(stage);
    stage_expect(stage, "a1 a:done ");
    feed_free(&feed);
}

static bool is_admin(void *data, const struct caller *caller, const json_t *record) {
    (void)record;
    return data && caller->role == ROLE_ADMIN;
}

static void test_who_may_see(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    struct reader a = reader_of(stage, 'a'), v = reader_of(stage, 'v');
    a.request.caller.role = ROLE_ADMIN;
    v.request.caller.role = ROLE_VIEWER;
    struct feed_filter filter = {.tail = SIZE_MAX, .may_see = is_admin, .data = stage};
    add(&feed, NULL);
    stream(&a, &feed, filter, true);
    stream(&v, &feed, filter, true);
    add(&feed, NULL);
    feed_end(&stage->engine, &feed);
    run(stage);
    stage_expect(stage, "a1 a2 v:done a:done ");
    feed_free(&feed);
}

static void test_restored_records_keep_their_numbers(void **state) {
    struct stage *stage = *state;
    struct feed feed;
    feed_init(&feed, CAPACITY, 0);
    json_t *record = json_pack("{s:i, s:s}", "seq", 41, "time", "then");
    feed_restore(&feed, record);
    json_decref(record);
    add(&feed, NULL);
    struct reader a = reader_of(stage, 'a');
    stream(&a, &feed, all, false);
    run(stage);
    stage_expect(stage, "a41 a42 a:done ");
    feed_free(&feed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_the_newest_are_kept),
        ON_STAGE(test_text_is_bounded_in_bytes),
        ON_STAGE(test_tail_and_since),
        ON_STAGE(test_followers_get_what_comes_and_an_answer_at_the_end),
        ON_STAGE(test_one_who_cancels_is_answered_and_gets_no_more),
        ON_STAGE(test_one_who_cancels_inside_an_item),
        ON_STAGE(test_followers_are_bounded),
        ON_STAGE(test_nobody_follows_an_engine_that_closes),
        ON_STAGE(test_who_may_see),
        ON_STAGE(test_restored_records_keep_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
