/* What a VM needs to see and how it is started: a plan's mounts, arguments and environment. Pure. */
#include <stdio.h>
#include <string.h>

#include "node/node_internal.h"

enum {
    BINDS_MAX = NODE_APPS_MAX + 96,
    WORDS_MAX = 96,
    ENV_MAX = 160,
    TEXT_BYTES = 96 * 1024,
};

/* Lists that grow while a request is put together; text that had to be made lives in `text`. */
struct draft {
    struct jail_bind binds[BINDS_MAX];
    size_t bind_count;
    const char *argv[WORDS_MAX + 1];
    size_t argc;
    const char *env[ENV_MAX + 1];
    size_t env_count;
    const char *executables[3];
    char text[TEXT_BYTES];
    size_t text_used;
    bool overflow;
};

static const char *keep_text(struct draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *keep_text(struct draft *draft, const char *format, ...) {
    size_t room = sizeof draft->text - draft->text_used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(draft->text + draft->text_used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room) {
        draft->overflow = true;
        return "";
    }
    const char *text = draft->text + draft->text_used;
    draft->text_used += (size_t)length + 1;
    return text;
}

static void add_bind(struct draft *draft, const char *source, const char *target, bool executable) {
    if (draft->bind_count == BINDS_MAX) {
        draft->overflow = true;
        return;
    }
    draft->binds[draft->bind_count++] =
        (struct jail_bind){.source = source, .target = target, .executable = executable};
}

/* In place of a path, the name of the permission by which it is opened. */
static void add_own(struct draft *draft, const char *grant, const char *target) {
    add_bind(draft, grant, target, true);
    if (!draft->overflow) draft->binds[draft->bind_count - 1].is_toolchain = true;
}

static void add_argument(struct draft *draft, const char *word) {
    if (draft->argc == WORDS_MAX)
        draft->overflow = true;
    else
        draft->argv[draft->argc++] = word;
}

static void add_arguments(struct draft *draft, const char *const *words) {
    for (; *words; words++) add_argument(draft, *words);
}

static void add_env(struct draft *draft, const char *pair) {
    if (draft->env_count == ENV_MAX)
        draft->overflow = true;
    else
        draft->env[draft->env_count++] = pair;
}

/* The toolchain keeps its own paths inside, so that what it remembers of itself stays true. */
static void add_toolchain(struct draft *draft, const struct node_host *host, const struct toolchain *toolchain) {
    for (size_t i = 0; i < toolchain->library_count; i++)
        if (toolchain->libraries[i].source)
            add_bind(draft, toolchain->libraries[i].source, toolchain->libraries[i].place, true);
    if (toolchain->is_own) add_own(draft, toolchain->otp_grant, TOOLCHAIN_OTP_PLACE);
    if (toolchain->is_own && toolchain->elixir_grant[0])
        add_own(draft, toolchain->elixir_grant, TOOLCHAIN_ELIXIR_PLACE);
    if (!toolchain->is_own)
        add_bind(draft, keep_text(draft, "%s%s", toolchain->root, toolchain->otp_root), toolchain->otp_root, true);
    if (!toolchain->is_own && toolchain->elixir_lib[0])
        add_bind(draft, keep_text(draft, "%s%s", toolchain->root, toolchain->elixir_lib), toolchain->elixir_lib, false);
    add_bind(draft, keep_text(draft, "%s/ebin", host->agent_dir), "/sandbox/ebin", false);
    draft->executables[0] = keep_text(draft, "%s/beam.smp", toolchain->erts_bin);
    draft->executables[1] = keep_text(draft, "%s/erl_child_setup", toolchain->erts_bin);
    /* MALLOC_MMAP_THRESHOLD_: what loading code used goes back to the kernel, megabytes per idle node; smaller values
       save little more and cost time at every load. TZ: no look-ups of a time zone. */
    add_env(draft, keep_text(draft, "ROOTDIR=%s", toolchain->otp_root));
    add_env(draft, keep_text(draft, "BINDIR=%s", toolchain->erts_bin));
    static const char *const fixed[] = {"EMU=beam",
                                        "PROGNAME=erl",
                                        "HOME=/data",
                                        "PATH=/usr/bin:/bin",
                                        "LANG=C.UTF-8",
                                        "TZ=UTC",
                                        "MALLOC_MMAP_THRESHOLD_=16384",
                                        "MALLOC_ARENA_MAX=1",
                                        "ERL_CRASH_DUMP_SECONDS=0"};
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) add_env(draft, fixed[i]);
}

static void add_shared(struct draft *draft, const struct toolchain *toolchain) {
    struct shared_place places[SHARED_MAX];
    size_t count = shared_find(toolchain->root, places);
    for (size_t i = 0; i < count; i++)
        add_bind(draft, keep_text(draft, "%s", places[i].source), places[i].place, false);
}

/* What tells a compiler of a rebar3 project. */
static void add_rebar3(struct draft *draft, const struct toolchain *toolchain) {
    static const char place[] = "/sandbox/rebar3";
    struct toolchain_rebar3 found;
    if (!toolchain_find_rebar3(toolchain, &found)) return;
    add_bind(draft, keep_text(draft, "%s", found.path), place, false);
    add_env(draft, keep_text(draft, "SANDBOX_REBAR3=%s", place));
}

/* An application's VM is tuned to be small; it serves one application, and its cgroup bounds it. Schedulers that spin
   while they wait would burn the CPU of other nodes. */
static const char *const application_flags[] = {"-SDcpu",    "1:1",  "-SDio",    "1",    "-A",    "1",
                                                "-Q",        "1024", "-hpds",    "1",    "-sbwt", "none",
                                                "-sbwtdcpu", "none", "-sbwtdio", "none", NULL};
/* A compiler's reads and writes each go to another thread and back: spinning for a moment spares it a sleep. */
static const char *const compiler_flags[] = {"-S",        "2:2",  "-SDcpu",   "1:1",        "-SDio",
                                             "1",         "-A",   "1",        "-sbwt",      "very_short",
                                             "-sbwtdcpu", "none", "-sbwtdio", "very_short", NULL};
static const char *const common_flags[] = {"-fnu", "-Bi", NULL};

/* A process runs on one scheduler at a time, and a scheduler on one core: one for each core that the CPU limit pays
   for. */
static uint64_t schedulers_wanted(const struct jail_limits *limits) {
    enum { SCHEDULERS_MAX = 64, TASKS_EACH = 4 /* of the node's OS tasks, a quarter at most are schedulers */ };
    uint64_t wanted = limits->cpu_percent ? (limits->cpu_percent + 99) / 100 : SCHEDULERS_MAX;
    uint64_t max = SCHEDULERS_MAX;
    if (limits->os_tasks && limits->os_tasks / TASKS_EACH < max) max = limits->os_tasks / TASKS_EACH;
    if (wanted > max) wanted = max;
    return wanted > 0 ? wanted : 1;
}

uint64_t node_schedulers(const struct node_host *host, const struct jail_limits *limits) {
    uint64_t wanted = schedulers_wanted(limits);
    return wanted < host->cores ? wanted : host->cores ? host->cores : 1;
}

uint64_t node_process_table(uint64_t processes) {
    enum { TABLE_MIN = 2048, VM_OWN = 1024 };
    return processes <= TABLE_MIN - VM_OWN ? TABLE_MIN : processes + VM_OWN;
}

bool node_limits_fit(const struct jail_limits *limits, const struct jail_limits *booted) {
    bool files_fit =
        !booted->file_size_bytes || (limits->file_size_bytes && limits->file_size_bytes <= booted->file_size_bytes);
    return files_fit && limits->descriptors <= booted->descriptors &&
           schedulers_wanted(limits) == schedulers_wanted(booted) &&
           node_process_table(limits->processes) <= node_process_table(booted->processes);
}

static void add_sizes(struct draft *draft, const struct node_host *host, const struct jail_limits *limits) {
    unsigned long long schedulers = node_schedulers(host, limits), processes = node_process_table(limits->processes);
    add_argument(draft, "-S");
    add_argument(draft, keep_text(draft, "%llu:%llu", schedulers, schedulers));
    add_argument(draft, "-P");
    add_argument(draft, keep_text(draft, "%llu", processes));
}

static void add_vm_arguments(struct draft *draft, const struct toolchain *toolchain, const char *const *flags,
                             const char *const *boot) {
    add_arguments(draft, flags);
    add_arguments(draft, common_flags);
    const char *const fixed[] = {
        "--", "-root", toolchain->otp_root, "-bindir", toolchain->erts_bin, "-progname", "erl", "--", "-home", "/data",
        "--", NULL};
    add_arguments(draft, fixed);
    add_arguments(draft, boot);
}

static int build(struct draft *draft, struct jail_request *request, const struct node_host *host, struct jail_plan *ret,
                 uint32_t *ret_lost, struct error *reterr) {
    if (draft->overflow)
        return error_set(reterr, E_TOO_LARGE,
                         "the node has too many applications, environment variables or too long paths");
    request->binds = draft->binds;
    request->bind_count = draft->bind_count;
    request->argv = draft->argv;
    request->env = draft->env;
    request->executables = draft->executables;
    request->program = draft->executables[0];
    request->execs = 2; /* the VM and its helper */
    return jail_plan_build(request, &host->features, ret, ret_lost, reterr);
}

static void add_application_env(struct draft *draft, json_t *env) {
    const char *name;
    json_t *value;
    json_object_foreach(env, name, value) add_env(draft, keep_text(draft, "%s=%s", name, json_string_value(value)));
}

bool node_has_egress(const struct node_host *host, const struct jail_profile *profile) {
    uint32_t needed = 1u << JAIL_GUARANTEE_EGRESS | 1u << JAIL_GUARANTEE_NETWORK;
    return profile->network == JAIL_NETWORK_OUTGOING && (host->features.guarantees & needed) == needed;
}

int vm_plan(const struct node_host *host, const struct node_spec *spec, const struct vm_identity *identity,
            struct jail_plan *ret, uint32_t *ret_lost, struct error *reterr) {
    CLEANUP_FREE struct draft *draft = calloc(1, sizeof *draft);
    if (!draft) return error_set(reterr, E_NO_MEMORY, "no memory for a plan");
    add_toolchain(draft, host, spec->toolchain);
    add_bind(draft, spec->toolchain->boot_dir, "/sandbox/boot", false);
    add_bind(draft, identity->control_dir, "/sandbox/control", false);
    if (spec->kind == NODE_COMPILER)
        add_rebar3(draft, spec->toolchain);
    else
        add_shared(draft, spec->toolchain);
    for (size_t i = 0; i < spec->app_count; i++)
        add_bind(draft, spec->apps[i].path, keep_text(draft, NODE_APP_PLACE, spec->apps[i].name),
                 spec->profile->native_code);
    add_env(draft, keep_text(draft, "SANDBOX_SECRET=%s", identity->secret));
    add_env(draft, keep_text(draft, "SANDBOX_GRACE_MS=%llu", (unsigned long long)host->grace_ms));
    if (spec->elixir) add_env(draft, "SANDBOX_ELIXIR=1");
    if (node_has_egress(host, spec->profile)) add_env(draft, "SANDBOX_RESOLVER=" JAIL_RESOLVER);
    add_application_env(draft, spec->env);
    static const char *const boot[] = {"-boot", "/sandbox/boot/node", "-noshell", "-noinput", "-user", "sbx_io", NULL};
    add_argument(draft, "beam.smp");
    if (spec->kind != NODE_COMPILER) add_sizes(draft, host, &spec->limits);
    add_vm_arguments(draft, spec->toolchain, spec->kind == NODE_COMPILER ? compiler_flags : application_flags, boot);
    /* Places for what is mounted later. */
    static const char *const app_places[] = {"/app", NULL}, *const project_places[] = {"/src", NULL};
    const char *const *directories = spec->kind == NODE_COMPILER ? project_places : app_places;
    struct jail_request request = {
        .node = identity->name,
        .profile = spec->profile,
        .limits = spec->limits,
        .resolved = spec->resolved,
        .resolved_count = spec->resolved_count,
        .has_loopback = spec->has_loopback,
        .directories = directories,
        .data_volume = spec->data_volume,
        .takes_data = spec->takes_data,
        .takes_volumes = spec->kind == NODE_APPLICATION,
    };
    return build(draft, &request, host, ret, ret_lost, reterr);
}

int vm_probe_plan(const struct node_host *host, const struct toolchain *toolchain, const char *name,
                  struct jail_plan *ret, struct error *reterr) {
    CLEANUP_FREE struct draft *draft = calloc(1, sizeof *draft);
    if (!draft) return error_set(reterr, E_NO_MEMORY, "no memory for a plan");
    add_toolchain(draft, host, toolchain);
    const char *elixir =
        toolchain->elixir_lib[0] ? keep_text(draft, "%s/elixir/ebin", toolchain->elixir_lib) : "/sandbox/ebin";
    const char *const boot[] = {"-boot",    keep_text(draft, "%s/bin/start_clean", toolchain->otp_root),
                                "-noshell", "-noinput",
                                "-pa",      "/sandbox/ebin",
                                elixir,     "-s",
                                "sbx_boot", "main",
                                NULL};
    add_argument(draft, "beam.smp");
    add_vm_arguments(draft, toolchain, compiler_flags, boot);
    const struct jail_profile *profile = jail_profile_find("compiler");
    struct jail_request request = {.node = name, .profile = profile, .limits = profile->limits};
    uint32_t lost;
    return build(draft, &request, host, ret, &lost, reterr);
}
