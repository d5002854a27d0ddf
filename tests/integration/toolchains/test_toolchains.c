/* Several toolchains in one service: the operator's and a user's own, good ones, broken ones and hostile ones. A user's
   own is that user's alone. Takes root. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "processes.h"
#include "support.h"

enum { USER = 65534, OTHER = 65533, CALL_MAX_MS = 45000 };

static struct world *world;
static char folder[] = "/var/tmp/sandbox-toolchains-XXXXXX"; /* nodes have a /tmp of their own */

/* ---- as another user ---- */

static void call_and_tell(uid_t uid, const char *op, const char *params, int outcome_fd) {
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx *client = NULL;
    struct sbx_error error;
    char *answer = NULL;
    if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0) _exit(126);
    how.home = world_home(world);
    how.flags = SBX_NO_AUTOSTART;
    how.timeout_ms = CALL_MAX_MS;
    int result = sbx_open_with(&how, &client, &error);
    if (result == 0) result = sbx_op(client, op, params, &answer, &error);
    dprintf(outcome_fd, "%s", result == 0 ? answer : error.detail);
    _exit(0);
}

/* The answer, or why there is none. */
static char *call_as(uid_t uid, const char *op, const char *format, ...) {
    int ends[2];
    va_list arguments;
    struct buf text = {.max = 1 << 20};
    char chunk[4096];
    ssize_t got;
    va_start(arguments, format);
    json_t *params = json_vpack_ex(NULL, 0, format, arguments);
    va_end(arguments);
    CLEANUP_FREE char *sent = json_dumps(params, 0);
    json_decref(params);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) call_and_tell(uid, op, sent, ends[1]);
    close(ends[1]);
    while ((got = read(ends[0], chunk, sizeof chunk)) > 0) buf_append(&text, chunk, (size_t)got);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return buf_take_string(&text);
}

static const char *in_folder(const char *name) {
    static char paths[8][256];
    static size_t next;
    char *path = paths[next++ % ARRAY_SIZE(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void says(const char *text, const char *expected) {
    if (!strstr(text, expected)) fail_msg("\"%s\" does not say \"%s\"", text, expected);
}

/* ---- lists ---- */

static json_t *list_as(uid_t uid, const char *home) {
    CLEANUP_FREE char *text = call_as(uid, "toolchains", "{s:s}", "user_home", home);
    json_t *answer = json_loads(text, 0, NULL);
    if (!answer) fail_msg("%s", text);
    json_t *items = json_is_object(answer) ? json_incref(json_object_get(answer, "items")) : json_incref(answer);
    json_decref(answer);
    return items;
}

static json_t *find(json_t *list, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) return item;
    }
    return NULL;
}

static void is_usable(json_t *list, const char *name, const char *source) {
    json_t *item = find(list, name);
    if (!item) fail_msg("there is no %s", name);
    CLEANUP_FREE char *text = json_dumps(item, 0);
    if (!json_is_true(json_object_get(item, "usable"))) fail_msg("%s", text);
    assert_string_equal(json_string_value(json_object_get(item, "source")), source);
    static const char *const told[] = {"otp", "erts", "path"};
    for (size_t i = 0; i < ARRAY_SIZE(told); i++) assert_true(json_is_string(json_object_get(item, told[i])));
    assert_true(json_is_null(json_object_get(item, "problem")));
}

static void has_problem(json_t *list, const char *name, const char *why) {
    json_t *item = find(list, name);
    if (!item) fail_msg("there is no %s", name);
    assert_false(json_is_true(json_object_get(item, "usable")));
    says(json_string_value(json_object_get(item, "problem")), why);
}

static const struct {
    const char *name, *why;
} broken[] = {
    {"open", "other users can write"},
    {"absent", "No such file"},
    {"covered", "/tmp of their own"},
    {"lacking", "needs the library libphones_home.so, which is not installed"},
    {"mise:99.1+1.99.0-otp-99", "Elixir 9.9.9 does not load"},
    {"asdf:97.1", "no 'compiler' application"},
    {"asdf:97.2", "no erts-VERSION folder"},
    {"asdf:97.3", "other users can write 'releases'"},
    {"kerl:96.1", "is not a 64-bit ELF file"},
    {"kerl:96.2", "passwd=ENOENT"}, /* its VM's last words */
    {"kerl:96.3", "needs the library libphones_home.so, which is not installed"},
    {"kerl:twice", "two of this name"},
    {"kerl:outside", "lies outside of"},
};

static void a_user_sees_what_is_wrong_with_each(void **state) {
    (void)state;
    json_t *list = list_as(USER, in_folder("home"));
    is_usable(list, "system", "system");
    is_usable(list, "second", "config");
    assert_true(json_is_true(json_object_get(find(list, "second"), "default")));
    assert_false(json_is_true(json_object_get(find(list, "system"), "default")));
    is_usable(list, "mise:99.1", "mise");
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) has_problem(list, broken[i].name, broken[i].why);
    assert_null(find(list, "mise:99")); /* another name of 99.1 */
    assert_null(find(list, "mise:98.0"));
    json_decref(list);
}

/* Its library runs before the VM would, and says what it could do: nothing. */
static void a_library_that_phones_home_reaches_none(void **state) {
    (void)state;
    json_t *list = list_as(USER, in_folder("home"));
    const char *said = json_string_value(json_object_get(find(list, "kerl:96.2"), "problem"));
    assert_non_null(said);
    static const char *const outcomes[] = {"passwd=ENOENT", "shadow=ENOENT", "home=ENOENT", "registry=ENOENT",
                                           "change=EROFS",  "setuid=E",      "network=E",   "shell=E"};
    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) says(said, outcomes[i]);
    assert_null(strstr(said, "DONE"));
    assert_null(strstr(said, "gid=")); /* what `id` would print */
    json_decref(list);
}

static void others_see_none_of_it(void **state) {
    (void)state;
    static const uid_t others[] = {0, OTHER};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        json_t *list = list_as(others[i], in_folder("home"));
        assert_null(find(list, "mise:99.1"));
        has_problem(list, "mise:*", "uid 65534");
        json_decref(list);
        CLEANUP_FREE char *said =
            call_as(others[i], "create", "{s:s, s:s, s:s, s:s, s:s}", "id", "theirs", "source", in_folder("project"),
                    "supervisor", "compiled", "toolchain", "mise:99.1", "user_home", in_folder("home"));
        says(said, "neither root's nor the caller's");
        CLEANUP_FREE char *own =
            call_as(others[i], "create", "{s:s, s:s, s:s, s:s, s:s}", "id", "theirs", "source", in_folder("project"),
                    "supervisor", "compiled", "toolchain", "mise:99.1", "user_home", in_folder("project"));
        says(own, "has no toolchain 'mise:99.1'");
    }
}

/* ---- what a VM says, and how many run ---- */

static size_t count_boot_files(void) {
    char path[256], prefix[32];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/toolchain", world_home(world));
    snprintf(prefix, sizeof prefix, "u%d-", USER);
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) count += string_starts(entry->d_name, prefix);
    closedir(listing);
    return count;
}

/* It is read by the loop, and what is kept of it is in no quota. */
static void a_vm_can_not_say_much(void **state) {
    (void)state;
    json_t *list = list_as(USER, in_folder("home/brief"));
    is_usable(list, "mise:1.1", "mise");
    has_problem(list, "mise:1.2", "says more than");
    json_decref(list);
}

static void a_boot_file_goes_with_its_toolchain(void **state) {
    (void)state;
    const char *place = in_folder("home/brief/.local/share/mise/installs/erlang/1.1");
    json_decref(list_as(USER, in_folder("home/brief")));
    size_t before = count_boot_files();
    assert_int_equal(rename(place, in_folder("home/brief/aside")), 0);
    json_t *list = list_as(USER, in_folder("home/brief"));
    assert_null(find(list, "mise:1.1"));
    json_decref(list);
    assert_int_equal(count_boot_files(), before - 1);
}

/* When the VM of that home's toolchain ran. */
static void list_and_tell(const char *home, int outcome_fd) {
    json_t *list = list_as(USER, home);
    dprintf(outcome_fd, "%s", json_string_value(json_object_get(find(list, "mise:1.1"), "problem")));
    _exit(0);
}

static void read_times(int fd, long long ret_ms[2]) {
    char text[1024] = "";
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    const char *times = strstr(text, "from ");
    if (!times || sscanf(times, "from %lld to %lld", &ret_ms[0], &ret_ms[1]) != 2) fail_msg("%s", text);
}

static void a_user_has_one_probe_at_a_time(void **state) {
    (void)state;
    const char *homes[] = {in_folder("home/long"), in_folder("home/long2")};
    long long ran_ms[2][2];
    int ends[2][2];
    pid_t children[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pipe2(ends[i], O_CLOEXEC), 0);
        children[i] = fork();
        if (children[i] == 0) list_and_tell(homes[i], ends[i][1]);
        close(ends[i][1]);
    }
    for (size_t i = 0; i < 2; i++) read_times(ends[i][0], ran_ms[i]);
    for (size_t i = 0; i < 2; i++) waitpid(children[i], NULL, 0);
    assert_true(ran_ms[0][1] <= ran_ms[1][0] || ran_ms[1][1] <= ran_ms[0][0]);
}

/* ---- sandboxes ---- */

static char *create(uid_t uid, const char *id, const char *project, const char *toolchain) {
    if (toolchain)
        return call_as(uid, "create", "{s:s, s:s, s:s, s:s, s:s}", "id", id, "source", in_folder(project), "supervisor",
                       "compiled", "toolchain", toolchain, "user_home", in_folder("home"));
    return call_as(uid, "create", "{s:s, s:s, s:s, s:s}", "id", id, "source", in_folder(project), "supervisor",
                   "compiled", "user_home", in_folder("home"));
}

static void runs_on(const char *id, const char *toolchain, const char *root) {
    json_t *info = world_info(world, id);
    assert_string_equal(json_string_value(json_object_get(info, "toolchain")), toolchain);
    json_decref(info);
    CLEANUP_FREE char *text = world_eval_text(world, id, "erlang", "code:root_dir()");
    says(text, root);
}

/* One that is used by no sandbox of this daemon's is not known to it. */
static void what_an_earlier_daemon_left_goes(void **state) {
    (void)state;
    assert_true(count_boot_files() > 0);
    uint64_t since = world_now(world);
    process_end(world_pid(world, "daemon.lock"), SIGKILL);
    json_decref(world_op(world, "list", NULL)); /* waits for the next one */
    json_decref(world_wait_event(world, since, &(struct event_pattern){.kind = "service_ready"}));
    assert_int_equal(count_boot_files(), 0);
}

static void sandboxes_of_several_run_side_by_side(void **state) {
    (void)state;
    CLEANUP_FREE char *first = create(USER, "first", "home/project", "system");
    CLEANUP_FREE char *second = create(USER, "second", "home/project", NULL);
    CLEANUP_FREE char *third = create(USER, "third", "home/fits", NULL);
    says(first, "\"running\"");
    says(second, "\"running\"");
    says(third, "\"running\"");
    assert_null(strstr(second, "\"warnings\": ["));
    runs_on("first", "system", OTP_ROOT);
    runs_on("second", "second", in_folder("second"));
    runs_on("third", "mise:99.1", "/toolchain/otp");
}

static void a_broken_one_says_what_is_wrong_when_it_is_used(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
        CLEANUP_FREE char *said = create(USER, "fourth", "home/project", broken[i].name);
        says(said, broken[i].why);
    }
}

static void a_file_that_names_an_unlisted_one_is_a_warning(void **state) {
    (void)state;
    CLEANUP_FREE char *said = create(USER, "fourth", "home/unlisted", NULL);
    says(said, "the project's mise.toml asks for Erlang 98.7, which no listed toolchain has; 'second' is used");
    world_destroy(world, "fourth");
    CLEANUP_FREE char *none = create(USER, "fourth", "home/unlisted", "nowhere");
    says(none, "there is no toolchain 'nowhere'");
}

/* Every restart looks whether it is as it was: root's restart of a user's sandbox stays that user's. */
static void one_that_is_removed_goes_on_until_its_restart(void **state) {
    (void)state;
    const char *place = in_folder("home/.local/share/mise/installs/erlang/99.1"), *aside = in_folder("home/aside");
    world_do(world, "restart", "{s:s}", "id", "third");
    runs_on("third", "mise:99.1", "/toolchain/otp");
    /* A file that has changed makes it another, which is probed again. */
    CLEANUP_FREE char *file = string_print("%s/changed", place);
    CLEANUP_FD int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(rename(place, aside), 0);
    runs_on("third", "mise:99.1", "/toolchain/otp");
    json_t *list = list_as(USER, in_folder("home"));
    assert_null(find(list, "mise:99.1"));
    json_decref(list);
    CLEANUP_FREE char *said = create(USER, "fourth", "home/project", "mise:99.1");
    says(said, "has no toolchain 'mise:99.1'");
    json_t *problem = world_fails(world, "restart", "toolchain_missing", "{s:s}", "id", "third");
    says(json_string_value(json_object_get(problem, "detail")), "not installed any more");
    json_decref(problem);
}

static void the_operators_that_is_removed_goes_on_until_its_restart(void **state) {
    (void)state;
    const char *place = in_folder("second"), *aside = in_folder("aside");
    assert_int_equal(rename(place, aside), 0);
    runs_on("second", "second", place);
    json_t *list = list_as(USER, in_folder("home"));
    has_problem(list, "second", "No such file");
    json_decref(list);
    CLEANUP_FREE char *said = create(USER, "fourth", "home/project", "second");
    says(said, "No such file");
    says(said, "toolchain second");
    json_t *problem = world_fails(world, "restart", "toolchain_missing", "{s:s}", "id", "second");
    says(json_string_value(json_object_get(problem, "detail")), place);
    json_decref(problem);
    assert_int_equal(rename(aside, place), 0);
    static const char *const ids[] = {"first", "second", "third"};
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) world_destroy(world, ids[i]);
}

static int run(const char *format, ...) {
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static int open_all(void **state) {
    char settings[1024];
    (void)state;
    assert_int_equal(geteuid(), 0);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(run("%s %s %s %d %s", LAY_OUT, folder, OTP_ROOT, USER, HOSTILE), 0);
    assert_int_equal(run("for place in project home/project home/fits home/unlisted; do mkdir -p %s/$place && "
                         "cp %s/compiled.beam %s/$place/; done; chown -R %d %s/home/project",
                         folder, COMPILED, folder, USER, folder),
                     0);
    snprintf(settings, sizeof settings,
             "spare-compilers = 0\ntoolchain = second\n[toolchain second]\notp = %s/second\n[toolchain "
             "open]\n"
             "otp = %s/open\n[toolchain absent]\nroot = %s/absent\n[toolchain covered]\notp = /tmp\n"
             "[toolchain lacking]\notp = %s/lacking\n",
             folder, folder, folder, folder);
    world = world_open(settings);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    world_close(world);
    return run("rm -rf %s", folder);
}

int main(void) {
    const struct test_case cases[] = {
        CASE(a_user_sees_what_is_wrong_with_each),
        CASE(a_library_that_phones_home_reaches_none),
        CASE(others_see_none_of_it),
        LONG_CASE(a_vm_can_not_say_much),
        LONG_CASE(a_boot_file_goes_with_its_toolchain),
        LONG_CASE(a_user_has_one_probe_at_a_time),
        LONG_CASE(what_an_earlier_daemon_left_goes),
        CASE(sandboxes_of_several_run_side_by_side),
        LONG_CASE(a_broken_one_says_what_is_wrong_when_it_is_used),
        LONG_CASE(a_file_that_names_an_unlisted_one_is_a_warning),
        LONG_CASE(one_that_is_removed_goes_on_until_its_restart),
        LONG_CASE(the_operators_that_is_removed_goes_on_until_its_restart),
    };
    return cases_run(cases, ARRAY_SIZE(cases), open_all, close_all);
}
