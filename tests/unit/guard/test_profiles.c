/* Tests profiles: the built-in ones, inheritance, hosts and ports, limits, access, and refused sections. */
#include "guard_test.h"

#include "guard/profiles.h"

static struct guard_profiles read_profiles(const char *text) {
    struct guard_profiles profiles;
    struct error error;
    if (guard_profiles_read(text, &profiles, &error) < 0) fail_msg("%s", error.detail);
    return profiles;
}

/* What the built-in ones give a node is what their operations need. */
static void test_built_in(void **state) {
    (void)state;
    CLEANUP(guard_profiles_free) struct guard_profiles profiles = read_profiles(NULL);
    assert_int_equal(profiles.count, 3);
    for (size_t i = 0; i < profiles.count; i++) {
        const struct guard_profile *profile = &profiles.items[i];
        unsigned needs = guard_operations_need(profile->operations);
        assert_int_equal(profile->scan, GUARD_SCAN_REPORT);
        assert_int_equal(profile->audit, GUARD_AUDIT_CHANGES);
        assert_int_equal(profile->jail.network != JAIL_NETWORK_NONE, (needs & GUARD_NEEDS_NETWORK) != 0);
        assert_int_equal(profile->jail.may_exec, (needs & GUARD_NEEDS_EXEC) != 0);
        assert_int_equal(profile->jail.native_code, (needs & GUARD_NEEDS_NATIVE) != 0);
    }
    assert_null(guard_profile_find(&profiles, "compiler"));
}

static void test_inheriting(void **state) {
    (void)state;
    CLEANUP(guard_profiles_free)
    struct guard_profiles profiles = read_profiles("[profile web]\n"
                                                   "inherits = high   # a comment\n"
                                                   "summary = Web shops\n"
                                                   "operations = +network_server, network_client\n"
                                                   "memory = 256M\n"
                                                   "scan = refuse\n"
                                                   "\n"
                                                   "[profile tools]\n"
                                                   "inherits = web\n"
                                                   "operations = +os_command\n"
                                                   "audit = all\n"
                                                   "on-violation = rollback, freeze,destroy\n"
                                                   "escalate-after = 3\n"
                                                   "escalate-within = 10m\n"
                                                   "[profile plain]\n");
    const struct guard_profile *web = guard_profile_find(&profiles, "web");
    const struct guard_profile *tools = guard_profile_find(&profiles, "tools");
    const struct guard_profile *plain = guard_profile_find(&profiles, "plain");
    assert_string_equal(web->jail.summary, "Web shops");
    assert_string_equal(web->jail.operations, "basic_otp,math,string,network_server,network_client");
    assert_string_equal(web->inherits, "high");
    assert_int_equal(web->jail.limits.memory_bytes, 256 << 20);
    assert_int_equal(web->jail.limits.cpu_percent, 50);
    assert_int_equal(web->jail.network, JAIL_NETWORK_OUTGOING);
    assert_false(web->jail.may_exec);
    assert_int_equal(web->scan, GUARD_SCAN_REFUSE);
    assert_true(tools->jail.may_exec);
    assert_int_equal(tools->scan, GUARD_SCAN_REFUSE);
    assert_int_equal(tools->audit, GUARD_AUDIT_ALL);
    assert_int_equal(tools->on_violation.step_count, 3);
    assert_int_equal(tools->on_violation.steps[0], GUARD_ROLLBACK);
    assert_int_equal(tools->on_violation.steps[2], GUARD_DESTROY);
    assert_int_equal(tools->on_violation.after, 3);
    assert_int_equal(tools->on_violation.within_ms, 600000);
    assert_int_equal(web->on_violation.steps[1], GUARD_FREEZE); /* as high */
    assert_int_equal(plain->on_violation.step_count, 1);
    assert_int_equal(plain->on_violation.steps[0], GUARD_LOG);
    assert_int_equal(tools->jail.limits.memory_bytes, 256 << 20);
    assert_string_equal(plain->inherits, "medium");
    assert_string_equal(plain->jail.name, "plain");
}

static void test_egress(void **state) {
    (void)state;
    CLEANUP(guard_profiles_free)
    struct guard_profiles profiles = read_profiles("[profile base]\n"
                                                   "hosts = 10.1.0.0/16:5432, 2001:db8::1 www.example.org:443\n"
                                                   "network-rate = 1M\n"
                                                   "network-total = 2M\n"
                                                   "connections = 3\n"
                                                   "[profile wider]\n"
                                                   "inherits = base\n"
                                                   "reach = public\n"
                                                   "ports = 80, 443\n"
                                                   "[profile shut]\n"
                                                   "operations = math\n");
    const struct jail_egress *base = &guard_profile_find(&profiles, "base")->jail.egress;
    const struct jail_egress *wider = &guard_profile_find(&profiles, "wider")->jail.egress;
    const struct jail_limits *limits = &guard_profile_find(&profiles, "wider")->jail.limits;
    char host[JAIL_HOST_TEXT_BYTES];
    assert_int_equal(base->reach, JAIL_REACH_LISTED);
    assert_int_equal(base->host_count, 2);
    jail_host_print(&base->hosts[0], host);
    assert_string_equal(host, "10.1.0.0/16:5432");
    assert_int_equal(base->name_count, 1);
    assert_string_equal(base->names[0].name, "www.example.org");
    assert_int_equal(limits->network_rate_bytes, 1 << 20);
    assert_int_equal(limits->network_total_bytes, 2 << 20);
    assert_int_equal(limits->connections, 3);
    assert_int_equal(wider->reach, JAIL_REACH_PUBLIC);
    assert_int_equal(wider->host_count, 2);
    assert_int_equal(wider->port_count, 2);
    assert_int_equal(wider->ports[1], 443);
    assert_int_equal(guard_profile_find(&profiles, "shut")->jail.network, JAIL_NETWORK_NONE);
}

/* Whatever limit there is, a profile can have its own. */
static void test_limits(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append_string(&text, "[profile odd]\n");
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", jail_limit_kind(i)->name);
        for (char *at = name; (at = strchr(at, '_'));) *at = '-';
        buf_printf(&text, "%s = %llu%s\n", name, (unsigned long long)jail_limit_kind(i)->least + i,
                   jail_limit_kind(i)->unit == JAIL_UNIT_MS ? "ms" : "");
    }
    CLEANUP(guard_profiles_free) struct guard_profiles profiles = read_profiles(buf_string(&text));
    const struct jail_limits *given = &guard_profile_find(&profiles, "odd")->jail.limits;
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++)
        assert_int_equal(jail_limit_get(given, i), jail_limit_kind(i)->least + i);
}

/* As everywhere else: with their units, and none where there may be none. */
static void test_limits_have_units(void **state) {
    (void)state;
    CLEANUP(guard_profiles_free)
    struct guard_profiles profiles = read_profiles("[profile odd]\ncpu = 50%\nfile-size = 100M\nmax-run = none\n"
                                                   "vm-ports = 7\nports = 443\n");
    const struct jail_profile *odd = &guard_profile_find(&profiles, "odd")->jail;
    assert_int_equal(odd->limits.cpu_percent, 50);
    assert_int_equal(odd->limits.file_size_bytes, 100 << 20);
    assert_int_equal(odd->limits.max_run_ms, 0);
    assert_int_equal(odd->limits.vm_ports, 7);
    assert_int_equal(odd->egress.ports[0], 443); /* of hosts, not the VM's */
}

static size_t settings_told;

static void count_setting(const char *name, const char *summary) {
    assert_true(name[0] && !strchr(name, '_') && summary[0]);
    settings_told++;
}

static void test_settings_are_told(void **state) {
    (void)state;
    guard_profile_settings(count_setting);
    assert_true(settings_told > JAIL_LIMIT_COUNT + 10);
}

static bool is_in_five(void *data, gid_t gid) {
    (void)data;
    return gid == 5;
}

static bool is_in_none(void *data, gid_t gid) {
    (void)data, (void)gid;
    return false;
}

static void test_access(void **state) {
    (void)state;
    CLEANUP(guard_profiles_free)
    struct guard_profiles profiles = read_profiles("[profile ours]\n"
                                                   "inherits = low\n"
                                                   "[profile open]\n"
                                                   "inherits = low\n"
                                                   "users = 7\n"
                                                   "[access low]\n"
                                                   "users = root, 1000\n"
                                                   "groups = 5\n"
                                                   "[access high]\n"
                                                   "users =\n");
    const struct guard_access *low = &guard_profile_find(&profiles, "low")->access;
    assert_true(guard_access_allows(low, 0, is_in_none, NULL));
    assert_true(guard_access_allows(low, 1000, is_in_none, NULL));
    assert_true(guard_access_allows(low, 7, is_in_five, NULL));
    assert_false(guard_access_allows(low, 7, is_in_none, NULL));
    assert_string_equal(low->user_names, "root,1000");
    assert_string_equal(low->group_names, "5");
    /* What takes after it is as restricted, unless it says otherwise. */
    assert_false(guard_access_allows(&guard_profile_find(&profiles, "ours")->access, 7, is_in_none, NULL));
    assert_true(guard_access_allows(&guard_profile_find(&profiles, "open")->access, 7, is_in_none, NULL));
    assert_false(guard_access_allows(&guard_profile_find(&profiles, "open")->access, 1000, is_in_five, NULL));
    assert_true(guard_access_allows(&guard_profile_find(&profiles, "medium")->access, 7, is_in_none, NULL));
    assert_false(guard_access_allows(&guard_profile_find(&profiles, "high")->access, 7, is_in_five, NULL));
}

static void test_refused(void **state) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"[profile high]\n", "there is a profile 'high' already"},
        {"[profile a b]\n", "'a b' is no name"},
        {"[profile ]\n", "'' is no name"},
        {"[group a]\n", "is no section"},
        {"memory = 1G\n", "a line of a profile"},
        {"[profile a]\ninherits = b\n", "profile 'a': there is no profile 'b'"},
        {"[profile a]\ninherits = a\n", "no profile 'a' before it"},
        {"[profile a]\ninherits = compiler\n", "no profile 'compiler'"},
        {"[profile a]\nmemory = lots\n", "memory: 'lots' is not a value"},
        {"[profile a]\nhosts = example_com\n", "'example_com' is no host"},
        {"[profile a]\nports = 80, 70000\n", "'70000' is no port"},
        {"[profile a]\nreach = far\n", "reach is 'far'; it may be listed, public or anywhere"},
        {"[profile a]\nconnections = 0\n", "profile 'a': connections: 0 is out of bounds"},
        {"[profile a]\nnetwork-total = 100000G\n", "profile 'a': network_total: 100000G is out of bounds"},
        {"[profile a]\nmemory = 1K\n", "profile 'a': memory: 1K is out of bounds"},
        {"[profile a]\nscan = maybe\n[profile b]\n", "scan is 'maybe'; it may be off, report or refuse"},
        {"[profile a]\non-violation = log, thaw\n",
         "on-violation is 'thaw'; it may be log, rollback, freeze or destroy"},
        {"[profile a]\non-violation = freeze, log\n", "'log' is no severer"},
        {"[profile a]\non-violation = log, log\n", "'log' is no severer"},
        {"[profile a]\nescalate-after = often\n", "escalate-after is 'often'"},
        {"[profile a]\noperations = flying\n", "there is no operation 'flying'"},
        {"[profile a]\ncolour = red\n", "there is no setting 'colour'"},
        {"[profile a]\nfile_size = 100M\n", "there is no setting 'file_size'"},
        {"[profile a]\nmemory = none\n", "there is no sandbox without this limit"},
        {"[profile a]\ncpu = 50 percent\n", "cpu: '50 percent' is not a value"},
        {"[profile a]\nmemory = 64M\ninherits = high\n", "there is no setting 'inherits'"},
        {"\n[profile a]\nusers = no-such-user\n", "sandbox.conf:3: profile 'a': there is no user 'no-such-user'"},
        {"[access low]\ngroups = root, no-such-group\n", "sandbox.conf:2: profile 'low': there is no group"},
        {"[access none]\n", "sandbox.conf:1: there is no profile 'none'"},
        {"[access low]\nmemory = 1G\n", "[access low] has users and groups"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct guard_profiles profiles = {.count = 99};
        struct error error;
        assert_true(guard_profiles_read(cases[i].text, &profiles, &error) < 0);
        if (!strstr(error.detail, cases[i].expected))
            fail_msg("\"%s\" does not say \"%s\"", error.detail, cases[i].expected);
        assert_int_equal(profiles.count, 99);
    }
}

static void test_too_many(void **state) {
    (void)state;
    struct guard_profiles profiles;
    struct error error;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int i = 0; i < GUARD_PROFILES_MAX; i++) buf_printf(&text, "[profile p%d]\n", i);
    assert_true(guard_profiles_read(buf_string(&text), &profiles, &error) < 0);
    assert_non_null(strstr(error.detail, "more than 64"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_built_in),
                                       cmocka_unit_test(test_inheriting),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_limits_have_units),
                                       cmocka_unit_test(test_settings_are_told),
                                       cmocka_unit_test(test_egress),
                                       cmocka_unit_test(test_access),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_too_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
