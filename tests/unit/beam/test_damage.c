/* Files damaged at every place. */
#include "beam/beam_internal.h"
#include "beam/beam_test.h"

static const char *const fixtures[] = {"fx_kinds", "fx_long_atoms", "fx_on_load"};

static void test_cut_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(fixtures); i++) {
        CLEANUP_BUF struct buf file = BUF_INIT;
        struct error error;
        load_fixture(&file, fixtures[i]);
        for (size_t size = 0; size < file.size; size++)
            if (!complaint(file.data, size, &beam_default_options, &error))
                fail_msg("%s is accepted when only %zu bytes are there", fixtures[i], size);
        assert_null(complaint(file.data, file.size, &beam_default_options, &error));
    }
}

/* A byte that is cut out, with the sizes made to fit, shifts all that follows in the chunk. */
static void remove_byte(const struct buf *file, size_t chunk, size_t at, struct buf *out) {
    size_t size = (size_t)file->data[chunk + 6] << 8 | file->data[chunk + 7];
    size_t padded = (size + 3) / 4 * 4, padded_after = (size - 1 + 3) / 4 * 4;
    buf_append(out, file->data, chunk + 8 + at);
    buf_append(out, file->data + chunk + 8 + at + 1, size - at - 1);
    while (out->size < chunk + 8 + padded_after) buf_append_byte(out, 0);
    buf_append(out, file->data + chunk + 8 + padded, file->size - chunk - 8 - padded);
    out->data[chunk + 6] = (uint8_t)((size - 1) >> 8);
    out->data[chunk + 7] = (uint8_t)(size - 1);
    for (unsigned i = 0; i < 4; i++) out->data[4 + i] = (uint8_t)((out->size - 8) >> (24 - 8 * i));
}

static void test_tables_without_a_byte(void **state) {
    (void)state;
    static const char *const tags[] = {"AtU8", "ImpT", "ExpT", "FunT", "LitT", "LocT"};
    CLEANUP_BUF struct buf file = BUF_INIT;
    load_fixture(&file, "fx_kinds");
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
        uint8_t *chunk = memmem(file.data, file.size, tags[i], 4);
        assert_non_null(chunk);
        size_t size = (size_t)chunk[6] << 8 | chunk[7];
        for (size_t at = 0; at < size; at++) {
            CLEANUP_BUF struct buf damaged = BUF_INIT;
            struct error error;
            remove_byte(&file, (size_t)(chunk - file.data), at, &damaged);
            if (!complaint(damaged.data, damaged.size, &beam_default_options, &error))
                fail_msg("%s without byte %zu is accepted", tags[i], at);
        }
    }
}

/* What is still accepted must be so by the slow way of reading code too, and whole enough to be hashed and asked. */
static void ask_everything(struct beam *beam) {
    char digest[BEAM_DIGEST_BYTES];
    assert_int_equal(read_code_again(beam, NULL), 0);
    struct beam_names names = {0};
    assert_int_equal(beam_checksum(beam, digest, NULL), 0);
    assert_int_equal(beam_interface_hash(beam, digest, NULL), 0);
    assert_int_equal(beam_runtime_dependencies(beam, &names, NULL), 0);
    beam_names_free(&names);
    assert_int_equal(beam_compile_dependencies(beam, &names, NULL), 0);
    beam_names_free(&names);
    free(beam_source(beam));
}

static void test_every_byte_changed(void **state) {
    (void)state;
    static const uint8_t changes[] = {0x01, 0x08, 0x10, 0x80, 0xff};
    CLEANUP_BUF struct buf file = BUF_INIT;
    size_t refused = 0, tried = 0;
    load_fixture(&file, "fx_kinds");
    for (size_t at = 0; at < file.size; at++) {
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++, tried++) {
            struct error error = {0};
            CLEANUP_BEAM struct beam *beam = NULL;
            file.data[at] ^= changes[i];
            if (beam_read(file.data, file.size, &beam_default_options, &beam, &error) == 0)
                ask_everything(beam);
            else
                refused++;
            assert_true(beam || error.detail[0] != '\0');
            file.data[at] ^= changes[i];
        }
    }
    assert_true(refused > tried / 3); /* the rest changed a name, a number or a register into another */
}

/* Opcodes are all different instructions: hardly any can stand for another. */
static void test_every_place_is_named(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    load_fixture(&file, "fx_kinds");
    uint8_t *code = memmem(file.data, file.size, "Code", 4);
    assert_non_null(code);
    size_t size = (size_t)code[6] << 8 | code[7];
    for (size_t at = 24; at < size; at++) {
        struct error error;
        uint8_t kept = code[8 + at];
        code[8 + at] = 0xff;
        const char *text = complaint(file.data, file.size, &beam_default_options, &error);
        if (text && !strstr(text, "chunk Code") && !strstr(text, "label"))
            fail_msg("byte %zu: no place in \"%s\"", at, text);
        code[8 + at] = kept;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_tables_without_a_byte),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_every_place_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
