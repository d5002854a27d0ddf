/* What is learnt from files that a newer OTP has made. */
#include "beam/beam_test.h"

#include "beam/beam_internal.h"

struct opened {
    struct buf bytes;
    struct beam *beam;
};

static void open_fixture(struct opened *opened, const char *name) {
    struct error error = {0};
    load_fixture(&opened->bytes, name);
    if (beam_read(opened->bytes.data, opened->bytes.size, &beam_default_options, &opened->beam, &error) < 0)
        fail_msg("%s: %s", name, error.detail);
}

static void close_fixture(struct opened *opened) {
    beam_free(opened->beam);
    buf_free(&opened->bytes);
}

#define CLEANUP_OPENED CLEANUP(close_fixture)

static bool exports(const struct beam *beam, const char *name, uint32_t arity) {
    size_t count;
    const struct beam_function *functions = beam_exports(beam, &count);
    for (size_t i = 0; i < count; i++)
        if (text_is(functions[i].name, name) && functions[i].arity == arity) return true;
    return false;
}

static void test_kinds(void **state) {
    (void)state;
    CLEANUP_OPENED struct opened kinds = {.bytes = BUF_INIT};
    open_fixture(&kinds, "fx_kinds");
    size_t count;
    assert_true(text_is(beam_module(kinds.beam), "fx_kinds"));
    assert_true(exports(kinds.beam, "handle_call", 3) && exports(kinds.beam, "behaviour_info", 1));
    assert_false(exports(kinds.beam, "handle_call", 2));
    beam_exports(kinds.beam, &count);
    assert_int_equal(count, 20);
    const struct beam_import *imports = beam_imports(kinds.beam, &count);
    assert_int_equal(count, 20);
    assert_true(text_is(imports[0].module, "gen_server") && text_is(imports[0].function, "start_link"));
    assert_int_equal(imports[0].arity, 4);
    const struct beam_lambda *lambdas = kinds.beam->lambdas;
    assert_int_equal(kinds.beam->lambda_count, 2);
    assert_true(lambdas[0].arity == 2 && lambdas[0].free_count == 1 && lambdas[1].arity == 3);
    assert_int_equal(kinds.beam->local_count, 9);
    assert_false(beam_has_on_load(kinds.beam));
    assert_int_equal(beam_min_otp(kinds.beam), 28);
}

static void test_attributes(void **state) {
    (void)state;
    CLEANUP_OPENED struct opened kinds = {.bytes = BUF_INIT};
    open_fixture(&kinds, "fx_kinds");
    CLEANUP_FREE char *version = NULL;
    CLEANUP_TERM struct term_doc *attributes = NULL, *info = NULL;
    assert_int_equal(beam_attributes(kinds.beam, &attributes, NULL), 0);
    assert_true(term_to_string(beam_find_value(term_root(attributes), "vsn"), &version));
    assert_string_equal(version, "2.5.1");
    assert_null(beam_find_value(term_root(attributes), "author"));
    assert_int_equal(beam_compile_info(kinds.beam, &info, NULL), 0);
    assert_true(term_is_atom(term_at(term_at(term_root(info), 0), 0), "version"));
    assert_null(beam_source(kinds.beam)); /* it was compiled to be the same anywhere */
    CLEANUP(beam_names_free) struct beam_names behaviours = {0};
    assert_int_equal(beam_behaviours(kinds.beam, &behaviours, NULL), 0);
    assert_int_equal(behaviours.count, 1);
    assert_true(text_is(behaviours.items[0], "gen_server"));
}

static void test_dependencies(void **state) {
    (void)state;
    CLEANUP_OPENED struct opened kinds = {.bytes = BUF_INIT};
    open_fixture(&kinds, "fx_kinds");
    CLEANUP(beam_names_free) struct beam_names modules = {0};
    assert_int_equal(beam_runtime_dependencies(kinds.beam, &modules, NULL), 0);
    static const char *const expected[] = {"erlang", "gen_server", "lists", "maps", "timer"};
    assert_int_equal(modules.count, ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) assert_true(text_is(modules.items[i], expected[i]));
}

static void test_on_load(void **state) {
    (void)state;
    CLEANUP_OPENED struct opened module = {.bytes = BUF_INIT};
    open_fixture(&module, "fx_on_load");
    assert_true(beam_has_on_load(module.beam));
}

static void test_long_atoms(void **state) {
    (void)state;
    CLEANUP_OPENED struct opened module = {.bytes = BUF_INIT};
    open_fixture(&module, "fx_long_atoms");
    assert_true(text_is(beam_module(module.beam), "fx_long_atoms"));
    struct beam_options older = beam_default_options;
    older.otp = 27;
    struct error error;
    assert_non_null(strstr(complaint(module.bytes.data, module.bytes.size, &older, &error), "needs OTP 28"));
}

static void digests_of(const char *name, char checksum[BEAM_DIGEST_BYTES], char interface[BEAM_DIGEST_BYTES]) {
    CLEANUP_OPENED struct opened module = {.bytes = BUF_INIT};
    open_fixture(&module, name);
    assert_int_equal(beam_checksum(module.beam, checksum, NULL), 0);
    assert_int_equal(beam_interface_hash(module.beam, interface, NULL), 0);
}

/* Neither compressing the file nor debug info makes it another version. */
static void test_digests_of_variants(void **state) {
    (void)state;
    static const char *const variants[] = {"fx_kinds_compressed", "fx_kinds_debug"};
    char checksum[BEAM_DIGEST_BYTES], interface[BEAM_DIGEST_BYTES];
    char other_checksum[BEAM_DIGEST_BYTES], other_interface[BEAM_DIGEST_BYTES];
    digests_of("fx_kinds", checksum, interface);
    assert_int_equal(strlen(checksum), BEAM_DIGEST_BYTES - 1);
    for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
        digests_of(variants[i], other_checksum, other_interface);
        assert_string_equal(checksum, other_checksum);
        assert_string_equal(interface, other_interface);
    }
    digests_of("fx_literals", other_checksum, other_interface);
    assert_string_not_equal(checksum, other_checksum);
    assert_string_not_equal(interface, other_interface);
}

/* The chunk of a file's records, which tests change. */
static uint8_t *records_of(const struct buf *bytes) {
    uint8_t *tag = memmem(bytes->data, bytes->size, "Recs", 4);
    assert_non_null(tag);
    return tag + 8;
}

static void test_records(void **state) {
    (void)state;
    enum { VERSION = 3, RECORDS = 7, FIELDS = 11, DEFINITION = 12, EXPORTED = 14 };
    static const struct {
        size_t at;
        uint8_t byte;
        enum error_code code;
        const char *expected;
    } changes[] = {{VERSION, 1, E_TOO_NEW, "version 1"},
                   {RECORDS, 3, E_FORMAT, "no definition"},
                   {RECORDS, 200, E_FORMAT, "200 records in"},
                   {FIELDS, 1, E_FORMAT, "a list of"},
                   {FIELDS, 9, E_FORMAT, "9 fields are announced, too many"},
                   {DEFINITION, 4, E_FORMAT, "no definition"},
                   {EXPORTED, 0x12, E_FORMAT, "neither exported nor not"},
                   {EXPORTED, 0x02, E_FORMAT, "a name that is no atom"}};
    CLEANUP_OPENED struct opened records = {.bytes = BUF_INIT};
    open_fixture(&records, "../otp29/fx_records");
    assert_int_equal(beam_min_otp(records.beam), 29);
    assert_non_null(records.beam->chunks[CHUNK_RECORDS].data);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        CLEANUP_BEAM struct beam *beam = NULL;
        struct error error = {0};
        uint8_t *place = records_of(&records.bytes) + changes[i].at, before = *place;
        *place = changes[i].byte;
        assert_int_equal(beam_read(records.bytes.data, records.bytes.size, &beam_default_options, &beam, &error),
                         -(int)changes[i].code);
        *place = before;
        if (!strstr(error.detail, changes[i].expected)) fail_msg("%zu: %s", i, error.detail);
    }
}

/* A field's other value is another version of the module. */
static void test_records_are_part_of_the_checksum(void **state) {
    (void)state;
    enum { FIRST_NAME = 13 };
    CLEANUP_OPENED struct opened records = {.bytes = BUF_INIT};
    CLEANUP_BEAM struct beam *changed = NULL;
    struct error error = {0};
    char before[BEAM_DIGEST_BYTES], after[BEAM_DIGEST_BYTES];
    open_fixture(&records, "../otp29/fx_records");
    assert_int_equal(beam_checksum(records.beam, before, &error), 0);
    records_of(&records.bytes)[FIRST_NAME] = 0x12; /* the name of the module */
    assert_int_equal(beam_read(records.bytes.data, records.bytes.size, &beam_default_options, &changed, &error), 0);
    assert_int_equal(beam_checksum(changed, after, &error), 0);
    assert_string_not_equal(before, after);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),      cmocka_unit_test(test_records_are_part_of_the_checksum),
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_dependencies), cmocka_unit_test(test_on_load),
        cmocka_unit_test(test_long_atoms),   cmocka_unit_test(test_digests_of_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
