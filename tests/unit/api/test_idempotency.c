/* Tests idempotency keys: a repeated request gets the first answer, over a stand-in engine, and users share the memory
   for answers fairly. */
#include "api_fixture.h"

#include <stdlib.h>

#include "api/api_internal.h"

static const char counter[] = "{\"id\":\"counter\",\"source\":\"/a\"}";

static void create(struct fixture *fixture, const char *key, const char *body, struct response *ret) {
    struct client client;
    char header[512];
    snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", key);
    client_open(fixture, &client);
    client_ask(&client, "POST", "/api/v1/sandboxes", header, body, ret);
    client_close(&client);
}

static void the_same_request_again_gets_the_same_answer(void **state) {
    struct fixture *fixture = *state;
    struct response first, second;
    create(fixture, "k1", counter, &first);
    create(fixture, "k1", counter, &second);
    assert_int_equal(first.status, 200);
    assert_int_equal(second.status, 200);
    assert_string_equal(buf_string(&first.body), buf_string(&second.body));
    assert_int_equal(fixture->engine.created, 1);
    response_free(&second);
    create(fixture, "k2", counter, &second);
    assert_int_equal(fixture->engine.created, 2);
    response_free(&first);
    response_free(&second);
}

static void the_same_key_for_another_request_is_a_conflict(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    create(fixture, "k", counter, &response);
    response_free(&response);
    create(fixture, "k", "{\"id\":\"other\",\"source\":\"/a\"}", &response);
    assert_problem(&response, 409, "conflict");
    assert_int_equal(fixture->engine.created, 1);
    response_free(&response);
}

static void failures_are_remembered_unless_another_try_may_help(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    for (unsigned i = 0; i < 2; i++) {
        create(fixture, "a", "{\"id\":\"broken\",\"source\":\"/a\"}", &response);
        assert_problem(&response, 422, "compile_failed");
        assert_int_equal(fixture->engine.created, 1);
        response_free(&response);
    }
    for (unsigned i = 0; i < 2; i++) {
        create(fixture, "b", "{\"id\":\"unlucky\",\"source\":\"/a\"}", &response);
        assert_problem(&response, 503, "launcher_unavailable");
        assert_int_equal(fixture->engine.created, 2 + i);
        response_free(&response);
    }
}

static void bad_keys_are_refused(void **state) {
    struct fixture *fixture = *state;
    struct response response;
    char key[300];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    create(fixture, key, counter, &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    create(fixture, "two words", counter, &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    struct client client;
    client_open(fixture, &client);
    client_ask(&client, "POST", "/api/v1/run", "Idempotency-Key: k\r\n", "{\"source\":\"/a\"}", &response);
    assert_problem(&response, 400, "invalid_input");
    response_free(&response);
    client_close(&client);
    assert_int_equal(fixture->engine.started, 0);
}

static const char held_request[] = "POST /api/v1/sandboxes HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n"
                                   "Content-Length: 28\r\n\r\n{\"id\":\"held\",\"source\":\"/aa\"}";

static bool has_started(void *data) {
    return ((struct engine *)data)->started > 0;
}

/* Callers that are still there and wait for the answer that another one's request gets. */
static size_t count_waiting(const struct api *api) {
    size_t count = 0;
    const struct exchange *exchange;
    TAILQ_FOREACH(exchange, &api->exchanges, link) count += exchange->waiting && !exchange->gone;
    return count;
}

static bool one_waits(void *data) {
    return count_waiting(((struct fixture *)data)->api) == 1;
}

static bool two_wait(void *data) {
    return count_waiting(((struct fixture *)data)->api) == 2;
}

static bool three_wait(void *data) {
    return count_waiting(((struct fixture *)data)->api) == 3;
}

static void who_asks_meanwhile_waits_for_the_same_answer(void **state) {
    struct fixture *fixture = *state;
    struct client clients[4];
    for (int i = 0; i < 4; i++) {
        client_open(fixture, &clients[i]);
        client_send(&clients[i], "%s", held_request);
    }
    fixture_wait(fixture, has_started, &fixture->engine);
    fixture_wait(fixture, three_wait, fixture);
    client_close(&clients[3]);
    fixture_wait(fixture, two_wait, fixture);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:i}", "n", 7), E_NONE);
    for (int i = 0; i < 3; i++) {
        struct response response;
        client_response(&clients[i], &response);
        assert_string_equal(buf_string(&response.body), "{\"n\":7}");
        response_free(&response);
        client_close(&clients[i]);
    }
    assert_int_equal(fixture->engine.created, 1);
}

static void who_lost_the_connection_asks_again_for_the_answer(void **state) {
    struct fixture *fixture = *state;
    struct client client;
    struct response response;
    client_open(fixture, &client);
    client_send(&client, "%s", held_request);
    fixture_wait(fixture, has_started, &fixture->engine);
    client_close(&client);
    client_open(fixture, &client);
    client_send(&client, "%s", held_request);
    fixture_wait(fixture, one_waits, fixture);
    stand_in_answer(&fixture->engine, fixture->engine.last, json_pack("{s:i}", "n", 8), E_NONE);
    client_response(&client, &response);
    assert_string_equal(buf_string(&response.body), "{\"n\":8}");
    assert_int_equal(fixture->engine.created, 1);
    response_free(&response);
    client_close(&client);
}

/* ---- the keys alone ---- */

static const uint8_t fingerprint[FINGERPRINT_BYTES] = {1};

/* Root is not bound. */
static struct idempotency_user user_of(uid_t uid) {
    return (struct idempotency_user){uid, uid, uid != 0};
}

static struct remembered *recall(struct idempotency *answered, uid_t uid, const char *key, uint64_t now_ms,
                                 bool *ret_new) {
    struct remembered *entry = NULL;
    struct idempotency_user user = user_of(uid);
    assert_int_equal(idempotency_recall(answered, &user, key, fingerprint, now_ms, &entry, ret_new, NULL), 0);
    return entry;
}

static void refuse(struct idempotency *answered, uid_t uid, const char *key) {
    bool is_new;
    struct remembered *entry = NULL;
    struct error error;
    struct idempotency_user user = user_of(uid);
    assert_int_equal(idempotency_recall(answered, &user, key, fingerprint, 0, &entry, &is_new, &error), -E_LIMIT);
}

static void remember(struct idempotency *answered, uid_t uid, const char *key, uint64_t now_ms) {
    bool is_new;
    struct remembered *entry = recall(answered, uid, key, now_ms, &is_new);
    assert_true(is_new);
    struct answer *answer = answer_json(200, json_object());
    idempotency_settle(answered, entry, answer);
    answer_release(answer);
}

static bool knows(struct idempotency *answered, uid_t uid, const char *key, uint64_t now_ms) {
    bool is_new;
    struct remembered *entry = recall(answered, uid, key, now_ms, &is_new);
    if (is_new) idempotency_settle(answered, entry, NULL);
    return !is_new;
}

static void remember_many(struct idempotency *answered, uid_t uid, int count) {
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        remember(answered, uid, key, 0);
    }
}

static void answers_are_forgotten_by_age(void **state) {
    (void)state;
    struct idempotency answered;
    idempotency_init(&answered);
    remember(&answered, 1, "old", 0);
    assert_true(knows(&answered, 1, "old", 599999));
    assert_false(knows(&answered, 2, "old", 0));
    assert_false(knows(&answered, 1, "old", 600000));
    idempotency_free(&answered);
}

static void one_user_drives_out_no_others(void **state) {
    (void)state;
    struct idempotency answered;
    idempotency_init(&answered);
    remember(&answered, 1, "mine", 0);
    remember_many(&answered, 2, 2000);
    assert_true(knows(&answered, 1, "mine", 1));
    assert_false(knows(&answered, 2, "1000", 1));
    assert_true(knows(&answered, 2, "1999", 1));
    idempotency_free(&answered);
}

/* Nor do many: each has its share, and gives up its own. */
static void many_users_drive_out_no_others(void **state) {
    (void)state;
    struct idempotency answered;
    idempotency_init(&answered);
    remember(&answered, 1, "mine", 0);
    for (uid_t uid = 2; uid < 26; uid++) remember_many(&answered, uid, 400);
    assert_true(knows(&answered, 1, "mine", 1));
    for (uid_t uid = 2; uid < 26; uid++) assert_true(knows(&answered, uid, "399", 1));
    assert_in_range(answered.entries.count, 750, 875);
    remember_many(&answered, 0, 125); /* those are kept for it */
    assert_true(knows(&answered, 0, "0", 1));
    idempotency_free(&answered);
}

/* Their keys are their own, and their share is one. */
static void subordinate_uids_have_one_share(void **state) {
    (void)state;
    struct idempotency answered;
    bool is_new;
    idempotency_init(&answered);
    for (uid_t uid = 100; uid < 130; uid++) {
        struct remembered *entry = NULL;
        struct idempotency_user user = {uid, 1, true};
        for (int i = 0; i < 100; i++) {
            char key[16];
            snprintf(key, sizeof key, "%d", i);
            assert_int_equal(idempotency_recall(&answered, &user, key, fingerprint, 0, &entry, &is_new, NULL), 0);
            assert_true(is_new);
            struct answer *answer = answer_json(200, json_object());
            idempotency_settle(&answered, entry, answer);
            answer_release(answer);
        }
    }
    assert_in_range(answered.entries.count, 1, 250);
    idempotency_free(&answered);
}

static void a_user_whose_share_still_runs_is_refused(void **state) {
    (void)state;
    struct idempotency answered;
    bool is_new;
    idempotency_init(&answered);
    for (int i = 0; i < 250; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        recall(&answered, 1, key, 0, &is_new);
    }
    refuse(&answered, 1, "one more");
    remember(&answered, 2, "another user's", 0);
    assert_true(knows(&answered, 1, "0", 0));
    idempotency_free(&answered);
}

static void what_still_runs_is_never_forgotten(void **state) {
    (void)state;
    struct idempotency answered;
    bool is_new;
    idempotency_init(&answered);
    struct remembered *running = recall(&answered, 1, "running", 0, &is_new);
    remember(&answered, 1, "later", 700000);
    assert_ptr_equal(recall(&answered, 1, "running", 700000, &is_new), running);
    assert_false(is_new);
    idempotency_free(&answered);
}

static void remember_large(struct idempotency *answered, uid_t uid, const char *key, size_t size) {
    bool is_new;
    CLEANUP_FREE char *text = calloc(1, size + 1);
    memset(text, 'x', size);
    struct remembered *entry = recall(answered, uid, key, 0, &is_new);
    struct answer *answer = answer_json(200, json_stringn(text, size));
    idempotency_settle(answered, entry, answer);
    answer_release(answer);
}

static unsigned status_of(struct idempotency *answered, uid_t uid, const char *key) {
    bool is_new;
    struct remembered *entry = recall(answered, uid, key, 0, &is_new);
    assert_false(is_new);
    return entry->answer->status;
}

/* What is too long to be kept is dropped; that its request was carried out is not forgotten. */
static void large_answers_are_dropped_and_their_keys_kept(void **state) {
    (void)state;
    struct idempotency answered;
    idempotency_init(&answered);
    remember(&answered, 1, "small", 0);
    remember_large(&answered, 1, "large", (size_t)17 << 20);
    assert_int_equal(status_of(&answered, 1, "small"), 413);
    assert_int_equal(status_of(&answered, 1, "large"), 413);
    assert_int_equal(answered.bytes, 0);
    remember_large(&answered, 1, "kept", (size_t)1 << 20);
    assert_int_equal(status_of(&answered, 1, "kept"), 200);
    for (uid_t uid = 2; uid < 10; uid++) {
        for (int i = 0; i < 5; i++) {
            char key[16];
            snprintf(key, sizeof key, "%d", i);
            remember_large(&answered, uid, key, (size_t)1 << 20);
        }
    }
    assert_int_equal(status_of(&answered, 1, "kept"), 200);
    assert_int_equal(status_of(&answered, 9, "0"), 413);
    assert_in_range(answered.bytes, (size_t)8 << 20, (size_t)14 << 20);
    idempotency_free(&answered);
    assert_int_equal(answered.bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_request_again_gets_the_same_answer, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_same_key_for_another_request_is_a_conflict, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(failures_are_remembered_unless_another_try_may_help, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(bad_keys_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(who_asks_meanwhile_waits_for_the_same_answer, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(who_lost_the_connection_asks_again_for_the_answer, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test(answers_are_forgotten_by_age),
        cmocka_unit_test(one_user_drives_out_no_others),
        cmocka_unit_test(many_users_drive_out_no_others),
        cmocka_unit_test(subordinate_uids_have_one_share),
        cmocka_unit_test(a_user_whose_share_still_runs_is_refused),
        cmocka_unit_test(what_still_runs_is_never_forgotten),
        cmocka_unit_test(large_answers_are_dropped_and_their_keys_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
