/* A project of the shape of a `mix phx.new`, whose text is `stock.tree`. The cases need a world and come in their
   order: the first one writes the project and starts it. */
#ifndef COMPILE_STOCK_H
#define COMPILE_STOCK_H

#include "support.h"

/* Write the project to this folder of the world's; its path is returned. */
const char *stock_write(struct world *world, const char *folder);

void stock_has_the_modules_that_mix_makes(void **state);
void stock_starts_as_mix_starts_it(void **state);
void stock_is_configured_as_in_development(void **state);
void stock_changes_compile_what_they_must(void **state);
void stock_has_its_sources_where_they_are_wanted(void **state);
void stock_runs_as_a_release(void **state);
void stock_in_its_test_environment_is_another(void **state);

/* The project's compiler has outlived whatever was done to others: a change compiles what it must. Then its sandbox is
   destroyed. */
void stock_goes_on(struct world *world);

#endif
