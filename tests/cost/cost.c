/* The paths that everything takes, a few times each on the same input: check.sh has callgrind count their instructions.
   Times say little on a busy machine; counts are the same every time. usage: cost CORPUS_FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "audit/audit.h"
#include "beam/beam.h"
#include "client/http.h"
#include "jail/jail.h"
#include "ops/table.h"
#include "terms.h"

enum { TIMES = 10, ENTRIES = 50, SAMPLE_MAX_BYTES = 16384 };

struct sample {
    uint8_t data[SAMPLE_MAX_BYTES];
    size_t size;
};

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "cost: %s failed\n", what);
    exit(1);
}

static struct sample read_sample(const char *corpus, const char *name) {
    static struct sample sample;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", corpus, name);
    FILE *file = fopen(path, "re");
    expect(file != NULL, path);
    sample.size = fread(sample.data, 1, sizeof sample.data, file);
    fclose(file);
    return sample;
}

/* ---- the paths ---- */

/* A reply with a map of names and numbers, as `info` has. */
static struct buf make_reply(void) {
    struct buf reply = BUF_INIT;
    term_put_version(&reply);
    term_put_tuple(&reply, 3);
    term_put_atom(&reply, "reply");
    term_put_integer(&reply, 7);
    term_put_map(&reply, ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        char name[16];
        snprintf(name, sizeof name, "entry_%d", i);
        term_put_atom(&reply, name);
        term_put_string(&reply, "what it says");
    }
    return reply;
}

static void decode_term(const char *corpus) {
    CLEANUP(buf_free) struct buf reply = make_reply();
    (void)corpus;
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        struct term_doc *doc = NULL;
        expect(term_decode(reply.data, reply.size, &term_default_bounds, &doc, NULL) == 0, "decoding a term");
        term_free(doc);
    }
    CALLGRIND_TOGGLE_COLLECT;
}

static void print_json(const char *corpus) {
    CLEANUP(buf_free) struct buf reply = make_reply();
    struct term_doc *doc = NULL;
    (void)corpus;
    expect(term_decode(reply.data, reply.size, &term_default_bounds, &doc, NULL) == 0, "decoding a term");
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        bool is_natural;
        json_t *json = term_to_json(term_root(doc), &is_natural);
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        term_json_write(json, &text);
        expect(text.size > 0 && !text.failed, "printing JSON");
        json_decref(json);
    }
    CALLGRIND_TOGGLE_COLLECT;
    term_free(doc);
}

static void validate_beam(const char *corpus) {
    struct sample sample = read_sample(corpus, "beam/fx_kinds");
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        CLEANUP_BEAM struct beam *beam = NULL;
        expect(beam_read(sample.data, sample.size, &beam_default_options, &beam, NULL) == 0, "validating a beam");
    }
    CALLGRIND_TOGGLE_COLLECT;
}

static int take_body(struct http_parser *parser, const uint8_t *bytes, size_t size, struct error *reterr) {
    (void)parser, (void)bytes, (void)size, (void)reterr;
    return 0;
}

static void parse_http(const char *corpus) {
    static const char response[] =
        "HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 2026 06:00:00 GMT\r\n"
        "Content-Type: application/json\r\nX-Request-Id: 9c2f1e\r\nContent-Length: 12\r\n\r\n"
        "{\"result\":3}";
    (void)corpus;
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        CLEANUP(http_parser_free) struct http_parser parser;
        size_t used;
        http_parser_init(&parser, take_body, NULL);
        expect(http_parse(&parser, (const uint8_t *)response, sizeof response - 1, &used, NULL) == 0, "parsing HTTP");
        expect(parser.state == HTTP_DONE, "parsing all of HTTP");
    }
    CALLGRIND_TOGGLE_COLLECT;
}

static void build_plan(const char *corpus) {
    static const struct jail_bind binds[] = {
        {.source = "/usr/lib/erlang", .target = "/usr/lib/erlang", .executable = true},
        {.source = "/home/nodes/n1", .target = "/sandbox/control"},
        {.source = "/store/abc/demo", .target = "/app/demo"},
    };
    static const char *const directories[] = {"/app", NULL}, *const argv[] = {"beam.smp", "--", NULL};
    static const char *const executables[] = {"/usr/lib/erlang/beam.smp", NULL}, *const env[] = {"HOME=/data", NULL};
    const struct jail_profile *profile = jail_profile_find("medium");
    const struct jail_features features = {.guarantees = (1u << JAIL_GUARANTEE_COUNT) - 1};
    const struct jail_request request = {.node = "n1",
                                         .profile = profile,
                                         .limits = profile->limits,
                                         .binds = binds,
                                         .bind_count = ARRAY_SIZE(binds),
                                         .directories = directories,
                                         .executables = executables,
                                         .argv = argv,
                                         .env = env,
                                         .program = executables[0],
                                         .execs = 2};
    (void)corpus;
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        CLEANUP(jail_plan_free) struct jail_plan plan = {0};
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        uint32_t lost;
        expect(jail_plan_build(&request, &features, &plan, &lost, NULL) == 0, "building a plan");
        jail_plan_print(&plan, &text);
    }
    CALLGRIND_TOGGLE_COLLECT;
}

static void check_parameters(const char *corpus) {
    const struct op *op = ops_find("create");
    json_t *params = json_pack("{s:s, s:s, s:s, s:i}", "id", "counter", "source", "/srv/counter", "profile", "high",
                               "processes", 20);
    (void)corpus;
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++) {
        json_t *checked;
        expect(ops_check(op, params, &checked, NULL) == 0, "checking parameters");
        json_decref(checked);
    }
    CALLGRIND_TOGGLE_COLLECT;
    json_decref(params);
}

static void chain_records(const char *corpus) {
    struct audit_chain chain;
    CLEANUP(buf_free) struct buf line = BUF_INIT;
    (void)corpus;
    audit_chain_begin(&chain);
    /* The first hash makes the library look for its algorithms. */
    expect(audit_chain_add(&chain, "\"op\":\"eval\"", &line, NULL) == 0, "chaining a record");
    CALLGRIND_TOGGLE_COLLECT;
    for (int i = 0; i < TIMES; i++)
        expect(audit_chain_add(&chain, "\"op\":\"eval\",\"outcome\":\"ok\",\"sandbox_id\":\"counter\"", &line, NULL) ==
                   0,
               "chaining a record");
    CALLGRIND_TOGGLE_COLLECT;
}

static const struct {
    const char *name;
    void (*run)(const char *corpus);
} paths[] = {
    {"term_decode", decode_term},   {"json_print", print_json}, {"beam_validate", validate_beam},
    {"http_parse", parse_http},     {"plan_build", build_plan}, {"ops_check", check_parameters},
    {"audit_chain", chain_records},
};

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        paths[i].run(argv[1]);
        CALLGRIND_DUMP_STATS_AT(paths[i].name);
    }
    return 0;
}
