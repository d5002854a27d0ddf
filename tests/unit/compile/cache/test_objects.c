/* Tests the cache of compiled files: what is found again, what is never shared between projects, and which entries are
   dropped first. */
#include "scratch.h"

#include <dirent.h>
#include <sys/stat.h>

#include "compile/cache/objects.h"

struct stage {
    struct scratch *scratch;
    struct objects objects;
    struct manifest manifest;
    struct tree tree;
    struct plan plan;
};

static void open_stage(struct stage *stage, void **state, uint64_t max_bytes) {
    *stage = (struct stage){.scratch = *state};
    assert_int_equal(objects_open(&stage->objects, stage->scratch->path, max_bytes, NULL), 0);
    stage->plan = (struct plan){.manifest = &stage->manifest, .tree = &stage->tree};
    assert_true(plan_link(&stage->plan));
}

static void close_stage(struct stage *stage) {
    plan_free(&stage->plan);
    manifest_free(&stage->manifest);
}

/* A compiled file whose module's code is the text; content is that of its source. */
static struct record *make(struct stage *stage, uint8_t content, const char *code, bool reads_config) {
    struct record *record = record_new("lib/a.ex", "app");
    record->digest[0] = content;
    record->modules = calloc(1, sizeof *record->modules);
    record->module_count = 1;
    record->modules[0] = (struct compiled_module){
        .name = strdup("Elixir.A"), .beam = (uint8_t *)strdup(code), .beam_size = strlen(code)};
    record->warnings = json_array();
    record->reads_config = reads_config;
    record->is_compiled = true;
    plan_inputs(&stage->plan, record, record->inputs);
    return record;
}

static void keep(struct stage *stage, const char *scope, uint8_t content, const char *code, bool reads_config) {
    struct record *record = make(stage, content, code, reads_config);
    objects_keep(&stage->objects, scope, record);
    record_free(record);
}

/* The code that is found for the content, or NULL. */
static void assert_found(struct stage *stage, const char *scope, uint8_t content, const char *code) {
    struct record *record = record_new("lib/a.ex", "app");
    record->digest[0] = content;
    bool found = objects_find(&stage->objects, scope, &stage->plan, record);
    assert_int_equal(found, code != NULL);
    assert_int_equal(record->is_compiled, found);
    if (found) {
        assert_int_equal(record->modules[0].beam_size, strlen(code));
        assert_memory_equal(record->modules[0].beam, code, strlen(code));
        assert_string_equal(record->path, "lib/a.ex");
    }
    record_free(record);
}

static void test_what_was_kept_is_found(void **state) {
    CLEANUP(close_stage) struct stage stage;
    open_stage(&stage, state, 1 << 20);
    assert_found(&stage, "mine", 1, NULL);
    keep(&stage, "mine", 1, "one", false);
    keep(&stage, "mine", 2, "two", false);
    assert_found(&stage, "mine", 1, "one");
    assert_found(&stage, "mine", 2, "two");
    assert_found(&stage, "mine", 3, NULL);
}

/* The same file in another's project is another file: its macros may have made anything of it. */
static void test_another_scope_is_never_served(void **state) {
    CLEANUP(close_stage) struct stage stage;
    open_stage(&stage, state, 1 << 20);
    keep(&stage, "hostile", 1, "evil", false);
    assert_found(&stage, "mine", 1, NULL);
    keep(&stage, "mine", 1, "good", false);
    keep(&stage, "hostile", 1, "evil again", false);
    assert_found(&stage, "mine", 1, "good");
}

static void test_what_else_went_into_it_counts(void **state) {
    CLEANUP(close_stage) struct stage stage;
    open_stage(&stage, state, 1 << 20);
    for (uint8_t config = 0; config < 6; config++) {
        char code[] = {(char)('a' + config), '\0'};
        stage.plan.config[0] = config;
        keep(&stage, "mine", 1, code, true);
    }
    assert_found(&stage, "mine", 1, "f");
    stage.plan.config[0] = 3;
    assert_found(&stage, "mine", 1, "d");
    stage.plan.config[0] = 0; /* only the last few are kept */
    assert_found(&stage, "mine", 1, NULL);
}

static void only_object(struct stage *stage, char ret[PATH_MAX]) {
    DIR *directory = opendir(stage->objects.folder);
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] == '.') continue;
        assert_int_equal(string_format(ret, PATH_MAX, NULL, "%s/%s", stage->objects.folder, entry->d_name), 0);
        count++;
    }
    closedir(directory);
    assert_int_equal(count, 1); /* no temporary file either */
}

static void test_what_is_torn_is_not_found(void **state) {
    CLEANUP(close_stage) struct stage stage;
    char path[PATH_MAX];
    struct stat status;
    open_stage(&stage, state, 1 << 20);
    keep(&stage, "mine", 1, "one", false);
    only_object(&stage, path);
    assert_int_equal(stat(path, &status), 0);
    for (off_t size = status.st_size - 1; size >= 0; size -= 7) {
        assert_int_equal(truncate(path, size), 0);
        assert_found(&stage, "mine", 1, NULL);
    }
    keep(&stage, "mine", 1, "one", false);
    assert_found(&stage, "mine", 1, "one");
    CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "X", 1, status.st_size - 1), 1);
    assert_found(&stage, "mine", 1, NULL);
}

static void test_the_least_used_go_first(void **state) {
    enum { MAX_BYTES = 1 << 20, OBJECTS = 40 };
    CLEANUP(close_stage) struct stage stage;
    open_stage(&stage, state, MAX_BYTES);
    CLEANUP_FREE char *code = malloc(MAX_BYTES / 20);
    memset(code, 'x', MAX_BYTES / 20);
    code[MAX_BYTES / 20 - 1] = '\0';
    for (uint8_t i = 0; i < OBJECTS; i++) {
        keep(&stage, "mine", i, code, false);
        assert_found(&stage, "mine", 0, code); /* used again and again */
        objects_sweep(&stage.objects);
    }
    assert_found(&stage, "mine", 0, code);
    assert_found(&stage, "mine", 1, NULL);
    assert_found(&stage, "mine", OBJECTS - 1, code);
}

static void test_a_folder_that_can_not_be_made(void **state) {
    struct scratch *scratch = *state;
    struct objects objects;
    struct error error;
    scratch_file(scratch, "store", "");
    assert_int_equal(objects_open(&objects, scratch->path, 1, &error), -E_SYSTEM);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_what_was_kept_is_found),        IN_SCRATCH(test_another_scope_is_never_served),
        IN_SCRATCH(test_what_else_went_into_it_counts), IN_SCRATCH(test_what_is_torn_is_not_found),
        IN_SCRATCH(test_the_least_used_go_first),       IN_SCRATCH(test_a_folder_that_can_not_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
