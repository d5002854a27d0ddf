/* The same attacks by code that runs while its project is compiled: an Elixir macro, an Erlang parse transform. */
#include "attacks.h"
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    ROWS_MAX = 48,
    JOBS_MAX = 48,
    AT_ONCE = 4, /* more would keep each other from answering in time */
    STARVED_MAX = 3,
};

/* A project in one of the languages, whose compiling runs some rows' code and keeps what came back as results:all(). */
struct language {
    const char *name;
    unsigned where;
    const char *fixed_file, *fixed_text;
    const char *results_file, *results_head, *results_foot;
    const char *first, *next; /* before each code, as a string of the language */
    const char *last;         /* after it */
    const char *results;      /* Erlang that reads them */
};

static const struct language languages[] = {
    {.name = "macro",
     .where = MACRO,
     .fixed_file = "mix.exs",
     .fixed_text = "defmodule Victim.MixProject do\n"
                   "  use Mix.Project\n"
                   "  def project, do: [app: :victim, version: \"1.0.0\", deps: []]\n"
                   "  def application, do: [mod: {:victim_app, []}]\n"
                   "end\n",
     .results_file = "lib/results.ex",
     .results_head = "defmodule Macros do\n"
                     "  defmacro attack(code) do\n"
                     "    {:ok, tokens, _} = :erl_scan.string(String.to_charlist(code <> \".\"))\n"
                     "    {:ok, expressions} = :erl_parse.parse_exprs(tokens)\n"
                     "    {:value, value, _} = :erl_eval.exprs(expressions, [])\n"
                     "    IO.chardata_to_string(:io_lib.format(\"~0tp\", [value]))\n"
                     "  end\n"
                     "end\n"
                     "defmodule Results do\n"
                     "  require Macros\n"
                     "  def all do\n"
                     "    [\n",
     .results_foot = "    ]\n  end\nend\n",
     .first = "      Macros.attack(\"",
     .next = "\"),\n      Macros.attack(\"",
     .last = "\")\n",
     .results = "'Elixir.Results':all()"},
    {.name = "transform",
     .where = TRANSFORM,
     .fixed_file = "src/attack_transform.erl",
     .fixed_text = "-module(attack_transform).\n"
                   "-export([parse_transform/2]).\n"
                   "parse_transform(Forms, _Options) -> [form(Form) || Form <- Forms].\n"
                   "form({function, At, all, 0, [{clause, At, [], [], [Codes]}]}) ->\n"
                   "    Results = [result(Code) || Code <- erl_parse:normalise(Codes)],\n"
                   "    {function, At, all, 0, [{clause, At, [], [], [erl_parse:abstract(Results)]}]};\n"
                   "form(Form) -> Form.\n"
                   "result(Code) ->\n"
                   "    {ok, Tokens, _} = erl_scan:string(Code ++ \".\"),\n"
                   "    {ok, Expressions} = erl_parse:parse_exprs(Tokens),\n"
                   "    {value, Value, _} = erl_eval:exprs(Expressions, []),\n"
                   "    lists:flatten(io_lib:format(\"~0tp\", [Value])).\n",
     .results_file = "src/results.erl",
     .results_head = "-module(results).\n"
                     "-compile({parse_transform, attack_transform}).\n"
                     "-behaviour(attack).\n" /* so that they are compiled before */
                     "-behaviour(attack_vm).\n"
                     "-export([all/0]).\n"
                     "all() -> [\n",
     .results_foot = "].\n",
     .first = "    \"",
     .next = "\",\n    \"",
     .last = "\"\n",
     .results = "[unicode:characters_to_binary(Text) || Text <- results:all()]"},
};

struct job {
    struct scene *scene;
    const struct language *language;
    const struct attack *rows[ROWS_MAX];
    size_t count;
    char id[64];
    const char *project;
    uint64_t since;
    char *failure;
};

/* ---- the projects ---- */

/* As a string of either language: Elixir would interpolate a #. */
static void put_code(struct buf *text, const struct scene *scene, const char *code) {
    CLEANUP_FREE char *expanded = scene_expand(scene, code);
    for (const char *at = expanded; *at; at++) {
        if (strchr("\"\\#", *at)) buf_append_byte(text, '\\');
        buf_append_byte(text, (uint8_t)*at);
    }
}

static void write_project(struct job *job) {
    const struct language *language = job->language;
    char name[128];
    struct buf text = BUF_INIT;
    job->project =
        strdup(job->rows[0]->fate == LIVES ? scene_project(job->scene, job->id) : scene_weapon(job->scene, job->id));
    snprintf(name, sizeof name, "%s/%s", job->id, language->fixed_file);
    world_file(job->scene->world, name, language->fixed_text);
    buf_append_string(&text, language->results_head);
    for (size_t i = 0; i < job->count; i++) {
        buf_append_string(&text, i == 0 ? language->first : language->next);
        put_code(&text, job->scene, job->rows[i]->code);
    }
    buf_append_string(&text, language->last);
    buf_append_string(&text, language->results_foot);
    snprintf(name, sizeof name, "%s/%s", job->id, language->results_file);
    world_file(job->scene->world, name, buf_string(&text));
    buf_free(&text);
}

/* ---- what comes of them ---- */

static char *check_row(const struct job *job, const struct attack *attack, const char *answer) {
    struct trial trial = {.scene = job->scene, .attack = attack, .id = job->id, .since = job->since};
    if (attack->answers && (!answer || !answer_fits(answer, attack->answers)))
        return string_print("%s: it got %s, not %s", attack->name, answer, attack->answers);
    char *missing = trial_check_seen(&trial);
    char *failure = missing ? string_print("%s: %s", attack->name, missing) : NULL;
    free(missing);
    return failure;
}

/* The project compiles, and says what its attacks got. */
static void check_results(struct job *job) {
    CLEANUP_FREE char *answer = NULL;
    struct sbx_error error;
    const char *options = "{\"language\": \"erlang\"}";
    if (sbx_eval(world_client(job->scene->world), job->id, job->language->results, options, &answer, &error) < 0) {
        job->failure = string_print("reading the results: %s", error.detail);
        sbx_error_clear(&error);
        return;
    }
    json_t *whole = json_loads(answer, 0, NULL);
    json_t *results = json_object_get(whole, "result");
    if (json_array_size(results) != job->count) job->failure = string_print("these are not the results: %s", answer);
    for (size_t i = 0; i < job->count && !job->failure; i++)
        job->failure = check_row(job, job->rows[i], json_string_value(json_array_get(results, i)));
    json_decref(whole);
}

/* Whether the problem's detail tells the cause, after words of the compiler's. */
static bool tells(const char *detail, const char *cause) {
    for (const char *at = detail; *at; at++)
        if (answer_fits(at, cause)) return true;
    return false;
}

/* Its compiler ends, and leaves no sandbox. */
static void check_end(struct job *job, const struct sbx_error *error) {
    const struct attack *attack = job->rows[0];
    const char *cause = attack->cause ? attack->cause : "the VM ended";
    struct sbx_error missing;
    bool is_violation = attack->seen_kind && strcmp(attack->seen_kind, "violation") == 0;
    /* Of what ends a node, that which is noticed first. Its memory is told with what gives a compilation more. */
    bool is_memory = strstr(cause, "used more memory") && strstr(error->detail, " took more memory than its ");
    if (!is_memory && !tells(error->detail, cause) &&
        !tells(error->detail, "the node closed its control channel|the agent has not answered for"))
        job->failure = string_print("%s: %s, not %s", attack->name, error->detail, cause);
    else if (sbx_info(world_client(job->scene->world), job->id, NULL, &missing) == 0)
        job->failure = string_print("%s: a sandbox is left", attack->name);
    else
        sbx_error_clear(&missing);
    CLEANUP_FREE char *unseen = !job->failure && is_violation ? check_row(job, attack, "") : NULL;
    if (unseen) job->failure = string_print("%s; %s", unseen, error->detail);
}

static int create(const struct job *job, struct sbx_error *reterr) {
    return sbx_create(world_client(job->scene->world), job->id, job->project, "{\"profile\": \"high\"}", NULL, reterr);
}

static void run_job(struct job *job) {
    struct sbx_error error;
    bool dies = job->rows[0]->fate == DIES;
    int result = create(job, &error);
    /* A busy machine may starve a compiler for as long as an agent may be silent here. */
    for (int i = 0; result < 0 && !dies && i < STARVED_MAX && tells(error.detail, "the agent has not answered for");
         i++) {
        sbx_error_clear(&error);
        result = create(job, &error);
    }
    if (result == 0 && dies)
        job->failure = string_print("%s: it compiled", job->rows[0]->name);
    else if (result == 0)
        check_results(job);
    else if (dies)
        check_end(job, &error);
    else
        job->failure = string_print("%s: %s", error.code, error.json);
    if (result < 0) sbx_error_clear(&error);
}

/* ---- all of them ---- */

static struct job *add_job(struct job *jobs, size_t *count, struct scene *scene, size_t language, const char *name) {
    assert_true(*count < JOBS_MAX);
    struct job *job = &jobs[(*count)++];
    *job = (struct job){.scene = scene, .language = &languages[language], .since = world_now(scene->world)};
    snprintf(job->id, sizeof job->id, "%s-%s", languages[language].name, name);
    return job;
}

/* What ends a compiler takes one of its own. */
static bool is_left(const struct attack *attack, unsigned at_length) {
    bool left = attack->fate == DIES && !at_length && !tests_at_length();
    if (left) cases_leave(1);
    return left;
}

/* In each language, what lives goes into one project, and what dies takes one each. */
static size_t plan_jobs(struct scene *scene, const struct attack_table *const *tables, size_t count, struct job *jobs) {
    size_t jobs_count = 0;
    unsigned at_length = getenv("ATTACKS_AT_LENGTH") ? AT_LENGTH : 0;
    size_t languages_count = at_length ? ARRAY_SIZE(languages) : 1; /* transforms run in the same place as macros */
    for (size_t i = 0; i < languages_count; i++) add_job(jobs, &jobs_count, scene, i, "all");
    for (size_t i = 0; i < count; i++)
        for (size_t row = 0; row < tables[i]->count; row++) {
            const struct attack *attack = &tables[i]->rows[row];
            for (size_t l = 0; l < languages_count; l++) {
                if (!(attack->where & (languages[l].where | at_length)) || is_left(attack, at_length)) continue;
                struct job *job = attack->fate == LIVES ? &jobs[l] : add_job(jobs, &jobs_count, scene, l, attack->name);
                job->rows[job->count++] = attack;
            }
        }
    return jobs_count;
}

struct plan {
    struct job jobs[JOBS_MAX];
    size_t count;
    atomic_size_t next;
};

static void *run_jobs(void *data) {
    struct plan *plan = data;
    for (size_t i = atomic_fetch_add(&plan->next, 1); i < plan->count; i = atomic_fetch_add(&plan->next, 1))
        run_job(&plan->jobs[i]);
    return NULL;
}

static void run_plan(struct plan *plan) {
    pthread_t threads[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_jobs, plan), 0);
    for (size_t i = 0; i < AT_ONCE; i++) pthread_join(threads[i], NULL);
}

void attack_compilers(struct scene *scene, const struct attack_table *const *tables, size_t count) {
    static struct plan plan;
    struct buf failures = BUF_INIT;
    plan.count = plan_jobs(scene, tables, count, plan.jobs);
    for (size_t i = 0; i < plan.count; i++) write_project(&plan.jobs[i]);
    run_plan(&plan);
    for (size_t i = 0; i < plan.count; i++) {
        struct job *job = &plan.jobs[i];
        if (job->failure) buf_printf(&failures, "%s: %s\n", job->language->name, job->failure);
        free(job->failure);
        free((char *)(uintptr_t)job->project);
    }
    fail_with(&failures);
}
