/* Names of transactions, which nodes tell and only daemons of this home can make. */
#include "core/core_internal.h"
#include "core/reload/reload.h"
#include "scratch.h"

static const char digest[STORE_DIGEST_BYTES] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static void open_key(struct engine *engine, const struct scratch *scratch) {
    struct error error;
    engine->config.home = scratch->path;
    assert_int_equal(reload_key_open(engine, &error), 0);
}

static void a_name_holds_its_build(void **state) {
    struct engine engine = {0};
    struct sandbox sandbox = {.engine = &engine, .id = "a"};
    char id[RELOAD_ID_BYTES], other[RELOAD_ID_BYTES], read[STORE_DIGEST_BYTES] = "";
    open_key(&engine, *state);
    reload_id_make(&sandbox, digest, id);
    reload_id_make(&sandbox, digest, other);
    assert_string_not_equal(id, other);
    assert_true(reload_id_read(&sandbox, id, read));
    assert_string_equal(read, digest);
}

/* A changed id, and the id of another sandbox. */
static void a_forged_name_is_not_believed(void **state) {
    struct engine engine = {0};
    struct sandbox sandbox = {.engine = &engine, .id = "a"}, neighbour = {.engine = &engine, .id = "b"};
    char id[RELOAD_ID_BYTES], read[STORE_DIGEST_BYTES] = "untouched";
    open_key(&engine, *state);
    reload_id_make(&sandbox, digest, id);
    assert_false(reload_id_read(&neighbour, id, read));
    for (size_t i = 0; id[i]; i++) {
        char forged[RELOAD_ID_BYTES];
        memcpy(forged, id, sizeof forged);
        forged[i] = forged[i] == '0' ? '1' : '0';
        assert_false(reload_id_read(&sandbox, forged, read));
    }
    id[strlen(id) - 1] = '\0';
    assert_false(reload_id_read(&sandbox, id, read));
    assert_false(reload_id_read(&sandbox, "", read));
    assert_string_equal(read, "untouched");
}

static void the_next_daemon_has_the_same_key(void **state) {
    struct scratch *scratch = *state;
    struct engine engine = {0}, next = {0}, later = {0};
    struct sandbox sandbox = {.engine = &engine, .id = "a"}, found = {.engine = &next, .id = "a"};
    char id[RELOAD_ID_BYTES], read[STORE_DIGEST_BYTES];
    open_key(&engine, scratch);
    open_key(&next, scratch);
    reload_id_make(&sandbox, digest, id);
    assert_true(reload_id_read(&found, id, read));
    scratch_file(scratch, "reload.key", "torn"); /* another one, and nothing of before is believed */
    open_key(&later, scratch);
    found.engine = &later;
    assert_false(reload_id_read(&found, id, read));
    open_key(&next, scratch);
    assert_memory_equal(next.reload_key, later.reload_key, sizeof next.reload_key);
}

static void a_key_that_can_not_be_had_is_told(void **state) {
    struct engine engine = {.config.home = "/nonexistent"};
    struct error error;
    (void)state;
    assert_int_equal(reload_key_open(&engine, &error), -E_SYSTEM);
    assert_non_null(strstr(error.detail, "/nonexistent/reload.key"));
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(a_name_holds_its_build),
        IN_SCRATCH(a_forged_name_is_not_believed),
        IN_SCRATCH(the_next_daemon_has_the_same_key),
        cmocka_unit_test(a_key_that_can_not_be_had_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
