/* Tests the plans built for each profile, against whole plans as text, and on hosts that lack a feature. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jail/plan.h"

#define BIT(guarantee) (1u << JAIL_GUARANTEE_##guarantee)
#define EVERYTHING ((1u << JAIL_GUARANTEE_COUNT) - 1)

static const struct jail_bind binds[] = {
    {.source = "/lib/ld-linux.so.2", .target = "/lib/ld-linux.so.2", .executable = true},
    {.source = "/usr/lib/erlang", .target = "/usr/lib/erlang", .executable = true},
    {.source = "/opt/elixir/lib", .target = "/opt/elixir/lib"},
    {.source = "/home/of it/nodes/n1", .target = "/sandbox/control"},
    {.source = "/store/abc/demo", .target = "/app/demo"},
};
static const char *const directories[] = {"/app", NULL};
static const char *const executables[] = {"/usr/lib/erlang/beam.smp", "/usr/lib/erlang/erl_child_setup", NULL};
static const char *const argv[] = {"beam.smp", "--", "", NULL};
static const char *const env[] = {"HOME=/data", "GREETING=hello you\n", NULL};

static struct jail_request request_for(const char *profile) {
    const struct jail_profile *found = jail_profile_find(profile);
    assert_non_null(found);
    return (struct jail_request){.node = "n1",
                                 .profile = found,
                                 .limits = found->limits,
                                 .binds = binds,
                                 .bind_count = ARRAY_SIZE(binds),
                                 .directories = directories,
                                 .executables = executables,
                                 .argv = argv,
                                 .env = env,
                                 .program = executables[0],
                                 .execs = 2};
}

static void assert_plan(const char *profile, uint32_t guarantees, const char *expected) {
    struct jail_request request = request_for(profile);
    struct jail_features features = {.guarantees = guarantees};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct error error = {0};
    uint32_t lost = 0;
    if (jail_plan_build(&request, &features, &plan, &lost, &error) < 0) fail_msg("%s", error.detail);
    jail_plan_print(&plan, &text);
    assert_string_equal(buf_string(&text), expected);
    assert_int_equal(lost, EVERYTHING & ~guarantees);
}

#define SMALL_LIMITS(memory, sockets, cpu, tasks, rate, connections, clients)                                          \
    "limit memory " memory "\n"                                                                                        \
    "limit socket_memory " sockets "\n" cpu "limit disk 16777216\n"                                                    \
    "limit files 16384\n"                                                                                              \
    "limit descriptors 1024\n"                                                                                         \
    "limit os_tasks " tasks "\n" rate "limit connections " connections "\nlimit port_connections " clients "\n"
#define LIMITS_OF_HIGH                                                                                                 \
    SMALL_LIMITS("67108864", "16777216", "limit cpu 50\n", "64", "limit network_rate 10485760\n", "256", "512")
#define LIMITS_OF_MEDIUM                                                                                               \
    SMALL_LIMITS("134217728", "16777216", "limit cpu 100\n", "128", "limit network_rate 10485760\n", "256", "512")
#define LIMITS_OF_LOW SMALL_LIMITS("268435456", "33554432", "", "256", "", "1024", "2048")
#define BINDS                                                                                                          \
    "bind-exec /lib/ld-linux.so.2 /lib/ld-linux.so.2\n"                                                                \
    "bind-exec /usr/lib/erlang /usr/lib/erlang\n" OTHER_BINDS
#define OTHER_BINDS                                                                                                    \
    "bind /opt/elixir/lib /opt/elixir/lib\n"                                                                           \
    "bind /home/of%20it/nodes/n1 /sandbox/control\n"                                                                   \
    "bind /store/abc/demo /app/demo\n"
#define DEVICES                                                                                                        \
    "device null\n"                                                                                                    \
    "device zero\n"                                                                                                    \
    "device urandom\n"
#define DISK                                                                                                           \
    "tmpfs /data 75\n"                                                                                                 \
    "tmpfs /tmp 25\n"
#define PLACES                                                                                                         \
    "directory /app\n"                                                                                                 \
    "proc\n"
#define LANDLOCK                                                                                                       \
    "read /app\n"                                                                                                      \
    "read /lib/ld-linux.so.2\n"                                                                                        \
    "read /usr/lib/erlang\n"                                                                                           \
    "read /opt/elixir/lib\n"                                                                                           \
    "read /sandbox/control\n"                                                                                          \
    "read /proc\n"                                                                                                     \
    "write /data\n"                                                                                                    \
    "write /tmp\n"                                                                                                     \
    "execute /lib/ld-linux.so.2\n" EXECUTE_VM
#define EXECUTE_VM                                                                                                     \
    "execute /usr/lib/erlang/beam.smp\n"                                                                               \
    "execute /usr/lib/erlang/erl_child_setup\n"
#define PROGRAM                                                                                                        \
    "chdir /data\n"                                                                                                    \
    "env HOME=/data\n"                                                                                                 \
    "env GREETING=hello%20you%0A\n"                                                                                    \
    "program /usr/lib/erlang/beam.smp\n"                                                                               \
    "argument beam.smp\n"                                                                                              \
    "argument --\n"                                                                                                    \
    "argument %\n"
#ifdef __x86_64__
#define LIB64_BIND "bind-exec /lib64 /lib64\n"
#define LIB64_EXECUTE "execute /lib64\n"
#else
#define LIB64_BIND
#define LIB64_EXECUTE
#endif

static void high(void **state) {
    (void)state;
    assert_plan("high", EVERYTHING,
                "node n1\n"
                "hostname sandbox.local\n"
                "network none\n" LIMITS_OF_HIGH BINDS DEVICES DISK PLACES LANDLOCK "seccomp strict\n"
                "execs 2\n" PROGRAM);
}

/* A rule on /data would not hold for what is mounted over it later. */
static void one_that_takes_data_later(void **state) {
    struct jail_request request = request_for("high");
    struct jail_features features = {.guarantees = EVERYTHING};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct error error = {0};
    uint32_t lost = 0;
    (void)state;
    request.takes_data = true;
    if (jail_plan_build(&request, &features, &plan, &lost, &error) < 0) fail_msg("%s", error.detail);
    jail_plan_print(&plan, &text);
    assert_non_null(strstr(buf_string(&text), DISK));
    assert_non_null(strstr(buf_string(&text), "read /proc\nwrite /\nwrite /tmp\nexecute "));
    assert_null(strstr(buf_string(&text), "write /data\n"));
    if (plan_check(&plan, &error) < 0) fail_msg("%s", error.detail);
}

static void medium(void **state) {
    (void)state;
    assert_plan("medium", EVERYTHING,
                "node n1\n"
                "hostname sandbox.local\n"
                "network loopback\n"
                "reach public\n" LIMITS_OF_MEDIUM BINDS DEVICES DISK PLACES LANDLOCK "seccomp network\n"
                "execs 2\n" PROGRAM);
}

static void low(void **state) {
    (void)state;
    assert_plan("low", EVERYTHING,
                "node n1\n"
                "hostname sandbox.local\n"
                "network loopback\n"
                "reach anywhere\n" LIMITS_OF_LOW "bind-exec /usr/bin /usr/bin\n"
                "bind-exec /usr/lib /usr/lib\n"
                "bind-exec /bin /bin\n"
                "bind-exec /lib /lib\n" LIB64_BIND OTHER_BINDS DEVICES DISK PLACES "read /app\n"
                "read /opt/elixir/lib\n"
                "read /sandbox/control\n"
                "read /proc\n"
                "write /data\n"
                "write /tmp\n"
                "execute /usr/bin\n"
                "execute /usr/lib\n"
                "execute /bin\n"
                "execute /lib\n" LIB64_EXECUTE "execute /lib/ld-linux.so.2\n" EXECUTE_VM "seccomp open\n" PROGRAM);
}

static void compiler(void **state) {
    (void)state;
    assert_plan("compiler", EVERYTHING,
                "node n1\n"
                "hostname sandbox.local\n"
                "network none\n"
                "limit memory 805306368\n"
                "limit socket_memory 16777216\n"
                "limit cpu 200\n"
                "limit disk 268435456\n"
                "limit files 262144\n"
                "limit descriptors 1024\n"
                "limit os_tasks 256\n" BINDS DEVICES DISK PLACES LANDLOCK "seccomp strict\n"
                "execs 2\n" PROGRAM);
}

/* The plan says what is wanted; the launcher holds the node to what it can, and the lost guarantees are told. */
static void without_cgroups(void **state) {
    (void)state;
    assert_plan("high", EVERYTHING & ~(BIT(CGROUPS) | BIT(MEMORY) | BIT(CPU) | BIT(TASKS) | BIT(FREEZER)),
                "node n1\n"
                "hostname sandbox.local\n"
                "network none\n" LIMITS_OF_HIGH BINDS DEVICES DISK PLACES LANDLOCK "seccomp strict\n"
                "execs 2\n" PROGRAM);
}

/* Internet sockets would be the host's, so there are none. */
static void without_a_network_namespace(void **state) {
    (void)state;
    assert_plan("medium", EVERYTHING & ~BIT(NETWORK),
                "node n1\n"
                "hostname sandbox.local\n" LIMITS_OF_MEDIUM BINDS DEVICES DISK PLACES LANDLOCK "seccomp strict\n"
                "execs 2\n" PROGRAM);
}

static void there_may_be_no_egress(void **state) {
    (void)state;
    struct jail_request request = request_for("medium");
    struct jail_features features = {.guarantees = EVERYTHING & ~BIT(EGRESS)};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    uint32_t lost;
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, NULL), 0);
    assert_null(jail_plan_word(&plan, JAIL_PLAN_REACH, 0));
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_NETWORK, 0), "loopback");
    assert_int_equal(lost, BIT(EGRESS));
}

/* A sandbox without a network that has ports: internet sockets and its own loopback, and nothing more. */
static void ports_give_a_loopback(void **state) {
    (void)state;
    struct jail_request request = request_for("high");
    struct jail_features features = {.guarantees = EVERYTHING};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    uint32_t lost;
    request.has_loopback = true;
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, NULL), 0);
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_NETWORK, 0), "loopback");
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_SECCOMP, 0), "network");
    assert_null(jail_plan_word(&plan, JAIL_PLAN_REACH, 0));
    assert_string_equal(jail_plan_word(&plan, JAIL_PLAN_LIMIT, 0), "memory");
}

/* The launcher knows no verb that the daemon never says: what is left over would be code of root's without a use. */
static void every_verb_is_said_by_some_plan(void **state) {
    (void)state;
    static const char *const profiles[] = {"high", "medium", "low"};
    bool said[JAIL_PLAN_VERB_COUNT] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
        struct jail_request request = request_for(profiles[i]);
        struct jail_profile profile = *request.profile;
        struct jail_host host;
        assert_int_equal(jail_host_parse("93.184.216.34:443", &host, NULL), 0);
        profile.egress.hosts[0] = host;
        profile.egress.host_count = 1;
        profile.egress.ports[0] = 443;
        profile.egress.port_count = 1;
        request.profile = &profile;
        request.resolved = &host;
        request.resolved_count = 1;
        struct jail_bind with_own[8] = {0};
        memcpy(with_own, request.binds, request.bind_count * sizeof *with_own);
        with_own[request.bind_count++] =
            (struct jail_bind){.source = "u1000-otp", .target = "/toolchain/otp", .is_toolchain = true};
        request.binds = with_own;
        request.limits.cpu_percent = request.limits.cpu_weight_percent = 50;
        request.data_volume = i == 0 ? "_own" : NULL;
        request.limits.file_size_bytes = request.limits.network_total_bytes = 64 << 20;
        CLEANUP(jail_plan_free) struct jail_plan plan = {0};
        struct error error = {0};
        uint32_t lost;
        struct jail_features features = {.guarantees = EVERYTHING};
        if (jail_plan_build(&request, &features, &plan, &lost, &error) < 0) fail_msg("%s", error.detail);
        if (plan_check(&plan, &error) < 0) fail_msg("%s", error.detail);
        for (size_t j = 0; j < plan.count; j++) said[plan.ops[j].verb] = true;
    }
    for (unsigned i = 0; i < JAIL_PLAN_VERB_COUNT; i++)
        if (!said[i]) fail_msg("no plan says %s", plan_verb(i)->word);
}

/* A profile without one loses nothing. */
static void nobody_misses_what_he_may_not_have(void **state) {
    (void)state;
    struct jail_request request = request_for("high");
    struct jail_features features = {.guarantees = EVERYTHING & ~(BIT(EGRESS) | BIT(CPU))};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    uint32_t lost;
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, NULL), 0);
    assert_int_equal(lost, BIT(CPU));
}

static uint32_t lost_without_socket_memory(const char *profile) {
    struct jail_request request = request_for(profile);
    struct jail_features features = {.guarantees = EVERYTHING & ~BIT(SOCKETS), .cgroup_version = 1};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    uint32_t lost;
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, NULL), 0);
    return lost;
}

/* Their buffers would be beside the memory: a limit on it is no promise then, but to those without sockets. */
static void memory_is_not_bounded_where_sockets_are_not(void **state) {
    (void)state;
    assert_int_equal(lost_without_socket_memory("medium"), BIT(SOCKETS) | BIT(MEMORY));
    assert_int_equal(lost_without_socket_memory("low"), BIT(SOCKETS) | BIT(MEMORY));
    assert_int_equal(lost_without_socket_memory("high"), 0);
    assert_int_equal(lost_without_socket_memory("compiler"), 0);
}

static void without_landlock_and_notifications(void **state) {
    (void)state;
    assert_plan("high", EVERYTHING & ~(BIT(LANDLOCK) | BIT(NOTIFY) | BIT(TAKEOVER)),
                "node n1\n"
                "hostname sandbox.local\n"
                "network none\n" LIMITS_OF_HIGH BINDS DEVICES DISK PLACES "seccomp strict\n" PROGRAM);
}

static void a_node_may_have_less_of_the_cpu_than_others(void **state) {
    (void)state;
    struct jail_request request = request_for("medium");
    struct jail_features features = {.guarantees = EVERYTHING};
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    uint64_t weight = 0;
    uint32_t lost;
    request.limits.cpu_weight_percent = 2;
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, NULL), 0);
    assert_true(jail_plan_number(&plan, JAIL_PLAN_WEIGHT, &weight));
    assert_int_equal(weight, 2);
}

/* And what the launcher reads is what was asked for. */
static void every_limit_of_the_kernels_is_in_the_plan(void **state) {
    (void)state;
    struct jail_request request = request_for("high");
    struct jail_features features = {.guarantees = EVERYTHING};
    struct jail_limits read;
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error = {0};
    uint32_t lost;
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) jail_limit_set(&request.limits, i, jail_limit_kind(i)->least + i);
    assert_int_equal(jail_plan_build(&request, &features, &plan, &lost, &error), 0);
    if (plan_check(&plan, &error) < 0 || plan_limits(&plan, &read, &error) < 0) fail_msg("%s", error.detail);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        bool is_kernels = jail_limit_kind(i)->holder == JAIL_HELD_BY_KERNEL;
        assert_int_equal(jail_limit_get(&read, i), is_kernels ? jail_limit_kind(i)->least + i : 0);
    }
}

static void assert_refused(const struct jail_request *request, enum error_code code) {
    struct jail_features features = {.guarantees = EVERYTHING};
    struct jail_plan plan = {.count = 77};
    struct error error = {0};
    uint32_t lost = 77;
    assert_true(jail_plan_build(request, &features, &plan, &lost, &error) < 0);
    assert_int_equal(error.code, code);
    assert_int_equal(plan.count, 77);
    assert_int_equal(lost, 77);
}

static void bad_requests_are_refused(void **state) {
    (void)state;
    static const char *const bad_env[] = {"=x", NULL}, *const no_pair[] = {"HOME", NULL};
    static const char *const relative[] = {"app", NULL}, *const nothing[] = {NULL};
    static const struct jail_bind no_source = {.source = "relative", .target = "/x"};
    static const struct jail_bind no_target = {.source = "/x", .target = "/"};
    const struct jail_bind *const bad_binds[] = {&no_source, &no_target};
    static const char *const bad_nodes[] = {
        "", ".n", "-n", "a/b", "a b", "12345678901234567890123456789012345678901234567890123456789012345", /* 65 */
    };
    struct jail_request request = request_for("high");
    for (size_t i = 0; i < ARRAY_SIZE(bad_nodes); i++) {
        request.node = bad_nodes[i];
        assert_refused(&request, E_INVALID);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad_binds); i++) {
        request = request_for("high");
        request.binds = bad_binds[i], request.bind_count = 1;
        assert_refused(&request, E_INVALID);
    }
    request = request_for("high"), request.env = bad_env;
    assert_refused(&request, E_INVALID);
    request = request_for("high"), request.env = no_pair;
    assert_refused(&request, E_INVALID);
    request = request_for("high"), request.directories = relative;
    assert_refused(&request, E_INVALID);
    request = request_for("high"), request.executables = relative;
    assert_refused(&request, E_INVALID);
    request = request_for("high"), request.argv = nothing;
    assert_refused(&request, E_INVALID);
    request = request_for("high"), request.program = NULL;
    assert_refused(&request, E_INVALID);
}

static void a_plan_has_an_end(void **state) {
    (void)state;
    static const char *many[PLAN_OPS_MAX + 1];
    for (size_t i = 0; i < PLAN_OPS_MAX; i++) many[i] = "x";
    struct jail_request request = request_for("high");
    request.argv = many;
    assert_refused(&request, E_TOO_LARGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(high),
        cmocka_unit_test(there_may_be_no_egress),
        cmocka_unit_test(ports_give_a_loopback),
        cmocka_unit_test(nobody_misses_what_he_may_not_have),
        cmocka_unit_test(memory_is_not_bounded_where_sockets_are_not),
        cmocka_unit_test(medium),
        cmocka_unit_test(one_that_takes_data_later),
        cmocka_unit_test(low),
        cmocka_unit_test(compiler),
        cmocka_unit_test(without_cgroups),
        cmocka_unit_test(without_a_network_namespace),
        cmocka_unit_test(without_landlock_and_notifications),
        cmocka_unit_test(a_node_may_have_less_of_the_cpu_than_others),
        cmocka_unit_test(every_limit_of_the_kernels_is_in_the_plan),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(a_plan_has_an_end),
        cmocka_unit_test(every_verb_is_said_by_some_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
