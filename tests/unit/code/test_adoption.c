/* What is known of a sandbox's code after a change, and after that was taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code/code.h"

static const struct adopter adopter = {.sandbox = "a", .started_at_ms = 5, .owner = 7, .by = 8};

static void set_version(struct version *version, uint32_t number, const char *checksum) {
    version->number = number;
    version->dependencies = json_array();
    snprintf(version->checksum, sizeof version->checksum, "%s", checksum);
}

static void adopt(const struct history *now, const struct change_set *set, struct adoption *ret) {
    struct error error = {0};
    assert_int_equal(adoption_make(now, set, &adopter, ret, &error), 0);
    assert_non_null(ret->rows);
    assert_non_null(ret->back->rows);
}

static const struct version *version_of(const struct shared_history *shared, const char *module, uint32_t number) {
    const struct version *version = history_find(history_of(shared), module, number);
    assert_non_null(version);
    return version;
}

/* One that is replaced, one that is new, and one that goes. */
static void a_change_and_the_way_back(void **state) {
    (void)state;
    struct change changes[] = {{.module = (char *)"old"}, {.module = (char *)"new"}, {.module = (char *)"gone"}};
    struct change_set set = {.items = changes, .count = ARRAY_SIZE(changes)};
    CLEANUP(history_free) struct history before = {0};
    struct adoption adoption = {0};
    set_version(&changes[0].old_version, 1, "one");
    set_version(&changes[0].version, 2, "two");
    set_version(&changes[1].version, 1, "first");
    set_version(&changes[2].old_version, 1, "last");
    changes[2].is_deletion = true;
    adopt(&before, &set, &adoption);
    assert_null(history_find(&before, "old", 1)); /* what others share stays as it was */
    assert_int_equal(version_of(adoption.history, "old", 1)->loaded_at_ms, 5);
    assert_int_equal(version_of(adoption.history, "old", 1)->loaded_by, 7);
    assert_int_equal(version_of(adoption.history, "old", 2)->loaded_by, 8);
    assert_true(version_of(adoption.history, "old", 2)->is_current);
    assert_true(version_of(adoption.history, "new", 1)->is_current);
    assert_false(version_of(adoption.history, "gone", 1)->is_current);

    assert_true(version_of(adoption.back->history, "old", 1)->is_current);
    assert_int_equal(version_of(adoption.back->history, "old", 1)->loads, 2);
    assert_false(version_of(adoption.back->history, "old", 2)->is_current);
    assert_false(version_of(adoption.back->history, "new", 1)->is_current);
    assert_true(version_of(adoption.back->history, "gone", 1)->is_current);

    json_t *undo = json_loads(adoption.back->undo, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(undo, "old")), 1);
    struct way_back *again = way_back_make(history_of(adoption.history), "a", undo); /* as a new daemon does */
    assert_true(version_of(again->history, "old", 1)->is_current);
    assert_string_equal(again->undo, adoption.back->undo);
    way_back_free(again);
    json_decref(undo);
    adoption_free(&adoption);
    for (size_t i = 0; i < set.count; i++) {
        json_decref(changes[i].version.dependencies);
        json_decref(changes[i].old_version.dependencies);
    }
}

static void the_last_user_frees_a_history(void **state) {
    (void)state;
    struct history history = {0};
    struct version version = {.dependencies = json_array()};
    assert_true(history_add(&history, "m", &version));
    struct shared_history *shared = history_share(&history), *held = history_hold(shared);
    history_let_go(shared);
    assert_non_null(history_find(history_of(held), "m", 1));
    history_let_go(held);
    assert_null(history_hold(NULL));
    assert_int_equal(history_of(NULL)->modules.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_change_and_the_way_back),
                                       cmocka_unit_test(the_last_user_frees_a_history)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
