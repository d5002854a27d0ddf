/* What every test of the loop's own watch includes. */
#ifndef TEST_LOOP_TEST_H
#define TEST_LOOP_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/loop.h"

#endif
