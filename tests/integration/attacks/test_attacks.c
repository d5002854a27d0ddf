/* Runs the tables of attacks against real sandboxes. `test_attacks GROUP [NAME…]`, where names
   are patterns of the rows to run, `--markdown`, or `--check FILE`. */
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>

#include "attacks.h"
#include "cases.h"

enum { TABLES_MAX = 7, TESTS_MAX = 128 };

static const struct attack_table *const all_tables[] = {
    &attacks_on_files, &attacks_on_processes, &attacks_on_network, &attacks_on_resources,
    &attacks_on_agent, &attacks_on_channel,   &attacks_on_kernel,  &attacks_on_service,
};

/* The filters of `high` and `medium`, for code that has found a way to run native code. */
static const char native_settings[] = "[profile native-high]\ninherits = high\noperations = +nif\n"
                                      "[profile native-medium]\ninherits = medium\noperations = +nif\n";
static const char *const native_profiles[PROFILES] = {"native-high", "native-medium", "low"};

/* A silenced agent is found soon. At length, when many VMs boot at once, those that are merely starved answer later. */
static const char impatient[] = "heartbeat = 100ms\nheartbeat-deadline = 2500ms\n";
static const char patient[] = "heartbeat = 100ms\nheartbeat-deadline = 8s\n";

/* One service each, so that they run side by side. */
static const struct group {
    const char *name;
    const char *settings;
    unsigned where, small;
    const struct attack_table *tables[TABLES_MAX];
    bool compiles;               /* and every table's rows while compiling */
    const char *const *profiles; /* of the sandboxes in place of those that they are called by; NULL: those */
} groups[] = {
    {"outside",
     NULL,
     EVERY,
     HIGH | MEDIUM,
     {&attacks_on_service, &attacks_on_files, &attacks_on_network, &attacks_on_processes, &attacks_on_channel,
      &attacks_on_resources},
     false,
     NULL},
    {"agent", impatient, EVERY, HIGH, {&attacks_on_agent}, true, NULL},
    {"kernel", native_settings, EVERY, HIGH | MEDIUM, {&attacks_on_kernel}, false, native_profiles},
};

/* What one cmocka test is about. */
struct subject {
    struct scene **scene;
    const struct attack *attack;
};

static void *run_trial(void *data) {
    trial_run(data);
    return NULL;
}

/* Whether the sandbox has to be started again first. What only ends it can do so in the state that others left. */
static bool renew(struct scene *scene, const struct attack *attack, int profile) {
    enum sandbox_state *state = &scene->sandboxes[profile];
    bool is_needed = *state == ENDED || (*state == SPENT && attack->fate == LIVES);
    *state = attack->fate == DIES ? ENDED : attack->spends ? SPENT : FRESH;
    return is_needed;
}

/* What ends its VM costs another one: at one profile, each row's in turn, and at all of them by `make stress`. */
static unsigned profiles_of(const struct attack *attack) {
    unsigned all = attack->where & EVERY, turn = 0;
    if (!all || attack->fate == LIVES || getenv("ATTACKS_AT_LENGTH")) return all;
    if (attack->fills) return all & -all; /* the first has the least memory */
    for (const char *at = attack->name; *at; at++) turn += (unsigned char)*at;
    while (!(all & 1u << turn % PROFILES)) turn++;
    return 1u << turn % PROFILES;
}

static void start_trials(struct scene *scene, const struct attack *attack, unsigned profiles, struct trial *trials,
                         pthread_t *threads) {
    uint64_t since = world_now(scene->world);
    for (int i = 0; i < PROFILES; i++) {
        if (!(profiles & 1u << i)) continue;
        trials[i] = (struct trial){.scene = scene, .attack = attack, .id = profile_names[i], .since = since};
        trials[i].restart = renew(scene, attack, i);
        assert_int_equal(pthread_create(&threads[i], NULL, run_trial, &trials[i]), 0);
    }
}

/* At its profiles at once. */
static void run_rows(struct scene *scene, const struct attack *attack) {
    struct trial trials[PROFILES] = {0};
    pthread_t threads[PROFILES];
    struct buf failures = BUF_INIT;
    unsigned profiles = profiles_of(attack);
    start_trials(scene, attack, profiles, trials, threads);
    for (int i = 0; i < PROFILES; i++) {
        if (profiles & 1u << i) pthread_join(threads[i], NULL);
        if (!trials[i].failure) continue;
        scene->sandboxes[i] = ENDED;
        buf_printf(&failures, "%s: %s\n", profile_names[i], trials[i].failure);
        free(trials[i].failure);
    }
    fail_with(&failures);
}

static void run_attack(void **state) {
    struct subject *subject = *state;
    struct scene *scene = *subject->scene;
    uint64_t begin_ms = clock_monotonic_ms();
    if (subject->attack->run) {
        CLEANUP_FREE char *failure = subject->attack->run(scene);
        if (failure) fail_msg("%s", failure);
    } else {
        run_rows(scene, subject->attack);
    }
    scene_check(scene);
    print_message("             %d ms\n", (int)(clock_monotonic_ms() - begin_ms));
}

/* ---- a group ---- */

static struct {
    const struct group *group;
    char *const *names; /* of the rows to run; ends with NULL, all when it is empty */
    struct scene *scene;
} stage; /* cmocka hands a group's set-up nothing of ours */

static int open_scene(void **state) {
    (void)state;
    const char *settings = stage.group->settings;
    if (settings == impatient && getenv("ATTACKS_AT_LENGTH")) settings = patient;
    stage.scene = scene_open(settings, stage.group->where, stage.group->small, stage.group->profiles);
    return 0;
}

static int close_scene(void **state) {
    (void)state;
    scene_close(stage.scene);
    return 0;
}

static void run_compilers(void **state) {
    (void)state;
    attack_compilers(stage.scene, all_tables, ARRAY_SIZE(all_tables));
    scene_check(stage.scene);
}

static bool is_wanted(const char *name) {
    for (char *const *pattern = stage.names; *pattern; pattern++)
        if (fnmatch(*pattern, name, 0) == 0) return true;
    return !*stage.names;
}

/* Rows that are named are run. */
static bool is_left(const struct attack *attack) {
    return attack->is_long && !*stage.names && !tests_at_length() && !getenv("ATTACKS_AT_LENGTH");
}

static int run_group(const struct group *group, char *const *names) {
    struct CMUnitTest tests[TESTS_MAX];
    struct subject subjects[TESTS_MAX];
    size_t count = 0;
    stage.group = group;
    stage.names = names;
    for (size_t i = 0; i < TABLES_MAX && group->tables[i]; i++)
        for (size_t row = 0; row < group->tables[i]->count && count < TESTS_MAX; row++) {
            const struct attack *attack = &group->tables[i]->rows[row];
            if (!is_wanted(attack->name)) continue;
            if (is_left(attack)) {
                cases_leave(1);
                continue;
            }
            subjects[count] = (struct subject){&stage.scene, attack};
            tests[count] =
                (struct CMUnitTest){.name = attack->name, .test_func = run_attack, .initial_state = &subjects[count]};
            count++;
        }
    if (group->compiles && is_wanted("compile_time"))
        tests[count++] = (struct CMUnitTest){.name = "compile_time", .test_func = run_compilers};
    if (count == 0) {
        fprintf(stderr, "no attack has such a name\n");
        return 2;
    }
    return cases_run_chosen(group->name, tests, count, open_scene, close_scene);
}

/* ---- the table for people ---- */

static int check_markdown(const char *path) {
    char *made = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&made, &size);
    if (!file) return 1;
    print_attacks(file, all_tables, ARRAY_SIZE(all_tables));
    fclose(file);
    CLEANUP_FREE char *kept = read_whole(path);
    bool same = kept && strcmp(kept, made) == 0;
    if (!same) fprintf(stderr, "%s is not what test_attacks --markdown prints\n", path);
    free(made);
    return same ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--check") == 0) return check_markdown(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0) {
        print_attacks(stdout, all_tables, ARRAY_SIZE(all_tables));
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < ARRAY_SIZE(groups); i++)
        if (strcmp(argv[1], groups[i].name) == 0) return run_group(&groups[i], argv + 2);
    fprintf(stderr, "usage: test_attacks GROUP [NAME…] | --markdown | --check FILE\n");
    return 2;
}
