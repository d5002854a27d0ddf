/* Opens the services that are measured, one with warm nodes and one without, and waits for warm nodes. */
#include "rows.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>

enum {
    WARM_NODES = 4,
    SETTLE_MS = 100,
    LOOK_AGAIN_MS = 10,
    LOOKS_MAX = 6000,
};

json_t *bench_ask(struct sbx *service, const char *op, json_t *params) {
    CLEANUP_FREE char *answer = NULL;
    CLEANUP_FREE char *text = params ? json_dumps(params, 0) : NULL;
    struct sbx_error error;
    json_decref(params);
    if (sbx_op(service, op, text, &answer, &error) < 0) bench_end(op, error.detail);
    return json_loads(answer, JSON_DECODE_ANY, NULL);
}

static struct sbx *open_service(const struct bench *bench, const char *home, const char *warm_nodes) {
    char path[PATH_MAX];
    struct sbx *service;
    struct sbx_error error;
    setenv("SANDBOX_WARM_NODES", warm_nodes, 1);
    if (string_format(path, sizeof path, NULL, "%s/%s", bench->folder, home) < 0) exit(1);
    if (sbx_open(path, &service, &error) < 0) bench_end("the service", error.detail);
    return service;
}

struct sbx *bench_warm(struct bench *bench) {
    if (!bench->warm) bench->warm = open_service(bench, "home-warm", "4");
    return bench->warm;
}

struct sbx *bench_cold(struct bench *bench) {
    if (!bench->cold) bench->cold = open_service(bench, "home-cold", "0");
    return bench->cold;
}

static void close_service(struct sbx *service) {
    if (!service) return;
    json_decref(bench_ask(service, "shutdown", NULL));
    sbx_close(service);
}

void bench_close_services(struct bench *bench) {
    close_service(bench->warm);
    close_service(bench->cold);
    bench->warm = bench->cold = NULL;
}

const char *bench_example(const struct bench *bench, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", bench->examples, name) < 0) exit(1);
    return path;
}

/* ---- nodes that wait ---- */

static void warm_up(struct bench *bench) {
    static const char *const names[] = {"counter", "counter_erl"};
    char id[ID_BYTES];
    for (size_t i = 0; i < WARM_NODES * ARRAY_SIZE(names); i++) {
        struct wish wish = {.service = bench_warm(bench), .source = bench_example(bench, names[i % 2])};
        bench_create(bench, &wish, id);
        bench_destroy(wish.service, id);
    }
    bench->is_warmed_up = true;
}

void bench_await_warm(struct bench *bench) {
    if (!bench->is_warmed_up) warm_up(bench);
    for (int i = 0; i < LOOKS_MAX; i++) {
        json_t *health = bench_ask(bench_warm(bench), "health", NULL);
        json_int_t waiting = json_integer_value(json_object_get(health, "warm_nodes"));
        json_decref(health);
        poll(NULL, 0, waiting >= WARM_NODES ? SETTLE_MS : LOOK_AGAIN_MS);
        if (waiting >= WARM_NODES) return;
    }
    bench_end("the service", "no nodes wait");
}

/* ---- one sandbox ---- */

double bench_create(struct bench *bench, const struct wish *wish, char ret_id[ID_BYTES]) {
    snprintf(ret_id, ID_BYTES, "bench-%u", ++bench->created);
    json_t *params = json_pack("{s:s, s:s, s:b}", "id", ret_id, "source", wish->source, "timing", 1);
    if (wish->cpu_percent) json_object_set_new(params, "cpu_percent", json_integer(wish->cpu_percent));
    if (wish->profile) json_object_set_new(params, "profile", json_string(wish->profile));
    uint64_t begun_us = clock_monotonic_us();
    json_t *answer = bench_ask(wish->service, "create", params);
    double took_ms = bench_since_ms(begun_us);
    json_t *timing = json_object_get(answer, "timing");
    if (wish->node && !string_equal(json_string_value(json_object_get(timing, "node")), wish->node))
        bench_end(wish->source, "its node is not the kind that was wanted");
    json_decref(answer);
    return took_ms;
}

double bench_destroy(struct sbx *service, const char *id) {
    uint64_t begun_us = clock_monotonic_us();
    json_decref(bench_ask(service, "destroy", json_pack("{s:s}", "id", id)));
    return bench_since_ms(begun_us);
}
