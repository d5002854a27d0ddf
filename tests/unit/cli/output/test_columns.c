/* Tests how the command line prints lists, objects and records in columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

struct page {
    FILE *out;
    char *text;
    size_t size;
};

static void page_open(struct page *page) {
    *page = (struct page){0};
    page->out = open_memstream(&page->text, &page->size);
}

static void page_expect(struct page *page, const char *expected) {
    fclose(page->out);
    assert_string_equal(page->text, expected);
    free(page->text);
}

static void columns_are_aligned(void **state) {
    (void)state;
    static const struct column columns[] = {
        {"ID", "id", false}, {"MEMORY", "usage.memory_bytes", true}, {"NOTE", "note", false}};
    CLEANUP_JSON json_t *rows =
        json_loads("[{\"id\":\"a\",\"usage\":{\"memory_bytes\":1024},\"note\":\"x\"},"
                   "{\"id\":\"größe\",\"usage\":{\"memory_bytes\":67108864},\"note\":\"two\\nlines\"},"
                   "{\"id\":\"漢字\"}]",
                   0, NULL);
    struct page page;
    page_open(&page);
    columns_print(page.out, false, columns, ARRAY_SIZE(columns), rows);
    page_expect(&page, "ID     MEMORY  NOTE\n"
                       "a       1 KiB  x\n"
                       "größe  64 MiB  two\\nlines\n"
                       "漢字        -  -\n");
}

static void no_rows_are_a_heading(void **state) {
    (void)state;
    static const struct column columns[] = {{"ID", "id", false}, {"STATUS", "status", false}};
    CLEANUP_JSON json_t *rows = json_array();
    struct page page;
    page_open(&page);
    columns_print(page.out, false, columns, ARRAY_SIZE(columns), rows);
    page_expect(&page, "ID  STATUS\n");
}

static void any_list_has_columns(void **state) {
    (void)state;
    CLEANUP_JSON json_t *rows =
        json_loads("[{\"name\":\"high\",\"limits\":{\"memory_bytes\":1024}},{\"name\":\"low\"}]", 0, NULL);
    struct page page;
    page_open(&page);
    view_list(page.out, false, rows);
    page_expect(&page, "NAME  MEMORY\nhigh   1 KiB\nlow        -\n");
    CLEANUP_JSON json_t *nothing = json_array();
    page_open(&page);
    view_list(page.out, false, nothing);
    page_expect(&page, "");
}

static void any_object_has_lines(void **state) {
    (void)state;
    CLEANUP_JSON json_t *object =
        json_loads("{\"id\":\"c\",\"limits\":{\"memory_bytes\":1024,\"ttl_ms\":null},\"frozen\":false}", 0, NULL);
    struct page page;
    page_open(&page);
    view_object(page.out, false, object);
    page_expect(&page, "id      c\nlimits\n  memory        1 KiB\n  ttl           -\nfrozen  no\n");
}

/* Hundreds of modules, say. */
static void a_long_list_is_cut(void **state) {
    (void)state;
    CLEANUP_JSON json_t *object = json_loads("{\"n\":[1,2,3,4,5,6,7,8,9]}", 0, NULL);
    struct page page;
    page_open(&page);
    view_object(page.out, false, object);
    page_expect(&page, "n  9: 1, 2, 3, 4, 5, 6, 7, 8, and more with --json\n");
}

/* Neither a value nor a name adds a line of its own. */
static void a_field_is_one_line(void **state) {
    (void)state;
    CLEANUP_JSON json_t *object =
        json_loads("{\"source\":\"/tmp/a\\nstatus  running\",\"k\\ney\":1,\"list\":[\"b\\nc\"]}", 0, NULL);
    struct page page;
    page_open(&page);
    view_object(page.out, false, object);
    page_expect(&page, "source  /tmp/a\\nstatus  running\nk\\ney   1\nlist    b\\nc\n");
}

static void what_was_not_read_is_told(void **state) {
    (void)state;
    CLEANUP_JSON json_t *skipped = json_pack("{s:i}", "skipped", 12);
    CLEANUP_JSON json_t *record = json_pack("{s:s}", "text", "skipped");
    struct page page;
    page_open(&page);
    assert_true(view_skipped(page.out, skipped));
    assert_false(view_skipped(page.out, record));
    page_expect(&page, "(12 records are not shown: they left the history before they could be read)\n");
}

static void records_are_shown_as_printed(void **state) {
    (void)state;
    CLEANUP_JSON json_t *output = json_loads("{\"text\":\"no newline\"}", 0, NULL);
    CLEANUP_JSON json_t *record = json_loads("{\"level\":\"error\",\"text\":\"bad\\u001b[2J\"}", 0, NULL);
    CLEANUP_JSON json_t *empty = json_object();
    struct page page;
    page_open(&page);
    view_log_record(page.out, false, output);
    view_log_record(page.out, false, record);
    view_log_record(page.out, false, empty);
    page_expect(&page, "no newline[error] bad\\x1B[2J\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),          cmocka_unit_test(no_rows_are_a_heading),
        cmocka_unit_test(any_list_has_columns),         cmocka_unit_test(any_object_has_lines),
        cmocka_unit_test(records_are_shown_as_printed), cmocka_unit_test(a_long_list_is_cut),
        cmocka_unit_test(a_field_is_one_line),          cmocka_unit_test(what_was_not_read_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
