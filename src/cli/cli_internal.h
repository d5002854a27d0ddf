/* cli: the `sandbox` command, made from the operation table and built on libsandbox. Between its files. */
#ifndef CLI_CLI_INTERNAL_H
#define CLI_CLI_INTERNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "ops/table.h"
#include "sandbox.h"

enum { EXIT_INTERRUPTED = 130 };

static inline void cleanup_json(json_t **json) {
    json_decref(*json);
}
#define CLEANUP_JSON CLEANUP(cleanup_json)

struct cli {
    const char *home; /* NULL: the default */
    uint32_t timeout_ms;
    bool json;
    bool no_autostart;
    bool wants_help;
    bool out_colour;
    bool err_colour;
    bool err_is_terminal;
    const char *source; /* the project that the command is about, whose lines diagnostics show; NULL: none */
    const char *code;   /* or its text itself */
    int cancel_fd;      /* -1, or what ends calls under way */
    struct sbx *sbx;    /* NULL until the first call */
};

/* ---- args.c: words to parameters, as the operation's row says ---- */

struct arguments {
    json_t *params; /* checked values; without the repeated parameter */
    json_t *rest;   /* the values of the repeated parameter, or NULL */
};

void arguments_free(struct arguments *arguments);
int args_parse(struct cli *cli, const struct op *op, int count, char **words, struct arguments *ret,
               struct error *reterr);
/* A flag that every command has: how many words it took, 0 when it is none of them, negative on failure. */
int args_take_global(struct cli *cli, int count, char **words, struct error *reterr);
/* The file need not exist: the service says so better. */
int args_absolute_path(const char *path, char ret[PATH_MAX], struct error *reterr);
/* "--max-run" for max_run_ms; the name is without the dashes. */
void args_flag_name(const struct op_param *param, char *ret, size_t size);
/* What stands for a bare word: "SOURCE", or the words that it may be: "on|off|status". */
void args_placeholder(const struct op_param *param, char *ret, size_t size);

/* ---- given_files.c: files that options name ---- */

/* All of a file or a pipe, such as `<(pass show shop)`. E_INVALID: it has more; the name is for errors. */
int given_text_read(int fd, const char *name, size_t max_bytes, struct buf *ret, struct error *reterr);
int given_file_read(const char *path, json_t **ret, struct error *reterr);
/* Lines NAME=VALUE into an object of text. E_INVALID names the line. */
int given_variables_read(const char *path, const char *text, json_t *ret, struct error *reterr);
/* The variables of --env-file become part of `env`. */
int given_files_merge(const struct op *op, json_t *params, struct error *reterr);

/* ---- usage.c: help made from the table ---- */

enum { USAGE_BYTES = 2048 };
/* "sandbox eval ID EXPR [--lang elixir|erlang]…"; where there are more flags, how to see them. */
void usage_line(const struct op *op, size_t flags_max, char ret[USAGE_BYTES]);
void usage_print_op(FILE *out, const struct op *op);
void usage_print_all(FILE *out);
/* The known word nearest to a mistyped one, or NULL when none is near. */
const char *usage_nearest(const char *word, const char *const *known, size_t count);

/* ---- failure.c: how a failure is told; the result is the exit code ---- */

int fail_usage(const struct cli *cli, const struct op *op, const struct error *error);
int fail_local(const struct cli *cli, const struct error *error);
int fail_call(const struct cli *cli, struct sbx_error *error); /* clears it */
/* The same, with what was printed before the failure going there instead of to stderr. */
int fail_after_output(const struct cli *cli, struct sbx_error *error, FILE *to);

/* ---- diagnostics.c: what compilers say, with the line it is about ---- */

enum severity { SEVERITY_WARNING, SEVERITY_ERROR };
/* On stderr; of many, the first ones. */
void diagnostics_print(const struct cli *cli, enum severity severity, json_t *list);
/* How many there were of a kind, "warnings" or "errors": with those that the report leaves out. */
size_t diagnostics_of(const json_t *report, const char *kind);
/* "2 errors and 1 warning" */
void diagnostics_count(size_t errors, size_t warnings, struct buf *buf);

/* ---- states_lines.c: which states of processes a restart kept, on stderr ---- */

void states_lines(const struct cli *cli, json_t *states);

/* ---- ports_lines.c: where the ports of a sandbox are reached, and what it reaches itself, on stderr; nothing where
   there are none ---- */

void ports_lines(const struct cli *cli, json_t *sandbox);
/* Each published port in a word, for a table: member `ports` of each row. False: there are none. */
bool ports_words(json_t *list);

/* ---- watch_line.c: what became of a save, on stderr ---- */

void watch_line(const struct cli *cli, json_t *event);
/* What a reload warns of, in its own words, each on a line. */
void reload_warnings_print(const struct cli *cli, json_t *warnings);

/* ---- source_line.c ---- */

/* One line as text, without its end: the first is 1. False when there is none. */
bool source_line(const struct cli *cli, const char *file, size_t line, struct buf *ret);

/* ---- session.c: calls ---- */

int session_open(struct cli *cli, enum op_start start, struct sbx_error *reterr);
void session_close(struct cli *cli);
/* Run an operation; *ret is its answer. The failure is the caller's to tell. */
int session_call(struct cli *cli, const struct op *op, const json_t *params, json_t **ret, struct sbx_error *reterr);
/* Each item of a stream; non-zero ends it. */
typedef int item_fn(struct cli *cli, json_t *item, void *data);
int session_stream(struct cli *cli, const struct op *op, const json_t *params, item_fn *on_item, void *data,
                   json_t **ret, struct sbx_error *reterr);

/* ---- progress.c: a line on the terminal while work takes long ---- */

struct progress;
struct progress *progress_start(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct progress *progress_stop(struct progress *progress); /* accepts and returns NULL */

/* ---- text.c: text for people ---- */

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW };
const char *style_code(bool colour, enum style style); /* "" without colour; STYLE_PLAIN ends a style */

/* Text from a sandbox, harmless on a terminal: controls but newline and tab are written as escapes. */
void text_clean(struct buf *buf, const char *text, size_t size);
void text_print(FILE *out, const char *text);
/* The same for what is one line or a part of one, such as the name of a file: a newline in it does not end the line. */
void text_clean_line(struct buf *buf, const char *text, size_t size);
void text_print_line(FILE *out, const char *text);
size_t text_width(const char *text); /* columns on a terminal */
/* A member of an answer: its text, or what to show instead; its number, 0 where it is none or negative. */
const char *text_of(const json_t *object, const char *name, const char *otherwise);
size_t number_of(const json_t *object, const char *name);

void format_duration_ms(int64_t duration_ms, struct buf *buf); /* "250 ms", "5 s", "2 h 3 min" */
/* A value as people read it; its key's unit (…_bytes, …_ms, …_percent) says how. */
void format_value(const char *key, const json_t *value, struct buf *buf);

/* ---- columns.c: aligned tables ---- */

struct column {
    const char *heading;
    const char *path; /* "usage.memory_bytes" */
    bool right;
};

json_t *json_at(json_t *object, const char *path);
void columns_print(FILE *out, bool colour, const struct column *columns, size_t count, json_t *rows);

/* ---- view.c: any answer ---- */

void view_json(FILE *out, const json_t *value);
void view_object(FILE *out, bool colour, json_t *object);
void view_list(FILE *out, bool colour, json_t *list);
bool view_skipped(FILE *out, json_t *record); /* true: it was no record, but how many there are not */
void view_log_record(FILE *out, bool colour, json_t *record);

/* ---- probe.c: what the machine can enforce, without a service ---- */

/* Ask the launcher's --probe; in the shape in which the service answers `doctor`. */
int probe_run(json_t **ret, struct error *reterr);
json_t *probe_read(char *text); /* what it printed; the text is taken apart */

/* ---- run_input.c ---- */

/* Puts the text of a script, or of the standard input for "-", in place of the source. E_INVALID: what the service
   would refuse only after compiling. */
int run_take_script(json_t *params, struct error *reterr);
/* Whether it is a file whose first line names escript. */
bool run_is_escript(const char *source);
/* Sends the standard input to the run on a thread, until it or the program ends. */
void run_send_input(const struct cli *cli, const char *id);

/* ---- verbs ---- */

/* The command of one operation. What it returns is the exit code. */
typedef int verb_fn(struct cli *cli, const struct op *op, struct arguments *arguments);

verb_fn verb_any, verb_create, verb_list, verb_restart, verb_each, verb_freeze;   /* verbs_sandbox.c */
verb_fn verb_publish;                                                             /* verbs_sandbox.c */
verb_fn verb_compile, verb_validate, verb_deps;                                   /* verbs_compile.c */
verb_fn verb_reload, verb_versions, verb_export;                                  /* verbs_code.c */
verb_fn verb_watch;                                                               /* verbs_watch.c */
verb_fn verb_eval, verb_run, verb_mix, verb_events, verb_logs;                    /* verbs_stream.c */
verb_fn verb_doctor, verb_profiles, verb_shutdown, verb_toolchains, verb_version; /* verbs_service.c */
verb_fn verb_reload_config, verb_volumes;                                         /* verbs_service.c */
verb_fn verb_quotas;                                                              /* verbs_quotas.c */
verb_fn verb_audit;                                                               /* verbs_audit.c */
verb_fn verb_scan;                                                                /* verbs_scan.c */
verb_fn verb_ops;                                                                 /* verbs_ops.c */
verb_fn verb_stats, verb_top, verb_limits;                                        /* verbs_usage.c */
verb_fn verb_demo;                                                                /* demo.c */

/* A command that is no operation. */
typedef int command_fn(struct cli *cli, int count, char **words);
bool cp_name_is_safe(const char *name);                  /* of an entry that a sandbox tells */
command_fn command_cp;                                   /* verbs_cp.c */
command_fn command_help, command_op, command_completion; /* verbs_ops.c, completion.c */

struct command {
    const char *name;
    const char *usage;
    const char *summary;
    command_fn *run;
};

const struct command *commands_table(size_t *ret_count);
const struct command *commands_find(const char *name);

void completion_print(FILE *out);

/* All of it: the exit code. */
int cli_main(int count, char **words);

#endif
