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

static void test_release(void **state) {
    scratch_folder(*state, "lib");
    scratch_folder(*state, "lib/shop-1");
    scratch_folder(*state, "lib/shop-1/ebin");
    scratch_file(*state, "lib/shop-1/ebin/shop.app", "");
    scratch_folder(*state, "releases");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_COMPILED);
    scratch_folder(*state, "releases/1");
    scratch_file(*state, "releases/1/shop.rel", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_RELEASE);
    assert_false(source_is_ebin(((struct scratch *)*state)->fd));
}

static void test_release_by_its_version(void **state) {
    scratch_folder(*state, "lib");
    scratch_folder(*state, "releases");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
    scratch_file(*state, "releases/start_erl.data", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_RELEASE);
    scratch_file(*state, "mix.exs", ""); /* templates of a project's own */
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_MIX);
}

static void test_compiled_applications(void **state) {
    scratch_folder(*state, "shop");
    scratch_folder(*state, "shop/ebin");
    scratch_file(*state, "shop/ebin/shop.beam", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
    scratch_file(*state, "shop/ebin/shop.app", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_COMPILED);
    scratch_file(*state, "Makefile", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
}

/* A link would be followed with the daemon's rights. */
static void test_no_link_is_followed(void **state) {
    scratch_folder(*state, "elsewhere");
    scratch_file(*state, "elsewhere/a.erl", "");
    scratch_link(*state, "elsewhere", "src");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_FOLDER);
    scratch_folder(*state, "elsewhere/ebin");
    scratch_file(*state, "elsewhere/ebin/a.app", "");
    assert_int_equal(source_detect(((struct scratch *)*state)->fd), SOURCE_COMPILED);
    scratch_folder(*state, "within");
    scratch_link(*state, "../elsewhere", "within/app");
    CLEANUP_FD int within = openat(((struct scratch *)*state)->fd, "within", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(source_detect(within), SOURCE_FOLDER);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(source_kind_name(SOURCE_MIX), "mix");
    assert_string_equal(source_kind_name(SOURCE_REBAR3), "rebar3");
    assert_string_equal(source_kind_name(SOURCE_FOLDER), "folder");
    assert_string_equal(source_kind_name(SOURCE_FILE), "file");
    assert_string_equal(source_kind_name(SOURCE_EBIN), "ebin");
    assert_string_equal(source_kind_name(SOURCE_RELEASE), "release");
    assert_string_equal(source_kind_name(SOURCE_COMPILED), "compiled");
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
        IN_SCRATCH(test_release),
        IN_SCRATCH(test_release_by_its_version),
        IN_SCRATCH(test_compiled_applications),
        IN_SCRATCH(test_no_link_is_followed),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
