/* Tests what a create is refused for before there is a sandbox, and that what is refused leaves nothing behind. */
#include "core/stage.h"

#include "core/sandbox/sandbox.h"

#define PROFILES                                                                                                       \
    "[profile shop]\nhosts = 10.1.0.0/16:5432\n"                                                                       \
    "[profile ours]\nusers = 1001\n"

enum { CALLER_UID = 1001, OTHER_UID = 1002 };

static int set_up(void **state) {
    int result = stage_setup(state);
    struct engine *engine = &((struct stage *)*state)->engine;
    engine->ready = true;
    engine->config.sandboxes_max = 100;
    engine->host.features.guarantees = ~0u & ~(1u << JAIL_GUARANTEE_EGRESS) & ~(1u << JAIL_GUARANTEE_LANDLOCK);
    assert_int_equal(guard_profiles_read(PROFILES, &engine->profiles, NULL), 0);
    return result;
}

static int tear_down(void **state) {
    guard_profiles_free(&((struct stage *)*state)->engine.profiles);
    return stage_teardown(state);
}

/* A caller of the unix socket, unless a test says otherwise. */
static struct request new_request(const char *params, uid_t uid, enum role role) {
    struct request request = {.params = json_loads(params, 0, NULL), .caller = {.uid = uid, .role = role}};
    assert_non_null(request.params);
    return request;
}

static enum error_code check(struct stage *stage, struct request *request, const char *expected_detail) {
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0};
    struct error error = {0};
    int result = create_check(&stage->engine, request, &config, &error);
    json_decref(request->params);
    assert_int_equal(result, -(int)error.code);
    if (expected_detail && !strstr(error.detail, expected_detail))
        fail_msg("'%s' does not say '%s'", error.detail, expected_detail);
    return error.code;
}

#define PARAMS "{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"medium\"}"

static void a_whole_request_passes(void **state) {
    struct request request = new_request(PARAMS, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, NULL), E_NONE);
}

/* With how large a /data; -1: refused. */
static long long data_size_of(struct stage *stage, const char *more) {
    CLEANUP(sandbox_config_free) struct sandbox_config config = {0};
    struct error error;
    CLEANUP_FREE char *params = string_print("{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"medium\"%s}", more);
    struct request request = new_request(params, CALLER_UID, ROLE_OPERATOR);
    int result = create_check(&stage->engine, &request, &config, &error);
    json_decref(request.params);
    if (result < 0) return -1;
    assert_int_equal(config.volumes_key != NULL, config.data_size_bytes > 0);
    return (long long)config.data_size_bytes;
}

static void its_data_is_as_large_as_its_disk(void **state) {
    struct stage *stage = *state;
    const long long least = 16 << 20;
    assert_int_equal(data_size_of(stage, ""), least);
    assert_int_equal(data_size_of(stage, ", \"disk_bytes\": 65536"), least);
    assert_int_equal(data_size_of(stage, ", \"disk_bytes\": 16777217"), 2 * least);
    assert_int_equal(data_size_of(stage, ", \"disk_bytes\": 16777217, \"data_size_bytes\": 0"), 0);
    assert_int_equal(data_size_of(stage, ", \"data_size_bytes\": 20000000"), 20000000);
    assert_int_equal(data_size_of(stage, ", \"data_size_bytes\": 1000"), -1);
    stage->engine.host.features.guarantees &= ~(1u << JAIL_GUARANTEE_VOLUMES);
    assert_int_equal(data_size_of(stage, ""), 0);
    assert_int_equal(data_size_of(stage, ", \"data_size_bytes\": 16777216"), -1);
}

static void the_engine_must_be_able_to(void **state) {
    struct stage *stage = *state;
    struct request request = new_request(PARAMS, CALLER_UID, ROLE_OPERATOR);
    stage->engine.ready = false;
    assert_int_equal(check(stage, &request, "still starting"), E_LAUNCHER);
    stage->engine.closing.is_begun = true;
    request = new_request(PARAMS, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(stage, &request, "shutting down"), E_SHUTDOWN);
    stage->engine.closing.is_begun = false;
}

static void ids_and_places_are_taken_once(void **state) {
    struct stage *stage = *state;
    struct error error;
    struct sandbox *sandbox = sandbox_new(&stage->engine, "a", &error);
    struct request request = new_request(PARAMS, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(stage, &request, "'a' already"), E_EXISTS);
    stage->engine.config.sandboxes_max = 1;
    request = new_request("{\"id\": \"b\", \"source\": \"/p\", \"profile\": \"medium\"}", CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(stage, &request, "1 sandboxes already"), E_LIMIT);
    sandbox_remove(sandbox);
}

/* A path is opened with the rights of the socket's peer. */
static void a_path_takes_a_socket(void **state) {
    struct request request = new_request(PARAMS, CALLER_UID, ROLE_OPERATOR);
    request.caller.peer_fd = -1;
    assert_int_equal(check(*state, &request, "unix socket"), E_INVALID);
}

static void profiles_are_for_their_users(void **state) {
    static const char params[] = "{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"ours\"}";
    struct request request = new_request(params, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, NULL), E_NONE);
    request = new_request(params, OTHER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, "certain users and groups"), E_FORBIDDEN);
    request = new_request(params, OTHER_UID, ROLE_ADMIN);
    assert_int_equal(check(*state, &request, NULL), E_NONE);
}

static void guarantees_are_given_or_refused(void **state) {
    struct request request =
        new_request("{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"medium\", \"require\": [\"seccomp\"]}",
                    CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, NULL), E_NONE);
    request = new_request(
        "{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"medium\", \"require\": [\"seccomp\", \"landlock\"]}",
        CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, "'landlock'"), E_GUARANTEE);
    request = new_request("{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"medium\", \"require\": [\"luck\"]}",
                          CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(*state, &request, "no guarantee 'luck'"), E_INVALID);
}

/* A profile that merely may connect runs without egress; one that lists hosts is for nothing without it. */
static void listed_hosts_need_egress(void **state) {
    static const char params[] = "{\"id\": \"a\", \"source\": \"/p\", \"profile\": \"shop\"}";
    struct stage *stage = *state;
    struct request request = new_request(params, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(stage, &request, "'shop' lists hosts"), E_GUARANTEE);
    stage->engine.host.features.guarantees |= 1u << JAIL_GUARANTEE_EGRESS;
    request = new_request(params, CALLER_UID, ROLE_OPERATOR);
    assert_int_equal(check(stage, &request, NULL), E_NONE);
}

int main(void) {
#define SET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SET(a_whole_request_passes),          SET(the_engine_must_be_able_to),
        SET(ids_and_places_are_taken_once),   SET(its_data_is_as_large_as_its_disk),
        SET(the_engine_must_be_able_to),      SET(ids_and_places_are_taken_once),
        SET(a_path_takes_a_socket),           SET(profiles_are_for_their_users),
        SET(guarantees_are_given_or_refused), SET(listed_hosts_need_egress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
