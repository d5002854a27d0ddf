/* A registry that can't be written, because its disk is full: operations that need it say so and change nothing, what
   runs goes on, and so does the service once there is room again. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_mounts.h"
#include "processes.h"
#include "support.h"

#define COUNTER EXAMPLES "/counter_erl"

enum { BRIEF_MS = 4000 * TEST_SLOWNESS }; /* so long that it outlives its own start on a busy machine */

static const char *in_home(struct world *world, const char *name, char path[128]) {
    snprintf(path, 128, "%s/%s", world_home(world), name);
    return path;
}

static void stop_service(struct world *world) {
    CLEANUP_FD int launcher = process_open(world_pid(world, "launcher.lock"));
    process_end(world_pid(world, "daemon.lock"), SIGTERM);
    assert_true(process_ends(launcher, WORLD_DEADLINE_MS));
}

static void mount_like(const char *path, const struct stat *status, const char *size) {
    CLEANUP_FREE char *options = string_print("size=%s,mode=%o,uid=%u,gid=%u", size, status->st_mode & 07777,
                                              (unsigned)status->st_uid, (unsigned)status->st_gid);
    assert_int_equal(mount("home", path, "tmpfs", 0, options), 0);
}

static void copy_folder(const char *from, const char *to) {
    CLEANUP_FREE char *command = string_print("cp -a '%s/.' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* A small disk for the home, and one of its own for the store, which thus has room when the registry has none. */
static void mount_home(struct world *world) {
    char path[128];
    struct stat home, store;
    stop_service(world);
    assert_int_equal(stat(world_home(world), &home), 0);
    assert_int_equal(stat(in_home(world, "store", path), &store), 0);
    CLEANUP_FREE char *disk = string_print("%s-disk", world_home(world));
    CLEANUP_FREE char *disk_store = string_print("%s/store", disk);
    assert_int_equal(mkdir(disk, 0700), 0);
    mount_like(disk, &home, "64m");
    assert_int_equal(mkdir(disk_store, 0700), 0);
    mount_like(disk_store, &store, "32m");
    copy_folder(world_home(world), disk);
    assert_int_equal(mount(disk, world_home(world), NULL, MS_MOVE, NULL), 0);
    assert_int_equal(rmdir(disk), 0);
}

static void unmount_home(struct world *world) {
    char path[128];
    stop_service(world);
    assert_int_equal(umount2(in_home(world, "store", path), 0), 0);
    assert_int_equal(umount2(world_home(world), 0), 0);
}

static void fill_disk(struct world *world) {
    static const char page[4096];
    char path[128];
    CLEANUP_FD int fd = open(in_home(world, "filler", path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof page) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
}

static void make_room(struct world *world) {
    char path[128];
    assert_int_equal(unlink(in_home(world, "filler", path)), 0);
}

static void assert_refused_for(struct world *world, const char *wanted, const char *op, json_t *params) {
    json_t *problem = world_fails(world, op, "disk_full", "O", params);
    assert_string_equal(json_string_value(json_object_get(problem, "category")), "resource");
    assert_string_equal(json_string_value(json_object_get(problem, "recovery")), "retry");
    assert_int_equal(json_integer_value(json_object_get(problem, "status")), 507);
    if (!strstr(json_string_value(json_object_get(problem, "detail")), wanted))
        fail_msg("%s: '%s'", op, json_string_value(json_object_get(problem, "detail")));
    json_decref(problem);
    json_decref(params);
}

static void assert_refused(struct world *world, const char *op, const char *id) {
    assert_refused_for(world, "no room left for the registry", op, json_pack("{s:s}", "id", id));
}

static void assert_listed(struct world *world, size_t count) {
    json_t *list = world_op(world, "list", NULL);
    assert_int_equal(json_array_size(list), count);
    json_decref(list);
}

static bool is_listed(struct world *world, const char *id) {
    json_t *list = world_op(world, "list", NULL), *sandbox;
    size_t i;
    bool found = false;
    json_array_foreach(list, i, sandbox) found |= strcmp(json_string_value(json_object_get(sandbox, "id")), id) == 0;
    json_decref(list);
    return found;
}

static void assert_counts(struct world *world, const char *id, const char *expected) {
    CLEANUP_FREE char *text = world_eval_text(world, id, NULL, "counter:increment()");
    assert_string_equal(text, expected);
}

static void assert_never_restarted(struct world *world, const char *id) {
    json_t *info = world_info(world, id);
    assert_int_equal(json_integer_value(json_object_get(info, "restart_count")), 0);
    json_decref(info);
}

static void refuse_while_full(struct world *world) {
    assert_refused_for(world, "no room left for the registry", "create",
                       json_pack("{s:s, s:s, s:i}", "id", "new", "source", COUNTER, "data_size_bytes", 0));
    assert_false(is_listed(world, "new"));
    assert_refused(world, "restart", "kept");
    assert_never_restarted(world, "kept");
    assert_refused(world, "destroy", "kept");
    assert_counts(world, "kept", "2"); /* the same tree */
    assert_true(is_listed(world, "kept"));
    /* Last: the spare volume, of another size, gives way and frees a little. */
    assert_refused_for(world, "/data: no room left for it", "create",
                       json_pack("{s:s, s:s, s:i}", "id", "new", "source", COUNTER, "data_size_bytes", 32 << 20));
}

/* Its time is over while the disk is full. It is destroyed once the registry can be told: at the latest when there is
   room again, or at once if the files that its end frees make enough. */
static void wait_for_brief(struct world *world, uint64_t since, const char *event) {
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = event, .sandbox_id = "brief"}));
}

static void fill_the_registry(void **state) {
    (void)state;
    struct world *world = world_open("warm-nodes = 0\n");
    mount_home(world);
    json_decref(world_create(world, "kept", COUNTER, "medium"));
    assert_counts(world, "kept", "1");
    pid_t daemon = world_pid(world, "daemon.lock");
    uint64_t since = world_now(world);
    world_do(world, "create", "{s:s, s:s, s:i}", "id", "brief", "source", COUNTER, "ttl_ms", BRIEF_MS);
    fill_disk(world);
    refuse_while_full(world);
    wait_for_brief(world, since, "expired");
    make_room(world);
    wait_for_brief(world, since, "destroyed");
    json_decref(world_create(world, "new", COUNTER, "medium"));
    assert_counts(world, "new", "1");
    assert_counts(world, "kept", "3");
    assert_int_equal(world_pid(world, "daemon.lock"), daemon);
    world_destroy(world, "new");
    world_destroy(world, "kept");
    assert_listed(world, 0);
    unmount_home(world);
    assert_listed(world, 0); /* by another service, which has the home below to end in */
    world_close(world);
}

static void a_full_registry_is_told_and_passes(void **state) {
    (void)state;
    test_in_own_mounts((struct CMUnitTest)cmocka_unit_test(fill_the_registry));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_registry_is_told_and_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
