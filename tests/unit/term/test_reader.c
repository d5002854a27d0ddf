/* Tests the decoder of the external term format: every tag, every truncation, lengths that lie, and its bounds. */
#include "term_test.h"

#include <zlib.h>

static void test_every_tag_decodes_to_its_type(void **state) {
    (void)state;
    static const enum term_type types[] = {
        TERM_INTEGER,   TERM_INTEGER,   TERM_BIG,       TERM_BIG,       TERM_FLOAT,  TERM_FLOAT, TERM_ATOM,   TERM_ATOM,
        TERM_ATOM,      TERM_ATOM,      TERM_BINARY,    TERM_BITSTRING, TERM_NIL,    TERM_LIST,  TERM_LIST,   TERM_LIST,
        TERM_TUPLE,     TERM_TUPLE,     TERM_MAP,       TERM_PID,       TERM_PID,    TERM_PORT,  TERM_PORT,   TERM_PORT,
        TERM_REFERENCE, TERM_REFERENCE, TERM_REFERENCE, TERM_FUN,       TERM_EXPORT, TERM_TUPLE, TERM_RECORD,
    };
    assert_int_equal(ARRAY_SIZE(types), ARRAY_SIZE(every_tag));
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) {
        CLEANUP_TERM struct term_doc *doc = must_decode(every_tag[i].bytes, every_tag[i].size);
        if (term_root(doc)->type != types[i]) fail_msg("%s", every_tag[i].name);
    }
}

static void test_every_truncation_fails(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++)
        for (size_t size = 0; size < every_tag[i].size; size++)
            if (decode_error(every_tag[i].bytes, size, NULL) != E_FORMAT)
                fail_msg("%s at %zu", every_tag[i].name, size);
}

static void test_trailing_bytes_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) {
        char longer[128];
        assert_true(every_tag[i].size < sizeof longer);
        memcpy(longer, every_tag[i].bytes, every_tag[i].size);
        longer[every_tag[i].size] = 106;
        if (decode_error(longer, every_tag[i].size + 1, NULL) != E_FORMAT) fail_msg("%s", every_tag[i].name);
    }
}

static void test_unknown_tags_are_too_new(void **state) {
    (void)state;
    unsigned refused = 0;
    for (int tag = 0; tag < 256; tag++) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) known |= (uint8_t)every_tag[i].bytes[1] == tag;
        char bytes[64] = {'\x83', (char)tag};
        if (known) continue;
        assert_int_equal(decode_error(bytes, sizeof bytes, NULL), E_TOO_NEW);
        refused++;
    }
    assert_int_equal(refused, 256 - 30);
}

static void test_numbers_have_their_values(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int64_t value;
    } integers[] = {
        {BYTES("\x83\x61\xff"), 255},
        {BYTES("\x83\x62\x80\0\0\0"), INT32_MIN},
        {BYTES("\x83\x6e\0\0"), 0},
        {BYTES("\x83\x6e\0\x01"), 0},
        {BYTES("\x83\x6e\x03\x01\x02\0\0"), -2},
        {BYTES("\x83\x6e\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f"), INT64_MAX},
        {BYTES("\x83\x6e\x08\x01\0\0\0\0\0\0\0\x80"), INT64_MIN},
        {BYTES("\x83\x6f\0\0\0\x02\0\x01\x01"), 257},
    };
    for (size_t i = 0; i < ARRAY_SIZE(integers); i++) {
        CLEANUP_TERM struct term_doc *doc = must_decode(integers[i].bytes, integers[i].size);
        assert_int_equal(term_root(doc)->type, TERM_INTEGER);
        assert_true(term_root(doc)->integer == integers[i].value);
    }
    CLEANUP_TERM struct term_doc *past = must_decode(BYTES("\x83\x6e\x0a\x01\x01\0\0\0\0\0\0\x80\0\0"));
    assert_int_equal(term_root(past)->type, TERM_BIG);
    assert_int_equal(term_root(past)->big.size, 8);
    assert_true(term_root(past)->big.negative);
}

static void test_bad_numbers_are_refused(void **state) {
    (void)state;
    static const struct sample bad[] = {
        {"sign", BYTES("\x83\x6e\x01\x02\x05")},
        {"infinity", BYTES("\x83\x46\x7f\xf0\0\0\0\0\0\0")},
        {"nan", BYTES("\x83\x46\x7f\xf8\0\0\0\0\0\x01")},
        {"old nan", BYTES("\x83\x63nan\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
        {"old infinite", BYTES("\x83\x63"
                               "9e999\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
        {"old space", BYTES("\x83\x63 1.0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
        {"old empty", BYTES("\x83\x63\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
        {"old rest", BYTES("\x83\x63"
                           "1.0e+-\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (decode_error(bad[i].bytes, bad[i].size, NULL) != E_FORMAT) fail_msg("%s", bad[i].name);
}

static void test_atoms_become_utf8(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *latin1 = must_decode(BYTES("\x83\x64\0\x02\xe9"
                                                             "a"));
    CLEANUP_TERM struct term_doc *utf8 = must_decode(BYTES("\x83\x77\x03\xc3\xa9"
                                                           "a"));
    assert_string_equal(term_root(latin1)->atom.text, "éa");
    assert_int_equal(term_root(latin1)->atom.length, 3);
    assert_true(term_equal(term_root(latin1), term_root(utf8)));
    assert_int_equal(decode_error(BYTES("\x83\x77\x02\xc3("), NULL), E_FORMAT);
}

static void test_an_atom_has_at_most_255_characters(void **state) {
    (void)state;
    char bytes[4 + 2 * 256] = "\x83\x76";
    for (int i = 0; i < 256; i++) memcpy(bytes + 4 + 2 * i, "é", 2);
    bytes[2] = 1, bytes[3] = (char)0xFE;
    assert_int_equal(decode_error(bytes, 4 + 2 * 255, NULL), E_NONE);
    bytes[2] = 2, bytes[3] = 0;
    assert_int_equal(decode_error(bytes, 4 + 2 * 256, NULL), E_FORMAT);
}

static void test_bit_strings_know_their_end(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *bits = must_decode(BYTES("\x83\x4d\0\0\0\x02\x03\x01\xff"));
    assert_int_equal(term_root(bits)->binary.last_bits, 3);
    assert_int_equal(term_root(bits)->binary.data[1], 0xE0);
    CLEANUP_TERM struct term_doc *whole = must_decode(BYTES("\x83\x4d\0\0\0\x01\x08\xff"));
    assert_int_equal(term_root(whole)->type, TERM_BINARY);
    CLEANUP_TERM struct term_doc *empty = must_decode(BYTES("\x83\x4d\0\0\0\0\0"));
    assert_int_equal(term_root(empty)->type, TERM_BINARY);
    assert_int_equal(decode_error(BYTES("\x83\x4d\0\0\0\x01\x09\xff"), NULL), E_FORMAT);
    assert_int_equal(decode_error(BYTES("\x83\x4d\0\0\0\x01\0\xff"), NULL), E_FORMAT);
    assert_int_equal(decode_error(BYTES("\x83\x4d\0\0\0\0\x03"), NULL), E_FORMAT);
}

static void test_lists_have_one_form(void **state) {
    (void)state;
    static const struct sample same[] = {
        {"list", BYTES("\x83\x6c\0\0\0\x03\x61\x01\x61\x02\x61\x03\x6a")},
        {"string", BYTES("\x83\x6b\0\x03\x01\x02\x03")},
        {"list in the tail", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x6c\0\0\0\x02\x61\x02\x61\x03\x6a")},
        {"string in the tail", BYTES("\x83\x6c\0\0\0\x01\x61\x01\x6b\0\x02\x02\x03")},
        {"no elements", BYTES("\x83\x6c\0\0\0\0\x6b\0\x03\x01\x02\x03")},
    };
    CLEANUP_TERM struct term_doc *first = must_decode(same[0].bytes, same[0].size);
    assert_int_equal(term_root(first)->items.count, 3);
    for (size_t i = 1; i < ARRAY_SIZE(same); i++) {
        CLEANUP_TERM struct term_doc *other = must_decode(same[i].bytes, same[i].size);
        if (!term_equal(term_root(first), term_root(other))) fail_msg("%s", same[i].name);
    }
    CLEANUP_TERM struct term_doc *empty = must_decode(BYTES("\x83\x6b\0\0"));
    assert_int_equal(term_root(empty)->type, TERM_NIL);
    CLEANUP_TERM struct term_doc *improper = must_decode(BYTES("\x83\x6c\0\0\0\x01\x61\x01\x61\x02"));
    assert_int_equal(term_root(improper)->items.tail->integer, 2);
}

static void test_a_key_may_come_once(void **state) {
    (void)state;
    static const struct sample twice[] = {
        {"integer", BYTES("\x83\x74\0\0\0\x02\x61\x01\x6a\x61\x01\x6a")},
        {"two forms of an integer", BYTES("\x83\x74\0\0\0\x02\x61\x01\x6a\x6e\x01\0\x01\x6a")},
        {"two forms of an atom", BYTES("\x83\x74\0\0\0\x02\x73\x01x\x6a\x77\x01x\x6a")},
        {"two orders of a map", BYTES("\x83\x74\0\0\0\x02"
                                      "\x74\0\0\0\x02\x61\x01\x6a\x61\x02\x6a\x6a"
                                      "\x74\0\0\0\x02\x61\x02\x6a\x61\x01\x6a\x6a")},
        {"not neighbours", BYTES("\x83\x74\0\0\0\x03\x61\x01\x6a\x61\x02\x6a\x61\x01\x6a")},
    };
    for (size_t i = 0; i < ARRAY_SIZE(twice); i++)
        if (decode_error(twice[i].bytes, twice[i].size, NULL) != E_FORMAT) fail_msg("%s", twice[i].name);
    /* 1 and 1.0, 0.0 and -0.0 are different keys. */
    assert_int_equal(decode_error(BYTES("\x83\x74\0\0\0\x02\x61\x01\x6a\x46\x3f\xf0\0\0\0\0\0\0\x6a"), NULL), E_NONE);
    assert_int_equal(decode_error(BYTES("\x83\x74\0\0\0\x02\x46\0\0\0\0\0\0\0\0\x6a\x46\x80\0\0\0\0\0\0\0\x6a"), NULL),
                     E_NONE);
}

static void test_identifiers_keep_their_parts(void **state) {
    (void)state;
    CLEANUP_TERM struct term_doc *pid = must_decode(every_tag[20].bytes, every_tag[20].size);
    const struct term_identifier *identifier = term_root(pid)->identifier;
    assert_string_equal(identifier->node->atom.text, "a@b");
    assert_int_equal(identifier->id, 5);
    assert_int_equal(identifier->serial, 6);
    assert_int_equal(identifier->creation, 7);
    CLEANUP_TERM struct term_doc *port = must_decode(every_tag[23].bytes, every_tag[23].size);
    assert_true(term_root(port)->identifier->id == 0x100000005);
    CLEANUP_TERM struct term_doc *reference = must_decode(every_tag[26].bytes, every_tag[26].size);
    assert_int_equal(term_root(reference)->identifier->word_count, 3);
    assert_int_equal(term_root(reference)->identifier->words[2], 3);
    /* A node must be an atom; a reference has one to five words. */
    assert_int_equal(decode_error(BYTES("\x83\x58\x61\x01\0\0\0\x05\0\0\0\x06\0\0\0\x07"), NULL), E_FORMAT);
    assert_int_equal(decode_error(BYTES("\x83\x5a\0\0\x77\x01"
                                        "a\0\0\0\x07"),
                                  NULL),
                     E_FORMAT);
    assert_int_equal(decode_error(BYTES("\x83\x5a\0\x06\x77\x01"
                                        "a\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
                                  NULL),
                     E_FORMAT);
}

static void test_functions_keep_their_parts(void **state) {
    (void)state;
    const struct sample *sample = &every_tag[27];
    CLEANUP_TERM struct term_doc *closure = must_decode(sample->bytes, sample->size);
    const struct term_fun *fun = term_root(closure)->fun;
    assert_string_equal(fun->module->atom.text, "m");
    assert_int_equal(fun->arity, 2);
    assert_int_equal(fun->index, 4);
    assert_int_equal(fun->old_index, 9);
    assert_int_equal(fun->old_unique, 10);
    assert_int_equal(fun->raw_size, sample->size - 1);
    assert_memory_equal(fun->raw, sample->bytes + 1, fun->raw_size);
    /* A size that is one too small or too large is a lie. */
    for (int lie = -1; lie <= 1; lie += 2) {
        char bytes[128];
        memcpy(bytes, sample->bytes, sample->size);
        bytes[5] = (char)(bytes[5] + lie);
        assert_int_equal(decode_error(bytes, sample->size, NULL), E_FORMAT);
    }
    assert_int_equal(decode_error(BYTES("\x83\x71\x77\x01m\x77\x01"
                                        "f\x62\0\0\x01\0"),
                                  NULL),
                     E_FORMAT);
    assert_int_equal(decode_error(BYTES("\x83\x71\x77\x01m\x77\x01"
                                        "f\x77\x01x"),
                                  NULL),
                     E_FORMAT);
}

static void test_lying_lengths_are_refused(void **state) {
    (void)state;
    static const struct sample lies[] = {
        {"list", BYTES("\x83\x6c\xff\xff\xff\xff\x61\x01\x6a")},
        {"tuple", BYTES("\x83\x69\xff\xff\xff\xff\x61\x01\x6a")},
        {"map", BYTES("\x83\x74\xff\xff\xff\xff\x61\x01\x6a")},
        {"binary", BYTES("\x83\x6d\xff\xff\xff\xffxxxx")},
        {"big", BYTES("\x83\x6f\xff\xff\xff\xff\0\1\1\1")},
        {"two tuples that both want the rest", BYTES("\x83\x68\x03\x68\x03\x6a\x6a\x6a\x6a")},
        {"a binary that takes what is owed", BYTES("\x83\x68\x02\x6d\0\0\0\x01x")},
    };
    for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
        if (decode_error(lies[i].bytes, lies[i].size, NULL) != E_FORMAT) fail_msg("%s", lies[i].name);
}

static void test_depth_is_bounded(void **state) {
    (void)state;
    enum { LEVELS = 100000 };
    struct buf bomb = BUF_INIT;
    term_put_version(&bomb);
    for (int i = 0; i < LEVELS; i++) term_put_tuple(&bomb, 1);
    term_put_nil(&bomb);
    const struct term_bounds deepest = {1 << 20, 1 << 20, UINT32_MAX};
    assert_int_equal(decode_error((char *)bomb.data, bomb.size, NULL), E_TOO_LARGE);
    assert_int_equal(decode_error((char *)bomb.data, bomb.size, &deepest), E_TOO_LARGE);
    buf_free(&bomb);
    /* The bound itself is fine: two levels. */
    const struct term_bounds two = {100, 100, 2};
    assert_int_equal(decode_error(BYTES("\x83\x68\x01\x6a"), &two), E_NONE);
    assert_int_equal(decode_error(BYTES("\x83\x68\x01\x68\x01\x6a"), &two), E_TOO_LARGE);
}

static void test_terms_and_bytes_are_bounded(void **state) {
    (void)state;
    const struct term_bounds four_terms = {100, 4, 10};
    assert_int_equal(decode_error(BYTES("\x83\x6b\0\x03"
                                        "abc"),
                                  &four_terms),
                     E_NONE);
    assert_int_equal(decode_error(BYTES("\x83\x6b\0\x04"
                                        "abcd"),
                                  &four_terms),
                     E_TOO_LARGE);
    assert_int_equal(decode_error(BYTES("\x83\x68\x04\x6a\x6a\x6a\x6a"), &four_terms), E_TOO_LARGE);
    const struct term_bounds five_bytes = {5, 10, 10};
    assert_int_equal(decode_error(BYTES("\x83\x68\x02\x6a\x6a"), &five_bytes), E_NONE);
    assert_int_equal(decode_error(BYTES("\x83\x68\x03\x6a\x6a\x6a"), &five_bytes), E_TOO_LARGE);
}

/* Lists in tails are copied together, which their sender pays for. */
static void test_chained_lists_are_bounded(void **state) {
    (void)state;
    struct buf chain = BUF_INIT;
    term_put_version(&chain);
    for (int i = 0; i < 500; i++) {
        term_put_list(&chain, 1);
        term_put_integer(&chain, i);
    }
    term_put_nil(&chain);
    const struct term_bounds bounds = {1 << 20, 2000, 512};
    assert_int_equal(decode_error((char *)chain.data, chain.size, NULL), E_NONE);
    assert_int_equal(decode_error((char *)chain.data, chain.size, &bounds), E_TOO_LARGE);
    buf_free(&chain);
}

/* Version, tag, the size announced, and payload deflated. */
static size_t pack(const uint8_t *payload, size_t size, uint32_t announced, uint8_t *ret, size_t capacity) {
    uLongf packed = capacity - 6;
    assert_int_equal(compress(ret + 6, &packed, payload, size), Z_OK);
    memcpy(ret, "\x83\x50", 2);
    for (int i = 0; i < 4; i++) ret[2 + i] = (uint8_t)(announced >> (24 - 8 * i));
    return packed + 6;
}

static void test_compressed_terms_are_as_announced(void **state) {
    (void)state;
    static const uint8_t payload[] = "\x6b\0\x03"
                                     "abc";
    const uint32_t size = sizeof payload - 1;
    uint8_t packed[64];
    size_t packed_size = pack(payload, size, size, packed, sizeof packed);
    assert_int_equal(decode_error((char *)packed, packed_size, NULL), E_NONE);
    packed[packed_size] = 0;
    assert_int_equal(decode_error((char *)packed, packed_size + 1, NULL), E_FORMAT);
    packed[packed_size - 1] ^= 1; /* the checksum */
    assert_int_equal(decode_error((char *)packed, packed_size, NULL), E_FORMAT);
    for (uint32_t wrong = 0; wrong < 12; wrong++) {
        packed_size = pack(payload, size, wrong, packed, sizeof packed);
        assert_int_equal(decode_error((char *)packed, packed_size, NULL), wrong == size ? E_NONE : E_FORMAT);
    }
    /* Compressed within a term, or twice, no VM sends. */
    assert_int_equal(decode_error(BYTES("\x83\x68\x01\x50\0\0\0\x01\0"), NULL), E_FORMAT);
}

static void test_bombs_do_not_inflate(void **state) {
    (void)state;
    enum { INFLATED = 1 << 20 };
    CLEANUP_FREE uint8_t *payload = calloc(1, INFLATED);
    uint8_t packed[4096];
    assert_non_null(payload);
    size_t packed_size = pack(payload, INFLATED, INFLATED, packed, sizeof packed);
    const struct term_bounds small = {INFLATED - 1, 1000, 10};
    assert_int_equal(decode_error((char *)packed, packed_size, &small), E_TOO_LARGE);
    /* Within the bounds, but more than so few bytes can hold. */
    assert_int_equal(decode_error(BYTES("\x83\x50\x03\0\0\0\x78\x01\x01\x05"), NULL), E_FORMAT);
}

static void test_errors_say_where(void **state) {
    (void)state;
    struct term_doc *doc = NULL;
    struct error error = {0};
    assert_true(term_decode((const uint8_t *)"\x83\x68\x02\x61\x01\xff", 6, &term_default_bounds, &doc, &error) < 0);
    assert_string_equal(error.detail, "an unknown tag (255) at byte 5 of a term");
    assert_true(term_decode((const uint8_t *)"\x82", 1, &term_default_bounds, &doc, NULL) < 0);
    assert_null(term_free(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tag_decodes_to_its_type),
        cmocka_unit_test(test_every_truncation_fails),
        cmocka_unit_test(test_trailing_bytes_are_refused),
        cmocka_unit_test(test_unknown_tags_are_too_new),
        cmocka_unit_test(test_numbers_have_their_values),
        cmocka_unit_test(test_bad_numbers_are_refused),
        cmocka_unit_test(test_atoms_become_utf8),
        cmocka_unit_test(test_an_atom_has_at_most_255_characters),
        cmocka_unit_test(test_bit_strings_know_their_end),
        cmocka_unit_test(test_lists_have_one_form),
        cmocka_unit_test(test_a_key_may_come_once),
        cmocka_unit_test(test_identifiers_keep_their_parts),
        cmocka_unit_test(test_functions_keep_their_parts),
        cmocka_unit_test(test_lying_lengths_are_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_terms_and_bytes_are_bounded),
        cmocka_unit_test(test_chained_lists_are_bounded),
        cmocka_unit_test(test_compressed_terms_are_as_announced),
        cmocka_unit_test(test_bombs_do_not_inflate),
        cmocka_unit_test(test_errors_say_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
