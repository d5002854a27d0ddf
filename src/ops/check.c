/* Checks and converts the parameters of a request by the rows of the operation table. */
#include <stdio.h>
#include <string.h>

#include "ops/table.h"

enum {
    TEXT_MAX_BYTES = 64 * 1024,
    ENTRIES_MAX = 64,
    RESTARTS_MAX = 1000000,
    PREVIEW_MAX_BYTES = 64,
};

/* The value as the caller wrote it, cut where it gets long: for error messages. */
struct preview {
    char text[PREVIEW_MAX_BYTES + 4];
    size_t used;
};

static int preview_append(const char *text, size_t size, void *data) {
    struct preview *preview = data;
    size_t room = PREVIEW_MAX_BYTES - preview->used;
    size_t taken = size < room ? size : room;
    memcpy(preview->text + preview->used, text, taken);
    preview->used += taken;
    if (taken == size) return 0;
    /* Cut between characters, not inside one. */
    while (preview->used > 0 && (preview->text[preview->used] & 0xC0) == 0x80) preview->used--;
    memcpy(preview->text + preview->used, "…", sizeof "…");
    return -1;
}

static struct preview preview_of(const json_t *value) {
    struct preview preview = {0};
    json_dump_callback(value, preview_append, &preview, JSON_COMPACT | JSON_ENCODE_ANY);
    return preview;
}

static int refuse(const json_t *value, struct error *reterr, const char *expected) {
    return error_set(reterr, E_INVALID, "%s is not %s", preview_of(value).text, expected);
}

static int hand_over(json_t *value, json_t **ret, struct error *reterr) {
    if (!value) return error_set(reterr, E_NO_MEMORY, "no memory for a parameter");
    *ret = value;
    return 0;
}

/* The text of a JSON string; NULL for anything else, and for text with a NUL in it, which C would cut short. */
static const char *plain_text(const json_t *value) {
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* ---- numbers ---- */

static bool parse_duration_or_ms(const char *text, uint64_t *ret) {
    return parse_u64(text, ret) || parse_duration(text, ret);
}

static const struct number {
    bool (*parse)(const char *text, uint64_t *ret);
    void (*print)(uint64_t value, char ret[QUANTITY_BYTES]);
    const char *expected;
} numbers[OP_TYPE_COUNT] = {
    [OP_INTEGER] = {parse_u64, count_to_text, "a whole number"},
    [OP_SIZE] = {parse_size, size_to_text, "a size such as 64M or 1G"},
    [OP_DURATION] = {parse_duration_or_ms, duration_to_text, "a duration such as 250ms, 5s or 1h"},
    [OP_PERCENT] = {parse_percent, percent_to_text, "a percentage such as 50%"},
};

static bool read_number(const struct number *number, const json_t *value, uint64_t *ret) {
    if (json_is_integer(value)) {
        json_int_t integer = json_integer_value(value);
        *ret = (uint64_t)integer;
        return integer >= 0;
    }
    const char *text = plain_text(value);
    return text && number->parse(text, ret);
}

static int convert_number(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    const struct number *number = &numbers[param->type];
    uint64_t converted;
    if (!read_number(number, value, &converted)) return refuse(value, reterr, number->expected);
    int64_t max = param->max ? param->max : INT64_MAX;
    if (converted < (uint64_t)param->min || converted > (uint64_t)max) {
        char low[QUANTITY_BYTES], high[QUANTITY_BYTES];
        number->print((uint64_t)param->min, low);
        number->print((uint64_t)max, high);
        return error_set(reterr, E_INVALID, "%s is not between %s and %s", preview_of(value).text, low, high);
    }
    return hand_over(json_integer((json_int_t)converted), ret, reterr);
}

/* ---- text ---- */

int64_t ops_text_max(const struct op_param *param) {
    return param->max ? param->max : TEXT_MAX_BYTES;
}

static int check_length(const struct op_param *param, const json_t *value, int64_t max, struct error *reterr) {
    int64_t length = (int64_t)json_string_length(value);
    if (length < param->min) return error_set(reterr, E_INVALID, "the text is empty");
    if (length > max)
        return error_set(reterr, E_INVALID, "the text is %lld bytes long; %lld are allowed", (long long)length,
                         (long long)max);
    return 0;
}

static int convert_text(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    if (!plain_text(value)) return refuse(value, reterr, "text");
    int result = check_length(param, value, ops_text_max(param), reterr);
    return result < 0 ? result : hand_over(json_incref((json_t *)value), ret, reterr);
}

bool ops_id_valid(const char *id) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(id);
    return length >= 1 && length <= OP_ID_MAX_BYTES && strspn(id, allowed) == length && id[0] != '.' && id[0] != '-';
}

static int convert_id(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    (void)param;
    const char *text = plain_text(value);
    if (!text || !ops_id_valid(text))
        return refuse(value, reterr, "an id: 1 to 64 of A-Z a-z 0-9 . _ - and neither dot nor dash first");
    return hand_over(json_incref((json_t *)value), ret, reterr);
}

static int convert_path(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    const char *text = plain_text(value);
    if (!text || text[0] != '/') return refuse(value, reterr, "an absolute path");
    int result = check_length(param, value, OP_PATH_MAX_BYTES, reterr);
    return result < 0 ? result : hand_over(json_incref((json_t *)value), ret, reterr);
}

static bool name_valid(const char *text) {
    size_t length = strlen(text);
    if (length == 0 || length > OP_NAME_MAX_BYTES) return false;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at <= ' ' || *at == 0x7F || (at[0] == 0xC2 && at[1] < 0xA0)) return false;
    return true;
}

static int convert_name(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    const char *text = plain_text(value);
    if (!text || !name_valid(text))
        return refuse(value, reterr, param->type == OP_MODULE ? "a module's name" : "a name of 1 to 255 bytes");
    return hand_over(json_incref((json_t *)value), ret, reterr);
}

/* ---- the rest ---- */

static int convert_boolean(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    (void)param;
    const char *text = plain_text(value);
    if (json_is_true(value) || string_equal(text, "true")) return hand_over(json_true(), ret, reterr);
    if (json_is_false(value) || string_equal(text, "false")) return hand_over(json_false(), ret, reterr);
    return refuse(value, reterr, "true or false");
}

static bool is_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && length > 0 && strncmp(at, text, length) == 0) return true;
    return false;
}

static int convert_choice(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    const char *text = plain_text(value);
    if (!text || !is_choice(param->choices, text)) return refuse(value, reterr, param->choices);
    return hand_over(json_incref((json_t *)value), ret, reterr);
}

static bool restart_valid(const char *text) {
    static const char counted[] = "on-failure:";
    if (is_choice("never|on-failure|always", text)) return true;
    uint64_t times;
    return string_starts(text, counted) && parse_u64(text + strlen(counted), &times) && times >= 1 &&
           times <= RESTARTS_MAX;
}

static int convert_restart(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    (void)param;
    const char *text = plain_text(value);
    if (!text || !restart_valid(text)) return refuse(value, reterr, "never, on-failure, on-failure:N or always");
    return hand_over(json_incref((json_t *)value), ret, reterr);
}

int64_t ops_entries_max(const struct op_param *param) {
    return param->max ? param->max : ENTRIES_MAX;
}

static bool expression_valid(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length <= OP_EXPRESSION_MAX_BYTES;
}

static bool word_valid(const char *text) {
    return strlen(text) <= OP_EXPRESSION_MAX_BYTES;
}

static bool mount_valid(const char *text) {
    struct mount_text mount;
    return strlen(text) <= OP_PATH_MAX_BYTES && mount_text_parse(text, &mount, NULL) == 0;
}

static bool path_valid(const char *text) {
    return text[0] == '/' && strlen(text) <= OP_PATH_MAX_BYTES;
}

/* What one entry of a list is. */
static const struct entry {
    bool (*is_valid)(const char *text);
    const char *expected;
} entries[OP_TYPE_COUNT] = {
    [OP_TEXTS] = {name_valid, "a name of 1 to 255 bytes"},
    [OP_EXPRESSIONS] = {expression_valid, "code of at most 64 KiB"},
    [OP_PATHS] = {path_valid, "an absolute path"},
    [OP_WORDS] = {word_valid, "a text of at most 64 KiB"},
    [OP_MOUNTS] = {mount_valid, "SOURCE:PATH or SOURCE:PATH:ro"},
};

static int convert_list(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    if (!json_is_array(value)) return refuse(value, reterr, "a list of text");
    if ((int64_t)json_array_size(value) > ops_entries_max(param))
        return error_set(reterr, E_INVALID, "%zu entries; %lld are allowed", json_array_size(value),
                         (long long)ops_entries_max(param));
    size_t index;
    json_t *entry;
    json_array_foreach(value, index, entry) {
        const char *text = plain_text(entry);
        if (!text || !entries[param->type].is_valid(text)) return refuse(entry, reterr, entries[param->type].expected);
    }
    return hand_over(json_deep_copy(value), ret, reterr);
}

static bool variable_name_valid(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t length = strlen(name);
    return length > 0 && length <= OP_NAME_MAX_BYTES && strspn(name, allowed) == length &&
           (name[0] < '0' || name[0] > '9');
}

/* The last part of a path. */
static bool file_name_valid(const char *name) {
    return name_valid(name) && !strchr(name, '/') && name[0] != '.';
}

/* What the entries of an object are. The error never has a value: it may be a secret. */
static const struct object_kind {
    bool (*name_valid)(const char *name);
    const char *expected;
    size_t entry_max_bytes, max_bytes;
} objects[OP_TYPE_COUNT] = {
    [OP_PAIRS] = {variable_name_valid, "a variable's name: letters, digits and _", OP_VARIABLE_MAX_BYTES,
                  OP_PAIRS_MAX_BYTES},
    [OP_FILES] = {file_name_valid, "a file's name", OP_FILES_MAX_BYTES, OP_FILES_MAX_BYTES},
};

static int convert_object(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    const struct object_kind *kind = &objects[param->type];
    if (!json_is_object(value)) return error_set(reterr, E_INVALID, "it is not an object of text");
    if ((int64_t)json_object_size(value) > ops_entries_max(param))
        return error_set(reterr, E_INVALID, "%zu entries; %lld are allowed", json_object_size(value),
                         (long long)ops_entries_max(param));
    const char *name;
    json_t *entry;
    size_t bytes = 0;
    json_object_foreach((json_t *)value, name, entry) {
        if (!kind->name_valid(name)) return error_set(reterr, E_INVALID, "\"%.64s\" is not %s", name, kind->expected);
        if (!plain_text(entry)) return error_set(reterr, E_INVALID, "the value of %.64s is not text", name);
        if (strlen(name) + json_string_length(entry) > kind->entry_max_bytes)
            return error_set(reterr, E_INVALID, "%.64s is longer than %zu bytes", name, kind->entry_max_bytes);
        bytes += strlen(name) + json_string_length(entry);
        if (bytes > kind->max_bytes)
            return error_set(reterr, E_INVALID, "all entries together are longer than %zu bytes", kind->max_bytes);
    }
    return hand_over(json_deep_copy(value), ret, reterr);
}

static int (*const converters[OP_TYPE_COUNT])(const struct op_param *, const json_t *, json_t **, struct error *) = {
    [OP_TEXT] = convert_text,      [OP_ID] = convert_id,
    [OP_PATH] = convert_path,      [OP_NAME] = convert_name,
    [OP_MODULE] = convert_name,    [OP_INTEGER] = convert_number,
    [OP_SIZE] = convert_number,    [OP_DURATION] = convert_number,
    [OP_PERCENT] = convert_number, [OP_BOOLEAN] = convert_boolean,
    [OP_CHOICE] = convert_choice,  [OP_RESTART] = convert_restart,
    [OP_TEXTS] = convert_list,     [OP_EXPRESSIONS] = convert_list,
    [OP_PATHS] = convert_list,     [OP_PAIRS] = convert_object,
    [OP_FILES] = convert_object,   [OP_WORDS] = convert_list,
    [OP_MOUNTS] = convert_list,
};

int ops_convert(const struct op_param *param, const json_t *value, json_t **ret, struct error *reterr) {
    return converters[param->type](param, value, ret, reterr);
}

/* ---- a whole request ---- */

static int check_names(const struct op *op, const json_t *input, struct error *reterr) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)input, name, value) {
        const struct op_param *param = ops_param(op, name);
        if (!param || (param->flags & OP_CLIENT))
            return error_set(reterr, E_INVALID, "%s has no parameter \"%.64s\"", op->name, name);
    }
    return 0;
}

/* The value of a default, which a row has as JSON text. Truths and plain texts need no parser. */
static json_t *default_value(const char *text) {
    uint64_t number;
    if (string_equal(text, "false")) return json_false();
    if (string_equal(text, "true")) return json_true();
    if (parse_u64(text, &number) && number <= INT64_MAX) return json_integer((json_int_t)number);
    if (text[0] == '"' && !strchr(text, '\\')) return json_stringn(text + 1, strlen(text) - 2);
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

/* The value to use: what was sent, else the default, else nothing. */
static int check_param(const struct op_param *param, const json_t *sent, json_t **ret, struct error *reterr) {
    if (sent && !json_is_null(sent)) {
        if (ops_convert(param, sent, ret, reterr) < 0) return error_prefix(reterr, "%s", param->name);
        return 0;
    }
    if (param->flags & OP_REQUIRED)
        return error_set(reterr, E_INVALID, "%s is missing: %s", param->name, param->summary);
    if (param->fallback) return hand_over(default_value(param->fallback), ret, reterr);
    return 0;
}

static int check_all(const struct op *op, const json_t *input, json_t *checked, struct error *reterr) {
    int result = check_names(op, input, reterr);
    for (size_t i = 0; i < op->param_count && result == 0; i++) {
        json_t *value = NULL;
        result = check_param(&op->params[i], json_object_get(input, op->params[i].name), &value, reterr);
        if (value && json_object_set_new(checked, op->params[i].name, value) < 0)
            result = error_set(reterr, E_NO_MEMORY, "no memory for the parameters");
    }
    return result;
}

int ops_check(const struct op *op, const json_t *input, json_t **ret, struct error *reterr) {
    struct error ignored;
    if (!reterr) reterr = &ignored;
    if (input && !json_is_object(input)) return error_set(reterr, E_INVALID, "the parameters are not a JSON object");
    json_t *checked = json_object();
    if (!checked) return error_set(reterr, E_NO_MEMORY, "no memory for the parameters");
    int result = check_all(op, input, checked, reterr);
    if (result < 0)
        json_decref(checked);
    else
        *ret = checked;
    return result;
}
