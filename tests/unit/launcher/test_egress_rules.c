/* The rules that follow from a policy, as text. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/egress/rules.h"

enum { RULE_TEXT_BYTES = 160 };

/* "accept to 1.2.3.4:443" */
static void print_rule(const struct egress_rule *rule, char ret[RULE_TEXT_BYTES]) {
    static const char *const verdicts[] = {"accept",  "drop",      "refuse", "ask public",
                                           "ask own", "ask named", "reject", "tell"};
    const uint8_t *mac = rule->mac;
    char host[JAIL_HOST_TEXT_BYTES], match[RULE_TEXT_BYTES - 16] = "";
    jail_host_print(&rule->host, host);
    switch (rule->match) {
    case EGRESS_ANY: break;
    case EGRESS_ESTABLISHED: snprintf(match, sizeof match, " established"); break;
    case EGRESS_NOT_FROM_MAC:
        snprintf(match, sizeof match, " not from %02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                 mac[5]);
        break;
    case EGRESS_NOT_FROM: snprintf(match, sizeof match, " not from %s", host); break;
    case EGRESS_TO: snprintf(match, sizeof match, " to %s", host); break;
    case EGRESS_TO_PORT: snprintf(match, sizeof match, " to port %u", rule->host.first_port); break;
    case EGRESS_OVER_RATE: snprintf(match, sizeof match, " over %llu bytes/s", (unsigned long long)rule->number); break;
    case EGRESS_OVER_TOTAL: snprintf(match, sizeof match, " over total"); break;
    case EGRESS_OVER_CONNECTIONS:
        snprintf(match, sizeof match, " over %llu connections", (unsigned long long)rule->number);
        break;
    }
    snprintf(ret, RULE_TEXT_BYTES, "%s%s", verdicts[rule->verdict], match);
}

static void assert_rules(const struct egress_rules *rules, const char *expected) {
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < rules->count; i++) {
        char line[RULE_TEXT_BYTES];
        print_rule(&rules->items[i], line);
        buf_printf(&text, "%s\n", line);
    }
    assert_string_equal(buf_string(&text), expected);
    buf_free(&text);
}

static void a_place_follows_from_its_number(void **state) {
    struct egress_place place, other;
    char text[JAIL_HOST_TEXT_BYTES];
    (void)state;
    egress_place_make(0x1234, &place);
    egress_place_make(0x1235, &other);
    assert_string_equal(place.interface, "v4660");
    assert_int_equal(place.index, EGRESS_INDEX_BASE + 0x1234);
    jail_host_print(&place.v4, text);
    assert_string_equal(text, "198.19.18.52");
    jail_host_print(&place.v6, text);
    assert_string_equal(text, "fd01::1234");
    assert_memory_not_equal(place.inside_mac, place.outside_mac, 6);
    assert_memory_not_equal(place.inside_mac, other.inside_mac, 6);
    egress_place_make(UINT16_MAX, &place);
    assert_string_equal(place.interface, "v65535");
}

#define IDENTITY                                                                                                       \
    "drop not from 02:53:42:00:00:07\n"                                                                                \
    "refuse not from 198.19.0.7\n"                                                                                     \
    "refuse not from fd01::7\n"
#define COUNTED "reject over total\naccept established\ntell over 1 connections\nreject over 1 connections\n"
#define RESOLVER_ONLY                                                                                                  \
    "accept to 198.18.0.3:53\n"                                                                                        \
    "refuse to 198.18.0.0/15\n"                                                                                        \
    "refuse to fd00::/64\n"                                                                                            \
    "refuse to fe80::/10\n"

static void public_addresses_and_no_others(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_PUBLIC, .network_rate_bytes = 1000, .connections = 9};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    egress_rules_up(&place, &egress, &rules);
    assert_rules(&rules,
                 IDENTITY "tell over 1000 bytes/s\ndrop over 1000 bytes/s\nreject over total\naccept established\ntell "
                          "over 9 connections\n"
                          "reject over 9 connections\n" RESOLVER_ONLY "ask public\nask own\nask named\naccept\n");
    egress_rules_down(&place, &egress, &rules);
    assert_rules(&rules, "tell over 1000 bytes/s\ndrop over 4000 bytes/s\ndrop over total\naccept established\ndrop\n");
}

static void only_some_ports_of_them(void **state) {
    struct jail_egress egress = {
        .reach = JAIL_REACH_PUBLIC, .ports = {80, 443}, .port_count = 2, .network_total_bytes = 10, .connections = 1};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    egress_rules_up(&place, &egress, &rules);
    assert_rules(&rules, IDENTITY COUNTED RESOLVER_ONLY
                 "ask public\nask own\nask named\naccept to port 80\naccept to port 443\nrefuse\n");
    egress_rules_down(&place, &egress, &rules);
    assert_rules(&rules, "drop over total\naccept established\ndrop\n");
}

static void what_is_listed_and_nothing_else(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_LISTED, .host_count = 2, .connections = 1};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    jail_host_parse("10.0.0.0/8:5432", &egress.hosts[0], NULL);
    jail_host_parse("198.18.0.2", &egress.hosts[1], NULL);
    egress_rules_up(&place, &egress, &rules);
    /* Not even a profile that lists it leads to the host by way of slirp4netns: that was refused before. */
    assert_rules(&rules, IDENTITY COUNTED RESOLVER_ONLY
                 "accept to 10.0.0.0/8:5432\naccept to 198.18.0.2\nask public\nask own\nask named\n"
                 "refuse\n");
}

static void anywhere_is_not_the_hosts_loopback(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_ANYWHERE, .connections = 1};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    egress_rules_up(&place, &egress, &rules);
    assert_rules(&rules, IDENTITY COUNTED RESOLVER_ONLY "accept\n");
}

/* A name server may answer with a neighbour's address: at ports that are not let through anyway, a name opens public
   addresses alone. */
static void a_name_opens_no_more_than_its_own_row(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_ANYWHERE, .ports = {443}, .port_count = 1, .connections = 1};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    egress_rules_up(&place, &egress, &rules);
    assert_rules(&rules, IDENTITY COUNTED RESOLVER_ONLY "accept to port 443\nask public\nask own\nask named\nrefuse\n");
}

/* After the addresses that are refused to all nodes: no name server can open those. */
static void what_names_stand_for_is_let_through(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_LISTED, .resolved_count = 2};
    struct egress_rules rules;
    (void)state;
    jail_host_parse("1.2.3.4:443", &egress.resolved[0], NULL);
    jail_host_parse("2a00:1::1", &egress.resolved[1], NULL);
    egress_rules_named(&egress, &rules);
    assert_rules(&rules, "accept to 1.2.3.4:443\naccept to 2a00:1::1\n");
}

static void the_longest_policy_has_room(void **state) {
    struct jail_egress egress = {.reach = JAIL_REACH_PUBLIC,
                                 .host_count = JAIL_HOSTS_MAX,
                                 .port_count = JAIL_PORTS_MAX,
                                 .resolved_count = JAIL_RESOLVED_MAX,
                                 .network_rate_bytes = 1,
                                 .network_total_bytes = 1,
                                 .connections = 1};
    struct egress_rules rules;
    struct egress_place place;
    (void)state;
    egress_place_make(7, &place);
    egress_rules_up(&place, &egress, &rules);
    assert_in_range(rules.count, JAIL_HOSTS_MAX + JAIL_PORTS_MAX, EGRESS_RULES_MAX);
    egress_rules_named(&egress, &rules);
    assert_int_equal(rules.count, JAIL_RESOLVED_MAX);
}

/* A row that is lost would let its addresses through: their number is known here too. */
static void every_refusal_is_a_rule(void **state) {
    enum { REFUSALS = 29 };
    struct egress_rules rules;
    struct error error = {0};
    (void)state;
    if (egress_rules_check(&error) < 0) fail_msg("%s", error.detail);
    egress_rules_public(&rules);
    assert_int_equal(rules.count, REFUSALS);
    for (size_t i = 0; i < rules.count; i++) {
        assert_int_equal(rules.items[i].match, EGRESS_TO);
        assert_int_equal(rules.items[i].verdict, EGRESS_REFUSE);
        assert_in_range(rules.items[i].host.bits, 1, 128);
    }
}

static void knows_what_an_address_is(void **state) {
    static const struct {
        const char *address, *kind;
    } rows[] = {
        {"93.184.216.34", "not allowed"}, {"8.8.8.8", "not allowed"},
        {"10.0.0.1", "private"},          {"172.31.255.255", "private"},
        {"172.32.0.1", "not allowed"},    {"192.168.1.1", "private"},
        {"100.100.100.200", "private"},   {"169.254.169.254", "link-local"},
        {"127.0.0.1", "loopback"},        {"0.0.0.0", "unspecified"},
        {"224.0.0.251", "multicast"},     {"255.255.255.255", "reserved"},
        {"2a00:1450::1", "not allowed"},  {"::1", "loopback"},
        {"::ffff:10.0.0.1", "mapped"},    {"64:ff9b::a00:1", "mapped"},
        {"fd00:ec2::254", "private"},     {"fe80::1", "link-local"},
        {"ff02::1", "multicast"},         {"2002:a00:1::", "mapped"},
        {"5000::1", "reserved"},          {"9000::1", "reserved"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint8_t bytes[16] = {0};
        bool is_v6 = strchr(rows[i].address, ':') != NULL;
        assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, rows[i].address, bytes), 1);
        assert_string_equal(egress_address_kind(is_v6, bytes), rows[i].kind);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_follows_from_its_number),
        cmocka_unit_test(public_addresses_and_no_others),
        cmocka_unit_test(only_some_ports_of_them),
        cmocka_unit_test(what_is_listed_and_nothing_else),
        cmocka_unit_test(anywhere_is_not_the_hosts_loopback),
        cmocka_unit_test(a_name_opens_no_more_than_its_own_row),
        cmocka_unit_test(what_names_stand_for_is_let_through),
        cmocka_unit_test(the_longest_policy_has_room),
        cmocka_unit_test(every_refusal_is_a_rule),
        cmocka_unit_test(knows_what_an_address_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
