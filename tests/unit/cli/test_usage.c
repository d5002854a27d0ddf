/* Tests usage lines, help, suggestions for mistyped words, and shell completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli_internal.h"

static void usage_lines_come_from_the_row(void **state) {
    (void)state;
    char line[USAGE_BYTES];
    usage_line(ops_find("eval"), 2, line);
    assert_string_equal(line, "sandbox eval ID EXPR [--lang elixir|erlang] [--timeout 5s]");
    usage_line(ops_find("destroy"), 0, line);
    assert_string_equal(line, "sandbox destroy ID…");
    usage_line(ops_find("restart"), SIZE_MAX, line);
    assert_string_equal(line, "sandbox restart ID [--fresh]");
    usage_line(ops_find("watch"), 0, line);
    assert_string_equal(line, "sandbox watch ID on|off|status [FLAG…]; sandbox watch --help lists the flags");
    usage_line(ops_find("eval"), 1, line);
    assert_string_equal(line, "sandbox eval ID EXPR [FLAG…]; sandbox eval --help lists the flags");
}

static void mistyped_words_find_their_neighbour(void **state) {
    (void)state;
    static const char *const known[] = {"create", "restart", "destroy", "list", "ops"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"creat", "create"}, {"craete", "create"}, {"lst", "list"}, {"destory", "destroy"},
        {"xyzzy", NULL},     {"", NULL},           {"o", NULL},     {"list", "list"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_true(string_equal(usage_nearest(cases[i].word, known, ARRAY_SIZE(known)), cases[i].nearest));
    char endless[500];
    memset(endless, 'c', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(usage_nearest(endless, known, ARRAY_SIZE(known)));
}

/* Whatever is printed, as text. */
static char *printed(void (*print)(FILE *out)) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    print(out);
    fclose(out);
    return text;
}

static void help_lists_every_command(void **state) {
    (void)state;
    CLEANUP_FREE char *text = printed(usage_print_all);
    size_t count;
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n  %s ", table[i].name);
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "\n  completion "));
}

static void print_help_of_create(FILE *out) {
    usage_print_op(out, ops_find("create"));
}

static void print_help_of_reload(FILE *out) {
    usage_print_op(out, ops_find("reload"));
}

static void help_tells_defaults_as_users_write_them(void **state) {
    (void)state;
    CLEANUP_FREE char *create = printed(print_help_of_create), *reload = printed(print_help_of_reload);
    assert_non_null(strstr(create, "  --profile NAME               the security profile (default medium)\n"));
    assert_non_null(strstr(create, "  --restart never|on-failure[:N]|always\n"
                                   "                               what to do when it ends (default never)\n"));
    assert_non_null(strstr(create, "  --timing                     tell how long each step took\n"));
    assert_non_null(strstr(reload, "how long to wait for a busy process (default 5s)\n"));
    assert_non_null(strstr(reload, "how often to try again when a process was busy (default 2)\n"));
}

static void completion_knows_every_flag(void **state) {
    (void)state;
    CLEANUP_FREE char *text = printed(completion_print);
    size_t count;
    const struct op *table = ops_table(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < table[i].param_count; j++) {
            char flag[64] = " --";
            if (table[i].params[j].flags & OP_POSITIONAL) continue;
            args_flag_name(&table[i].params[j], flag + 3, sizeof flag - 3);
            assert_non_null(strstr(text, flag));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_lines_come_from_the_row), cmocka_unit_test(mistyped_words_find_their_neighbour),
        cmocka_unit_test(help_lists_every_command),      cmocka_unit_test(help_tells_defaults_as_users_write_them),
        cmocka_unit_test(completion_knows_every_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
