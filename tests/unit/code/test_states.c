/* Tests the states that a restart hands from one VM to the next, and bounds on what a node says about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../said.h"
#include "code/code.h"

static void assert_shown(const struct kept_states *states, const char *expected) {
    json_t *json = states_to_json(states);
    CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    assert_string_equal(text, expected);
}

static void arrive(struct kept_states *states, const struct term *started) {
    struct kept_states refused = {0};
    states_read_refused(started, &refused);
    states_arrived(states, &refused);
    states_free(&refused);
}

static void test_states_are_handed_on_as_they_came(void **state) {
    CLEANUP_TERM struct term_doc *snapshot = say(
        "{\"states\": [{\"term\": \"anything\"}, 7], \"lost\": [{\"path\": [\"a\", \"b\"], \"reason\": \"busy\"}]}");
    CLEANUP_TERM struct term_doc *started = say("{\"lost\": [{\"path\": [\"c\"], \"reason\": \"gone\"}]}");
    CLEANUP_TERM struct term_doc *asked = NULL;
    CLEANUP(buf_free) struct buf args = BUF_INIT;
    struct kept_states states = {0};
    (void)state;
    states_take(&states, term_root(snapshot));
    const uint8_t *list = states.list.data;
    struct term_map map = states_begin_args(&states, &args);
    assert_ptr_equal(args.data, list); /* it is not copied, nor is it to make room */
    term_map_text(&map, "app", NULL);
    term_map_end(&map);
    assert_ptr_equal(args.data, list);
    assert_int_equal(states.list.size, 0);
    CLEANUP(buf_free) struct buf message = BUF_INIT;
    term_put_version(&message);
    buf_append(&message, args.data, args.size);
    assert_int_equal(term_decode(message.data, message.size, &term_default_bounds, &asked, NULL), 0);
    assert_true(term_is_atom(term_map_get(term_root(asked), "app"), "nil"));
    assert_true(term_equal(term_map_get(term_root(asked), "states"), term_map_get(term_root(snapshot), "states")));
    assert_shown(&states,
                 "{\"kept\":2,\"lost\":[{\"path\":\"a/b\",\"reason\":\"busy\"}],\"lost_count\":1,\"fresh\":null}");
    arrive(&states, term_root(started));
    assert_shown(&states, "{\"kept\":1,\"lost\":[{\"path\":\"a/b\",\"reason\":\"busy\"},{\"path\":\"c\",\"reason\":"
                          "\"gone\"}],\"lost_count\":2,\"fresh\":null}");
    states_free(&states);
}

/* Whatever a node says, nothing but bounded texts comes of it. */
static void test_nonsense_is_no_state(void **state) {
    static const char *const words[] = {"7", "{}", "{\"states\": 7, \"lost\": \"all\"}",
                                        "{\"states\": [], \"lost\": []}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        CLEANUP_TERM struct term_doc *doc = say(words[i]);
        struct kept_states states = {0};
        states_take(&states, term_root(doc));
        assert_int_equal(states.count, 0);
        arrive(&states, term_root(doc));
        assert_shown(&states, "{\"kept\":0,\"lost\":[],\"lost_count\":0,\"fresh\":null}");
        states_free(&states);
    }
    CLEANUP_TERM struct term_doc *doc =
        say("{\"states\": [1], \"lost\": [7, {\"path\": [3, \"x\"]}, {\"path\": \"y\"}]}");
    struct kept_states states = {0};
    states_take(&states, term_root(doc));
    arrive(&states, term_root(doc)); /* it refuses more than it was given */
    assert_int_equal(states.count, 0);
    assert_int_equal(states.lost_count, 6);
    states_free(&states);
}

static void test_long_lists_are_cut(void **state) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    (void)state;
    buf_append_string(&text, "{\"lost\": [0");
    for (int i = 1; i < 1000; i++) buf_printf(&text, ", {\"path\": [\"%d\"]}", i);
    buf_append_string(&text, "]}");
    CLEANUP_TERM struct term_doc *doc = say(buf_string(&text));
    struct kept_states states = {0};
    states_take(&states, term_root(doc));
    arrive(&states, term_root(doc));
    assert_int_equal(json_array_size(states.lost), 256);
    assert_int_equal(states.lost_count, 2000);
    states_free(&states);
}

/* A path is a few names, whatever a node says: told for each of them, it would take a fifth of a second. */
static void test_long_paths_are_cut(void **state) {
    enum { NAMES = 10000 };
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    (void)state;
    buf_append_string(&text, "{\"lost\": [{\"path\": [\"a\"");
    for (int i = 1; i < NAMES; i++) buf_append_string(&text, i < NAMES / 2 ? ", 7" : ", \"a\"");
    buf_append_string(&text, "]}]}");
    CLEANUP_TERM struct term_doc *doc = say(buf_string(&text));
    struct kept_states states = {0};
    states_take(&states, term_root(doc));
    assert_shown(&states, "{\"kept\":0,\"lost\":[{\"path\":\"a\",\"reason\":null}],\"lost_count\":1,\"fresh\":null}");
    states_free(&states);
}

static void test_what_is_too_large_is_not_kept(void **state) {
    enum { BYTES = 17 << 20 };
    struct term binary = {.type = TERM_BINARY}, list = {.type = TERM_LIST}, nil = {.type = TERM_NIL};
    struct term key = {.type = TERM_ATOM}, map = {.type = TERM_MAP};
    struct kept_states states = {0};
    (void)state;
    CLEANUP_FREE uint8_t *bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    binary.binary.data = bytes;
    binary.binary.size = BYTES;
    binary.binary.last_bits = 8;
    list.items.elements = &binary;
    list.items.count = 1;
    list.items.tail = &nil;
    key.atom.text = "states";
    key.atom.length = strlen("states");
    const struct term pair[] = {key, list};
    map.items.elements = pair;
    map.items.count = 1;
    states_take(&states, &map);
    assert_int_equal(states.count, 0);
    assert_shown(&states, "{\"kept\":0,\"lost\":[],\"lost_count\":0,\"fresh\":\"the states have more than 16 MiB\"}");
    states_free(&states);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_are_handed_on_as_they_came),
        cmocka_unit_test(test_nonsense_is_no_state),
        cmocka_unit_test(test_long_lists_are_cut),
        cmocka_unit_test(test_long_paths_are_cut),
        cmocka_unit_test(test_what_is_too_large_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
