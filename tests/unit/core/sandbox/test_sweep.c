/* Builds that nothing needs go: without the loop reading the cache, and without waiting for other users' work. */
#include "core/stage.h"

#include <dirent.h>
#include <sys/stat.h>

#include "core/jobs/oneshot.h"
#include "core/sandbox/sandbox.h"
#include "scratch.h"

enum { OWNER = 1000, STRANGER = 1001, BYTES = 1000, MANY = 300 };

struct scene {
    struct stage *stage;
    struct quota_rules rules;
    char home[TEST_FOLDER_BYTES];
    char digest[STORE_DIGEST_BYTES], last_put[STORE_DIGEST_BYTES];
    bool is_put, is_closed;
};

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    void *stage;
    assert_int_equal(stage_setup(&stage), 0);
    scene->stage = stage;
    struct engine *engine = &scene->stage->engine;
    assert_non_null(test_folder_make(scene->home));
    engine->config.home = scene->home;
    engine->ready = true;
    assert_int_equal(store_open(engine->loop, scene->home, &engine->store, NULL), 0);
    quota_rules_init(&scene->rules, UINT64_C(1) << 31);
    assert_int_equal(quota_rule_set(&scene->rules.items[0], "disk", "1000", NULL), 0);
    assert_int_equal(quotas_open(&(struct quotas_config){.rules = &scene->rules, .service_uid = 1},
                                 &engine->builds.ledger.quotas, NULL),
                     0);
    *state = scene;
    return 0;
}

static void on_closed(void *data) {
    ((struct scene *)data)->is_closed = true;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    struct engine *engine = &scene->stage->engine;
    void *stage = scene->stage;
    store_close(engine->store, on_closed, scene);
    uv_run(engine->loop, UV_RUN_DEFAULT);
    assert_true(scene->is_closed);
    ledger_free(&engine->builds.ledger);
    quotas_close(engine->builds.ledger.quotas);
    nftw(scene->home, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    free(scene);
    return stage_teardown(&stage);
}

static void on_put(void *data, const char *digest, const struct error *error) {
    struct scene *scene = data;
    assert_null(error);
    snprintf(scene->last_put, sizeof scene->last_put, "%s", digest);
    scene->is_put = true;
}

static void put(struct scene *scene, const char *path) {
    struct engine *engine = &scene->stage->engine;
    struct store_file file = {.path = path, .data = "FOR1", .size = 4};
    scene->is_put = false;
    store_put_build(engine->store, NULL, &file, 1, on_put, scene);
    while (!scene->is_put) uv_run(engine->loop, UV_RUN_ONCE);
}

/* A put comes after the sweeps that wait. */
static void settle(struct scene *scene) {
    const struct engine *engine = &scene->stage->engine;
    while (engine->builds.is_removing || engine->builds.is_sweeping) uv_run(engine->loop, UV_RUN_ONCE);
    put(scene, "b/ebin/b.beam");
}

/* The owner's only one, and all its quota. Another one is refused. */
static void use_up(struct scene *scene) {
    struct engine *engine = &scene->stage->engine;
    struct error error;
    put(scene, "a/ebin/a.beam");
    memcpy(scene->digest, scene->last_put, sizeof scene->digest);
    assert_int_equal(ledger_admit(&engine->builds.ledger, OWNER, BYTES, NULL), 0);
    ledger_add(&engine->builds.ledger, OWNER, scene->digest, BYTES, true);
    assert_int_equal(ledger_admit(&engine->builds.ledger, OWNER, BYTES, &error), -E_LIMIT);
}

static bool has_room_after_sweep(struct scene *scene) {
    struct engine *engine = &scene->stage->engine;
    sweep_if_due(engine);
    settle(scene);
    bool has_room = quotas_held(engine->builds.ledger.quotas, OWNER, QUOTA_DISK) == 0;
    assert_int_equal(store_build_stays(engine->store, scene->digest), !has_room);
    return has_room;
}

static void test_a_strangers_work_keeps_no_user_short(void **state) {
    struct scene *scene = *state;
    struct oneshot work = {.uid = STRANGER, .reads_of = STRANGER};
    use_up(scene);
    scene->stage->engine.oneshots.first = &work;
    assert_true(has_room_after_sweep(scene));
}

static void test_own_work_may_use_a_build_that_nothing_names(void **state) {
    struct scene *scene = *state;
    struct oneshot work = {.uid = OWNER, .reads_of = OWNER};
    use_up(scene);
    scene->stage->engine.oneshots.first = &work;
    assert_false(has_room_after_sweep(scene));
    work = (struct oneshot){.uid = 0, .reads_of = OWNER}; /* an admin looks at the owner's sandbox */
    assert_false(has_room_after_sweep(scene));
    scene->stage->engine.oneshots.first = NULL;
    assert_true(has_room_after_sweep(scene));
}

static void test_a_build_that_a_sandbox_runs_stays(void **state) {
    struct scene *scene = *state;
    struct sandbox *sandbox = sandbox_new(&scene->stage->engine, "s", NULL);
    use_up(scene);
    sandbox->owner = STRANGER;
    snprintf(sandbox->code.booted_build, sizeof sandbox->code.booted_build, "%s", scene->digest);
    assert_false(has_room_after_sweep(scene));
    sandbox_remove(sandbox);
}

static void test_a_build_that_another_user_made_too_stays(void **state) {
    struct scene *scene = *state;
    use_up(scene);
    ledger_add(&scene->stage->engine.builds.ledger, STRANGER, scene->digest, BYTES, false);
    assert_false(has_room_after_sweep(scene));
}

/* ---- the cache ---- */

static size_t count_entries(const struct scene *scene) {
    char path[PATH_MAX];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/store/cache", scene->home);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void fill_cache(const struct scene *scene) {
    struct cached_build build = {.owner = OWNER};
    char key[STORE_DIGEST_BYTES];
    memset(build.digest, 'a', sizeof build.digest - 1);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "%064x", i);
        cache_keep(scene->home, key, &build);
    }
    assert_int_equal(count_entries(scene), MANY);
}

static void await_release(uv_work_t *work) {
    uv_sem_wait(work->data);
}

/* While the pool's one thread is occupied, nothing is read or removed. */
static void test_the_loop_does_not_read_the_cache(void **state) {
    struct scene *scene = *state;
    struct engine *engine = &scene->stage->engine;
    uv_sem_t release;
    uv_work_t other = {.data = &release};
    fill_cache(scene);
    uv_sem_init(&release, 0);
    uv_queue_work(engine->loop, &other, await_release, NULL);
    engine->builds.at_sweep -= CACHED_BUILDS_KEPT; /* so many were written since */
    sweep_if_due(engine);
    size_t left = count_entries(scene);
    uv_sem_post(&release);
    settle(scene);
    assert_int_equal(left, MANY);
    assert_int_equal(count_entries(scene), CACHED_BUILDS_KEPT);
    uv_sem_destroy(&release);
}

/* Work that begins while the pool reads may have found a build that the cache names no more. */
static void test_a_sweep_gives_way_to_work_that_began_meanwhile(void **state) {
    struct scene *scene = *state;
    struct engine *engine = &scene->stage->engine;
    struct oneshot work = {.uid = STRANGER, .reads_of = STRANGER};
    use_up(scene);
    map_free(&engine->builds.ledger.refused);
    engine->builds.at_sweep -= CACHED_BUILDS_KEPT;
    sweep_if_due(engine);
    engine->oneshots.first = &work;
    settle(scene);
    assert_true(store_build_stays(engine->store, scene->digest));
    engine->oneshots.first = NULL;
    assert_true(has_room_after_sweep(scene));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_strangers_work_keeps_no_user_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_work_may_use_a_build_that_nothing_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_build_that_a_sandbox_runs_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_build_that_another_user_made_too_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_loop_does_not_read_the_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_sweep_gives_way_to_work_that_began_meanwhile, set_up, tear_down),
    };
    setenv("UV_THREADPOOL_SIZE", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
