/* Answers: an outcome printed as JSON or as a problem, counted by references because several callers may get one. Also
   cuts lists into pages. */
#include "api/api_internal.h"

#include <stdlib.h>
#include <string.h>

#include "term/term.h"

enum { BODY_FIRST_BYTES = 512, ANSWER_MAX_BYTES = 32 << 20 };

static const char plain_type[] = "application/json", problem_type[] = "application/problem+json";

struct answer *answer_reference(struct answer *answer) {
    answer->references++;
    return answer;
}

struct answer *answer_release(struct answer *answer) {
    if (!answer || --answer->references > 0) return NULL;
    if (answer->api)
        answers_free(answer->api, answer->uid, answer->body, answer->size);
    else
        free(answer->body);
    free(answer);
    return NULL;
}

static struct answer *answer_too_long(void) {
    struct error error;
    error_set(&error, E_TOO_LARGE, "the answer is longer than %d bytes", ANSWER_MAX_BYTES);
    return answer_problem(&error, NULL, NULL);
}

struct answer *answer_print(const struct outcome *outcome) {
    struct answer *answer = calloc(1, sizeof *answer);
    struct buf text = {.max = ANSWER_MAX_BYTES};
    if (outcome->value && buf_reserve(&text, BODY_FIRST_BYTES)) term_json_write(outcome->value, &text);
    json_decref(outcome->value);
    size_t size = text.size;
    bool is_too_long = text.failed && size > 0;
    char *body = size > 0 ? buf_take_string(&text) : NULL;
    buf_free(&text);
    if (!answer || !body) {
        free(answer);
        free(body);
        return is_too_long ? answer_too_long() : NULL;
    }
    *answer = (struct answer){
        .references = 1, .status = outcome->status, .content_type = outcome->content_type, .body = body, .size = size};
    return answer;
}

struct answer *answer_json(unsigned status, json_t *value) {
    return answer_print(&(struct outcome){status, plain_type, value});
}

/* ---- problems ---- */

static json_t *errors_of(json_t *result) {
    json_t *errors = json_object_get(result, "errors");
    return json_is_array(errors) ? json_incref(errors) : json_array();
}

json_t *api_problem(const struct error *error, const char *sandbox_id, json_t *result) {
    json_t *problem = ops_problem(error);
    if (!problem) return NULL;
    bool is_whole =
        json_object_set_new(problem, "sandbox_id", sandbox_id ? json_string(sandbox_id) : json_null()) == 0 &&
        json_object_set_new(problem, "errors", errors_of(result)) == 0 &&
        (!result || json_object_set(problem, "result", result) == 0);
    if (is_whole) return problem;
    json_decref(problem);
    return NULL;
}

struct outcome outcome_of(json_t *result, const struct error *error, const char *sandbox_id) {
    if (!error) return (struct outcome){MHD_HTTP_OK, plain_type, result ? json_incref(result) : json_object()};
    return (struct outcome){(unsigned)error_kind(error->code)->http_status, problem_type,
                            api_problem(error, sandbox_id, result)};
}

struct answer *answer_problem(const struct error *error, const char *sandbox_id, json_t *result) {
    struct outcome outcome = outcome_of(result, error, sandbox_id);
    return answer_print(&outcome);
}

/* Not the 429 of the code: it is not this caller who asked for too much. */
struct answer *answer_overloaded(uint32_t connections_max) {
    struct error error;
    error_set(&error, E_LIMIT, "there are %u connections, and no more are served", connections_max);
    json_t *problem = api_problem(&error, NULL, NULL);
    if (problem) json_object_set_new(problem, "status", json_integer(MHD_HTTP_SERVICE_UNAVAILABLE));
    return answer_print(&(struct outcome){MHD_HTTP_SERVICE_UNAVAILABLE, problem_type, problem});
}

/* ---- pages ---- */

/* From a query it is text, from a body a number. */
static int take_limit(const json_t *value, size_t *ret, struct error *reterr) {
    uint64_t limit = value ? 0 : PAGE_LIMIT_MAX;
    if (json_is_integer(value) && json_integer_value(value) > 0) limit = (uint64_t)json_integer_value(value);
    if (json_is_string(value) && !parse_u64(json_string_value(value), &limit)) limit = 0;
    if (limit < 1 || limit > PAGE_LIMIT_MAX)
        return error_set(reterr, E_INVALID, "limit: expected a number from 1 to %d", PAGE_LIMIT_MAX);
    *ret = (size_t)limit;
    return 0;
}

int page_take(json_t *params, struct page *ret, struct error *reterr) {
    size_t limit = 0;
    int result = take_limit(json_object_get(params, "limit"), &limit, reterr);
    if (result < 0) return result;
    json_t *cursor = json_object_get(params, "cursor");
    if (cursor && !json_is_string(cursor)) return error_set(reterr, E_INVALID, "cursor: expected text");
    char *copy = cursor ? strdup(json_string_value(cursor)) : NULL;
    if (cursor && !copy) return error_set(reterr, E_NO_MEMORY, "no memory for a cursor");
    json_object_del(params, "limit");
    json_object_del(params, "cursor");
    *ret = (struct page){limit, copy};
    return 0;
}

static const char *key_of(const json_t *item) {
    const char *id = json_string_value(json_object_get(item, "id"));
    return id ? id : json_string_value(json_object_get(item, "name"));
}

/* After the item that the cursor names; when that is gone meanwhile, at the first one that would come after it. */
static size_t first_after(const json_t *list, const char *cursor) {
    size_t i, next = json_array_size(list);
    json_t *item;
    json_array_foreach(list, i, item) {
        const char *key = key_of(item);
        int order = key ? strcmp(key, cursor) : -1;
        if (order == 0) return i + 1;
        if (order > 0 && i < next) next = i;
    }
    return next;
}

json_t *page_cut(json_t *list, const struct page *page) {
    size_t size = json_array_size(list);
    size_t first = page->cursor ? first_after(list, page->cursor) : 0;
    size_t end = size - first > page->limit ? first + page->limit : size;
    if (first == 0 && end == size) return json_pack("{s:o, s:n}", "items", list, "next");
    json_t *items = json_array();
    for (size_t i = first; i < end; i++) json_array_append(items, json_array_get(list, i));
    const char *next = end < size && end > first ? key_of(json_array_get(list, end - 1)) : NULL;
    json_t *cut = json_pack("{s:o, s:s?}", "items", items, "next", next);
    json_decref(list);
    return cut;
}
