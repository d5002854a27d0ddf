/* What the PROXY protocol says of a client. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/forward/forward.h"

static union forward_address v4(const char *address, uint16_t port) {
    union forward_address ret = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    assert_int_equal(inet_pton(AF_INET, address, &ret.v4.sin_addr), 1);
    return ret;
}

static union forward_address v6(const char *address, uint16_t port) {
    union forward_address ret = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    assert_int_equal(inet_pton(AF_INET6, address, &ret.v6.sin6_addr), 1);
    return ret;
}

static const union forward_address nameless = {.any = {.sa_family = AF_UNIX}};

static void version_1_is_a_line(void **state) {
    char header[FORWARD_HEADER_BYTES];
    union forward_address client = v4("192.0.2.1", 56324), reached = v4("192.0.2.2", 443);
    (void)state;
    size_t size = proxy_header_make(1, &client, &reached, header);
    assert_int_equal(size, strlen("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n"));
    assert_memory_equal(header, "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n", size);
    client = v6("2001:db8::1", 65535), reached = v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535);
    size = proxy_header_make(1, &client, &reached, header);
    assert_memory_equal(header, "PROXY TCP6 2001:db8::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", size);
    size = proxy_header_make(1, &nameless, &nameless, header);
    assert_memory_equal(header, "PROXY UNKNOWN\r\n", size);
}

static void version_2_is_binary(void **state) {
    static const char of_v4[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\2\1\xc0\0\2\2\xdc\4\1\xbb";
    char header[FORWARD_HEADER_BYTES];
    union forward_address client = v4("192.0.2.1", 56324), reached = v4("192.0.2.2", 443);
    (void)state;
    assert_int_equal(proxy_header_make(2, &client, &reached, header), sizeof of_v4 - 1);
    assert_memory_equal(header, of_v4, sizeof of_v4 - 1);
    client = v6("::1", 1), reached = v6("::1", 2);
    assert_int_equal(proxy_header_make(2, &client, &reached, header), 16 + 36);
    assert_memory_equal(header + 12, "\x21\x21\0\x24", 4);
    assert_int_equal(proxy_header_make(2, &nameless, &nameless, header), 16);
    assert_memory_equal(header + 12, "\x20\0\0\0", 4);
}

static void other_versions_say_nothing(void **state) {
    char header[FORWARD_HEADER_BYTES];
    (void)state;
    assert_int_equal(proxy_header_make(0, &nameless, &nameless, header), 0);
    assert_int_equal(proxy_header_make(3, &nameless, &nameless, header), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_is_a_line),
        cmocka_unit_test(version_2_is_binary),
        cmocka_unit_test(other_versions_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
