/* Which cases a test program runs. `make test-long` runs all of them. `make test` leaves to it those that boot VMs of
   their own to try a variation of what another case tries already; each program says how many it left. */
#ifndef INTEGRATION_CASES_H
#define INTEGRATION_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct test_case {
    struct CMUnitTest test;
    bool is_long; /* by `make test-long` alone */
};

#define CASE(function)                                                                                                 \
    { cmocka_unit_test(function), false }
#define LONG_CASE(function)                                                                                            \
    { cmocka_unit_test(function), true }

/* Whether everything is run: TESTS_AT_LENGTH is set. */
bool tests_at_length(void);
/* So many more were left out, of whatever a program counts. */
void cases_leave(size_t count);
/* As cmocka_run_group_tests, in the order of the table; then a line says how many were left out. */
int cases_run(const struct test_case *cases, size_t count, CMFixtureFunction open, CMFixtureFunction close);
/* The same for cases that a program has chosen itself. */
int cases_run_chosen(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction open,
                     CMFixtureFunction close);

#endif
