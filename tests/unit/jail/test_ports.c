/* Published ports and connections to services: as text, as values, and what is allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "jail/ports.h"

static struct jail_port read_port(enum jail_port_way way, const char *text) {
    struct jail_port port;
    struct error error = {0};
    if (jail_port_parse(way, text, &port, &error) < 0) fail_msg("%s: %s", text, error.detail);
    return port;
}

static void assert_port(enum jail_port_way way, const char *text, const char *printed) {
    char back[JAIL_PORT_TEXT_BYTES];
    struct jail_port port = read_port(way, text);
    jail_port_print(&port, back);
    assert_string_equal(back, printed);
    port = read_port(way, back);
    jail_port_print(&port, back);
    assert_string_equal(back, printed);
}

static void reads_ports_to_publish(void **state) {
    (void)state;
    assert_port(JAIL_PORT_IN, "4000", "127.0.0.1:4000:4000");
    assert_port(JAIL_PORT_IN, "0:4000", "127.0.0.1:0:4000");
    assert_port(JAIL_PORT_IN, "8080:4000/udp", "127.0.0.1:8080:4000/udp");
    assert_port(JAIL_PORT_IN, "4000/tcp", "127.0.0.1:4000:4000");
    assert_port(JAIL_PORT_IN, "10.0.0.1:8080:4000", "10.0.0.1:8080:4000");
    assert_port(JAIL_PORT_IN, "localhost:8080:4000", "127.0.0.1:8080:4000");
    assert_port(JAIL_PORT_IN, "[::1]:8080:4000/proxy2", "[::1]:8080:4000/proxy2");
    assert_port(JAIL_PORT_IN, "[::ffff:1.2.3.4]:8080:4000", "1.2.3.4:8080:4000");
    assert_port(JAIL_PORT_IN, "unix:/run/a:b/app.sock:4000/proxy1", "unix:/run/a:b/app.sock:4000/proxy1");
}

static void reads_services_to_connect_to(void **state) {
    (void)state;
    assert_port(JAIL_PORT_OUT, "5432", "127.0.0.1:5432");
    assert_port(JAIL_PORT_OUT, "10.1.2.3:5432", "10.1.2.3:5432");
    assert_port(JAIL_PORT_OUT, "db=[2001:db8::1]:5432", "db=[2001:db8::1]:5432");
    assert_port(JAIL_PORT_OUT, "my-db.local=localhost:5432", "my-db.local=127.0.0.1:5432");
    assert_port(JAIL_PORT_OUT, "unix:/run/db.sock", "unix:/run/db.sock");
    assert_port(JAIL_PORT_OUT, "db=unix:/run/.s.PGSQL.5432:5432", "db=unix:/run/.s.PGSQL.5432:5432");
    assert_port(JAIL_PORT_OUT, "unix:/run/a=b", "unix:/run/a=b");
    assert_int_equal(read_port(JAIL_PORT_OUT, "unix:/run/db.sock").port, 0);
}

static void refuses_what_is_no_port(void **state) {
    static const char *const published[] = {
        "",
        "0",
        "65536",
        "-1",
        " 4000",
        "4000 ",
        "http",
        ":4000",
        "4000:",
        "1.2.3:80:80",
        "a:80:80",
        "1.2.3.4:80",
        "[::1]:4000",
        "::1:80:4000",
        "80:0",
        "80:80/sctp",
        "80:80/udp/proxy1",
        "80/",
        "[::1:80:80",
        "unix::4000",
        "unix:/a",
        "unix:a:80",
        "unix:/a/../b:80",
        "unix:/a:80/udp",
        "unix:/:80",
        "80:80/proxy1/proxy2",
        "1:2:3:4",
    };
    static const char *const connected[] = {
        "",
        "0",
        "db.example.org:80",
        "=80",
        "DB=80",
        "localhost=80",
        "1.2.3.4=80",
        "-a=80",
        "a-=80",
        "db=",
        "db=0",
        "unix:",
        "unix:a",
        "unix:/a/./b",
        "a=b=80",
        "5432/udp",
        "1.2.3.4:80:80",
        "[::1]",
        "db=unix:/a/b/",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(published) + ARRAY_SIZE(connected); i++) {
        bool is_in = i < ARRAY_SIZE(published);
        const char *text = is_in ? published[i] : connected[i - ARRAY_SIZE(published)];
        struct jail_port port = {.port = 77};
        struct error error = {0};
        if (jail_port_parse(is_in ? JAIL_PORT_IN : JAIL_PORT_OUT, text, &port, &error) == 0)
            fail_msg("'%s' was taken for a port", text);
        assert_int_equal(error.code, E_INVALID);
        assert_int_equal(port.port, 77);
    }
}

static void a_long_text_is_no_port(void **state) {
    char text[2 * JAIL_PORT_TEXT_BYTES];
    struct jail_port port;
    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "unix:/", 6);
    memcpy(text + JAIL_PORT_PATH_BYTES + 6, ":80", 4); /* a byte more than an address has room for */
    assert_true(jail_port_parse(JAIL_PORT_IN, text, &port, NULL) < 0);
    text[JAIL_PORT_PATH_BYTES + 6] = 'a';
    text[sizeof text - 1] = '\0';
    assert_true(jail_port_parse(JAIL_PORT_OUT, text, &port, NULL) < 0);
}

static bool collide(enum jail_port_way way, const char *one, const char *other) {
    struct jail_port first = read_port(way, one), second = read_port(way, other);
    return jail_port_collides(&first, &second);
}

static void two_collide_that_want_the_same(void **state) {
    (void)state;
    assert_true(collide(JAIL_PORT_IN, "8080:4000", "8080:5000"));
    assert_false(collide(JAIL_PORT_IN, "8080:4000", "8081:4000"));
    assert_false(collide(JAIL_PORT_IN, "8080:4000", "8080:4000/udp"));
    assert_false(collide(JAIL_PORT_IN, "8080:4000", "[::1]:8080:4000"));
    assert_false(collide(JAIL_PORT_IN, "0:4000", "0:4000"));
    assert_true(collide(JAIL_PORT_IN, "unix:/a:1", "unix:/a:2"));
    assert_true(collide(JAIL_PORT_OUT, "5432", "10.0.0.1:5432"));
    assert_false(collide(JAIL_PORT_OUT, "5432", "db=10.0.0.1:5432"));
    assert_false(collide(JAIL_PORT_OUT, "unix:/a", "unix:/b"));
    assert_true(collide(JAIL_PORT_OUT, "unix:/a", "unix:/a"));
}

static enum error_code publish_outcome(const char *ranges_text, const char *text) {
    struct jail_port_ranges ranges;
    struct jail_port port = read_port(JAIL_PORT_IN, text);
    struct error error = {0};
    assert_int_equal(jail_port_ranges_parse(ranges_text, &ranges, NULL), 0);
    jail_port_check(&port, &ranges, &error);
    return error.code;
}

static void publishes_where_the_operator_allows_it(void **state) {
    (void)state;
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "80"), E_NONE);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "127.9.9.9:1:80"), E_NONE);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "[::1]:1:80"), E_NONE);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "0.0.0.0:1:80"), E_FORBIDDEN);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "[::]:1:80"), E_FORBIDDEN);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "[::ffff:8.8.8.8]:1:80"), E_FORBIDDEN);
    assert_int_equal(publish_outcome("", "80"), E_FORBIDDEN);
    assert_int_equal(publish_outcome("", "unix:/run/a:80"), E_NONE);
    assert_int_equal(publish_outcome("0.0.0.0/0", "0.0.0.0:1:80"), E_NONE);
    assert_int_equal(publish_outcome("10.0.0.0/8:8000-8999", "10.1.1.1:8000:80"), E_NONE);
    assert_int_equal(publish_outcome("10.0.0.0/8:8000-8999", "10.1.1.1:0:80"), E_FORBIDDEN);
    assert_int_equal(publish_outcome(JAIL_PUBLISH_DEFAULT, "unix:/srv/home/api.sock:80"), E_FORBIDDEN);
    assert_true(jail_port_ranges_parse("everywhere", &(struct jail_port_ranges){0}, NULL) < 0);
}

static void refuses_what_no_sandbox_may_reach(void **state) {
    static const char *const refused[] = {
        "169.254.169.254:80",
        "169.254.0.1:1",
        "0.0.0.0:80",
        "255.255.255.255:80",
        "224.0.0.1:80",
        "100.100.100.200:80",
        "168.63.129.16:80",
        "[fe80::1]:80",
        "[fd00:ec2::254]:80",
        "[::]:80",
        "[ff02::1]:80",
        "[::ffff:169.254.169.254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "[2002:a9fe:a9fe::]:80",
        "unix:/srv/home/api.sock",
        "unix:/srv/home/nodes/n1/agent.sock",
        "db=unix:/srv/home/launcher.sock:1",
    };
    static const char *const allowed[] = {"5432",
                                          "10.0.0.1:5432",
                                          "192.168.1.1:80",
                                          "8.8.8.8:53",
                                          "[::1]:80",
                                          "[fd00::1]:80",
                                          "unix:/run/postgresql/.s.PGSQL.5432"};
    struct jail_port_ranges ranges;
    (void)state;
    assert_int_equal(jail_port_ranges_parse(JAIL_CONNECT_DEFAULT, &ranges, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct jail_port port = read_port(JAIL_PORT_OUT, refused[i]);
        struct error error = {0};
        if (jail_port_check(&port, &ranges, &error) == 0) fail_msg("%s is allowed", refused[i]);
        assert_int_equal(error.code, E_FORBIDDEN);
    }
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
        struct jail_port port = read_port(JAIL_PORT_OUT, allowed[i]);
        struct error error = {0};
        if (jail_port_check(&port, &ranges, &error) < 0) fail_msg("%s: %s", allowed[i], error.detail);
    }
}

static void connects_where_the_operator_allows_it(void **state) {
    struct jail_port_ranges ranges;
    struct jail_port inside = read_port(JAIL_PORT_OUT, "10.0.0.1:5432"), outside = read_port(JAIL_PORT_OUT, "5432");
    struct error error;
    (void)state;
    assert_int_equal(jail_port_ranges_parse("10.0.0.0/8:5432", &ranges, NULL), 0);
    assert_int_equal(jail_port_check(&inside, &ranges, NULL), 0);
    assert_true(jail_port_check(&outside, &ranges, &error) < 0);
    assert_non_null(strstr(error.detail, "connect-addresses"));
}

static void knows_ways_by_name(void **state) {
    enum jail_port_way way;
    (void)state;
    for (unsigned i = 0; i < JAIL_PORT_WAYS; i++) {
        assert_int_equal(jail_port_way_find(jail_port_way_name(i), &way), 0);
        assert_int_equal(way, i);
    }
    assert_true(jail_port_way_find("through", &way) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_ports_to_publish),
        cmocka_unit_test(reads_services_to_connect_to),
        cmocka_unit_test(refuses_what_is_no_port),
        cmocka_unit_test(a_long_text_is_no_port),
        cmocka_unit_test(two_collide_that_want_the_same),
        cmocka_unit_test(publishes_where_the_operator_allows_it),
        cmocka_unit_test(refuses_what_no_sandbox_may_reach),
        cmocka_unit_test(connects_where_the_operator_allows_it),
        cmocka_unit_test(knows_ways_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
