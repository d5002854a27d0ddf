/* Tests the plan for a VM: its mounts, arguments and environment, for each kind of node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "node/node_internal.h"

static const struct vm_identity identity = {"n1", "s3cret", "/home/nodes/n1"};

static struct toolchain_library libraries[] = {{(char *)"/lib64/ld.so", (char *)"/usr/lib64/ld-2.so"},
                                               {(char *)"/lib/libc.so.6", (char *)"/lib/libc.so.6"}};

static struct toolchain make_toolchain(bool elixir) {
    struct toolchain toolchain = {.otp_root = "/otp",
                                  .erts_bin = "/otp/erts/bin",
                                  .boot_dir = "/home/toolchain/abc",
                                  .libraries = libraries,
                                  .library_count = 2};
    if (elixir) strcpy(toolchain.elixir_lib, "/ex/lib");
    return toolchain;
}

static struct node_host make_host(void) {
    return (struct node_host){.agent_dir = "/agent", .grace_ms = 1234};
}

static struct node_spec make_spec(enum node_kind kind, const char *profile_name) {
    const struct jail_profile *profile = jail_profile_find(profile_name);
    return (struct node_spec){.kind = kind, .profile = profile, .limits = profile->limits};
}

static void print_plan(const struct node_spec *wanted, bool elixir, struct buf *ret) {
    struct node_host host = make_host();
    struct toolchain toolchain = make_toolchain(elixir);
    struct node_spec spec = *wanted;
    if (!spec.toolchain) spec.toolchain = &toolchain;
    host.features = (struct jail_features){
        .guarantees = (1u << JAIL_GUARANTEE_COUNT) - 1, .cgroup_version = 2, .landlock_abi = 4, .root = true};
    struct jail_plan plan = {0};
    struct error error;
    uint32_t lost = 0;
    if (vm_plan(&host, &spec, &identity, &plan, &lost, &error) < 0) fail_msg("%s", error.detail);
    assert_int_equal(lost, 0);
    jail_plan_print(&plan, ret);
    jail_plan_free(&plan);
}

static void assert_line(struct buf *text, const char *line, bool there) {
    CLEANUP_FREE char *whole = string_print("\n%s\n", line);
    CLEANUP_FREE char *framed = string_print("\n%s", buf_string(text));
    if ((strstr(framed, whole) != NULL) != there) fail_msg("'%s' is %sin:\n%s", line, there ? "not " : "", framed);
}

static void test_an_application(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_app apps[] = {{"counter", "/store/counter"}, {"other", "/store/other"}};
    struct node_spec spec = make_spec(NODE_APPLICATION, "high");
    spec.apps = apps;
    spec.app_count = 2;
    spec.env = json_pack("{s:s}", "GREETING", "good day");
    print_plan(&spec, true, &text);
    json_decref(spec.env);
    static const char *const lines[] = {
        "node n1",
        "bind-exec /otp /otp",
        "bind /ex/lib /ex/lib",
        "bind /agent/ebin /sandbox/ebin",
        "bind /home/toolchain/abc /sandbox/boot",
        "bind /home/nodes/n1 /sandbox/control",
        "bind /store/counter /app/counter",
        "bind /store/other /app/other",
        "directory /app",
        "execute /otp/erts/bin/beam.smp",
        "execute /otp/erts/bin/erl_child_setup",
        "program /otp/erts/bin/beam.smp",
        "execs 2",
        "env SANDBOX_SECRET=s3cret",
        "env SANDBOX_GRACE_MS=1234",
        "env ROOTDIR=/otp",
        "env GREETING=good%20day",
        "argument beam.smp",
        "argument 2048",
        "argument /sandbox/boot/node",
    };
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) assert_line(&text, lines[i], true);
    assert_null(strstr(buf_string(&text), "/src"));
}

static void test_without_elixir(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_spec spec = make_spec(NODE_APPLICATION, "medium");
    print_plan(&spec, false, &text);
    assert_line(&text, "bind /ex/lib /ex/lib", false);
    assert_line(&text, "bind-exec /otp /otp", true);
}

static void test_many_processes_have_a_larger_table(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_spec spec = make_spec(NODE_APPLICATION, "medium");
    spec.limits.processes = 100000;
    print_plan(&spec, true, &text);
    assert_line(&text, "argument 101024", true);
    assert_line(&text, "argument 2048", false);
}

static void test_schedulers_follow_cores_and_limit(void **state) {
    static const struct {
        unsigned cores;
        uint64_t cpu_percent, os_tasks, schedulers;
    } all[] = {{0, 0, 0, 1},   {1, 400, 256, 1}, {8, 400, 256, 4}, {8, 0, 256, 8},    {8, 50, 256, 1},
               {8, 100, 0, 1}, {8, 101, 0, 2},   {256, 0, 0, 64},  {256, 0, 128, 32}, {8, 400, 2, 1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct node_host host = {.cores = all[i].cores};
        struct jail_limits limits = {.cpu_percent = all[i].cpu_percent, .os_tasks = all[i].os_tasks};
        assert_int_equal(node_schedulers(&host, &limits), all[i].schedulers);
    }
}

/* A VM that was booted ahead has as many as its profile gives. */
static void test_a_vm_keeps_its_schedulers(void **state) {
    struct jail_limits booted = jail_profile_find("medium")->limits, limits = booted;
    (void)state;
    limits.cpu_percent = 20;
    assert_true(node_limits_fit(&limits, &booted));
    limits.cpu_percent = 200;
    assert_false(node_limits_fit(&limits, &booted));
}

static void test_a_compiler(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_spec spec = make_spec(NODE_COMPILER, "compiler");
    print_plan(&spec, true, &text);
    assert_line(&text, "directory /src", true); /* its project is mounted below it, later */
    assert_line(&text, "argument 2:2", true);
    assert_line(&text, "argument 2048", false);
}

static void test_the_callers_environment_comes_after_ours(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_spec spec = make_spec(NODE_APPLICATION, "high");
    spec.env = json_pack("{s:s}", "BINDIR", "/evil");
    print_plan(&spec, true, &text);
    json_decref(spec.env);
    const char *ours = strstr(buf_string(&text), "env BINDIR=/otp/erts/bin");
    const char *theirs = strstr(buf_string(&text), "env BINDIR=/evil");
    assert_true(ours && (!theirs || ours < theirs)); /* the first of a name counts */
}

static void assert_too_large(const struct node_spec *wanted) {
    struct node_host host = make_host();
    struct toolchain toolchain = make_toolchain(true);
    struct node_spec spec = *wanted;
    spec.toolchain = &toolchain;
    struct jail_plan plan = {0};
    struct error error = {0};
    uint32_t lost;
    assert_true(vm_plan(&host, &spec, &identity, &plan, &lost, &error) < 0);
    assert_int_equal(error.code, E_TOO_LARGE);
    assert_null(plan.ops);
}

static void test_too_much(void **state) {
    (void)state;
    struct node_app apps[300];
    for (size_t i = 0; i < ARRAY_SIZE(apps); i++) apps[i] = (struct node_app){"a", "/a"};
    struct node_spec spec = make_spec(NODE_APPLICATION, "high");
    spec.apps = apps;
    spec.app_count = ARRAY_SIZE(apps);
    assert_too_large(&spec);
    spec.app_count = 0;
    spec.env = json_object();
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "V%d", i);
        json_object_set_new(spec.env, name, json_string("x"));
    }
    assert_too_large(&spec);
    json_object_clear(spec.env);
    CLEANUP_FREE char *long_text = calloc(1, 200001);
    memset(long_text, 'x', 200000);
    json_object_set_new(spec.env, "LONG", json_string(long_text));
    assert_too_large(&spec);
    json_decref(spec.env);
}

static void test_what_a_host_without_features_loses(void **state) {
    (void)state;
    struct node_host host = make_host();
    struct toolchain toolchain = make_toolchain(true);
    struct node_spec spec = make_spec(NODE_APPLICATION, "high");
    spec.toolchain = &toolchain;
    struct jail_plan plan = {0};
    struct error error;
    uint32_t lost = 0;
    assert_int_equal(vm_plan(&host, &spec, &identity, &plan, &lost, &error), 0);
    assert_true(lost & 1u << JAIL_GUARANTEE_SECCOMP);
    jail_plan_free(&plan);
}

/* The jail shows the tree's own files at the places that they have in the tree. */
static void test_a_toolchain_in_a_root(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct toolchain toolchain = make_toolchain(true);
    struct node_spec spec = make_spec(NODE_APPLICATION, "medium");
    strcpy(toolchain.root, "/srv/trixie");
    spec.toolchain = &toolchain;
    print_plan(&spec, true, &text);
    assert_line(&text, "bind-exec /srv/trixie/otp /otp", true);
    assert_line(&text, "bind /srv/trixie/ex/lib /ex/lib", true);
    assert_line(&text, "bind-exec /usr/lib64/ld-2.so /lib64/ld.so", true);
    assert_line(&text, "bind-exec /otp /otp", false);
}

static void test_the_probe(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct node_host host = make_host();
    struct toolchain toolchain = make_toolchain(true);
    struct jail_plan plan = {0};
    struct error error;
    if (vm_probe_plan(&host, &toolchain, "p1", &plan, &error) < 0) fail_msg("%s", error.detail);
    jail_plan_print(&plan, &text);
    jail_plan_free(&plan);
    assert_line(&text, "node p1", true);
    assert_line(&text, "argument /otp/bin/start_clean", true);
    assert_line(&text, "argument /ex/lib/elixir/ebin", true);
    assert_null(strstr(buf_string(&text), "SANDBOX_SECRET"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_application),
        cmocka_unit_test(test_without_elixir),
        cmocka_unit_test(test_many_processes_have_a_larger_table),
        cmocka_unit_test(test_schedulers_follow_cores_and_limit),
        cmocka_unit_test(test_a_vm_keeps_its_schedulers),
        cmocka_unit_test(test_a_compiler),
        cmocka_unit_test(test_the_callers_environment_comes_after_ours),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_what_a_host_without_features_loses),
        cmocka_unit_test(test_a_toolchain_in_a_root),
        cmocka_unit_test(test_the_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
