/* Modules from several places put together; the BEAM files are fixtures that src/beam is tested with. */
#include "scratch.h"

#include "code/code.h"

static void load(const char *name, uint8_t **ret, size_t *ret_size) {
    char path[PATH_MAX];
    struct error error;
    snprintf(path, sizeof path, FIXTURES "/%s", name);
    if (file_load(path, 1 << 20, ret, ret_size, &error) < 0) fail_msg("%s", error.detail);
}

static int add(struct module_set *set, const char *file, size_t cut, struct error *reterr) {
    uint8_t *data;
    size_t size;
    load(file, &data, &size);
    return module_set_add_beam(set, file, 28, data, size - cut, reterr);
}

static void test_beam_files_are_validated(void **state) {
    CLEANUP(module_set_free) struct module_set set = {0};
    struct error error;
    (void)state;
    assert_int_equal(add(&set, "fx_kinds.beam", 0, &error), 0);
    const struct code_module *module = module_set_find(&set, "fx_kinds");
    assert_non_null(module);
    assert_int_equal(strlen(module->checksum), CODE_DIGEST_BYTES - 1);
    assert_true(json_array_size(module->dependencies) > 0);
    assert_int_equal(add(&set, "fx_literals.beam", 9, &error), -E_FORMAT);
    assert_int_equal(set.count, 1);
}

static void test_a_module_comes_from_one_place(void **state) {
    CLEANUP(module_set_free) struct module_set set = {0}, more = {0};
    struct error error;
    (void)state;
    assert_int_equal(add(&set, "fx_kinds.beam", 0, &error), 0);
    assert_int_equal(add(&set, "fx_kinds.beam", 0, &error), -E_INVALID);
    assert_string_equal(error.detail, "the module fx_kinds is in fx_kinds.beam and in fx_kinds.beam");
    assert_int_equal(add(&more, "fx_literals.beam", 0, &error), 0);
    assert_int_equal(module_set_join(&set, &more, &error), 0);
    assert_int_equal(set.count, 2);
    assert_int_equal(more.count, 0);
    assert_non_null(module_set_find(&set, "fx_literals"));
    assert_int_equal(module_set_join(&set, &more, &error), 0); /* nothing more */
}

static void test_the_agents_modules_are_not_replaced(void **state) {
    CLEANUP(module_set_free) struct module_set set = {0};
    struct error error;
    uint8_t *data;
    size_t size;
    (void)state;
    load("fx_kinds.beam", &data, &size);
    uint8_t *name = memmem(data, size, "fx_kinds", 8);
    assert_non_null(name);
    memcpy(name, "sbx_eval", 8);
    assert_int_equal(module_set_add_beam(&set, "x.beam", 28, data, size, &error), -E_INVALID);
    assert_non_null(strstr(error.detail, "names that begin with sbx_ are reserved"));
    assert_int_equal(set.count, 0);
}

static void test_some_of_a_project(void **state) {
    CLEANUP(module_set_free) struct module_set set = {0};
    bool marks[3] = {false};
    (void)state;
    json_t *facts = json_pack("{s:[{s:s, s:s, s:[{s:s}, {s:s}]}, {s:s, s:s, s:[{s:s}]}]}", "sources", "file",
                              "lib/a/one.ex", "app", "x", "modules", "module", "One", "module", "OneMore", "file",
                              "lib/ab.ex", "app", "x", "modules", "module", "Two");
    assert_int_equal(module_set_read("/none", facts, &set, NULL), 0);
    assert_int_equal(module_set_mark(&set, "lib/none.ex", marks), 0);
    assert_int_equal(module_set_mark(&set, "lib/a", marks), 2); /* not lib/ab.ex */
    module_set_keep(&set, marks);
    assert_int_equal(set.count, 2);
    assert_non_null(module_set_find(&set, "OneMore"));
    assert_null(module_set_find(&set, "Two"));
    json_decref(facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beam_files_are_validated),
        cmocka_unit_test(test_a_module_comes_from_one_place),
        cmocka_unit_test(test_the_agents_modules_are_not_replaced),
        cmocka_unit_test(test_some_of_a_project),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
