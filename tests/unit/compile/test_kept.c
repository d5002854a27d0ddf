/* Tests what is kept of a build in memory for the worker's next compilation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compile/job.h"

static json_t *facts_of(size_t files) {
    json_t *sources = json_array();
    for (size_t i = 0; i < files; i++) json_array_append_new(sources, json_pack("{s:s}", "file", "lib/a.ex"));
    return json_pack("{s:o, s:[], s:{s:[s]}, s:[s]}", "sources", sources, "apps", "report", "beam_files", "a.beam",
                     "modules", "A");
}

static void test_what_the_next_compilation_needs(void **state) {
    (void)state;
    json_t *facts = facts_of(3), *kept = facts_to_keep(facts);
    assert_int_equal(json_array_size(json_object_get(kept, "sources")), 3);
    assert_non_null(json_object_get(kept, "apps"));
    assert_int_equal(json_object_size(kept), 2); /* neither the report nor what was not there */
    json_decref(kept);
    json_decref(facts);
}

/* It would stay in memory for as long as its worker idles. */
static void test_large_ones_are_not_kept(void **state) {
    (void)state;
    json_t *facts = facts_of(60000);
    assert_null(facts_to_keep(facts));
    json_decref(facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_next_compilation_needs),
        cmocka_unit_test(test_large_ones_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
