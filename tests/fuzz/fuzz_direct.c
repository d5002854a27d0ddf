/* Any bytes as a frame of a direct call: a question that is read can be written again and is read as the same one. */
#include <stdlib.h>

#include "fuzz/harness/fuzz.h"
#include "ops/direct.h"

static void check(bool holds) {
    if (!holds) abort();
}

/* The parameters are the caller's to release. */
static bool read_question(const uint8_t *frame, size_t size, struct direct_question *ret) {
    struct direct_text text;
    if (direct_split_question(frame, size, &text, NULL) < 0) return false;
    json_t *params = json_loadb((const char *)text.params, text.size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(params)) {
        json_decref(params);
        return false;
    }
    *ret = (struct direct_question){text.op, params, text.processor};
    return true;
}

static void check_again(const struct direct_question *question) {
    struct buf frame = BUF_INIT;
    struct direct_question again;
    size_t size;
    direct_put_question(&frame, question);
    check(!frame.failed && direct_is_whole(frame.data, frame.size, &size) && size == frame.size);
    check(read_question(frame.data, frame.size, &again));
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
    if (read_question(data, frame_size, &question)) check_again(&question);
    json_decref(question.params);
    if (direct_read_answer(data, frame_size, &status, &body, &body_size, NULL) == 0)
        check((const uint8_t *)body + body_size == data + frame_size);
}
