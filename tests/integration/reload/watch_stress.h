/* The long part of the tests of watching. */
#ifndef INTEGRATION_WATCH_STRESS_H
#define INTEGRATION_WATCH_STRESS_H

void saves_in_crowds(void **state);

#endif
