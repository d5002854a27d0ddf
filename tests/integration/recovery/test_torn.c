/* Programs killed in the middle of creates and destroys: every sandbox is whole afterwards, or gone. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "leftovers.h"
#include "processes.h"
#include "support.h"

enum { CLIENTS = 4, EVENTS_MAX = 14 };

/* ---- clients that create and destroy, each its own sandbox, until told to stop ---- */

enum knowledge { NOTHING, PRESENT, ABSENT };

struct client {
    struct world *world;
    const atomic_bool *stop;
    char id[16];
    pthread_t thread;
    enum knowledge known; /* of its sandbox, from the last answer */
};

static void create(struct client *client) {
    struct sbx_error error;
    int result = sbx_create(world_client(client->world), client->id, EXAMPLES "/counter_erl", NULL, NULL, &error);
    client->known = result == 0 ? PRESENT : NOTHING;
    if (result < 0) sbx_error_clear(&error);
}

static void destroy(struct client *client) {
    struct sbx_error error;
    int result = sbx_destroy(world_client(client->world), client->id, &error);
    bool gone = result == 0 || strcmp(error.code, "not_found") == 0;
    client->known = gone ? ABSENT : NOTHING;
    if (result < 0) sbx_error_clear(&error);
}

static void *run_client(void *data) {
    struct client *client = data;
    for (bool creating = client->known != PRESENT; !atomic_load(client->stop); creating = !creating)
        (creating ? create : destroy)(client);
    return NULL;
}

/* ---- killing at a moment that events tell ---- */

struct countdown {
    unsigned left;
    uint64_t last_seq;
};

static int count_down(const char *item, void *data) {
    struct countdown *countdown = data;
    json_t *event = json_loads(item, 0, NULL);
    countdown->last_seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
    json_decref(event);
    return --countdown->left == 0;
}

/* Follow so many events; the number of the last one. */
static uint64_t follow_events(struct world *world, uint64_t since, unsigned count) {
    struct countdown countdown = {.left = count, .last_seq = since};
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx *follower = NULL;
    struct sbx_error error = {0};
    char options[64];
    how.home = world_home(world);
    how.timeout_ms = WORLD_DEADLINE_MS;
    snprintf(options, sizeof options, "{\"follow\": true, \"since\": %llu}", (unsigned long long)since);
    if (sbx_open_with(&how, &follower, &error) < 0) fail_msg("following events: %s", error.detail);
    if (sbx_events(follower, options, count_down, &countdown, &error) < 0) fail_msg("events: %s", error.detail);
    sbx_close(follower);
    return countdown.last_seq;
}

static void kill_daemon(struct world *world) {
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
}

static void kill_launcher(struct world *world) {
    process_end(world_pid(world, "launcher.lock"), SIGKILL);
}

static void kill_both(struct world *world) {
    pid_t daemon = world_pid(world, "daemon.lock");
    kill_launcher(world);
    process_end(daemon, SIGKILL);
}

/* ---- whole or gone ---- */

/* What is left of nodes, by their cgroups. */
struct count {
    struct world *world;
    const struct footprint *before; /* nodes of a daemon that was killed; NULL: every node is to be a sandbox's */
    size_t listed, nodes;
};

static bool is_listed_node(json_t *list, const struct footprint *nodes, size_t index) {
    size_t i;
    json_t *sandbox;
    json_array_foreach(list, i, sandbox) {
        pid_t pid = (pid_t)json_integer_value(json_object_get(sandbox, "os_pid"));
        if (pid > 0 && footprint_node_holds(nodes, index, pid)) return true;
    }
    return false;
}

/* Nodes that wait for sandboxes and compilers belong to no sandbox either, but to a daemon: they end with it. What
   another daemon has booted since has another name. */
static size_t count_nodes(const struct count *count, json_t *list) {
    struct footprint *now = footprint_take_nodes(world_home(count->world));
    size_t nodes = 0;
    for (size_t i = 0; i < footprint_node_count(now); i++)
        nodes +=
            !count->before || footprint_has_node(count->before, footprint_node(now, i)) || is_listed_node(list, now, i);
    footprint_free(now);
    return nodes;
}

static bool nodes_fit_list(void *data) {
    struct count *count = data;
    json_t *list = world_op(count->world, "list", NULL);
    count->listed = json_array_size(list);
    count->nodes = count_nodes(count, list);
    json_decref(list);
    return count->listed == count->nodes;
}

static void assert_whole(struct world *world, json_t *sandbox) {
    const char *id = json_string_value(json_object_get(sandbox, "id"));
    const char *status = json_string_value(json_object_get(sandbox, "status"));
    if (strcmp(status, "running") != 0) fail_msg("%s is neither whole nor gone, but %s", id, status);
    assert_true(process_lives((pid_t)json_integer_value(json_object_get(sandbox, "os_pid"))));
    CLEANUP_FREE char *value = world_try_eval(world, id, NULL, "counter:increment()", WORLD_DEADLINE_MS);
    if (strcmp(value, "1") != 0) fail_msg("%s answers %s", id, value);
}

static bool is_listed(json_t *list, const char *id) {
    size_t i;
    json_t *sandbox;
    json_array_foreach(list, i, sandbox) {
        if (string_equal(json_string_value(json_object_get(sandbox, "id")), id)) return true;
    }
    return false;
}

static void assert_all_whole_or_gone(struct world *world, const struct client *clients,
                                     const struct footprint *before) {
    struct count count = {.world = world, .before = before};
    if (!wait_until(nodes_fit_list, &count, WORLD_DEADLINE_MS))
        fail_msg("%zu sandboxes are listed, but there are %zu nodes", count.listed, count.nodes);
    json_t *list = world_op(world, "list", NULL), *sandbox;
    size_t i;
    for (i = 0; i < CLIENTS; i++)
        if (clients[i].known != NOTHING) assert_int_equal(is_listed(list, clients[i].id), clients[i].known == PRESENT);
    json_array_foreach(list, i, sandbox) assert_whole(world, sandbox);
    json_decref(list);
}

static void destroy_all(struct world *world) {
    json_t *list = world_op(world, "list", NULL), *sandbox;
    size_t i;
    json_array_foreach(list, i, sandbox) world_destroy(world, json_string_value(json_object_get(sandbox, "id")));
    json_decref(list);
}

/* ---- rounds ---- */

static void start_clients(struct world *world, struct client *clients, const atomic_bool *stop) {
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.world = world, .stop = stop};
        snprintf(clients[i].id, sizeof clients[i].id, "c%d", i);
        assert_int_equal(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    }
}

enum company { ALONE, WITH_WAITING };

/* Nodes that wait make the count of all nodes useless, so only those of a daemon that died are counted then. */
static void run_round(struct world *world, enum company company, void (*kill_some)(struct world *world),
                      unsigned events) {
    struct client clients[CLIENTS];
    atomic_bool stop = false;
    uint64_t before = world_now(world);
    start_clients(world, clients, &stop);
    uint64_t seen = follow_events(world, before, events);
    struct footprint *nodes = company == WITH_WAITING ? footprint_take_nodes(world_home(world)) : NULL;
    kill_some(world);
    atomic_store(&stop, true);
    world_do(world, "list", NULL); /* the next command starts what is missing; those under way wait for that */
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i].thread, NULL);
    assert_all_whole_or_gone(world, clients, nodes);
    footprint_free(nodes);
    /* A follower goes on after what it has seen, and misses nothing. */
    const char *kind = kill_some == kill_launcher ? "launcher_back" : "service_started";
    json_decref(world_wait_event(world, seen, &(struct event_pattern){.kind = kind}));
    destroy_all(world);
}

static void run_rounds(struct world *world, enum company company, void (*const kills[])(struct world *), size_t count) {
    unsigned seed = (unsigned)(clock_monotonic_ms() ^ (uint64_t)getpid());
    json_decref(world_create(world, "first", EXAMPLES "/counter_erl", "medium")); /* the others need no compiler */
    world_destroy(world, "first");
    for (size_t round = 0; round < count; round++) {
        unsigned events = 1 + (unsigned)rand_r(&seed) % EVENTS_MAX;
        print_message("round %zu: killed after %u events\n", round + 1, events);
        run_round(world, company, kills[round], events);
    }
}

static void every_sandbox_is_whole_or_gone(void **state) {
    static void (*const kills[])(struct world *) = {kill_daemon, kill_both, kill_launcher};
    (void)state;
    setenv("SANDBOX_WARM_NODES", "0", 1);
    setenv("SANDBOX_SPARE_COMPILERS", "0", 1);
    setenv("SANDBOX_COMPILERS_KEPT", "0", 1);
    struct world *world = world_open(NULL);
    run_rounds(world, ALONE, kills, ARRAY_SIZE(kills));
    world_close(world);
}

static bool nodes_wait(void *data) {
    json_t *health = world_op(data, "health", NULL);
    bool wait = json_integer_value(json_object_get(health, "warm_nodes")) > 0;
    json_decref(health);
    return wait;
}

static void what_waits_ends_with_its_daemon(void **state) {
    static void (*const kills[])(struct world *) = {kill_daemon, kill_both};
    (void)state;
    setenv("SANDBOX_WARM_NODES", "4", 1);
    setenv("SANDBOX_SPARE_COMPILERS", "1", 1);
    unsetenv("SANDBOX_COMPILERS_KEPT");
    struct world *world = world_open(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(kills); i++) {
        assert_true(wait_until(nodes_wait, world, WORLD_DEADLINE_MS));
        run_rounds(world, WITH_WAITING, &kills[i], 1);
    }
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_sandbox_is_whole_or_gone),
                                       cmocka_unit_test(what_waits_ends_with_its_daemon)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
