/* What tests of guard share. */
#ifndef GUARD_TEST_H
#define GUARD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "guard/guard_internal.h"

#define STRICT "basic_otp, math, string"

static inline void begin(struct scan_report *report, const char *allowed) {
    struct error error;
    operation_set set;
    assert_int_equal(guard_operations_parse(allowed, &set, &error), 0);
    assert_int_equal(scan_begin(set, report, &error), 0);
}

static inline const char *member(json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "-";
}

#endif
