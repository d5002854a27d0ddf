/* The table of settings, and reading them from flags, the environment and the file. All three use the same names and
   checks. */
#include "daemon/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What an operator wants to be woken up for. */
#define WEBHOOK_EVENTS "alert,limit,violation,contained,rolled_back,create_failed,pattern,launcher_lost"

enum { LOG_MAX_BYTES = 64 << 20 };

enum kind { KIND_PATH, KIND_TEXT, KIND_DURATION, KIND_NUMBER, KIND_SIZE };

/* Flag --heartbeat, environment SANDBOX_HEARTBEAT, line "heartbeat = 5s" of sandbox.conf. */
static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    uint64_t min, max;
    const char *summary;
    bool is_live; /* another value has effect when the file is read again; all others at the start alone */
} table[] = {
    {"home", KIND_PATH, offsetof(struct settings, home), 0, 0, "everything of this instance", false},
    {"agent", KIND_PATH, offsetof(struct settings, agent_dir), 0, 0, "the folder that holds the agent's ebin", false},
    {"agent-stamp", KIND_NUMBER, offsetof(struct settings, engine.agent_stamp), 0, UINT32_MAX,
     "when the agent was built; the launcher tells", false},
    {"otp", KIND_PATH, offsetof(struct settings, otp), 0, 0, "root of the OTP installation", false},
    {"elixir", KIND_PATH, offsetof(struct settings, elixir), 0, 0, "root of the Elixir installation", false},
    {"toolchain", KIND_TEXT, offsetof(struct settings, toolchain), 0, 0,
     "the default toolchain: system, or one that a section [toolchain NAME] names", true},
    {"admin-uid", KIND_NUMBER, offsetof(struct settings, admin_uid), 0, UINT32_MAX - 1, "who is an admin besides root",
     false},
    {"sandboxes-max", KIND_NUMBER, offsetof(struct settings, engine.sandboxes_max), 1, 4000,
     "how many sandboxes at most", true},
    {"heartbeat", KIND_DURATION, offsetof(struct settings, engine.heartbeat_ms), 10, 600000,
     "time between two beats of a node", true},
    {"heartbeat-deadline", KIND_DURATION, offsetof(struct settings, engine.heartbeat_deadline_ms), 50, 600000,
     "a beat later than this ends the node", true},
    {"boot-deadline", KIND_DURATION, offsetof(struct settings, engine.boot_deadline_ms), 1000, 600000,
     "how long booting and starting may take", true},
    {"settle", KIND_DURATION, offsetof(struct settings, engine.settle_ms), 0, 60000,
     "how long a build that never ran must run to count as created", true},
    {"compile-deadline", KIND_DURATION, offsetof(struct settings, engine.compile_deadline_ms), 100, 3600000,
     "how long one compilation may take", true},
    {"compile-deadline-max", KIND_DURATION, offsetof(struct settings, engine.compile_deadline_max_ms), 100, 86400000,
     "the longest time that --compile-timeout may give a compilation", true},
    {"compile-memory-max", KIND_SIZE, offsetof(struct settings, engine.compile_memory_max_bytes), 128 << 20,
     UINT64_C(1) << 40, "the most memory that --compile-memory may give a compilation", true},
    {"compiler-idle", KIND_DURATION, offsetof(struct settings, engine.compiler.idle_ms), 1, 86400000,
     "how long a compiler node is kept for its project after use", true},
    {"compilers-kept", KIND_NUMBER, offsetof(struct settings, engine.compiler.warm_max), 0, 64,
     "how many idle compiler nodes are kept at most", true},
    {"spare-compilers", KIND_NUMBER, offsetof(struct settings, engine.compiler.spares), 0, 1,
     "compiler nodes booted ahead of time, once something was compiled", true},
    {"warm-nodes", KIND_NUMBER, offsetof(struct settings, engine.warm_nodes), 0, 256,
     "nodes booted ahead of time that wait for sandboxes, at most; as many as were used of late", true},
    {"compile-cache", KIND_SIZE, offsetof(struct settings, engine.compiler.cache_max_bytes), 1 << 20, UINT64_C(1) << 40,
     "bytes that compiled files may take, besides builds", false},
    {"audit-file", KIND_SIZE, offsetof(struct settings, engine.audit_file_max_bytes), 64 << 10, 128 << 20,
     "how large a file of the audit trail becomes before the next begins", false},
    {"audit-files", KIND_NUMBER, offsetof(struct settings, engine.audit_files_kept), 2, 4000,
     "how many files of the audit trail are kept", false},
    {"log-max", KIND_SIZE, offsetof(struct settings, log_max_bytes), 64 << 10, UINT64_C(1) << 40,
     "bytes that daemon.log and the three files before it take together", false},
    {"webhook", KIND_TEXT, offsetof(struct settings, webhook), 0, 0, "http or https address that events are posted to",
     false},
    {"webhook-secret", KIND_TEXT, offsetof(struct settings, webhook_secret), 0, 0,
     "signs what is posted; better in sandbox.conf than among the flags, which everyone sees", false},
    {"webhook-events", KIND_TEXT, offsetof(struct settings, webhook_events), 0, 0,
     "the kinds of events that are posted, with commas between them, or all", false},
    {"daemon-memory", KIND_SIZE, offsetof(struct settings, daemon_memory_bytes), JAIL_DAEMON_MEMORY_LEAST,
     JAIL_DAEMON_MEMORY_MOST, "memory of sandboxd itself; 2G or an eighth of the machine's, whichever is more", false},
    {"publish-addresses", KIND_TEXT, offsetof(struct settings, publish_addresses), 0, 0,
     "where sandboxes may publish ports, such as `127.0.0.0/8, ::1, 192.168.1.10:8000-8999`; loopback unless given",
     false},
    {"connect-addresses", KIND_TEXT, offsetof(struct settings, connect_addresses), 0, 0,
     "which services sandboxes may --connect to, such as `127.0.0.1:5432`; any unless given", false},
    {"grace", KIND_DURATION, offsetof(struct settings, engine.grace_ms), 100, 86400000,
     "how long a node waits for a daemon", false},
};

static const struct setting *find(const char *name, size_t length) {
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0) return &table[i];
    return NULL;
}

static int set_path(char *field, const char *name, const char *value, struct error *reterr) {
    if (value[0] != '/') return error_set(reterr, E_INVALID, "%s must be an absolute path, not '%s'", name, value);
    return string_format(field, PATH_MAX, reterr, "%s", value);
}

/* How the values of each kind are read, and what they are called. */
static const struct {
    bool (*parse)(const char *text, uint64_t *ret);
    const char *name, *unit;
    bool is_wide;
} kinds[] = {
    [KIND_DURATION] = {parse_duration, "duration", " ms", true},
    [KIND_NUMBER] = {parse_u64, "number", "", false},
    [KIND_SIZE] = {parse_size, "size", " bytes", true},
};

static int set(struct settings *settings, const struct setting *setting, const char *value, struct error *reterr) {
    char *field = (char *)settings + setting->offset;
    uint64_t number;
    if (setting->kind == KIND_PATH) return set_path(field, setting->name, value, reterr);
    if (setting->kind == KIND_TEXT) {
        int result = string_format(field, SETTINGS_TEXT_BYTES, reterr, "%s", value);
        return result < 0 ? error_prefix(reterr, "%s", setting->name) : 0;
    }
    if (!kinds[setting->kind].parse(value, &number) || number < setting->min || number > setting->max)
        return error_set(reterr, E_INVALID, "%s is '%s', but must be a %s from %llu to %llu%s", setting->name, value,
                         kinds[setting->kind].name, (unsigned long long)setting->min, (unsigned long long)setting->max,
                         kinds[setting->kind].unit);
    if (kinds[setting->kind].is_wide)
        *(uint64_t *)field = number;
    else
        *(uint32_t *)field = (uint32_t)number;
    return 0;
}

/* ---- the three places a setting can come from ---- */

/* A # begins one, unless it is part of a word: addresses and secrets have them too. */
static void cut_comment(char *line) {
    for (char *at = strchr(line, '#'); at; at = strchr(at + 1, '#')) {
        if (at != line && at[-1] != ' ' && at[-1] != '\t') continue;
        *at = '\0';
        return;
    }
}

/* What the lines that follow are of. */
enum section { SECTION_SETTINGS, SECTION_PROFILES, SECTION_QUOTAS, SECTION_TOOLCHAINS };

struct reading {
    struct settings *settings;
    enum section section;
    struct quota_rule *rule; /* of a section of quotas */
};

/* "name = value"; false: the line is something else. */
static bool split(char *line, char **ret_name, char **ret_value) {
    char *equals = strchr(line, '=');
    if (!equals) return false;
    *equals = '\0';
    *ret_name = string_trim(line);
    *ret_value = string_trim(equals + 1);
    return true;
}

static int read_pair(struct reading *reading, char *line, struct error *reterr) {
    char *name, *value;
    if (!split(line, &name, &value)) return error_set(reterr, E_INVALID, "a line is 'name = value'");
    if (reading->section == SECTION_QUOTAS) return quota_rule_set(reading->rule, name, value, reterr);
    const struct setting *setting = find(name, strlen(name));
    if (!setting) return error_set(reterr, E_INVALID, "there is no setting '%s'", name);
    return set(reading->settings, setting, value, reterr);
}

static bool is_section_of_quotas(const char *line) {
    return string_starts(line, "[quota]") || string_starts(line, "[quota ");
}

static int begin_quotas(struct reading *reading, char *line, struct error *reterr) {
    char *close = strchr(line, ']');
    if (!close) return error_set(reterr, E_INVALID, "a section is '[quota user NAME]'");
    *close = '\0';
    reading->section = SECTION_QUOTAS;
    return quota_rules_begin(&reading->settings->quotas, string_trim(line + 1), &reading->rule, reterr);
}

static int append(char text[SETTINGS_SECTIONS_BYTES], const char *line, struct error *reterr) {
    size_t length = strlen(text);
    return string_format(text + length, SETTINGS_SECTIONS_BYTES - length, reterr, "%s", line);
}

/* The engine reads profiles and toolchains. Lines of other sections are empty there, so that it can name a line by its
   number. */
static int keep_line(struct reading *reading, const char *line, struct error *reterr) {
    struct settings *settings = reading->settings;
    int result = append(settings->profiles, reading->section == SECTION_PROFILES ? line : "\n", reterr);
    if (result < 0) return result;
    return append(settings->toolchains, reading->section == SECTION_TOOLCHAINS ? line : "\n", reterr);
}

static enum section section_of(const char *header) {
    if (is_section_of_quotas(header)) return SECTION_QUOTAS;
    return string_starts(header, "[toolchain ") ? SECTION_TOOLCHAINS : SECTION_PROFILES;
}

static int read_line(struct reading *reading, char *line, struct error *reterr) {
    const char *begin = line + strspn(line, " \t");
    if (begin[0] == '[') reading->section = section_of(begin);
    int result = keep_line(reading, line, reterr);
    if (result < 0 || reading->section == SECTION_PROFILES || reading->section == SECTION_TOOLCHAINS) return result;
    cut_comment(line);
    char *text = string_trim(line);
    if (result < 0 || !text[0]) return result;
    return text[0] == '[' ? begin_quotas(reading, text, reterr) : read_pair(reading, text, reterr);
}

int settings_read_stream(FILE *file, const char *path, struct settings *settings, struct error *reterr) {
    char line[PATH_MAX + 256];
    struct reading reading = {.settings = settings};
    int result = 0;
    for (unsigned number = 1; result == 0 && fgets(line, sizeof line, file); number++) {
        result = read_line(&reading, line, reterr);
        if (result < 0) error_prefix(reterr, "%s:%u", path, number);
    }
    return result;
}

static int read_file(struct settings *settings, struct error *reterr) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/sandbox.conf", settings->home);
    FILE *file = fopen(path, "re");
    if (!file) return errno == ENOENT ? 0 : error_errno(reterr, errno, "reading %s", path);
    int result = settings_read_stream(file, path, settings, reterr);
    fclose(file);
    return result;
}

static int read_environment(struct settings *settings, struct error *reterr) {
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char name[64] = "SANDBOX_";
        size_t length = strlen(name);
        for (const char *at = table[i].name; *at; at++) name[length++] = *at == '-' ? '_' : (char)(*at - 'a' + 'A');
        name[length] = '\0';
        const char *value = getenv(name);
        int result = value && value[0] ? set(settings, &table[i], value, reterr) : 0;
        if (result < 0) return result;
    }
    return 0;
}

/* ---- what another reading changes ---- */

static size_t size_of(const struct setting *setting) {
    static const size_t sizes[] = {[KIND_PATH] = PATH_MAX,
                                   [KIND_TEXT] = SETTINGS_TEXT_BYTES,
                                   [KIND_DURATION] = sizeof(uint64_t),
                                   [KIND_NUMBER] = sizeof(uint32_t),
                                   [KIND_SIZE] = sizeof(uint64_t)};
    return sizes[setting->kind];
}

static bool differs(const struct setting *setting, const char *one, const char *other) {
    bool is_text = setting->kind == KIND_PATH || setting->kind == KIND_TEXT;
    return is_text ? strcmp(one, other) != 0 : memcmp(one, other, size_of(setting)) != 0;
}

static void adopt_section(char *to, const char *from, const char *name, json_t *changed) {
    if (strcmp(to, from) == 0) return;
    json_array_append_new(changed, json_string(name));
    memcpy(to, from, SETTINGS_SECTIONS_BYTES);
}

/* The daemon's memory is the launcher's to set, so it is never among them. */
void settings_adopt(struct settings *settings, const struct settings *next, json_t *told) {
    json_t *changed = json_object_get(told, "changed"), *at_start = json_object_get(told, "at_start");
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char *to = (char *)settings + table[i].offset;
        const char *from = (const char *)next + table[i].offset;
        if (!differs(&table[i], to, from)) continue;
        json_array_append_new(table[i].is_live ? changed : at_start, json_string(table[i].name));
        if (table[i].is_live) memcpy(to, from, size_of(&table[i]));
    }
    adopt_section(settings->profiles, next->profiles, "profiles", changed);
    adopt_section(settings->toolchains, next->toolchains, "toolchains", changed);
    if (!quota_rules_equal(&settings->quotas, &next->quotas)) {
        json_array_append_new(changed, json_string("quotas"));
        settings->quotas = next->quotas;
    }
}

void settings_each(void (*each)(void *data, const char *name, const char *summary), void *data) {
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) each(data, table[i].name, table[i].summary);
}

static void print_setting(void *data, const char *name, const char *summary) {
    (void)data;
    printf("  --%-20s %s\n", name, summary);
}

static void print_help(void) {
    printf(
        "usage: sandboxd --home DIR [--SETTING VALUE]…\n\nThe launcher starts it. Settings come from flags, SANDBOX_… "
        "variables, or sandbox.conf in the home:\n");
    settings_each(print_setting, NULL);
}

/* "--name value" and "--name=value". */
static int read_flags(struct settings *settings, int argc, char **argv, struct error *reterr) {
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "--version") == 0) {
            if (word[2] == 'h')
                print_help();
            else
                printf("sandboxd %s\n", SANDBOX_VERSION);
            settings->show_only = true;
            return 0;
        }
        size_t length = strcspn(word, "=");
        const struct setting *setting = string_starts(word, "--") ? find(word + 2, length - 2) : NULL;
        if (!setting) return error_set(reterr, E_INVALID, "there is no option '%s'; see sandboxd --help", word);
        const char *value = word[length] == '=' ? word + length + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value) return error_set(reterr, E_INVALID, "%s needs a value", word);
        int result = set(settings, setting, value, reterr);
        if (result < 0) return result;
    }
    return 0;
}

/* The agent lies beside the programs: ../lib/sandbox from where sandboxd is. */
static int find_agent(struct settings *settings, struct error *reterr) {
    char self[PATH_MAX];
    if (settings->agent_dir[0]) return 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return error_errno(reterr, errno, "reading /proc/self/exe");
    self[length] = '\0';
    for (int levels = 0; levels < 3; levels++) {
        char *slash = strrchr(self, '/');
        if (!slash) break;
        *slash = '\0';
        char candidate[PATH_MAX + 64];
        snprintf(candidate, sizeof candidate, "%s/lib/sandbox/ebin", self);
        if (access(candidate, R_OK) == 0)
            return string_format(settings->agent_dir, PATH_MAX, reterr, "%s/lib/sandbox", self);
    }
    return error_set(reterr, E_SYSTEM, "the agent is not installed: no lib/sandbox/ebin beside sandboxd");
}

static uint64_t machine_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

int settings_read(int argc, char **argv, struct settings *ret, struct error *reterr) {
    struct settings settings = {.admin_uid = getuid(), .webhook_events = WEBHOOK_EVENTS};
    engine_config_defaults(&settings.engine);
    quota_rules_init(&settings.quotas, machine_memory_bytes());
    settings.log_max_bytes = LOG_MAX_BYTES;
    int result = read_environment(&settings, reterr);
    if (result == 0) result = read_flags(&settings, argc, argv, reterr);
    if (result == 0 && !settings.show_only && !settings.home[0])
        result = error_set(reterr, E_INVALID, "--home is needed");
    if (result == 0 && !settings.show_only) {
        result = read_file(&settings, reterr); /* the weakest, but its place is known only now: the others once more */
        if (result == 0) result = read_environment(&settings, reterr);
        if (result == 0) result = read_flags(&settings, argc, argv, reterr);
        if (result == 0) result = find_agent(&settings, reterr);
    }
    if (result < 0) return result;
    *ret = settings;
    ret->engine.home = ret->home;
    ret->engine.agent_dir = ret->agent_dir;
    ret->engine.profiles = ret->profiles;
    ret->engine.toolchains = ret->toolchains;
    ret->engine.toolchain = ret->toolchain[0] ? ret->toolchain : NULL;
    ret->engine.webhook = ret->webhook[0] ? ret->webhook : NULL;
    ret->engine.webhook_secret = ret->webhook_secret;
    ret->engine.webhook_events = ret->webhook_events;
    ret->engine.otp = ret->otp[0] ? ret->otp : NULL;
    ret->engine.elixir = ret->elixir[0] ? ret->elixir : NULL;
    return 0;
}
