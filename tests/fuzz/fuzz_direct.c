/* Any bytes as a frame of a direct call: a question that is read can be written again and is read as the same one. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "ops/direct.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void check_again(const struct direct_question *question) {
    struct buf frame = BUF_INIT;
    struct direct_question again;
    size_t size;
    direct_put_question(&frame, question);
    check(!frame.failed && direct_is_whole(frame.data, frame.size, &size) && size == frame.size);
    check(direct_read_question(frame.data, frame.size, &again, NULL) == 0);
    check(again.op == question->op && again.processor == question->processor);
    check(json_equal(question->params, again.params));
    json_decref(again.params);
    buf_free(&frame);
}

void fuzz_one(const uint8_t *data, size_t size) {
    size_t frame_size;
    struct direct_question question = {.params = NULL};
    unsigned status;
    const char *body;
    size_t body_size;
    if (!direct_is_whole(data, size, &frame_size)) return;
    if (direct_read_question(data, frame_size, &question, NULL) == 0) check_again(&question);
    json_decref(question.params);
    if (direct_read_answer(data, frame_size, &status, &body, &body_size, NULL) == 0)
        check((const uint8_t *)body + body_size == data + frame_size);
}
