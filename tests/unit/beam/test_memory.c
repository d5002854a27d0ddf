/* Every allocation fails once: each failure is reported and leaves nothing behind (which a sanitizer checks). */
#include "../failing_memory.h"
#include "beam/beam_test.h"

static enum error_code use(const struct buf *file) {
    struct error error = {0};
    CLEANUP_BEAM struct beam *beam = NULL;
    CLEANUP(beam_names_free) struct beam_names names = {0}, others = {0};
    char digest[BEAM_DIGEST_BYTES];
    int result = beam_read(file->data, file->size, &beam_default_options, &beam, &error);
    if (result == 0) result = beam_interface_hash(beam, digest, &error);
    if (result == 0) result = beam_runtime_dependencies(beam, &names, &error);
    if (result == 0) result = beam_compile_dependencies(beam, &others, &error);
    return result < 0 ? error.code : E_NONE;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    static const char *const fixtures[] = {"fx_kinds", "fx_kinds_compressed"};
    for (size_t i = 0; i < ARRAY_SIZE(fixtures); i++) {
        CLEANUP_BUF struct buf file = BUF_INIT;
        enum error_code code = E_NO_MEMORY;
        int limit = 0;
        load_fixture(&file, fixtures[i]);
        assert_int_equal(use(&file), E_NONE);
        for (; code != E_NONE; limit++) {
            allocations_left = limit;
            code = use(&file);
            allocations_left = -1;
            if (code != E_NONE && code != E_NO_MEMORY) fail_msg("%s: another error than no memory", fixtures[i]);
        }
        assert_true(limit > 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
