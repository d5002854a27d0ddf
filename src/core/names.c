#include "core/names.h"

#include <netinet/in.h>
#include <string.h>

#include "core/core_internal.h"

enum { ASK_EVERY_MS = 60000, ASK_AGAIN_MS = 5000 /* while somebody has no address at all */ };

struct known_name {
    struct names *names;
    char name[JAIL_DOMAIN_BYTES];
    uv_getaddrinfo_t question;
    bool is_asking;
    struct known_addresses known;
};

struct names {
    struct engine *engine;
    uv_timer_t timer;
    struct known_name *items;
    size_t count;
    unsigned open; /* the timer, and questions that are not answered yet */
    void (*closed)(void *data);
    void *closed_data;
};

static struct known_name *find(const struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcasecmp(names->items[i].name, name) == 0) return &names->items[i];
    return NULL;
}

/* ---- telling ---- */

static size_t add_addresses(const struct known_name *item, const struct jail_named *named, struct jail_host *ret,
                            size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < item->known.count && count < max; i++) {
        ret[count] = item->known.hosts[i];
        ret[count].first_port = named->first_port;
        ret[count++].last_port = named->last_port;
    }
    return count;
}

static bool goes_by_names(const struct sandbox *sandbox) {
    const struct jail_profile *profile = sandbox->config.profile;
    return sandbox->engine->names && sandbox->node && profile->network == JAIL_NETWORK_OUTGOING &&
           profile->egress.name_count > 0 && sandbox->engine->host.features.guarantees & 1u << JAIL_GUARANTEE_EGRESS;
}

void names_tell(struct sandbox *sandbox) {
    struct jail_host hosts[JAIL_RESOLVED_MAX];
    size_t count = 0;
    if (!goes_by_names(sandbox)) return;
    const struct jail_egress *egress = &sandbox->config.profile->egress;
    for (size_t i = 0; i < egress->name_count; i++) {
        const struct known_name *item = find(sandbox->engine->names, egress->names[i].name);
        if (item) count += add_addresses(item, &egress->names[i], hosts + count, JAIL_RESOLVED_MAX - count);
    }
    node_set_resolved(sandbox->node, hosts, count);
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
        if (lists(&sandbox->config.profile->egress, item->name)) names_tell(sandbox);
    }
}

/* ---- asking ---- */

static void release(struct names *names) {
    if (--names->open > 0) return;
    void (*closed)(void *data) = names->closed;
    void *closed_data = names->closed_data;
    free(names->items);
    free(names);
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
    if (known_addresses_update(&item->known, told, count, clock_monotonic_ms())) tell_all(item);
}

static void on_tick(uv_timer_t *timer);

static void schedule(struct names *names) {
    uint64_t delay_ms = ASK_EVERY_MS;
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].known.count == 0) delay_ms = ASK_AGAIN_MS;
    uv_timer_start(&names->timer, on_tick, delay_ms, 0);
}

static void on_answer(uv_getaddrinfo_t *question, int status, struct addrinfo *list) {
    struct known_name *item = question->data;
    item->is_asking = false;
    if (status == 0 && !item->names->closed) take_answer(item, list);
    if (!item->names->closed) schedule(item->names);
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

static void on_tick(uv_timer_t *timer) {
    struct names *names = timer->data;
    for (size_t i = 0; i < names->count; i++)
        if (!names->items[i].is_asking) ask(&names->items[i]);
    schedule(names);
}

/* ---- beginning and end ---- */

static size_t count_listed(const struct guard_profiles *profiles) {
    size_t count = 0;
    for (size_t i = 0; i < profiles->count; i++) count += profiles->items[i].jail.egress.name_count;
    return count;
}

static void add_names(struct names *names, const struct jail_egress *egress) {
    for (size_t i = 0; i < egress->name_count; i++) {
        struct known_name *item = &names->items[names->count];
        if (find(names, egress->names[i].name)) continue;
        item->names = names;
        memcpy(item->name, egress->names[i].name, sizeof item->name);
        names->count++;
    }
}

int names_open(struct engine *engine, struct names **ret, struct error *reterr) {
    const struct guard_profiles *profiles = &engine->profiles;
    size_t listed = count_listed(profiles);
    *ret = NULL;
    if (listed == 0) return 0;
    struct names *names = calloc(1, sizeof *names);
    struct known_name *items = calloc(listed, sizeof *items);
    if (!names || !items) {
        free(names);
        free(items);
        return error_set(reterr, E_NO_MEMORY, "no memory for the names that profiles list");
    }
    *names = (struct names){.engine = engine, .items = items, .open = 1};
    for (size_t i = 0; i < profiles->count; i++) add_names(names, &profiles->items[i].jail.egress);
    names->timer.data = names;
    uv_timer_init(engine->loop, &names->timer);
    uv_timer_start(&names->timer, on_tick, 0, 0);
    *ret = names;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle) {
    release(handle->data);
}

/* A question that somebody is answering now can't be taken back. */
void names_close(struct names *names, void (*closed)(void *data), void *data) {
    names->closed = closed;
    names->closed_data = data;
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].is_asking) uv_cancel((uv_req_t *)&names->items[i].question);
    uv_close((uv_handle_t *)&names->timer, on_timer_closed);
}
