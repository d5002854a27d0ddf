/* Opens and closes a world: a service in a home of its own, with the test's files and its client. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "client/client.h"
#include "folder.h"
#include "launcher/home.h"
#include "leftovers.h"

enum { PATHS = 8, PATH_BYTES = 256, SHUTDOWN_MAX_MS = 15000 };

struct world {
    char root[TEST_FOLDER_BYTES];
    char home[48];
    struct sbx *client;
    char paths[PATHS][PATH_BYTES];
    unsigned next_path;
    pid_t owner;
    struct world *next;
};

/* Not closed yet. A test that fails jumps out of wherever it is, so what it leaves is ended when the process does. */
static struct world *open_worlds;

/* ---- files ---- */

const char *world_home(const struct world *world) {
    return world->home;
}

struct sbx *world_client(const struct world *world) {
    return world->client;
}

pid_t world_pid(const struct world *world, const char *lock) {
    pid_t pid = client_lock_owner(world->home, lock);
    assert_true(pid > 0);
    return pid;
}

const char *world_path(struct world *world, const char *name) {
    char *path = world->paths[world->next_path++ % PATHS];
    assert_int_equal(string_format(path, PATH_BYTES, NULL, "%s/files/%s", world->root, name), 0);
    return path;
}

static void make_parents(const char *path) {
    char above[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        if (mkdir(above, 0755) < 0) assert_int_equal(errno, EEXIST);
    }
}

static void write_text(const char *path, const char *text) {
    make_parents(path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

const char *world_file(struct world *world, const char *name, const char *text) {
    const char *path = world_path(world, name);
    write_text(path, text);
    return path;
}

const char *world_copy(struct world *world, const char *name, const char *from, size_t bytes_max) {
    enum { COPIED_MAX_BYTES = 1 << 22 };
    CLEANUP_FREE uint8_t *data = NULL;
    size_t size;
    assert_int_equal(file_load(from, COPIED_MAX_BYTES, &data, &size, NULL), 0);
    const char *path = world_file(world, name, "");
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, data, size < bytes_max ? size : bytes_max), 0);
    return path;
}

char *read_whole(const char *path) {
    enum { WHOLE_MAX_BYTES = 1 << 20 };
    struct buf text = {.max = WHOLE_MAX_BYTES};
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char chunk[4096];
    ssize_t got = -1;
    while (fd >= 0 && (got = read(fd, chunk, sizeof chunk)) > 0) buf_append(&text, chunk, (size_t)got);
    if (got == 0) return buf_take_string(&text);
    buf_free(&text);
    return NULL;
}

/* ---- opening and closing ---- */

static void give_seed(const char *home) {
    char command[PATH_MAX * 2];
    if (getuid() != 0) return; /* a home of root's becomes the daemon's by its launcher's doing only */
    snprintf(command, sizeof command, "%s give %s %s", SEED_SCRIPT, SEED_FOLDER, home);
    if (system(command) != 0) fail_msg("%s failed", command);
}

static void abandon_worlds(void);

static struct world *new_world(void) {
    static bool will_abandon;
    if (!will_abandon) will_abandon = atexit(abandon_worlds) == 0;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_non_null(test_folder_make(world->root));
    world->owner = getpid();
    world->next = open_worlds;
    return open_worlds = world;
}

static void free_world(struct world *world) {
    struct world **at = &open_worlds;
    while (*at != world) at = &(*at)->next;
    *at = world->next;
    sbx_close(world->client);
    free(world);
}

/* Another default toolchain than the system's, for tools/toolchains/test.sh: the root of another Debian, or OTP:ELIXIR.
 */
static char *print_tested_toolchain(const char *tested) {
    const char *colon = strchr(tested, ':');
    return colon
               ? string_print("[toolchain tested]\notp = %.*s\nelixir = %s\n", (int)(colon - tested), tested, colon + 1)
               : string_print("[toolchain tested]\nroot = %s\n", tested);
}

/* A spare compiler takes half a second of CPU to boot, so only tests of spares have one. */
static void write_settings(const char *path, const char *settings) {
    const char *tested = getenv("SANDBOX_TEST_TOOLCHAIN");
    CLEANUP_FREE char *toolchain = tested ? print_tested_toolchain(tested) : NULL;
    CLEANUP_FREE char *text =
        string_print("%s%s%s\n%s", settings && strstr(settings, "spare-compilers") ? "" : "spare-compilers = 0\n",
                     tested ? "toolchain = tested\n" : "", settings ? settings : "", tested ? toolchain : "");
    assert_non_null(text);
    write_text(path, text);
}

struct world *world_open(const char *settings) {
    struct world *world = new_world();
    struct sbx_error error;
    char conf[64];
    assert_int_equal(chmod(world->root, 0755), 0); /* the daemon is another user */
    snprintf(world->home, sizeof world->home, "%s/home", world->root);
    snprintf(conf, sizeof conf, "%s/sandbox.conf", world->home);
    write_settings(conf, settings);
    give_seed(world->home);
    if (sbx_open(world->home, &world->client, &error) < 0) fail_msg("no service: %s", error.detail);
    return world;
}

/* With a client of its own: a service that never answers must not hold the test. */
static int ask_to_end(const struct world *world, struct sbx_error *error) {
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx *client = NULL;
    how.home = world->home;
    how.flags = SBX_NO_AUTOSTART;
    how.timeout_ms = SHUTDOWN_MAX_MS;
    int result = sbx_open_with(&how, &client, error);
    if (result == 0) result = sbx_op(client, "shutdown", NULL, NULL, error);
    sbx_close(client);
    return result;
}

static bool shut_down(struct world *world, struct sbx_error *error) {
    struct client_watch watch;
    client_watch_open(world->home, &watch);
    int result = ask_to_end(world, error);
    bool ended = client_watch_wait(&watch, result == 0 ? SHUTDOWN_MAX_MS : 0);
    client_watch_close(&watch);
    if (result == 0 && !ended) snprintf(error->detail, sizeof error->detail, "it has not ended yet");
    return result == 0 && ended;
}

/* A line of the programs' log that must not be there: a sanitizer's, or of an end that leaked. */
static const char *find_complaint(const char *log) {
    static const char *const complaints[] = {"Sanitizer", "runtime error: ", "ended clean=\"no\""};
    for (size_t i = 0; log && i < ARRAY_SIZE(complaints); i++) {
        const char *found = strstr(log, complaints[i]);
        if (found) return found;
    }
    return NULL;
}

/* An entry of the home that the launcher would not know for the service's own; "": there is none. */
static void find_unknown_entry(const char *home, char *ret, size_t size) {
    DIR *listing = opendir(home);
    ret[0] = '\0';
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (!home_may_hold(entry->d_name)) snprintf(ret, size, "%s", entry->d_name);
    if (listing) closedir(listing);
}

void world_close(struct world *world) {
    struct sbx_error error = {0};
    if (!world) return;
    struct footprint *footprint = footprint_take(world->home);
    bool ended = shut_down(world, &error);
    if (!ended) footprint_kill(footprint);
    CLEANUP_FREE char *left = footprint_left(footprint);
    char log_path[64], unknown[256];
    find_unknown_entry(world->home, unknown, sizeof unknown);
    snprintf(log_path, sizeof log_path, "%s/daemon.log", world->home);
    CLEANUP_FREE char *log = read_whole(log_path);
    const char *complaint = find_complaint(log);
    footprint_free(footprint);
    remove_tree(world->root);
    free_world(world);
    if (!ended) fail_msg("the service did not end: %s\n%s", error.detail, log ? log : "");
    if (left) fail_msg("left behind:\n%s%s", left, log ? log : "");
    if (complaint) fail_msg("the service complained: %s", complaint);
    if (unknown[0]) fail_msg("the home holds '%s', which is not in launcher/home_entries.c", unknown);
    sbx_error_clear(&error);
}

static void abandon_worlds(void) {
    while (open_worlds) {
        struct world *world = open_worlds;
        bool is_ours = world->owner == getpid(); /* not of the process that forked us */
        struct footprint *footprint = is_ours ? footprint_take(world->home) : NULL;
        struct sbx_error error = {0};
        if (is_ours && !shut_down(world, &error)) footprint_kill(footprint);
        if (is_ours) remove_tree(world->root);
        sbx_error_clear(&error);
        footprint_free(footprint);
        free_world(world);
    }
}

/* ---- operations ---- */

static int call(struct world *world, const char *op, const char *format, va_list arguments, json_t **ret,
                struct sbx_error *error) {
    json_error_t where;
    json_t *params = format ? json_vpack_ex(&where, 0, format, arguments) : json_object();
    if (!params) fail_msg("parameters of %s: %s", op, where.text);
    CLEANUP_FREE char *text = json_dumps(params, JSON_COMPACT);
    CLEANUP_FREE char *answer = NULL;
    json_decref(params);
    if (sbx_op(world->client, op, text, &answer, error) < 0) return -1;
    *ret = json_loads(answer, JSON_DECODE_ANY, &where);
    assert_non_null(*ret);
    return 0;
}

static json_t *must(struct world *world, const char *op, const char *format, va_list arguments) {
    json_t *answer = NULL;
    struct sbx_error error;
    if (call(world, op, format, arguments, &answer, &error) < 0)
        fail_msg("%s: %s: %s\n%s", op, error.code, error.detail, error.json);
    return answer;
}

json_t *world_op(struct world *world, const char *op, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    json_t *answer = must(world, op, format, arguments);
    va_end(arguments);
    return answer;
}

void world_do(struct world *world, const char *op, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    json_decref(must(world, op, format, arguments));
    va_end(arguments);
}

json_t *world_fails(struct world *world, const char *op, const char *code, const char *format, ...) {
    json_t *answer = NULL;
    struct sbx_error error;
    va_list arguments;
    va_start(arguments, format);
    int result = call(world, op, format, arguments, &answer, &error);
    va_end(arguments);
    if (result == 0) fail_msg("%s succeeded, which should have failed with %s", op, code ? code : "any error");
    if (code && strcmp(error.code, code) != 0)
        fail_msg("%s failed with %s, not %s: %s", op, error.code, code, error.detail);
    json_t *problem = json_loads(error.json, 0, NULL);
    sbx_error_clear(&error);
    assert_non_null(problem);
    return problem;
}

json_t *world_create(struct world *world, const char *id, const char *source, const char *profile) {
    return world_op(world, "create", "{s:s, s:s, s:s}", "id", id, "source", source, "profile", profile);
}

json_t *world_info(struct world *world, const char *id) {
    return world_op(world, "info", "{s:s}", "id", id);
}

void world_destroy(struct world *world, const char *id) {
    world_do(world, "destroy", "{s:s}", "id", id);
}

static char *take_text(json_t *answer) {
    const char *text = json_string_value(json_object_get(answer, "text"));
    assert_non_null(text);
    char *copy = strdup(text);
    json_decref(answer);
    return copy;
}

char *world_eval_text(struct world *world, const char *id, const char *language, const char *code) {
    return take_text(world_op(world, "eval", "{s:s, s:s, s:s*}", "id", id, "code", code, "language", language));
}

char *world_try_eval(struct world *world, const char *id, const char *language, const char *code, uint32_t timeout_ms) {
    json_t *options = json_pack("{s:s*, s:i}", "language", language, "timeout_ms", (int)timeout_ms);
    CLEANUP_FREE char *text = json_dumps(options, JSON_COMPACT);
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    json_decref(options);
    if (sbx_eval(world->client, id, code, text, &answer, &error) == 0) return take_text(json_loads(answer, 0, NULL));
    char *failure = string_print("! %s: %s", error.code, error.detail);
    sbx_error_clear(&error);
    return failure;
}

/* ---- events ---- */

static int count_seq(const char *item, void *data) {
    json_t *event = json_loads(item, 0, NULL);
    *(uint64_t *)data = (uint64_t)json_integer_value(json_object_get(event, "seq"));
    json_decref(event);
    return 0;
}

uint64_t world_now(struct world *world) {
    uint64_t last = 0;
    struct sbx_error error;
    if (sbx_events(world->client, NULL, count_seq, &last, &error) < 0) fail_msg("events: %s", error.detail);
    return last;
}

struct search {
    const struct event_pattern *pattern;
    json_t *found;
};

static bool fits(const json_t *event, const struct event_pattern *pattern) {
    const char *kind = json_string_value(json_object_get(event, "kind"));
    const char *id = json_string_value(json_object_get(event, "sandbox_id"));
    const json_t *field = pattern->field ? json_object_get(json_object_get(event, "data"), pattern->field) : NULL;
    const char *text = json_string_value(field);
    return (!pattern->kind || string_equal(kind, pattern->kind)) &&
           (!pattern->sandbox_id || string_equal(id, pattern->sandbox_id)) &&
           (!pattern->field || (text && string_starts(text, pattern->value)));
}

static int look_at(const char *item, void *data) {
    struct search *search = data;
    json_t *event = json_loads(item, 0, NULL);
    if (event && fits(event, search->pattern))
        search->found = event;
    else
        json_decref(event);
    return search->found != NULL;
}

static int timer_after(uint64_t timeout_ms) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(timeout_ms / 1000), .tv_nsec = (long)(timeout_ms % 1000) * 1000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(timerfd_settime(fd, 0, &when, NULL), 0);
    return fd;
}

/* A client of its own, whose stream a timer ends. */
json_t *world_find_event(struct world *world, uint64_t since, const struct event_pattern *pattern,
                         uint64_t timeout_ms) {
    struct search search = {.pattern = pattern};
    struct sbx *follower = NULL;
    struct sbx_error error = {0};
    char options[64];
    CLEANUP_FD int timer = timer_after(timeout_ms);
    struct sbx_options how = SBX_OPTIONS_INIT;
    how.home = world->home;
    how.flags = SBX_NO_AUTOSTART;
    how.cancel_fd = timer;
    snprintf(options, sizeof options, "{\"follow\": true, \"since\": %llu}", (unsigned long long)since);
    if (sbx_open_with(&how, &follower, &error) < 0) fail_msg("following events: %s", error.detail);
    if (sbx_events(follower, options, look_at, &search, &error) < 0) sbx_error_clear(&error);
    sbx_close(follower);
    return search.found;
}

static int print_item(const char *item, void *data) {
    (void)data;
    fprintf(stderr, "%s\n", item);
    return 0;
}

void world_print_story(struct world *world, uint64_t since) {
    struct sbx_error error = {0};
    char options[64], log_path[64];
    snprintf(options, sizeof options, "{\"since\": %llu}", (unsigned long long)since);
    snprintf(log_path, sizeof log_path, "%s/daemon.log", world->home);
    if (sbx_events(world->client, options, print_item, NULL, &error) < 0) fprintf(stderr, "events: %s\n", error.detail);
    sbx_error_clear(&error);
    CLEANUP_FREE char *log = read_whole(log_path);
    fprintf(stderr, "%s\n", log ? log : "no log");
}

json_t *world_wait_event(struct world *world, uint64_t since, const struct event_pattern *pattern) {
    json_t *event = world_find_event(world, since, pattern, WORLD_DEADLINE_MS);
    if (!event) {
        world_print_story(world, since);
        fail_msg("no event kind=%s sandbox=%s %s=%s…", pattern->kind, pattern->sandbox_id, pattern->field,
                 pattern->value);
    }
    return event;
}

void world_wait_status(struct world *world, uint64_t since, const char *id, const char *status) {
    json_decref(world_wait_event(world, since, &(struct event_pattern){"status", id, "to", status}));
}
