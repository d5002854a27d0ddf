/* Tests the writer that counts a map's pairs: the count is right, also of a map in a map and of one that was moved. */
#include "term_test.h"

static void pairs_are_counted(void **state) {
    (void)state;
    struct buf buf = BUF_INIT;
    struct term_map map = term_map_begin(&buf);
    term_map_text(&map, "t", "x");
    term_map_text(&map, "n", NULL);
    term_map_bytes(&map, "b", "\0\xff", 2);
    term_map_bytes(&map, "m", NULL, 0);
    term_map_atom(&map, "a", "ok");
    term_map_number(&map, "u", 300);
    term_map_bool(&map, "f", true);
    term_map_end(&map);
    static const char bytes[] = "\x74\0\0\0\x07"
                                "\x77\x01t\x6d\0\0\0\x01x"
                                "\x77\x01n\x77\x03nil"
                                "\x77\x01"
                                "b\x6d\0\0\0\x02\0\xff"
                                "\x77\x01m\x77\x03nil"
                                "\x77\x01"
                                "a\x77\x02ok"
                                "\x77\x01u\x62\0\0\x01\x2c"
                                "\x77\x01"
                                "f\x77\x04true";
    assert_int_equal(buf.size, sizeof bytes - 1);
    assert_memory_equal(buf.data, bytes, buf.size);
    buf_free(&buf);
}

static void maps_nest_and_move(void **state) {
    (void)state;
    struct buf first = BUF_INIT;
    CLEANUP(buf_free) struct buf moved = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    term_put_version(&first);
    struct term_map outer = term_map_begin(&first);
    struct term_map inner = term_map_begin(term_map_key(&outer, "inner"));
    for (int i = 0; i < 300; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        term_map_number(&inner, key, (uint64_t)i);
    }
    term_map_end(&inner);
    moved = first;
    outer.buf = &moved;
    term_map_bool(&outer, "after", false);
    term_map_end(&outer);
    assert_int_equal(term_decode(moved.data, moved.size, &term_default_bounds, &doc, NULL), 0);
    assert_int_equal(term_root(doc)->items.count, 2);
    assert_int_equal(term_map_get(term_root(doc), "inner")->items.count, 300);
    assert_true(term_is_atom(term_map_get(term_root(doc), "after"), "false"));
}

/* A buffer without room stays failed, and is not written to where the map would begin. */
static void a_full_buffer_is_left_alone(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf buf = {.max = 3};
    struct term_map map = term_map_begin(&buf);
    term_map_text(&map, "key", "text");
    term_map_end(&map);
    assert_true(buf.failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_counted),
        cmocka_unit_test(maps_nest_and_move),
        cmocka_unit_test(a_full_buffer_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
