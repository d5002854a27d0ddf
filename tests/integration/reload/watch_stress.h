/* The long part of the tests of watching. */
#ifndef INTEGRATION_WATCH_STRESS_H
#define INTEGRATION_WATCH_STRESS_H

void many_saves_at_once(void **state);

#endif
