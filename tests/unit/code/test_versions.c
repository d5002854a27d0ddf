/* Tests the version history of a sandbox's modules, and its form in the registry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code/code.h"

static void add(struct history *history, const char *checksum) {
    struct version version = {.dependencies = json_pack("[s]", "b"), .loaded_at_ms = 1000, .loaded_by = 7};
    snprintf(version.checksum, sizeof version.checksum, "%s", checksum);
    snprintf(version.beam, sizeof version.beam, "bytes of %s", checksum);
    assert_true(history_add(history, "Elixir.A", &version));
}

/* The one that runs; 0: none. */
static uint32_t current(const struct history *history) {
    for (uint32_t number = history_next(history, "Elixir.A"); number > 0; number--) {
        const struct version *version = history_find(history, "Elixir.A", number);
        if (version && version->is_current) return number;
    }
    return 0;
}

static void test_numbers_go_up(void **state) {
    (void)state;
    CLEANUP(history_free) struct history history = {0};
    assert_int_equal(history_next(&history, "Elixir.A"), 1);
    assert_int_equal(current(&history), 0);
    add(&history, "one");
    add(&history, "two");
    assert_int_equal(current(&history), 2);
    assert_int_equal(history_next(&history, "Elixir.A"), 3);
    assert_int_equal(history_previous(&history, "Elixir.A")->number, 1);
    assert_int_equal(history_find_checksum(&history, "Elixir.A", "one")->number, 1);
    assert_null(history_find_checksum(&history, "Elixir.A", "three"));
    assert_null(history_find(&history, "Elixir.A", 3));
    assert_null(history_find(&history, "Elixir.B", 1));
}

static void test_an_old_version_is_current_again(void **state) {
    (void)state;
    CLEANUP(history_free) struct history history = {0};
    add(&history, "one");
    add(&history, "two");
    history_set_current(&history, "Elixir.A", 1);
    assert_int_equal(current(&history), 1);
    assert_null(history_previous(&history, "Elixir.A"));
    add(&history, "three"); /* never a number twice */
    assert_int_equal(current(&history), 3);
    history_set_current(&history, "Elixir.A", 0);
    assert_int_equal(current(&history), 0);
    assert_int_equal(history_previous(&history, "Elixir.A")->number, 3);
}

static void test_the_oldest_are_forgotten_but_never_what_runs(void **state) {
    (void)state;
    CLEANUP(history_free) struct history history = {0};
    char checksum[16];
    for (int i = 1; i <= VERSIONS_KEPT + 5; i++) {
        snprintf(checksum, sizeof checksum, "c%d", i);
        add(&history, checksum);
    }
    assert_null(history_find(&history, "Elixir.A", 5));
    assert_non_null(history_find(&history, "Elixir.A", 6));
    json_t *list = history_to_json(&history, "Elixir.A");
    assert_int_equal(json_array_size(list), VERSIONS_KEPT);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "version")), VERSIONS_KEPT + 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "module")), "A");
    json_decref(list);
}

static void test_it_is_the_same_after_a_restart(void **state) {
    (void)state;
    CLEANUP(history_free) struct history history = {0}, again = {0};
    CLEANUP(map_free) struct map beams = MAP_INIT;
    for (int i = 0; i < VERSIONS_KEPT + 3; i++) add(&history, i % 2 ? "one" : "two");
    history_set_current(&history, "Elixir.A", 9);
    CLEANUP_FREE char *text = history_text(&history, "Elixir.A");
    assert_true(history_restore(&again, "Elixir.A", text));
    CLEANUP_FREE char *text_again = history_text(&again, "Elixir.A");
    assert_string_equal(text, text_again);
    assert_int_equal(current(&again), 9);
    assert_int_equal(history_next(&again, "Elixir.A"), VERSIONS_KEPT + 4);
    assert_true(history_name_beams(&again, &beams));
    assert_int_equal(beams.count, 2);
    assert_non_null(map_get(&beams, "bytes of one"));
}

static void test_damaged_histories(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "7", "{\"versions\": [7]}", "{\"versions\": [{}]}",
        "{\"versions\": [{\"version\": 0, \"checksum\": \"\", \"beam\": \"\", \"source\": \"\", "
        "\"dependencies\": [], \"loaded_at_ms\": 1, \"loaded_by\": 1, \"current\": true}]}"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        CLEANUP(history_free) struct history history = {0};
        bool restored = history_restore(&history, "Elixir.A", texts[i]);
        assert_int_equal(current(&history), 0);
        assert_true(!restored || i == 1);
    }
}

/* Of one that was never reloaded, the size is unknown. */
static void test_a_summary_knows_sizes_or_says_so(void **state) {
    (void)state;
    json_t *list = json_pack("[{s:s, s:s, s:n, s:i}, {s:s, s:s, s:i, s:i}, {s:s, s:s, s:i, s:i}]", "module", "A",
                             "loaded_at", "", "size_bytes", "loads", 1, "module", "B", "loaded_at", "", "size_bytes",
                             30, "loads", 2, "module", "B", "loaded_at", "", "size_bytes", 12, "loads", 1);
    json_t *summaries = versions_summarize(list);
    assert_int_equal(json_array_size(summaries), 2);
    assert_true(json_is_null(json_object_get(json_array_get(summaries, 0), "size_bytes")));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(summaries, 1), "size_bytes")), 42);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(summaries, 1), "loads")), 3);
    json_decref(summaries);
    json_decref(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_go_up),
        cmocka_unit_test(test_an_old_version_is_current_again),
        cmocka_unit_test(test_the_oldest_are_forgotten_but_never_what_runs),
        cmocka_unit_test(test_it_is_the_same_after_a_restart),
        cmocka_unit_test(test_damaged_histories),
        cmocka_unit_test(test_a_summary_knows_sizes_or_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
