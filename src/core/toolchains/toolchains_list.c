/* Which toolchains there are: the system's own, and the sections [toolchain NAME] of the settings. The operation
   `toolchains` shows them. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"
#include "core/toolchains/toolchains.h"

/* ---- reading the settings ---- */

static int begin_section(struct engine *engine, char *line, struct toolchain_entry **ret, struct error *reterr) {
    char *close = strchr(line, ']');
    if (!close) return error_set(reterr, E_INVALID, "a section is '[toolchain NAME]'");
    *close = '\0';
    return toolchains_add(engine, string_trim(line + strlen("[toolchain ")), ret, reterr);
}

static int set_path(struct toolchain_entry *entry, const char *name, const char *value, struct error *reterr) {
    char **field = strcmp(name, "otp") == 0      ? &entry->otp
                   : strcmp(name, "elixir") == 0 ? &entry->elixir
                   : strcmp(name, "root") == 0   ? &entry->root
                                                 : NULL;
    if (!field) return error_set(reterr, E_INVALID, "there is no setting '%.60s' of a toolchain", name);
    if (value[0] != '/') return error_set(reterr, E_INVALID, "%s must be an absolute path, not '%.200s'", name, value);
    if (*field) return error_set(reterr, E_INVALID, "%s is given twice", name);
    *field = strdup(value);
    return *field ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for a toolchain");
}

static int read_line(struct engine *engine, char *line, struct toolchain_entry **entry, struct error *reterr) {
    line = string_trim(line);
    if (!line[0] || line[0] == '#') return 0;
    if (line[0] == '[') return begin_section(engine, line, entry, reterr);
    char *equals = strchr(line, '=');
    if (!equals || !*entry) return error_set(reterr, E_INVALID, "a line of a toolchain is 'name = value'");
    *equals = '\0';
    return set_path(*entry, string_trim(line), string_trim(equals + 1), reterr);
}

static int check_paths(const struct toolchain_entry *entry, struct error *reterr) {
    if (!entry->otp && !entry->root)
        return error_set(reterr, E_INVALID, "the toolchain '%s' needs 'otp = DIR' or 'root = DIR'", entry->name);
    return 0;
}

static int read_settings(struct engine *engine, char *text, struct error *reterr) {
    struct toolchain_entry *entry = NULL;
    unsigned number = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        number++;
        if (read_line(engine, line, &entry, reterr) < 0) return error_prefix(reterr, "sandbox.conf:%u", number);
    }
    for (size_t i = 1; i < engine->toolchains.count; i++)
        if (check_paths(engine->toolchains.items[i], reterr) < 0) return error_prefix(reterr, "sandbox.conf");
    return 0;
}

static char *copy_or_null(const char *text) {
    return text ? strdup(text) : NULL;
}

int toolchains_open(struct engine *engine, const char *text, struct error *reterr) {
    struct toolchain_entry *system;
    int result = toolchains_add(engine, TOOLCHAIN_SYSTEM, &system, reterr);
    if (result < 0) return result;
    system->otp = copy_or_null(engine->config.otp);
    system->elixir = copy_or_null(engine->config.elixir);
    CLEANUP_FREE char *copy = copy_or_null(text);
    result = copy ? read_settings(engine, copy, reterr) : 0;
    const char *chosen = engine->config.toolchain;
    return result < 0 || !chosen ? result : toolchains_set_default(engine, chosen, reterr);
}

/* ---- reading them again ---- */

struct former {
    struct toolchain_entry *items[TOOLCHAINS_MAX];
    size_t count;
    struct toolchain_entry *chosen;
};

static struct former take_former(struct toolchains *toolchains) {
    struct former former = {.count = toolchains->count, .chosen = toolchains->chosen};
    memcpy(former.items, toolchains->items, sizeof former.items);
    toolchains->count = 0;
    toolchains->chosen = NULL;
    return former;
}

static void put_former(struct toolchains *toolchains, const struct former *former) {
    memcpy(toolchains->items, former->items, sizeof former->items);
    toolchains->count = former->count;
    toolchains->chosen = former->chosen;
}

static bool are_equal(const struct toolchain_entry *one, const struct toolchain_entry *other) {
    return strcmp(one->name, other->name) == 0 && string_equal(one->otp, other->otp) &&
           string_equal(one->elixir, other->elixir) && string_equal(one->root, other->root) && !one->is_gone &&
           !other->is_gone;
}

/* What runs on it refers to it. */
static void retire(struct toolchains *toolchains, struct toolchain_entry *entry) {
    entry->next = toolchains->retired;
    toolchains->retired = entry;
}

/* An entry that stays takes the place of the new one that equals it. */
static void keep(struct toolchains *toolchains, struct toolchain_entry *before) {
    for (size_t i = 0; i < toolchains->count; i++) {
        struct toolchain_entry *now = toolchains->items[i];
        if (strcmp(now->name, before->name) != 0) continue;
        if (are_equal(now, before)) {
            if (toolchains->chosen == now) toolchains->chosen = before;
            toolchains->items[i] = before;
            toolchain_entry_free(now);
            return;
        }
        before->successor = now;
    }
    retire(toolchains, before);
}

int toolchains_reopen(struct engine *engine, const char *text, const char *chosen, struct error *reterr) {
    struct toolchains *toolchains = &engine->toolchains;
    struct former before = take_former(toolchains);
    const char *chosen_before = engine->config.toolchain;
    engine->config.toolchain = chosen;
    int result = toolchains_open(engine, text, reterr);
    engine->config.toolchain = chosen_before;
    if (result < 0) {
        for (size_t i = 0; i < toolchains->count; i++) toolchain_entry_free(toolchains->items[i]);
        put_former(toolchains, &before);
        return result;
    }
    for (size_t i = 0; i < before.count; i++) keep(toolchains, before.items[i]);
    return 0;
}

void toolchains_renew(struct toolchain_entry *entry) {
    struct engine *engine = entry->engine;
    struct toolchains *toolchains = &engine->toolchains;
    for (size_t i = 0; i < toolchains->count; i++) {
        if (toolchains->items[i] != entry) continue;
        struct toolchain_entry *now = toolchain_entry_new(engine, entry->name);
        now->otp = copy_or_null(entry->otp);
        now->elixir = copy_or_null(entry->elixir);
        now->root = copy_or_null(entry->root);
        if (toolchains->chosen == entry) toolchains->chosen = now;
        toolchains->items[i] = entry->successor = now;
        retire(toolchains, entry);
        pool_forget(engine->pool, &entry->toolchain);
        return;
    }
}

/* ---- the operation ---- */

static const char *source_of(const struct toolchain_entry *entry) {
    if (entry->own) return own_manager_names[own_manager_of(entry->name)];
    return entry->root ? "root" : strcmp(entry->name, TOOLCHAIN_SYSTEM) == 0 ? "system" : "config";
}

static json_t *text_or_null(const char *text) {
    return text && text[0] ? json_string(text) : json_null();
}

json_t *toolchain_to_json(const struct toolchain_entry *entry) {
    const struct toolchain *toolchain = &entry->toolchain;
    const char *erts = strstr(toolchain->erts_bin, "/erts-");
    char version[32] = "";
    if (erts) snprintf(version, sizeof version, "%.*s", (int)strcspn(erts + 6, "/"), erts + 6);
    const char *path = entry->own               ? entry->own->otp
                       : entry->root            ? entry->root
                       : toolchain->otp_root[0] ? toolchain->otp_root
                                                : entry->otp;
    const char *otp = toolchain->otp_version[0] ? toolchain->otp_version : toolchain->otp_release;
    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:b, s:b, s:o}", "name", entry->name, "otp", text_or_null(otp),
                     "erts", text_or_null(version), "elixir", text_or_null(toolchain->elixir_version), "source",
                     source_of(entry), "path", text_or_null(path), "default",
                     entry == toolchains_default(entry->engine), "usable",
                     toolchain->boot_dir[0] != '\0' && !entry->error.code, "problem",
                     entry->error.code ? json_string(entry->error.detail) : json_null());
}

/* One after another: a user's own are a stranger's code, and have one VM at a time. */
struct listing {
    struct engine *engine;
    struct request *request;
    struct toolchain_entry *entries[TOOLCHAINS_MAX + OWN_PAIRS_MAX];
    size_t count, next;
    json_t *problems; /* of folders that could not be looked at */
};

static void probe_next(struct listing *listing);

static void on_probed(void *data, const struct error *error) {
    struct listing *listing = data;
    (void)error;
    struct toolchain_entry **entry = &listing->entries[listing->next++];
    toolchain_hold(entry, *entry);
    probe_next(listing);
}

static void answer(struct listing *listing) {
    struct engine *engine = listing->engine;
    json_t *list = json_array();
    for (size_t i = 0; i < listing->count; i++) {
        json_array_append_new(list, toolchain_to_json(listing->entries[i]));
        toolchain_hold(&listing->entries[i], NULL);
    }
    json_array_extend(list, listing->problems);
    json_decref(listing->problems);
    answer_ok(engine, listing->request, list);
    engine->listings--;
    engine_wake(engine);
    free(listing);
}

static void probe_next(struct listing *listing) {
    struct toolchain_entry *entry = listing->next < listing->count ? listing->entries[listing->next] : NULL;
    if (!entry)
        answer(listing);
    else if (entry->own)
        own_use(entry, listing->request->caller.peer_fd, on_probed, listing);
    else
        toolchain_need(entry, on_probed, listing);
}

static void add_entry(struct listing *listing, struct toolchain_entry *entry) {
    if (listing->count < ARRAY_SIZE(listing->entries)) toolchain_hold(&listing->entries[listing->count++], entry);
}

static void on_looked(void *data, const struct own_list *own, const struct error *error) {
    struct listing *listing = data;
    listing->problems = error ? json_array() : json_incref(own->problems);
    for (size_t i = 0; !error && i < own->count; i++) add_entry(listing, own->entries[i]);
    probe_next(listing);
}

void engine_toolchains(struct engine *engine, struct request *request) {
    struct listing *listing = new_or_abort(struct listing);
    *listing = (struct listing){.engine = engine, .request = request};
    engine->listings++;
    for (size_t i = 0; i < engine->toolchains.count; i++) add_entry(listing, engine->toolchains.items[i]);
    own_look(engine, &request->caller, json_string_value(json_object_get(request->params, "user_home")), on_looked,
             listing);
}
