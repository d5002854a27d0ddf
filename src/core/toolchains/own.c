/* The users' own toolchains that are known: which of them are used, by how many, and which are forgotten. */
#include "core/toolchains/own.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"

static bool is_same_text(const char *one, const char *other) {
    return one && other ? strcmp(one, other) == 0 : !one && !other;
}

static bool is_same_place(const struct own_place *one, const struct own_place *other) {
    return one->uid == other->uid && is_same_text(one->home, other->home) && is_same_text(one->otp, other->otp) &&
           is_same_text(one->elixir, other->elixir);
}

struct toolchain_entry *own_find(struct engine *engine, uid_t uid, const char *name) {
    for (struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next)
        if (entry->own->uid == uid && !entry->successor && strcmp(entry->name, name) == 0) return entry;
    return NULL;
}

static struct own_place *copy_place(const struct own_place *place) {
    struct own_place *copy = new_or_abort(struct own_place);
    *copy = (struct own_place){.uid = place->uid,
                               .home = strdup(place->home),
                               .otp = strdup(place->otp),
                               .elixir = place->elixir ? strdup(place->elixir) : NULL};
    if (!copy->home || !copy->otp || (place->elixir && !copy->elixir)) abort();
    return copy;
}

static struct toolchain_entry *add(struct engine *engine, const char *name, const struct own_place *place) {
    struct toolchain_entry *entry = toolchain_entry_new(engine, name);
    entry->own = copy_place(place);
    entry->used_at_ms = uv_now(engine->loop);
    entry->next = engine->toolchains.own;
    engine->toolchains.own = entry;
    engine->toolchains.own_count++;
    return entry;
}

struct toolchain_entry *own_entry(struct engine *engine, const char *name, const struct own_place *place) {
    struct toolchains *toolchains = &engine->toolchains;
    for (struct toolchain_entry *entry = toolchains->own; entry; entry = entry->next)
        if (!entry->successor && strcmp(entry->name, name) == 0 && is_same_place(entry->own, place)) return entry;
    if (toolchains->own_count >= OWN_ENTRIES_MAX) own_sweep(engine, true);
    return toolchains->own_count < OWN_ENTRIES_MAX ? add(engine, name, place) : NULL;
}

struct toolchain_entry *own_succeed(struct toolchain_entry *entry) {
    return entry->successor = add(entry->engine, entry->name, entry->own);
}

/* ---- standing permissions ---- */

void own_grant_name(uid_t uid, const char *path, char ret[TOOLCHAIN_GRANT_BYTES]) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[33];
    if (EVP_Digest(path, strlen(path), digest, NULL, EVP_sha256(), NULL) != 1) abort();
    hex_encode(digest, 16, hex);
    snprintf(ret, TOOLCHAIN_GRANT_BYTES, "u%u-%s", uid, hex);
}

struct granting {
    struct toolchain_entry *entry;
    int peer_fd;
    bool has_otp;
    void (*done)(void *data, const struct error *error);
    void *data;
};

static void end_granting(struct granting *granting, const struct error *error) {
    struct granting ended = *granting;
    free(granting);
    if (error)
        ended.done(ended.data, error);
    else
        own_need(ended.entry, ended.done, ended.data);
    toolchain_hold(&ended.entry, NULL);
}

static void on_granted(void *data, const struct error *error) {
    struct granting *granting = data;
    const struct own_place *own = granting->entry->own;
    char name[TOOLCHAIN_GRANT_BYTES];
    if (error || granting->has_otp || !own->elixir) {
        end_granting(granting, error);
        return;
    }
    granting->has_otp = true;
    own_grant_name(own->uid, own->elixir, name);
    link_grant_toolchain(granting->entry->engine->host.link, granting->peer_fd, name, own->elixir, own->home,
                         on_granted, granting);
}

void own_use(struct toolchain_entry *entry, int peer_fd, void (*done)(void *data, const struct error *error),
             void *data) {
    char name[TOOLCHAIN_GRANT_BYTES];
    if (own_is_checked(entry)) {
        done(data, NULL);
        return;
    }
    struct granting *granting = new_or_abort(struct granting);
    *granting = (struct granting){.peer_fd = peer_fd, .done = done, .data = data};
    toolchain_hold(&granting->entry, entry);
    own_grant_name(entry->own->uid, entry->own->otp, name);
    link_grant_toolchain(entry->engine->host.link, peer_fd, name, entry->own->otp, entry->own->home, on_granted,
                         granting);
}

/* ---- forgetting ---- */

static bool is_needed_by_other(const struct toolchain_entry *entry, const char *path) {
    for (const struct toolchain_entry *at = entry->engine->toolchains.own; at; at = at->next)
        if (at != entry && at->own->uid == entry->own->uid &&
            (is_same_text(at->own->otp, path) || is_same_text(at->own->elixir, path)))
            return true;
    return false;
}

static void withdraw(const struct toolchain_entry *entry, const char *path) {
    char name[TOOLCHAIN_GRANT_BYTES];
    if (!path || is_needed_by_other(entry, path)) return;
    own_grant_name(entry->own->uid, path, name);
    link_withdraw_toolchain(entry->engine->host.link, name);
}

/* Another user's content can't have made it: the digest has the user in it. */
static void remove_boot_file(const struct toolchain_entry *entry) {
    static const char *const names[] = {"node.boot", "facts"};
    char path[PATH_MAX];
    if (!entry->toolchain.boot_dir[0]) return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (string_format(path, sizeof path, NULL, "%s/%s", entry->toolchain.boot_dir, names[i]) == 0) unlink(path);
    rmdir(entry->toolchain.boot_dir);
}

static void forget(struct toolchain_entry *entry) {
    struct engine *engine = entry->engine;
    withdraw(entry, entry->own->otp);
    withdraw(entry, entry->own->elixir);
    if (entry->successor) remove_boot_file(entry);
    pool_forget(engine->pool, &entry->toolchain);
    compiler_forget(engine->compiler, &entry->toolchain);
    for (struct toolchain_entry *at = engine->toolchains.own; at; at = at->next)
        if (at->successor == entry) at->successor = NULL;
    toolchain_entry_free(entry);
}

void own_sweep(struct engine *engine, bool all) {
    uint64_t now_ms = uv_now(engine->loop);
    struct toolchain_entry **at = &engine->toolchains.own;
    if (engine->closing.is_begun) return;
    while (*at) {
        struct toolchain_entry *entry = *at;
        bool is_old = all || entry->successor || entry->is_gone || now_ms - entry->used_at_ms > OWN_IDLE_MS;
        if (entry->uses > 0 || entry->is_probing || entry->waiters || !is_old) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        engine->toolchains.own_count--;
        forget(entry);
        at = &engine->toolchains.own; /* one whose successor it was is looked at again */
    }
}

/* ---- the registry ---- */

json_t *own_to_json(const struct toolchain_entry *entry) {
    const struct own_place *own = entry->own;
    json_t *place = json_pack("{s:s, s:s}", "home", own->home, "otp", own->otp);
    if (own->elixir) json_object_set_new(place, "elixir", json_string(own->elixir));
    return place;
}

int own_restore(struct engine *engine, uid_t uid, const char *name, json_t *place, struct toolchain_entry **ret,
                struct error *reterr) {
    struct own_place own = {.uid = uid,
                            .home = (char *)json_string_value(json_object_get(place, "home")),
                            .otp = (char *)json_string_value(json_object_get(place, "otp")),
                            .elixir = (char *)json_string_value(json_object_get(place, "elixir"))};
    if (!own.home || !own.otp) return error_set(reterr, E_FORMAT, "the registry does not say where %s is", name);
    *ret = own_entry(engine, name, &own);
    return *ret ? 0 : error_set(reterr, E_LIMIT, "there are too many toolchains of users");
}
