/* Tests how a project's kind is detected from its files, without following links. */
#include "scratch.h"

#include "compile/compile.h"

static void test_mix_wins(void **state) {
    scratch_file(*state, "rebar.config", "");
    scratch_file(*state, "mix.exs", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_MIX);
}

static void test_rebar_by_its_configuration(void **state) {
    scratch_file(*state, "rebar.config", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_REBAR3);
}

static void test_rebar_by_its_sources(void **state) {
    scratch_folder(*state, "src");
    scratch_file(*state, "src/a.erl", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_REBAR3);
}

static void test_ebin(void **state) {
    scratch_folder(*state, "ebin");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
    scratch_file(*state, "ebin/a.beam", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_EBIN);
}

static void test_beams_in_the_folder_itself(void **state) {
    scratch_file(*state, "a.beam", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_EBIN);
}

static void test_plain_folder(void **state) {
    scratch_file(*state, "a.ex", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
}

/* A link would be followed with the daemon's rights. */
static void test_no_link_is_followed(void **state) {
    scratch_folder(*state, "elsewhere");
    scratch_file(*state, "elsewhere/a.erl", "");
    scratch_link(*state, "elsewhere", "src");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(source_kind_name(SOURCE_MIX), "mix");
    assert_string_equal(source_kind_name(SOURCE_REBAR3), "rebar3");
    assert_string_equal(source_kind_name(SOURCE_FOLDER), "folder");
    assert_string_equal(source_kind_name(SOURCE_FILE), "file");
    assert_string_equal(source_kind_name(SOURCE_EBIN), "ebin");
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_mix_wins),
        IN_SCRATCH(test_rebar_by_its_configuration),
        IN_SCRATCH(test_rebar_by_its_sources),
        IN_SCRATCH(test_ebin),
        IN_SCRATCH(test_beams_in_the_folder_itself),
        IN_SCRATCH(test_plain_folder),
        IN_SCRATCH(test_no_link_is_followed),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
