/* The warm pool: nodes booted ahead of time, which wait until a sandbox takes them. Each is taken once, and nothing has
   run in it before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/pool.h"

enum { BOOT_WEIGHT_PERCENT = 2 }; /* of what a sandbox gets that wants the CPU at the same time */

struct resident {
    struct pool *pool;
    struct resident *next;
    struct node *node;
    struct pool_node facts;
};

struct pool {
    struct node_host *host;
    struct pool_settings settings;
    void (*wake)(void *data);
    void *wake_data;
    bool begun, quiescing;
    struct shelf shelves[SHELVES_MAX];
    size_t shelf_count;
    struct resident *residents;
    struct pause pause;
    uv_timer_t look;
    void (*closed)(void *data);
    void *closed_data;
};

static void on_look(uv_timer_t *timer);

/* Not later than was planned: a caller that takes nodes without a pause must not keep us from looking. */
static void look_after(struct pool *pool, uint64_t delay_ms) {
    bool is_planned = uv_is_active((uv_handle_t *)&pool->look) && uv_timer_get_due_in(&pool->look) <= delay_ms;
    if (pool->begun && !pool->quiescing && !is_planned) uv_timer_start(&pool->look, on_look, delay_ms, 0);
}

/* ---- waiting nodes ---- */

static void forget(struct resident *resident) {
    struct resident **at = &resident->pool->residents;
    while (*at != resident) at = &(*at)->next;
    *at = resident->next;
    free(resident);
}

static void end(struct resident *resident, const char *why) {
    resident->facts.is_ending = true;
    node_kill(resident->node, why);
}

/* Whatever it did, it was not asked to: no sandbox gets it. */
static void doubt(struct resident *resident, const char *why) {
    struct pool *pool = resident->pool;
    if (resident->facts.is_ending) return;
    shelf_failed(&pool->shelves[resident->facts.shelf], uv_now(pool->host->loop));
    end(resident, why);
}

static void on_ready(void *data, struct node *node) {
    struct resident *resident = data;
    (void)node;
    if (resident->facts.is_ready) {
        doubt(resident, "its connection broke while it waited");
        return;
    }
    resident->facts.is_ready = true;
    look_after(resident->pool, 0);
}

static void on_event(void *data, struct node *node, const char *kind, const struct term *term) {
    (void)node, (void)kind, (void)term;
    doubt(data, "something ran in it while it waited");
}

static void on_violation(void *data, struct node *node, const char *what, const char *detail) {
    (void)node, (void)what, (void)detail;
    doubt(data, "it tried what is refused while it waited");
}

static void on_gone(void *data, struct node *node, const struct node_end *node_end) {
    struct resident *resident = data;
    struct pool *pool = resident->pool;
    (void)node, (void)node_end;
    if (!resident->facts.is_ending) shelf_failed(&pool->shelves[resident->facts.shelf], uv_now(pool->host->loop));
    forget(resident);
    look_after(pool, 0);
    pool->wake(pool->wake_data);
}

static void boot(struct pool *pool, size_t shelf_index) {
    static const struct node_handler handler = {
        .ready = on_ready, .event = on_event, .violation = on_violation, .gone = on_gone};
    struct shelf *shelf = &pool->shelves[shelf_index];
    struct node_spec spec = {.kind = NODE_APPLICATION,
                             .toolchain = shelf->toolchain,
                             .profile = &shelf->profile,
                             .limits = shelf->profile.limits,
                             .elixir = shelf->elixir,
                             .takes_data = pool->host->features.guarantees & 1u << JAIL_GUARANTEE_VOLUMES};
    spec.limits.cpu_weight_percent = BOOT_WEIGHT_PERCENT;
    struct resident *resident = new_or_abort(struct resident);
    struct error ignored; /* the next caller that needs a node gets it */
    uint64_t now_ms = uv_now(pool->host->loop);
    *resident =
        (struct resident){.pool = pool, .next = pool->residents, .facts = {.shelf = shelf_index, .born_ms = now_ms}};
    if (node_start(pool->host, &spec, &handler, resident, &resident->node, &ignored) < 0) {
        free(resident);
        shelf_failed(shelf, now_ms);
        return;
    }
    pool->residents = resident;
}

/* ---- looking after them ---- */

static void read_memory(struct pool_means *means) {
    char line[128];
    unsigned long long kib;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1) means->memory_total_bytes = (uint64_t)kib << 10;
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) {
            means->memory_available_bytes = (uint64_t)kib << 10;
            break;
        }
    }
    if (file) fclose(file);
}

struct picture { /* the pool as the policy sees it */
    struct pool_view view;
    struct pool_node nodes[POOL_NODES_MAX];
    struct resident *residents[POOL_NODES_MAX];
};

static void take_picture(const struct pool *pool, struct picture *ret) {
    ret->view = (struct pool_view){.shelves = pool->shelves,
                                   .shelf_count = pool->shelf_count,
                                   .nodes = ret->nodes,
                                   .means = {.nodes_max = pool->settings.nodes_max},
                                   .pause = pool->pause};
    for (struct resident *at = pool->residents; at && ret->view.node_count < POOL_NODES_MAX; at = at->next) {
        ret->residents[ret->view.node_count] = at;
        ret->nodes[ret->view.node_count++] = at->facts;
    }
}

static void on_look(uv_timer_t *timer) {
    struct pool *pool = timer->data;
    struct picture picture;
    struct pool_means means = {.nodes_max = pool->settings.nodes_max};
    struct pool_step step;
    read_memory(&means);
    if (pool->settings.is_awaited && pool->settings.is_awaited(pool->wake_data))
        pause_go_on(&pool->pause, uv_now(pool->host->loop));
    for (;;) {
        take_picture(pool, &picture);
        picture.view.means = means;
        step = pool_decide(&picture.view, uv_now(pool->host->loop));
        if (step.act == POOL_WAIT) break;
        if (step.act == POOL_BOOT)
            boot(pool, step.index);
        else
            end(picture.residents[step.index], step.why);
    }
    uv_timer_start(&pool->look, on_look, step.wait_ms, 0);
}

/* ---- shelves ---- */

static size_t find_shelf(const struct pool *pool, const struct toolchain *toolchain, const struct jail_profile *profile,
                         bool elixir) {
    for (size_t i = 0; i < pool->shelf_count; i++) {
        const struct shelf *shelf = &pool->shelves[i];
        if (shelf->toolchain == toolchain && shelf->elixir == elixir && profiles_boot_alike(&shelf->profile, profile))
            return i;
    }
    return SHELVES_MAX;
}

static size_t need_shelf(struct pool *pool, const struct toolchain *toolchain, const struct jail_profile *profile,
                         bool elixir) {
    struct picture picture;
    size_t index = find_shelf(pool, toolchain, profile, elixir);
    if (index < SHELVES_MAX) return index;
    take_picture(pool, &picture);
    bool is_new = pool->shelf_count < SHELVES_MAX && !pool_user_has_all_shelves(&picture.view, toolchain);
    index = is_new ? pool->shelf_count++ : pool_spare_shelf(&picture.view, toolchain, uv_now(pool->host->loop));
    if (index < SHELVES_MAX)
        pool->shelves[index] = (struct shelf){.toolchain = toolchain,
                                              .profile = *profile,
                                              .elixir = elixir,
                                              .is_own = toolchain->is_own,
                                              .owner = toolchain->owner};
    return index;
}

/* What a booted VM can't be given any more: variables that native code would read from its environment. */
static bool can_be_warm(const struct pool *pool, const struct node_spec *spec) {
    bool has_env = json_object_size(spec->env) > 0;
    if (!node_limits_fit(&spec->limits, &spec->profile->limits)) return false;
    return pool->settings.nodes_max > 0 && !pool->quiescing && spec->kind == NODE_APPLICATION &&
           !(has_env && spec->profile->native_code);
}

/* ---- taking one ---- */

static bool is_better(const struct resident *one, const struct resident *other) {
    if (!other || one->facts.is_ready != other->facts.is_ready) return !other || one->facts.is_ready;
    return one->facts.born_ms < other->facts.born_ms;
}

/* One that still boots is sooner there than another that only begins to. */
static struct resident *find_resident(const struct pool *pool, size_t shelf) {
    struct resident *best = NULL;
    for (struct resident *at = pool->residents; at; at = at->next) {
        bool is_there = at->node->state == NODE_BOOTING || node_is_ready(at->node);
        if (at->facts.shelf == shelf && !at->facts.is_ending && is_there && is_better(at, best)) best = at;
    }
    return best;
}

void pool_put_off(struct pool *pool) {
    pause_note(&pool->pause, uv_now(pool->host->loop));
}

static struct node *take(struct pool *pool, size_t shelf, const struct node_spec *spec,
                         const struct node_handler *handler, void *data) {
    struct resident *resident = find_resident(pool, shelf);
    demand_note(&pool->shelves[shelf].demand, uv_now(pool->host->loop));
    look_after(pool, POOL_SETTLE_MS);
    if (!resident) return NULL;
    struct node *node = resident->node;
    pool->shelves[shelf].failures = 0;
    forget(resident);
    node_hand_over(node, spec, handler, data);
    return node;
}

int pool_start_node(struct pool *pool, const struct node_spec *spec, const struct node_handler *handler, void *data,
                    struct node **ret, bool *ret_is_warm, struct error *reterr) {
    struct node *node = NULL;
    pool->begun = true; /* a caller that asks for a node has a toolchain */
    pool_put_off(pool);
    if (can_be_warm(pool, spec)) {
        size_t shelf = need_shelf(pool, spec->toolchain, spec->profile, spec->elixir);
        if (shelf < SHELVES_MAX) node = take(pool, shelf, spec, handler, data);
    }
    struct node_spec cold = *spec;
    cold.elixir = false; /* the application's start starts it too, and tells better why it can't */
    int result = node ? 0 : node_start(pool->host, &cold, handler, data, &node, reterr);
    if (result < 0) return result;
    *ret_is_warm = node->is_being_equipped;
    *ret = node;
    return 0;
}

size_t pool_ready(const struct pool *pool) {
    size_t count = 0;
    for (const struct resident *at = pool->residents; at; at = at->next)
        count += at->facts.is_ready && !at->facts.is_ending;
    return count;
}

/* ---- opening and closing ---- */

int pool_open(struct node_host *host, const struct pool_settings *settings, void (*wake)(void *data), void *data,
              struct pool **ret, struct error *reterr) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool) return error_set(reterr, E_NO_MEMORY, "no memory for the pool of nodes");
    pool->host = host;
    pool->settings = *settings;
    pool->wake = wake;
    pool->wake_data = data;
    uv_timer_init(host->loop, &pool->look);
    pool->look.data = pool;
    *ret = pool;
    return 0;
}

void pool_set_max(struct pool *pool, uint32_t nodes_max) {
    pool->settings.nodes_max = nodes_max;
}

void pool_begin(struct pool *pool, const struct toolchain *toolchain) {
    const struct jail_profile *standing = pool->settings.standing;
    if (pool->settings.nodes_max == 0 || pool->quiescing) return;
    pool->begun = true;
    for (int elixir = 0; standing && elixir <= (toolchain->elixir_lib[0] != '\0'); elixir++) {
        size_t shelf = need_shelf(pool, toolchain, standing, elixir);
        if (shelf < SHELVES_MAX) pool->shelves[shelf].is_standing = true;
    }
    /* The client that started the service sends a request first. */
    uv_timer_start(&pool->look, on_look, POOL_FIRST_LOOK_MS, 0);
}

/* A shelf without a toolchain is wanted by none, and goes for the next. */
void pool_forget(struct pool *pool, const struct toolchain *toolchain) {
    for (size_t i = 0; i < pool->shelf_count; i++) {
        if (pool->shelves[i].toolchain != toolchain) continue;
        pool->shelves[i] = (struct shelf){0};
        for (struct resident *at = pool->residents; at; at = at->next)
            if (at->facts.shelf == i && !at->facts.is_ending) end(at, "its toolchain is not used any more");
    }
}

void pool_quiesce(struct pool *pool) {
    pool->quiescing = true;
    uv_timer_stop(&pool->look);
    for (struct resident *at = pool->residents; at; at = at->next)
        if (!at->facts.is_ending) end(at, "the service is shutting down");
}

bool pool_is_quiet(const struct pool *pool) {
    return !pool->residents;
}

static void on_closed(uv_handle_t *handle) {
    struct pool *pool = handle->data;
    pool->closed(pool->closed_data);
    free(pool);
}

void pool_close(struct pool *pool, void (*closed)(void *data), void *data) {
    pool->closed = closed;
    pool->closed_data = data;
    uv_close((uv_handle_t *)&pool->look, on_closed);
}
