/* Builds that are a few files, compared and composed. */
#include "scratch.h"

#include <sys/stat.h>
#include <unistd.h>

#include "code/code.h"

/* A build of application `app` in a folder of its own: words of module:checksum:needed. */
static json_t *make_build(struct scratch *scratch, const char *folder, const char *words) {
    char path[PATH_MAX], copy[256], *rest = copy;
    json_t *sources = json_array(), *names = json_array();
    scratch_folder(scratch, folder);
    static const char *const below[] = {"app", "app/ebin"};
    for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, below[i]);
        scratch_folder(scratch, path);
    }
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *checksum = strchr(word, ':'), *needed = strrchr(word, ':');
        *checksum++ = *needed++ = '\0';
        snprintf(path, sizeof path, "%s/app/ebin/%s.beam", folder, word);
        scratch_file(scratch, path, checksum);
        json_t *needs = *needed ? json_pack("[s]", needed) : json_array();
        json_array_append_new(sources,
                              json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:o}", "file", word, "app", "app", "digest",
                                        "d", "modules", "module", word, "checksum", checksum, "runtime", needs));
        json_array_append_new(names, json_string(word));
    }
    snprintf(path, sizeof path, "%s/app/ebin/app.app", folder);
    scratch_file(scratch, path, "resource");
    return json_pack("{s:o, s:[{s:s}], s:o}", "sources", sources, "apps", "name", "app", "modules", names);
}

static void path_to(const struct scratch *scratch, const char *folder, char ret[PATH_MAX]) {
    snprintf(ret, PATH_MAX, "%s/%s", scratch->path, folder);
}

static const struct change *find(const struct change_set *set, const char *module) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].module, module) == 0) return &set->items[i];
    fail_msg("%s does not change", module);
    return NULL;
}

static void compare(struct scratch *scratch, const struct history *history, const char *before, const char *after,
                    struct change_set *ret) {
    char from[PATH_MAX], to[PATH_MAX];
    struct error error;
    mkdirat(scratch->fd, "store", 0700);
    json_t *old = make_build(scratch, "old", before), *new = make_build(scratch, "new", after);
    path_to(scratch, "old", from);
    path_to(scratch, "new", to);
    struct beam_store beams = {.home = scratch->path};
    struct change_base base = {&beams, history, from, old};
    if (changes_to_build(&base, to, new, ret, &error) < 0) fail_msg("%s", error.detail);
    json_decref(old);
    json_decref(new);
}

static void test_only_what_differs_changes(void **state) {
    struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    compare(*state, &history, "same:1: changed:1: deleted:1:", "same:1: changed:2: added:1:", &set);
    assert_int_equal(set.count, 3);
    const struct change *changed = find(&set, "changed"), *added = find(&set, "added"),
                        *deleted = find(&set, "deleted");
    assert_int_equal(changed->old_version.number, 1); /* what ran so far was the first */
    assert_int_equal(changed->version.number, 2);
    assert_memory_equal(changed->beam, "2", 1);
    assert_memory_equal(changed->old_beam, "1", 1);
    assert_int_equal(added->version.number, 1);
    assert_int_equal(added->old_version.number, 0);
    assert_null(added->old_beam);
    assert_true(deleted->is_deletion && deleted->old_beam && !deleted->beam);
    assert_int_equal(strlen(changed->version.beam), CODE_DIGEST_BYTES - 1);
}

static void test_nothing_differs(void **state) {
    struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    compare(*state, &history, "a:1: b:2:a", "b:2:a a:1:", &set);
    assert_int_equal(set.count, 0);
}

/* Bytes that ran before keep the number that they had. */
/* Old and new code go to the node in one frame. What is more can't, and is not read into memory. */
static void test_more_than_a_node_takes(void **state) {
    struct scratch *scratch = *state;
    struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    char from[PATH_MAX], to[PATH_MAX], file[PATH_MAX + 32];
    struct error error;
    mkdirat(scratch->fd, "store", 0700);
    json_t *old = make_build(scratch, "old", "a:1: b:1: c:1:"), *new = make_build(scratch, "new", "a:2: b:2: c:2:");
    path_to(scratch, "old", from);
    path_to(scratch, "new", to);
    for (char name = 'a'; name <= 'c'; name++) {
        snprintf(file, sizeof file, "%s/app/ebin/%c.beam", to, name);
        assert_int_equal(truncate(file, CHANGE_SET_MAX_BYTES / 2), 0);
    }
    struct beam_store beams = {.home = scratch->path, .is_dry = true};
    struct change_base base = {&beams, &history, from, old};
    assert_true(changes_to_build(&base, to, new, &set, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    json_decref(old);
    json_decref(new);
}

static void test_known_versions_keep_their_numbers(void **state) {
    CLEANUP(history_free) struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    static const char *const checksums[] = {"1", "2", "3"};
    for (size_t i = 0; i < ARRAY_SIZE(checksums); i++) {
        struct version version = {.dependencies = json_array()};
        snprintf(version.checksum, sizeof version.checksum, "%s", checksums[i]);
        assert_true(history_add(&history, "a", &version));
    }
    compare(*state, &history, "a:3:", "a:2:", &set);
    assert_int_equal(find(&set, "a")->old_version.number, 3);
    assert_int_equal(find(&set, "a")->version.number, 2);
}

static void test_what_is_needed_is_loaded_first(void **state) {
    struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    compare(*state, &history, "a:1:b b:1:c c:1: x:1:y y:1:x", "a:2:b b:1:c c:2: x:2:y y:2:x", &set);
    char *order = json_dumps(set.order, JSON_COMPACT);
    const char *a = strstr(order, "\"a\""), *c = strstr(order, "\"c\"");
    assert_true(a && c && c < a); /* a needs b, which stays and needs c */
    assert_non_null(strstr(order, "[\"x\",\"y\"]"));
    assert_null(strstr(order, "\"b\""));
    free(order);
}

static void test_a_build_without_a_description(void **state) {
    struct scratch *scratch = *state;
    struct module_set modules = {0};
    struct error error;
    json_t *facts = json_pack("{s:[{}]}", "sources");
    assert_int_equal(module_set_read(scratch->path, facts, &modules, &error), -E_SYSTEM);
    json_decref(facts);
}

static const struct store_file *file_of(const struct composed *composed, const char *path) {
    for (size_t i = 0; i < composed->count; i++)
        if (strcmp(composed->files[i].path, path) == 0) return &composed->files[i];
    return NULL;
}

static void test_what_runs_is_composed(void **state) {
    struct scratch *scratch = *state;
    struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0};
    CLEANUP(composed_free) struct composed composed = {0};
    CLEANUP(module_set_free) struct module_set modules = {0};
    char path[PATH_MAX];
    compare(scratch, &history, "same:1: changed:1: deleted:1:", "same:1: changed:2: added:1:", &set);
    json_t *facts = make_build(scratch, "base", "same:1: changed:1: deleted:1:");
    path_to(scratch, "base", path);
    assert_int_equal(compose(&(struct beam_store){.home = scratch->path}, path, facts, &set, &composed, NULL), 0);
    json_decref(facts);
    assert_memory_equal(file_of(&composed, "app/ebin/changed.beam")->data, "2", 1);
    assert_int_equal(access(file_of(&composed, "app/ebin/changed.beam")->twin, R_OK), 0); /* kept with the versions */
    assert_memory_equal(file_of(&composed, "app/ebin/same.beam")->data, "1", 1);
    assert_null(file_of(&composed, "app/ebin/same.beam")->twin);
    assert_non_null(file_of(&composed, "app/ebin/added.beam"));
    assert_non_null(file_of(&composed, "app/ebin/app.app"));
    assert_non_null(file_of(&composed, BUILD_FACTS_FILE));
    assert_null(file_of(&composed, "app/ebin/deleted.beam"));
    assert_int_equal(module_set_read(path, composed.facts, &modules, NULL), 0);
    assert_int_equal(modules.count, 3);
    assert_string_equal(module_set_find(&modules, "changed")->checksum, "2");
    assert_null(module_set_find(&modules, "deleted"));
}

static void test_going_back_to_a_version(void **state) {
    struct scratch *scratch = *state;
    CLEANUP(history_free) struct history history = {0};
    CLEANUP(change_set_free) struct change_set set = {0}, none = {0};
    char path[PATH_MAX];
    struct error error;
    struct version version = {.dependencies = json_array(), .checksum = "1"};
    scratch_folder(scratch, "store");
    struct beam_store beams = {.home = scratch->path};
    assert_int_equal(code_beam_keep(&beams, (const uint8_t *)"old", 3, version.beam, NULL), 0);
    assert_true(history_add(&history, "a", &version));
    struct version running = {.dependencies = json_array(), .checksum = "2"};
    assert_true(history_add(&history, "a", &running));
    json_t *facts = make_build(scratch, "base", "a:2:");
    path_to(scratch, "base", path);
    struct change_base base = {&beams, &history, path, facts};
    assert_int_equal(changes_to_version(&base, "a", 0, &set, NULL), 0);
    assert_int_equal(set.count, 1);
    assert_memory_equal(set.items[0].beam, "old", 3);
    assert_int_equal(set.items[0].version.number, 1);
    assert_int_equal(set.items[0].old_version.number, 2);
    assert_int_equal(changes_to_version(&base, "a", 2, &none, NULL), 0);
    assert_int_equal(none.count, 0); /* it runs */
    assert_int_equal(changes_to_version(&base, "a", 9, &none, &error), -E_NOT_FOUND);
    assert_int_equal(changes_to_version(&base, "b", 0, &none, &error), -E_NOT_FOUND);
    json_decref(facts);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_only_what_differs_changes),         IN_SCRATCH(test_nothing_differs),
        IN_SCRATCH(test_known_versions_keep_their_numbers), IN_SCRATCH(test_what_is_needed_is_loaded_first),
        IN_SCRATCH(test_a_build_without_a_description),     IN_SCRATCH(test_what_runs_is_composed),
        IN_SCRATCH(test_going_back_to_a_version),           IN_SCRATCH(test_more_than_a_node_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
