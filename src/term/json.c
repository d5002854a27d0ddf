/* Terms as JSON values. */
#include "term/term_internal.h"

enum { JSON_TEXT_MAX_BYTES = 1 << 16 };

/* Programs that read numbers as doubles would misread integers beyond this. */
static const int64_t json_integer_limit = 1LL << 53;

static json_t *convert(const struct term *term, bool *natural);

/* The term has no natural JSON form, so this one is our own. */
static json_t *unnatural(bool *natural, json_t *json) {
    *natural = false;
    return json;
}

static json_t *wrap(const char *name, json_t *value) {
    return value ? json_pack("{s:o}", name, value) : NULL;
}

static json_t *buffer_string(struct buf *buf) {
    json_t *json = buf->failed ? NULL : json_stringn(buf_string(buf), buf->size);
    buf_free(buf);
    return json;
}

static json_t *convert_integer(const struct term *term) {
    if (term->integer >= -json_integer_limit && term->integer <= json_integer_limit) return json_integer(term->integer);
    return json_sprintf("%lld", (long long)term->integer);
}

static json_t *convert_big(const struct term *term) {
    struct buf text = BUF_INIT;
    term_append_big(&text, term, "0x", SIZE_MAX);
    return buffer_string(&text);
}

static json_t *convert_atom(const struct term *term) {
    if (term_is_atom(term, "nil")) return json_null();
    if (term_is_atom(term, "true")) return json_true();
    if (term_is_atom(term, "false")) return json_false();
    const char *name = term_module_name(term->atom.text);
    return json_stringn(name, term->atom.length - (size_t)(name - term->atom.text));
}

static json_t *base64(const uint8_t *data, size_t size) {
    struct buf text = BUF_INIT;
    base64_encode(data, size, &text);
    return wrap("base64", buffer_string(&text));
}

static json_t *convert_binary(const struct term *term, bool *natural) {
    if (utf8_valid(term->binary.data, term->binary.size))
        return json_stringn(term->binary.size ? (const char *)term->binary.data : "", term->binary.size);
    return unnatural(natural, base64(term->binary.data, term->binary.size));
}

static json_t *convert_text(const struct term *term) {
    struct buf text = BUF_INIT;
    term_print(&text, term, TERM_ERLANG, JSON_TEXT_MAX_BYTES);
    return buffer_string(&text);
}

static json_t *convert_elements(const struct term *term, bool *natural) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < term->items.count; i++)
        if (json_array_append_new(array, convert(&term->items.elements[i], natural)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *convert_charlist(const struct term *list) {
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < list->items.count; i++) buf_append_byte(&text, (uint8_t)list->items.elements[i].integer);
    return buffer_string(&text);
}

static json_t *convert_list(const struct term *list, bool *natural) {
    if (list->items.tail->type != TERM_NIL) return unnatural(natural, convert_text(list));
    if (list_is_text(list, is_elixir_charlist_character)) return convert_charlist(list);
    return convert_elements(list, natural);
}

struct text {
    const char *data;
    size_t size;
};

static bool text_of_key(const struct term *key, struct text *ret) {
    if (key->type == TERM_ATOM) {
        const char *name = term_module_name(key->atom.text);
        *ret = (struct text){name, key->atom.length - (size_t)(name - key->atom.text)};
        return true;
    }
    if (key->type != TERM_BINARY || !utf8_valid(key->binary.data, key->binary.size)) return false;
    *ret = (struct text){key->binary.size ? (const char *)key->binary.data : "", key->binary.size};
    return true;
}

/* The map's keys as members that have no values yet. NULL when a key is no text, or two are the same one: a and
 * <<"a">>. */
static json_t *members_of(const struct term *map) {
    json_t *object = json_object();
    for (size_t i = 0; object && i < map->items.count; i++) {
        struct text key;
        if (!text_of_key(&map->items.elements[2 * i], &key) ||
            json_object_setn_new(object, key.data, key.size, json_null()) < 0 || json_object_size(object) != i + 1) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Members keep the order in which they were added, which is the map's. */
static json_t *convert_values(const struct term *map, json_t *object, bool *natural) {
    void *member = json_object_iter(object);
    for (size_t i = 0; i < map->items.count; i++, member = json_object_iter_next(object, member))
        if (json_object_iter_set_new(object, member, convert(&map->items.elements[2 * i + 1], natural)) < 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *convert_pairs(const struct term *map, bool *natural) {
    json_t *pairs = json_array();
    for (size_t i = 0; pairs && i < map->items.count; i++) {
        const struct term *pair = &map->items.elements[2 * i];
        json_t *key = convert(pair, natural);
        json_t *value = convert(pair + 1, natural);
        /* json_pack takes both references, also when it fails. */
        if (json_array_append_new(pairs, json_pack("[o,o]", key, value)) < 0) {
            json_decref(pairs);
            return NULL;
        }
    }
    return pairs;
}

static json_t *convert_map(const struct term *map, bool *natural) {
    json_t *object = members_of(map);
    if (object) return convert_values(map, object, natural);
    return unnatural(natural, wrap("map", convert_pairs(map, natural)));
}

static void print_name(struct buf *name, const struct term *atom) {
    struct text text = {NULL, 0};
    if (text_of_key(atom, &text)) buf_append(name, text.data, text.size);
}

/* {"record": "module:name", "fields": {…}}: a record of the same fields in another module is another record. */
static json_t *convert_record(const struct term *record, bool *natural) {
    const struct term *elements = record->items.elements;
    const struct term *names = &elements[RECORD_FIELDS], *values = names + record->items.count;
    struct buf name = BUF_INIT;
    json_t *fields = json_object();
    for (size_t i = 0; fields && i < record->items.count; i++)
        if (json_object_setn_new(fields, names[i].atom.text, names[i].atom.length, convert(&values[i], natural)) < 0) {
            json_decref(fields);
            fields = NULL;
        }
    print_name(&name, &elements[RECORD_MODULE]);
    buf_append_byte(&name, ':');
    print_name(&name, &elements[RECORD_NAME]);
    return json_pack("{s:o, s:o}", "record", buffer_string(&name), "fields", fields);
}

static json_t *convert(const struct term *term, bool *natural) {
    switch (term->type) {
    case TERM_INTEGER: return convert_integer(term);
    case TERM_BIG: return convert_big(term);
    case TERM_FLOAT: return json_real(term->number);
    case TERM_ATOM: return convert_atom(term);
    case TERM_BINARY: return convert_binary(term, natural);
    case TERM_NIL: return json_array();
    case TERM_LIST: return convert_list(term, natural);
    case TERM_TUPLE: return unnatural(natural, wrap("tuple", convert_elements(term, natural)));
    case TERM_MAP: return convert_map(term, natural);
    case TERM_RECORD: return unnatural(natural, convert_record(term, natural));
    default: return unnatural(natural, convert_text(term));
    }
}

json_t *term_to_json(const struct term *term, bool *ret_natural) {
    bool natural = true;
    json_t *json = convert(term, &natural);
    if (json && ret_natural) *ret_natural = natural;
    return json;
}
