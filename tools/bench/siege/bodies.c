/* Request bodies just under the service's bound of 4 MiB, which differ in what they cost to parse. All but the last
   byte of each is sent first, then all last bytes together, so that the service has everything to do at once. */
#include <stdlib.h>
#include <string.h>

#include "siege.h"

enum {
    BODY_MAX_BYTES = 4 << 20,
    KEYS = 300000,
    ELEMENTS = 1900000,
    TEXT_BYTES = 3800000,
    BRACKETS = 2000000,
    LEVELS = 200,
    KEYS_A_LEVEL = 1400,
    CONNECTIONS_MAX = 128,
};

/* The sandbox need not exist: what is measured comes before that is looked at. */
#define PATH "/api/v1/sandboxes/nothing/eval"

static void repeat(struct buf *to, const char *text, size_t times) {
    for (size_t i = 0; i < times; i++) buf_append_string(to, text);
}

static void put_keys(struct buf *to) {
    char pair[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(pair, sizeof pair, "%c\"k%d\":0", i ? ',' : '{', i);
        buf_append_string(to, pair);
    }
    buf_append_string(to, "}");
}

static void put_elements(struct buf *to) {
    buf_append_string(to, "{\"code\":[0");
    repeat(to, ",0", ELEMENTS - 1);
    buf_append_string(to, "]}");
}

static void put_code(struct buf *to) {
    buf_append_string(to, "{\"code\":\"1");
    repeat(to, "+1", TEXT_BYTES / 2);
    buf_append_string(to, "\"}");
}

static void put_brackets(struct buf *to) {
    buf_append_string(to, "{\"code\":");
    repeat(to, "[", BRACKETS);
    repeat(to, "]", BRACKETS);
    buf_append_string(to, "}");
}

static void put_nested(struct buf *to) {
    char pair[32];
    for (int level = 0; level < LEVELS; level++) {
        buf_append_string(to, "{");
        for (int i = 0; i < KEYS_A_LEVEL; i++) {
            snprintf(pair, sizeof pair, "\"k%d\":[],", i);
            buf_append_string(to, pair);
        }
        buf_append_string(to, "\"k\":");
    }
    buf_append_string(to, "0");
    repeat(to, "}", LEVELS);
}

static void put_escapes(struct buf *to) {
    buf_append_string(to, "{\"code\":\"");
    repeat(to, "\\u0001", TEXT_BYTES / 6);
    buf_append_string(to, "\"}");
}

static const struct kind {
    const char *name;
    void (*put)(struct buf *to);
} kinds[] = {{"keys", put_keys},         {"elements", put_elements}, {"code", put_code},
             {"brackets", put_brackets}, {"nested", put_nested},     {"escapes", put_escapes}};

bool bodies_prepare(struct crew *crew) {
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, crew->attack->text) == 0) kinds[i].put(&crew->body);
    return crew->body.size > 0 && crew->body.size < BODY_MAX_BYTES;
}

void bodies_volley(struct crew *crew) {
    int fds[CONNECTIONS_MAX];
    unsigned count = crew->attack->count;
    for (unsigned i = 0; i < count; i++) {
        fds[i] = crew_dial(crew);
        if (fds[i] >= 0 && !crew_request(fds[i], "POST", PATH, &crew->body, 1)) fds[i] = fd_close(fds[i]);
    }
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0) crew_send(fds[i], crew->body.data + crew->body.size - 1, 1);
    for (unsigned i = 0; i < count; i++) {
        if (fds[i] < 0 || !crew_await_answer(fds[i])) crew->stage->refused++;
        fd_close(fds[i]);
    }
}
