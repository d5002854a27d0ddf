/* The list of toolchains: sections of the settings, names, and toolchains that were removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"

static struct engine engine;

static int close_list(void **state) {
    (void)state;
    toolchains_free(&engine.toolchains);
    engine = (struct engine){0};
    return 0;
}

static void read_ok(const char *text) {
    struct error error;
    if (toolchains_open(&engine, text, &error) < 0) fail_msg("%s", error.detail);
}

static void refused(const char *text, const char *expected) {
    struct error error = {0};
    assert_true(toolchains_open(&engine, text, &error) < 0);
    if (!strstr(error.detail, expected)) fail_msg("'%s' does not say '%s'", error.detail, expected);
    close_list(NULL);
}

static void without_settings_there_is_the_systems(void **state) {
    (void)state;
    struct toolchain_entry *entry;
    struct error error;
    engine.config.otp = "/opt/otp";
    read_ok(NULL);
    assert_int_equal(engine.toolchains.count, 1);
    assert_int_equal(toolchains_find(&engine, NULL, &entry, &error), 0);
    assert_ptr_equal(entry, toolchains_default(&engine));
    assert_string_equal(entry->name, "system");
    assert_string_equal(entry->otp, "/opt/otp");
    assert_int_equal(toolchains_find(&engine, "system", &entry, &error), 0);
    assert_int_equal(toolchains_find(&engine, "otp27", &entry, &error), -E_INVALID);
}

static void sections_are_read(void **state) {
    (void)state;
    struct toolchain_entry *entry;
    struct error error;
    read_ok("\n# of the operator\n[toolchain otp27]\nroot = /srv/trixie\n\n[toolchain own]\notp = /opt/otp\n"
            "  elixir = /opt/elixir \n");
    assert_int_equal(engine.toolchains.count, 3);
    assert_int_equal(toolchains_find(&engine, "otp27", &entry, &error), 0);
    assert_string_equal(entry->root, "/srv/trixie");
    assert_null(entry->otp);
    assert_int_equal(toolchains_find(&engine, "own", &entry, &error), 0);
    assert_string_equal(entry->elixir, "/opt/elixir");
}

static void wrong_sections_are_refused_with_their_line(void **state) {
    (void)state;
    refused("[toolchain a]\nroot = /a\n[toolchain a]\nroot = /b\n", "sandbox.conf:3: there is a toolchain 'a' already");
    refused("[toolchain system]\nroot = /a\n", "there is a toolchain 'system' already");
    refused("[toolchain ../a]\n", "is no name");
    refused("[toolchain a\n", "sandbox.conf:1");
    refused("[toolchain a]\nroot = srv\n", "sandbox.conf:2: root must be an absolute path");
    refused("[toolchain a]\nroot = /a\nroot = /b\n", "given twice");
    refused("[toolchain a]\npath = /a\n", "no setting 'path'");
    refused("[toolchain a]\nelixir = /a\n", "needs 'otp = DIR' or 'root = DIR'");
    refused("[toolchain a]\nroot\n", "name = value");
}

static void too_many_are_refused(void **state) {
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    for (int i = 0; i < TOOLCHAINS_MAX; i++) {
        CLEANUP_FREE char *section = string_print("[toolchain t%d]\nroot = /t\n", i);
        buf_append_string(&text, section);
    }
    refused(buf_string(&text), "more than");
}

static void on_needed(void *data, const struct error *error) {
    struct error *ret = data;
    *ret = error ? *error : (struct error){0};
}

/* A sandbox of an earlier daemon keeps its toolchain's name, and can't start on another. */
static void a_toolchain_that_was_removed_can_not_be_used(void **state) {
    (void)state;
    struct toolchain_entry *entry, *again;
    struct error error;
    uv_loop_t loop = {.data = NULL};
    assert_int_equal(uv_loop_init(&loop), 0);
    engine.loop = &loop;
    read_ok(NULL);
    assert_int_equal(toolchains_restore(&engine, "otp27", &entry, &error), 0);
    assert_string_equal(entry->name, "otp27");
    assert_int_equal(toolchains_restore(&engine, "otp27", &again, &error), 0);
    assert_ptr_equal(entry, again);
    assert_int_equal(toolchains_restore(&engine, NULL, &again, &error), 0);
    assert_ptr_equal(again, toolchains_default(&engine));
    toolchain_need(entry, on_needed, &error);
    assert_int_equal(error.code, E_TOOLCHAIN);
    if (!strstr(error.detail, "'otp27' is not in the settings any more")) fail_msg("%s", error.detail);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* The folders are looked through beside the loop, and not again for each caller that asks. */
static void a_toolchain_that_is_not_there_is_looked_for_once(void **state) {
    (void)state;
    struct error told = {.code = E_COUNT};
    uv_loop_t loop = {.data = NULL};
    assert_int_equal(uv_loop_init(&loop), 0);
    engine.loop = &loop;
    engine.config.otp = "/nonexistent/otp";
    read_ok(NULL);
    struct toolchain_entry *entry = toolchains_default(&engine);
    toolchain_need(entry, on_needed, &told);
    assert_int_equal(told.code, E_COUNT);
    assert_false(toolchains_are_probed(&engine.toolchains));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.code, E_TOOLCHAIN);
    told.code = E_COUNT;
    toolchain_need(entry, on_needed, &told);
    assert_int_equal(told.code, E_TOOLCHAIN);
    assert_true(toolchains_are_probed(&engine.toolchains));
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void on_pool_closed(void *data) {
    (void)data;
}

/* A distribution's packages may be upgraded while the service runs. What runs on the old files refers to what was
   known of them. */
static void one_whose_files_have_gone_is_found_anew(void **state) {
    (void)state;
    struct error told = {.code = E_COUNT};
    uv_loop_t loop = {.data = NULL};
    assert_int_equal(uv_loop_init(&loop), 0);
    engine.loop = &loop;
    engine.host.loop = &loop;
    assert_int_equal(pool_open(&engine.host, &(struct pool_settings){0}, NULL, NULL, &engine.pool, &told), 0);
    read_ok("[toolchain gone]\notp = /nonexistent/otp\n");
    struct toolchain_entry *entry, *successor;
    assert_int_equal(toolchains_find(&engine, "gone", &entry, &told), 0);
    assert_int_equal(toolchains_set_default(&engine, "gone", &told), 0);
    strcpy(entry->toolchain.erts_bin, "/nonexistent/otp/erts-1/bin");
    strcpy(entry->toolchain.boot_dir, "/b");
    toolchain_need(entry, on_needed, &told);
    assert_false(toolchains_are_probed(&engine.toolchains));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.code, E_TOOLCHAIN);
    if (!strstr(told.detail, "/nonexistent/otp: No such file")) fail_msg("%s", told.detail);
    assert_int_equal(toolchains_find(&engine, "gone", &successor, &told), 0);
    assert_ptr_not_equal(successor, entry);
    assert_ptr_equal(entry->successor, successor);
    assert_ptr_equal(toolchains_default(&engine), successor);
    assert_string_equal(successor->otp, "/nonexistent/otp");
    assert_string_equal(entry->toolchain.boot_dir, "/b");
    assert_true(toolchains_are_probed(&engine.toolchains));
    pool_close(engine.pool, on_pool_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- users' own ---- */

/* As many as it gets, each in use. */
static size_t hold_many(uid_t uid, size_t wanted) {
    size_t count = 0;
    for (; count < wanted; count++) {
        CLEANUP_FREE char *home = string_print("/home/%u/%zu", uid, count);
        CLEANUP_FREE char *otp = string_print("%s/otp", home);
        struct toolchain_entry *entry =
            own_entry(&engine, "mise:27.1", &(struct own_place){.uid = uid, .home = home, .otp = otp});
        if (!entry) break;
        entry->uses++;
    }
    return count;
}

static void no_user_has_them_all(void **state) {
    (void)state;
    static const struct quota_rules rules;
    const struct quotas_config config = {.rules = &rules, .service_uid = 1};
    struct quotas *quotas;
    struct error error;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(quotas_open(&config, &quotas, &error), 0);
    engine.loop = &loop;
    engine.config.quotas = quotas;
    read_ok(NULL);
    assert_int_equal(hold_many(1001, OWN_ENTRIES_MAX), OWN_ENTRIES_MAX / 4);
    assert_int_equal(hold_many(1002, OWN_PAIRS_MAX), OWN_PAIRS_MAX);
    assert_int_equal(hold_many(0, OWN_PAIRS_MAX), OWN_PAIRS_MAX);
    quotas_close(quotas);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
#define SET(test) cmocka_unit_test_teardown(test, close_list)
    const struct CMUnitTest tests[] = {
        SET(without_settings_there_is_the_systems),        SET(sections_are_read),
        SET(wrong_sections_are_refused_with_their_line),   SET(too_many_are_refused),
        SET(a_toolchain_that_was_removed_can_not_be_used), SET(a_toolchain_that_is_not_there_is_looked_for_once),
        SET(one_whose_files_have_gone_is_found_anew),      SET(no_user_has_them_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
