/* Which toolchains there are: the system's own, and the sections [toolchain NAME] of the settings. The operation
   `toolchains` shows them. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
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
    return copy ? read_settings(engine, copy, reterr) : 0;
}

/* ---- the operation ---- */

static const char *source_of(const struct toolchain_entry *entry) {
    return entry->root ? "root" : strcmp(entry->name, TOOLCHAIN_SYSTEM) == 0 ? "system" : "config";
}

static json_t *text_or_null(const char *text) {
    return text && text[0] ? json_string(text) : json_null();
}

static json_t *entry_to_json(const struct toolchain_entry *entry) {
    const struct toolchain *toolchain = &entry->toolchain;
    const char *erts = strstr(toolchain->erts_bin, "/erts-");
    char version[32] = "";
    if (erts) snprintf(version, sizeof version, "%.*s", (int)strcspn(erts + 6, "/"), erts + 6);
    const char *path = entry->root ? entry->root : toolchain->otp_root[0] ? toolchain->otp_root : entry->otp;
    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:b, s:b, s:o}", "name", entry->name, "otp",
                     text_or_null(toolchain->otp_release), "erts", text_or_null(version), "elixir",
                     text_or_null(toolchain->elixir_version), "source", source_of(entry), "path", text_or_null(path),
                     "default", entry == toolchains_default(entry->engine), "usable", toolchain->boot_dir[0] != '\0',
                     "problem", entry->error.code ? json_string(entry->error.detail) : json_null());
}

struct listing {
    struct engine *engine;
    struct request *request;
    size_t left;
};

/* All have been probed, or are known to be unusable. */
static void on_probed(void *data, const struct error *error) {
    struct listing *listing = data;
    struct engine *engine = listing->engine;
    (void)error;
    if (--listing->left > 0) return;
    json_t *list = json_array();
    for (size_t i = 0; i < engine->toolchains.count; i++)
        json_array_append_new(list, entry_to_json(engine->toolchains.items[i]));
    answer_ok(engine, listing->request, list);
    engine->listings--;
    engine_wake(engine);
    free(listing);
}

void engine_toolchains(struct engine *engine, struct request *request) {
    struct listing *listing = new_or_abort(struct listing);
    *listing = (struct listing){engine, request, engine->toolchains.count};
    engine->listings++;
    for (size_t i = 0, count = listing->left; i < count; i++)
        toolchain_need(engine->toolchains.items[i], on_probed, listing);
}
