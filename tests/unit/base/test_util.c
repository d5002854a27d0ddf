/* Tests strings, numbers with units, hexadecimal, the escaping of untrusted text, and cleanup attributes. */
#include "base/base_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void test_strings_compare(void **state) {
    (void)state;
    assert_true(string_equal("a", "a") && string_equal(NULL, NULL));
    assert_false(string_equal("a", "b") || string_equal("a", NULL) || string_equal(NULL, "a"));
    assert_true(string_starts("abc", "ab") && string_starts("abc", "") && string_starts("", ""));
    assert_false(string_starts("ab", "abc"));
    assert_true(string_ends("abc", "bc") && string_ends("abc", "") && string_ends("abc", "abc"));
    assert_false(string_ends("bc", "abc") || string_ends("abc", "ab"));
    char text[] = " \t a b \r\n", blank[] = " \n";
    assert_string_equal(string_trim(text), "a b");
    assert_string_equal(string_trim(blank), "");
}

static void test_formatting_never_cuts(void **state) {
    (void)state;
    char text[4];
    struct error error = {0};
    assert_int_equal(string_format(text, sizeof text, &error, "%d", 123), 0);
    assert_string_equal(text, "123");
    assert_int_equal(string_format(text, sizeof text, &error, "%d", 1234), -E_INVALID);
    CLEANUP_FREE char *printed = string_print("%s-%d", "a", 7);
    assert_string_equal(printed, "a-7");
}

struct parsed {
    const char *text;
    bool good;
    uint64_t value;
};

static void assert_parsed(const struct parsed *cases, size_t count, bool (*parse)(const char *, uint64_t *)) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 99;
        if (parse(cases[i].text, &value) != cases[i].good) fail_msg("'%s'", cases[i].text);
        assert_true(value == (cases[i].good ? cases[i].value : 99));
    }
}

static void test_numbers_are_whole(void **state) {
    (void)state;
    static const struct parsed cases[] = {
        {"0", true, 0},     {"18446744073709551615", true, UINT64_MAX},
        {"007", true, 7},   {"18446744073709551616", false, 0},
        {"", false, 0},     {"-1", false, 0},
        {"+1", false, 0},   {" 1", false, 0},
        {"1 ", false, 0},   {"1x", false, 0},
        {"0x10", false, 0}, {"99999999999999999999999", false, 0},
    };
    assert_parsed(cases, ARRAY_SIZE(cases), parse_u64);
}

static void test_sizes_have_units(void **state) {
    (void)state;
    static const struct parsed cases[] = {
        {"1000", true, 1000},
        {"1B", true, 1},
        {"512K", true, 512 << 10},
        {"64M", true, 64 << 20},
        {"64MiB", true, 64 << 20},
        {"1G", true, 1ULL << 30},
        {"16777215T", true, 16777215ULL << 40},
        {"16777216T", false, 0},
        {"1X", false, 0},
        {"M", false, 0},
        {"1.5M", false, 0},
        {"1 M", false, 0},
    };
    assert_parsed(cases, ARRAY_SIZE(cases), parse_size);
}

static void test_durations_have_units(void **state) {
    (void)state;
    static const struct parsed cases[] = {
        {"250ms", true, 250},  {"5s", true, 5000},          {"2m", true, 120000}, {"2min", true, 120000},
        {"1h", true, 3600000}, {"1d", true, 86400000},      {"5", false, 0},      {"", false, 0},
        {"s", false, 0},       {"213503982335d", false, 0},
    };
    assert_parsed(cases, ARRAY_SIZE(cases), parse_duration);
}

static void test_quantities_read_as_they_are_written(void **state) {
    (void)state;
    static const struct {
        void (*to_text)(uint64_t value, char ret[QUANTITY_BYTES]);
        uint64_t value;
        const char *text;
    } cases[] = {
        {count_to_text, 1024, "1024"},     {size_to_text, 0, "0"},
        {size_to_text, 1000, "1000"},      {size_to_text, 16 << 20, "16M"},
        {size_to_text, 1ULL << 44, "16T"}, {duration_to_text, 1500, "1500ms"},
        {duration_to_text, 90000, "90s"},  {duration_to_text, 86400000, "1d"},
        {percent_to_text, 100, "100%"},    {duration_to_text, 0, "0ms"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[QUANTITY_BYTES];
        cases[i].to_text(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_bytes_become_hexadecimal(void **state) {
    (void)state;
    char text[2 * 3 + 1];
    hex_encode((const uint8_t *)"\0\x9f\xff", 3, text);
    assert_string_equal(text, "009fff");
    hex_encode(NULL, 0, text);
    assert_string_equal(text, "");
}

static void assert_escaped(const char *text, size_t size, const char *expected) {
    struct buf buf = BUF_INIT;
    escape_text(&buf, text, size);
    assert_string_equal(buf_string(&buf), expected);
    buf_free(&buf);
}

/* A stranger's bytes: none of them may cost much more than the others. */
static void test_the_worst_text_is_made_harmless_quickly(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    enum { BYTES = 4 << 20, NS_PER_BYTE_MAX = 1000 };
#else
    enum { BYTES = 4 << 20, NS_PER_BYTE_MAX = 40 };
#endif
    char *text = malloc(BYTES);
    memset(text, 0xff, BYTES);
    struct buf buf = BUF_INIT;
    struct timespec begun, ended;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    escape_text(&buf, text, BYTES);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    assert_int_equal(buf.size, (size_t)4 * BYTES);
    assert_memory_equal(buf.data + buf.size - 8, "\\xff\\xff", 8);
    int64_t ns = (ended.tv_sec - begun.tv_sec) * INT64_C(1000000000) + ended.tv_nsec - begun.tv_nsec;
    if (ns > (int64_t)BYTES * NS_PER_BYTE_MAX) fail_msg("%lld ns a byte", (long long)(ns / BYTES));
    buf_free(&buf);
    free(text);
}

static void test_text_is_made_harmless(void **state) {
    (void)state;
    assert_escaped("plain é 😀", strlen("plain é 😀"), "plain é 😀");
    assert_escaped("a\"b\\c", 5, "a\\\"b\\\\c");
    assert_escaped("\0\n\x1b[0m\x7f", 7, "\\x00\\x0a\\x1b[0m\\x7f");
    assert_escaped("\xc2\x9b", 2, "\\xc2\\x9b"); /* CSI, as one character */
    assert_escaped("\xc3(\xff", 3, "\\xc3(\\xff");
    assert_escaped("\xe2\x82", 2, "\\xe2\\x82");
}

static void test_what_is_owned_is_released_once(void **state) {
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    int kept = fds[1];
    {
        CLEANUP_FD int closed = fds[0];
        CLEANUP_FD int handed = fds[1];
        CLEANUP_FREE char *freed = strdup("x");
        CLEANUP_FREE char *taken = strdup("y");
        assert_int_equal(take_fd(&handed), kept);
        assert_int_equal(handed, -1);
        char *pointer = take_ptr(taken);
        assert_null(taken);
        assert_string_equal(pointer, "y");
        assert_string_equal(freed, "x");
        assert_true(closed >= 0);
        free(pointer);
    }
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    assert_true(fcntl(kept, F_GETFD) >= 0);
    errno = EINTR;
    assert_int_equal(fd_close(kept), -1);
    assert_int_equal(errno, EINTR);
    assert_int_equal(fd_close(-1), -1);
    assert_int_equal(fcntl(kept, F_GETFD), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_compare),
        cmocka_unit_test(test_formatting_never_cuts),
        cmocka_unit_test(test_numbers_are_whole),
        cmocka_unit_test(test_sizes_have_units),
        cmocka_unit_test(test_durations_have_units),
        cmocka_unit_test(test_bytes_become_hexadecimal),
        cmocka_unit_test(test_quantities_read_as_they_are_written),
        cmocka_unit_test(test_text_is_made_harmless),
        cmocka_unit_test(test_the_worst_text_is_made_harmless_quickly),
        cmocka_unit_test(test_what_is_owned_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
