/* The list of toolchains, and the probe of each when it is first needed: jobs that need it wait until its boot file is
   made. */
#include "core/toolchains/toolchains.h"

#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"

struct toolchain_waiter {
    struct toolchain_waiter *next;
    void (*done)(void *data, const struct error *error);
    void *data;
};

/* ---- the list ---- */

struct toolchain_entry *toolchain_entry_free(struct toolchain_entry *entry) {
    if (!entry) return NULL;
    if (entry->own) {
        free(entry->own->home);
        free(entry->own->otp);
        free(entry->own->elixir);
    }
    free(entry->own);
    toolchain_free(&entry->toolchain);
    free(entry->otp);
    free(entry->elixir);
    free(entry->root);
    free(entry);
    return NULL;
}

/* As sandboxes are named. */
static bool is_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return length > 0 && length <= TOOLCHAIN_NAMED_MAX && !name[length] && name[0] != '.' && name[0] != '-';
}

static struct toolchain_entry *find(const struct toolchains *toolchains, const char *name) {
    for (size_t i = 0; i < toolchains->count; i++)
        if (strcmp(toolchains->items[i]->name, name) == 0) return toolchains->items[i];
    return NULL;
}

struct toolchain_entry *toolchain_entry_new(struct engine *engine, const char *name) {
    struct toolchain_entry *entry = new_or_abort(struct toolchain_entry);
    entry->engine = engine;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return entry;
}

int toolchains_add(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr) {
    struct toolchains *toolchains = &engine->toolchains;
    if (!is_name(name)) return error_set(reterr, E_INVALID, "'%.60s' is no name for a toolchain", name);
    if (find(toolchains, name)) return error_set(reterr, E_INVALID, "there is a toolchain '%s' already", name);
    if (toolchains->count == TOOLCHAINS_MAX)
        return error_set(reterr, E_INVALID, "there are more than %d toolchains", TOOLCHAINS_MAX);
    *ret = toolchains->items[toolchains->count++] = toolchain_entry_new(engine, name);
    return 0;
}

struct toolchain_entry *toolchains_default(struct engine *engine) {
    return engine->toolchains.chosen ? engine->toolchains.chosen : engine->toolchains.items[0];
}

int toolchains_set_default(struct engine *engine, const char *name, struct error *reterr) {
    struct toolchain_entry *entry = find(&engine->toolchains, name);
    if (!entry) return error_set(reterr, E_INVALID, "toolchain: there is no toolchain '%.60s' in sandbox.conf", name);
    engine->toolchains.chosen = entry;
    return 0;
}

int toolchains_find(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr) {
    struct toolchain_entry *entry = name && name[0] ? find(&engine->toolchains, name) : toolchains_default(engine);
    if (!entry)
        return error_set(reterr, E_INVALID, "there is no toolchain '%.60s'; `sandbox toolchains` lists them", name);
    *ret = entry;
    return 0;
}

int toolchains_restore(struct engine *engine, const char *name, struct toolchain_entry **ret, struct error *reterr) {
    struct error absent;
    if (!name) name = TOOLCHAIN_SYSTEM; /* the only default that there was when names were not kept */
    if (toolchains_find(engine, name, ret, &absent) == 0) return 0;
    if (toolchains_add(engine, name, ret, reterr) < 0) return -(int)reterr->code;
    (*ret)->is_gone = true;
    error_set(&(*ret)->error, E_TOOLCHAIN, "the toolchain '%s' is not in the settings any more", name);
    return 0;
}

void toolchains_free(struct toolchains *toolchains) {
    for (size_t i = 0; i < toolchains->count; i++) toolchain_entry_free(toolchains->items[i]);
    while (toolchains->retired) {
        struct toolchain_entry *next = toolchains->retired->next;
        toolchain_entry_free(toolchains->retired);
        toolchains->retired = next;
    }
    while (toolchains->own) {
        struct toolchain_entry *next = toolchains->own->next;
        toolchain_entry_free(toolchains->own);
        toolchains->own = next;
    }
    toolchains->count = toolchains->own_count = 0;
    toolchains->chosen = NULL;
}

/* ---- probing ---- */

void toolchain_tell_waiters(struct toolchain_entry *entry) {
    struct toolchain_waiter *waiter = take_ptr(entry->waiters);
    while (waiter) {
        struct toolchain_waiter *next = waiter->next;
        waiter->done(waiter->data, entry->error.code ? &entry->error : NULL);
        free(waiter);
        waiter = next;
    }
}

static void on_probed(void *data, const struct error *error) {
    struct toolchain_entry *entry = data;
    entry->is_probing = false;
    entry->error = error ? *error : (struct error){0};
    entry->retry_at_ms = uv_now(entry->engine->loop) + TOOLCHAIN_RETRY_MS;
    if (error) engine_log_error(entry->engine, "toolchain_unusable", NULL, error);
    toolchain_tell_waiters(entry);
    engine_wake(entry->engine);
}

/* Files and libraries of the installation are looked for on the pool: its disk may be slow. */
struct look_up {
    uv_work_t work;
    struct toolchain_entry *entry;
    struct toolchain found;
    struct error error;
};

static void look_up(uv_work_t *work) {
    struct look_up *search = work->data;
    const struct toolchain_entry *entry = search->entry;
    const struct engine_config *config = &entry->engine->config;
    bool is_system = strcmp(entry->name, TOOLCHAIN_SYSTEM) == 0; /* PATH is the service's own */
    const struct toolchain_place place = {entry->root, entry->otp, entry->elixir, !is_system};
    toolchain_find(&place, config->agent_dir, config->agent_stamp, &search->found, &search->error);
}

static void on_looked_up(uv_work_t *work, int status) {
    struct look_up *search = work->data;
    struct toolchain_entry *entry = search->entry;
    struct engine *engine = entry->engine;
    struct error error = search->error;
    (void)status;
    loop_note(engine->loop, "toolchain", entry->name);
    if (error.code == E_NONE) entry->toolchain = search->found;
    free(search);
    if (error.code == E_NONE && engine->closing.is_begun) error_set(&error, E_SHUTDOWN, "the service is shutting down");
    if (error.code == E_NONE)
        toolchain_probe(&engine->host, &entry->toolchain, on_probed, entry);
    else
        on_probed(entry, &error);
}

static void begin_look_up(struct toolchain_entry *entry) {
    struct look_up *search = new_or_abort(struct look_up);
    search->entry = entry;
    search->work.data = search;
    if (loop_queue_work(entry->engine->loop, &search->work, look_up, on_looked_up) == 0) return;
    look_up(&search->work); /* the loop ends */
    on_looked_up(&search->work, 0);
}

bool toolchain_wait(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data) {
    bool is_early = uv_now(entry->engine->loop) < entry->retry_at_ms, is_lost = entry->is_gone && !entry->own;
    if (entry->error.code && (is_lost || is_early)) {
        done(data, &entry->error);
        return false;
    }
    struct toolchain_waiter *waiter = new_or_abort(struct toolchain_waiter);
    *waiter = (struct toolchain_waiter){.next = entry->waiters, .done = done, .data = data};
    entry->waiters = waiter;
    return true;
}

/* ---- is it still there? ---- */

struct file_check {
    uv_work_t work;
    struct toolchain_entry *entry;
    struct error error;
    void (*done)(void *data, const struct error *error);
    void *data;
};

static void check_files(uv_work_t *work) {
    struct file_check *check = work->data;
    toolchain_check_files(&check->entry->toolchain, &check->error);
}

static void on_checked(uv_work_t *work, int status) {
    struct file_check *check = work->data;
    struct toolchain_entry *entry = check->entry;
    struct engine *engine = entry->engine;
    (void)status;
    engine->toolchains.checks--;
    if (engine->closing.is_begun) error_set(&check->error, E_SHUTDOWN, "the service is shutting down");
    if (check->error.code == E_TOOLCHAIN && !entry->successor) toolchains_renew(entry);
    if (check->error.code == E_TOOLCHAIN && entry->successor)
        toolchain_need(entry->successor, check->done, check->data);
    else
        check->done(check->data, check->error.code ? &check->error : NULL);
    free(check);
    engine_wake(engine);
}

static void begin_check(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error),
                        void *data) {
    struct file_check *check = new_or_abort(struct file_check);
    *check = (struct file_check){.entry = entry, .done = done, .data = data};
    check->work.data = check;
    entry->engine->toolchains.checks++;
    if (loop_queue_work(entry->engine->loop, &check->work, check_files, on_checked) == 0) return;
    check_files(&check->work); /* the loop ends */
    on_checked(&check->work, 0);
}

void toolchain_need(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data) {
    if (entry->own) {
        own_need(entry, done, data);
        return;
    }
    if (entry->toolchain.boot_dir[0]) {
        begin_check(entry, done, data);
        return;
    }
    if (!toolchain_wait(entry, done, data) || entry->is_probing) return;
    entry->is_probing = true;
    if (entry->toolchain.otp_root[0])
        toolchain_probe(&entry->engine->host, &entry->toolchain, on_probed, entry);
    else
        begin_look_up(entry);
}

void toolchain_hold(struct toolchain_entry **place, struct toolchain_entry *entry) {
    struct toolchain_entry *before = *place;
    while (entry && entry->successor) entry = entry->successor;
    if (entry) entry->uses++;
    *place = entry;
    if (!before) return;
    before->uses--;
    if (!before->own) return;
    before->used_at_ms = uv_now(before->engine->loop);
    own_sweep(before->engine);
}

void toolchains_abort_probes(struct toolchains *toolchains) {
    for (size_t i = 0; i < toolchains->count; i++) toolchain_probe_abort(&toolchains->items[i]->toolchain);
    for (struct toolchain_entry *entry = toolchains->retired; entry; entry = entry->next)
        toolchain_probe_abort(&entry->toolchain);
    for (struct toolchain_entry *entry = toolchains->own; entry; entry = entry->next)
        toolchain_probe_abort(&entry->toolchain);
}

bool toolchains_are_probed(const struct toolchains *toolchains) {
    for (size_t i = 0; i < toolchains->count; i++)
        if (toolchains->items[i]->is_probing) return false;
    for (const struct toolchain_entry *entry = toolchains->retired; entry; entry = entry->next)
        if (entry->is_probing) return false;
    for (const struct toolchain_entry *entry = toolchains->own; entry; entry = entry->next)
        if (entry->is_probing) return false;
    return !toolchains->looks && toolchains->checks == 0;
}
