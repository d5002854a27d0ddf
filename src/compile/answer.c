/* A compiler node's answer becomes the files of a build. The node ran strangers' code while it compiled, so every name
 * is checked before it is used. */
#include <stdio.h>
#include <string.h>

#include "compile/compile_internal.h"

enum { APPS_MAX = NODE_APPS_MAX, NAME_BYTES = 256 };

/* Application names become folders: letters, digits, _ and @ only, as an atom without quotes has them. */
static bool is_app_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@");
    return length > 0 && length < 100 && name[length] == '\0';
}

/* Module names become file names: any text without slashes or control characters. */
static bool is_module_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length >= NAME_BYTES - 8 || !utf8_valid((const uint8_t *)name, length)) return false;
    for (const char *at = name; *at; at++)
        if (*at == '/' || (uint8_t)*at < ' ' || *at == 0x7f) return false;
    return true;
}

static bool text_at(const struct term *map, const char *key, char **ret) {
    const struct term *value = term_map_get(map, key);
    return value && !term_is_atom(value, "nil") && term_to_string(value, ret);
}

/* Text of a stranger: cut to a bound, and what is not UTF-8 escaped. */
static json_t *text_json(const char *text) {
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    size_t length = utf8_cut(text, strlen(text), TEXT_MAX_BYTES);
    json_t *value = json_stringn(text, length);
    if (value) return value;
    escape_text(&escaped, text, length);
    return json_string(buf_string(&escaped));
}

static void set_text(json_t *object, const char *name, const struct term *map, const char *key) {
    CLEANUP_FREE char *text = NULL;
    json_object_set_new(object, name, text_at(map, key, &text) ? text_json(text) : json_null());
}

static json_t *diagnostic_to_json(const struct term *diagnostic) {
    json_t *object = json_object();
    static const char *const texts[] = {"file", "message", "kind"};
    static const char *const numbers[] = {"line", "column"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) set_text(object, texts[i], diagnostic, texts[i]);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const struct term *value = term_map_get(diagnostic, numbers[i]);
        int64_t number;
        bool known = value && term_to_int64(value, &number) && number > 0;
        json_object_set_new(object, numbers[i], known ? json_integer(number) : json_null());
    }
    return object;
}

json_t *diagnostics_to_json(const struct term *list) {
    json_t *array = json_array();
    size_t count = list && list->type == TERM_LIST ? list->items.count : 0;
    for (size_t i = 0; i < count && i < DIAGNOSTICS_MAX; i++)
        json_array_append_new(array, diagnostic_to_json(&list->items.elements[i]));
    return array;
}

struct answer {
    struct file_list *list;
    json_t *apps; /* of the facts */
    json_t *modules;
    json_t *beam_files; /* of the report */
    json_t *app_file;
};

static int bad_answer(struct error *reterr, const char *what) {
    return error_set(reterr, E_PROTOCOL, "the compiler node answered with %s", what);
}

static int take_module(struct answer *answer, const char *app, const struct term *module, struct error *reterr) {
    char path[NAME_BYTES + 128];
    CLEANUP_FREE char *name = NULL;
    const struct term *beam = term_map_get(module, "beam");
    if (!text_at(module, "module", &name) || !is_module_name(name) || !beam || beam->type != TERM_BINARY)
        return bad_answer(reterr, "a module that has no usable name or code");
    snprintf(path, sizeof path, "%s/ebin/%s.beam", app, name);
    json_array_append_new(answer->modules, json_string(term_module_name(name)));
    json_array_append_new(answer->beam_files, json_string(path));
    return file_list_add_copy(answer->list, path, beam->binary.data, beam->binary.size, reterr);
}

static int take_app_file(struct answer *answer, const char *name, const struct term *app, struct error *reterr) {
    char path[256];
    const struct term *content = term_map_get(app, "app_file");
    if (!content || content->type != TERM_BINARY) return 0;
    snprintf(path, sizeof path, "%s/ebin/%s.app", name, name);
    if (!answer->app_file) answer->app_file = json_string(path);
    return file_list_add_copy(answer->list, path, content->binary.data, content->binary.size, reterr);
}

static int take_app(struct answer *answer, const struct term *app, struct error *reterr) {
    CLEANUP_FREE char *name = NULL;
    const struct term *modules = term_map_get(app, "modules");
    if (!text_at(app, "name", &name) || !is_app_name(name))
        return bad_answer(reterr, "an application that has no usable name");
    json_t *facts = json_object();
    json_object_set_new(facts, "name", json_string(name));
    set_text(facts, "dir", app, "dir");
    const struct term *priv = term_map_get(app, "priv");
    json_object_set_new(facts, "priv", json_boolean(priv && term_is_atom(priv, "true")));
    json_array_append_new(answer->apps, facts);
    int result = take_app_file(answer, name, app, reterr);
    size_t count = modules && modules->type == TERM_LIST ? modules->items.count : 0;
    for (size_t i = 0; i < count && result == 0; i++) result = take_module(answer, name, term_at(modules, i), reterr);
    return result;
}

static int take_apps(struct answer *answer, const struct term *apps, struct error *reterr) {
    size_t count = apps && apps->type == TERM_LIST ? apps->items.count : 0;
    if (count == 0 || count > APPS_MAX) return bad_answer(reterr, "no applications, or too many");
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) result = take_app(answer, term_at(apps, i), reterr);
    if (result == 0 && json_array_size(answer->modules) == 0)
        return error_set(reterr, E_INVALID, "the project holds no modules");
    return result;
}

static int take_config(struct answer *answer, const struct term *term, json_t *facts, struct error *reterr) {
    const struct term *config = term_map_get(term, "config");
    bool has_config = config && config->type == TERM_BINARY;
    json_object_set_new(facts, "has_config", json_boolean(has_config));
    return has_config
               ? file_list_add_copy(answer->list, BUILD_CONFIG_FILE, config->binary.data, config->binary.size, reterr)
               : 0;
}

int answer_to_build(const struct term *term, struct file_list *list, json_t **ret_facts, json_t **ret_report,
                    struct error *reterr) {
    struct answer answer = {.list = list, .apps = json_array(), .modules = json_array(), .beam_files = json_array()};
    json_t *facts = json_object();
    json_t *report = json_object();
    json_object_set_new(facts, "apps", answer.apps);
    json_object_set_new(facts, "modules", answer.modules);
    set_text(facts, "main", term, "main");
    set_text(facts, "language", term, "language");
    set_text(facts, "supervisor", term, "supervisor");
    json_object_set_new(report, "status", json_string("ok"));
    json_object_set_new(report, "beam_files", answer.beam_files);
    json_object_set(report, "compiled", answer.modules);
    json_object_set_new(report, "warnings", diagnostics_to_json(term_map_get(term, "warnings")));
    json_object_set_new(report, "errors", json_array());
    int result = take_apps(&answer, term_map_get(term, "apps"), reterr);
    if (result == 0) result = take_config(&answer, term, facts, reterr);
    json_object_set_new(report, "app_file", answer.app_file ? answer.app_file : json_null());
    if (result < 0) {
        json_decref(facts);
        json_decref(report);
        return result;
    }
    *ret_facts = facts;
    *ret_report = report;
    return 0;
}
