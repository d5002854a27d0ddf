/* The users' own toolchains that are known: which of them are used, by how many, and which are forgotten. */
#include "core/toolchains/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"

enum { SWEPT_MAX = 64 }; /* in one turn of the loop */

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

/* One place may have two names. */
static bool is_boot_file_of_other(const struct toolchain_entry *entry) {
    for (const struct toolchain_entry *at = entry->engine->toolchains.own; at; at = at->next)
        if (at != entry && strcmp(at->toolchain.digest, entry->toolchain.digest) == 0) return true;
    return false;
}

/* It is in no quota, so it goes with the entry. Another user's content can't have made it: the digest has the user in
   it. */
static void remove_boot_file(const struct toolchain_entry *entry) {
    static const char *const names[] = {"node.boot", "facts"};
    char path[PATH_MAX];
    if (!entry->toolchain.boot_dir[0] || is_boot_file_of_other(entry)) return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (string_format(path, sizeof path, NULL, "%s/%s", entry->toolchain.boot_dir, names[i]) == 0) unlink(path);
    rmdir(entry->toolchain.boot_dir);
}

static void take_out(struct toolchain_entry *entry) {
    for (struct toolchain_entry **at = &entry->engine->toolchains.own; *at; at = &(*at)->next) {
        if (*at != entry) continue;
        *at = entry->next;
        entry->engine->toolchains.own_count--;
        return;
    }
}

static void forget(struct toolchain_entry *entry) {
    struct engine *engine = entry->engine;
    withdraw(entry, entry->own->otp);
    withdraw(entry, entry->own->elixir);
    remove_boot_file(entry);
    take_out(entry);
    pool_forget(engine->pool, &entry->toolchain);
    compiler_forget(engine->compiler, &entry->toolchain);
    for (struct toolchain_entry *at = engine->toolchains.own; at; at = at->next)
        if (at->successor == entry) at->successor = NULL;
    toolchain_entry_free(entry);
}

static bool is_unused(const struct toolchain_entry *entry) {
    return entry->uses == 0 && !entry->is_probing && !entry->waiters;
}

/* Some in each turn of the loop, which users could fill with them; the others soon: whatever is let go sweeps. */
static bool has_swept_enough(struct toolchains *toolchains, uint64_t now_ms) {
    if (toolchains->swept_at_ms != now_ms) toolchains->swept_count = 0;
    toolchains->swept_at_ms = now_ms;
    return toolchains->swept_count >= SWEPT_MAX;
}

void own_sweep(struct engine *engine) {
    uint64_t now_ms = uv_now(engine->loop);
    struct toolchain_entry *entry = engine->toolchains.own;
    if (engine->closing.is_begun) return;
    while (entry && !has_swept_enough(&engine->toolchains, now_ms)) {
        bool is_old = entry->successor || entry->is_gone || now_ms - entry->used_at_ms > OWN_IDLE_MS;
        if (!is_unused(entry) || !is_old) {
            entry = entry->next;
            continue;
        }
        forget(entry);
        engine->toolchains.swept_count++;
        entry = engine->toolchains.own; /* one whose successor it was is looked at again */
    }
}

/* ---- what earlier daemons left ---- */

static void remove_files_of(int parent_fd, const char *folder) {
    static const char *const names[] = {"node.boot", "facts"};
    CLEANUP_FD int fd = openat(parent_fd, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(names); i++) unlinkat(fd, names[i], 0);
    unlinkat(parent_fd, folder, AT_REMOVEDIR);
}

/* All of users: their toolchains are probed again when they are needed. */
void own_sweep_boot_files(const char *home) {
    char path[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "%s/toolchain", home) < 0) return;
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (entry->d_name[0] == 'u') remove_files_of(dirfd(listing), entry->d_name);
    if (listing) closedir(listing);
}

static void put_permission(struct buf *lines, const struct own_place *own, const char *path) {
    char name[TOOLCHAIN_GRANT_BYTES];
    if (!path) return;
    own_grant_name(own->uid, path, name);
    buf_printf(lines, "%s\n", name);
}

/* Where there are too many to name in one message, all stay. */
void own_sweep_permissions(struct engine *engine) {
    CLEANUP(buf_free) struct buf lines = {.max = JAIL_MESSAGE_BYTES - 64};
    for (const struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next) {
        put_permission(&lines, entry->own, entry->own->otp);
        put_permission(&lines, entry->own, entry->own->elixir);
    }
    if (!lines.failed) link_keep_toolchains(engine->host.link, &lines);
}

/* ---- making room ---- */

static struct toolchain_entry *find_known(struct engine *engine, const char *name, const struct own_place *place) {
    for (struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next)
        if (!entry->successor && strcmp(entry->name, name) == 0 && is_same_place(entry->own, place)) return entry;
    return NULL;
}

bool own_is_of(const struct toolchain_entry *entry, uid_t uid) {
    const struct quotas *quotas = entry->engine->config.quotas;
    return quotas_principal(quotas, entry->own->uid) == quotas_principal(quotas, uid);
}

/* Of one user's. They are listed by the latest first. */
static struct toolchain_entry *oldest_unused(struct engine *engine, uid_t uid) {
    struct toolchain_entry *oldest = NULL;
    for (struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next)
        if (own_is_of(entry, uid) && is_unused(entry)) oldest = entry;
    return oldest;
}

/* A user that has its share gives up its own oldest for the new one. */
static bool make_room(struct engine *engine, uid_t uid) {
    struct share share = {.all = OWN_ENTRIES_MAX, .used = engine->toolchains.own_count + 1, .own = 1};
    for (const struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next)
        share.own += own_is_of(entry, uid);
    if (quotas_is_fair(engine->config.quotas, uid, &share)) return true;
    struct toolchain_entry *oldest = engine->closing.is_begun ? NULL : oldest_unused(engine, uid);
    if (oldest) forget(oldest);
    return oldest;
}

struct toolchain_entry *own_entry(struct engine *engine, const char *name, const struct own_place *place) {
    struct toolchain_entry *known = find_known(engine, name, place);
    return known || !make_room(engine, place->uid) ? known : add(engine, name, place);
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
    /* As many as there are sandboxes: none is lost for want of room. */
    *ret = find_known(engine, name, &own);
    if (!*ret) *ret = add(engine, name, &own);
    return 0;
}
