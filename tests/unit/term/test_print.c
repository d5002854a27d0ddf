/* Tests how terms are printed in Erlang's and in Elixir's syntax, within a bound. */
#include "term_test.h"

struct printed {
    const char *bytes;
    size_t size;
    const char *erlang;
    const char *elixir;
};

static char *print(const struct term *term, enum term_language language, size_t max_bytes) {
    struct buf text = BUF_INIT;
    term_print(&text, term, language, max_bytes);
    char *string = buf_take_string(&text);
    assert_non_null(string);
    return string;
}

static void assert_printed(const struct printed *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        CLEANUP_TERM struct term_doc *doc = must_decode(cases[i].bytes, cases[i].size);
        CLEANUP_FREE char *erlang = print(term_root(doc), TERM_ERLANG, SIZE_MAX);
        CLEANUP_FREE char *elixir = print(term_root(doc), TERM_ELIXIR, SIZE_MAX);
        assert_string_equal(erlang, cases[i].erlang);
        assert_string_equal(elixir, cases[i].elixir);
    }
}

static void test_numbers(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x62\xff\xff\xff\xf9"), "-7", "-7"},
        {BYTES("\x83\x6e\x09\x01\0\0\0\0\0\0\0\0\1"), "-18446744073709551616", "-18446744073709551616"},
        {BYTES("\x83\x46\x3f\xb9\x99\x99\x99\x99\x99\x9a"), "0.1", "0.1"},
        {BYTES("\x83\x46\x40\xf8\x6a\0\0\0\0\0"), "1.0e5", "100000.0"},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
}

static void test_atoms(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x77\x02ok"), "ok", ":ok"},
        {BYTES("\x83\x77\0"), "''", ":\"\""},
        {BYTES("\x83\x77\x03"
               "a b"),
         "'a b'", ":\"a b\""},
        {BYTES("\x83\x77\x04when"), "'when'", ":when"},
        {BYTES("\x83\x77\x05maybe"), "'maybe'", ":maybe"},
        {BYTES("\x83\x77\x03nil"), "nil", "nil"},
        {BYTES("\x83\x77\x0a"
               "Elixir.A.B"),
         "'Elixir.A.B'", "A.B"},
        {BYTES("\x83\x77\x03\xc3\xa9"
               "a"),
         "éa", ":éa"},
        {BYTES("\x83\x77\x02\xce\xbb"), "'λ'", ":\"λ\""},
        {BYTES("\x83\x77\x03it?"), "'it?'", ":it?"},
        {BYTES("\x83\x77\x03"
               "a\0b"),
         "'a\\000b'", ":\"a\\0b\""},
        {BYTES("\x83\x77\x04'\"\\\n"), "'\\'\"\\\\\\n'", ":\"'\\\"\\\\\\n\""},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
}

static void test_binaries(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x6d\0\0\0\x03"
               "abc"),
         "<<\"abc\">>", "\"abc\""},
        {BYTES("\x83\x6d\0\0\0\0"), "<<>>", "\"\""},
        {BYTES("\x83\x6d\0\0\0\x02\xc3\xa9"), "<<\"é\"/utf8>>", "\"é\""},
        {BYTES("\x83\x6d\0\0\0\x01\xe9"), "<<\"é\">>", "<<233>>"},
        {BYTES("\x83\x6d\0\0\0\x02\0\xff"), "<<0,255>>", "<<0, 255>>"},
        {BYTES("\x83\x6d\0\0\0\x02#{"), "<<\"#{\">>", "\"\\#{\""},
        {BYTES("\x83\x6d\0\0\0\x01\x07"), "<<7>>", "\"\\a\""},
        {BYTES("\x83\x4d\0\0\0\x02\x03\x01\xa0"), "<<1,5:3>>", "<<1, 5::size(3)>>"},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
}

static void test_lists_and_tuples(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x6a"), "[]", "[]"},
        {BYTES("\x83\x6b\0\x03"
               "abc"),
         "\"abc\"", "~c\"abc\""},
        {BYTES("\x83\x6b\0\x03'#{"), "\"'#{\"", "~c\"'\\#{\""},
        {BYTES("\x83\x6b\0\x02\x01\x02"), "[1,2]", "[1, 2]"},
        {BYTES("\x83\x6b\0\x01\xe9"), "\"é\"", "[233]"},
        {BYTES("\x83\x6c\0\0\0\x01\x62\0\0\x03\xbb\x6a"), "\"λ\"", "[955]"},
        {BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02"), "[1|2]", "[1 | 2]"},
        {BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01"
               "a\x61\x01\x6a"),
         "[{a,1}]", "[a: 1]"},
        {BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x01"
               "a\x61\x01\x61\x02"),
         "[{a,1}|2]", "[{:a, 1} | 2]"},
        {BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x03"
               "a b\x61\x01\x6a"),
         "[{'a b',1}]", "[\"a b\": 1]"},
        {BYTES("\x83\x6c\0\0\0\x01\x68\x02\x77\x08"
               "Elixir.A\x61\x01\x6a"),
         "[{'Elixir.A',1}]", "[{A, 1}]"},
        {BYTES("\x83\x68\0"), "{}", "{}"},
        {BYTES("\x83\x68\x02\x61\x01\x68\x01\x6a"), "{1,{[]}}", "{1, {[]}}"},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
}

static void test_maps_and_structs(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x74\0\0\0\0"), "#{}", "%{}"},
        {BYTES("\x83\x74\0\0\0\x02\x77\x01"
               "b\x61\x01\x77\x01"
               "a\x61\x02"),
         "#{b => 1,a => 2}", "%{b: 1, a: 2}"},
        {BYTES("\x83\x74\0\0\0\x02\x77\x01"
               "b\x61\x01\x61\x07\x61\x02"),
         "#{b => 1,7 => 2}", "%{:b => 1, 7 => 2}"},
        {BYTES("\x83\x74\0\0\0\x02\x77\x0a__struct__\x77\x08"
               "Elixir.P\x77\x01x\x61\x01"),
         "#{'__struct__' => 'Elixir.P',x => 1}", "%P{x: 1}"},
        {BYTES("\x83\x74\0\0\0\x01\x77\x0a__struct__\x77\x08"
               "Elixir.P"),
         "#{'__struct__' => 'Elixir.P'}", "%P{}"},
        {BYTES("\x83\x74\0\0\0\x01\x77\x0a__struct__\x61\x01"), "#{'__struct__' => 1}", "%{__struct__: 1}"},
        {BYTES("\x83\x74\0\0\0\x03\x77\x0a__struct__\x77\x0c"
               "Elixir.Range\x77\x05"
               "first\x61\x01\x77\x04last\x61\x03"),
         "#{'__struct__' => 'Elixir.Range',first => 1,last => 3}", "1..3"},
        {BYTES("\x83\x74\0\0\0\x03\x77\x0a__struct__\x77\x0c"
               "Elixir.Range\x77\x05"
               "first\x61\x03\x77\x04last\x61\x01"),
         "#{'__struct__' => 'Elixir.Range',first => 3,last => 1}", "3..1//-1"},
        {BYTES("\x83\x74\0\0\0\x01\x77\x0a__struct__\x77\x0c"
               "Elixir.Range"),
         "#{'__struct__' => 'Elixir.Range'}", "%Range{}"},
        {BYTES("\x83\x74\0\0\0\x02\x77\x0a__struct__\x77\x0d"
               "Elixir.MapSet\x77\x03map\x74\0\0\0\x01\x6b\0\x01"
               "a\x6a"),
         "#{'__struct__' => 'Elixir.MapSet',map => #{\"a\" => []}}", "MapSet.new([[97]])"},
        {BYTES("\x83\x74\0\0\0\x01\x77\x0a__struct__\x77\x0d"
               "Elixir.MapSet"),
         "#{'__struct__' => 'Elixir.MapSet'}", "%MapSet{}"},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
}

static void test_identifiers_and_functions(void **state) {
    (void)state;
    static const struct printed cases[] = {
        {BYTES("\x83\x58\x77\x01n\0\0\0\x05\0\0\0\x06\0\0\0\x07"), "<0.5.6>", "#PID<0.5.6>"},
        {BYTES("\x83\x59\x77\x01n\0\0\0\x05\0\0\0\x07"), "#Port<0.5>", "#Port<0.5>"},
        {BYTES("\x83\x5a\0\x02\x77\x01n\0\0\0\x07\0\0\0\x01\0\0\0\x02"), "#Ref<0.2.1>", "#Reference<0.2.1>"},
        {BYTES("\x83\x71\x77\x05lists\x77\x03map\x61\x02"), "fun lists:map/2", "&:lists.map/2"},
        {BYTES("\x83\x71\x77\x08"
               "Elixir.A\x77\x03"
               "A b\x61\x02"),
         "fun 'Elixir.A':'A b'/2", "&A.\"A b\"/2"},
        {BYTES("\x83\x43\0\0\0\x02\x01\x77\x08"
               "Elixir.M\x77\x01r\x77\x01"
               "a\x77\x03"
               "B c\x61\x01\x77\x02ok"),
         "#'Elixir.M':r{a = 1,'B c' = ok}", "#'Elixir.M':r{a = 1,'B c' = ok}"},
        {BYTES("\x83\x43\0\0\0\0\0\x77\x01m\x77\x01r"), "#m:r{}", "#m:r{}"},
    };
    assert_printed(cases, ARRAY_SIZE(cases));
    CLEANUP_TERM struct term_doc *doc = must_decode(every_tag[27].bytes, every_tag[27].size);
    CLEANUP_FREE char *erlang = print(term_root(doc), TERM_ERLANG, SIZE_MAX);
    CLEANUP_FREE char *elixir = print(term_root(doc), TERM_ELIXIR, SIZE_MAX);
    assert_string_equal(erlang, "#Fun<m.4.10>");
    assert_string_equal(elixir, "#Function<4.10/2 in :m>");
}

static void test_text_is_cut_between_characters(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *doc = must_decode(BYTES("\x83\x6d\0\0\0\x06\xc3\xa9\xc3\xa9\xc3\xa9")); /* "ééé" */
    static const char *const expected[] = {"…", "\"…", "\"…", "\"é…", "\"é…", "\"éé…", "\"éé…", "\"ééé…", "\"ééé\""};
    for (size_t max = 0; max < ARRAY_SIZE(expected); max++) {
        CLEANUP_FREE char *text = print(term_root(doc), TERM_ELIXIR, max);
        assert_string_equal(text, expected[max]);
    }
}

/* The bound counts what is printed, and holds early: a large term does not become a large text first. */
static void test_large_terms_stop_at_the_bound(void **state) {
    (void)state;
    enum { COUNT = 100000, MAX = 50 };
    struct buf bytes = BUF_INIT;
    term_put_version(&bytes);
    term_put_list(&bytes, COUNT);
    for (int i = 0; i < COUNT; i++) term_put_atom(&bytes, "element");
    term_put_nil(&bytes);
    CLEANUP_TERM struct term_doc *doc = must_decode((char *)bytes.data, bytes.size);
    for (int language = TERM_ERLANG; language <= TERM_ELIXIR; language++) {
        struct buf text = BUF_INIT;
        buf_append_string(&text, "kept ");
        term_print(&text, term_root(doc), (enum term_language)language, MAX);
        assert_int_equal(text.size, strlen("kept ") + MAX + strlen("…"));
        assert_true(text.capacity <= 256);
        assert_memory_equal(text.data, "kept [", 6);
        buf_free(&text);
    }
    buf_free(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_atoms),
        cmocka_unit_test(test_binaries),
        cmocka_unit_test(test_lists_and_tuples),
        cmocka_unit_test(test_maps_and_structs),
        cmocka_unit_test(test_identifiers_and_functions),
        cmocka_unit_test(test_text_is_cut_between_characters),
        cmocka_unit_test(test_large_terms_stop_at_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
