/* Tests when a delivery is tried again, its pauses, and its signature against openssl's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "webhook/webhook_internal.h"

#define SIGNATURE "sha256=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686"

static void test_verdicts(void **state) {
    static const struct {
        long status;
        enum webhook_verdict verdict;
    } cases[] = {
        {200, WEBHOOK_ARRIVED},   {204, WEBHOOK_ARRIVED},   {299, WEBHOOK_ARRIVED},   {0, WEBHOOK_TRY_AGAIN},
        {408, WEBHOOK_TRY_AGAIN}, {425, WEBHOOK_TRY_AGAIN}, {429, WEBHOOK_TRY_AGAIN}, {500, WEBHOOK_TRY_AGAIN},
        {503, WEBHOOK_TRY_AGAIN}, {599, WEBHOOK_TRY_AGAIN}, {301, WEBHOOK_UNWANTED},  {400, WEBHOOK_UNWANTED},
        {401, WEBHOOK_UNWANTED},  {404, WEBHOOK_UNWANTED},  {410, WEBHOOK_UNWANTED},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (webhook_judge(cases[i].status) != cases[i].verdict) fail_msg("a wrong verdict on %ld", cases[i].status);
}

static void test_pauses_grow_and_end(void **state) {
    static const struct webhook_retry retry = {.tries_max = 8, .first_ms = 1000, .max_ms = 60000};
    static const uint64_t expected_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    (void)state;
    for (uint32_t i = 0; i < ARRAY_SIZE(expected_ms); i++)
        assert_int_equal(webhook_pause_ms(&retry, i + 1, 0), expected_ms[i]);
    assert_int_equal(webhook_pause_ms(&retry, UINT32_MAX, 0), 60000);
}

static void test_a_receiver_may_ask_for_more(void **state) {
    static const struct webhook_retry retry = {.tries_max = 8, .first_ms = 1000, .max_ms = 60000};
    (void)state;
    assert_int_equal(webhook_pause_ms(&retry, 1, 5000), 5000);
    assert_int_equal(webhook_pause_ms(&retry, 5, 5000), 16000);
    assert_int_equal(webhook_pause_ms(&retry, 1, UINT64_MAX), 60000);
}

/* As `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret` says. */
static void test_signature(void **state) {
    char signature[WEBHOOK_SIGNATURE_BYTES];
    (void)state;
    webhook_sign("secret", 1700000000, "{\"a\":1}", 7, signature);
    assert_string_equal(signature, SIGNATURE);
    webhook_sign("other", 1700000000, "{\"a\":1}", 7, signature);
    assert_string_not_equal(signature, SIGNATURE);
    webhook_sign("secret", 1700000001, "{\"a\":1}", 7, signature);
    assert_string_not_equal(signature, SIGNATURE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_pauses_grow_and_end),
        cmocka_unit_test(test_a_receiver_may_ask_for_more),
        cmocka_unit_test(test_signature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
