/* Named volumes: which there are, and making and removing them. The launcher has them; what is kept here is a copy of
   its list, which nothing but this daemon changes. */
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/volumes/volumes.h"
#include "jail/plan.h"

static bool is_private(const char *name) {
    return name[0] == JAIL_VOLUME_PRIVATE;
}

/* Callers name no sandbox's own. */
static bool is_visible(const struct caller *caller, const struct link_volume *volume) {
    return !is_private(volume->name) && (caller->role == ROLE_ADMIN || caller->uid == volume->owner);
}

static void add(struct engine *engine, const struct link_volume *facts) {
    struct link_volume *volume = new_or_abort(struct link_volume);
    *volume = *facts;
    if (!map_set(&engine->volumes, facts->name, volume)) abort();
}

/* Gone: its size is its owner's again. */
static void take_out(struct engine *engine, const char *name) {
    struct link_volume *volume = map_remove(&engine->volumes, name);
    if (volume) quotas_give(engine->config.quotas, volume->owner, QUOTA_DISK, volume->size_bytes);
    free(volume);
}

void volumes_forget(struct engine *engine) {
    size_t at = 0;
    void *volume;
    while (map_next(&engine->volumes, &at, NULL, &volume)) free(volume);
    map_free(&engine->volumes);
    engine->volumes = (struct map)MAP_INIT;
}

/* ---- a sandbox's own ---- */

uint64_t volumes_data_size(uint64_t disk_bytes) {
    uint64_t parts = (disk_bytes + JAIL_VOLUME_LEAST - 1) / JAIL_VOLUME_LEAST;
    return (parts ? parts : 1) * JAIL_VOLUME_LEAST;
}

int volumes_check_data(const struct engine *engine, uint64_t size_bytes, struct error *reterr) {
    if (size_bytes && size_bytes < JAIL_VOLUME_LEAST)
        return error_set(reterr, E_INVALID, "data_size is 16M at least; 0 keeps /data in memory, as part of disk");
    if (!size_bytes || engine->host.features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES) return 0;
    return error_set(reterr, E_GUARANTEE,
                     "/data can't be a volume here: that takes root, loop devices and mkfs.ext4; leave out data_size");
}

struct data_making {
    struct sandbox *sandbox; /* whose job waits for the end */
    struct link_volume facts;
    bool has_ended;
    struct error error;
    void (*done)(void *data, const struct error *error); /* NULL: its result is not asked for yet */
    void *data;
};

static void tell(struct data_making *making) {
    struct data_making ended = *making;
    making->sandbox->data_making = NULL;
    free(making);
    ended.done(ended.data, ended.error.code != E_NONE ? &ended.error : NULL);
}

static void on_data_made(void *data, const struct error *error) {
    struct data_making *making = data;
    struct engine *engine = making->sandbox->engine;
    making->has_ended = true;
    if (error) {
        making->error = *error;
        quotas_give(engine->config.quotas, making->facts.owner, QUOTA_DISK, making->facts.size_bytes);
    } else {
        add(engine, &making->facts);
    }
    if (making->done) tell(making);
}

int volumes_make_data(struct sandbox *sandbox, int peer_fd, struct error *reterr) {
    struct engine *engine = sandbox->engine;
    struct link_volume facts = {.owner = sandbox->owner, .size_bytes = sandbox->config.data_size_bytes};
    const char *name = volumes_name_data(sandbox, facts.name);
    if (!name) return 0;
    if (quotas_take(engine->config.quotas, facts.owner, QUOTA_DISK, facts.size_bytes, reterr) < 0) return -1;
    sandbox->data_making = new_or_abort(struct data_making);
    *sandbox->data_making = (struct data_making){.sandbox = sandbox, .facts = facts};
    link_make_volume(engine->host.link, peer_fd, facts.name, facts.size_bytes, on_data_made, sandbox->data_making);
    return 0;
}

void volumes_await_data(struct sandbox *sandbox, void (*done)(void *data, const struct error *error), void *data) {
    struct data_making *making = sandbox->data_making;
    if (!making) {
        done(data, NULL);
        return;
    }
    making->done = done;
    making->data = data;
    if (making->has_ended) tell(making);
}

struct removing_data {
    struct engine *engine;
    char name[VOLUMES_NAME_BYTES];
};

/* One that a launcher could not remove any more is removed when the next one is there. */
static void on_data_removed(void *data, const struct error *error) {
    struct removing_data *removing = data;
    if (!error || error->code == E_NOT_FOUND) take_out(removing->engine, removing->name);
    engine_part_closed(removing->engine);
    free(removing);
}

static void remove_data(struct engine *engine, const char *name) {
    struct removing_data *removing = new_or_abort(struct removing_data);
    *removing = (struct removing_data){.engine = engine};
    snprintf(removing->name, sizeof removing->name, "%s", name);
    engine_part_open(engine);
    link_remove_volume(engine->host.link, -1, removing->name, on_data_removed, removing);
}

void volumes_remove_data(struct sandbox *sandbox) {
    char name[VOLUMES_NAME_BYTES];
    if (volumes_name_data(sandbox, name)) remove_data(sandbox->engine, name);
}

/* An object with their names. */
static json_t *name_all_data(const struct engine *engine) {
    json_t *names = json_object();
    char name[VOLUMES_NAME_BYTES];
    size_t at = 0;
    void *sandbox;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox))
        if (volumes_name_data(sandbox, name)) json_object_set_new(names, name, json_true());
    return names;
}

/* What a daemon or launcher that was killed had not removed. */
static void remove_ownerless_data(struct engine *engine) {
    json_t *names = name_all_data(engine);
    size_t at = 0;
    const char *name;
    void *volume;
    while (map_next(&engine->volumes, &at, &name, &volume))
        if (is_private(name) && !json_object_get(names, name)) remove_data(engine, name);
    json_decref(names);
}

/* ---- whenever there is a launcher ---- */

struct learning {
    struct engine *engine;
    size_t asked;
};

static void learn_part(struct engine *engine, const struct link_volume *volumes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (map_get(&engine->volumes, volumes[i].name)) continue;
        add(engine, &volumes[i]);
        quotas_count(engine->config.quotas, volumes[i].owner, QUOTA_DISK, volumes[i].size_bytes);
    }
}

static void on_listed(void *data, const struct link_volume *volumes, size_t count, const struct error *error) {
    struct learning *learning = data;
    struct engine *engine = learning->engine;
    if (error)
        engine_log_error(engine, "volumes_unknown", NULL, error);
    else
        learn_part(engine, volumes, count);
    if (--learning->asked == 0) {
        remove_ownerless_data(engine);
        free(learning);
    }
    engine_part_closed(engine);
}

/* The named ones, and sandboxes' own by the first digit of their keys: one answer has no room for all. */
void volumes_learn(struct engine *engine) {
    static const char parts[] = "0123456789abcdef";
    struct learning *learning = new_or_abort(struct learning);
    *learning = (struct learning){engine, sizeof parts};
    for (size_t i = 0; i < sizeof parts; i++) {
        engine_part_open(engine);
        link_volumes(engine->host.link, parts[i], on_listed, learning);
    }
}

/* ---- in sandboxes ---- */

int volumes_check_access(struct engine *engine, const struct caller *caller, json_t *volumes, struct error *reterr) {
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        struct mount_text mount;
        const char *text = json_string_value(json_array_get(volumes, i));
        if (!text || mount_text_parse(text, &mount, NULL) < 0 || mount_text_is_folder(mount.source)) continue;
        const struct link_volume *volume = map_get(&engine->volumes, mount.source);
        if (!volume || !is_visible(caller, volume))
            return error_set(reterr, E_NOT_FOUND,
                             "there is no volume '%.64s'; `sandbox volume create` makes one, and a folder has a slash",
                             mount.source);
    }
    return 0;
}

static bool is_used_by(const struct sandbox *sandbox, const char *name) {
    json_t *volumes = sandbox->config.volumes;
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        struct mount_text mount;
        const char *text = json_string_value(json_array_get(volumes, i));
        if (text && mount_text_parse(text, &mount, NULL) == 0 && strcmp(mount.source, name) == 0) return true;
    }
    return false;
}

/* Whether it runs or not: it may start again. */
static const struct sandbox *find_user(const struct engine *engine, const char *name) {
    size_t at = 0;
    void *sandbox;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox))
        if (is_used_by(sandbox, name)) return sandbox;
    return NULL;
}

/* ---- the operations ---- */

static void add_user(json_t *users, const char *volume, const char *id) {
    json_t *ids = json_object_get(users, volume);
    if (!ids) json_object_set_new(users, volume, ids = json_array());
    size_t count = json_array_size(ids);
    if (count == 0 || !string_equal(json_string_value(json_array_get(ids, count - 1)), id))
        json_array_append_new(ids, json_string(id));
}

/* Which sandboxes have which volumes, by name: all of them in one walk. */
static json_t *find_users(const struct engine *engine) {
    json_t *users = json_object();
    size_t at = 0, i;
    void *found;
    while (map_next(&engine->sandboxes, &at, NULL, &found)) {
        const struct sandbox *sandbox = found;
        json_t *entry;
        json_array_foreach(sandbox->config.volumes, i, entry) {
            struct mount_text mount;
            const char *text = json_string_value(entry);
            if (text && mount_text_parse(text, &mount, NULL) == 0 && !mount_text_is_folder(mount.source))
                add_user(users, mount.source, sandbox->id);
        }
    }
    return users;
}

static json_t *to_json(const struct link_volume *facts, const json_t *users) {
    char owner[OWNER_TEXT_BYTES];
    json_t *ids = json_object_get(users, facts->name);
    return json_pack("{s:s, s:s, s:I, s:o}", "name", facts->name, "owner", owner_text(facts->owner, owner),
                     "size_bytes", (json_int_t)facts->size_bytes, "sandboxes", ids ? json_incref(ids) : json_array());
}

void engine_volumes(struct engine *engine, struct request *request) {
    json_t *list = json_array();
    json_t *users = find_users(engine);
    size_t at = 0;
    void *volume;
    while (map_next(&engine->volumes, &at, NULL, &volume))
        if (is_visible(&request->caller, volume)) json_array_append_new(list, to_json(volume, users));
    json_decref(users);
    answer_ok(engine, request, list);
}

struct changing {
    struct engine *engine;
    struct request *request;
    struct link_volume facts;
};

static void end_change(struct changing *changing, const struct error *error) {
    struct engine *engine = changing->engine;
    json_t *users = error ? NULL : find_users(engine);
    if (error)
        answer_error(engine, changing->request, error, NULL);
    else
        answer_ok(engine, changing->request, to_json(&changing->facts, users));
    json_decref(users);
    free(changing);
    engine_part_closed(engine);
}

static void begin_change(struct engine *engine, struct request *request, const struct link_volume *facts,
                         struct changing **ret) {
    struct changing *changing = new_or_abort(struct changing);
    *changing = (struct changing){.engine = engine, .request = request, .facts = *facts};
    engine_part_open(engine);
    *ret = changing;
}

static void on_made(void *data, const struct error *error) {
    struct changing *changing = data;
    if (error)
        quotas_give(changing->engine->config.quotas, changing->facts.owner, QUOTA_DISK, changing->facts.size_bytes);
    else
        add(changing->engine, &changing->facts);
    end_change(changing, error);
}

static int check_caller(const struct engine *engine, const struct request *request, struct error *reterr) {
    if (request->caller.peer_fd < 0)
        return error_set(reterr, E_INVALID, "only callers on the unix socket may change volumes");
    if (engine->host.features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES) return 0;
    return error_set(reterr, E_GUARANTEE,
                     "there are no named volumes here: they take root, loop devices and mkfs.ext4; a folder of yours "
                     "can be mounted: -v DIR:PATH");
}

void engine_volume_create(struct engine *engine, struct request *request) {
    struct error error;
    struct changing *changing;
    struct link_volume facts = {.owner = request->caller.uid,
                                .size_bytes =
                                    (uint64_t)json_integer_value(json_object_get(request->params, "size_bytes"))};
    snprintf(facts.name, sizeof facts.name, "%s", json_string_value(json_object_get(request->params, "name")));
    int result = check_caller(engine, request, &error);
    if (result == 0 && is_private(facts.name))
        result = error_set(&error, E_INVALID, "a volume's name does not begin with %c", JAIL_VOLUME_PRIVATE);
    if (result == 0 && map_get(&engine->volumes, facts.name))
        result = error_set(&error, E_EXISTS, "there is a volume '%s' already", facts.name);
    if (result == 0) result = quotas_take(engine->config.quotas, facts.owner, QUOTA_DISK, facts.size_bytes, &error);
    if (result < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    begin_change(engine, request, &facts, &changing);
    link_make_volume(engine->host.link, request->caller.peer_fd, facts.name, facts.size_bytes, on_made, changing);
}

static void on_removed(void *data, const struct error *error) {
    struct changing *changing = data;
    if (!error) take_out(changing->engine, changing->facts.name);
    end_change(changing, error);
}

void engine_volume_remove(struct engine *engine, struct request *request) {
    struct error error;
    struct changing *changing;
    const char *name = json_string_value(json_object_get(request->params, "name"));
    const struct link_volume *volume = map_get(&engine->volumes, name);
    const struct sandbox *user = find_user(engine, name);
    int result = check_caller(engine, request, &error);
    if (result == 0 && (!volume || !is_visible(&request->caller, volume)))
        result = error_set(&error, E_NOT_FOUND, "there is no volume '%s'", name);
    if (result == 0 && user)
        result =
            error_set(&error, E_CONFLICT, "the sandbox '%s' has the volume '%s'; destroy it first", user->id, name);
    if (result < 0) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    begin_change(engine, request, volume, &changing);
    link_remove_volume(engine->host.link, request->caller.peer_fd, name, on_removed, changing);
}
