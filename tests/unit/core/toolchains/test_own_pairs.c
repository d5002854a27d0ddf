/* Pairs of a user's own OTPs and Elixirs, and their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "core/toolchains/own_pairs.h"

static void pairs_are(const struct own_found *found, size_t count, const char *expected) {
    struct own_pair pairs[OWN_PAIRS_MAX];
    char text[4096] = "";
    size_t made = own_make_pairs(found, count, pairs);
    for (size_t i = 0; i < made; i++) {
        strcat(text, pairs[i].name);
        strcat(text, pairs[i].is_double ? "! " : " ");
    }
    assert_string_equal(text, expected);
}

static void builds_go_with_their_otp(void **state) {
    (void)state;
    static const struct own_found found[] = {
        {OWN_MISE, false, "26.2.5", NULL},       {OWN_MISE, true, "1.18.1-otp-27", NULL},
        {OWN_MISE, false, "27.2", NULL},         {OWN_MISE, true, "1.17.3-otp-26", NULL},
        {OWN_MISE, true, "1.18.1-otp-25", NULL},
    };
    pairs_are(found, ARRAY_SIZE(found), "mise:27.2+1.18.1-otp-27 mise:27.2 mise:26.2.5+1.17.3-otp-26 mise:26.2.5 ");
}

static void other_elixirs_go_with_the_newest_they_can_run_on(void **state) {
    (void)state;
    static const struct own_found found[] = {
        {OWN_ASDF, false, "25.3", NULL},
        {OWN_ASDF, false, "27.2", NULL},
        {OWN_ASDF, true, "1.20.4", NULL},
        {OWN_ASDF, true, "1.14.0", NULL},
    };
    pairs_are(found, ARRAY_SIZE(found), "asdf:27.2+1.20.4 asdf:27.2+1.14.0 asdf:27.2 asdf:25.3 ");
    pairs_are(found, 1, "asdf:25.3 ");
    static const struct own_found old[] = {{OWN_ASDF, false, "25.3", NULL}, {OWN_ASDF, true, "1.20.4", NULL}};
    pairs_are(old, ARRAY_SIZE(old), "asdf:25.3 ");
}

static void managers_do_not_mix(void **state) {
    (void)state;
    static const struct own_found found[] = {{OWN_ASDF, false, "27.2", NULL}, {OWN_MISE, true, "1.18.1", NULL}};
    pairs_are(found, ARRAY_SIZE(found), "asdf:27.2 ");
}

static void two_of_one_name_are_told(void **state) {
    (void)state;
    static const struct own_found found[] = {
        {OWN_KERL, false, "27.2", NULL}, {OWN_KERL, false, "27.2", NULL}, {OWN_KERL, false, "26.1", NULL}};
    pairs_are(found, ARRAY_SIZE(found), "kerl:27.2! kerl:27.2! kerl:26.1 ");
}

static void there_are_not_too_many(void **state) {
    (void)state;
    struct own_found found[OWN_FOUND_MAX] = {0};
    struct own_pair pairs[OWN_PAIRS_MAX];
    for (size_t i = 0; i < OWN_FOUND_MAX; i++) snprintf(found[i].version, VERSION_BYTES, "27.%zu", i);
    assert_int_equal(own_make_pairs(found, OWN_FOUND_MAX, pairs), OWN_PAIRS_MAX);
    assert_string_equal(pairs[0].name, "mise:27.127"); /* the newest stay */
}

static void names_are_no_others(void **state) {
    (void)state;
    assert_int_equal(own_manager_of("mise:27.2"), OWN_MISE);
    assert_int_equal(own_manager_of("kerl:27.2+1.18"), OWN_KERL);
    assert_int_equal(own_manager_of("mise"), OWN_MANAGERS); /* the settings may have it, and no colon */
    assert_int_equal(own_manager_of("system"), OWN_MANAGERS);
    assert_true(own_version_is_valid("1.18.1-otp-27"));
    static const char *const bad[] = {
        "", ".", "..", "-a", "a/b", "a b", "a+b", "a:b", "1\n", "\xc3\xa4", "12345678901234567890123456789012"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) assert_false(own_version_is_valid(bad[i]));
}

static void kerls_list_is_read(void **state) {
    (void)state;
    static const char text[] = "27.2 /home/a/kerl/27 2\n\n26.1 relative\nnopath\n../x /y\n25.3 /home/a/25.3";
    struct own_found found[4];
    assert_int_equal(own_read_kerl(text, strlen(text), found, 4), 2);
    assert_string_equal(found[0].version, "27.2");
    assert_string_equal(found[0].path, "/home/a/kerl/27 2");
    assert_string_equal(found[1].path, "/home/a/25.3");
    for (size_t i = 0; i < 2; i++) free(found[i].path);
    assert_int_equal(own_read_kerl(text, strlen(text), found, 1), 1);
    free(found[0].path);
    assert_int_equal(own_read_kerl("", 0, found, 4), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_go_with_their_otp), cmocka_unit_test(other_elixirs_go_with_the_newest_they_can_run_on),
        cmocka_unit_test(managers_do_not_mix),      cmocka_unit_test(two_of_one_name_are_told),
        cmocka_unit_test(there_are_not_too_many),   cmocka_unit_test(names_are_no_others),
        cmocka_unit_test(kerls_list_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
