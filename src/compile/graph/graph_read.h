/* A graph from what is known of a build: its own description, else its BEAM files. */
#ifndef COMPILE_GRAPH_GRAPH_READ_H
#define COMPILE_GRAPH_GRAPH_READ_H

#include "compile/compile.h"
#include "compile/graph/graph.h"

/* What graph_make takes, with the memory behind it. */
struct graph_source {
    struct graph_module *modules;
    size_t count, capacity;
    void **owned; /* texts and lists without another owner */
    size_t owned_count, owned_capacity;
};

void graph_source_free(struct graph_source *source);

/* From a build's description; the texts stay the facts'. `graph` has a module's needs: {module, app, file, compile[],
   exports[], runtime[]}. Else `sources` has a file's: {file, app, modules[]{module}, compile[], exports[], runtime[]};
   which of several modules of a file calls whom is then not known, and their list is NULL. What has another shape is
   passed over. False when there is neither, or no memory. */
bool graph_source_from_facts(struct graph_source *source, json_t *facts);
/* From a valid BEAM file's bytes, which are only read during the call. */
int graph_source_add_beam(struct graph_source *source, const char *app, const uint8_t *data, size_t size,
                          struct error *reterr);

/* The graph of a build in the store, rendered: graph_to_json's object, and for text and dot its `text` besides.
   Blocking. */
int graph_of_build(const struct store *store, const char *digest, enum graph_format format,
                   const struct graph_style *style, json_t **ret, struct error *reterr);

#endif
