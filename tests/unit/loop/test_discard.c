/* What is large is freed on another thread than the loop's, and before the loop ends. */
#include "loop_test.h"

struct large {
    uv_thread_t freed_by;
    bool is_freed;
};

static void release(void *value) {
    struct large *large = value;
    large->freed_by = uv_thread_self();
    large->is_freed = true;
}

static void another_thread_frees_it(void **state) {
    (void)state;
    uv_loop_t loop = {0}; /* libuv leaves its data as they are */
    struct large large[8] = {0};
    uv_thread_t self = uv_thread_self();
    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < ARRAY_SIZE(large); i++) loop_discard(&loop, release, &large[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
        assert_true(large[i].is_freed);
        assert_false(uv_thread_equal(&large[i].freed_by, &self));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_thread_frees_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
