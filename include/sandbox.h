/* libsandbox: run Erlang/OTP applications in jails that the kernel enforces.

   The library is a client of the service over its unix socket; a crash on either side stays there. Every call is
   synchronous and safe from any thread; a forked child opens its own. Parameters and answers are JSON text, as the HTTP
   API has them:

       struct sbx *sandboxes;
       struct sbx_error error;
       if (sbx_open(NULL, &sandboxes, &error) == 0) {
           char *json;
           if (sbx_create(sandboxes, "counter", "/srv/counter", "{\"profile\": \"high\"}", &json, &error) == 0)
               free(json);
           sbx_close(sandboxes);
       }

   Calls return 0, or -1 and fill *reterr, which may be NULL; sbx_error_clear frees what it holds. Answers come in
   `ret_` parameters, are freed with free(), may be NULL for a caller that does not want them, and stay untouched on
   failure. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SBX_API __attribute__((visibility("default")))

struct sbx; /* a home whose service is spoken to */

struct sbx_error {
    char code[32];     /* "not_found", "compile_failed", …: the slug of the problem */
    char category[16]; /* compilation, runtime, resource, security, system */
    char recovery[16]; /* retry, rollback, restart, isolate, terminate, fix_input */
    int status;        /* as in HTTP */
    int exit_code;     /* what the command line exits with: 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused,
                          6 no service */
    char detail[1024]; /* what happened, for people */
    char *json;        /* the whole problem object (RFC 9457), with `result` where there is one; NULL without memory */
};

SBX_API void sbx_error_clear(struct sbx_error *error);

enum sbx_flags {
    SBX_NO_AUTOSTART = 1 << 0, /* fail with no_daemon instead of starting the service */
};

struct sbx_options {
    size_t size;      /* sizeof(struct sbx_options): lets it grow */
    const char *home; /* NULL: $SANDBOX_HOME, else /var/lib/sandbox for root and the XDG state directory for others */
    unsigned flags;   /* of enum sbx_flags */
    uint32_t timeout_ms; /* for each call; 0: none for streams, for others longer than the service's own deadlines */
    int cancel_fd;       /* when this becomes readable, calls under way fail and streams end; -1: none */
};

#define SBX_OPTIONS_INIT                                                                                               \
    { sizeof(struct sbx_options), NULL, 0, 0, -1 }

/* Connect to the service of a home (NULL: the default one), starting it when there is none. */
SBX_API int sbx_open(const char *home, struct sbx **ret, struct sbx_error *reterr);
SBX_API int sbx_open_with(const struct sbx_options *options, struct sbx **ret, struct sbx_error *reterr);
SBX_API void sbx_close(struct sbx *sandboxes); /* NULL is fine; no call may be under way */

/* The home's path, valid until sbx_close. */
SBX_API const char *sbx_home(const struct sbx *sandboxes);

/* Compile what is at source (an absolute path), jail it and start it. Options is a JSON object with the operation's
   other parameters, or NULL. Answers the sandbox. */
SBX_API int sbx_create(struct sbx *sandboxes, const char *id, const char *source, const char *options_json,
                       char **ret_json, struct sbx_error *reterr);
SBX_API int sbx_destroy(struct sbx *sandboxes, const char *id, struct sbx_error *reterr);
/* In a new VM, with the states of its processes unless it is to be fresh. Answers the sandbox with `states`: how many
   were `kept`, which were `lost` and why, and why it is `fresh` where none was kept. */
SBX_API int sbx_restart(struct sbx *sandboxes, const char *id, bool fresh, char **ret_json, struct sbx_error *reterr);
SBX_API int sbx_info(struct sbx *sandboxes, const char *id, char **ret_json, struct sbx_error *reterr);
SBX_API int sbx_list(struct sbx *sandboxes, char **ret_json, struct sbx_error *reterr); /* an array */

/* Evaluate an expression inside a sandbox; options may hold `language` and `timeout_ms`. Answers `result`, `text` and
   `duration_us`. */
SBX_API int sbx_eval(struct sbx *sandboxes, const char *id, const char *code, const char *options_json, char **ret_json,
                     struct sbx_error *reterr);

/* Compile what is at path (absolute) without a sandbox, or with path NULL the `code` in the options, which goes by the
   name `file`. Answers the compilation: status, beam_files, warnings and so on; in sources that do not compile the
   problem's `result` has the errors. */
SBX_API int sbx_compile(struct sbx *sandboxes, const char *path, const char *options_json, char **ret_json,
                        struct sbx_error *reterr);

/* Check the BEAM file at an absolute path, or all in a folder and below it. Answers `valid` and `files`, an object for
   each with what is in it, or with an `error`; a file that is not valid is not a failure of the call. */
SBX_API int sbx_validate_beam(struct sbx *sandboxes, const char *path, char **ret_json, struct sbx_error *reterr);

/* What the modules of a sandbox, or of the project at an absolute path, need of one another. Options may hold `format`
   and `external`. Answers `modules`, `cycles` and `order`. */
SBX_API int sbx_dependency_graph(struct sbx *sandboxes, const char *id_or_path, const char *options_json,
                                 char **ret_json, struct sbx_error *reterr);
/* Only the order: an array of groups, each an array of modules that are to be loaded together. */
SBX_API int sbx_reload_order(struct sbx *sandboxes, const char *id_or_path, char **ret_json, struct sbx_error *reterr);

/* Change the code of a running sandbox in one transaction: what changed in its project, or what is at path (absolute,
   may be NULL). Options may hold `migrate`, `on_busy`, `probation_ms`, `wait` and so on. Answers the reload. */
SBX_API int sbx_hot_reload(struct sbx *sandboxes, const char *id, const char *path, const char *options_json,
                           char **ret_json, struct sbx_error *reterr);
/* Compile and reload whatever changes in the sandbox's source, from now on or no more. Answers how it is doing. */
SBX_API int sbx_auto_reload(struct sbx *sandboxes, const char *id, int is_on, char **ret_json,
                            struct sbx_error *reterr);
/* What was loaded of a module (as either language writes it), or with module NULL of all: an array. */
SBX_API int sbx_versions(struct sbx *sandboxes, const char *id, const char *module, char **ret_json,
                         struct sbx_error *reterr);
/* Load an earlier version of a module; the options' `to` is its number, the one before by default. */
SBX_API int sbx_rollback(struct sbx *sandboxes, const char *id, const char *module, const char *options_json,
                         char **ret_json, struct sbx_error *reterr);

/* One item of a stream; return non-zero to end it, which is not a failure. */
typedef int sbx_item_fn(const char *item_json, void *data);

/* Run a project until it ends or the item function ends it; the sandbox is gone afterwards. Answers how it ended. */
SBX_API int sbx_run(struct sbx *sandboxes, const char *source, const char *options_json, sbx_item_fn *on_item,
                    void *data, char **ret_json, struct sbx_error *reterr);

/* Events; options may hold `follow`, `since` and `sandbox_id`. */
SBX_API int sbx_events(struct sbx *sandboxes, const char *options_json, sbx_item_fn *on_item, void *data,
                       struct sbx_error *reterr);

/* Any operation by its name, with all its parameters as one JSON object or NULL. Lists come whole, as an array; streams
   as an array of their items once they have ended. */
SBX_API int sbx_op(struct sbx *sandboxes, const char *name, const char *params_json, char **ret_json,
                   struct sbx_error *reterr);

/* Any streaming operation by its name. Answers what the stream ended with, null when the item function ended it. */
SBX_API int sbx_stream(struct sbx *sandboxes, const char *name, const char *params_json, sbx_item_fn *on_item,
                       void *data, char **ret_json, struct sbx_error *reterr);

SBX_API const char *sbx_version(void);

#ifdef __cplusplus
}
#endif

#endif
