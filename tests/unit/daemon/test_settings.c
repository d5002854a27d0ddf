/* Tests the daemon's settings: flags over environment over file, bad values, and the help text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>

#include "daemon/settings.h"
#include "folder.h"

static char home[64];

static int make_home(void **state) {
    (void)state;
    return test_folder_make(home) ? 0 : -1;
}

static const char *conf_path(void) {
    static char path[96];
    snprintf(path, sizeof path, "%s/sandbox.conf", home);
    return path;
}

static int remove_home(void **state) {
    (void)state;
    static const char *const names[] = {"SANDBOX_HOME", "SANDBOX_HEARTBEAT", "SANDBOX_SANDBOXES_MAX", "SANDBOX_AGENT"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) unsetenv(names[i]);
    unlink(conf_path());
    return rmdir(home);
}

static void write_conf(const char *text) {
    CLEANUP_FD int fd = open(conf_path(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* Words after the program's name, closed by NULL. */
static int read_words(struct settings *ret, struct error *reterr, const char *first, ...) {
    char *argv[16] = {(char *)"sandboxd"};
    int argc = 1;
    va_list words;
    va_start(words, first);
    for (const char *word = first; word; word = va_arg(words, const char *)) argv[argc++] = (char *)word;
    va_end(words);
    return settings_read(argc, argv, ret, reterr);
}

static void assert_refused(const char *flag, const char *value, const char *part_of_detail) {
    static struct settings settings;
    struct error error = {0};
    if (read_words(&settings, &error, "--home", home, "--agent", "/agent", flag, value, NULL) == 0)
        fail_msg("%s %s was accepted", flag, value ? value : "");
    assert_int_equal(error.code, E_INVALID);
    if (!strstr(error.detail, part_of_detail)) fail_msg("'%s' does not say '%s'", error.detail, part_of_detail);
}

static void test_defaults(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    struct engine_config defaults;
    engine_config_defaults(&defaults);
    if (read_words(&settings, &error, "--home", home, "--agent", "/agent", NULL) < 0) fail_msg("%s", error.detail);
    assert_string_equal(settings.engine.home, home);
    assert_string_equal(settings.engine.agent_dir, "/agent");
    assert_null(settings.engine.otp);
    assert_null(settings.engine.elixir);
    assert_int_equal(settings.engine.heartbeat_ms, defaults.heartbeat_ms);
    assert_int_equal(settings.engine.sandboxes_max, defaults.sandboxes_max);
    assert_int_equal(settings.admin_uid, getuid());
    assert_false(settings.show_only);
}

static void test_flags_over_environment_over_file(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    setenv("SANDBOX_HOME", home, 1);
    write_conf("# a comment\n\nheartbeat = 1s # one\nsandboxes-max=11\n\tgrace =  3s\notp = /opt/otp\nagent = /a\n");
    setenv("SANDBOX_HEARTBEAT", "2s", 1);
    setenv("SANDBOX_SANDBOXES_MAX", "22", 1);
    if (read_words(&settings, &error, "--heartbeat=3s", NULL) < 0) fail_msg("%s", error.detail);
    assert_int_equal(settings.engine.heartbeat_ms, 3000);
    assert_int_equal(settings.engine.sandboxes_max, 22);
    assert_int_equal(settings.engine.grace_ms, 3000);
    assert_string_equal(settings.engine.otp, "/opt/otp");
    assert_string_equal(settings.engine.agent_dir, "/a");
}

static void test_both_forms_of_a_flag(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    assert_int_equal(read_words(&settings, &error, "--home", home, "--agent=/a", "--heartbeat-deadline", "250ms",
                                "--admin-uid=7", NULL),
                     0);
    assert_int_equal(settings.engine.heartbeat_deadline_ms, 250);
    assert_int_equal(settings.admin_uid, 7);
}

static void test_the_file_moves_no_home(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    write_conf("home = /elsewhere\n");
    assert_int_equal(read_words(&settings, &error, "--home", home, "--agent", "/a", NULL), 0);
    assert_string_equal(settings.engine.home, home);
}

static void test_texts(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    write_conf("webhook = https://example.org/hook#top # where to\nwebhook-secret = #none\n#webhook-events = all\n");
    assert_int_equal(read_words(&settings, &error, "--home", home, "--agent", "/a", NULL), 0);
    assert_string_equal(settings.engine.webhook, "https://example.org/hook#top");
    assert_string_equal(settings.engine.webhook_secret, "");
    assert_non_null(strstr(settings.engine.webhook_events, "violation")); /* as if nothing was said */
    char longer[SETTINGS_TEXT_BYTES + 1];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(read_words(&settings, &error, "--home", home, "--agent", "/a", "--webhook", longer, NULL),
                     -E_INVALID);
    assert_non_null(strstr(error.detail, "webhook"));
}

static void test_bad_values(void **state) {
    (void)state;
    assert_refused("--daemon-memory", "64M", "daemon-memory");
    assert_refused("--heartbeat", "soon", "heartbeat is 'soon'");
    assert_refused("--heartbeat", "1ms", "from 10 to");
    assert_refused("--heartbeat", "-5s", "heartbeat");
    assert_refused("--sandboxes-max", "0", "sandboxes-max");
    assert_refused("--sandboxes-max", "5s", "a number");
    assert_refused("--sandboxes-max", "99999999999999999999", "sandboxes-max");
    assert_refused("--admin-uid", "4294967295", "admin-uid");
    assert_refused("--otp", "otp", "absolute path");
    assert_refused("--otp=", NULL, "absolute path");
    assert_refused("--heartbeat", NULL, "needs a value");
}

static void test_unknown_options(void **state) {
    (void)state;
    static const char *const words[] = {"--nothing", "-h", "--", "word", "--=x", "--heartbea", "--heartbeats", "-"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) assert_refused(words[i], "1s", "there is no option");
}

static void test_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } files[] = {{"heartbeat\n", ":1: a line is"},
                 {"\n\nnothing = 1\n", ":3: there is no setting 'nothing'"},
                 {"heartbeat = soon\n", "heartbeat is 'soon'"},
                 {"= 5s\n", "there is no setting ''"},
                 {"[quota user no-such-user]\n", "sandbox.conf:1: there is no user 'no-such-user'"},
                 {"\n[quota group no-such-group]\n", "sandbox.conf:2: there is no group 'no-such-group'"},
                 {"[quota]\nmemory = much\n", "sandbox.conf:2: the quota memory is 'much'"},
                 {"[quota]\nheartbeat = 1s\n", "sandbox.conf:2: there is no quota 'heartbeat'"},
                 {"[quota user root\n", "sandbox.conf:1: a section is"},
                 {"[quota]\nmemory\n", "sandbox.conf:2: a line is"}};
    static struct settings settings;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct error error = {0};
        write_conf(files[i].text);
        assert_true(read_words(&settings, &error, "--home", home, "--agent", "/a", NULL) < 0);
        assert_int_equal(error.code, E_INVALID);
        assert_non_null(strstr(error.detail, files[i].says));
    }
}

static void test_quotas(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    struct quota_identity user = {.uid = 1000};
    write_conf("heartbeat = 1s\n"
               "[quota] # of all\n"
               "sandboxes = 20\n"
               "memory=1G # at first\n"
               "[profile web]\n"
               "inherits = high\n"
               "  [quota user 1000]\n"
               "memory = 4G\n"
               "cpu = unlimited\n"
               "[access low]\n"
               "groups = 5\n");
    if (read_words(&settings, &error, "--home", home, "--agent", "/a", NULL) < 0) fail_msg("%s", error.detail);
    assert_int_equal(settings.engine.heartbeat_ms, 1000);
    assert_int_equal(quota_rules_resolve(&settings.quotas, &user, QUOTA_SANDBOXES, NULL), 20);
    assert_int_equal(quota_rules_resolve(&settings.quotas, &user, QUOTA_MEMORY, NULL), UINT64_C(4) << 30);
    /* On the lines that they have in the file. */
    assert_string_equal(settings.engine.profiles,
                        "\n\n\n\n[profile web]\ninherits = high\n\n\n\n[access low]\ngroups = 5\n");
}

static void test_a_bad_environment(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    setenv("SANDBOX_HEARTBEAT", "soon", 1);
    assert_true(read_words(&settings, &error, "--home", home, "--agent", "/a", NULL) < 0);
    assert_int_equal(error.code, E_INVALID);
    setenv("SANDBOX_HEARTBEAT", "", 1); /* as good as unset */
    assert_int_equal(read_words(&settings, &error, "--home", home, "--agent", "/a", NULL), 0);
}

static void test_a_home_is_needed(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    assert_true(read_words(&settings, &error, "--agent", "/a", NULL) < 0);
    assert_non_null(strstr(error.detail, "--home"));
}

static void test_the_agent_is_found_beside_the_program_or_missed(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    if (read_words(&settings, &error, "--home", home, NULL) == 0)
        assert_true(string_ends(settings.engine.agent_dir, "/lib/sandbox"));
    else
        assert_non_null(strstr(error.detail, "the agent is not installed"));
}

/* Help needs nothing else, and goes to stdout with a line for every setting. */
static void test_help_and_version(void **state) {
    (void)state;
    static struct settings settings;
    struct error error = {0};
    char text[4096] = "";
    int saved = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    int result = read_words(&settings, &error, "--help", NULL);
    int version = read_words(&settings, &error, "--version", NULL);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(result, 0);
    assert_int_equal(version, 0);
    assert_true(settings.show_only);
    assert_non_null(strstr(text, "--heartbeat-deadline"));
    assert_non_null(strstr(text, "sandboxd " SANDBOX_VERSION));
}

#define IN_HOME(test) cmocka_unit_test_setup_teardown(test, make_home, remove_home)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_HOME(test_defaults),
        IN_HOME(test_flags_over_environment_over_file),
        IN_HOME(test_both_forms_of_a_flag),
        IN_HOME(test_the_file_moves_no_home),
        IN_HOME(test_texts),
        IN_HOME(test_bad_values),
        IN_HOME(test_unknown_options),
        IN_HOME(test_bad_files),
        IN_HOME(test_quotas),
        IN_HOME(test_a_bad_environment),
        IN_HOME(test_a_home_is_needed),
        IN_HOME(test_the_agent_is_found_beside_the_program_or_missed),
        IN_HOME(test_help_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
