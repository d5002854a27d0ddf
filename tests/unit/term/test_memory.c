/* Every allocation fails once: each failure is reported and leaves nothing behind (which a sanitizer checks). */
#include "../failing_memory.h"
#include "term_test.h"

/* Decode, write, print and copy; the error of the first that fails. */
static enum error_code use(const char *bytes, size_t size) {
    struct error error = {0};
    struct buf buf = BUF_INIT;
    CLEANUP_TERM struct term_doc *doc = NULL;
    CLEANUP_FREE char *string = NULL;
    if (term_decode((const uint8_t *)bytes, size, &term_default_bounds, &doc, &error) < 0) return error.code;
    int result = term_put(&buf, term_root(doc), &error);
    buf_free(&buf);
    if (result < 0) return error.code;
    term_print(&buf, term_root(doc), TERM_ELIXIR, SIZE_MAX);
    bool printed = !buf.failed;
    buf_free(&buf);
    if (!printed) return E_NO_MEMORY;
    bool text = term_root(doc)->type == TERM_BINARY || term_root(doc)->type == TERM_ATOM;
    return !text || term_to_string(term_root(doc), &string) ? E_NONE : E_NO_MEMORY;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(every_tag); i++) {
        enum error_code code = E_NO_MEMORY;
        int limit = 0;
        for (; code != E_NONE; limit++) {
            allocations_left = limit;
            code = use(every_tag[i].bytes, every_tag[i].size);
            allocations_left = -1;
            if (code != E_NONE && code != E_NO_MEMORY) fail_msg("%s", every_tag[i].name);
        }
        assert_true(limit > 3); /* something did fail before it worked */
    }
}

/* jansson allocates in a library of its own, so it is given the wrapped functions. */
static void test_json_may_fail(void **state) {
    (void)state;
    static const struct sample samples[] = {
        {"map", BYTES("\x83\x74\0\0\0\x02\x77\x01"
                      "a\x68\x01\x6a\x77\x01"
                      "b\x4d\0\0\0\x01\x03\xa0")},
        {"pairs", BYTES("\x83\x74\0\0\0\x02\x61\x01\x6d\0\0\0\x01\xff\x61\x02\x6b\0\x02hi")},
        {"big", BYTES("\x83\x6e\x09\0\0\0\0\0\0\0\0\0\1")},
        {"list", BYTES("\x83\x6c\0\0\0\x02\x6a\x77\x01x\x6a")},
    };
    json_set_alloc_funcs(__wrap_malloc, free);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        CLEANUP_TERM struct term_doc *doc = must_decode(samples[i].bytes, samples[i].size);
        json_t *json = NULL;
        int limit = 0;
        for (; !json; limit++) {
            bool natural = true;
            allocations_left = limit;
            json = term_to_json(term_root(doc), &natural);
            allocations_left = -1;
            assert_true(limit < 1000);
        }
        assert_true(limit > 1);
        json_decref(json);
    }
    json_set_alloc_funcs(malloc, free);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_json_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
