/* Tests the decoding of percent escapes in targets of requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api_internal.h"

static void escapes_are_decoded_and_broken_ones_kept(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},           {"plain", "plain"}, {"a%20b", "a b"}, {"%41%6a", "Aj"}, {"%00", "%00"},
        {"a%00b", "a%00b"}, {"100%", "100%"},   {"%4", "%4"},     {"%zz", "%zz"},   {"%%41", "%A"},
        {"%2541", "%41"},   {"a+b", "a+b"},     {"%c3%A9", "é"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[32];
        strcpy(text, cases[i].from);
        assert_int_equal(input_unescape(NULL, NULL, text), strlen(cases[i].to));
        assert_string_equal(text, cases[i].to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_decoded_and_broken_ones_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
