/* Tests the arguments of the agent's reload call, and how its answer is read when the node sends nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../said.h"
#include "code/code.h"

static void test_what_is_asked(void **state) {
    (void)state;
    struct change changes[] = {{.module = (char *)"Elixir.A",
                                .beam = (uint8_t *)"new",
                                .beam_size = 3,
                                .version = {.number = 2},
                                .old_beam = (uint8_t *)"old",
                                .old_beam_size = 3,
                                .old_version = {.number = 1}},
                               {.module = (char *)"gone", .is_deletion = true, .old_version = {.number = 4}}};
    struct change_set set = {.items = changes, .count = 2, .order = json_pack("[[s]]", "Elixir.A")};
    json_t *migrations = json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "*", "language", "elixir", "code",
                                   "fn s, _, _ -> s end", "Elixir.A", "module", "Elixir.Up", "function", "move");
    struct reload_options options = {.id = "t1", .on_busy = "wait", .probation_ms = 2000};
    CLEANUP(buf_free) struct buf bytes = BUF_INIT, text = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    term_put_version(&bytes);
    struct term_map map = transaction_begin(&bytes, &set, migrations);
    transaction_end(&map, &options);
    assert_int_equal(term_decode(bytes.data, bytes.size, &term_default_bounds, &doc, NULL), 0);
    const struct term *root = term_root(doc), *modules = term_map_get(root, "modules");
    assert_int_equal(root->items.count, 14);
    assert_true(term_is_atom(term_map_get(root, "follows"), "nil"));
    const struct term *first = term_at(modules, 0), *second = term_at(modules, 1);
    assert_true(term_is_atom(term_map_get(first, "action"), "load"));
    assert_true(term_is_atom(term_map_get(second, "action"), "delete"));
    assert_true(term_is_atom(term_map_get(second, "beam"), "nil"));
    assert_true(term_is_atom(term_map_get(second, "version"), "nil"));
    const struct term *asked = term_map_get(root, "migrations");
    assert_true(term_is_atom(term_map_get(term_map_get(asked, "*"), "kind"), "expression"));
    assert_true(term_is_atom(term_map_get(term_map_get(asked, "*"), "language"), "elixir"));
    assert_true(term_is_atom(term_map_get(term_map_get(asked, "Elixir.A"), "kind"), "function"));
    assert_non_null(term_map_get(term_map_get(asked, "Elixir.A"), "function"));
    assert_true(term_is_atom(term_map_get(root, "direction"), "up"));
    json_decref(migrations);
    json_decref(set.order);
}

static void test_what_is_answered(void **state) {
    (void)state;
    struct change changes[] = {{.module = (char *)"Elixir.A", .version = {.number = 2}}};
    struct change_set set = {.items = changes, .count = 1};
    CLEANUP_TERM struct term_doc *doc =
        say("{\"status\": \"hot_reloaded\", \"processes\": [{\"pid\": \"<0.1.0>\", \"module\": \"Elixir.A\"}, 7],"
            " \"pause_us\": 12, \"duration_us\": -1, \"warnings\": [\"w\", {}]}");
    json_t *result = transaction_report(term_root(doc));
    json_object_set_new(result, "modules", transaction_changes(&set));
    const char *status, *pid, *module, *name;
    int pause, to;
    assert_int_equal(json_unpack(result, "{s:s, s:[{s:s, s:s}, {}], s:i, s:n, s:[s, n], s:[{s:s, s:n, s:i}]}", "status",
                                 &status, "processes", "pid", &pid, "module", &module, "pause_us", &pause,
                                 "duration_us", "warnings", &name, "modules", "module", &name, "from_version",
                                 "to_version", &to),
                     0);
    assert_string_equal(status, "hot_reloaded");
    assert_string_equal(module, "A");
    assert_string_equal(name, "A");
    assert_int_equal(pause, 12);
    assert_int_equal(to, 2);
    json_decref(result);
}

static void test_nonsense_is_answered(void **state) {
    (void)state;
    static const char *const answers[] = {"{}", "[]", "7", "{\"processes\": {}, \"shapes\": 7, \"children\": [[]]}"};
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        CLEANUP_TERM struct term_doc *doc = say(answers[i]);
        json_t *result = transaction_report(term_root(doc)), *failure = transaction_failure(term_root(doc));
        assert_true(json_is_array(json_object_get(result, "processes")));
        assert_string_equal(json_string_value(json_object_get(failure, "status")), "rolled_back");
        json_decref(result);
        json_decref(failure);
    }
    json_t *none = transaction_no_change();
    assert_string_equal(json_string_value(json_object_get(none, "status")), "no_change");
    json_decref(none);
}

/* Each of them may have lists of its own: two million texts would be two hundred megabytes. */
static void test_lists_in_lists_are_bounded(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf json = BUF_INIT;
    buf_append_string(&json, "{\"shapes\": [");
    for (int i = 0; i < 100; i++) {
        buf_printf(&json, "%s{\"missing\": [\"a\"", i ? "," : "");
        for (int k = 1; k < 3000; k++) buf_append_string(&json, ",\"a\"");
        buf_append_string(&json, "]}");
    }
    buf_append_string(&json, "]}");
    CLEANUP_TERM struct term_doc *doc = say(buf_string(&json));
    json_t *result = transaction_report(term_root(doc));
    assert_int_equal(json_array_size(json_object_get(result, "shapes")), 34);
    json_decref(result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_what_is_answered),
        cmocka_unit_test(test_nonsense_is_answered),
        cmocka_unit_test(test_lists_in_lists_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
