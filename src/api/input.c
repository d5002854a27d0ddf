/* Reads the parts of a request that a client chooses: percent-encoding, query parameters, request ids and idempotency
   keys. A parameter may come once only. */
#include "api/api_internal.h"

#include <inttypes.h>
#include <string.h>

enum { QUERY_PARAMS_MAX = 64 };

/* ---- percent-decoding ---- */

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

/* 0 for anything that is not an escape, and for %00, which would end the text early. */
static char decode_escape(const char *at) {
    if (at[0] != '%' || hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0) return 0;
    return (char)(hex_digit(at[1]) << 4 | hex_digit(at[2]));
}

size_t input_unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context, (void)connection;
    char *to = text;
    for (const char *from = text; *from; to++) {
        char decoded = decode_escape(from);
        *to = decoded ? decoded : *from;
        from += decoded ? 3 : 1;
    }
    *to = '\0';
    return (size_t)(to - text);
}

/* ---- parameters ---- */

struct merge {
    json_t *params;
    const json_t *earlier; /* the names that came with the path */
    struct error *reterr;
    int result;
    unsigned count;
};

static int refuse_twice(const char *name, struct error *reterr) {
    return error_set(reterr, E_INVALID, "%.64s: given twice", name);
}

/* A name that is repeated in the query becomes a list. */
static int add_text(struct merge *merge, const char *name, json_t *value) {
    json_t *present = json_object_get(merge->params, name);
    int failed;
    if (json_is_array(present)) {
        failed = json_array_append_new(present, value);
    } else if (present) {
        json_t *list = json_pack("[O, o]", present, value);
        failed = json_object_set_new_nocheck(merge->params, name, list);
    } else {
        failed = json_object_set_new_nocheck(merge->params, name, value);
    }
    return failed ? error_set(merge->reterr, E_NO_MEMORY, "no memory for the parameters") : 0;
}

static enum MHD_Result add_query_value(void *data, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                       const char *text, size_t size) {
    (void)kind;
    struct merge *merge = data;
    if (++merge->count > QUERY_PARAMS_MAX)
        merge->result = error_set(merge->reterr, E_INVALID, "more than %d parameters in the query", QUERY_PARAMS_MAX);
    else if (!utf8_valid((const uint8_t *)name, name_size) || !utf8_valid((const uint8_t *)text, size))
        merge->result = error_set(merge->reterr, E_INVALID, "the query is not UTF-8 text");
    else if (json_object_get(merge->earlier, name))
        merge->result = refuse_twice(name, merge->reterr);
    else
        merge->result = add_text(merge, name, json_stringn_nocheck(text ? text : "", size));
    return merge->result < 0 ? MHD_NO : MHD_YES;
}

int input_merge_query(struct MHD_Connection *connection, json_t *params, struct error *reterr) {
    struct merge merge = {.params = params, .earlier = json_copy(params), .reterr = reterr};
    if (!merge.earlier) return error_set(reterr, E_NO_MEMORY, "no memory for the parameters");
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add_query_value, &merge);
    json_decref((json_t *)merge.earlier);
    return merge.result;
}

int input_merge(json_t *members, json_t *params, struct error *reterr) {
    const char *name;
    json_t *value;
    json_object_foreach(members, name, value) {
        if (json_object_get(params, name)) return refuse_twice(name, reterr);
        if (json_object_set_nocheck(params, name, value) < 0)
            return error_set(reterr, E_NO_MEMORY, "no memory for the parameters");
    }
    return 0;
}

/* ---- headers ---- */

static bool token_valid(const char *text, size_t max) {
    size_t length = strlen(text);
    if (length == 0 || length > max) return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= 0x20 || text[i] > 0x7e) return false;
    return true;
}

void input_request_id(struct MHD_Connection *connection, uint64_t fallback, char ret[REQUEST_ID_BYTES]) {
    const char *given = connection ? MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Request-Id") : NULL;
    if (given && token_valid(given, REQUEST_ID_BYTES - 1))
        snprintf(ret, REQUEST_ID_BYTES, "%s", given);
    else
        snprintf(ret, REQUEST_ID_BYTES, "%016" PRIx64, fallback);
}

int input_idempotency_key(struct MHD_Connection *connection, const char **ret, struct error *reterr) {
    const char *key = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Idempotency-Key");
    if (key && !token_valid(key, IDEMPOTENCY_KEY_MAX_BYTES))
        return error_set(reterr, E_INVALID, "Idempotency-Key: expected 1 to %d printable characters without spaces",
                         IDEMPOTENCY_KEY_MAX_BYTES);
    *ret = key;
    return 0;
}
