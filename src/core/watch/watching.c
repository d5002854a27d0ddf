/* Keeping an eye on a sandbox's source: opened by its standing permission, watched by the daemon where that is given a
   folder, signed by the launcher where it is not, and looked for again when it has gone. */
#include "core/watch/watching.h"
#include "core/core_internal.h"
#include "core/reload/reload.h"

#include <stdio.h>
#include <string.h>

enum {
    SIGN_EVERY_MS = 1000,
    RETRY_FIRST_MS = 500, /* then twice as long each time */
    RETRY_MAX_MS = 5000,
};

static void open_source(struct watching *watching);
static void sign_source(struct watching *watching);

/* ---- is it still needed? ---- */

void watching_use(struct watching *watching) {
    watching->users++;
}

void watching_release(struct watching *watching) {
    struct engine *engine = watching->engine;
    if (--watching->users > 0) return;
    json_decref(watching->changed);
    json_decref(watching->bringing);
    json_decref(watching->failure);
    json_decref(watching->last);
    free(watching);
    engine_part_closed(engine);
}

/* ---- what the world hears ---- */

enum watch_state watching_state(const struct watching *watching) {
    if (!watching) return WATCH_OFF;
    return watch_state_of(&(struct watch_facts){
        .is_on = true,
        .has_folder = watching->paused.code == E_NONE && watching->has_looked,
        .is_working = watching->is_working,
        .has_failed = watching->failure != NULL,
        .is_polling = watching->polling[0] != '\0',
    });
}

const char *watching_detail(const struct watching *watching) {
    if (watching->paused.code != E_NONE) return watching->paused.detail;
    if (!watching->has_looked) return "it has not been looked at yet";
    if (watching->attempts > 0) return watching->passing.detail;
    return watching->polling[0] ? watching->polling : NULL;
}

static void answer_beginner(struct watching *watching) {
    struct request *beginner = take_ptr(watching->beginner);
    if (beginner) answer_ok(watching->engine, beginner, watching_json(watching->sandbox));
}

/* Compilations and failures have events of their own: this one is about whether changes are seen. */
static void push_state(struct watching *watching) {
    enum watch_state state = watch_state_of(&(struct watch_facts){
        .is_on = true,
        .has_folder = watching->paused.code == E_NONE,
        .is_polling = watching->polling[0] != '\0',
    });
    answer_beginner(watching);
    if (state == watching->told) return;
    watching->told = state;
    engine_event(watching->engine, EVENT_WATCH, watching->id,
                 json_pack("{s:s, s:s?}", "state", watch_state_name(state), "detail", watching_detail(watching)));
}

/* ---- pausing ---- */

static void on_timer(uv_timer_t *timer) {
    struct watching *watching = timer->data;
    if (watching->is_stream)
        sign_source(watching);
    else
        open_source(watching);
}

static void pause_watching(struct watching *watching, const struct error *why) {
    watching->paused = *why;
    if (why->code == E_FORBIDDEN)
        error_set(&watching->paused, E_FORBIDDEN, "%.400s; turn it on again: sandbox watch %s on", why->detail,
                  watching->id);
    push_state(watching);
}

void watching_reopen(struct watching *watching, const struct error *why) {
    watch_end(take_ptr(watching->watch));
    watching->is_stream = false;
    pause_watching(watching, why);
    uv_timer_start(&watching->timer, on_timer, backoff_ms(RETRY_FIRST_MS, RETRY_MAX_MS, watching->failures++), 0);
}

/* ---- what a look finds ---- */

static void note_changes(struct watching *watching, const struct watch_report *report) {
    if (watching->changed_count == 0) watching->noticed_us = report->noticed_us;
    for (size_t i = 0; i < report->change_count; i++)
        if (json_array_size(watching->changed) < WATCH_PATHS_TOLD)
            json_array_append_new(watching->changed, json_string(report->changes[i].path));
    watching->changed_count += report->change_count;
}

/* Whatever was saved before the first look is found by comparing with the code that runs. */
static void on_seen(struct watching *watching) {
    watching->has_looked = true;
    watching->failures = 0;
    watching->paused = (struct error){0};
    watching->is_due = true;
    push_state(watching);
    watching_bring(watching);
}

static void on_report(void *data, const struct watch_report *report) {
    struct watching *watching = data;
    struct error gone;
    if (report->is_gone) {
        error_set(&gone, E_NOT_FOUND, "%s was moved or removed", watching->sandbox->config.source);
        uv_timer_stop(&watching->timer);
        watch_end(take_ptr(watching->watch));
        watching->paused = gone;
        open_source(watching); /* it may just have been replaced */
        return;
    }
    if (report->error) {
        pause_watching(watching, report->error);
        return;
    }
    snprintf(watching->polling, sizeof watching->polling, "%s", report->polling ? report->polling : "");
    note_changes(watching, report);
    /* A reload may have read what is not there any more. */
    if (report->is_first || report->was_disturbed || report->change_count > 0 || watching->paused.code != E_NONE)
        on_seen(watching);
    else
        push_state(watching);
}

/* ---- a source that only the launcher can look at ---- */

/* Whether what the launcher answers is still wanted. What was asked before it was turned on anew is asked again. */
static bool take_answer(struct watching *watching) {
    bool is_stale = watching->is_stale;
    watching->is_asking = watching->is_stale = false;
    if (watching->sandbox && is_stale) open_source(watching);
    return watching->sandbox && !is_stale;
}

static void on_signed(void *data, uint64_t signature, const struct error *error) {
    struct watching *watching = data;
    if (!take_answer(watching)) {
        watching_release(watching);
        return;
    }
    if (error) {
        watching_reopen(watching, error);
    } else {
        bool is_news = !watching->has_looked || signature != watching->signature;
        watching->signature = signature;
        uv_timer_start(&watching->timer, on_timer, SIGN_EVERY_MS, 0);
        if (is_news && watching->changed_count == 0) watching->noticed_us = clock_monotonic_us();
        if (is_news)
            on_seen(watching);
        else
            watching_bring(watching);
    }
    watching_release(watching);
}

static void sign_source(struct watching *watching) {
    if (watching->is_asking) return;
    watching->is_asking = true;
    watching_use(watching);
    link_sign_granted(watching->engine->host.link, watching->id, on_signed, watching);
}

/* ---- opening ---- */

static const char *const *texts_of(json_t *list, const char *ret[WATCH_PATTERNS_MAX + 1]) {
    size_t count = 0, i;
    json_t *text;
    json_array_foreach(list, i, text) {
        if (count < WATCH_PATTERNS_MAX) ret[count++] = json_string_value(text);
    }
    ret[count] = NULL;
    return ret;
}

static void take_source(struct watching *watching, const struct link_project *project) {
    const struct sandbox_config *config = &watching->sandbox->config;
    const char *include[WATCH_PATTERNS_MAX + 1], *ignore[WATCH_PATTERNS_MAX + 1];
    watching->has_looked = false;
    watching->is_stream = project->is_stream;
    if (watching->is_stream) {
        snprintf(watching->polling, sizeof watching->polling, "%s",
                 project->is_file ? "it is a single file" : "its file system can't show it to the service");
        sign_source(watching);
        return;
    }
    struct watch_patterns patterns = {texts_of(config->watch_include, include), texts_of(config->watch_ignore, ignore)};
    watching->watch =
        watch_begin(watching->engine->watcher, watching->sandbox->owner, project->fd, &patterns, on_report, watching);
}

static void on_opened(void *data, const struct link_project *project, const struct error *error) {
    struct watching *watching = data;
    bool is_wanted = take_answer(watching);
    if (!error) link_release_project(watching->engine->host.link, project->token);
    if (is_wanted && error)
        watching_reopen(watching, error);
    else if (is_wanted)
        take_source(watching, project);
    if (!error) fd_close(project->fd);
    watching_release(watching);
}

static void open_source(struct watching *watching) {
    if (watching->is_asking || watching->watch) return;
    watching->is_asking = true;
    watching_use(watching);
    link_open_granted(watching->engine->host.link, watching->id, on_opened, watching);
}

/* ---- beginning and ending ---- */

void watching_begin(struct sandbox *sandbox) {
    if (sandbox->watching || sandbox->engine->closing.is_begun) return;
    struct watching *watching = new_or_abort(struct watching);
    watching->engine = sandbox->engine;
    watching->sandbox = sandbox;
    memcpy(watching->id, sandbox->id, sizeof watching->id);
    watching->changed = json_array();
    watching->told = WATCH_OFF;
    watching->users = 1;
    engine_part_open(watching->engine);
    uv_timer_init(watching->engine->loop, &watching->timer);
    watching->timer.data = watching;
    sandbox->watching = watching;
    open_source(watching);
}

static void forget_source(struct watching *watching, const char *why) {
    struct request *beginner = take_ptr(watching->beginner);
    if (beginner) answer_fail(watching->engine, beginner, E_CONFLICT, "%s", why);
    watch_end(take_ptr(watching->watch));
    uv_timer_stop(&watching->timer);
}

void watching_renew(struct sandbox *sandbox) {
    struct watching *watching = sandbox->watching;
    forget_source(watching, "watching was turned on anew meanwhile");
    watching->is_stream = watching->has_looked = false;
    watching->is_stale = watching->is_asking;
    watching->failures = 0;
    watching->paused = (struct error){0};
    watching->polling[0] = '\0';
    watching->told = WATCH_OFF;
    open_source(watching);
}

static void on_timer_closed(uv_handle_t *handle) {
    watching_release(handle->data);
}

void watching_end(struct sandbox *sandbox) {
    struct watching *watching = take_ptr(sandbox->watching);
    if (!watching) return;
    forget_source(watching, "watching was turned off meanwhile");
    watching->sandbox = NULL;
    uv_close((uv_handle_t *)&watching->timer, on_timer_closed);
}

/* A reload under way reads the files at moments of its own, also what is saved after this. */
void watching_stop(struct sandbox *sandbox, void (*stopped)(void *data), void *data) {
    struct watching *watching = sandbox->watching;
    struct error why;
    watching_end(sandbox);
    if (!watching || !watching->is_working) {
        stopped(data);
        return;
    }
    watching->stopped = stopped;
    watching->stopped_data = data;
    error_set(&why, E_CONFLICT, "watching was turned off");
    reload_call_off(sandbox, &watching->reload, &why);
}

void watching_call_off(struct sandbox *sandbox, const struct error *why) {
    struct request *beginner = sandbox->watching ? take_ptr(sandbox->watching->beginner) : NULL;
    if (beginner) answer_error(sandbox->engine, beginner, why, NULL);
}

void watching_wake(struct sandbox *sandbox) {
    if (sandbox->watching) watching_bring(sandbox->watching);
}
