/* The modules of a project and what each needs of the others: cycles, the order to load them in, and renderings. Pure:
   it reads no file. The names come from strangers' code. */
#ifndef COMPILE_GRAPH_GRAPH_H
#define COMPILE_GRAPH_GRAPH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
    GRAPH_MODULES_MAX = 100000,
    GRAPH_EDGES_MAX = 4000000,
};

/* Why one module needs another: its code ran while this was compiled (macros, parse transforms); this was compiled
   against what it exports (structs, imports); it is called. */
#define GRAPH_KIND_LIST(X)                                                                                             \
    X(COMPILE, "compile")                                                                                              \
    X(EXPORTS, "exports")                                                                                              \
    X(RUNTIME, "runtime")

enum graph_kind {
#define X(name, text) GRAPH_##name,
    GRAPH_KIND_LIST(X)
#undef X
        GRAPH_KIND_COUNT
};

const char *graph_kind_name(enum graph_kind kind);

/* One module as it is known. Lists of names end with a NULL; NULL is an empty one. */
struct graph_module {
    const char *module;
    const char *app;  /* NULL: unknown */
    const char *file; /* of its source; NULL: unknown */
    const char *const *needs[GRAPH_KIND_COUNT];
};

struct graph;

/* The texts and lists are borrowed as long as the graph lives. Of two modules of one name the one whose application's
   name comes first counts. The order in which modules and names are given does not matter. */
int graph_make(const struct graph_module *modules, size_t count, struct graph **ret, struct error *reterr);
struct graph *graph_free(struct graph *graph); /* accepts NULL, returns NULL */

static inline void cleanup_graph(struct graph **graph) {
    graph_free(*graph);
}
#define CLEANUP_GRAPH CLEANUP(cleanup_graph)

/* Modules are numbered by their names' order. */
size_t graph_module_count(const struct graph *graph);
const struct graph_module *graph_module(const struct graph *graph, size_t module);

struct graph_edges {
    const uint32_t *modules; /* ascending, each once, never the module itself */
    size_t count;
};
struct graph_edges graph_needs(const struct graph *graph, size_t module, enum graph_kind kind);

/* Names of modules that are needed but not the project's, sorted, each once. */
const char *const *graph_external(const struct graph *graph, size_t module, size_t *ret_count);

/* The order to load modules in: whatever a module needs is in an earlier group, or in its own, which is then a cycle. A
   group's modules are ascending. */
size_t graph_group_count(const struct graph *graph);
struct graph_edges graph_group(const struct graph *graph, size_t group);

/* ---- renderings ---- */

enum graph_format { GRAPH_JSON, GRAPH_TEXT, GRAPH_DOT };

struct graph_style {
    bool external; /* also what is not the project's */
};

/* `modules[]{module, app, file, compile[], exports[], runtime[]}`, `cycles[][]`, `order[][]`; NULL without memory. */
json_t *graph_to_json(const struct graph *graph, const struct graph_style *style);
void graph_to_text(const struct graph *graph, const struct graph_style *style, struct buf *buf);
void graph_to_dot(const struct graph *graph, const struct graph_style *style, struct buf *buf);

#endif
