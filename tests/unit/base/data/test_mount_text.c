/* Tests the texts of the option -v: taken apart, and nothing guessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void what_is_one_is_taken_apart(void **state) {
    static const struct {
        const char *text, *source, *place;
        bool is_read_only, is_folder;
    } cases[] = {
        {"/a:/mnt/b", "/a", "/mnt/b", false, true},       {"/a:/mnt/b:ro", "/a", "/mnt/b", true, true},
        {"/a:/mnt/b:rw", "/a", "/mnt/b", false, true},    {"data:/data/x", "data", "/data/x", false, false},
        {"./a:/mnt/b", "./a", "/mnt/b", false, true},     {".:/mnt/b", ".", "/mnt/b", false, true},
        {"/a:/b:/mnt/c", "/a:/b", "/mnt/c", false, true}, {"/a:b:/mnt/c:ro", "/a:b", "/mnt/c", true, true},
        {"ro:/mnt/ro:ro", "ro", "/mnt/ro", true, false},  {"/a:/mnt/b:rx", "/a", "/mnt/b:rx", false, true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct mount_text mount;
        struct error error;
        if (mount_text_parse(cases[i].text, &mount, &error) < 0) fail_msg("%s", error.detail);
        assert_string_equal(mount.source, cases[i].source);
        assert_string_equal(mount.place, cases[i].place);
        assert_int_equal(mount.is_read_only, cases[i].is_read_only);
        assert_int_equal(mount_text_is_folder(mount.source), cases[i].is_folder);
    }
}

static void what_is_none_is_refused(void **state) {
    static const char *const texts[] = {"",
                                        ":",
                                        "/a",
                                        "/a:",
                                        ":/mnt/b",
                                        "a:b",
                                        "/a:ro",
                                        ":ro",
                                        "/a\n:/b",
                                        "/a:/b\x7f",
                                        "/a:mnt",
                                        "a:/"
                                        "\x01"};
    struct mount_text mount;
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (mount_text_parse(texts[i], &mount, NULL) == 0) fail_msg("%s", texts[i]);
}

static void what_is_too_long_is_refused(void **state) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct mount_text mount;
    struct error error;
    (void)state;
    buf_append_string(&text, "a:/mnt/");
    for (int i = 0; i < MOUNT_PLACE_BYTES; i++) buf_append_byte(&text, 'x');
    assert_int_equal(mount_text_parse(buf_string(&text), &mount, &error), -E_INVALID);
    text.size = 0;
    for (int i = 0; i < PATH_MAX; i++) buf_append_byte(&text, 'x');
    buf_append_string(&text, ":/mnt/a");
    assert_int_equal(mount_text_parse(buf_string(&text), &mount, &error), -E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_one_is_taken_apart),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
