/* Twelve modules that call each other in a circle and depend on each other, through ten versions and back. */
#ifndef INTEGRATION_CIRCLE_H
#define INTEGRATION_CIRCLE_H

void ten_versions_up_and_down(void **state);

#endif
