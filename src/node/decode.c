/* A node's frames as terms. The loop reads what is small; what may take longer is read, made use of and freed on the
   threads for strangers' work, so that no node decides how long a turn of the loop takes. */
#include "node/node_internal.h"

enum {
    SMALL_BYTES = 64 << 10,
    SMALL_TERMS = 4096,
    EVENT_TERMS_MAX = 10000, /* an event tells of one thing, and the loop makes use of it */
    EVENT_MAX_BYTES = 128 << 10,
    REPLY_TERMS_MAX = 2000000,
    DEPTH_MAX = 256,
};

struct decoding {
    struct loop_work work; /* first, so that it leads back here */
    struct node_host *host;
    uint64_t key;
    decoded_fn decoded;
    void *data;
    struct buf buffer;
    size_t at, size;
    struct term_doc *doc;
    struct error error;
    const struct node_preparation *preparation;
    const struct term *part;
    void *made;
};

/* As every VM writes {event, …}. Another way of writing it, compressed for one, gets the bounds of an answer. */
static bool is_event(const uint8_t *data, size_t size) {
    static const uint8_t begin[] = {131, 104, 3}, utf8[] = {119, 5}, latin1[] = {115, 5}, old[] = {100, 0, 5};
    if (size < sizeof begin + sizeof old + 5 || memcmp(data, begin, sizeof begin) != 0) return false;
    const uint8_t *atom = data + sizeof begin;
    if (memcmp(atom, utf8, sizeof utf8) == 0 || memcmp(atom, latin1, sizeof latin1) == 0)
        return memcmp(atom + sizeof utf8, "event", 5) == 0;
    return memcmp(atom, old, sizeof old) == 0 && memcmp(atom + sizeof old, "event", 5) == 0;
}

/* Compressed or not, a frame may hold no more than was sent: otherwise little traffic could mean much work. */
static struct term_bounds bounds_of(const uint8_t *data, size_t size) {
    return (struct term_bounds){.max_bytes = size,
                                .max_terms = is_event(data, size) ? EVENT_TERMS_MAX : REPLY_TERMS_MAX,
                                .max_depth = DEPTH_MAX};
}

static void put_reason(struct buf *frame, const struct error *error) {
    term_put_map(frame, 2);
    term_put_atom(frame, "kind");
    term_put_atom(frame, "too_new");
    term_put_atom(frame, "message");
    term_put_string(frame, error->detail);
}

/* The frame with what is too new in it replaced: an answer by the error that says so, an event by one of its own kind.
   So an application whose VM is newer than this service is not ended for it. */
static int decode_too_new(const uint8_t *data, size_t size, const struct term_bounds *bounds, struct term_doc **ret,
                          struct error *reterr) {
    enum { KIND = 1, ANSWER = 2 };
    struct term_bounds own = *bounds;
    CLEANUP(buf_free) struct buf frame = BUF_INIT;
    struct error ignored;
    bool event = is_event(data, size);
    size_t at;
    if (term_find_element(data, size, bounds, event ? KIND : ANSWER, &at, &ignored) < 0) return -E_TOO_NEW;
    buf_append(&frame, data, at);
    if (!event) term_put_tuple(&frame, 2);
    term_put_atom(&frame, event ? "too_new" : "error");
    put_reason(&frame, reterr);
    own.max_bytes = frame.size;
    return frame.failed ? -E_TOO_NEW : term_decode(frame.data, frame.size, &own, ret, reterr);
}

static int decode(const uint8_t *data, size_t size, const struct term_bounds *bounds, struct term_doc **ret,
                  struct error *reterr) {
    int result = term_decode(data, size, bounds, ret, reterr);
    return result == -E_TOO_NEW ? decode_too_new(data, size, bounds, ret, reterr) : result;
}

int decode_small(const uint8_t *data, size_t size, struct term_doc **ret, struct error *reterr) {
    const struct term_bounds bounds = {.max_bytes = size, .max_terms = SMALL_TERMS, .max_depth = DEPTH_MAX};
    if (size > SMALL_BYTES) return 1;
    CLEANUP_TERM struct term_doc *doc = NULL;
    int result = decode(data, size, &bounds, &doc, reterr);
    if (result < 0) return result == -E_TOO_LARGE ? 1 : result; /* a thread finds out by how much */
    if (term_weight(doc) > SMALL_TERMS) return 1;
    *ret = take_ptr(doc);
    return 0;
}

/* ---- on a thread ---- */

static bool is_too_much(const struct decoding *decoding) {
    return term_is_tagged(term_root(decoding->doc), "event", 3) &&
           (decoding->size > EVENT_MAX_BYTES || term_count(decoding->doc) > EVENT_TERMS_MAX);
}

static void on_decode(struct loop_work *work) {
    struct decoding *decoding = (struct decoding *)work;
    const uint8_t *data = decoding->buffer.data + decoding->at;
    const struct term_bounds bounds = bounds_of(data, decoding->size);
    if (decode(data, decoding->size, &bounds, &decoding->doc, &decoding->error) < 0) decoding->doc = NULL;
    if (decoding->doc && is_too_much(decoding)) {
        error_set(&decoding->error, E_TOO_LARGE, "an event of %zu bytes and %zu terms", decoding->size,
                  term_count(decoding->doc));
        decoding->doc = term_free(decoding->doc);
    }
    buf_free(&decoding->buffer);
}

static void on_prepare(struct loop_work *work) {
    struct decoding *decoding = (struct decoding *)work;
    const struct node_preparation *preparation = decoding->preparation;
    bool is_failure = term_is_tagged(term_at(term_root(decoding->doc), 2), "error", 2); /* of {reply, Id, Answer} */
    decoding->made = (is_failure ? preparation->make_of_failure : preparation->make)(decoding->part);
}

static void on_free(struct loop_work *work) {
    struct decoding *decoding = (struct decoding *)work;
    if (decoding->made) decoding->preparation->release(decoding->made);
    term_free(decoding->doc);
}

/* ---- on the loop ---- */

static void on_done(struct loop_work *work) {
    struct decoding *decoding = (struct decoding *)work;
    loop_note(decoding->host->loop, "large frame", NULL);
    decoding->decoded(decoding->data, decoding);
}

static void on_freed(struct loop_work *work) {
    free(work);
}

static void submit(struct decoding *decoding, void (*run)(struct loop_work *work),
                   void (*done)(struct loop_work *work)) {
    decoding->work.run = run;
    decoding->work.done = done;
    loop_work_submit(&decoding->host->workers, decoding->key, &decoding->work);
}

void decode_large(struct node *node, struct buf *buffer, size_t at, size_t size, decoded_fn decoded, void *data) {
    struct decoding *decoding = calloc(1, sizeof *decoding);
    if (!decoding) abort(); /* as in node_call */
    *decoding = (struct decoding){.host = node->host,
                                  .key = (uintptr_t)node,
                                  .decoded = decoded,
                                  .data = data,
                                  .buffer = *buffer,
                                  .at = at,
                                  .size = size};
    *buffer = (struct buf)BUF_INIT;
    submit(decoding, on_decode, on_done);
}

const struct term *decoding_root(const struct decoding *decoding, struct error *reterr) {
    if (!decoding->doc) *reterr = decoding->error;
    return decoding->doc ? term_root(decoding->doc) : NULL;
}

struct term_doc **decoding_doc(struct decoding *decoding) {
    return &decoding->doc;
}

size_t decoding_terms(const struct decoding *decoding) {
    return decoding->doc ? term_count(decoding->doc) : 0;
}

void decoding_prepare(struct decoding *decoding, const struct node_preparation *preparation, const struct term *part,
                      decoded_fn decoded) {
    decoding->preparation = preparation;
    decoding->part = part;
    decoding->decoded = decoded;
    submit(decoding, on_prepare, on_done);
}

void **decoding_made(struct decoding *decoding) {
    return &decoding->made;
}

void decoding_end(struct decoding *decoding) {
    submit(decoding, on_free, on_freed);
}
