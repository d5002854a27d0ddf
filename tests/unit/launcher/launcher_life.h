/* Tests of launcher_life.c, for the list in test_launcher.c: they share its two launchers. */
#ifndef TESTS_LAUNCHER_LIFE_H
#define TESTS_LAUNCHER_LIFE_H

#include "launcher_client.h"

void a_new_launcher_adopts(void **state);
void a_new_launcher_clears_away_the_dead(void **state);
void a_record_that_lies_is_not_believed(void **state);
void a_policy_that_says_nothing_ends_its_node(void **state);
void sigterm_leaves_nodes_running(void **state);
void refuses_what_it_cant_serve(void **state);
void answers_only_the_daemon(void **state);
void bad_messages_end_the_link_not_the_launcher(void **state);

#endif
