/* `sandbox demo`: a service in a home of its own, the steps one after another, and the clean-up after them. */
#include <errno.h>
#include <ftw.h>
#include <string.h>

#include "cli/demo/demo_internal.h"

enum { STEP_TIMEOUT_MS = 60000, OPEN_DIRECTORIES_MAX = 16 };

/* ---- what the story needs ---- */

/* Beside an installation, or in the source tree that the build directory is in. */
static int find_examples(char ret[PATH_MAX], struct error *reterr) {
    static const char *const places[] = {"../share/sandbox/examples", "../../examples"};
    const char *chosen = getenv("SANDBOX_EXAMPLES");
    if (chosen && realpath(chosen, ret)) return 0;
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) return error_errno(reterr, errno, "reading /proc/self/exe");
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char path[PATH_MAX];
        if (string_format(path, sizeof path, NULL, "%s/%s", program, places[i]) == 0 && realpath(path, ret)) return 0;
    }
    return error_set(reterr, E_NOT_FOUND, "the examples are not installed; SANDBOX_EXAMPLES can name them");
}

static int make_home(struct demo *demo, struct error *reterr) {
    const char *place = getenv("TMPDIR");
    int result = string_format(demo->home, sizeof demo->home, reterr, "%s/sandbox-demo-XXXXXX", place ? place : "/tmp");
    if (result < 0) return result;
    if (!mkdtemp(demo->home)) return error_errno(reterr, errno, "making %s", demo->home);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    remove(path);
    return 0;
}

/* However the story ended, its service must not stay. */
static void clean_up(struct demo *demo) {
    if (demo->sbx) {
        CLEANUP(client_watch_close) struct client_watch watch;
        client_watch_open(demo->home, &watch);
        if (sbx_op(demo->sbx, "shutdown", NULL, NULL, NULL) == 0) client_watch_wait(&watch, STEP_TIMEOUT_MS);
    }
    sbx_close(demo->sbx);
    nftw(demo->home, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- telling it ---- */

static void print_title(const struct cli *cli, size_t number, const struct demo_step *step) {
    printf("%s%2zu. %s%s\n", style_code(cli->out_colour, STYLE_BOLD), number, step->title,
           style_code(cli->out_colour, STYLE_PLAIN));
    if (step->command)
        printf("    %s$ %s%s\n", style_code(cli->out_colour, STYLE_DIM), step->command,
               style_code(cli->out_colour, STYLE_PLAIN));
    fflush(stdout);
}

static void print_outcome(const struct cli *cli, int result, const char *shown, double took_ms) {
    printf("    %s%s%s %s  %s%.1f ms%s\n", style_code(cli->out_colour, result < 0 ? STYLE_RED : STYLE_GREEN),
           result < 0 ? "✗" : "✓", style_code(cli->out_colour, STYLE_PLAIN), shown,
           style_code(cli->out_colour, STYLE_DIM), took_ms, style_code(cli->out_colour, STYLE_PLAIN));
    fflush(stdout);
}

static int tell_step(struct demo *demo, size_t number, const struct demo_step *step, json_t *told,
                     struct error *reterr) {
    struct cli *cli = demo->cli;
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    if (!cli->json) print_title(cli, number, step);
    uint64_t started_us = clock_monotonic_us();
    int result = step->run(demo, &shown, reterr);
    uint64_t took_us = clock_monotonic_us() - started_us;
    if (result < 0) buf_clear(&shown);
    if (result < 0) text_clean(&shown, reterr->detail, strlen(reterr->detail));
    if (!cli->json) print_outcome(cli, result, buf_string(&shown), (double)took_us / 1000);
    json_array_append_new(told, json_pack("{s:s, s:b, s:s, s:I}", "step", step->title, "ok", result == 0, "detail",
                                          buf_string(&shown), "duration_us", (json_int_t)took_us));
    return result;
}

static int tell(struct demo *demo, json_t *told, struct error *reterr) {
    size_t count;
    const struct demo_step *steps = demo_steps(&count);
    for (size_t i = 0; i < count; i++) {
        int result = tell_step(demo, i + 1, &steps[i], told, reterr);
        if (result < 0) return error_prefix(reterr, "step %zu", i + 1);
    }
    /* The last step ended the service. */
    sbx_close(demo->sbx);
    demo->sbx = NULL;
    return 0;
}

int verb_demo(struct cli *cli, const struct op *op, struct arguments *arguments) {
    (void)op, (void)arguments;
    struct demo demo = {.cli = cli};
    struct error error;
    if (!cli->timeout_ms) cli->timeout_ms = STEP_TIMEOUT_MS;
    if (find_examples(demo.examples, &error) < 0 || make_home(&demo, &error) < 0) return fail_local(cli, &error);
    CLEANUP_JSON json_t *told = json_array();
    uint64_t started_ms = clock_monotonic_ms();
    int result = tell(&demo, told, &error);
    uint64_t took_ms = clock_monotonic_ms() - started_ms;
    clean_up(&demo);
    if (cli->json) view_json(stdout, told);
    if (result < 0) return cli->json ? 1 : fail_local(cli, &error);
    if (!cli->json) printf("\nAll of it in %.1f s.\n", (double)took_ms / 1000);
    return 0;
}
