/* A user's own toolchain, when it is needed: are its files as they were, what is in its folders, does a VM of it run?
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"

struct own_check {
    struct toolchain_entry *entry;
    char otp_grant[TOOLCHAIN_GRANT_BYTES], elixir_grant[TOOLCHAIN_GRANT_BYTES];
    uint64_t signatures[2]; /* of OTP and Elixir */
    size_t signed_count, opened_count;
    int fds[2];
    char tokens[2][65];
    uv_work_t work;
    struct toolchain found;
    struct error error;
};

static void note_error(struct toolchain_entry *entry, const struct error *error) {
    entry->error = *error;
    if (error->code == E_NOT_FOUND || error->code == E_FORBIDDEN)
        error_set(&entry->error, E_TOOLCHAIN, "it is not installed any more, or its user has to name it again: %s",
                  error->detail);
    entry->retry_at_ms = uv_now(entry->engine->loop) + TOOLCHAIN_RETRY_MS;
}

static void begin_next(struct engine *engine, uid_t uid);

static void end(struct own_check *check, const struct error *error) {
    struct toolchain_entry *entry = check->entry;
    for (size_t i = 0; i < check->opened_count; i++) {
        fd_close(check->fds[i]);
        link_release_project(entry->engine->host.link, check->tokens[i]);
    }
    entry->is_probing = false;
    entry->error = (struct error){0};
    if (error)
        note_error(entry, error);
    else
        entry->checked_at_ms = uv_now(entry->engine->loop);
    free(check);
    struct engine *engine = entry->engine;
    uid_t uid = entry->own->uid;
    entry->uses++; /* a waiter may let it go */
    toolchain_tell_waiters(entry);
    entry->uses--;
    begin_next(engine, uid);
    engine_wake(engine);
}

static void on_probed(void *data, const struct error *error) {
    end(data, error);
}

/* ---- what is in its folders ---- */

static void find(uv_work_t *work) {
    struct own_check *check = work->data;
    const struct toolchain_folders folders = {.otp_fd = check->fds[0],
                                              .elixir_fd = check->elixir_grant[0] ? check->fds[1] : -1,
                                              .owner = check->entry->own->uid,
                                              .otp_signature = check->signatures[0],
                                              .elixir_signature = check->signatures[1],
                                              .otp_grant = check->otp_grant,
                                              .elixir_grant = check->elixir_grant};
    toolchain_find_own(&folders, check->entry->engine->config.agent_stamp, &check->found, &check->error);
}

static void on_found(uv_work_t *work, int status) {
    struct own_check *check = work->data;
    struct toolchain_entry *entry = check->entry;
    (void)status;
    if (check->error.code == E_NONE && entry->engine->closing.is_begun) {
        toolchain_free(&check->found);
        error_set(&check->error, E_SHUTDOWN, "the service is shutting down");
    }
    if (check->error.code) {
        end(check, &check->error);
        return;
    }
    toolchain_free(&entry->toolchain);
    entry->toolchain = check->found;
    toolchain_probe(&entry->engine->host, &entry->toolchain, on_probed, check);
}

static size_t folder_count(const struct own_check *check) {
    return check->elixir_grant[0] ? 2 : 1;
}

static void open_next(struct own_check *check);

static void on_opened(void *data, const struct link_project *project, const struct error *error) {
    struct own_check *check = data;
    if (error) {
        end(check, error);
        return;
    }
    snprintf(check->tokens[check->opened_count], sizeof check->tokens[0], "%s", project->token);
    check->fds[check->opened_count++] = project->fd;
    open_next(check);
}

static void open_next(struct own_check *check) {
    struct node_host *host = &check->entry->engine->host;
    if (check->opened_count < folder_count(check)) {
        link_open_granted_toolchain(host->link, check->opened_count == 0 ? check->otp_grant : check->elixir_grant,
                                    on_opened, check);
        return;
    }
    check->work.data = check;
    host_work(host, check->entry->own->uid, &check->work, find, on_found);
}

/* ---- are its files as they were? ---- */

static bool is_as_it_was(const struct own_check *check) {
    const struct toolchain_entry *entry = check->entry;
    struct toolchain_folders now = {.owner = entry->own->uid,
                                    .otp_signature = check->signatures[0],
                                    .elixir_signature = check->signatures[1],
                                    .otp_grant = check->otp_grant,
                                    .elixir_grant = check->elixir_grant};
    char digest[sizeof entry->toolchain.digest];
    return toolchain_own_digest(&now, entry->engine->config.agent_stamp, digest, NULL) == 0 &&
           strcmp(digest, entry->toolchain.digest) == 0;
}

/* Nodes and compilers of the old files refer to what was known of them. */
static void go_on(struct own_check *check) {
    struct toolchain_entry *entry = check->entry;
    bool is_known = entry->toolchain.digest[0] != '\0';
    if (is_known && is_as_it_was(check) && entry->toolchain.boot_dir[0]) {
        end(check, NULL);
    } else if (is_known && !is_as_it_was(check)) {
        own_need(own_succeed(entry), on_probed, check);
    } else {
        open_next(check);
    }
}

static void on_signed(void *data, uint64_t signature, const struct error *error) {
    struct own_check *check = data;
    if (error) {
        end(check, error);
        return;
    }
    check->signatures[check->signed_count++] = signature;
    if (check->signed_count < folder_count(check))
        link_sign_toolchain(check->entry->engine->host.link, check->elixir_grant, on_signed, check);
    else
        go_on(check);
}

/* ---- one at a time for each user, whatever its callers ask for: each is a VM ---- */

static bool is_user_busy(const struct toolchain_entry *entry) {
    for (const struct toolchain_entry *at = entry->engine->toolchains.own; at; at = at->next)
        if (at->is_probing && own_is_of(at, entry->own->uid) && at->successor != entry) return true;
    return false;
}

static void begin(struct toolchain_entry *entry) {
    struct own_check *check = new_or_abort(struct own_check);
    *check = (struct own_check){.entry = entry, .fds = {-1, -1}};
    own_grant_name(entry->own->uid, entry->own->otp, check->otp_grant);
    if (entry->own->elixir) own_grant_name(entry->own->uid, entry->own->elixir, check->elixir_grant);
    entry->is_probing = true;
    link_sign_toolchain(entry->engine->host.link, check->otp_grant, on_signed, check);
}

static void begin_next(struct engine *engine, uid_t uid) {
    for (struct toolchain_entry *entry = engine->toolchains.own; entry; entry = entry->next)
        if (entry->waiters && !entry->is_probing && own_is_of(entry, uid) && !is_user_busy(entry)) {
            begin(entry);
            return;
        }
}

bool own_is_checked(const struct toolchain_entry *entry) {
    bool is_fresh = entry->checked_at_ms > 0 && uv_now(entry->engine->loop) - entry->checked_at_ms < OWN_CHECKED_MS;
    return entry->toolchain.boot_dir[0] && !entry->error.code && !entry->is_gone && is_fresh;
}

void own_need(struct toolchain_entry *entry, void (*done)(void *data, const struct error *error), void *data) {
    if (entry->successor) {
        own_need(entry->successor, done, data);
        return;
    }
    if (own_is_checked(entry)) {
        done(data, NULL);
        return;
    }
    if (toolchain_wait(entry, done, data) && !entry->is_probing && !is_user_busy(entry)) begin(entry);
}
