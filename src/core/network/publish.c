/* publish and unpublish: ports of a sandbox that runs, all that are named or none. */
#include <string.h>

#include "core/core_internal.h"
#include "core/network/ports.h"
#include "core/queue.h"
#include "core/sandbox/sandbox.h"

struct publish_job {
    struct job job;
    size_t before;      /* how many ports there were */
    struct error error; /* why it failed, while what was done is undone */
};

static void finish(struct publish_job *publish, const struct error *error) {
    struct sandbox *sandbox = publish->job.sandbox;
    struct engine *engine = sandbox->engine;
    if (error)
        answer_error(engine, publish->job.request, error, NULL);
    else
        answer_ok(engine, publish->job.request, sandbox_to_json(sandbox));
    job_finish(&publish->job);
    free(publish);
}

/* One that runs ends within the launcher's own time. */
static void on_abort(struct job *job, const struct error *why) {
    if (!job->running) finish((struct publish_job *)job, why);
}

static void save(struct sandbox *sandbox) {
    sandbox->times.updated_at_ms = clock_wall_ms();
    if (sandbox->persistent) sandbox_save(sandbox, NULL, NULL);
}

/* ---- publish ---- */

static void give_back(struct publish_job *publish) {
    struct sandbox *sandbox = publish->job.sandbox;
    while (sandbox->config.ports.count > publish->before)
        ports_drop(&sandbox->config.ports, sandbox->config.ports.count - 1);
    charge_ports(sandbox->engine, &sandbox->charge, publish->before, true, NULL);
}

static void on_undone(void *data, const struct error *error) {
    struct publish_job *publish = data;
    (void)error; /* the one that led here is the one to tell */
    give_back(publish);
    finish(publish, &publish->error);
}

static void undo(struct publish_job *publish, const struct error *error) {
    struct sandbox *sandbox = publish->job.sandbox;
    publish->error = *error;
    ports_close(sandbox, publish->before, sandbox->config.ports.count - publish->before, on_undone, publish);
}

static void on_served(void *data, const struct error *error) {
    struct publish_job *publish = data;
    struct sandbox *sandbox = publish->job.sandbox;
    if (error) {
        undo(publish, error);
        return;
    }
    save(sandbox);
    for (size_t i = publish->before; i < sandbox->config.ports.count; i++) ports_tell_opened(sandbox, i);
    finish(publish, NULL);
}

static bool is_served_now(const struct sandbox *sandbox) {
    return sandbox->node && sandbox->status == STATUS_RUNNING;
}

static void on_opened(void *data, const struct error *error) {
    struct publish_job *publish = data;
    struct sandbox *sandbox = publish->job.sandbox;
    if (error)
        undo(publish, error);
    else if (is_served_now(sandbox))
        ports_serve(sandbox, publish->before, on_served, publish);
    else
        on_served(publish, NULL); /* its next node has them */
}

static int check_network(const struct sandbox *sandbox, struct error *reterr) {
    const struct guard_profile *profile = sandbox->config.profile;
    if (sandbox->node && node_is_frozen(sandbox->node))
        return error_set(reterr, E_CONFLICT, "the sandbox '%s' is frozen; thaw it to publish a port", sandbox->id);
    if (profile->forbids_publish)
        return error_set(reterr, E_FORBIDDEN, "the profile '%s' lets nothing be published", profile->jail.name);
    if (profile->jail.network != JAIL_NETWORK_NONE || sandbox->config.ports.has_loopback) return 0;
    return error_set(
        reterr, E_CONFLICT,
        "the sandbox '%s' has no network: its profile '%s' gives it none. Create it with -p, and it has one "
        "for that port alone",
        sandbox->id, profile->jail.name);
}

static int append_all(struct sandbox *sandbox, json_t *texts, struct error *reterr) {
    size_t i;
    json_t *text;
    int result = check_network(sandbox, reterr);
    json_array_foreach(texts, i, text) {
        struct jail_port port;
        if (result == 0) result = jail_port_parse(JAIL_PORT_IN, json_string_value(text), &port, reterr);
        if (result == 0) result = ports_append(&sandbox->config.ports, &port, reterr);
    }
    return result < 0 ? result
                      : charge_ports(sandbox->engine, &sandbox->charge, sandbox->config.ports.count, false, reterr);
}

static void start_publish(struct job *job) {
    struct publish_job *publish = (struct publish_job *)job;
    struct sandbox *sandbox = job->sandbox;
    struct error error;
    publish->before = sandbox->config.ports.count;
    if (append_all(sandbox, json_object_get(job->request->params, "ports"), &error) < 0) {
        give_back(publish);
        finish(publish, &error);
        return;
    }
    ports_open(sandbox, job->request->caller.peer_fd, publish->before, on_opened, publish);
}

/* ---- unpublish ---- */

static void unpublish_next(struct publish_job *publish);

static void on_closed(void *data, const struct error *error) {
    struct publish_job *publish = data;
    struct sandbox *sandbox = publish->job.sandbox;
    if (error) {
        finish(publish, error);
        return;
    }
    ports_tell_closed(sandbox, publish->before);
    ports_drop(&sandbox->config.ports, publish->before);
    charge_ports(sandbox->engine, &sandbox->charge, sandbox->config.ports.count, true, NULL);
    save(sandbox);
    unpublish_next(publish);
}

static void unpublish_next(struct publish_job *publish) {
    struct sandbox *sandbox = publish->job.sandbox;
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(publish->job.request->params, "ports"), i, text) {
        if (ports_find(&sandbox->config.ports, json_string_value(text), &publish->before) < 0) continue;
        ports_close(sandbox, publish->before, 1, on_closed, publish);
        return;
    }
    finish(publish, NULL);
}

static void start_unpublish(struct job *job) {
    struct publish_job *publish = (struct publish_job *)job;
    struct error error;
    size_t i, index;
    json_t *text;
    /* A forwarder that stands still does not end. */
    if (job->sandbox->node && node_is_frozen(job->sandbox->node)) {
        error_set(&error, E_CONFLICT, "the sandbox '%s' is frozen; thaw it to take a port back", job->sandbox->id);
        finish(publish, &error);
        return;
    }
    json_array_foreach(json_object_get(job->request->params, "ports"), i, text) {
        if (ports_find(&job->sandbox->config.ports, json_string_value(text), &index) == 0) continue;
        error_set(&error, E_NOT_FOUND, "the sandbox '%s' has not published %.80s", job->sandbox->id,
                  json_string_value(text));
        finish(publish, &error);
        return;
    }
    unpublish_next(publish);
}

/* ---- both ---- */

static void submit(struct engine *engine, struct request *request, void (*start)(struct job *job)) {
    struct error error;
    struct sandbox *sandbox = sandbox_find(engine, request, &error);
    if (sandbox && start == start_publish && request->caller.peer_fd < 0) {
        error_set(&error, E_INVALID, "only callers on the unix socket may publish a port of this host");
        sandbox = NULL;
    }
    if (!sandbox) {
        answer_error(engine, request, &error, NULL);
        return;
    }
    struct publish_job *publish = new_or_abort(struct publish_job);
    publish->job =
        (struct job){.sandbox = sandbox, .request = request, .exclusive = true, .start = start, .abort = on_abort};
    job_submit(&publish->job);
}

void engine_publish(struct engine *engine, struct request *request) {
    submit(engine, request, start_publish);
}

void engine_unpublish(struct engine *engine, struct request *request) {
    submit(engine, request, start_unpublish);
}
