/* watch: turning it on and off, and how it is doing. */
#include "core/policy/permission.h"
#include "core/sandbox/sandbox.h"
#include "core/watch/watching.h"

#include <string.h>

struct watch_call {
    struct sandbox_ref ref;
    struct request *request;
    bool was_on;
};

json_t *watching_json(struct sandbox *sandbox) {
    const struct watching *watching = sandbox->watching;
    const struct sandbox_config *config = &sandbox->config;
    const char *detail = watching ? watching_detail(watching) : NULL;
    json_t *object =
        json_pack("{s:s, s:b, s:s, s:s?, s:s, s:O?, s:O?, s:O?, s:O?}", "id", sandbox->id, "auto_reload", config->watch,
                  "state", watch_state_name(watching_state(watching)), "detail", detail, "source", config->source,
                  "ignore", config->watch_ignore, "include", config->watch_include, "failure",
                  watching ? watching->failure : NULL, "last_reload", watching ? watching->last : NULL);
    json_object_set_new(object, "files",
                        watching && watching->watch ? json_integer((json_int_t)watch_file_count(watching->watch))
                                                    : json_null());
    json_object_set_new(object, "reload_count", json_integer(watching ? (json_int_t)watching->reload_count : 0));
    json_object_set_new(object, "failure_count", json_integer(watching ? (json_int_t)watching->failure_count : 0));
    return object;
}

/* ---- turning it on or off: the registry knows before the caller does ---- */

static void set_patterns(json_t **list, json_t *params, const char *name) {
    json_t *given = json_object_get(params, name);
    if (!given) return;
    json_decref(*list);
    *list = json_incref(given);
}

static void end_call(struct watch_call *call) {
    call->ref.engine->asking--;
    engine_wake(call->ref.engine);
    free(call);
}

/* Anew, by the permission just given. The answer comes with the first look. */
static void begin_anew(struct sandbox *sandbox, struct request *request) {
    if (sandbox->watching)
        watching_renew(sandbox);
    else
        watching_begin(sandbox);
    if (sandbox->watching)
        sandbox->watching->beginner = request;
    else
        answer_fail(sandbox->engine, request, E_SHUTDOWN, "the service is shutting down");
}

static void on_saved(void *data, const struct error *error) {
    struct watch_call *call = data;
    struct sandbox *sandbox = sandbox_deref(&call->ref);
    if (error)
        answer_error(call->ref.engine, call->request, error, NULL);
    else if (!sandbox || sandbox->ending.is_destroying)
        answer_fail(call->ref.engine, call->request, E_NOT_FOUND, "there is no sandbox '%s' any more", call->ref.id);
    else if (sandbox->config.watch)
        begin_anew(sandbox, call->request);
    else
        answer_ok(call->ref.engine, call->request, watching_json(sandbox));
    end_call(call);
}

/* A sandbox that is still being created is saved when it is whole. */
static void save(struct sandbox *sandbox, struct watch_call *call) {
    if (sandbox->persistent)
        sandbox_save(sandbox, on_saved, call);
    else
        on_saved(call, NULL);
}

static void on_granted(void *data, const struct error *error) {
    struct watch_call *call = data;
    json_t *params = call->request->params;
    struct sandbox *sandbox = sandbox_deref(&call->ref);
    if (error || !sandbox) {
        struct error gone;
        error_set(&gone, E_NOT_FOUND, "there is no sandbox '%s' any more", call->ref.id);
        answer_error(call->ref.engine, call->request, error ? error : &gone, NULL);
        end_call(call);
        return;
    }
    set_patterns(&sandbox->config.migrate, params, "migrate");
    set_patterns(&sandbox->config.watch_ignore, params, "watch_ignore");
    set_patterns(&sandbox->config.watch_include, params, "watch_include");
    sandbox->config.watch = true;
    save(sandbox, call);
}

static void on_stopped(void *data) {
    struct watch_call *call = data;
    struct sandbox *sandbox = sandbox_deref(&call->ref);
    if (!sandbox) {
        on_saved(call, NULL);
        return;
    }
    if (call->was_on)
        engine_event(call->ref.engine, EVENT_WATCH, call->ref.id,
                     json_pack("{s:s, s:n}", "state", watch_state_name(WATCH_OFF), "detail"));
    save(sandbox, call);
}

static void turn_off(struct sandbox *sandbox, struct watch_call *call) {
    call->was_on = sandbox->config.watch;
    sandbox->config.watch = false;
    if (call->was_on) link_withdraw(sandbox->engine->host.link, sandbox->id);
    watching_stop(sandbox, on_stopped, call);
}

static void change(struct sandbox *sandbox, struct request *request, bool is_on) {
    struct watch_call *call = new_or_abort(struct watch_call);
    *call = (struct watch_call){.ref = sandbox_ref(sandbox), .request = request};
    call->ref.engine->asking++;
    if (is_on)
        link_grant(call->ref.engine->host.link, request->caller.peer_fd, sandbox->id, sandbox->config.source,
                   on_granted, call);
    else
        turn_off(sandbox, call);
}

void engine_watch(struct engine *engine, struct request *request) {
    struct error error;
    const char *action = json_string_value(json_object_get(request->params, "action"));
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    bool is_on = string_equal(action, "on");
    if (sandbox && is_on && sandbox->config.with) {
        error_set(&error, E_INVALID,
                  "the project of '%s' reads other folders, which are not watched: reload it by hand", sandbox->id);
        answer_error(engine, request, &error, NULL);
    } else if (!sandbox || (is_on && caller_check_paths(&request->caller, &error) < 0) ||
               migrations_check(json_object_get(request->params, "migrate"), &error) < 0)
        answer_error(engine, request, &error, NULL);
    else if (string_equal(action, "status"))
        answer_ok(engine, request, watching_json(sandbox));
    else
        change(sandbox, request, is_on);
}
