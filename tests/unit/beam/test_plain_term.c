/* The quick look at terms: what it takes for valid must be valid. */
#include "beam/beam_internal.h"
#include "beam/beam_test.h"
#include "terms.h"

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    bool is_plain;
} cases[] = {
    {"small integer", BYTES("\x83\x61\x07"), true},
    {"integer", BYTES("\x83\x62\xff\xff\xff\xff"), true},
    {"float", BYTES("\x83\x46\x3f\xf8\0\0\0\0\0\0"), true},
    {"infinity", BYTES("\x83\x46\x7f\xf0\0\0\0\0\0\0"), false},
    {"large integer", BYTES("\x83\x6e\x09\x01\1\2\3\4\5\6\7\10\11"), true},
    {"a sign that is none", BYTES("\x83\x6e\x01\x02\1"), false},
    {"cut large integer", BYTES("\x83\x6e\x02\0\1"), false},
    {"nil", BYTES("\x83\x6a"), true},
    {"string", BYTES("\x83\x6b\0\x02hi"), true},
    {"binary", BYTES("\x83\x6d\0\0\0\x02hi"), true},
    {"atom", BYTES("\x83\x77\x02hi"), true},
    {"atom beyond ASCII", BYTES("\x83\x77\x02\xc3\xa9"), false},
    {"tuple", BYTES("\x83\x68\x02\x61\x01\x68\x01\x6a"), true},
    {"list", BYTES("\x83\x6c\0\0\0\x01\x64\0\x01x\x6a"), true},
    {"improper list", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02"), true},
    {"atom of eight bytes",
     BYTES("\x83\x73\x08"
           "atomatom"),
     true},
    {"atom of eighteen bytes",
     BYTES("\x83\x76\0\x12"
           "atomatomatomatomat"),
     true},
    {"eighteen bytes beyond ASCII",
     BYTES("\x83\x76\0\x12"
           "atomatomatomatoma\x80"),
     false},
    {"atom with text behind it",
     BYTES("\x83\x68\x02\x77\x01"
           "a\x6d\0\0\0\x02\xff\xfe"),
     true},
    {"map", BYTES("\x83\x74\0\0\0\0"), true},
    {"map of two",
     BYTES("\x83\x74\0\0\0\x02\x77\x01"
           "a\x61\x01\x77\x01"
           "b\x74\0\0\0\x01\x77\x01"
           "a\x6a"),
     true},
    {"map with one key twice",
     BYTES("\x83\x74\0\0\0\x02\x77\x01"
           "a\x61\x01\x73\x01"
           "a\x61\x02"),
     false},
    {"map with a number for a key", BYTES("\x83\x74\0\0\0\x01\x61\x01\x6a"), false},
    {"cut map",
     BYTES("\x83\x74\0\0\0\x01\x77\x01"
           "a"),
     false},
    {"another version", BYTES("\x82\x6a"), false},
    {"nothing", BYTES(""), false},
    {"no term", BYTES("\x83"), false},
    {"too much", BYTES("\x83\x6a\x6a"), false},
    {"cut binary", BYTES("\x83\x6d\0\0\0\x03hi"), false},
    {"huge tuple", BYTES("\x83\x69\xff\xff\xff\xff\x6a"), false},
};

static bool is_plain(const void *bytes, size_t size) {
    return term_is_plain(bytes, size, size, beam_default_options.max_terms);
}

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (is_plain(cases[i].bytes, cases[i].size) != cases[i].is_plain) fail_msg("%s", cases[i].name);
}

/* Every byte of every case changed to every value: plain implies that it decodes. */
static void test_plain_decodes(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t at = 0; at < cases[i].size; at++)
            for (unsigned value = 0; value < 256; value++) {
                uint8_t bytes[64];
                memcpy(bytes, cases[i].bytes, cases[i].size);
                bytes[at] = (uint8_t)value;
                CLEANUP_TERM struct term_doc *doc = NULL;
                if (is_plain(bytes, cases[i].size) &&
                    term_decode(bytes, cases[i].size, &term_default_bounds, &doc, NULL) < 0)
                    fail_msg("%s with %u at %zu is taken for valid", cases[i].name, value, at);
            }
}

static void test_bounds(void **state) {
    (void)state;
    uint8_t deep[2 * TERM_MAX_DEPTH + 2] = {0x83};
    for (size_t i = 1; i < sizeof deep - 1; i += 2) deep[i] = 0x68, deep[i + 1] = 1;
    deep[sizeof deep - 1] = 0x6a;
    assert_false(is_plain(deep, sizeof deep));
    deep[2] = 0x83; /* with one level less */
    deep[1] = 0x83;
    assert_true(is_plain(deep + 2, sizeof deep - 2));
    assert_true(term_is_plain((const uint8_t *)"\x83\x68\x02\x6a\x6a", 5, 5, 3));
    assert_false(term_is_plain((const uint8_t *)"\x83\x68\x02\x6a\x6a", 5, 5, 2));
    assert_true(term_is_plain((const uint8_t *)"\x83\x74\0\0\0\x01\x77\0\x6a", 9, 9, 3));
    assert_false(term_is_plain((const uint8_t *)"\x83\x74\0\0\0\x01\x77\0\x6a", 9, 9, 2));
}

/* Maps in maps are followed only so far. */
static void test_maps_in_maps(void **state) {
    (void)state;
    static const uint8_t level[] = {0x74, 0, 0, 0, 1, 0x77, 0};
    for (size_t depth = 16; depth <= 17; depth++) {
        uint8_t bytes[17 * sizeof level + 2] = {0x83};
        for (size_t i = 0; i < depth; i++) memcpy(bytes + 1 + i * sizeof level, level, sizeof level);
        bytes[1 + depth * sizeof level] = 0x6a;
        assert_int_equal(is_plain(bytes, 2 + depth * sizeof level), depth == 16);
    }
}

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    bool is_plain;
} lists[] = {
    {"none", BYTES("\x83\x6a"), true},
    {"a pair", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01k\x61\x05\x6a"), true},
    {"two pairs", BYTES("\x83\x6c\0\0\0\x02\x68\x02\x77\x01k\x6a\x68\x02\x64\0\x01k\x68\x01\x6a\x6a"), true},
    {"a number for a key", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x61\x01\x61\x05\x6a"), false},
    {"a triple", BYTES("\x83\x6c\0\0\0\x01\x68\x03\x77\x01k\x6a\x6a\x6a"), false},
    {"an atom", BYTES("\x83\x6c\0\0\0\x01\x77\x01k\x6a"), false},
    {"no list", BYTES("\x83\x68\x02\x77\x01k\x61\x05"), false},
    {"an improper list", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01k\x61\x05\x61\x01"), false},
    {"too much", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01k\x61\x05\x6a\x6a"), false},
    {"cut before the end", BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01k\x61\x05"), false},
    {"more than there are", BYTES("\x83\x6c\xff\xff\xff\xff\x6a"), false},
};

/* At the end of what may be looked at, too. */
static void test_pairs(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        CLEANUP_FREE uint8_t *bytes = malloc(lists[i].size);
        memcpy(bytes, lists[i].bytes, lists[i].size);
        if (term_is_plain_pairs(bytes, lists[i].size, 20) != lists[i].is_plain) fail_msg("%s", lists[i].name);
    }
    assert_true(term_is_plain_pairs((const uint8_t *)lists[1].bytes, lists[1].size, 5));
    assert_false(term_is_plain_pairs((const uint8_t *)lists[1].bytes, lists[1].size, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),        cmocka_unit_test(test_plain_decodes), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_maps_in_maps), cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
