/* Any bytes as a frame of a direct call: a question that is read can be written again and is read as the same one. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "ops/direct.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void check_again(const struct op *op, const json_t *params) {
    struct buf frame = BUF_INIT;
    const struct op *op_again = NULL;
    json_t *params_again = NULL;
    size_t size;
    direct_put_question(&frame, op, params);
    check(!frame.failed && direct_is_whole(frame.data, frame.size, &size) && size == frame.size);
    check(direct_read_question(frame.data, frame.size, &op_again, &params_again, NULL) == 0);
    check(op_again == op && json_equal(params, params_again));
    json_decref(params_again);
    buf_free(&frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t frame_size;
    const struct op *op = NULL;
    json_t *params = NULL;
    unsigned status;
    const char *body;
    size_t body_size;
    if (!direct_is_whole(data, size, &frame_size)) return 0;
    if (direct_read_question(data, frame_size, &op, &params, NULL) == 0) check_again(op, params);
    json_decref(params);
    if (direct_read_answer(data, frame_size, &status, &body, &body_size, NULL) == 0)
        check((const uint8_t *)body + body_size == data + frame_size);
    return 0;
}
