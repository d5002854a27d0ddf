/* What a create asks for, checked before there is a sandbox: room, access, profile and guarantees; and how long what it
   starts must run. */
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/sandbox.h"
#include "core/volumes/volumes.h"

enum { SANDBOXES_KEPT_FREE = 32 }; /* for callers that no quota binds */

struct sandbox_owner {
    struct engine *engine;
    uid_t uid;
};

/* Ports give a sandbox of a profile without a network a loopback of its own. */
static int check_no_network(const struct sandbox_config *config, struct error *reterr) {
    if (config->profile->jail.network == JAIL_NETWORK_NONE && config->ports.count == 0) return 0;
    return error_set(reterr, E_GUARANTEE,
                     config->ports.count > 0
                         ? "with ports the sandbox has a network: leave out 'no_network', or the ports"
                         : "the profile '%s' gives a network: leave out 'no_network', or choose another profile",
                     config->profile->jail.name);
}

static int check_required(const struct engine *engine, const struct sandbox_config *config, json_t *names,
                          struct error *reterr) {
    const struct jail_profile *profile = &config->profile->jail;
    uint32_t given = jail_guarantees_of(&engine->host.features, profile);
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) {
        enum jail_guarantee guarantee;
        if (string_equal(json_string_value(name), "no_network")) {
            if (check_no_network(config, reterr) < 0) return -(int)reterr->code;
            continue;
        }
        if (jail_guarantee_find(json_string_value(name), &guarantee) < 0)
            return error_set(reterr, E_INVALID, "there is no guarantee '%.60s'; `sandbox doctor` lists them",
                             json_string_value(name));
        if (!(given & 1u << guarantee))
            return error_set(reterr, E_GUARANTEE, "this host can't give the guarantee '%s' (%s)",
                             json_string_value(name), jail_guarantee_meaning(guarantee));
    }
    return 0;
}

/* A profile that may connect runs without egress too, and the caller is told. A profile that lists hosts needs it. */
static int check_egress(const struct engine *engine, const struct jail_profile *profile, struct error *reterr) {
    const struct jail_egress *egress = &profile->egress;
    bool has_hosts = profile->network == JAIL_NETWORK_OUTGOING && egress->host_count + egress->name_count > 0;
    if (!has_hosts || engine->host.features.guarantees & 1u << JAIL_GUARANTEE_EGRESS) return 0;
    return error_set(
        reterr, E_GUARANTEE,
        "the profile '%s' lists hosts to reach, and there is no way out of a sandbox here: %s, or choose a "
        "profile that lists none",
        profile->name,
        engine->host.features.root ? "install slirp4netns, and see that the kernel has nftables and "
                                     "/dev/net/tun"
                                   : "it takes rights that root alone has; start the service as root");
}

static int check_ports(const struct engine *engine, struct sandbox_config *config, struct error *reterr) {
    const struct guard_profile *profile = config->profile;
    uint32_t needed = 1u << JAIL_GUARANTEE_NETWORK;
    if (config->ports.count == 0) return 0;
    for (size_t i = 0; i < config->ports.count; i++) {
        bool is_in = config->ports.items[i].port.way == JAIL_PORT_IN;
        if (is_in ? profile->forbids_publish : profile->forbids_connect)
            return error_set(reterr, E_FORBIDDEN, "the profile '%s' lets %s", profile->jail.name,
                             is_in ? "nothing be published" : "no sandbox connect to a service");
    }
    if (!(engine->host.features.guarantees & needed))
        return error_set(reterr, E_GUARANTEE, "this host has no network namespaces, by which ports are told apart");
    config->ports.has_loopback = profile->jail.network == JAIL_NETWORK_NONE;
    return 0;
}

static bool is_in_group(void *data, gid_t gid) {
    const struct sandbox_owner *owner = data;
    return quotas_in_group(owner->engine->config.quotas, owner->uid, gid);
}

static int check_access(struct engine *engine, const struct caller *caller, const struct guard_profile *profile,
                        struct error *reterr) {
    struct sandbox_owner owner = {engine, caller->uid};
    if (caller->role == ROLE_ADMIN) return 0;
    if (guard_access_allows(&profile->access, caller->uid, is_in_group, &owner)) return 0;
    return error_set(reterr, E_FORBIDDEN,
                     "the profile '%s' is for certain users and groups, and uid %u is none of them; `sandbox profiles` "
                     "shows whom each is for",
                     profile->jail.name, caller->uid);
}

static int check_room(const struct engine *engine, const struct caller *caller, struct error *reterr) {
    uint64_t max = quotas_share(engine->config.quotas, caller->uid, engine->config.sandboxes_max, SANDBOXES_KEPT_FREE);
    if (engine->sandboxes.count < max) return 0;
    return error_set(reterr, E_LIMIT, "there are %zu sandboxes already, as many as this service takes",
                     engine->sandboxes.count);
}

/* As large as the limit of the disk, unless the caller says how large. */
static int choose_data(const struct engine *engine, const json_t *params, struct sandbox_config *config,
                       struct error *reterr) {
    bool is_possible = engine->host.features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES;
    if (is_possible && !json_object_get(params, "data_size_bytes"))
        config->data_size_bytes = volumes_data_size(config->limits.disk_bytes);
    if (volumes_check_data(engine, config->data_size_bytes, reterr) < 0) return -1;
    return sandbox_config_make_key(config, reterr);
}

int create_check(struct engine *engine, struct request *request, struct sandbox_config *ret, struct error *reterr) {
    if (engine->closing.is_begun) return error_set(reterr, E_SHUTDOWN, "the service is shutting down");
    if (!engine->ready) return error_set(reterr, E_LAUNCHER, "the service is still starting");
    if (map_get(&engine->sandboxes, json_string_value(json_object_get(request->params, "id"))))
        return error_set(reterr, E_EXISTS, "there is a sandbox '%s' already; destroy it first, or choose another id",
                         json_string_value(json_object_get(request->params, "id")));
    int result = check_room(engine, &request->caller, reterr);
    if (result < 0) return result;
    if (request->caller.peer_fd < 0)
        return error_set(reterr, E_INVALID, "only callers on the unix socket may name a path of this host");
    result = sandbox_config_from_json(&engine->profiles, request->params, ret, reterr);
    if (result == 0) result = check_access(engine, &request->caller, ret->profile, reterr);
    if (result == 0) result = check_required(engine, ret, json_object_get(request->params, "require"), reterr);
    if (result == 0) result = volumes_check_access(engine, &request->caller, ret->volumes, reterr);
    if (result == 0) result = choose_data(engine, request->params, ret, reterr);
    if (result == 0) result = migrations_check(ret->migrate, reterr);
    if (result == 0) result = compile_bounds_check(engine, &ret->compile_bounds, reterr);
    if (result == 0) result = check_ports(engine, ret, reterr);
    if (result == 0) result = check_egress(engine, &ret->profile->jail, reterr);
    return result;
}

/* ---- settling ---- */

static bool has_settled(const struct engine *engine, const char *digest) {
    for (size_t i = 0; i < SETTLED_BUILDS; i++)
        if (strcmp(engine->settled.builds[i], digest) == 0) return true;
    return false;
}

uint64_t create_settle_ms(const struct sandbox *sandbox, const struct request *request) {
    const struct engine *engine = sandbox->engine;
    json_t *asked = json_object_get(request->params, "settle_ms");
    if (json_is_integer(asked)) return (uint64_t)json_integer_value(asked);
    return has_settled(engine, sandbox->code.build.digest) ? 0 : engine->config.settle_ms;
}

void create_settled(struct sandbox *sandbox) {
    struct engine *engine = sandbox->engine;
    bool is_long = sandbox->tree.settle_ms >= engine->config.settle_ms && !sandbox->config.ephemeral;
    sandbox->tree.settle_ms = 0;
    if (!is_long || has_settled(engine, sandbox->code.build.digest)) return;
    memcpy(engine->settled.builds[engine->settled.next], sandbox->code.build.digest, STORE_DIGEST_BYTES);
    engine->settled.next = (engine->settled.next + 1) % SETTLED_BUILDS;
}
