/* Any text at all: what parses as a message of the launcher's socket must say the same when it is written again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/harness/fuzz.h"
#include "jail/wire.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void write_again(const struct wire_message *message, struct buf *ret) {
    wire_put_word(ret, message->verb);
    for (size_t i = 0; i < message->count; i++) {
        buf_append_byte(ret, ' ');
        wire_put_word(ret, message->words[i]);
    }
    buf_append_byte(ret, '\n');
    buf_append_string(ret, message->body);
    buf_string(ret);
    check(!ret->failed);
}

static void check_same(const struct wire_message *a, const struct wire_message *b) {
    check(strcmp(a->verb, b->verb) == 0 && a->count == b->count && strcmp(a->body, b->body) == 0);
    for (size_t i = 0; i < a->count; i++) check(strcmp(a->words[i], b->words[i]) == 0);
    check(string_equal(wire_message_value(a, "pid"), wire_message_value(b, "pid")));
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct wire_message message = {0}, again = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP_FREE char *copy = strndup((const char *)data, size);
    if (!copy || wire_message_parse(copy, &message, NULL) < 0) return;
    write_again(&message, &text);
    check(wire_message_parse((char *)text.data, &again, NULL) == 0);
    check_same(&message, &again);
}
