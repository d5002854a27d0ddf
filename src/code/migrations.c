/* Parses state migrations of callers: "EXPR" for every module, or "Module=EXPR" for one. EXPR is code of a function of
   three arguments, or a function's name: Mod.fun/3, mod:fun/3. */
#include <string.h>

#include "code/code.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_CHARACTERS LETTERS DIGITS "_@"

/* The length of the name in "Module=…", which is neither a comparison nor a match; 0 without a name. */
static size_t module_length(const char *text) {
    size_t length = strspn(text, NAME_CHARACTERS ".");
    bool is_named = text[length] == '=' && text[length + 1] != '=' && text[length + 1] != '>';
    return is_named ? length : 0;
}

/* "Mod.fun/3" or "mod:fun/3": the positions of the function's name and arity. */
static bool find_function(const char *text, size_t *ret_function, size_t *ret_arity) {
    size_t slash = strspn(text, NAME_CHARACTERS ".:?!");
    size_t arity = slash + 1, function = slash;
    if (text[slash] != '/' || !text[arity] || text[arity + strspn(text + arity, DIGITS)]) return false;
    while (function > 0 && text[function - 1] != '.' && text[function - 1] != ':') function--;
    bool has_both = function > 1 && strspn(text + function, LETTERS "_") > 0;
    if (!has_both || strspn(text, NAME_CHARACTERS ".") < function - 1) return false;
    *ret_function = function;
    *ret_arity = arity;
    return true;
}

static json_t *named_function(const char *text, size_t function, size_t arity) {
    CLEANUP_FREE char *module = strndup(text, function - 1);
    CLEANUP(buf_free) struct buf atom = BUF_INIT;
    if (!module) return NULL;
    term_module_atom(module, &atom);
    return json_pack("{s:s, s:s%}", "module", buf_string(&atom), "function", text + function, arity - 1 - function);
}

static int read_one(const char *text, const char *language, json_t **ret, struct error *reterr) {
    size_t function, arity;
    json_t *migration;
    if (!find_function(text, &function, &arity))
        migration = json_pack("{s:s, s:s}", "language", language, "code", text);
    else if (strcmp(text + arity, "3") == 0)
        migration = named_function(text, function, arity);
    else
        return error_set(reterr, E_INVALID, "%.200s does not take three arguments: state, old and new version", text);
    if (!migration) return error_set(reterr, E_NO_MEMORY, "no memory for a migration");
    *ret = migration;
    return 0;
}

static int add(json_t *migrations, const char *text, const char *language, struct error *reterr) {
    size_t length = module_length(text);
    CLEANUP_FREE char *module = strndup(text, length);
    CLEANUP(buf_free) struct buf name = BUF_INIT;
    json_t *migration;
    if (!module) return error_set(reterr, E_NO_MEMORY, "no memory for a migration");
    if (length > 0)
        term_module_atom(module, &name);
    else
        buf_append_string(&name, MIGRATION_OF_ALL);
    if (json_object_get(migrations, buf_string(&name)))
        return error_set(reterr, E_INVALID, "there are two migrations for %s", length > 0 ? module : "every module");
    int result = read_one(text + (length > 0 ? length + 1 : 0), language, &migration, reterr);
    if (result == 0) json_object_set_new(migrations, buf_string(&name), migration);
    return result;
}

int migrations_read(const json_t *texts, const char *language, json_t **ret, struct error *reterr) {
    json_t *migrations = json_object();
    int result = migrations ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for migrations");
    for (size_t i = 0; result == 0 && i < json_array_size(texts); i++)
        result = add(migrations, json_string_value(json_array_get(texts, i)), language, reterr);
    if (result < 0)
        json_decref(migrations);
    else
        *ret = migrations;
    return result;
}

int migrations_check(const json_t *texts, struct error *reterr) {
    json_t *migrations = NULL;
    int result = texts ? migrations_read(texts, "elixir", &migrations, reterr) : 0;
    json_decref(migrations);
    return result < 0 ? error_prefix(reterr, "migrate") : 0;
}

bool migrations_name_modules(const json_t *migrations) {
    size_t for_all = json_object_get(migrations, MIGRATION_OF_ALL) ? 1 : 0;
    return json_object_size(migrations) > for_all;
}
