/* What a build says of itself: in brief for as long as it runs, whole where it is compared, and never too long. */
#include "scratch.h"

#include "compile/compile.h"

static void only_a_part_is_kept_in_memory(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *facts;
    scratch_file(scratch, BUILD_FACTS_FILE,
                 "{\"apps\": [], \"main\": null, \"language\": \"erlang\", \"modules\": [\"m\"], \"sources\": [{}], "
                 "\"report\": {}}");
    assert_int_equal(build_read_facts(scratch->path, &facts, &error), 0);
    json_t *brief = build_brief(facts);
    assert_int_equal(json_object_size(brief), 4);
    assert_null(json_object_get(brief, "sources"));
    assert_int_equal(json_array_size(json_object_get(brief, "modules")), 1);
    json_decref(brief);
    json_decref(facts);
}

/* It has a file of its own, but for builds of earlier versions. */
static void the_part_is_read_alone(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *brief = NULL;
    scratch_file(scratch, BUILD_BRIEF_FILE, "{\"main\": \"brief\"}");
    assert_int_equal(build_read_brief(scratch->path, &brief, &error), 0);
    assert_string_equal(json_string_value(json_object_get(brief, "main")), "brief");
    json_decref(brief);
    scratch_file(scratch, BUILD_FACTS_FILE, "{\"main\": \"whole\", \"sources\": []}");
    scratch_file(scratch, BUILD_BRIEF_FILE, "{");
    assert_int_equal(build_read_brief(scratch->path, &brief, &error), 0);
    assert_string_equal(json_string_value(json_object_get(brief, "main")), "whole");
    assert_null(json_object_get(brief, "sources"));
    json_decref(brief);
}

static void what_is_damaged_is_told(void **state) {
    struct scratch *scratch = *state;
    struct error error;
    json_t *facts = NULL;
    scratch_file(scratch, BUILD_FACTS_FILE, "{\"apps\": [");
    assert_int_equal(build_read_facts(scratch->path, &facts, &error), -E_SYSTEM);
    assert_non_null(strstr(error.detail, "damaged"));
    assert_null(facts);
}

/* A description of exactly so many bytes. */
static json_t *facts_of(size_t size) {
    static const char around[] = "{\"main\":\"\"}";
    CLEANUP_FREE char *name = malloc(size);
    memset(name, 'm', size);
    return json_pack("{s:s%}", "main", name, size - (sizeof around - 1));
}

static void a_long_description_is_refused(void **state) {
    (void)state;
    struct error error;
    char *text = NULL;
    json_t *facts = facts_of(BUILD_FACTS_MAX_BYTES);
    assert_int_equal(build_facts_text(facts, &text, &error), 0);
    assert_int_equal(strlen(text), BUILD_FACTS_MAX_BYTES);
    free(text);
    json_decref(facts);
    text = NULL;
    facts = facts_of(BUILD_FACTS_MAX_BYTES + 1);
    assert_int_equal(build_facts_text(facts, &text, &error), -E_TOO_LARGE);
    assert_non_null(strstr(error.detail, "too large"));
    assert_null(text);
    json_decref(facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_a_part_is_kept_in_memory, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(the_part_is_read_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_told, scratch_setup, scratch_teardown),
        cmocka_unit_test(a_long_description_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
