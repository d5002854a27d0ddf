/* Tests the order and the equality of terms. */
#include "term_test.h"

#include "term/term_internal.h"

/* Ascending in the order that term_compare makes, and no two alike. */
static const struct sample ascending[] = {
    {"-1", BYTES("\x83\x62\xff\xff\xff\xff")},
    {"1", BYTES("\x83\x61\x01")},
    {"-2^64", BYTES("\x83\x6e\x09\x01\0\0\0\0\0\0\0\0\1")},
    {"2^64", BYTES("\x83\x6e\x09\0\0\0\0\0\0\0\0\0\1")},
    {"2^72", BYTES("\x83\x6e\x0a\0\0\0\0\0\0\0\0\0\0\1")},
    {"0.0", BYTES("\x83\x46\0\0\0\0\0\0\0\0")},
    {"-0.0", BYTES("\x83\x46\x80\0\0\0\0\0\0\0")},
    {"a", BYTES("\x83\x77\x01"
                "a")},
    {"b", BYTES("\x83\x77\x01"
                "b")},
    {"aa", BYTES("\x83\x77\x02"
                 "aa")},
    {"<<>>", BYTES("\x83\x6d\0\0\0\0")},
    {"<<\"a\">>", BYTES("\x83\x6d\0\0\0\x01"
                        "a")},
    {"<<1:1>>", BYTES("\x83\x4d\0\0\0\x01\x01\x80")},
    {"<<2:2>>", BYTES("\x83\x4d\0\0\0\x01\x02\x80")},
    {"[]", BYTES("\x83\x6a")},
    {"[1|2]", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02")},
    {"[1]", BYTES("\x83\x6b\0\x01\x01")},
    {"[1,1]", BYTES("\x83\x6b\0\x02\x01\x01")},
    {"{}", BYTES("\x83\x68\0")},
    {"{1}", BYTES("\x83\x68\x01\x61\x01")},
    {"{2}", BYTES("\x83\x68\x01\x61\x02")},
    {"#{}", BYTES("\x83\x74\0\0\0\0")},
    {"#{1 => 1}", BYTES("\x83\x74\0\0\0\x01\x61\x01\x61\x01")},
    {"#{1 => 2}", BYTES("\x83\x74\0\0\0\x01\x61\x01\x61\x02")},
    {"#{2 => 1}", BYTES("\x83\x74\0\0\0\x01\x61\x02\x61\x01")},
    {"<0.5.6>", BYTES("\x83\x58\x77\x01n\0\0\0\x05\0\0\0\x06\0\0\0\x07")},
    {"<0.5.6>, another creation", BYTES("\x83\x58\x77\x01n\0\0\0\x05\0\0\0\x06\0\0\0\x08")},
    {"<0.5.6>, another node", BYTES("\x83\x58\x77\x01o\0\0\0\x05\0\0\0\x06\0\0\0\x08")},
    {"<0.5.7>", BYTES("\x83\x58\x77\x01n\0\0\0\x05\0\0\0\x07\0\0\0\x07")},
    {"#Port<0.5>", BYTES("\x83\x59\x77\x01n\0\0\0\x05\0\0\0\x07")},
    {"#Ref<0.1>", BYTES("\x83\x5a\0\x01\x77\x01n\0\0\0\x07\0\0\0\x01")},
    {"#Ref<0.2>", BYTES("\x83\x5a\0\x01\x77\x01n\0\0\0\x07\0\0\0\x02")},
    {"fun m:f/1", BYTES("\x83\x71\x77\x01m\x77\x01"
                        "f\x61\x01")},
    {"fun n:f/1", BYTES("\x83\x71\x77\x01n\x77\x01"
                        "f\x61\x01")},
    {"fun m:g/1", BYTES("\x83\x71\x77\x01m\x77\x01"
                        "g\x61\x01")},
    {"fun m:f/2", BYTES("\x83\x71\x77\x01m\x77\x01"
                        "f\x61\x02")},
    {"#m:r{}", BYTES("\x83\x43\0\0\0\0\0\x77\x01m\x77\x01r")},
    {"#m:s{}", BYTES("\x83\x43\0\0\0\0\0\x77\x01m\x77\x01s")},
    {"#m:r{a = 1}", BYTES("\x83\x43\0\0\0\x01\0\x77\x01m\x77\x01r\x77\x01"
                          "a\x61\x01")},
    {"#m:r{a = 2}", BYTES("\x83\x43\0\0\0\x01\0\x77\x01m\x77\x01r\x77\x01"
                          "a\x61\x02")},
    {"#m:r{}, exported", BYTES("\x83\x43\0\0\0\0\x01\x77\x01m\x77\x01r")},
};

static void test_the_order_is_total(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ascending); i++)
        for (size_t j = 0; j < ARRAY_SIZE(ascending); j++) {
            CLEANUP_TERM struct term_doc *a = must_decode(ascending[i].bytes, ascending[i].size);
            CLEANUP_TERM struct term_doc *b = must_decode(ascending[j].bytes, ascending[j].size);
            int order = term_compare(term_root(a), term_root(b));
            if ((order > 0) - (order < 0) != (i > j) - (i < j))
                fail_msg("%s and %s", ascending[i].name, ascending[j].name);
            assert_int_equal(term_equal(term_root(a), term_root(b)), i == j);
        }
}

static void test_maps_are_equal_in_any_order(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *a = must_decode(BYTES("\x83\x74\0\0\0\x02\x61\x01\x61\x0a\x61\x02\x61\x14"));
    CLEANUP_TERM struct term_doc *b = must_decode(BYTES("\x83\x74\0\0\0\x02\x61\x02\x61\x14\x61\x01\x61\x0a"));
    assert_true(term_equal(term_root(a), term_root(b)));
}

static void test_funs_are_equal_byte_for_byte(void **state) {
    (void)state;
    const struct sample *fun = &every_tag[27];
    char other[128];
    memcpy(other, fun->bytes, fun->size);
    other[fun->size - 1]++;
    CLEANUP_TERM struct term_doc *a = must_decode(fun->bytes, fun->size);
    CLEANUP_TERM struct term_doc *b = must_decode(fun->bytes, fun->size);
    CLEANUP_TERM struct term_doc *c = must_decode(other, fun->size);
    assert_true(term_equal(term_root(a), term_root(b)));
    assert_false(term_equal(term_root(a), term_root(c)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_is_total),
        cmocka_unit_test(test_maps_are_equal_in_any_order),
        cmocka_unit_test(test_funs_are_equal_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
