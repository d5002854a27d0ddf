/* The cases of test_reload, which share one sandbox. Each begins with the same code, `base`, and with every counter at
   0; it asks for the numbers of the versions that it makes. */
#ifndef INTEGRATION_RELOAD_CASES_H
#define INTEGRATION_RELOAD_CASES_H

#include "tally.h"

struct reload_case {
    struct world *world;
    int base; /* the version that runs at first */
};

/* ---- reload_failures.c: the old code and the old states afterwards, and an answer that says why ---- */

void a_process_that_is_busy(void **state);
void an_on_load_function_that_fails(void **state);
void a_migration_that_crashes(void **state);
void a_migration_with_another_result(void **state);
void a_migration_that_does_not_end(void **state);
void a_torn_beam_file(void **state);
void old_code_that_is_in_use(void **state);
void a_closure_of_old_code(void **state);
void a_dry_run_settles_nothing(void **state);
void a_crash_on_probation(void **state);

/* ---- reload_restarts.c: restarts with and without the states of the tree's processes ---- */

void some_states_are_kept(void **state);
void a_tree_that_does_not_start_starts_fresh(void **state);

/* ---- reload_deaths.c: exactly one of the two versions runs afterwards ---- */

void the_daemon_dies_while_processes_are_suspended(void **state);
void the_daemon_dies_while_states_are_migrated(void **state);
void the_daemon_dies_when_it_has_told(void **state);
void the_vm_dies_while_states_are_migrated(void **state);

#endif
