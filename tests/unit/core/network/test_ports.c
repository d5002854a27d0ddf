/* The ports of a sandbox as a list: read from a caller and from the registry, found again, counted, shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/network/ports.h"

static struct sandbox_ports take(json_t *params) {
    struct sandbox_ports ports = {0};
    struct error error = {0};
    if (ports_take(params, &ports, &error) < 0) fail_msg("%s", error.detail);
    json_decref(params);
    return ports;
}

static enum error_code refusal(json_t *params) {
    struct sandbox_ports ports;
    struct error error = {0};
    assert_true(ports_take(params, &ports, &error) < 0);
    json_decref(params);
    return error.code;
}

static void the_registry_keeps_them(void **state) {
    (void)state;
    CLEANUP(ports_free)
    struct sandbox_ports ports =
        take(json_pack("{s:[s, s], s:[s, s, s], s:b}", "publish", "8080:4000", "0:4001/udp", "connect", "5432",
                       "db=10.0.0.1:1", "db=10.0.0.1:2", "has_loopback", 1));
    json_t *kept = json_object();
    ports_put(&ports, kept);
    CLEANUP(ports_free) struct sandbox_ports again = take(json_incref(kept));
    json_t *kept_again = json_object();
    ports_put(&again, kept_again);
    assert_true(json_equal(kept, kept_again));
    assert_string_equal(json_string_value(json_array_get(json_object_get(kept, "publish"), 0)), "127.0.0.1:8080:4000");
    assert_true(again.has_loopback);
    assert_int_equal(again.count, 5);
    json_decref(kept);
    json_decref(kept_again);
}

static void refuses_what_can_not_be_had(void **state) {
    json_t *many = json_array();
    (void)state;
    assert_int_equal(refusal(json_pack("{s:[s]}", "publish", "nonsense")), E_INVALID);
    assert_int_equal(refusal(json_pack("{s:[i]}", "connect", 5432)), E_INVALID);
    assert_int_equal(refusal(json_pack("{s:[s, s]}", "publish", "8080:1", "8080:2")), E_CONFLICT);
    assert_int_equal(refusal(json_pack("{s:[s, s]}", "connect", "5432", "10.0.0.1:5432")), E_CONFLICT);
    for (int i = 0; i <= JAIL_PORTS_OF_SANDBOX; i++) json_array_append_new(many, json_string("0:4000"));
    assert_int_equal(refusal(json_pack("{s:o}", "publish", many)), E_LIMIT);
}

/* Each name has an address of its own, whatever its ports. */
static void names_have_addresses_inside(void **state) {
    (void)state;
    CLEANUP(ports_free)
    struct sandbox_ports ports =
        take(json_pack("{s:[s, s, s, s]}", "connect", "5432", "db=10.0.0.1:1", "cache=10.0.0.2:2", "db=10.0.0.1:3"));
    json_t *hosts = ports_hosts(&ports);
    assert_int_equal(json_object_size(hosts), 2);
    assert_string_equal(json_string_value(json_object_get(hosts, "db")), "127.1.0.1");
    assert_string_equal(json_string_value(json_object_get(hosts, "cache")), "127.1.0.2");
    assert_int_equal(ports.items[0].inside, 0);
    assert_int_equal(ports.items[3].inside, 1);
    json_decref(hosts);
    CLEANUP(ports_free) struct sandbox_ports none = take(json_object());
    assert_null(ports_hosts(&none));
}

static void a_port_is_found_as_it_was_asked_for(void **state) {
    static const char *const texts[] = {"8080:4000", "8080", "127.0.0.1:8080", "127.0.0.1:8080:4000", "0:4000"};
    size_t index;
    (void)state;
    CLEANUP(ports_free)
    struct sandbox_ports ports =
        take(json_pack("{s:[s, s], s:[s]}", "publish", "unix:/run/a:1", "8080:4000", "connect", "8081"));
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (ports_find(&ports, texts[i], &index) < 0) fail_msg("%s is not found", texts[i]);
        assert_int_equal(index, 1);
    }
    assert_int_equal(ports_find(&ports, "unix:/run/a", &index), 0);
    assert_int_equal(index, 0);
    assert_true(ports_find(&ports, "8081", &index) < 0); /* which is no published one */
    assert_true(ports_find(&ports, "0:4001", &index) < 0);
    ports_drop(&ports, 0);
    assert_int_equal(ports_find(&ports, "8080", &index), 0);
    assert_int_equal(index, 0);
}

/* A forwarder's page is a process's word: whatever it says, numbers stay numbers. */
static void counts_are_bounded(void **state) {
    struct jail_port_page page = {.counts = {UINT64_MAX, UINT64_MAX, 5, UINT64_MAX, 7}};
    (void)state;
    CLEANUP(ports_free) struct sandbox_ports ports = take(json_pack("{s:[s]}", "publish", "8080:4000"));
    struct sandbox_port *port = &ports.items[0];
    assert_int_equal(ports_counts(port).connections, 0);
    port->page_fd = memfd_create("page", MFD_CLOEXEC);
    assert_int_equal(ports_counts(port).connections, 0); /* an empty one */
    assert_int_equal(pwrite(port->page_fd, &page, sizeof page, 0), sizeof page);
    port->before = (struct jail_port_counts){.connections = 1, .in_bytes = 10, .out_bytes = 1};
    struct jail_port_counts counts = ports_counts(port);
    assert_int_equal(counts.connections, INT64_MAX);
    assert_int_equal(counts.open, INT64_MAX);
    assert_int_equal(counts.in_bytes, 15);
    assert_int_equal(counts.out_bytes, INT64_MAX);
    assert_int_equal(counts.refused, 7);
}

static void shows_both_ways(void **state) {
    json_t *info = json_object();
    (void)state;
    CLEANUP(ports_free)
    struct sandbox_ports ports = take(json_pack("{s:[s, s], s:[s]}", "publish", "[::1]:8080:4000/proxy2",
                                                "unix:/run/a:1", "connect", "db=unix:/run/b:5432"));
    ports_to_json(&ports, info);
    json_t *published = json_object_get(info, "published"), *connects = json_object_get(info, "connects");
    assert_int_equal(json_array_size(published), 2);
    json_t *first = json_array_get(published, 0), *second = json_array_get(published, 1);
    assert_string_equal(json_string_value(json_object_get(first, "address")), "[::1]");
    assert_int_equal(json_integer_value(json_object_get(first, "port")), 8080);
    assert_int_equal(json_integer_value(json_object_get(first, "target")), 4000);
    assert_int_equal(json_integer_value(json_object_get(first, "proxy")), 2);
    assert_string_equal(json_string_value(json_object_get(second, "address")), "unix:/run/a");
    assert_true(json_is_null(json_object_get(second, "port")));
    json_t *service = json_array_get(connects, 0);
    assert_string_equal(json_string_value(json_object_get(service, "name")), "db");
    assert_string_equal(json_string_value(json_object_get(service, "target")), "unix:/run/b");
    assert_string_equal(json_string_value(json_object_get(service, "protocol")), "unix");
    json_decref(info);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_registry_keeps_them),     cmocka_unit_test(refuses_what_can_not_be_had),
        cmocka_unit_test(names_have_addresses_inside), cmocka_unit_test(a_port_is_found_as_it_was_asked_for),
        cmocka_unit_test(counts_are_bounded),          cmocka_unit_test(shows_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
