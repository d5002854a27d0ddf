/* Runs the cases of a test program, all or those that are for every run. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>

enum { CASES_MAX = 128 };

static size_t cases_left;

bool tests_at_length(void) {
    return getenv("TESTS_AT_LENGTH") != NULL;
}

void cases_leave(size_t count) {
    cases_left += count;
}

/* tools/test.sh adds these lines up. */
int cases_run_chosen(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction open,
                     CMFixtureFunction close) {
    int failed = count > 0 ? _cmocka_run_group_tests(group, tests, count, open, close) : 0;
    if (cases_left > 0) printf("left to make test-long: %zu\n", cases_left);
    cases_left = 0; /* a program may run several groups */
    return failed;
}

int cases_run(const struct test_case *cases, size_t count, CMFixtureFunction open, CMFixtureFunction close) {
    struct CMUnitTest tests[CASES_MAX];
    size_t chosen = 0;
    if (count > CASES_MAX) return 1;
    for (size_t i = 0; i < count; i++) {
        if (cases[i].is_long && !tests_at_length())
            cases_leave(1);
        else
            tests[chosen++] = cases[i].test;
    }
    return cases_run_chosen("tests", tests, chosen, open, close);
}
