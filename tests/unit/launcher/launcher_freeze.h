/* Tests of launcher_freeze.c, for the list in test_launcher.c: they share its two launchers. */
#ifndef TESTS_LAUNCHER_FREEZE_H
#define TESTS_LAUNCHER_FREEZE_H

#include "launcher_client.h"

void freezes_and_thaws(void **state);
void one_that_yields_freezes_and_thaws(void **state);
void whoever_forks_stands_still_too(void **state);
void others_are_served_while_many_are_stopped(void **state);
void a_thaw_or_an_end_calls_a_freeze_off(void **state);
void what_does_not_come_to_stand_still_goes_on(void **state);

#endif
