/* Every chunk but the code: what is wrong in each is found and named. */
#include "beam/beam_test.h"

static const struct {
    const char *name;
    struct part part;
    const char *expected; /* NULL: it is valid */
} cases[] = {
    {"no atom", {"AtU8", BYTES("\0\0\0\0")}, "chunk AtU8, byte 4: no atom"},
    {"more atoms than bytes", {"AtU8", BYTES("\0\0\xff\0\x01m")}, "65280 atoms in 2 bytes"},
    {"atom past the end", {"AtU8", BYTES("\0\0\0\x02\x01m\x09x")}, "an atom of 9 bytes goes past the end"},
    {"atom that is no UTF-8", {"AtU8", BYTES("\0\0\0\x02\x01m\x02\xc3\x28")}, "not UTF-8"},
    {"bytes behind the atoms", {"AtU8", BYTES(ATOMS "\0")}, "1 bytes too many"},
    {"empty module name",
     {"AtU8", BYTES("\0\0\0\x06\0\x01"
                    "f\x06"
                    "erlang\x04self\x01+\x01g")},
     "name is empty"},
    {"long lengths",
     {"AtU8", BYTES("\xff\xff\xff\xfa\x10m\x10"
                    "f\x60"
                    "erlang\x40self\x10+\x10g")},
     NULL},
    {"a length that is no number", {"AtU8", BYTES("\xff\xff\xff\xfa\x11m\0\0\0\0\0")}, "no plain number"},
    {"smallest count", {"AtU8", BYTES("\x80\0\0\0\x10m")}, "atoms in"},

    {"import of no atom", {"ImpT", BYTES("\0\0\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0")}, "chunk ImpT, byte 8: atom 0"},
    {"import of an unknown atom", {"ImpT", BYTES("\0\0\0\x01\0\0\0\x03\0\0\0\x07\0\0\0\0")}, "atom 7, there are 6"},
    {"import's arity", {"ImpT", BYTES("\0\0\0\x01\0\0\0\x03\0\0\0\x04\0\0\1\0")}, "arity 256"},
    {"fewer imports than said", {"ImpT", BYTES("\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\0")}, "2 entries in 12 bytes"},
    {"more imports than said", {"ImpT", BYTES("\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\0")}, "12 bytes too many"},

    {"export of another name", {"ExpT", BYTES("\0\0\0\x01\0\0\0\x06\0\0\0\0\0\0\0\x02")}, "another name or arity"},
    {"export of another arity", {"ExpT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\0\0\x02")}, "chunk ExpT, entry 0"},
    {"export in the middle",
     {"ExpT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x01")},
     "label 1 is no function's first"},
    {"export at no label", {"ExpT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\xff\xff\xff\xff")}, "no function's first"},
    {"local of another name", {"LocT", BYTES("\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02")}, "chunk LocT, entry 0"},

    {"lambda out of order",
     {"FunT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\0")},
     "has index 1"},
    {"lambda closes over more than it takes",
     {"FunT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0")},
     "closes over 1"},
    {"lambda without code",
     {"FunT", BYTES("\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0")},
     "chunk FunT, entry 0"},

    {"literal past the end", {"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x09\x83\x6a")}, "literal 0 at byte 8"},
    {"literal that is no term", {"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x02\x83\x01")}, "unknown tag"},
    {"literal with too much", {"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x03\x83\x6a\x6a")}, "trailing bytes"},
    {"literal compressed by itself",
     {"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x04\x83\x50\0\0")},
     "compressed by itself"},
    {"literal map with one key twice",
     {"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x0e\x83\x74\0\0\0\x02\x61\1\x61\2\x61\1\x61\3")},
     "one key twice"},
    {"literals that do not inflate", {"LitT", BYTES("\0\0\0\x09garbage")}, "chunk LitT, byte 4"},
    {"literals of an impossible ratio", {"LitT", BYTES("\0\x10\0\0x")}, "announces 1048576 bytes in 1"},
    {"more literals than bytes", {"LitT", BYTES("\0\0\0\0\x0f\0\0\0\0\0\0\x02\x83\x6a")}, "entries in"},

    {"line of an unknown file",
     {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x12\x51")},
     "file 1, there are 0"},
    {"line that is none",
     {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x13")},
     "neither a line nor a file"},
    {"negative line",
     {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\x19\xff\xff")},
     "neither a line nor a file"},
    {"more lines than bytes", {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\1\0\x01\0\0\0\0\x51")}, "65537 lines"},
    {"file name", {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\x12\x51\0\x03x.y")}, NULL},
    {"file name cut",
     {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\x12\x51\0\x04x.y")},
     "1 bytes are missing"},
    {"file name that is no UTF-8",
     {"Line", BYTES("\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\x51\0\x01\xff")},
     "not UTF-8"},
    {"lines of another version", {"Line", BYTES("\0\0\0\x09whatever")}, NULL},

    {"no type", {"Type", BYTES("\0\0\0\x03\0\0\0\0")}, "chunk Type, byte 8: no type"},
    {"first type is not any", {"Type", BYTES("\0\0\0\x03\0\0\0\x01\0\x01")}, "not 'any'"},
    {"type of nothing", {"Type", BYTES("\0\0\0\x03\0\0\0\x02\x0f\xff\0\0")}, "type 1 is none"},
    {"type with an unknown bit", {"Type", BYTES("\0\0\0\x03\0\0\0\x02\x0f\xff\x80\x01")}, "type 1 is unknown"},
    {"bounds of an atom", {"Type", BYTES("\0\0\0\x03\0\0\0\x02\x0f\xff\x10\x01\0\0\0\0\0\0\0\0")}, "can't have"},
    {"bounds cut", {"Type", BYTES("\0\0\0\x03\0\0\0\x02\x0f\xff\x10\x20\0\0\0\0")}, "4 bytes are missing"},
    {"unit of OTP 26", {"Type", BYTES("\0\0\0\x02\0\0\0\x02\x1f\xff\x80\x02\x07")}, NULL},
    {"types of OTP 25",
     {"Type", BYTES("\0\0\0\x01\0\0\0\x01\x1f\xff\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff")},
     NULL},
    {"types of another version", {"Type", BYTES("\0\0\0\x63")}, NULL},

    {"attributes that are no term", {"Attr", BYTES("\x83")}, "chunk Attr"},
    {"attributes that are no list", {"Attr", BYTES("\x83\x61\x01")}, "not a list of pairs"},
    {"attributes that are no pairs", {"Attr", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x6a")}, "not a list of pairs"},
    {"compile info", {"CInf", BYTES("\x83\x68\x01")}, "chunk CInf"},
    {"meta", {"Meta", BYTES("\x83\x64")}, "chunk Meta"},
    {"debug info that is no term", {"Dbgi", BYTES("oops")}, "chunk Dbgi, byte 0: not a term"},
    {"checker that is no term", {"ExCk", BYTES("\x83\x68\x02")}, "chunk ExCk"},
    {"docs left empty", {"Docs", BYTES("")}, NULL},
};

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) expect(cases[i].name, &cases[i].part, cases[i].expected);
}

static void test_latin1_atoms(void **state) {
    (void)state;
    struct part parts[ARRAY_SIZE(minimal_parts)];
    memcpy(parts, minimal_parts, sizeof parts);
    parts[0] = (struct part){"Atom", BYTES("\0\0\0\x06\x02\xe9m\x01"
                                           "f\x06"
                                           "erlang\x04self\x01+\x01g")};
    CLEANUP_BUF struct buf file = BUF_INIT;
    build(&file, parts, NULL);
    CLEANUP_BEAM struct beam *beam = NULL;
    struct error error = {0};
    assert_int_equal(beam_read(file.data, file.size, &beam_default_options, &beam, &error), 0);
    assert_true(text_is(beam_module(beam), "ém"));
}

static void test_unloaded_terms_on_demand(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    struct error error;
    struct beam_options deep = beam_default_options;
    deep.check_unloaded = true;
    build(&file, minimal_parts, &(struct part){"Dbgi", BYTES("\x83\x68\x02\x6a")});
    assert_null(complaint(file.data, file.size, &beam_default_options, &error));
    assert_non_null(strstr(complaint(file.data, file.size, &deep, &error), "chunk Dbgi"));
}

static void test_bounds(void **state) {
    (void)state;
    CLEANUP_BUF struct buf file = BUF_INIT;
    struct error error;
    struct beam_options few = beam_default_options;
    few.max_terms = 2;
    build(&file, minimal_parts,
          &(struct part){"LitT", BYTES("\0\0\0\0\0\0\0\x01\0\0\0\x09\x83\x68\x03\x6a\x6a\x6a\0\0\0")});
    assert_non_null(complaint(file.data, file.size, &few, &error));
    assert_int_equal(error.code, E_TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_latin1_atoms),
        cmocka_unit_test(test_unloaded_terms_on_demand),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
