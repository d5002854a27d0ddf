/* Tests the reader of BEAM containers: chunks, padding and compression, and files that lie about their sizes. */
#include "beam/beam_test.h"

#include <zlib.h>

static void test_minimal_is_valid(void **state) {
    (void)state;
    expect("minimal", NULL, NULL);
}

static void test_parts_missing_and_unknown(void **state) {
    (void)state;
    expect("no code", &(struct part){"Code", NULL, 0}, "chunk Code is missing");
    expect("no imports", &(struct part){"ImpT", NULL, 0}, "chunk ImpT is missing");
    expect("no exports", &(struct part){"ExpT", NULL, 0}, "chunk ExpT is missing");
    expect("no atoms", &(struct part){"AtU8", NULL, 0}, "chunk AtU8 is missing");
    expect("no lines", &(struct part){"Line", NULL, 0}, NULL);
    expect("no types", &(struct part){"Type", NULL, 0}, NULL);
    expect("no attributes", &(struct part){"Attr", NULL, 0}, NULL);
    expect("unknown", &(struct part){"Xyz1", BYTES("anything")}, NULL);
    expect("both atom tables", &(struct part){"Atom", BYTES(ATOMS)}, "exclude each other");
    expect("a name that is no text", &(struct part){"a\x01xx", BYTES("z")}, "name is no text");
}

static void refuse(const struct buf *file, size_t size, const char *expected) {
    struct error error;
    const char *text = complaint(file->data, size, &beam_default_options, &error);
    if (!text) fail_msg("accepted instead of: %s", expected);
    if (!strstr(text, expected)) fail_msg("\"%s\" does not say \"%s\"", text, expected);
}

static void test_doubled_chunk(void **state) {
    (void)state;
    struct part parts[ARRAY_SIZE(minimal_parts) + 1] = {{"StrT", BYTES("twice")}};
    memcpy(parts + 1, minimal_parts, sizeof minimal_parts);
    CLEANUP_BUF struct buf file = BUF_INIT;
    build(&file, parts, NULL);
    refuse(&file, file.size, "chunk StrT a second time");
}

static void test_lies_about_sizes(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    build(&file, minimal_parts, NULL);
    file.data[7]++;
    refuse(&file, file.size, "the form announces");
    file.data[7]--;
    file.data[19] = 0xff; /* the first chunk's size */
    file.data[18] = 0xff;
    refuse(&file, file.size, "file, byte 20: chunk AtU8 ends");
}

static void test_padding(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    build(&file, minimal_parts, &(struct part){"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x51")});
    uint8_t *strings = memmem(file.data, file.size, "StrT", 4);
    assert_non_null(strings);
    strings[8 + 6] = 1;
    refuse(&file, file.size, "padding of chunk StrT is not zero");
}

static void test_other_formats(void **state) {
    (void)state;
    struct error error;
    assert_non_null(complaint("", 0, &beam_default_options, &error));
    assert_non_null(complaint("FOR1", 4, &beam_default_options, &error));
    assert_non_null(strstr(complaint("FOR1\0\0\0\4AVI ", 12, &beam_default_options, &error), "another type"));
    assert_non_null(strstr(complaint("#!/bin/sh\nexit 0\n", 17, &beam_default_options, &error), "not a BEAM file"));
    struct beam_options small = beam_default_options;
    small.max_bytes = 3;
    assert_non_null(complaint("FOR1", 4, &small, &error));
    assert_int_equal(error.code, E_TOO_LARGE);
}

static void test_too_many_chunks(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    buf_append_string(&file, "FOR1....BEAM");
    for (int i = 0; i < 100; i++) {
        char tag[8];
        snprintf(tag, sizeof tag, "X%03d", i);
        append_part(&file, &(struct part){tag, BYTES("")});
    }
    for (unsigned i = 0; i < 4; i++) file.data[4 + i] = (uint8_t)((file.size - 8) >> (24 - 8 * i));
    refuse(&file, file.size, "more than 64 chunks");
}

static void compress_whole(const struct buf *file, struct buf *out) {
    z_stream stream = {.next_in = file->data, .avail_in = (uInt)file->size};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_true(buf_reserve(out, deflateBound(&stream, file->size)));
    stream.next_out = out->data;
    stream.avail_out = (uInt)out->capacity;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out->size = stream.total_out;
    deflateEnd(&stream);
}

static void checksum_of(const struct buf *file, char ret[BEAM_DIGEST_BYTES]) {
    struct error error = {0};
    CLEANUP_BEAM struct beam *beam = NULL;
    assert_int_equal(beam_read(file->data, file->size, &beam_default_options, &beam, &error), 0);
    assert_int_equal(beam_checksum(beam, ret, &error), 0);
}

static void test_compressed_file(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT, packed = BUF_INIT;
    char plain[BEAM_DIGEST_BYTES], compressed[BEAM_DIGEST_BYTES];
    build(&file, minimal_parts, NULL);
    compress_whole(&file, &packed);
    checksum_of(&file, plain);
    checksum_of(&packed, compressed);
    assert_string_equal(plain, compressed);
    for (size_t size = 2; size < packed.size; size++) refuse(&packed, size, "");
    packed.data[packed.size - 1] = 0x7f; /* it announces two gigabytes */
    struct error error;
    assert_non_null(complaint(packed.data, packed.size, &beam_default_options, &error));
    assert_int_equal(error.code, E_TOO_LARGE);
    packed.data[packed.size - 1] = 0x01; /* and sixteen megabytes, in a few hundred bytes */
    refuse(&packed, packed.size, "announces");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minimal_is_valid), cmocka_unit_test(test_parts_missing_and_unknown),
        cmocka_unit_test(test_doubled_chunk),    cmocka_unit_test(test_lies_about_sizes),
        cmocka_unit_test(test_padding),          cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_too_many_chunks),  cmocka_unit_test(test_compressed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
