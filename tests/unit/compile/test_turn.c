/* Turns to compile: those of one owner wait for one another, and for no other owner's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compile/worker.h"

enum { OWNER = 1001, OTHER = 1002, SERVICE = 900 };

struct named {
    struct compile_turn turn;
    char name;
};

static struct quota_rules rules;
static struct compiler compiler;
static struct buf story;

static void on_taken(struct compile_turn *turn, const struct error *error) {
    struct named *named = (struct named *)turn;
    buf_printf(&story, "%c%s", named->name, error ? "! " : " ");
}

static void take(struct named *named, char name, uid_t owner) {
    named->name = name;
    compile_turn_take(&compiler, owner, &named->turn, on_taken);
}

static void expect(const char *expected) {
    assert_string_equal(buf_string(&story), expected);
    buf_clear(&story);
}

static int setup(void **state) {
    (void)state;
    struct quotas_config config = {.rules = &rules, .service_uid = SERVICE};
    quota_rules_init(&rules, UINT64_C(1) << 30);
    assert_int_equal(quota_rule_set(&rules.items[0], "compilers", "2", NULL), 0);
    compiler = (struct compiler){0};
    return quotas_open(&config, &compiler.settings.quotas, NULL);
}

static int teardown(void **state) {
    (void)state;
    assert_null(compiler.waiting);
    assert_int_equal(quotas_held(compiler.settings.quotas, OWNER, QUOTA_COMPILERS), 0);
    quotas_close(compiler.settings.quotas);
    buf_free(&story);
    return 0;
}

static void an_owner_waits_for_its_own(void **state) {
    (void)state;
    struct named own[4] = {0}, other = {0};
    for (size_t i = 0; i < 4; i++) take(&own[i], (char)('a' + i), OWNER);
    take(&other, 'x', OTHER);
    expect("a b x ");
    compile_turn_give(&other.turn);
    expect("");
    compile_turn_give(&own[1].turn);
    expect("c ");
    compile_turn_give(&own[0].turn);
    expect("d ");
    compile_turn_give(&own[0].turn); /* it has none any more */
    expect("");
    compile_turn_give(&own[2].turn);
    compile_turn_give(&own[3].turn);
    expect("");
}

static void one_that_waits_no_longer_gets_none(void **state) {
    (void)state;
    struct named own[4] = {0};
    for (size_t i = 0; i < 4; i++) take(&own[i], (char)('a' + i), OWNER);
    compile_turn_give(&own[2].turn);
    compile_turn_give(&own[0].turn);
    expect("a b d ");
    compile_turn_give(&own[1].turn);
    compile_turn_give(&own[3].turn);
    expect("");
}

static void the_services_own_user_does_not_wait(void **state) {
    (void)state;
    struct named own[5] = {0};
    for (size_t i = 0; i < 5; i++) take(&own[i], (char)('a' + i), SERVICE);
    expect("a b c d e ");
    for (size_t i = 0; i < 5; i++) compile_turn_give(&own[i].turn);
    expect("");
}

static void an_owner_that_may_have_none_is_told(void **state) {
    (void)state;
    struct named own = {0};
    rules.items[0].values[QUOTA_COMPILERS] = 0;
    take(&own, 'a', OWNER);
    expect("a! ");
    compile_turn_give(&own.turn);
    expect("");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_owner_waits_for_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_waits_no_longer_gets_none, setup, teardown),
        cmocka_unit_test_setup_teardown(the_services_own_user_does_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(an_owner_that_may_have_none_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
