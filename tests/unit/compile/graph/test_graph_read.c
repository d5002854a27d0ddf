/* Tests how a module graph is read from a build's description or from its BEAM files. */
#include "scratch.h"

#include "compile/graph/graph_read.h"

static struct graph *graph_from(const struct graph_source *source) {
    struct graph *graph = NULL;
    struct error error;
    if (graph_make(source->modules, source->count, &graph, &error) < 0) fail_msg("%s", error.detail);
    return graph;
}

static void test_facts(void **state) {
    (void)state;
    json_t *facts = json_loads("{\"graph\": ["
                               "{\"module\": \"Elixir.Counter\", \"app\": \"counter\", \"file\": \"lib/counter.ex\","
                               " \"compile\": [\"Elixir.Macros\"], \"exports\": [], \"runtime\": [\"lists\", 7]},"
                               "{\"module\": \"Elixir.Macros\", \"app\": null}, {\"app\": \"nameless\"}, 3]}",
                               0, NULL);
    CLEANUP(graph_source_free) struct graph_source source = {0};
    assert_true(graph_source_from_facts(&source, facts));
    CLEANUP_GRAPH struct graph *graph = graph_from(&source);
    assert_int_equal(graph_module_count(graph), 2);
    assert_string_equal(graph_module(graph, 0)->module, "Counter");
    assert_string_equal(graph_module(graph, 0)->file, "lib/counter.ex");
    assert_null(graph_module(graph, 1)->app);
    struct graph_edges needs = graph_needs(graph, 0, GRAPH_COMPILE);
    assert_int_equal(needs.count, 1);
    assert_int_equal(needs.modules[0], 1);
    size_t count;
    assert_string_equal(graph_external(graph, 0, &count)[0], "lists");
    assert_int_equal(count, 1);
    json_decref(facts);
}

static void test_facts_by_file(void **state) {
    (void)state;
    json_t *facts = json_loads("{\"sources\": ["
                               "{\"file\": \"lib/a.ex\", \"app\": \"a\", \"modules\": [{\"module\": \"Elixir.A\"}],"
                               " \"compile\": [\"Elixir.B\"], \"exports\": [], \"runtime\": [\"Elixir.C\"]},"
                               "{\"file\": \"lib/bc.ex\", \"app\": \"a\", \"modules\": [{\"module\": \"Elixir.B\"},"
                               " {\"module\": \"Elixir.C\"}, 7], \"exports\": [\"Elixir.A\"], \"runtime\": [\"x\"]}]}",
                               0, NULL);
    CLEANUP(graph_source_free) struct graph_source source = {0};
    assert_true(graph_source_from_facts(&source, facts));
    assert_int_equal(source.count, 3);
    assert_string_equal(source.modules[0].needs[GRAPH_COMPILE][0], "B");
    assert_string_equal(source.modules[0].needs[GRAPH_RUNTIME][0], "C");
    assert_string_equal(source.modules[2].module, "C");
    assert_string_equal(source.modules[2].file, "lib/bc.ex");
    assert_string_equal(source.modules[2].needs[GRAPH_EXPORTS][0], "A");
    assert_null(source.modules[1].needs[GRAPH_RUNTIME]); /* which of the two calls x is not told */
    assert_null(source.modules[2].needs[GRAPH_RUNTIME]);
    json_decref(facts);
}

static void test_facts_without_a_graph(void **state) {
    (void)state;
    static const char *const cases[] = {"{}", "{\"graph\": null}", "{\"graph\": {}}"};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *facts = json_loads(cases[i], 0, NULL);
        struct graph_source source = {0};
        assert_false(graph_source_from_facts(&source, facts));
        graph_source_free(&source);
        json_decref(facts);
    }
}

static size_t read_fixture(const char *name, uint8_t *ret, size_t size) {
    char path[512];
    snprintf(path, sizeof path, FIXTURES "/%s", name);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, ret, size);
    assert_true(got > 0);
    return (size_t)got;
}

static void test_beams(void **state) {
    (void)state;
    static uint8_t data[1 << 20];
    CLEANUP(graph_source_free) struct graph_source source = {0};
    struct error error;
    static const char *const names[] = {"fx_kinds.beam", "fx_literals.beam"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t size = read_fixture(names[i], data, sizeof data);
        assert_int_equal(graph_source_add_beam(&source, "fixtures", data, size, &error), 0);
    }
    memset(data, 0, sizeof data); /* nothing of it is needed any more */
    CLEANUP_GRAPH struct graph *graph = graph_from(&source);
    assert_int_equal(graph_module_count(graph), 2);
    assert_string_equal(graph_module(graph, 0)->module, "fx_kinds");
    assert_string_equal(graph_module(graph, 0)->app, "fixtures");
    size_t count;
    const char *const *external = graph_external(graph, 0, &count);
    bool calls_erlang = false;
    for (size_t i = 0; i < count; i++) calls_erlang |= strcmp(external[i], "erlang") == 0;
    assert_true(calls_erlang);
}

static void test_a_damaged_beam(void **state) {
    (void)state;
    static uint8_t data[1 << 20];
    CLEANUP(graph_source_free) struct graph_source source = {0};
    struct error error;
    size_t size = read_fixture("fx_kinds.beam", data, sizeof data);
    assert_true(graph_source_add_beam(&source, "a", data, size / 2, &error) < 0);
    assert_int_equal(error.code, E_FORMAT);
    assert_int_equal(source.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_facts_by_file),
        cmocka_unit_test(test_facts_without_a_graph),
        cmocka_unit_test(test_beams),
        cmocka_unit_test(test_a_damaged_beam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
