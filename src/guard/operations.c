/* The table of operations. A row has an operation's name, the calls that take it, and how the kernel enforces it. A
   call that no row names takes no operation. */
#include <string.h>

#include "guard/guard_internal.h"

#define RULES(...) ((const struct import_rule[]){__VA_ARGS__, {NULL, NULL}})
#define IMPORTS(...) .imports = RULES(__VA_ARGS__)
#define OPENS(...) .opens = RULES(__VA_ARGS__)

static const struct guard_operation operations[] = {
    {.name = "all", .summary = "everything below", .held = "only a scan tells"},
    {.name = "basic_otp",
     .summary = "processes, supervision, tables in memory",
     .held = "processes and memory have limits",
     IMPORTS({"gen_server", "*"}, {"gen_statem", "*"}, {"gen_event", "*"}, {"supervisor", "*"}, {"proc_lib", "*"},
             {"application", "*"}, {"ets", "new insert lookup delete"}, {"Elixir.GenServer", "*"},
             {"Elixir.Supervisor", "*"}, {"Elixir.DynamicSupervisor", "*"}, {"Elixir.Agent", "*"}, {"Elixir.Task", "*"},
             {"Elixir.Registry", "*"}, {"Elixir.Application", "*"})},
    {.name = "math", .summary = "arithmetic on floats", .held = "only a scan tells", IMPORTS({"math", "*"})},
    {.name = "string",
     .summary = "text",
     .held = "only a scan tells",
     IMPORTS({"string", "*"}, {"unicode", "*"}, {"re", "*"}, {"Elixir.String", "*"}, {"Elixir.Regex", "*"})},
    {.name = "file_write",
     .summary = "make, change and remove files",
     .held = "nothing but /data and /tmp can be written, and those are bounded",
     IMPORTS({"file", "write_file write_file_info delete rename make_dir del_dir del_dir_r copy make_link make_symlink "
                      "change_group change_mode change_owner change_time truncate"},
             {"filelib", "ensure_dir ensure_path"}, {"dets", "open_file"}, {"disk_log", "open"}, {"ets", "tab2file"},
             {"zip", "unzip extract zip create unfold"}, {"erl_tar", "create extract open"},
             {"prim_file", "write_file delete rename make_dir del_dir make_link make_symlink"},
             {"Elixir.File", "write* rm* mkdir* cp* rename* ln* touch* chmod* chown* chgrp*"}),
     OPENS({"file", "open/2"}, {"Elixir.File", "open/2 open!/2 open/3 open!/3"})},
    {.name = "file_read",
     .summary = "read files and folders",
     .held = "only the application's own files and the toolchain are there to be read",
     IMPORTS({"file", "read_file read_file_info read_link* list_dir* consult path_consult path_open open script "
                      "path_script get_cwd/1 sendfile"},
             {"filelib", "wildcard fold_files file_size last_modified is_file is_dir is_regular"}, {"ets", "file2tab"},
             {"prim_file", "read_file list_dir* read_link* read_file_info open"},
             {"erl_prim_loader", "get_file list_dir read_file_info"}, {"zip", "list_dir table zip_open foldl"},
             {"Elixir.File", "read* stream! ls* stat* lstat* open* exists? dir? regular?"},
             {"Elixir.Path", "wildcard*"})},
    {.name = "network_server",
     .summary = "listen for connections",
     .held = "nobody outside can reach the node's own network",
     IMPORTS({"gen_tcp", "listen accept"}, {"ssl", "listen transport_accept handshake"}, {"gen_sctp", "listen"},
             {"socket", "bind listen accept"}, {"httpd", "*"}, {"ssh", "daemon"},
             {"ranch", "start_listener child_spec"}, {"cowboy", "start_clear start_tls"},
             {"Elixir.Plug.Cowboy", "http https child_spec"}, {"Elixir.Bandit", "start_link child_spec"})},
    {.name = "network_client",
     .summary = "connect to others, look names up",
     .held = "the node has a network of its own; what it reaches is decided outside of it",
     .needs = GUARD_NEEDS_NETWORK | GUARD_NEEDS_OUTGOING,
     IMPORTS({"gen_tcp", "connect"}, {"gen_udp", "open send connect"}, {"ssl", "connect"}, {"gen_sctp", "connect"},
             {"socket", "open connect"}, {"httpc", "request request_*"}, {"ftp", "open"}, {"ssh", "connect"},
             {"inet", "getaddr getaddrs gethostbyname gethostbyaddr"}, {"inet_res", "*"},
             {"hackney", "request get post put delete connect"}, {"gun", "open open_unix"},
             {"Elixir.Mint.HTTP", "connect"}, {"Elixir.Finch", "request request! stream"},
             {"Elixir.Req", "get get! post post! put put! request request! delete delete!"},
             {"Elixir.HTTPoison", "get get! post post! put put! request request! delete delete!"})},
    {.name = "os_command",
     .summary = "run programs",
     .held = "starting a program is refused",
     .needs = GUARD_NEEDS_EXEC,
     IMPORTS({"os", "cmd"}, {"Elixir.System", "cmd shell"}, {"Elixir.Mix.Shell", "cmd"})},
    {.name = "ports",
     .summary = "programs and drivers as ports",
     .held = "starting a program is refused",
     .needs = GUARD_NEEDS_EXEC,
     IMPORTS({"erlang", "open_port"}, {"Elixir.Port", "open"})},
    {.name = "nif",
     .summary = "native code inside the VM",
     .held = "the application's files can't be mapped executable",
     .needs = GUARD_NEEDS_NATIVE,
     IMPORTS({"erlang", "load_nif"}, {"erl_ddll", "load load_driver try_load reload reload_driver"})},
    {.name = "distribution",
     .summary = "other Erlang nodes",
     .held = "no other node is on the node's network",
     .needs = GUARD_NEEDS_NETWORK,
     IMPORTS({"net_kernel", "start connect_node hidden_connect_node"}, {"rpc", "*"}, {"erpc", "*"}, {"slave", "*"},
             {"peer", "start* call* cast send"}, {"erlang", "set_cookie spawn/2 spawn/4 spawn_link/4 monitor_node"},
             {"net_adm", "ping world*"}, {"Elixir.Node", "connect start spawn* set_cookie ping"},
             {"Elixir.Node", "monitor"})},
    {.name = "code_loading",
     .summary = "compile, evaluate and load code at run time",
     .held = "new code is in the same jail as the old",
     IMPORTS({"code", "load_binary load_file load_abs purge soft_purge delete add_path* set_path del_path replace_path "
                      "atomic_load finish_loading prepare_loading unstick_dir unstick_mod"},
             {"erlang", "load_module finish_loading purge_module delete_module"}, {"compile", "file forms noenv_*"},
             {"erl_eval", "*"}, {"c", "c l nc"},
             {"Elixir.Code",
              "eval_* compile_* require_file load_file append_path* prepend_path* purge_compiler_modules delete_path*"},
             {"Elixir.Module", "create eval_quoted"}, {"Elixir.Kernel.ParallelCompiler", "*"})},
};

const struct guard_operation *guard_operations(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(operations);
    return operations;
}

bool guard_text_is(struct beam_text text, const char *string) {
    return text.size == strlen(string) && memcmp(text.data, string, text.size) == 0;
}

/* ---- sets ---- */

static int find(const char *name, size_t length) {
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (strlen(operations[i].name) == length && memcmp(operations[i].name, name, length) == 0) return (int)i;
    return GUARD_NO_OPERATION;
}

int guard_operations_parse(const char *text, operation_set *ret, struct error *reterr) {
    static const char separators[] = ", \t";
    operation_set set = 0;
    for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
        size_t length = strcspn(text, separators);
        int operation = find(text, length);
        if (operation < 0)
            return error_set(reterr, E_INVALID, "there is no operation '%.*s'", (int)(length < 60 ? length : 60), text);
        set |= operation == 0 ? UINT32_MAX : (operation_set)1 << operation;
        text += length;
    }
    *ret = set;
    return 0;
}

unsigned guard_operations_need(operation_set set) {
    unsigned needs = 0;
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (set >> i & 1) needs |= operations[i].needs;
    return needs;
}

/* ---- calls ---- */

/* "read_file", "open/2", "list_*", "*" */
static bool word_matches(const char *word, size_t length, struct beam_text function, int arity) {
    const char *slash = memchr(word, '/', length);
    size_t name = slash ? (size_t)(slash - word) : length;
    if (slash && arity != SCAN_ANY_ARITY && arity != atoi(slash + 1)) return false;
    if (name > 0 && word[name - 1] == '*')
        return function.size >= name - 1 && memcmp(function.data, word, name - 1) == 0;
    return function.size == name && memcmp(function.data, word, name) == 0;
}

static bool rule_matches(const struct import_rule *rule, struct beam_text module, struct beam_text function,
                         int arity) {
    if (!guard_text_is(module, rule->module)) return false;
    for (const char *word = rule->functions; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (word_matches(word, length, function, arity)) return true;
        word += length;
    }
    return false;
}

static bool has_rule(const struct import_rule *rule, struct beam_text module, struct beam_text function, int arity) {
    for (; rule && rule->module; rule++)
        if (rule_matches(rule, module, function, arity)) return true;
    return false;
}

int operation_of_call(struct beam_text module, struct beam_text function, int arity) {
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (has_rule(operations[i].imports, module, function, arity)) return (int)i;
    return GUARD_NO_OPERATION;
}

int operation_of_writing(struct beam_text module, struct beam_text function, int arity) {
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (has_rule(operations[i].opens, module, function, arity)) return (int)i;
    return GUARD_NO_OPERATION;
}

/* ---- indirect calls ---- */

static const struct {
    const char *module, *function;
    uint32_t arity;
    int module_argument;
} indirect[] = {
    {"erlang", "apply", 3, 0},
    {"erlang", "spawn", 3, 0},
    {"erlang", "spawn_link", 3, 0},
    {"erlang", "spawn_monitor", 3, 0},
    {"erlang", "spawn_opt", 4, 0},
    {"erlang", "make_fun", 3, 0},
    {"erlang", "hibernate", 3, 0},
    {"proc_lib", "spawn", 3, 0},
    {"proc_lib", "spawn_link", 3, 0},
    {"proc_lib", "spawn_opt", 4, 0},
    {"proc_lib", "start", 3, 0},
    {"proc_lib", "start_link", 3, 0},
    {"timer", "apply_after", 4, 1},
    {"timer", "apply_interval", 4, 1},
    {"timer", "tc", 3, 0},
    {"Elixir.Function", "capture", 3, 0},
    {"Elixir.Task", "async", 3, 0},
    {"Elixir.Task", "start", 3, 0},
    {"Elixir.Task", "start_link", 3, 0},
    {"Elixir.Task.Supervisor", "async", 4, 1},
    {"Elixir.Task.Supervisor", "async_nolink", 4, 1},
    {"Elixir.Task.Supervisor", "start_child", 4, 1},
    {"Elixir.Agent", "start", 3, 0},
    {"Elixir.Agent", "start_link", 3, 0},
};

int indirect_module_argument(const struct beam_import *import) {
    for (size_t i = 0; i < ARRAY_SIZE(indirect); i++)
        if (indirect[i].arity == import->arity && guard_text_is(import->module, indirect[i].module) &&
            guard_text_is(import->function, indirect[i].function))
            return indirect[i].module_argument;
    return -1;
}
