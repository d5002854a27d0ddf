/* What a sandbox is made of: from a caller's parameters, to and from the registry. */
#include <string.h>

#include "core/core_internal.h"
#include "core/volumes/volumes.h"

void sandbox_config_free(struct sandbox_config *config) {
    free(config->source);
    free(config->app);
    free(config->supervisor);
    free(config->restart);
    free(config->toolchain);
    json_decref(config->own_toolchain);
    free(config->mix_env);
    json_decref(config->with);
    json_decref(config->env);
    json_decref(config->files);
    json_decref(config->volumes);
    free(config->volumes_key);
    json_decref(config->migrate);
    json_decref(config->watch_ignore);
    json_decref(config->watch_include);
    ports_free(&config->ports);
    *config = (struct sandbox_config){0};
}

static char *copy_text(json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? strdup(text) : NULL;
}

static int check_env(json_t *env, struct error *reterr) {
    const char *name;
    json_t *value;
    json_object_foreach(env, name, value) {
        if (!name[0] || strchr(name, '='))
            return error_set(reterr, E_INVALID, "'%.60s' is not the name of an environment variable", name);
        if (string_starts(name, "SANDBOX_"))
            return error_set(reterr, E_INVALID,
                             "the environment variable %.60s is reserved: names that begin with SANDBOX_ are ours",
                             name);
    }
    return 0;
}

int sandbox_config_make_key(struct sandbox_config *config, struct error *reterr) {
    if (json_array_size(config->volumes) == 0 && !config->data_size_bytes) return 0;
    if (!config->volumes_key) config->volumes_key = volumes_make_key();
    return config->volumes_key ? 0 : error_set(reterr, E_NO_MEMORY, "no memory for volumes");
}

static int take_volumes(struct sandbox_config *config, struct error *reterr) {
    if (volumes_check(config->volumes, reterr) < 0) return -(int)E_INVALID;
    return sandbox_config_make_key(config, reterr);
}

static int find_profile(const struct guard_profiles *profiles, const json_t *object, struct sandbox_config *config,
                        struct error *reterr) {
    const char *name = json_string_value(json_object_get(object, "profile"));
    config->profile = name ? guard_profile_find(profiles, name) : NULL;
    if (config->profile) return 0;
    return error_set(reterr, E_INVALID, "there is no profile '%.60s'; `sandbox profiles` lists them", name ? name : "");
}

static void copy_members(json_t *object, struct sandbox_config *config) {
    config->source = copy_text(object, "source");
    config->app = copy_text(object, "app");
    config->supervisor = copy_text(object, "supervisor");
    config->restart = copy_text(object, "restart");
    config->toolchain = copy_text(object, "toolchain");
    config->own_toolchain = json_incref(json_object_get(object, "own_toolchain"));
    config->mix_env = copy_text(object, "mix_env");
    config->with = json_incref(json_object_get(object, "with"));
    config->env = json_incref(json_object_get(object, "env"));
    config->files = json_incref(json_object_get(object, "config"));
    config->volumes = json_incref(json_object_get(object, "volumes"));
    config->data_size_bytes = (uint64_t)json_integer_value(json_object_get(object, "data_size_bytes"));
    config->volumes_key = copy_text(object, "volumes_key");
    compile_bounds_take(object, &config->compile_bounds);
    if (json_is_true(json_object_get(object, "with_sources"))) config->extra = COMPILE_WITH_SOURCES;
    if (json_is_true(json_object_get(object, "mix"))) config->extra = COMPILE_WITH_PROJECT;
    config->ephemeral = json_is_true(json_object_get(object, "ephemeral"));
    config->watch = json_is_true(json_object_get(object, "watch"));
    config->migrate = json_incref(json_object_get(object, "migrate"));
    config->watch_ignore = json_incref(json_object_get(object, "watch_ignore"));
    config->watch_include = json_incref(json_object_get(object, "watch_include"));
}

static int check_members(const struct sandbox_config *config, struct error *reterr) {
    if (!config->source || config->source[0] != '/')
        return error_set(reterr, E_INVALID, "'source' must be an absolute path");
    if (config->with && config->watch)
        return error_set(reterr, E_INVALID,
                         "a sandbox can't be watched whose project reads other folders: leave out "
                         "either 'watch' or 'with', and reload it by hand");
    if (config->app && config->supervisor)
        return error_set(reterr, E_INVALID, "give either 'app' or 'supervisor', not both");
    return check_env(config->env, reterr);
}

static int fill(const struct guard_profiles *profiles, json_t *object, struct sandbox_config *config,
                struct error *reterr) {
    int result = find_profile(profiles, object, config, reterr);
    if (result < 0) return result;
    copy_members(object, config);
    config->limits = config->profile->jail.limits;
    limits_take_fields(object, &config->limits);
    limit_policies_from_json(json_object_get(object, "policies"), &config->policies);
    result = check_members(config, reterr);
    if (result == 0) result = ports_take(object, &config->ports, reterr);
    if (result == 0) result = take_volumes(config, reterr);
    if (result < 0) return result;
    return limits_read(json_object_get(object, "limit"), &config->limits, &config->policies, reterr);
}

int sandbox_config_from_json(const struct guard_profiles *profiles, json_t *json, struct sandbox_config *ret,
                             struct error *reterr) {
    struct sandbox_config config = {0};
    int result = fill(profiles, json, &config, reterr);
    if (result < 0)
        sandbox_config_free(&config);
    else
        *ret = config;
    return result;
}

static void set_optional(json_t *object, const char *name, const char *text) {
    if (text) json_object_set_new(object, name, json_string(text));
}

json_t *sandbox_config_to_json(const struct sandbox_config *config) {
    json_t *object = json_pack("{s:s, s:s, s:o}", "source", config->source, "profile", config->profile->jail.name,
                               "policies", limit_policies_to_json(&config->policies));
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++)
        json_object_set_new(object, jail_limit_kind(i)->field,
                            json_integer((json_int_t)jail_limit_get(&config->limits, i)));
    set_optional(object, "app", config->app);
    set_optional(object, "supervisor", config->supervisor);
    set_optional(object, "restart", config->restart);
    set_optional(object, "toolchain", config->toolchain);
    if (config->own_toolchain) json_object_set(object, "own_toolchain", config->own_toolchain);
    set_optional(object, "mix_env", config->mix_env);
    if (config->with) json_object_set(object, "with", config->with);
    compile_bounds_put(&config->compile_bounds, object);
    if (config->extra == COMPILE_WITH_SOURCES) json_object_set_new(object, "with_sources", json_true());
    if (config->ephemeral) json_object_set_new(object, "ephemeral", json_true());
    ports_put(&config->ports, object);
    if (config->env) json_object_set(object, "env", config->env);
    if (config->files) json_object_set(object, "config", config->files);
    if (config->volumes) json_object_set(object, "volumes", config->volumes);
    if (config->data_size_bytes)
        json_object_set_new(object, "data_size_bytes", json_integer((json_int_t)config->data_size_bytes));
    set_optional(object, "volumes_key", config->volumes_key);
    if (config->watch) json_object_set_new(object, "watch", json_true());
    if (config->migrate) json_object_set(object, "migrate", config->migrate);
    if (config->watch_ignore) json_object_set(object, "watch_ignore", config->watch_ignore);
    if (config->watch_include) json_object_set(object, "watch_include", config->watch_include);
    return object;
}
