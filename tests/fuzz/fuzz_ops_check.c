/* Any JSON as the parameters of every operation: what passes the check must pass it again, unchanged. */
#include <stdlib.h>

#include "fuzz/harness/fuzz.h"
#include "ops/table.h"

static void check(bool holds) {
    if (!holds) abort();
}

static void check_op(const struct op *op, const json_t *input) {
    json_t *once = NULL, *twice = NULL;
    struct error error;
    if (ops_check(op, input, &once, &error) < 0) {
        check(once == NULL && error.code == E_INVALID && error.detail[0]);
        return;
    }
    check(ops_check(op, once, &twice, &error) == 0);
    check(json_equal(once, twice));
    json_decref(once);
    json_decref(twice);
}

void fuzz_one(const uint8_t *data, size_t size) {
    json_t *input = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!input) return;
    size_t count;
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) check_op(&table[i], input);
    json_decref(input);
}
