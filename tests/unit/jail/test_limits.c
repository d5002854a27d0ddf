/* Tests the table of limits: names and fields, bounds, shares of other limits, and texts of people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "jail/jail.h"

#define MIB (1ULL << 20)

/* Other programs and files know these: what INTERFACE fixes, and what the registry holds. */
static void fields_are_names_with_their_units(void **state) {
    (void)state;
    static const struct {
        enum jail_limit limit;
        const char *name, *field;
        size_t offset;
    } known[] = {
        {JAIL_LIMIT_MEMORY, "memory", "memory_bytes", offsetof(struct jail_limits, memory_bytes)},
        {JAIL_LIMIT_CPU, "cpu", "cpu_percent", offsetof(struct jail_limits, cpu_percent)},
        {JAIL_LIMIT_PROCESSES, "processes", "processes", offsetof(struct jail_limits, processes)},
        {JAIL_LIMIT_MAX_RUN, "max_run", "max_run_ms", offsetof(struct jail_limits, max_run_ms)},
        {JAIL_LIMIT_TTL, "ttl", "ttl_ms", offsetof(struct jail_limits, ttl_ms)},
        {JAIL_LIMIT_DISK, "disk", "disk_bytes", offsetof(struct jail_limits, disk_bytes)},
        {JAIL_LIMIT_FILE_SIZE, "file_size", "file_size_bytes", offsetof(struct jail_limits, file_size_bytes)},
    };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(known[i].limit);
        assert_string_equal(kind->name, known[i].name);
        assert_string_equal(kind->field, known[i].field);
        assert_int_equal(kind->offset, known[i].offset);
    }
}

static void every_row_makes_sense(void **state) {
    (void)state;
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) {
        const struct jail_limit_kind *kind = jail_limit_kind(i);
        enum jail_limit found;
        assert_true(jail_limit_find(kind->name, &found) && found == i);
        assert_true(0 < kind->least && kind->least < kind->most && kind->most <= INT64_MAX);
        assert_true(kind->policies & 1u << kind->policy);
        if (kind->zero.meaning == JAIL_ZERO_IS_SHARE) assert_true(kind->zero.parts > 1 && kind->zero.of != i);
        assert_int_equal(strspn(kind->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(kind->name));
    }
    enum jail_limit none = JAIL_LIMIT_TTL;
    assert_false(jail_limit_find("memory_bytes", &none)); /* a field is no name */
    assert_false(jail_limit_find("", &none));
    assert_int_equal(none, JAIL_LIMIT_TTL);
}

static void each_has_a_place_of_its_own(void **state) {
    (void)state;
    struct jail_limits limits = {0};
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) jail_limit_set(&limits, i, i + 1);
    for (unsigned i = 0; i < JAIL_LIMIT_COUNT; i++) assert_int_equal(jail_limit_get(&limits, i), i + 1);
    assert_int_equal(limits.cpu_weight_percent, 0);
}

static void some_are_shares_of_others(void **state) {
    (void)state;
    struct jail_limits limits = {.memory_bytes = 64 * MIB, .heap_bytes = 3 * MIB};
    assert_int_equal(jail_limit_value(&limits, JAIL_LIMIT_ETS_MEMORY), 32 * MIB);
    assert_int_equal(jail_limit_value(&limits, JAIL_LIMIT_HEAP), 3 * MIB);
    assert_int_equal(jail_limit_value(&limits, JAIL_LIMIT_CPU), 0);
    limits.memory_bytes = MIB; /* never less than the least */
    assert_int_equal(jail_limit_value(&limits, JAIL_LIMIT_ETS_MEMORY), MIB);
    limits.memory_bytes = 0; /* a share of nothing is no bound */
    assert_int_equal(jail_limit_value(&limits, JAIL_LIMIT_ETS_MEMORY), 0);
}

static void assert_refused(struct jail_limits limits, const char *detail) {
    struct error error = {0};
    assert_int_equal(jail_limits_check(&limits, &error), -E_INVALID);
    if (!strstr(error.detail, detail)) fail_msg("'%s' lacks '%s'", error.detail, detail);
}

static void limits_have_bounds(void **state) {
    (void)state;
    const struct jail_limits good = jail_profile_find("high")->limits;
    struct jail_limits limits = good;
    struct error error;
    assert_int_equal(jail_limits_check(&limits, &error), 0);
    limits = good, limits.memory_bytes = 16 * MIB;
    assert_int_equal(jail_limits_check(&limits, &error), 0);
    limits.memory_bytes--;
    assert_refused(limits, "memory: 16777215 is out of bounds: from 16M to ");
    limits = good, limits.memory_bytes = UINT64_MAX;
    assert_refused(limits, "memory: ");
    limits = good, limits.cpu_percent = 0, limits.ttl_ms = 0, limits.max_run_ms = 0;
    assert_int_equal(jail_limits_check(&limits, &error), 0);
    limits = good, limits.cpu_percent = UINT32_MAX;
    assert_refused(limits, "cpu: ");
    limits = good, limits.processes = 0;
    assert_refused(limits, "processes: 0 is out of bounds");
    limits = good, limits.disk_bytes = 1;
    assert_refused(limits, "disk: ");
    limits = good, limits.socket_memory_bytes = 0;
    assert_refused(limits, "socket_memory: 0 is");
    limits = good, limits.os_tasks = 8;
    assert_refused(limits, "os_tasks: ");
    limits = good, limits.ttl_ms = UINT64_MAX;
    assert_refused(limits, "ttl: ");
    limits = good, limits.max_run_ms = UINT64_MAX;
    assert_refused(limits, "max_run: ");
}

static void people_write_them_with_units(void **state) {
    (void)state;
    static const struct {
        enum jail_limit limit;
        const char *text;
        uint64_t value;
        const char *refusal; /* NULL: it is read */
    } rows[] = {
        {JAIL_LIMIT_CPU, "50%", 50, NULL},
        {JAIL_LIMIT_CPU, "50", 50, NULL},
        {JAIL_LIMIT_CPU, "none", 0, NULL},
        {JAIL_LIMIT_MEMORY, "64M", 64 * MIB, NULL},
        {JAIL_LIMIT_TTL, "5s", 5000, NULL},
        {JAIL_LIMIT_ATOMS, "30000", 30000, NULL},
        {JAIL_LIMIT_MEMORY, "none", 0, "memory: there is no sandbox without this limit"},
        {JAIL_LIMIT_MEMORY, "lots", 0, "memory: 'lots' is not a value such as 64M"},
        {JAIL_LIMIT_MEMORY, "1K", 0, "memory: 1K is out of bounds: from 16M to 1T"},
        {JAIL_LIMIT_CPU, "0", 0, "cpu: 0 is out of bounds: from 1% to 102400%"},
        {JAIL_LIMIT_TTL, "", 0, "ttl: '' is not a value such as 5s"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct jail_limits limits = {0};
        struct error error = {0};
        jail_limit_set(&limits, rows[i].limit, 7);
        int result = jail_limit_read(rows[i].limit, rows[i].text, &limits, &error);
        assert_int_equal(result, rows[i].refusal ? -E_INVALID : 0);
        if (rows[i].refusal) assert_string_equal(error.detail, rows[i].refusal);
        assert_int_equal(jail_limit_get(&limits, rows[i].limit), rows[i].refusal ? 7 : rows[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_names_with_their_units),
        cmocka_unit_test(every_row_makes_sense),
        cmocka_unit_test(each_has_a_place_of_its_own),
        cmocka_unit_test(some_are_shares_of_others),
        cmocka_unit_test(limits_have_bounds),
        cmocka_unit_test(people_write_them_with_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
