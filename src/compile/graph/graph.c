/* The graph of modules: edges by kind, cycles, and the order in which a reload would load them. */
#include "compile/graph/graph.h"

#include <string.h>

/* What one module needs is one run of `edges`, first by kind and then by number, and one of `external`. */
struct node {
    const struct graph_module *module;
    uint32_t first[GRAPH_KIND_COUNT + 1];
    uint32_t first_external, external_count;
};

struct graph {
    struct node *nodes; /* by name */
    size_t count;
    uint32_t *edges;
    size_t edge_count;
    const char **external;
    size_t external_count;
    uint32_t *order;       /* the nodes, group by group */
    uint32_t *group_first; /* one more than there are groups */
    size_t group_count;
};

const char *graph_kind_name(enum graph_kind kind) {
    static const char *const names[] = {
#define X(name, text) [GRAPH_##name] = text,
        GRAPH_KIND_LIST(X)
#undef X
    };
    return names[kind];
}

struct graph *graph_free(struct graph *graph) {
    if (!graph) return NULL;
    free(graph->nodes);
    free(graph->edges);
    free(graph->external);
    free(graph->order);
    free(graph->group_first);
    free(graph);
    return NULL;
}

/* ---- nodes ---- */

static int by_name_and_app(const void *a, const void *b) {
    const struct graph_module *left = ((const struct node *)a)->module, *right = ((const struct node *)b)->module;
    int order = strcmp(left->module, right->module);
    return order ? order : strcmp(left->app ? left->app : "", right->app ? right->app : "");
}

static void take_modules(struct graph *graph, const struct graph_module *modules, size_t count) {
    for (size_t i = 0; i < count; i++) graph->nodes[i].module = &modules[i];
    qsort(graph->nodes, count, sizeof *graph->nodes, by_name_and_app);
    for (size_t i = 0; i < count; i++) {
        bool again =
            i > 0 && strcmp(graph->nodes[graph->count - 1].module->module, graph->nodes[i].module->module) == 0;
        if (!again) graph->nodes[graph->count++] = graph->nodes[i];
    }
}

static bool find_node(const struct graph *graph, const char *name, uint32_t *ret) {
    size_t low = 0, high = graph->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, graph->nodes[middle].module->module);
        if (order == 0) {
            *ret = (uint32_t)middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* ---- edges ---- */

static size_t list_length(const char *const *names) {
    size_t length = 0;
    while (names && names[length]) length++;
    return length;
}

static size_t count_names(const struct graph *graph) {
    size_t count = 0;
    for (size_t i = 0; i < graph->count; i++)
        for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) count += list_length(graph->nodes[i].module->needs[kind]);
    return count;
}

static int by_number(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort what was added since first and drop what is there twice. */
static void settle_edges(struct graph *graph, size_t first) {
    uint32_t *run = graph->edges + first;
    size_t count = graph->edge_count - first, kept = 0;
    if (count > 1) qsort(run, count, sizeof *run, by_number);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || run[kept - 1] != run[i]) run[kept++] = run[i];
    graph->edge_count = first + kept;
}

static void settle_external(struct graph *graph, size_t first) {
    const char **run = graph->external + first;
    size_t count = graph->external_count - first, kept = 0;
    if (count > 1) qsort(run, count, sizeof *run, by_text);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(run[kept - 1], run[i]) != 0) run[kept++] = run[i];
    graph->external_count = first + kept;
}

static void take_needs(struct graph *graph, uint32_t number) {
    struct node *node = &graph->nodes[number];
    size_t first_external = graph->external_count;
    for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) {
        const char *const *name = node->module->needs[kind];
        node->first[kind] = (uint32_t)graph->edge_count;
        for (; name && *name; name++) {
            uint32_t target;
            if (!find_node(graph, *name, &target))
                graph->external[graph->external_count++] = *name;
            else if (target != number)
                graph->edges[graph->edge_count++] = target;
        }
        settle_edges(graph, node->first[kind]);
    }
    node->first[GRAPH_KIND_COUNT] = (uint32_t)graph->edge_count;
    settle_external(graph, first_external);
    node->first_external = (uint32_t)first_external;
    node->external_count = (uint32_t)(graph->external_count - first_external);
}

/* ---- groups: Tarjan's strongly connected components. They come out with what is needed first. ---- */

enum { UNSEEN = 0 };

/* The depth-first walk has a stack of its own: strangers choose how deep it goes. */
struct walk {
    uint32_t *number;  /* when a node was first seen, from 1; UNSEEN */
    uint32_t *low;     /* the earliest node that can be reached from it and leads back to it */
    uint32_t *next;    /* the edge to follow next */
    uint32_t *path;    /* from the root to where we are */
    uint32_t *waiting; /* seen, and in no group yet */
    bool *is_waiting;
    size_t path_length, waiting_count;
    uint32_t seen;
};

static void walk_free(struct walk *walk) {
    free(walk->number);
    free(walk->low);
    free(walk->next);
    free(walk->path);
    free(walk->waiting);
    free(walk->is_waiting);
}

static bool walk_init(struct walk *walk, size_t count) {
    walk->number = calloc(count + 1, sizeof *walk->number);
    walk->low = calloc(count + 1, sizeof *walk->low);
    walk->next = calloc(count + 1, sizeof *walk->next);
    walk->path = calloc(count + 1, sizeof *walk->path);
    walk->waiting = calloc(count + 1, sizeof *walk->waiting);
    walk->is_waiting = calloc(count + 1, sizeof *walk->is_waiting);
    return walk->number && walk->low && walk->next && walk->path && walk->waiting && walk->is_waiting;
}

static void enter(const struct graph *graph, struct walk *walk, uint32_t node) {
    walk->number[node] = walk->low[node] = ++walk->seen;
    walk->next[node] = graph->nodes[node].first[0];
    walk->path[walk->path_length++] = node;
    walk->waiting[walk->waiting_count++] = node;
    walk->is_waiting[node] = true;
}

/* All that waits since the node was seen is one group with it. */
static void close_group(struct graph *graph, struct walk *walk, uint32_t node) {
    uint32_t *group = graph->order + graph->group_first[graph->group_count];
    uint32_t member, size = 0;
    do {
        member = walk->waiting[--walk->waiting_count];
        walk->is_waiting[member] = false;
        group[size++] = member;
    } while (member != node);
    qsort(group, size, sizeof *group, by_number);
    graph->group_count++;
    graph->group_first[graph->group_count] = graph->group_first[graph->group_count - 1] + size;
}

static void lower(struct walk *walk, uint32_t node, uint32_t to) {
    if (to < walk->low[node]) walk->low[node] = to;
}

static void leave(struct graph *graph, struct walk *walk, uint32_t node) {
    if (walk->low[node] == walk->number[node]) close_group(graph, walk, node);
    walk->path_length--;
    if (walk->path_length > 0) lower(walk, walk->path[walk->path_length - 1], walk->low[node]);
}

static void walk_from(struct graph *graph, struct walk *walk, uint32_t root) {
    enter(graph, walk, root);
    while (walk->path_length > 0) {
        uint32_t node = walk->path[walk->path_length - 1];
        if (walk->next[node] == graph->nodes[node].first[GRAPH_KIND_COUNT]) {
            leave(graph, walk, node);
            continue;
        }
        uint32_t target = graph->edges[walk->next[node]++];
        if (walk->number[target] == UNSEEN)
            enter(graph, walk, target);
        else if (walk->is_waiting[target])
            lower(walk, node, walk->number[target]);
    }
}

static int find_groups(struct graph *graph, struct error *reterr) {
    CLEANUP(walk_free) struct walk walk = {0};
    graph->order = calloc(graph->count + 1, sizeof *graph->order);
    graph->group_first = calloc(graph->count + 1, sizeof *graph->group_first);
    if (!graph->order || !graph->group_first || !walk_init(&walk, graph->count))
        return error_set(reterr, E_NO_MEMORY, "no memory for a graph of %zu modules", graph->count);
    for (uint32_t node = 0; node < graph->count; node++)
        if (walk.number[node] == UNSEEN) walk_from(graph, &walk, node);
    return 0;
}

/* ---- making ---- */

static int take_all_needs(struct graph *graph, struct error *reterr) {
    size_t names = count_names(graph);
    if (names > GRAPH_EDGES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%zu dependencies; a graph has at most %d", names, GRAPH_EDGES_MAX);
    graph->edges = calloc(names + 1, sizeof *graph->edges);
    graph->external = calloc(names + 1, sizeof *graph->external);
    if (!graph->edges || !graph->external)
        return error_set(reterr, E_NO_MEMORY, "no memory for %zu dependencies", names);
    for (uint32_t node = 0; node < graph->count; node++) take_needs(graph, node);
    return 0;
}

int graph_make(const struct graph_module *modules, size_t count, struct graph **ret, struct error *reterr) {
    if (count > GRAPH_MODULES_MAX)
        return error_set(reterr, E_TOO_LARGE, "%zu modules; a graph has at most %d", count, GRAPH_MODULES_MAX);
    CLEANUP_GRAPH struct graph *graph = calloc(1, sizeof *graph);
    if (graph) graph->nodes = calloc(count + 1, sizeof *graph->nodes);
    if (!graph || !graph->nodes) return error_set(reterr, E_NO_MEMORY, "no memory for a graph of %zu modules", count);
    take_modules(graph, modules, count);
    int result = take_all_needs(graph, reterr);
    if (result == 0) result = find_groups(graph, reterr);
    if (result == 0) *ret = take_ptr(graph);
    return result;
}

/* ---- reading ---- */

size_t graph_module_count(const struct graph *graph) {
    return graph->count;
}

const struct graph_module *graph_module(const struct graph *graph, size_t module) {
    return graph->nodes[module].module;
}

struct graph_edges graph_needs(const struct graph *graph, size_t module, enum graph_kind kind) {
    const uint32_t *first = graph->nodes[module].first;
    return (struct graph_edges){graph->edges + first[kind], first[kind + 1] - first[kind]};
}

const char *const *graph_external(const struct graph *graph, size_t module, size_t *ret_count) {
    *ret_count = graph->nodes[module].external_count;
    return graph->external + graph->nodes[module].first_external;
}

size_t graph_group_count(const struct graph *graph) {
    return graph->group_count;
}

struct graph_edges graph_group(const struct graph *graph, size_t group) {
    const uint32_t *first = graph->group_first + group;
    return (struct graph_edges){graph->order + first[0], first[1] - first[0]};
}
