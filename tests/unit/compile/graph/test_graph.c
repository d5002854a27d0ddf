/* Tests the module graph: its order, cycles, bounds, and the output as JSON, text and dot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/graph/graph.h"

enum { MANY = 20000 };

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct graph_style inside = {.external = false}, all = {.external = true};

static struct graph *make(const struct graph_module *modules, size_t count) {
    struct graph *graph = NULL;
    struct error error;
    if (graph_make(modules, count, &graph, &error) < 0) fail_msg("%s", error.detail);
    return graph;
}

static void assert_order(const struct graph_module *modules, size_t count, const char *expected) {
    CLEANUP_GRAPH struct graph *graph = make(modules, count);
    CLEANUP(buf_free) struct buf order = BUF_INIT;
    for (size_t i = 0; i < graph_group_count(graph); i++) {
        struct graph_edges group = graph_group(graph, i);
        if (i > 0) buf_append_byte(&order, ' ');
        for (size_t j = 0; j < group.count; j++)
            buf_printf(&order, "%s%s", j ? "," : "", graph_module(graph, group.modules[j])->module);
    }
    assert_string_equal(buf_string(&order), expected);
}

/* ---- order and cycles ---- */

static void test_dependencies_come_first(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "A", .needs = {[GRAPH_RUNTIME] = NAMES("B", "C")}},
        {.module = "B", .needs = {[GRAPH_COMPILE] = NAMES("C")}},
        {.module = "C", .needs = {[GRAPH_EXPORTS] = NAMES("D")}},
        {.module = "D"},
    };
    assert_order(modules, 4, "D C B A");
}

static void test_a_cycle_is_one_group(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "Z", .needs = {[GRAPH_RUNTIME] = NAMES("M")}},
        {.module = "M", .needs = {[GRAPH_COMPILE] = NAMES("B")}},
        {.module = "B", .needs = {[GRAPH_EXPORTS] = NAMES("Z"), [GRAPH_RUNTIME] = NAMES("Base")}},
        {.module = "Base"},
        {.module = "User", .needs = {[GRAPH_RUNTIME] = NAMES("M")}},
    };
    assert_order(modules, 5, "Base B,M,Z User");
}

static void test_two_cycles_stay_apart(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "A", .needs = {[GRAPH_RUNTIME] = NAMES("B")}},
        {.module = "B", .needs = {[GRAPH_RUNTIME] = NAMES("A", "C")}},
        {.module = "C", .needs = {[GRAPH_RUNTIME] = NAMES("D")}},
        {.module = "D", .needs = {[GRAPH_RUNTIME] = NAMES("C")}},
    };
    assert_order(modules, 4, "C,D A,B");
}

static void test_a_module_that_calls_itself_is_no_cycle(void **state) {
    (void)state;
    struct graph_module modules[] = {{.module = "A", .needs = {[GRAPH_RUNTIME] = NAMES("A", "A")}}};
    CLEANUP_GRAPH struct graph *graph = make(modules, 1);
    assert_int_equal(graph_needs(graph, 0, GRAPH_RUNTIME).count, 0);
    assert_int_equal(graph_group(graph, 0).count, 1);
}

/* The same project in another order gives the same answer. */
static void test_input_order_does_not_matter(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "A", .app = "x", .needs = {[GRAPH_RUNTIME] = NAMES("C", "B", "Io")}},
        {.module = "B", .app = "x", .needs = {[GRAPH_COMPILE] = NAMES("C", "C")}},
        {.module = "C", .app = "x", .needs = {[GRAPH_EXPORTS] = NAMES("B")}},
    };
    struct graph_module shuffled[] = {modules[2], modules[0], modules[1]};
    shuffled[1].needs[GRAPH_RUNTIME] = NAMES("Io", "B", "C", "Io");
    CLEANUP_GRAPH struct graph *one = make(modules, 3);
    CLEANUP_GRAPH struct graph *other = make(shuffled, 3);
    json_t *first = graph_to_json(one, &all), *second = graph_to_json(other, &all);
    assert_true(json_equal(first, second));
    json_decref(first);
    json_decref(second);
}

static void test_of_two_of_one_name_one_counts(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "A", .app = "second", .needs = {[GRAPH_RUNTIME] = NAMES("B")}},
        {.module = "A", .app = "first"},
        {.module = "B", .app = "second"},
    };
    CLEANUP_GRAPH struct graph *graph = make(modules, 3);
    assert_int_equal(graph_module_count(graph), 2);
    assert_string_equal(graph_module(graph, 0)->app, "first");
    assert_int_equal(graph_needs(graph, 0, GRAPH_RUNTIME).count, 0);
}

static void test_nothing_is_a_graph_too(void **state) {
    (void)state;
    CLEANUP_GRAPH struct graph *graph = make(NULL, 0);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    graph_to_text(graph, &inside, &text);
    assert_string_equal(buf_string(&text), "0 modules, 0 dependencies, 0 cycles\n");
    buf_clear(&text);
    graph_to_dot(graph, &inside, &text);
    assert_string_equal(buf_string(&text), "digraph modules {\n  rankdir = LR;\n  node [shape=box];\n}\n");
}

/* ---- size ---- */

struct many {
    char (*names)[16];
    const char *(*lists)[2];
    struct graph_module *modules;
};

/* m00000 needs m00001, and so on; the last one needs the first if it is a ring. */
static struct many many_modules(bool is_ring) {
    struct many many = {calloc(MANY, sizeof *many.names), calloc(MANY, sizeof *many.lists),
                        calloc(MANY, sizeof *many.modules)};
    assert_true(many.names && many.lists && many.modules);
    for (size_t i = 0; i < MANY; i++) snprintf(many.names[i], sizeof *many.names, "m%05zu", i);
    for (size_t i = 0; i < MANY; i++) {
        bool last = i + 1 == MANY;
        if (!last || is_ring) many.lists[i][0] = many.names[last ? 0 : i + 1];
        many.modules[i] = (struct graph_module){.module = many.names[i], .needs = {[GRAPH_RUNTIME] = many.lists[i]}};
    }
    return many;
}

static void many_free(struct many *many) {
    free(many->names);
    free(many->lists);
    free(many->modules);
}

static void test_a_long_chain(void **state) {
    (void)state;
    CLEANUP(many_free) struct many many = many_modules(false);
    CLEANUP_GRAPH struct graph *graph = make(many.modules, MANY);
    assert_int_equal(graph_group_count(graph), MANY);
    for (size_t i = 0; i < MANY; i++) {
        struct graph_edges group = graph_group(graph, i);
        assert_int_equal(group.count, 1);
        assert_int_equal(group.modules[0], MANY - 1 - i);
    }
}

static void test_a_long_cycle(void **state) {
    (void)state;
    CLEANUP(many_free) struct many many = many_modules(true);
    CLEANUP_GRAPH struct graph *graph = make(many.modules, MANY);
    assert_int_equal(graph_group_count(graph), 1);
    struct graph_edges group = graph_group(graph, 0);
    assert_int_equal(group.count, MANY);
    for (size_t i = 0; i < MANY; i++) assert_int_equal(group.modules[i], i);
    json_t *json = graph_to_json(graph, &inside);
    assert_int_equal(json_array_size(json_array_get(json_object_get(json, "cycles"), 0)), MANY);
    json_decref(json);
}

static void test_bounds(void **state) {
    (void)state;
    struct error error;
    struct graph *graph = NULL;
    struct graph_module one = {.module = "A"};
    assert_true(graph_make(&one, GRAPH_MODULES_MAX + 1, &graph, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    const char **names = calloc(GRAPH_EDGES_MAX + 2, sizeof *names);
    assert_non_null(names);
    for (size_t i = 0; i <= GRAPH_EDGES_MAX; i++) names[i] = "B";
    one.needs[GRAPH_RUNTIME] = names;
    assert_true(graph_make(&one, 1, &graph, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_null(graph);
    free(names);
}

/* Whatever the edges are, everything that a module needs is in an earlier group or in its own. */
static void test_order_holds_for_any_edges(void **state) {
    (void)state;
    enum { COUNT = 60, ROUNDS = 200 };
    static char names[COUNT][8];
    uint32_t random = 1;
    for (int i = 0; i < COUNT; i++) snprintf(names[i], sizeof names[i], "m%d", i);
    for (int round = 0; round < ROUNDS; round++) {
        const char *lists[COUNT][4] = {{NULL}};
        struct graph_module modules[COUNT];
        size_t group_of[COUNT], degree = (size_t)round % 3 + 1;
        for (int i = 0; i < COUNT; i++) {
            for (size_t j = 0; j < degree; j++) {
                random = random * 1664525 + 1013904223;
                lists[i][j] = random >> 30 ? names[(random >> 8 & 0xFFFF) % COUNT] : NULL;
                if (!lists[i][j]) break;
            }
            modules[i] = (struct graph_module){.module = names[i], .needs = {[GRAPH_COMPILE] = lists[i]}};
        }
        CLEANUP_GRAPH struct graph *graph = make(modules, COUNT);
        size_t seen = 0;
        for (size_t i = 0; i < graph_group_count(graph); i++)
            for (size_t j = 0; j < graph_group(graph, i).count; j++, seen++)
                group_of[graph_group(graph, i).modules[j]] = i;
        assert_int_equal(seen, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            struct graph_edges needs = graph_needs(graph, i, GRAPH_COMPILE);
            for (size_t j = 0; j < needs.count; j++) assert_true(group_of[needs.modules[j]] <= group_of[i]);
        }
    }
}

/* ---- renderings ---- */

static const struct graph_module *project(void) {
    static const char *const compile[] = {"Macros", NULL}, *const exports[] = {"Struct", NULL},
                             *const runtime[] = {"Server", "gen_server", NULL}, *const back[] = {"Counter", NULL};
    static const struct graph_module modules[] = {
        {.module = "Counter", .app = "counter", .file = "lib/counter.ex", .needs = {compile, exports, runtime}},
        {.module = "Macros", .app = "macros"},
        {.module = "Server", .app = "counter", .needs = {[GRAPH_RUNTIME] = back}},
        {.module = "Struct", .file = "lib/struct.ex"},
    };
    return modules;
}

static void test_json(void **state) {
    (void)state;
    CLEANUP_GRAPH struct graph *graph = make(project(), 4);
    json_t *json = graph_to_json(graph, &all);
    CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"modules\":["
        "{\"module\":\"Counter\",\"app\":\"counter\",\"file\":\"lib/counter.ex\",\"compile\":[\"Macros\"],"
        "\"exports\":[\"Struct\"],\"runtime\":[\"Server\"],\"external\":[\"gen_server\"]},"
        "{\"module\":\"Macros\",\"app\":\"macros\",\"file\":null,\"compile\":[],\"exports\":[],\"runtime\":[],"
        "\"external\":[]},"
        "{\"module\":\"Server\",\"app\":\"counter\",\"file\":null,\"compile\":[],\"exports\":[],"
        "\"runtime\":[\"Counter\"],\"external\":[]},"
        "{\"module\":\"Struct\",\"app\":null,\"file\":\"lib/struct.ex\",\"compile\":[],\"exports\":[],\"runtime\":[],"
        "\"external\":[]}],"
        "\"cycles\":[[\"Counter\",\"Server\"]],\"order\":[[\"Macros\"],[\"Struct\"],[\"Counter\",\"Server\"]]}");
    json_decref(json);
}

static void test_json_without_the_outside(void **state) {
    (void)state;
    CLEANUP_GRAPH struct graph *graph = make(project(), 4);
    json_t *json = graph_to_json(graph, &inside);
    assert_null(json_object_get(json_array_get(json_object_get(json, "modules"), 0), "external"));
    json_decref(json);
}

static void test_text(void **state) {
    (void)state;
    CLEANUP_GRAPH struct graph *graph = make(project(), 4);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    graph_to_text(graph, &all, &text);
    assert_string_equal(buf_string(&text), "4 modules, 4 dependencies, 1 cycle\n"
                                           "\n"
                                           "Counter  counter, lib/counter.ex\n"
                                           "  compile  Macros\n"
                                           "  exports  Struct\n"
                                           "  runtime  Server\n"
                                           "  outside  gen_server\n"
                                           "Macros  macros\n"
                                           "Server  counter\n"
                                           "  runtime  Counter\n"
                                           "Struct  lib/struct.ex\n"
                                           "\n"
                                           "Reload order:\n"
                                           "  1. Macros\n"
                                           "  2. Struct\n"
                                           "  3. Counter, Server  (cycle)\n");
}

static void test_dot(void **state) {
    (void)state;
    CLEANUP_GRAPH struct graph *graph = make(project(), 4);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    graph_to_dot(graph, &inside, &text);
    assert_string_equal(buf_string(&text),
                        "digraph modules {\n"
                        "  rankdir = LR;\n"
                        "  node [shape=box];\n"
                        "  subgraph cluster_0 {\n    label = \"\";\n    \"Struct\";\n  }\n"
                        "  subgraph cluster_1 {\n    label = \"counter\";\n    \"Counter\";\n    \"Server\";\n  }\n"
                        "  subgraph cluster_2 {\n    label = \"macros\";\n    \"Macros\";\n  }\n"
                        "  \"Counter\" [color=firebrick];\n"
                        "  \"Server\" [color=firebrick];\n"
                        "  \"Counter\" -> \"Macros\" [style=bold, color=firebrick, label=compile];\n"
                        "  \"Counter\" -> \"Struct\" [style=dashed, color=darkorange, label=exports];\n"
                        "  \"Counter\" -> \"Server\" [style=solid, color=gray40];\n"
                        "  \"Server\" -> \"Counter\" [style=solid, color=gray40];\n"
                        "}\n");
}

/* Names that would end a string, draw on a terminal, or be no text at all. */
static void test_hostile_names(void **state) {
    (void)state;
    struct graph_module modules[] = {
        {.module = "\"];\nevil [\\", .app = "\033[31m", .file = "\xff", .needs = {[GRAPH_RUNTIME] = NAMES("\x80\"")}},
        {.module = "ünï"},
    };
    CLEANUP_GRAPH struct graph *graph = make(modules, 2);
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    json_t *json = graph_to_json(graph, &all);
    json_t *first = json_array_get(json_object_get(json, "modules"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "module")), modules[0].module);
    assert_string_equal(json_string_value(json_object_get(first, "file")), "\\xff");
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "external"), 0)), "\\x80\\\"");
    json_decref(json);
    graph_to_text(graph, &all, &text);
    assert_null(strchr(buf_string(&text), '\033'));
    assert_non_null(strstr(buf_string(&text), "\\\"];\\x0aevil [\\\\  \\x1b[31m, \\xff\n"));
    assert_true(utf8_valid(text.data, text.size));
    buf_clear(&text);
    graph_to_dot(graph, &all, &text);
    assert_null(strchr(buf_string(&text), '\033'));
    assert_non_null(strstr(buf_string(&text), "  \"\\\"];\\\\x0Aevil [\\\\\" -> \"\\\\x80\\\"\" ["));
    assert_non_null(strstr(buf_string(&text), "\"ünï\""));
    assert_true(utf8_valid(text.data, text.size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dependencies_come_first),
        cmocka_unit_test(test_a_cycle_is_one_group),
        cmocka_unit_test(test_two_cycles_stay_apart),
        cmocka_unit_test(test_a_module_that_calls_itself_is_no_cycle),
        cmocka_unit_test(test_input_order_does_not_matter),
        cmocka_unit_test(test_of_two_of_one_name_one_counts),
        cmocka_unit_test(test_nothing_is_a_graph_too),
        cmocka_unit_test(test_a_long_chain),
        cmocka_unit_test(test_a_long_cycle),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_order_holds_for_any_edges),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_without_the_outside),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
