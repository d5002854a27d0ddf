/* Addresses of the host names that profiles list: looked up again and again, pushed to the nodes that may use them. */
#include "core/network/names.h"

#include <netinet/in.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/sandbox/tree.h"

enum {
    ASK_EVERY_MS = 60000,
    ASK_AGAIN_MS = 5000, /* while a name has no address at all */
    AWAIT_MS = 2000,
};

struct known_name {
    struct names *names;
    char name[JAIL_DOMAIN_BYTES];
    uv_getaddrinfo_t question;
    bool is_asking;
    bool is_answered; /* since this daemon runs, with addresses or without */
    struct known_addresses known;
};

struct names {
    struct engine *engine;
    uv_timer_t timer;
    uv_timer_t patience;       /* of sandboxes that wait for an answer */
    struct known_name **items; /* each at a lasting address: questions refer to it */
    size_t count;
    unsigned open; /* timers, and questions that are not answered yet */
    void (*closed)(void *data);
    void *closed_data;
};

static struct known_name *find(const struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcasecmp(names->items[i]->name, name) == 0) return names->items[i];
    return NULL;
}

static struct known_name *listed(const struct sandbox *sandbox, size_t index) {
    struct known_name *item = find(sandbox->engine->names, sandbox->config.profile->jail.egress.names[index].name);
    if (!item) abort(); /* names_take has taken those of every profile */
    return item;
}

static bool goes_by_names(const struct sandbox *sandbox) {
    const struct jail_profile *profile = &sandbox->config.profile->jail;
    return sandbox->engine->names && profile->network == JAIL_NETWORK_OUTGOING && profile->egress.name_count > 0 &&
           sandbox->engine->host.features.guarantees & 1u << JAIL_GUARANTEE_EGRESS;
}

/* ---- pushing ---- */

static size_t put_addresses(const struct known_name *item, const struct jail_named *named, size_t max,
                            struct jail_host *ret) {
    size_t count = known_addresses_newest(&item->known, max, ret);
    for (size_t i = 0; i < count; i++) {
        ret[i].first_port = named->first_port;
        ret[i].last_port = named->last_port;
    }
    return count;
}

size_t names_addresses(const struct sandbox *sandbox, struct jail_host ret[JAIL_RESOLVED_MAX]) {
    const struct jail_egress *egress = &sandbox->config.profile->jail.egress;
    size_t known[JAIL_NAMES_MAX], parts[JAIL_NAMES_MAX], count = 0;
    if (!goes_by_names(sandbox)) return 0;
    for (size_t i = 0; i < egress->name_count; i++) known[i] = listed(sandbox, i)->known.count;
    names_share(known, egress->name_count, JAIL_RESOLVED_MAX, parts);
    for (size_t i = 0; i < egress->name_count; i++)
        count += put_addresses(listed(sandbox, i), &egress->names[i], parts[i], ret + count);
    return count;
}

/* Before each was asked for once, what an earlier daemon told is better than what is known. */
void names_take_up(struct sandbox *sandbox) {
    if (!goes_by_names(sandbox)) return;
    for (size_t i = 0; i < sandbox->config.profile->jail.egress.name_count; i++)
        if (!listed(sandbox, i)->is_answered) return;
    launcher_push(sandbox, PUSH_NAMES);
}

static bool lists(const struct jail_egress *egress, const char *name) {
    for (size_t i = 0; i < egress->name_count; i++)
        if (strcasecmp(egress->names[i].name, name) == 0) return true;
    return false;
}

static void tell_all(const struct known_name *item) {
    size_t at = 0;
    void *value;
    while (map_next(&item->names->engine->sandboxes, &at, NULL, &value)) {
        struct sandbox *sandbox = value;
        if (lists(&sandbox->config.profile->jail.egress, item->name)) names_take_up(sandbox);
    }
}

/* ---- waiting for an answer ---- */

static bool awaits_answer(const struct sandbox *sandbox) {
    for (size_t i = 0; i < sandbox->config.profile->jail.egress.name_count; i++)
        if (listed(sandbox, i)->known.count == 0 && listed(sandbox, i)->is_asking) return true;
    return false;
}

/* A sandbox that need not wait any more, and until when the others do. */
static struct sandbox *find_served(const struct names *names, uint64_t now_ms, uint64_t *next_ms) {
    size_t at = 0;
    void *value;
    *next_ms = UINT64_MAX;
    while (map_next(&names->engine->sandboxes, &at, NULL, &value)) {
        struct sandbox *sandbox = value;
        if (!sandbox->network.names_due_ms) continue;
        if (sandbox->network.names_due_ms <= now_ms || !awaits_answer(sandbox)) return sandbox;
        if (sandbox->network.names_due_ms < *next_ms) *next_ms = sandbox->network.names_due_ms;
    }
    return NULL;
}

static void on_patience_over(uv_timer_t *timer);

/* One at a time: a sandbox that goes on may fail, and be gone. */
static void serve(struct names *names) {
    uint64_t now_ms = clock_monotonic_ms(), next_ms;
    struct sandbox *served;
    while ((served = find_served(names, now_ms, &next_ms))) {
        names_forgo(served);
        tree_go_on(served);
    }
    if (next_ms != UINT64_MAX) uv_timer_start(&names->patience, on_patience_over, next_ms - now_ms, 0);
}

static void on_patience_over(uv_timer_t *timer) {
    serve(timer->data);
}

void names_forgo(struct sandbox *sandbox) {
    sandbox->network.names_due_ms = 0;
}

/* ---- asking ---- */

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->items[i]);
    free(names->items);
    free(names);
}

static void release(struct names *names) {
    if (--names->open > 0) return;
    void (*closed)(void *data) = names->closed;
    void *closed_data = names->closed_data;
    free_names(names);
    closed(closed_data);
}

static bool take_address(const struct sockaddr *address, struct jail_host *ret) {
    *ret = (struct jail_host){.is_v6 = address->sa_family == AF_INET6};
    ret->bits = ret->is_v6 ? 128 : 32;
    if (address->sa_family == AF_INET)
        memcpy(ret->address, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (ret->is_v6)
        memcpy(ret->address, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    return ret->is_v6 || address->sa_family == AF_INET;
}

/* A name that can't be resolved now stands for what it stood for. */
static void take_answer(struct known_name *item, const struct addrinfo *list) {
    struct jail_host told[NAME_ADDRESSES_MAX];
    size_t count = 0;
    for (const struct addrinfo *at = list; at && count < NAME_ADDRESSES_MAX; at = at->ai_next)
        if (at->ai_addr && take_address(at->ai_addr, &told[count])) count++;
    bool is_news = known_addresses_update(&item->known, told, count, clock_monotonic_ms()) || !item->is_answered;
    item->is_answered = true;
    if (is_news) tell_all(item);
}

static void on_tick(uv_timer_t *timer);

/* Sooner than it is due, never later: starts that ask for what has no address yet would put it off for ever. */
static void schedule(struct names *names) {
    uint64_t delay_ms = ASK_EVERY_MS;
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i]->known.count == 0) delay_ms = ASK_AGAIN_MS;
    if (uv_is_active((uv_handle_t *)&names->timer) && uv_timer_get_due_in(&names->timer) <= delay_ms) return;
    uv_timer_start(&names->timer, on_tick, delay_ms, 0);
}

static void on_answer(uv_getaddrinfo_t *question, int status, struct addrinfo *list) {
    struct known_name *item = question->data;
    item->is_asking = false;
    if (!item->names->closed) {
        take_answer(item, status == 0 ? list : NULL);
        schedule(item->names);
        serve(item->names);
    }
    uv_freeaddrinfo(list);
    release(item->names);
}

static void ask(struct known_name *item) {
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    item->question.data = item;
    item->is_asking =
        uv_getaddrinfo(item->names->engine->loop, &item->question, on_answer, item->name, NULL, &hints) == 0;
    item->names->open += item->is_asking;
}

/* One question at a time for a name, however many sandboxes want it. */
static void ask_if_unknown(struct known_name *item) {
    if (!item->is_asking && item->known.count == 0) ask(item);
}

bool names_await(struct sandbox *sandbox) {
    if (!goes_by_names(sandbox)) return false;
    for (size_t i = 0; i < sandbox->config.profile->jail.egress.name_count; i++) ask_if_unknown(listed(sandbox, i));
    if (!awaits_answer(sandbox)) return false;
    struct names *names = sandbox->engine->names;
    sandbox->network.names_due_ms = clock_monotonic_ms() + AWAIT_MS;
    if (!uv_is_active((uv_handle_t *)&names->patience)) uv_timer_start(&names->patience, on_patience_over, AWAIT_MS, 0);
    return true;
}

static void on_tick(uv_timer_t *timer) {
    struct names *names = timer->data;
    for (size_t i = 0; i < names->count; i++)
        if (!names->items[i]->is_asking) ask(names->items[i]);
    schedule(names);
}

/* ---- beginning and end ---- */

static size_t count_listed(const struct guard_profiles *profiles) {
    size_t count = 0;
    for (size_t i = 0; i < profiles->count; i++) count += profiles->items[i].jail.egress.name_count;
    return count;
}

static int add_name(struct names *names, const char *name, struct error *reterr) {
    if (find(names, name)) return 0;
    struct known_name **items = reallocarray(names->items, names->count + 1, sizeof *items);
    if (items) names->items = items;
    struct known_name *item = items ? calloc(1, sizeof *item) : NULL;
    if (!item) return error_set(reterr, E_NO_MEMORY, "no memory for the names that profiles list");
    item->names = names;
    snprintf(item->name, sizeof item->name, "%s", name);
    names->items[names->count++] = item;
    return 0;
}

static int add_names(struct names *names, const struct guard_profiles *profiles, struct error *reterr) {
    int result = 0;
    for (size_t i = 0; i < profiles->count; i++) {
        const struct jail_egress *egress = &profiles->items[i].jail.egress;
        for (size_t k = 0; k < egress->name_count && result == 0; k++)
            result = add_name(names, egress->names[k].name, reterr);
    }
    return result;
}

/* A service whose profiles list names for the first time. */
static int begin(struct engine *engine, const struct guard_profiles *profiles, struct names **ret,
                 struct error *reterr) {
    struct names *names = calloc(1, sizeof *names);
    if (!names) return error_set(reterr, E_NO_MEMORY, "no memory for the names that profiles list");
    *names = (struct names){.engine = engine, .open = 2};
    int result = add_names(names, profiles, reterr);
    if (result < 0) {
        free_names(names);
        return result;
    }
    names->timer.data = names->patience.data = names;
    uv_timer_init(engine->loop, &names->timer);
    uv_timer_init(engine->loop, &names->patience);
    *ret = names;
    return 0;
}

int names_take(struct engine *engine, const struct guard_profiles *profiles, struct error *reterr) {
    if (count_listed(profiles) == 0) return 0;
    int result =
        engine->names ? add_names(engine->names, profiles, reterr) : begin(engine, profiles, &engine->names, reterr);
    if (result == 0) uv_timer_start(&engine->names->timer, on_tick, 0, 0);
    return result;
}

static void on_timer_closed(uv_handle_t *handle) {
    release(handle->data);
}

/* A lookup that runs on a thread can't be cancelled. */
void names_close(struct names *names, void (*closed)(void *data), void *data) {
    names->closed = closed;
    names->closed_data = data;
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i]->is_asking) uv_cancel((uv_req_t *)&names->items[i]->question);
    uv_close((uv_handle_t *)&names->timer, on_timer_closed);
    uv_close((uv_handle_t *)&names->patience, on_timer_closed);
}
