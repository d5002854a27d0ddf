/* An engine without its store and launcher: a loop, a map of sandboxes, a feed, and answers. */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"

struct stage {
    uv_loop_t loop;
    struct engine engine;
    struct buf story; /* what happened, in order */
};

static inline int stage_setup(void **state) {
    struct stage *stage = calloc(1, sizeof *stage);
    assert_int_equal(uv_loop_init(&stage->loop), 0);
    stage->engine.loop = &stage->loop;
    answers_init(&stage->engine.answers);
    uv_idle_init(&stage->loop, &stage->engine.answer_idle);
    stage->engine.answer_idle.data = &stage->engine;
    feed_pump_open(&stage->engine);
    *state = stage;
    return 0;
}

static inline int stage_teardown(void **state) {
    struct stage *stage = *state;
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&stage->engine.answer_idle, NULL);
    feed_pump_close(&stage->engine, NULL);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage->loop), 0);
    assert_int_equal(stage->engine.closing.open_parts, 0);
    map_free(&stage->engine.sandboxes);
    buf_free(&stage->story);
    free(stage);
    return 0;
}

static inline void stage_expect(struct stage *stage, const char *story) {
    assert_string_equal(buf_string(&stage->story), story);
    buf_clear(&stage->story);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

#endif
