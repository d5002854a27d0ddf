/* What each operation of table.c takes. Included there and nowhere else. */
#ifndef OPS_TABLE_PARAMS_H
#define OPS_TABLE_PARAMS_H

#include "jail/limits.h"
#include "ops/table.h"

/* The bounds of what a caller may ask for. They keep arithmetic in range and refuse typing errors; whether a host can
   carry the value is the engine's to say. */
#define SECOND_MS INT64_C(1000)
#define DAY_MS (86400 * SECOND_MS)

enum {
    CODE_MAX_BYTES = 1 << 20,      /* of an expression */
    ENVIRONMENT_MAX_ENTRIES = 128, /* variables of one sandbox */
    REQUIRE_MAX_ENTRIES = 32,      /* more than there are guarantees */
    MIGRATIONS_MAX_ENTRIES = 256,
    WATCH_MIGRATIONS_MAX_ENTRIES = 8, /* each may have 64 KiB */
    PATHS_MAX_ENTRIES = 256,
    RETRIES_MAX = 10,
    PROBATION_MAX_MS = 3600000,
    SETTLE_MAX_MS = 60000,
    TAIL_MAX_LINES = 1000000,
    GREP_MAX_BYTES = 256,
    AUDIT_MAX_RECORDS = 10000,
    WATCH_PATTERNS_MAX_ENTRIES = 32, /* of each kind */
    TARGET_MAX_BYTES = 4095,         /* a path's */
    TOP_MAX_ROWS = 1000,
    LIMITS_MAX_ENTRIES = 32, /* more than there are limits */
    WITHS_MAX_ENTRIES = 8,   /* as in compile/project/places.h */
    ARGS_MAX_ENTRIES = 1024,
    CONFIGS_MAX_ENTRIES = 4, /* files of configuration */
    ENV_FILES_MAX_ENTRIES = 8,
    PORTS_MAX_ENTRIES = 32,        /* as in jail/ports.h */
    FILE_PIECE_BYTES = 256 * 1024, /* as in jail/files.h */
    VOLUMES_MAX_ENTRIES = 8,       /* as in core/volumes/volumes.h */
};

_Static_assert((int)LIMITS_MAX_ENTRIES >= (int)JAIL_LIMIT_COUNT, "all limits can be given at once");

#define ID_PARAM(extra_flags)                                                                                          \
    {                                                                                                                  \
        .name = "id", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL | OP_IN_PATH | (extra_flags),                \
        .summary = "the sandbox"                                                                                       \
    }

#define SOURCE_PARAM                                                                                                   \
    {                                                                                                                  \
        .name = "source", .type = OP_PATH, .flags = OP_REQUIRED | OP_POSITIONAL,                                       \
        .summary = "a Mix or rebar3 project, a folder, a file, an ebin, or an OTP release"                             \
    }

#define USER_HOME_PARAM                                                                                                \
    {                                                                                                                  \
        .name = "user_home", .type = OP_PATH,                                                                          \
        .summary = "the folder whose toolchains of mise, asdf and kerl are yours; your home unless given"              \
    }

#define TOOLCHAIN_PARAM                                                                                                \
    {.name = "toolchain",                                                                                              \
     .type = OP_TEXT,                                                                                                  \
     .min = 1,                                                                                                         \
     .max = 80,                                                                                                        \
     .flag = "toolchain",                                                                                              \
     .summary = "the OTP and Elixir to use; `sandbox toolchains` lists them"},                                         \
        USER_HOME_PARAM

/* A limit that has a parameter of its own; the others are set by `limit`. */
#define LIMIT_TYPE_COUNT OP_INTEGER
#define LIMIT_TYPE_BYTES OP_SIZE
#define LIMIT_TYPE_PERCENT OP_PERCENT
#define LIMIT_TYPE_MS OP_DURATION
#define LIMIT_PARAM_PAIR(...)
#define LIMIT_PARAM_OPTION(text, field, op_type, least, most, tells)                                                   \
    {.name = (field),                                                                                                  \
     .type = (op_type),                                                                                                \
     .flag = (text),                                                                                                   \
     .min = (int64_t)(least),                                                                                          \
     .max = (int64_t)(most),                                                                                           \
     .summary = (tells)},
#define LIMIT_PARAM(NAME, name, unit, least, most, zero, holder, policies, policy, metered, option, summary)           \
    LIMIT_PARAM_##option(#name, JAIL_FIELD_TEXT(name, unit), LIMIT_TYPE_##unit, least, most, summary)

#define COMPILE_BOUNDS_PARAMS                                                                                          \
    {.name = "compile_timeout_ms",                                                                                     \
     .type = OP_DURATION,                                                                                              \
     .flag = "compile-timeout",                                                                                        \
     .min = 100,                                                                                                       \
     .max = DAY_MS,                                                                                                    \
     .summary = "how long compiling may take, within what the settings allow"},                                        \
    {                                                                                                                  \
        .name = "compile_memory_bytes", .type = OP_SIZE, .flag = "compile-memory", .min = 128 << 20,                   \
        .max = INT64_C(1) << 40, .summary = "memory that compiling may use, within what the settings allow"            \
    }

/* How its project is compiled, whatever for. */
#define PROJECT_PARAMS                                                                                                 \
    {.name = "with",                                                                                                   \
     .type = OP_PATHS,                                                                                                 \
     .max = WITHS_MAX_ENTRIES,                                                                                         \
     .summary = "hand over this folder too, which the project reads, such as ../core"},                                \
        {.name = "mix_env",                                                                                            \
         .type = OP_ID,                                                                                                \
         .summary = "the environment of a Mix project, or the profile of a rebar3 one; by default the project's own"}, \
        COMPILE_BOUNDS_PARAMS

/* What of the host's network it has. */
#define PORT_PARAMS                                                                                                    \
    {.name = "publish",                                                                                                \
     .type = OP_TEXTS,                                                                                                 \
     .max = PORTS_MAX_ENTRIES,                                                                                         \
     .summary = "publish a port: PORT, [ADDRESS:]HOST_PORT:PORT[/udp] or unix:PATH:PORT; /proxy1 or /proxy2 at the "   \
                "end tell servers their clients"},                                                                     \
    {                                                                                                                  \
        .name = "connect", .type = OP_TEXTS, .max = PORTS_MAX_ENTRIES,                                                 \
        .summary = "let it reach a service of the host: PORT, [NAME=]ADDRESS:PORT or [NAME=]unix:PATH[:PORT]"          \
    }

/* What a sandbox is made with, whatever runs in it. */
#define VM_PARAMS                                                                                                      \
    {.name = "profile", .type = OP_NAME, .fallback = "\"medium\"", .summary = "the security profile"},                 \
        TOOLCHAIN_PARAM, PROJECT_PARAMS,                                                                               \
        JAIL_LIMIT_LIST(LIMIT_PARAM){.name = "limit",                                                                  \
                                     .type = OP_PAIRS,                                                                 \
                                     .max = LIMITS_MAX_ENTRIES,                                                        \
                                     .summary =                                                                        \
                                         "any limit: VALUE, :POLICY or VALUE:POLICY; `sandbox limits` lists them"},    \
        {.name = "env",                                                                                                \
         .type = OP_PAIRS,                                                                                             \
         .max = ENVIRONMENT_MAX_ENTRIES,                                                                               \
         .summary = "an environment variable; 128 KiB in all"},                                                        \
        {.name = "env_file",                                                                                           \
         .type = OP_FILES,                                                                                             \
         .flags = OP_CLIENT,                                                                                           \
         .max = ENV_FILES_MAX_ENTRIES,                                                                                 \
         .summary = "a file with a line NAME=VALUE for each environment variable; --env goes over it"},                \
        {.name = "data_size_bytes",                                                                                    \
         .type = OP_SIZE,                                                                                              \
         .flag = "data-size",                                                                                          \
         .max = INT64_C(1) << 40,                                                                                      \
         .summary =                                                                                                    \
             "size of /data, which outlives restarts; as large as disk unless said, 16M at least; 0: in memory "       \
             "instead, as part of disk"},                                                                              \
        {.name = "volumes",                                                                                            \
         .type = OP_MOUNTS,                                                                                            \
         .flag = "volume",                                                                                             \
         .max = VOLUMES_MAX_ENTRIES,                                                                                   \
         .summary = "mount a folder of yours, DIR:PATH, or a volume, NAME:PATH; :ro to read; below /mnt or /data"},    \
        {.name = "config",                                                                                             \
         .type = OP_FILES,                                                                                             \
         .max = CONFIGS_MAX_ENTRIES,                                                                                   \
         .summary = "a sys.config or runtime.exs, evaluated in the sandbox before the application starts"},            \
        PORT_PARAMS, {                                                                                                 \
        .name = "require", .type = OP_TEXTS, .max = REQUIRE_MAX_ENTRIES,                                               \
        .summary = "refuse when this guarantee can't be given"                                                         \
    }

/* The same, with the application that is started, whether it is created or just run. */
#define SANDBOX_PARAMS                                                                                                 \
    {.name = "supervisor", .type = OP_MODULE, .summary = "start this supervisor module"},                              \
        {.name = "app", .type = OP_NAME, .summary = "start this application"},                                         \
        {.name = "with_sources",                                                                                       \
         .type = OP_BOOLEAN,                                                                                           \
         .fallback = "false",                                                                                          \
         .summary = "have the sources of all applications in their folders too, such as code:lib_dir(APP, src)"},      \
        VM_PARAMS

/* Kept with the sandbox, for what is saved. */
#define WATCH_MIGRATE_PARAM                                                                                            \
    {                                                                                                                  \
        .name = "migrate", .type = OP_EXPRESSIONS, .max = WATCH_MIGRATIONS_MAX_ENTRIES,                                \
        .summary = "migrate states by this when a save changes their module, as `reload --migrate` does"               \
    }

#define WATCH_PATTERN_PARAMS                                                                                           \
    {.name = "watch_ignore",                                                                                           \
     .type = OP_TEXTS,                                                                                                 \
     .max = WATCH_PATTERNS_MAX_ENTRIES,                                                                                \
     .summary = "do not watch names like this, such as *.log; with a slash, paths from the source"},                   \
    {                                                                                                                  \
        .name = "watch_include", .type = OP_TEXTS, .max = WATCH_PATTERNS_MAX_ENTRIES,                                  \
        .summary = "watch these although they are ignored, such as deps"                                               \
    }

/* Of what is created or run. */
#define WATCH_PARAMS                                                                                                   \
    {.name = "watch",                                                                                                  \
     .type = OP_BOOLEAN,                                                                                               \
     .fallback = "false",                                                                                              \
     .summary = "compile and reload whatever changes in the source"},                                                  \
        WATCH_PATTERN_PARAMS, WATCH_MIGRATE_PARAM

#define LANGUAGE_PARAM                                                                                                 \
    {                                                                                                                  \
        .name = "language", .type = OP_CHOICE, .flag = "lang", .choices = "elixir|erlang",                             \
        .summary = "the language of expressions; the project's own by default"                                         \
    }

#define FOLLOW_PARAM                                                                                                   \
    { .name = "follow", .type = OP_BOOLEAN, .fallback = "false", .summary = "go on with what comes" }

static const struct op_param create_params[] = {
    {.name = "id", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .summary = "the new sandbox's name"},
    SOURCE_PARAM,
    SANDBOX_PARAMS,
    WATCH_PARAMS,
    {.name = "restart", .type = OP_RESTART, .fallback = "\"never\"", .summary = "what to do when it ends"},
    {.name = "settle_ms",
     .type = OP_DURATION,
     .flag = "settle",
     .min = 0,
     .max = SETTLE_MAX_MS,
     .summary = "how long it must run to be created; by default as the setting `settle` says, for a build that is new"},
    {.name = "timing", .type = OP_BOOLEAN, .fallback = "false", .summary = "tell how long each step took"},
};

static const struct op_param run_params[] = {
    {.name = "source",
     .type = OP_PATH,
     .flags = OP_POSITIONAL,
     .summary = "a project as for `create`, or an escript; for the command line also script.exs, and - for a script on "
                "its input"},
    {.name = "args",
     .type = OP_WORDS,
     .flags = OP_POSITIONAL,
     .flag = "arg",
     .max = ARGS_MAX_ENTRIES,
     .summary = "what the program gets: the script, or main/1 of an escript or an Erlang file; -- goes before words "
                "with a dash"},
    {.name = "code", .type = OP_TEXT, .min = 1, .max = CODE_MAX_BYTES, .summary = "an Elixir script instead of a path"},
    {.name = "file", .type = OP_NAME, .summary = "the name the code goes by, such as hello.exs"},
    SANDBOX_PARAMS,
    WATCH_PARAMS,
    {.name = "eval", .type = OP_TEXT, .min = 1, .max = CODE_MAX_BYTES, .summary = "evaluate this expression, then end"},
    LANGUAGE_PARAM,
};

static const struct op_param mix_params[] = {
    {.name = "source",
     .type = OP_PATH,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .flag = "project",
     .summary = "a Mix project"},
    {.name = "task",
     .type = OP_WORDS,
     .flags = OP_REQUIRED | OP_POSITIONAL | OP_VERBATIM,
     .max = ARGS_MAX_ENTRIES,
     .summary = "the task and its arguments, such as ecto.migrate or phx.routes; our own flags go before it"},
    VM_PARAMS,
};

static const struct op_param input_params[] = {
    ID_PARAM(0),
    {.name = "data",
     .type = OP_FILES,
     .max = 1,
     .summary = "bytes of its standard input in base64, as the member `stdin` of an object"},
    {.name = "end", .type = OP_BOOLEAN, .fallback = "false", .summary = "nothing follows"},
};

static const struct op_param id_params[] = {ID_PARAM(0)};

static const struct op_param restart_params[] = {
    ID_PARAM(0),
    {.name = "fresh", .type = OP_BOOLEAN, .fallback = "false", .summary = "do not keep the processes' states"},
};

static const struct op_param wait_params[] = {
    ID_PARAM(OP_REST),
    {.name = "for",
     .type = OP_CHOICE,
     .choices = "running|stopped|error",
     .fallback = "\"running\"",
     .summary = "the status to wait for"},
    {.name = "timeout_ms",
     .type = OP_DURATION,
     .flag = "timeout",
     .min = 1,
     .max = DAY_MS,
     .fallback = "60000",
     .summary = "how long to wait at most"},
};

static const struct op_param destroy_params[] = {ID_PARAM(OP_REST)};

static const struct op_param eval_params[] = {
    ID_PARAM(0),
    {.name = "code",
     .type = OP_TEXT,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .flag = "expr",
     .min = 1,
     .max = CODE_MAX_BYTES,
     .summary = "the expression"},
    LANGUAGE_PARAM,
    {.name = "timeout_ms",
     .type = OP_DURATION,
     .flag = "timeout",
     .min = 1,
     .max = 30 * DAY_MS,
     .summary = "how long it may take; at most the sandbox's max-run"},
};

/* How running code is changed, whichever way. */
#define CHANGE_PARAMS                                                                                                  \
    {.name = "migrate",                                                                                                \
     .type = OP_EXPRESSIONS,                                                                                           \
     .max = MIGRATIONS_MAX_ENTRIES,                                                                                    \
     .summary = "a function of state, old and new version: EXPR or Mod.fun/3; Module=… for one module"},               \
        {.name = "on_busy",                                                                                            \
         .type = OP_CHOICE,                                                                                            \
         .choices = "wait|refuse|kill",                                                                                \
         .fallback = "\"wait\"",                                                                                       \
         .summary = "what to do when a process still runs code that the reload would remove"},                         \
        {.name = "probation_ms",                                                                                       \
         .type = OP_DURATION,                                                                                          \
         .flag = "probation",                                                                                          \
         .fallback = "2000",                                                                                           \
         .max = PROBATION_MAX_MS,                                                                                      \
         .summary = "a crash within this time takes the change back"},                                                 \
        {.name = "suspend_timeout_ms",                                                                                 \
         .type = OP_DURATION,                                                                                          \
         .flag = "suspend-timeout",                                                                                    \
         .fallback = "5000",                                                                                           \
         .min = 1,                                                                                                     \
         .max = PROBATION_MAX_MS,                                                                                      \
         .summary = "how long to wait for a busy process"},                                                            \
        {.name = "busy_timeout_ms",                                                                                    \
         .type = OP_DURATION,                                                                                          \
         .flag = "busy-timeout",                                                                                       \
         .fallback = "5000",                                                                                           \
         .min = 1,                                                                                                     \
         .max = PROBATION_MAX_MS,                                                                                      \
         .summary = "how long to wait for a process that still runs code that the reload would remove"},               \
        {.name = "migrate_timeout_ms",                                                                                 \
         .type = OP_DURATION,                                                                                          \
         .flag = "migrate-timeout",                                                                                    \
         .fallback = "5000",                                                                                           \
         .min = 1,                                                                                                     \
         .max = PROBATION_MAX_MS,                                                                                      \
         .summary = "how long one state's migration may take"},                                                        \
        {.name = "retries",                                                                                            \
         .type = OP_INTEGER,                                                                                           \
         .fallback = "2",                                                                                              \
         .max = RETRIES_MAX,                                                                                           \
         .summary = "how often to try again when a process was busy"},                                                 \
        {.name = "wait", .type = OP_BOOLEAN, .fallback = "false", .summary = "answer once the probation is over"},     \
        {.name = "dry_run",                                                                                            \
         .type = OP_BOOLEAN,                                                                                           \
         .fallback = "false",                                                                                          \
         .summary = "tell what would happen and change nothing"},                                                      \
        LANGUAGE_PARAM

static const struct op_param reload_params[] = {
    ID_PARAM(0),
    {.name = "paths",
     .type = OP_PATHS,
     .flags = OP_POSITIONAL,
     .flag = "path",
     .max = PATHS_MAX_ENTRIES,
     .summary = "files of the project, other sources, BEAM files or folders of them; all of the project by default"},
    {.name = "code", .type = OP_TEXT, .min = 1, .max = CODE_MAX_BYTES, .summary = "source text instead of a path"},
    {.name = "file", .type = OP_NAME, .summary = "the name the code goes by, such as counter.ex"},
    CHANGE_PARAMS,
    {.name = "restart_changed",
     .type = OP_BOOLEAN,
     .fallback = "false",
     .summary = "restart children whose start arguments changed"},
    {.name = "run_start",
     .type = OP_BOOLEAN,
     .fallback = "false",
     .summary = "run the application's start again for a list of children that only it knows"},
    {.name = "config",
     .type = OP_BOOLEAN,
     .fallback = "false",
     .summary = "also apply what the project configures now, and tell the applications by config_change/3"},
    COMPILE_BOUNDS_PARAMS,
};

static const struct op_param rollback_params[] = {
    ID_PARAM(0),
    {.name = "module", .type = OP_MODULE, .flags = OP_REQUIRED | OP_POSITIONAL, .summary = "the module"},
    {.name = "to",
     .type = OP_INTEGER,
     .min = 1,
     .max = UINT32_MAX,
     .summary = "the version; the one before by default"},
    CHANGE_PARAMS,
};

static const struct op_param versions_params[] = {
    ID_PARAM(0),
    {.name = "module", .type = OP_MODULE, .flags = OP_POSITIONAL, .summary = "only this module's"},
    {.name = "summary", .type = OP_BOOLEAN, .fallback = "false", .summary = "count them: one line for each module"},
};

static const struct op_param export_params[] = {
    ID_PARAM(0),
    {.name = "module", .type = OP_MODULE, .flags = OP_REQUIRED | OP_POSITIONAL | OP_IN_PATH, .summary = "the module"},
    {.name = "version",
     .type = OP_INTEGER,
     .min = 1,
     .max = UINT32_MAX,
     .summary = "the version; the one that runs by default"},
};

static const struct op_param watch_params[] = {
    ID_PARAM(0),
    {.name = "action",
     .type = OP_CHOICE,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .choices = "on|off|status",
     .summary = "turn it on or off, or tell how it is doing"},
    WATCH_PATTERN_PARAMS,
    WATCH_MIGRATE_PARAM,
};

static const struct op_param compile_params[] = {
    {.name = "source",
     .type = OP_PATH,
     .flags = OP_POSITIONAL,
     .flag = "path",
     .summary = "a Mix or rebar3 project, a folder, or a file"},
    {.name = "code",
     .type = OP_TEXT,
     .min = 1,
     .max = CODE_MAX_BYTES,
     .summary = "source text to compile instead of a path"},
    {.name = "file", .type = OP_NAME, .summary = "the name the code goes by, such as counter.ex"},
    TOOLCHAIN_PARAM,
    PROJECT_PARAMS,
};

#define FILE_PARAMS                                                                                                    \
    ID_PARAM(0), {                                                                                                     \
        .name = "path", .type = OP_PATH, .flags = OP_REQUIRED | OP_POSITIONAL, .flag = "file",                         \
        .summary = "a path inside, below /data or /mnt"                                                                \
    }

#define OFFSET_PARAM                                                                                                   \
    { .name = "offset", .type = OP_INTEGER, .fallback = "0", .max = INT64_C(1) << 60, .summary = "where it begins" }

static const struct op_param file_list_params[] = {FILE_PARAMS};

static const struct op_param file_read_params[] = {
    FILE_PARAMS,
    OFFSET_PARAM,
    {.name = "length",
     .type = OP_INTEGER,
     .fallback = "262144",
     .min = 1,
     .max = FILE_PIECE_BYTES,
     .summary = "how many bytes at most"},
};

static const struct op_param file_write_params[] = {
    FILE_PARAMS,
    {.name = "data",
     .type = OP_TEXT,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .max = FILE_PIECE_BYTES / 3 * 4 + 4,
     .summary = "the bytes, in base64"},
    {.name = "offset",
     .type = OP_INTEGER,
     .fallback = "0",
     .max = INT64_C(1) << 60,
     .summary = "where they go; at 0 the file is made anew"},
    {.name = "mode", .type = OP_INTEGER, .fallback = "420", .max = 511, .summary = "who may use it, as a number"},
};

static const struct op_param file_mkdir_params[] = {
    FILE_PARAMS,
    {.name = "mode", .type = OP_INTEGER, .fallback = "493", .max = 511, .summary = "who may use it, as a number"},
};

static const struct op_param volume_create_params[] = {
    {.name = "name", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .summary = "the new volume's name"},
    {.name = "size_bytes",
     .type = OP_SIZE,
     .flag = "size",
     .fallback = "1073741824",
     .min = 16 << 20,
     .max = INT64_C(1) << 40,
     .summary = "how much it holds, file system included"},
};

static const struct op_param volume_remove_params[] = {
    {.name = "name", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL | OP_IN_PATH, .summary = "the volume"},
};

static const struct op_param toolchains_params[] = {USER_HOME_PARAM};

static const struct op_param validate_params[] = {
    {.name = "path",
     .type = OP_PATH,
     .flags = OP_REQUIRED | OP_POSITIONAL | OP_REST,
     .flag = "file",
     .summary = "a BEAM file, or a folder of them"},
};

static const struct op_param scan_params[] = {
    {.name = "path",
     .type = OP_PATH,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .summary = "a Mix or rebar3 project, a folder, a file, an ebin, or a BEAM file"},
    {.name = "profile",
     .type = OP_NAME,
     .fallback = "\"medium\"",
     .summary = "the profile whose operations are allowed"},
};

static const struct op_param deps_params[] = {
    {.name = "target",
     .type = OP_TEXT,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .flag = "path|id",
     .min = 1,
     .max = TARGET_MAX_BYTES,
     .summary = "an absolute path of a project, or a sandbox"},
    {.name = "format",
     .type = OP_CHOICE,
     .choices = "json|text|dot",
     .fallback = "\"json\"",
     .summary = "also as text for people or for Graphviz"},
    {.name = "external",
     .type = OP_BOOLEAN,
     .fallback = "false",
     .summary = "also list modules that are not the project's"},
    PROJECT_PARAMS,
};

static const struct op_param audit_params[] = {
    {.name = "verify",
     .type = OP_BOOLEAN,
     .fallback = "false",
     .summary = "find records that were changed, removed or moved"},
    FOLLOW_PARAM,
    {.name = "since", .type = OP_INTEGER, .min = 0, .max = INT64_MAX, .summary = "only records after this number"},
    {.name = "limit",
     .type = OP_INTEGER,
     .flag = "tail",
     .min = 1,
     .max = AUDIT_MAX_RECORDS,
     .fallback = "1000",
     .summary = "at most this many records of the past, the newest"},
    {.name = "sandbox_id", .type = OP_ID, .flag = "sandbox", .summary = "only this sandbox's"},
    {.name = "op", .type = OP_NAME, .summary = "only this operation"},
    {.name = "uid", .type = OP_INTEGER, .min = 0, .max = UINT32_MAX, .summary = "only this user's"},
    {.name = "outcome", .type = OP_NAME, .summary = "only what ended so: ok, or an error's code such as forbidden"},
};

static const struct op_param quotas_params[] = {
    {.name = "user", .type = OP_NAME, .summary = "only this user's, by its name or number; others' take an admin"},
};

static const struct op_param events_params[] = {
    FOLLOW_PARAM,
    {.name = "since", .type = OP_INTEGER, .min = 0, .max = INT64_MAX, .summary = "only events after this number"},
    {.name = "sandbox_id", .type = OP_ID, .flag = "sandbox", .summary = "only this sandbox's"},
};

static const struct op_param logs_params[] = {
    ID_PARAM(0),
    FOLLOW_PARAM,
    {.name = "tail", .type = OP_INTEGER, .min = 0, .max = TAIL_MAX_LINES, .summary = "begin with the last N records"},
    {.name = "level",
     .type = OP_CHOICE,
     .choices = "debug|info|notice|warning|error|critical|alert|emergency",
     .summary = "only what was logged at this level or a more severe one"},
    {.name = "grep",
     .type = OP_TEXT,
     .min = 1,
     .max = GREP_MAX_BYTES,
     .summary = "only what has this text in it, in upper or lower case"},
    {.name = "since_ms",
     .type = OP_DURATION,
     .flag = "since",
     .min = 1,
     .max = 366 * DAY_MS,
     .summary = "only what is no older than this, such as 10m"},
    {.name = "stream",
     .type = OP_CHOICE,
     .choices = "output|log|vm|service",
     .summary = "only what was printed, logged, said by the VM itself, or said of it by the service"},
};

/* Over HTTP a look is one answer; the command line asks again and again. */
#define REPEAT_PARAM                                                                                                   \
    {                                                                                                                  \
        .name = "interval_ms", .type = OP_DURATION, .flags = OP_CLIENT, .flag = "interval", .min = 100, .max = DAY_MS, \
        .summary = "how often to look again"                                                                           \
    }

static const struct op_param stats_params[] = {
    {.name = "id", .type = OP_ID, .flags = OP_POSITIONAL | OP_IN_PATH, .summary = "the sandbox; all of them without"},
    {.name = "history",
     .type = OP_CHOICE,
     .choices = "none|recent|minutes|day",
     .fallback = "\"none\"",
     .summary = "also the last samples, or averages and peaks per minute or per ten minutes"},
    {.name = "follow", .type = OP_BOOLEAN, .flags = OP_CLIENT, .summary = "go on with what comes"},
    REPEAT_PARAM,
};

static const struct op_param limits_params[] = {
    ID_PARAM(0),
    {.name = "set",
     .type = OP_PAIRS,
     .flags = OP_POSITIONAL,
     .flag = "k=v",
     .max = LIMITS_MAX_ENTRIES,
     .summary = "a limit to change: VALUE, :POLICY or VALUE:POLICY"},
};

static const struct op_param publish_params[] = {
    ID_PARAM(0),
    {.name = "ports",
     .type = OP_WORDS,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .flag = "port",
     .max = PORTS_MAX_ENTRIES,
     .summary = "as for `create --publish`"},
};

static const struct op_param unpublish_params[] = {
    ID_PARAM(0),
    {.name = "ports",
     .type = OP_WORDS,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .flag = "port",
     .max = PORTS_MAX_ENTRIES,
     .summary = "as they were published, or their ports on the host"},
};

static const struct op_param top_params[] = {
    {.name = "id", .type = OP_ID, .flags = OP_POSITIONAL, .summary = "this sandbox's processes; all sandboxes without"},
    {.name = "by",
     .type = OP_CHOICE,
     .choices = "memory|queue|reductions",
     .fallback = "\"memory\"",
     .summary = "what to sort by, the most first"},
    {.name = "count",
     .type = OP_INTEGER,
     .fallback = "20",
     .min = 1,
     .max = TOP_MAX_ROWS,
     .summary = "how many to show"},
    {.name = "once", .type = OP_BOOLEAN, .flags = OP_CLIENT, .summary = "show it once, on a terminal too"},
    REPEAT_PARAM,
};

#endif
