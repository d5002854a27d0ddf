/* The configuration beside the code: whether a reload brings another one, and applying it to the VM that runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reload/reload_job.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/tree.h"

enum {
    CONFIGURE_DEADLINE_MS = 60000,
    APPLICATIONS_TOLD = 64,
    OUTCOME_MAX_BYTES = 1024,
    APPLICATION_NAME_BYTES = 255,
};

/* ---- whether it is another one: on the pool ---- */

static void load(const char *build, uint8_t **ret, size_t *ret_size) {
    char path[PATH_MAX + sizeof "/" BUILD_CONFIG_FILE];
    struct error ignored;
    snprintf(path, sizeof path, "%s/" BUILD_CONFIG_FILE, build);
    file_load(path, BUILD_CONFIG_MAX_BYTES, ret, ret_size, &ignored); /* a build without one has no file */
}

bool reload_config_differs(const char *from_path, const char *to_path) {
    CLEANUP_FREE uint8_t *from = NULL, *to = NULL;
    size_t from_size = 0, to_size = 0;
    load(from_path, &from, &from_size);
    load(to_path, &to, &to_size);
    return from_size != to_size || (to_size > 0 && memcmp(from, to, to_size) != 0);
}

/* ---- applying it ---- */

static void tell(struct reload_job *reload, const char *status, json_t *applications) {
    json_t *told = json_pack("{s:s}", "status", status);
    if (applications) json_object_set_new(told, "applications", applications);
    json_object_set_new(reload->result, "configuration", told);
}

static json_t *told_application(const struct term *term) {
    CLEANUP_FREE char *name = NULL, *outcome = NULL;
    const struct term *named = term_map_get(term, "name"), *ended = term_map_get(term, "outcome");
    uint64_t keys = 0;
    const struct term *count = term_map_get(term, "keys");
    if (!named || !term_to_text(named, APPLICATION_NAME_BYTES, &name) || !utf8_valid((uint8_t *)name, strlen(name)))
        return NULL;
    if (!ended || !term_to_text(ended, OUTCOME_MAX_BYTES, &outcome) || !utf8_valid((uint8_t *)outcome, strlen(outcome)))
        return NULL;
    if (count && (!term_to_uint64(count, &keys) || keys > INT32_MAX)) keys = 0;
    return json_pack("{s:s, s:I, s:s}", "name", name, "keys", (json_int_t)keys, "outcome", outcome);
}

static json_t *told_applications(const struct term *result) {
    json_t *told = json_array();
    const struct term *list = term_map_get(result, "applications");
    for (size_t i = 0; i < APPLICATIONS_TOLD; i++) {
        const struct term *entry = list ? term_at(list, i) : NULL;
        json_t *application = entry ? told_application(entry) : NULL;
        if (!entry) break;
        if (application) json_array_append_new(told, application);
    }
    return told;
}

static void on_configured(void *data, const struct term *result, const struct term *reason, const struct error *error) {
    struct reload_job *reload = data;
    struct error failure;
    (void)reason;
    reload->call_id = 0;
    if (error) {
        error_set(&failure, E_RUNTIME, "the configuration could not be applied, and is as it was: %s", error->detail);
        step_done(&reload->steps, &failure);
        return;
    }
    tell(reload, "applied", told_applications(result));
    step_done(&reload->steps, NULL);
}

/* On the pool. */
static void read_build(uv_work_t *work) {
    struct reload_job *reload = work->data;
    start_args_put_config(reload->config_path, &reload->config_args);
}

static void ask(uv_work_t *work, int status) {
    struct reload_job *reload = work->data;
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    (void)status;
    loop_note(reload->loop, "reload", sandbox->id);
    if (reload->steps.is_called_off || sandbox_check_runs(sandbox, &error) < 0) {
        buf_free(&reload->config_args);
        step_done(&reload->steps, reload->steps.is_called_off ? &reload->steps.why : &error);
        return;
    }
    reload->call_id =
        node_call(sandbox->node, "configure", &reload->config_args, CONFIGURE_DEADLINE_MS, on_configured, reload);
}

static void begin(struct reload_job *reload) {
    struct sandbox *sandbox = reload->job.sandbox;
    reload->config_args = (struct buf)BUF_INIT;
    struct term_map map = term_map_begin(&reload->config_args);
    start_args_put_given(&map, &sandbox->config);
    term_map_key(&map, "config");
    term_map_end(&map); /* its value is put by the pool */
    reload->config_path[0] = '\0';
    start_args_find_config(sandbox, reload->config_path);
    reload->work.data = reload;
    host_work(&sandbox->engine->host, sandbox->owner, &reload->work, read_build, ask);
}

void reload_abort_configuring(void *job) {
    struct reload_job *reload = job;
    struct node *node = reload->job.sandbox->node;
    if (!reload->call_id) return; /* the pool is at work, and looks */
    if (node) node_cancel(node, reload->call_id);
    step_aborted(&reload->steps);
}

void reload_configure(void *job) {
    struct reload_job *reload = job;
    struct sandbox *sandbox = reload->job.sandbox;
    struct error error;
    bool is_wanted = json_is_true(reload_param(reload, "config")) && !reload_is_dry(reload);
    if (!is_wanted) {
        if (reload->is_other_config) tell(reload, "changed", NULL);
        step_done(&reload->steps, NULL);
    } else if (sandbox_check_runs(sandbox, &error) < 0) {
        step_done(&reload->steps, &error);
    } else {
        begin(reload);
    }
}
