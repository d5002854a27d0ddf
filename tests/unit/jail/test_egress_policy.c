/* What a node may reach, as text and as values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "jail/egress_policy.h"
#include "jail/plan.h"

static void assert_host(const char *text, const char *printed) {
    struct jail_host host;
    struct error error = {0};
    char back[JAIL_HOST_TEXT_BYTES];
    if (jail_host_parse(text, &host, &error) < 0) fail_msg("%s: %s", text, error.detail);
    jail_host_print(&host, back);
    assert_string_equal(back, printed);
}

static void reads_hosts_as_people_write_them(void **state) {
    (void)state;
    assert_host("93.184.216.34", "93.184.216.34");
    assert_host("93.184.216.34/32", "93.184.216.34");
    assert_host("10.1.2.3/16:5432", "10.1.0.0/16:5432");
    assert_host("0.0.0.0/0:8000-8010", "0.0.0.0/0:8000-8010");
    assert_host("1.2.3.4:53-53", "1.2.3.4:53");
    assert_host("2001:DB8::1", "2001:db8::1");
    assert_host("[2001:db8::1]", "2001:db8::1");
    assert_host("2001:db8:ffff::/33", "2001:db8:8000::/33");
    assert_host("[2001:db8::/32]:443", "[2001:db8::/32]:443");
}

static void refuses_what_is_no_host(void **state) {
    static const char *const texts[] = {
        "",          "example.com", "1.2.3",     "1.2.3.4.5",   "1.2.3.4/33", "1.2.3.4/",      "1.2.3.4/-1",
        "1.2.3.4:0", "1.2.3.4:",    "1.2.3.4:x", "1.2.3.4:9-8", "1.2.3.4:9-", "1.2.3.4:65536", "::1/129",
        "[::1",      "[::1]x",      "[::1]:",    "::1]:80",     "1.2.3.4 ",   " 1.2.3.4",      "1.2.3.4:1-2-3",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct jail_host host = {.bits = 77};
        struct error error = {0};
        if (jail_host_parse(texts[i], &host, &error) == 0) fail_msg("'%s' was taken for a host", texts[i]);
        assert_int_equal(error.code, E_INVALID);
        assert_int_equal(host.bits, 77);
    }
}

static void a_long_text_is_no_host(void **state) {
    char text[200];
    struct jail_host host;
    (void)state;
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(jail_host_parse(text, &host, NULL) < 0);
}

static void knows_reaches_by_name(void **state) {
    enum jail_reach reach;
    (void)state;
    for (unsigned i = JAIL_REACH_LISTED; i <= JAIL_REACH_ANYWHERE; i++) {
        assert_int_equal(jail_reach_find(jail_reach_name((enum jail_reach)i), &reach), 0);
        assert_int_equal(reach, i);
    }
    assert_true(jail_reach_find("everywhere", &reach) < 0);
}

static struct jail_egress some_policy(void) {
    struct jail_egress egress = {.reach = JAIL_REACH_PUBLIC,
                                 .host_count = 2,
                                 .ports = {80, 443},
                                 .port_count = 2,
                                 .network_rate_bytes = 20000,
                                 .network_total_bytes = 5000,
                                 .connections = 7,
                                 .resolved_count = 1};
    jail_host_parse("[2a00:1::1]:443", &egress.resolved[0], NULL);
    jail_host_parse("10.0.0.0/8:5432", &egress.hosts[0], NULL);
    jail_host_parse("fd00:1::/32", &egress.hosts[1], NULL);
    return egress;
}

static void two_are_the_same_or_not(void **state) {
    struct jail_egress egress = some_policy(), other = some_policy();
    (void)state;
    assert_true(egress_is_same(&egress, &other));
    other.ports[1] = 8443;
    assert_false(egress_is_same(&egress, &other));
    other = some_policy();
    other.reach = JAIL_REACH_ANYWHERE;
    assert_false(egress_is_same(&egress, &other));
}

static void a_plan_carries_it(void **state) {
    struct jail_egress egress = some_policy(), back;
    struct jail_plan plan = {0}, parsed = {0};
    struct buf text = BUF_INIT;
    struct error error = {0};
    (void)state;
    assert_int_equal(plan_add(&plan, JAIL_PLAN_NODE, "n1", NULL, 0, &error), 0);
    struct jail_limits bounds = jail_egress_bounds(&egress);
    assert_int_equal(egress_write(&egress, &plan, &error), 0);
    assert_int_equal(plan_add_limits(&plan, &bounds, &error), 0);
    jail_plan_print(&plan, &text);
    assert_string_equal(buf_string(&text), "node n1\nreach public\nhost 10.0.0.0/8:5432\nhost fd00:1::/32\n"
                                           "resolved [2a00:1::1]:443\nport 80\nport 443\n"
                                           "limit network_rate 20000\nlimit network_total 5000\nlimit connections 7\n");
    assert_int_equal(jail_plan_parse(buf_string(&text), text.size, &parsed, &error), 0);
    assert_int_equal(egress_read(&parsed, &back, &error), 0);
    assert_memory_equal(&back, &egress, sizeof egress);
    jail_plan_free(&plan);
    jail_plan_free(&parsed);
    buf_free(&text);
}

static void assert_unreadable(const char *text, const char *why) {
    struct jail_plan plan = {0};
    struct jail_egress egress;
    struct error error = {0};
    assert_int_equal(jail_plan_parse(text, strlen(text), &plan, &error), 0);
    assert_true(egress_read(&plan, &egress, &error) < 0);
    assert_non_null(strstr(error.detail, why));
    jail_plan_free(&plan);
}

static void believes_no_line_of_a_plan(void **state) {
    char many[4096] = "node n1\nreach listed\n";
    (void)state;
    assert_unreadable("node n1\nhost 1.2.3.4\n", "how far");
    assert_unreadable("node n1\nreach nowhere\n", "how far");
    assert_unreadable("node n1\nreach listed\nhost here\n", "no host");
    assert_unreadable("node n1\nreach public\nport 70000\n", "ports");
    for (int i = 0; i <= JAIL_HOSTS_MAX; i++) strcat(many, "host 1.2.3.4\n");
    assert_unreadable(many, "too many hosts");
}

static void names_stand_for_others_from_time_to_time(void **state) {
    static const char text[] = "node n1\nresolved 1.2.3.4:443\nresolved 1.2.3.5\n";
    struct jail_egress egress = some_policy(), before = egress;
    struct jail_plan plan = {0};
    (void)state;
    assert_int_equal(jail_plan_parse(text, strlen(text), &plan, NULL), 0);
    assert_int_equal(egress_read_resolved(&plan, &egress, NULL), 0);
    assert_int_equal(egress.resolved_count, 2);
    assert_int_equal(egress.resolved[0].first_port, 443);
    assert_memory_equal(egress.hosts, before.hosts, sizeof egress.hosts);
    jail_plan_free(&plan);
}

static void reads_names_as_people_write_them(void **state) {
    static const struct {
        const char *text, *name;
        uint16_t first_port, last_port;
    } rows[] = {{"localhost", "localhost", 0, 0},
                {"www.example.org:443", "www.example.org", 443, 443},
                {"a-b.3com.example:8000-8010", "a-b.3com.example", 8000, 8010}};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        struct jail_named named;
        assert_int_equal(jail_named_parse(rows[i].text, &named, NULL), 0);
        assert_string_equal(named.name, rows[i].name);
        assert_int_equal(named.first_port, rows[i].first_port);
        assert_int_equal(named.last_port, rows[i].last_port);
        jail_named_print(&named, &text);
        assert_string_equal(buf_string(&text), rows[i].text);
    }
}

static void refuses_what_is_no_name(void **state) {
    static const char *const texts[] = {"",       "1.2.3",      "10.1.2.300", "a..b",        ".a",
                                        "a.",     "-a.b",       "a-.b",       "a_b.example", "*.b",
                                        "a b",    "a:0",        "a:70000",    "a:1:2",       "a.example/24",
                                        "[a]:1x", "1.2.3.4/33", "a:b",        "x.1",         "\xc3\xa4.b"};
    char long_label[80], long_name[400] = "";
    (void)state;
    memset(long_label, 'a', 64);
    long_label[64] = '\0';
    for (int i = 0; i < 60; i++) strcat(long_name, "abcde.");
    strcat(long_name, "b");
    for (size_t i = 0; i < ARRAY_SIZE(texts) + 2; i++) {
        const char *text = i < ARRAY_SIZE(texts) ? texts[i] : i == ARRAY_SIZE(texts) ? long_label : long_name;
        struct jail_named named = {.first_port = 7};
        struct error error = {0};
        if (jail_named_parse(text, &named, &error) == 0) fail_msg("'%s' was taken for a name", text);
        assert_int_equal(error.code, E_INVALID);
        assert_int_equal(named.first_port, 7);
    }
}

static void limits_bound_it(void **state) {
    struct jail_limits limits = {.network_rate_bytes = 9, .connections = 3};
    struct jail_egress egress = some_policy(), bounded = jail_egress_bounded(&egress, &limits);
    (void)state;
    assert_int_equal(bounded.network_rate_bytes, 9);
    assert_int_equal(bounded.network_total_bytes, 0);
    assert_int_equal(bounded.connections, 3);
    assert_memory_equal(bounded.hosts, egress.hosts, sizeof egress.hosts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_hosts_as_people_write_them),
        cmocka_unit_test(refuses_what_is_no_host),
        cmocka_unit_test(a_long_text_is_no_host),
        cmocka_unit_test(knows_reaches_by_name),
        cmocka_unit_test(two_are_the_same_or_not),
        cmocka_unit_test(a_plan_carries_it),
        cmocka_unit_test(believes_no_line_of_a_plan),
        cmocka_unit_test(names_stand_for_others_from_time_to_time),
        cmocka_unit_test(reads_names_as_people_write_them),
        cmocka_unit_test(refuses_what_is_no_name),
        cmocka_unit_test(limits_bound_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
