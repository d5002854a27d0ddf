/* What a sandbox has mounted besides its own: checked, opened as its owner, and mounted in each of its nodes. */
#include "core/volumes/volumes.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/core_internal.h"
#include "jail/plan.h"

/* ---- what a caller asked for ---- */

/* They were checked when they came. */
static struct mount_text mount_at(json_t *volumes, size_t index) {
    struct mount_text mount = {.source = ""};
    const char *text = json_string_value(json_array_get(volumes, index));
    if (text) mount_text_parse(text, &mount, NULL);
    return mount;
}

static int check_source(const char *source, struct error *reterr) {
    if (!mount_text_is_folder(source))
        return plan_name_is_valid(source)
                   ? 0
                   : error_set(reterr, E_INVALID, "'%.100s' is neither a folder's path nor a volume's name", source);
    if (path_is_clean(source)) return 0;
    return error_set(reterr, E_INVALID, "'%.100s' is not the absolute path of a folder, without . and ..", source);
}

static int check_one(const struct mount_text *mount, struct error *reterr) {
    if (check_source(mount->source, reterr) < 0) return -1;
    if (plan_is_volume_place(mount->place)) return 0;
    return error_set(reterr, E_INVALID, "%.100s can't be mounted at %.100s: places are below /mnt or /data",
                     mount->source, mount->place);
}

/* The same, or below. */
static bool is_within(const char *place, const char *other) {
    size_t length = strlen(other);
    return strncmp(place, other, length) == 0 && (!place[length] || place[length] == '/');
}

static int check_apart(json_t *volumes, size_t index, struct error *reterr) {
    struct mount_text mount = mount_at(volumes, index);
    for (size_t i = 0; i < index; i++) {
        struct mount_text other = mount_at(volumes, i);
        if (strcmp(mount.place, other.place) == 0)
            return error_set(reterr, E_INVALID, "two volumes are to be mounted at %.100s", mount.place);
        if (is_within(mount.place, other.place) || is_within(other.place, mount.place))
            return error_set(reterr, E_INVALID, "of the volumes at %.100s and %.100s one would lie in the other",
                             mount.place, other.place);
    }
    return 0;
}

int volumes_check(json_t *volumes, struct error *reterr) {
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        struct mount_text mount;
        const char *text = json_string_value(json_array_get(volumes, i));
        if (i == VOLUMES_MAX) return error_set(reterr, E_INVALID, "a sandbox has at most %d volumes", VOLUMES_MAX);
        if (!text) return error_set(reterr, E_INVALID, "a volume is not text");
        if (mount_text_parse(text, &mount, reterr) < 0 || check_one(&mount, reterr) < 0 ||
            check_apart(volumes, i, reterr) < 0)
            return -1;
    }
    return 0;
}

char *volumes_make_key(void) {
    uint8_t bytes[(VOLUMES_KEY_BYTES - 1) / 2];
    char *key = malloc(VOLUMES_KEY_BYTES);
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) abort();
    if (key) hex_encode(bytes, sizeof bytes, key);
    return key;
}

json_t *volumes_to_json(json_t *volumes) {
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        struct mount_text mount = mount_at(volumes, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "source", mount.source, "path", mount.place,
                                              "read_only", mount.is_read_only));
    }
    return list;
}

const char *volumes_name_data(const struct sandbox *sandbox, char ret[VOLUMES_NAME_BYTES]) {
    if (!sandbox->config.data_size_bytes) return NULL;
    snprintf(ret, VOLUMES_NAME_BYTES, "%c%s", JAIL_VOLUME_PRIVATE, sandbox->config.volumes_key);
    return ret;
}

/* ---- permissions ---- */

static void name_grant(const struct sandbox *sandbox, size_t index, char ret[VOLUMES_NAME_BYTES]) {
    snprintf(ret, VOLUMES_NAME_BYTES, "%s-%zu", sandbox->config.volumes_key, index);
}

struct granting {
    struct sandbox *sandbox; /* whose job waits for the end */
    int peer_fd;
    size_t next;
    void (*done)(void *data, const struct error *error);
    void *data;
};

static void grant_next(struct granting *granting);

static void end_granting(struct granting *granting, const struct error *error) {
    struct granting ended = *granting;
    free(granting);
    ended.done(ended.data, error);
}

static void on_granted(void *data, const struct error *error) {
    struct granting *granting = data;
    if (error)
        end_granting(granting, error);
    else
        grant_next(granting);
}

static void grant_next(struct granting *granting) {
    char name[VOLUMES_NAME_BYTES];
    struct sandbox *sandbox = granting->sandbox;
    size_t index = granting->next++;
    if (index >= json_array_size(sandbox->config.volumes)) {
        end_granting(granting, NULL);
        return;
    }
    struct mount_text mount = mount_at(sandbox->config.volumes, index);
    if (!mount_text_is_folder(mount.source)) {
        grant_next(granting);
        return;
    }
    name_grant(sandbox, index, name);
    link_grant_folder(sandbox->engine->host.link, granting->peer_fd, name, mount.source, mount.is_read_only, on_granted,
                      granting);
}

void volumes_grant(struct sandbox *sandbox, const struct caller *caller,
                   void (*done)(void *data, const struct error *error), void *data) {
    struct error error;
    if (volumes_make_data(sandbox, caller->peer_fd, &error) < 0) {
        done(data, &error);
        return;
    }
    struct granting *granting = new_or_abort(struct granting);
    *granting = (struct granting){.sandbox = sandbox, .peer_fd = caller->peer_fd, .done = done, .data = data};
    grant_next(granting);
}

void volumes_withdraw(struct sandbox *sandbox) {
    char name[VOLUMES_NAME_BYTES];
    volumes_remove_data(sandbox);
    for (size_t i = 0; i < json_array_size(sandbox->config.volumes); i++) {
        name_grant(sandbox, i, name);
        link_withdraw_folder(sandbox->engine->host.link, name);
    }
}

static void put_names(const struct sandbox *sandbox, struct buf *lines) {
    char name[VOLUMES_NAME_BYTES];
    for (size_t i = 0; i < json_array_size(sandbox->config.volumes); i++) {
        name_grant(sandbox, i, name);
        buf_printf(lines, "%s\n", name);
    }
}

/* Where there are too many to name in one message, all stay. */
void volumes_sweep(struct engine *engine) {
    CLEANUP(buf_free) struct buf lines = {.max = JAIL_MESSAGE_BYTES - 64};
    size_t at = 0;
    void *sandbox;
    while (map_next(&engine->sandboxes, &at, NULL, &sandbox)) put_names(sandbox, &lines);
    if (!lines.failed) link_keep_folders(engine->host.link, &lines);
}

/* ---- mounting ---- */

struct mounting {
    struct sandbox_ref sandbox;
    char node[JAIL_NAME_BYTES];
    char token[JAIL_NAME_BYTES]; /* of the folder that is open; "" */
    bool data_is_due;            /* its node waited in the pool, and has a tmpfs for its /data */
    size_t next;
    void (*done)(struct sandbox *sandbox, const struct error *error);
};

static void mount_next(struct mounting *mounting, struct sandbox *sandbox);

/* NULL: it has gone, or its node has. */
static struct sandbox *sandbox_of(const struct mounting *mounting) {
    struct sandbox *sandbox = sandbox_deref(&mounting->sandbox);
    bool is_there = sandbox && sandbox->node && strcmp(node_name(sandbox->node), mounting->node) == 0;
    return is_there ? sandbox : NULL;
}

static void end_mounting(struct mounting *mounting, const struct error *error) {
    struct sandbox *sandbox = sandbox_of(mounting);
    void (*done)(struct sandbox *, const struct error *) = mounting->done;
    free(mounting);
    if (sandbox) done(sandbox, error);
}

static void on_mounted(void *data, const struct error *error) {
    struct mounting *mounting = data;
    struct sandbox *sandbox = sandbox_of(mounting);
    if (mounting->token[0]) link_release_project(mounting->sandbox.engine->host.link, mounting->token);
    mounting->token[0] = '\0';
    if (error || !sandbox)
        end_mounting(mounting, error);
    else
        mount_next(mounting, sandbox);
}

static void on_folder(void *data, const struct link_project *folder, const struct error *error) {
    struct mounting *mounting = data;
    struct sandbox *sandbox = sandbox_of(mounting);
    if (folder) snprintf(mounting->token, sizeof mounting->token, "%s", folder->token);
    if (error || !sandbox) {
        on_mounted(mounting, error);
        return;
    }
    struct mount_text mount = mount_at(sandbox->config.volumes, mounting->next - 1);
    link_mount_folder(sandbox->engine->host.link, mounting->node, mounting->token, mount.place,
                      sandbox->config.profile->jail.may_exec, on_mounted, mounting);
}

static void mount_next(struct mounting *mounting, struct sandbox *sandbox) {
    char name[VOLUMES_NAME_BYTES];
    if (mounting->data_is_due) {
        mounting->data_is_due = false;
        link_mount_volume(sandbox->engine->host.link, mounting->node, volumes_name_data(sandbox, name), JAIL_DATA,
                          false, false, on_mounted, mounting);
        return;
    }
    size_t index = mounting->next++;
    if (index == json_array_size(sandbox->config.volumes)) {
        end_mounting(mounting, NULL);
        return;
    }
    struct mount_text mount = mount_at(sandbox->config.volumes, index);
    if (!mount_text_is_folder(mount.source)) {
        link_mount_volume(sandbox->engine->host.link, mounting->node, mount.source, mount.place, mount.is_read_only,
                          sandbox->config.profile->jail.may_exec, on_mounted, mounting);
        return;
    }
    name_grant(sandbox, index, name);
    link_open_granted_folder(sandbox->engine->host.link, name, on_folder, mounting);
}

void volumes_mount(struct sandbox *sandbox, void (*done)(struct sandbox *sandbox, const struct error *error)) {
    bool data_is_due = sandbox->tree.is_warm && sandbox->config.data_size_bytes;
    if (json_array_size(sandbox->config.volumes) == 0 && !data_is_due) {
        done(sandbox, NULL);
        return;
    }
    struct mounting *mounting = new_or_abort(struct mounting);
    *mounting = (struct mounting){.sandbox = sandbox_ref(sandbox), .data_is_due = data_is_due, .done = done};
    snprintf(mounting->node, sizeof mounting->node, "%s", node_name(sandbox->node));
    mount_next(mounting, sandbox);
}
