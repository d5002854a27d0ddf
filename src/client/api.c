/* The functions of sandbox.h. Each builds a request of one operation and hands its answer over. */
#include <string.h>

#include "client/client_internal.h"

/* ---- opening ---- */

static int make(const struct sbx_options *options, struct sbx **ret, struct error *reterr) {
    CLEANUP_FREE struct sbx *sbx = calloc(1, sizeof *sbx);
    if (!sbx) return error_set(reterr, E_NO_MEMORY, "no memory for a client");
    int result = client_home(options->home, sbx->home, reterr);
    if (result == 0)
        result = string_format(sbx->socket_path, sizeof sbx->socket_path, reterr, "%s/api.sock", sbx->home);
    if (result < 0) return result;
    sbx->flags = options->flags;
    sbx->timeout_ms = options->timeout_ms;
    sbx->cancel_fd = options->cancel_fd;
    sbx->launcher_pidfd = -1;
    pthread_mutex_init(&sbx->lock, NULL);
    *ret = take_ptr(sbx);
    return 0;
}

static int open_connected(const struct sbx_options *given, struct sbx **ret, struct error *reterr) {
    struct sbx_options options = SBX_OPTIONS_INIT;
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    struct sbx *sbx = NULL;
    int result = make(&options, &sbx, reterr);
    if (result < 0) return result;
    uint64_t deadline_ms = options.timeout_ms ? clock_monotonic_ms() + options.timeout_ms : 0;
    result = service_connect(sbx, deadline_ms, &sbx->idle.fds[0], reterr);
    if (result < 0) {
        sbx_close(sbx);
        return result;
    }
    sbx->idle.count = 1;
    *ret = sbx;
    return 0;
}

int sbx_open_with(const struct sbx_options *options, struct sbx **ret, struct sbx_error *reterr) {
    struct error error;
    if (open_connected(options, ret, &error) == 0) return 0;
    problem_report(&error, NULL, reterr);
    return -1;
}

int sbx_open(const char *home, struct sbx **ret, struct sbx_error *reterr) {
    struct sbx_options options = SBX_OPTIONS_INIT;
    options.home = home;
    return sbx_open_with(&options, ret, reterr);
}

static void close_all(struct connections *connections) {
    while (connections->count > 0) fd_close(connections->fds[--connections->count]);
}

void sbx_close(struct sbx *sandboxes) {
    if (!sandboxes) return;
    close_all(&sandboxes->idle);
    close_all(&sandboxes->idle_direct);
    fd_close(sandboxes->launcher_pidfd);
    pthread_mutex_destroy(&sandboxes->lock);
    free(sandboxes);
}

const char *sbx_home(const struct sbx *sandboxes) {
    return sandboxes->home;
}

const char *sbx_version(void) {
    return SANDBOX_VERSION;
}

void sbx_error_clear(struct sbx_error *error) {
    free(error->json);
    *error = (struct sbx_error){0};
}

/* ---- calling ---- */

static int parse_params(const char *text, json_t **ret, struct error *reterr) {
    json_error_t where;
    json_t *params = text ? json_loads(text, JSON_REJECT_DUPLICATES, &where) : json_object();
    if (params && json_is_object(params)) {
        *ret = params;
        return 0;
    }
    json_decref(params);
    if (params || !text) return error_set(reterr, E_INVALID, "the parameters are not a JSON object");
    return error_set(reterr, E_INVALID, "the parameters are not JSON: line %d column %d: %s", where.line, where.column,
                     where.text);
}

static int hand_over(json_t *result, char **ret_json, struct error *reterr) {
    char *text = ret_json ? json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(result);
    if (ret_json && !text) return error_set(reterr, E_NO_MEMORY, "no memory for the answer");
    if (ret_json) *ret_json = text;
    return 0;
}

/* Run a call whose parameters, a reference it takes over, are in place. */
static int run_call(struct sbx *sbx, struct call *call, json_t *params, char **ret_json, struct sbx_error *reterr) {
    struct error error;
    json_t *result = NULL;
    call->params = params;
    int status = client_call(sbx, call, &result, &error);
    if (status == 0 && call->text && ret_json)
        *ret_json = take_ptr(call->text);
    else if (status == 0 && !call->text)
        status = hand_over(result, ret_json, &error);
    if (status < 0) problem_report(&error, call->problem, reterr);
    free(call->text);
    json_decref(call->problem);
    json_decref(params);
    return status < 0 ? -1 : 0;
}

/* The named parameters over the caller's JSON. */
static int run_named(struct sbx *sbx, struct call *call, const char *options_json, json_t *named, char **ret_json,
                     struct sbx_error *reterr) {
    struct error error;
    json_t *params = NULL;
    int status = named ? parse_params(options_json, &params, &error)
                       : error_set(&error, E_INVALID, "a parameter is missing or not UTF-8 text");
    if (status == 0 && json_object_update(params, named) < 0) {
        json_decref(params);
        status = error_set(&error, E_NO_MEMORY, "no memory for the parameters");
    }
    json_decref(named);
    if (status == 0) return run_call(sbx, call, params, ret_json, reterr);
    problem_report(&error, NULL, reterr);
    return -1;
}

int sbx_create(struct sbx *sandboxes, const char *id, const char *source, const char *options_json, char **ret_json,
               struct sbx_error *reterr) {
    struct call call = {.op = ops_find("create")};
    json_t *named = json_pack("{s:s, s:s}", "id", id, "source", source);
    return run_named(sandboxes, &call, options_json, named, ret_json, reterr);
}

static int call_with_id(struct sbx *sbx, const char *name, const char *id, char **ret_json, struct sbx_error *reterr) {
    struct call call = {.op = ops_find(name)};
    return run_named(sbx, &call, NULL, json_pack("{s:s}", "id", id), ret_json, reterr);
}

int sbx_destroy(struct sbx *sandboxes, const char *id, struct sbx_error *reterr) {
    return call_with_id(sandboxes, "destroy", id, NULL, reterr);
}

int sbx_info(struct sbx *sandboxes, const char *id, char **ret_json, struct sbx_error *reterr) {
    return call_with_id(sandboxes, "info", id, ret_json, reterr);
}

int sbx_restart(struct sbx *sandboxes, const char *id, bool fresh, char **ret_json, struct sbx_error *reterr) {
    struct call call = {.op = ops_find("restart")};
    return run_named(sandboxes, &call, NULL, json_pack("{s:s, s:b}", "id", id, "fresh", fresh), ret_json, reterr);
}

int sbx_list(struct sbx *sandboxes, char **ret_json, struct sbx_error *reterr) {
    return sbx_op(sandboxes, "list", NULL, ret_json, reterr);
}

int sbx_eval(struct sbx *sandboxes, const char *id, const char *code, const char *options_json, char **ret_json,
             struct sbx_error *reterr) {
    struct call call = {.op = ops_find("eval")};
    json_t *named = json_pack("{s:s, s:s}", "id", id, "code", code);
    return run_named(sandboxes, &call, options_json, named, ret_json, reterr);
}

/* ---- without a sandbox ---- */

int sbx_compile(struct sbx *sandboxes, const char *path, const char *options_json, char **ret_json,
                struct sbx_error *reterr) {
    struct call call = {.op = ops_find("compile")};
    json_t *named = path ? json_pack("{s:s}", "source", path) : json_object();
    return run_named(sandboxes, &call, options_json, named, ret_json, reterr);
}

int sbx_hot_reload(struct sbx *sandboxes, const char *id, const char *path, const char *options_json, char **ret_json,
                   struct sbx_error *reterr) {
    struct call call = {.op = ops_find("reload")};
    json_t *named = path ? json_pack("{s:s, s:[s]}", "id", id, "paths", path) : json_pack("{s:s}", "id", id);
    return run_named(sandboxes, &call, options_json, named, ret_json, reterr);
}

int sbx_auto_reload(struct sbx *sandboxes, const char *id, int is_on, char **ret_json, struct sbx_error *reterr) {
    struct call call = {.op = ops_find("watch")};
    return run_named(sandboxes, &call, NULL, json_pack("{s:s, s:s}", "id", id, "action", is_on ? "on" : "off"),
                     ret_json, reterr);
}

int sbx_versions(struct sbx *sandboxes, const char *id, const char *module, char **ret_json, struct sbx_error *reterr) {
    struct call call = {.op = ops_find("versions")};
    json_t *named = module ? json_pack("{s:s, s:s}", "id", id, "module", module) : json_pack("{s:s}", "id", id);
    return run_named(sandboxes, &call, NULL, named, ret_json, reterr);
}

int sbx_rollback(struct sbx *sandboxes, const char *id, const char *module, const char *options_json, char **ret_json,
                 struct sbx_error *reterr) {
    struct call call = {.op = ops_find("rollback")};
    return run_named(sandboxes, &call, options_json, json_pack("{s:s, s:s}", "id", id, "module", module), ret_json,
                     reterr);
}

int sbx_validate_beam(struct sbx *sandboxes, const char *path, char **ret_json, struct sbx_error *reterr) {
    struct call call = {.op = ops_find("validate")};
    return run_named(sandboxes, &call, NULL, json_pack("{s:s}", "path", path), ret_json, reterr);
}

int sbx_dependency_graph(struct sbx *sandboxes, const char *id_or_path, const char *options_json, char **ret_json,
                         struct sbx_error *reterr) {
    struct call call = {.op = ops_find("deps")};
    return run_named(sandboxes, &call, options_json, json_pack("{s:s}", "target", id_or_path), ret_json, reterr);
}

int sbx_reload_order(struct sbx *sandboxes, const char *id_or_path, char **ret_json, struct sbx_error *reterr) {
    CLEANUP_FREE char *graph = NULL;
    struct error error;
    int status = sbx_dependency_graph(sandboxes, id_or_path, NULL, &graph, reterr);
    if (status < 0) return status;
    json_t *object = json_loads(graph, 0, NULL);
    json_t *order = json_incref(json_object_get(object, "order"));
    json_decref(object);
    if (order && hand_over(order, ret_json, &error) == 0) return 0;
    if (!order) error_set(&error, E_FORMAT, "the service's answer has no order");
    problem_report(&error, NULL, reterr);
    return -1;
}

/* ---- streams and names ---- */

struct text_reader {
    sbx_item_fn *on_item;
    void *data;
};

static int pass_as_text(json_t *item, void *data) {
    const struct text_reader *reader = data;
    CLEANUP_FREE char *text = json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? reader->on_item(text, reader->data) : -1;
}

static int collect(json_t *item, void *data) {
    return json_array_append(data, item);
}

static const struct op *find_op(const char *name, struct sbx_error *reterr) {
    const struct op *op = name ? ops_find(name) : NULL;
    struct error error;
    if (!op) {
        error_set(&error, E_NOT_FOUND, "there is no operation \"%.64s\"", name ? name : "");
        problem_report(&error, NULL, reterr);
    }
    return op;
}

int sbx_stream(struct sbx *sandboxes, const char *name, const char *params_json, sbx_item_fn *on_item, void *data,
               char **ret_json, struct sbx_error *reterr) {
    struct text_reader reader = {on_item, data};
    struct call call = {.op = find_op(name, reterr), .item = pass_as_text, .data = &reader};
    if (!call.op) return -1;
    return run_named(sandboxes, &call, params_json, json_object(), ret_json, reterr);
}

int sbx_run(struct sbx *sandboxes, const char *source, const char *options_json, sbx_item_fn *on_item, void *data,
            char **ret_json, struct sbx_error *reterr) {
    struct text_reader reader = {on_item, data};
    struct call call = {.op = ops_find("run"), .item = pass_as_text, .data = &reader};
    return run_named(sandboxes, &call, options_json, json_pack("{s:s}", "source", source), ret_json, reterr);
}

int sbx_events(struct sbx *sandboxes, const char *options_json, sbx_item_fn *on_item, void *data,
               struct sbx_error *reterr) {
    return sbx_stream(sandboxes, "events", options_json, on_item, data, NULL, reterr);
}

int sbx_op(struct sbx *sandboxes, const char *name, const char *params_json, char **ret_json,
           struct sbx_error *reterr) {
    struct call call = {.op = find_op(name, reterr), .item = collect};
    if (!call.op) return -1;
    if (call.op->shape != OP_STREAM) return run_named(sandboxes, &call, params_json, json_object(), ret_json, reterr);
    json_t *items = json_array();
    call.data = items;
    struct error error;
    int status = run_named(sandboxes, &call, params_json, json_object(), NULL, reterr);
    if (status < 0) {
        json_decref(items);
        return -1;
    }
    if (hand_over(items, ret_json, &error) == 0) return 0;
    problem_report(&error, NULL, reterr);
    return -1;
}
