/* A graph as JSON, as text for people, and for Graphviz. Names are strangers', so each rendering escapes in its own
   way what would break it. */
#include <stdio.h>
#include <string.h>

#include "compile/graph/graph.h"

static const char *name_of(const struct graph *graph, size_t module) {
    return graph_module(graph, module)->module;
}

static bool is_cycle(struct graph_edges group) {
    return group.count > 1;
}

/* ---- JSON ---- */

static json_t *text_json(const char *text) {
    if (!text) return json_null();
    json_t *value = json_string(text);
    if (value) return value;
    CLEANUP(buf_free) struct buf escaped = BUF_INIT;
    escape_text(&escaped, text, strlen(text));
    return json_string(buf_string(&escaped));
}

static json_t *names_json(const struct graph *graph, struct graph_edges edges) {
    json_t *names = json_array();
    for (size_t i = 0; i < edges.count; i++) json_array_append_new(names, text_json(name_of(graph, edges.modules[i])));
    return names;
}

static json_t *external_json(const struct graph *graph, size_t module) {
    size_t count;
    const char *const *external = graph_external(graph, module, &count);
    json_t *names = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(names, text_json(external[i]));
    return names;
}

static json_t *module_json(const struct graph *graph, size_t number, const struct graph_style *style) {
    const struct graph_module *module = graph_module(graph, number);
    json_t *object = json_object();
    json_object_set_new(object, "module", text_json(module->module));
    json_object_set_new(object, "app", text_json(module->app));
    json_object_set_new(object, "file", text_json(module->file));
    for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++)
        json_object_set_new(object, graph_kind_name((enum graph_kind)kind),
                            names_json(graph, graph_needs(graph, number, (enum graph_kind)kind)));
    if (style->external) json_object_set_new(object, "external", external_json(graph, number));
    return object;
}

json_t *graph_to_json(const struct graph *graph, const struct graph_style *style) {
    json_t *modules = json_array(), *cycles = json_array(), *order = json_array();
    for (size_t i = 0; i < graph_module_count(graph); i++) json_array_append_new(modules, module_json(graph, i, style));
    for (size_t i = 0; i < graph_group_count(graph); i++) {
        json_t *names = names_json(graph, graph_group(graph, i));
        if (is_cycle(graph_group(graph, i))) json_array_append(cycles, names);
        json_array_append_new(order, names);
    }
    return json_pack("{s:o, s:o, s:o}", "modules", modules, "cycles", cycles, "order", order);
}

/* ---- text ---- */

static void put_text(struct buf *buf, const char *text) {
    escape_text(buf, text, strlen(text));
}

static void put_names(const struct graph *graph, struct graph_edges edges, struct buf *buf) {
    for (size_t i = 0; i < edges.count; i++) {
        if (i > 0) buf_append_string(buf, ", ");
        put_text(buf, name_of(graph, edges.modules[i]));
    }
}

static void put_external(const struct graph *graph, size_t module, struct buf *buf) {
    size_t count;
    const char *const *external = graph_external(graph, module, &count);
    if (count > 0) buf_append_string(buf, "  outside  ");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) buf_append_string(buf, ", ");
        put_text(buf, external[i]);
    }
    if (count > 0) buf_append_byte(buf, '\n');
}

/* "Counter.Server  counter, lib/counter/server.ex", and below it what it needs. */
static void put_module(const struct graph *graph, size_t number, const struct graph_style *style, struct buf *buf) {
    const struct graph_module *module = graph_module(graph, number);
    put_text(buf, module->module);
    if (module->app || module->file) buf_append_string(buf, "  ");
    if (module->app) put_text(buf, module->app);
    if (module->app && module->file) buf_append_string(buf, ", ");
    if (module->file) put_text(buf, module->file);
    buf_append_byte(buf, '\n');
    for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) {
        struct graph_edges needs = graph_needs(graph, number, (enum graph_kind)kind);
        if (needs.count == 0) continue;
        buf_printf(buf, "  %s  ", graph_kind_name((enum graph_kind)kind));
        put_names(graph, needs, buf);
        buf_append_byte(buf, '\n');
    }
    if (style->external) put_external(graph, number, buf);
}

static void put_count(struct buf *buf, size_t count, const char *one, const char *many) {
    buf_printf(buf, "%zu %s", count, count == 1 ? one : many);
}

static void put_totals(const struct graph *graph, struct buf *buf) {
    size_t edges = 0, cycles = 0;
    for (size_t i = 0; i < graph_module_count(graph); i++)
        for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) edges += graph_needs(graph, i, (enum graph_kind)kind).count;
    for (size_t i = 0; i < graph_group_count(graph); i++) cycles += is_cycle(graph_group(graph, i));
    put_count(buf, graph_module_count(graph), "module", "modules");
    buf_append_string(buf, ", ");
    put_count(buf, edges, "dependency", "dependencies");
    buf_append_string(buf, ", ");
    put_count(buf, cycles, "cycle", "cycles");
    buf_append_byte(buf, '\n');
}

static int digits_of(size_t number) {
    return snprintf(NULL, 0, "%zu", number);
}

void graph_to_text(const struct graph *graph, const struct graph_style *style, struct buf *buf) {
    put_totals(graph, buf);
    if (graph_module_count(graph) == 0) return;
    buf_append_byte(buf, '\n');
    for (size_t i = 0; i < graph_module_count(graph); i++) put_module(graph, i, style, buf);
    buf_append_string(buf, "\nReload order:\n");
    int width = digits_of(graph_group_count(graph));
    for (size_t i = 0; i < graph_group_count(graph); i++) {
        struct graph_edges group = graph_group(graph, i);
        buf_printf(buf, "  %*zu. ", width, i + 1);
        put_names(graph, group, buf);
        buf_append_string(buf, is_cycle(group) ? "  (cycle)\n" : "\n");
    }
}

/* ---- Graphviz ---- */

/* A quoted string of the language: only quote and backslash mean something in it. Controls, and bytes that are no text,
   are shown by their codes. */
static void put_quoted(struct buf *buf, const char *text) {
    const uint8_t *data = (const uint8_t *)text;
    buf_append_byte(buf, '"');
    for (size_t at = 0, size = strlen(text); at < size;) {
        uint32_t code = 0;
        size_t length = utf8_decode(data + at, size - at, &code);
        if (length == 0 || code < ' ' || (code >= 0x7F && code < 0xA0)) {
            buf_printf(buf, "\\\\x%02X", data[at++]);
            continue;
        }
        if (code == '"' || code == '\\') buf_append_byte(buf, '\\');
        buf_append(buf, data + at, length);
        at += length;
    }
    buf_append_byte(buf, '"');
}

struct member {
    const char *app;
    size_t module;
};

static int by_app(const void *a, const void *b) {
    const struct member *left = a, *right = b;
    int order = strcmp(left->app, right->app);
    return order ? order : (left->module > right->module) - (left->module < right->module);
}

/* The modules, application by application; NULL without memory. */
static struct member *sort_by_app(const struct graph *graph) {
    size_t count = graph_module_count(graph);
    struct member *members = calloc(count + 1, sizeof *members);
    for (size_t i = 0; members && i < count; i++) {
        const char *app = graph_module(graph, i)->app;
        members[i] = (struct member){app ? app : "", i};
    }
    if (members) qsort(members, count, sizeof *members, by_app);
    return members;
}

/* A box around an application's modules, where there are several applications. */
static void put_modules(const struct graph *graph, struct buf *buf) {
    size_t count = graph_module_count(graph), box = 0;
    CLEANUP_FREE struct member *members = sort_by_app(graph);
    if (!members) buf->failed = true;
    if (!members || count == 0) return;
    bool is_boxed = strcmp(members[0].app, members[count - 1].app) != 0;
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || strcmp(members[i - 1].app, members[i].app) != 0;
        bool last = i + 1 == count || strcmp(members[i + 1].app, members[i].app) != 0;
        if (is_boxed && first) {
            buf_printf(buf, "  subgraph cluster_%zu {\n    label = ", box++);
            put_quoted(buf, members[i].app);
            buf_append_string(buf, ";\n");
        }
        buf_append_string(buf, is_boxed ? "    " : "  ");
        put_quoted(buf, name_of(graph, members[i].module));
        buf_append_string(buf, ";\n");
        if (is_boxed && last) buf_append_string(buf, "  }\n");
    }
}

static void put_edge(struct buf *buf, const char *from, const char *to, const char *attributes) {
    buf_append_string(buf, "  ");
    put_quoted(buf, from);
    buf_append_string(buf, " -> ");
    put_quoted(buf, to);
    buf_printf(buf, " [%s];\n", attributes);
}

static void put_edges(const struct graph *graph, size_t module, const struct graph_style *style, struct buf *buf) {
    static const char *const attributes[] = {
        [GRAPH_COMPILE] = "style=bold, color=firebrick, label=compile",
        [GRAPH_EXPORTS] = "style=dashed, color=darkorange, label=exports",
        [GRAPH_RUNTIME] = "style=solid, color=gray40",
    };
    for (int kind = 0; kind < GRAPH_KIND_COUNT; kind++) {
        struct graph_edges needs = graph_needs(graph, module, (enum graph_kind)kind);
        for (size_t i = 0; i < needs.count; i++)
            put_edge(buf, name_of(graph, module), name_of(graph, needs.modules[i]), attributes[kind]);
    }
    size_t count;
    const char *const *external = graph_external(graph, module, &count);
    for (size_t i = 0; style->external && i < count; i++)
        put_edge(buf, name_of(graph, module), external[i], "style=dotted, color=gray70");
}

static void put_cycles(const struct graph *graph, struct buf *buf) {
    for (size_t i = 0; i < graph_group_count(graph); i++) {
        struct graph_edges group = graph_group(graph, i);
        for (size_t member = 0; is_cycle(group) && member < group.count; member++) {
            buf_append_string(buf, "  ");
            put_quoted(buf, name_of(graph, group.modules[member]));
            buf_append_string(buf, " [color=firebrick];\n");
        }
    }
}

void graph_to_dot(const struct graph *graph, const struct graph_style *style, struct buf *buf) {
    buf_append_string(buf, "digraph modules {\n  rankdir = LR;\n  node [shape=box];\n");
    put_modules(graph, buf);
    put_cycles(graph, buf);
    for (size_t i = 0; i < graph_module_count(graph); i++) put_edges(graph, i, style, buf);
    buf_append_string(buf, "}\n");
}
