/* The real launcher and real jails, as root and as an ordinary user; the probe inside tells what it could do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuse_server.h"
#include "launcher_freeze.h"
#include "launcher_life.h"

static void assert_line(const char *output, const char *line) {
    char marked[256];
    snprintf(marked, sizeof marked, "%s\n", line);
    const char *at = strstr(output, marked);
    if (!at || (at > output && at[-1] != '\n')) fail_msg("no line '%s' in:\n%s", line, output);
}

static void has_nothing_of_the_host(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES];
    client_probe(client, "bare", "env A=b\n",
                 "ids capabilities pid processes descriptors hostname directory write_root write_data write_probe "
                 "read_shadow init_memory init_descriptors fill_data run_data kill",
                 output);
    assert_line(output, "ids=1000:1000:0");
    assert_line(output, "capabilities=0");
    assert_line(output, "effective=0000000000000000");
    assert_line(output, "no_new_privs=1");
    assert_line(output, "seccomp=2");
    assert_line(output, "pid=2:1");
    assert_line(output, "processes=2");
    assert_line(output, "descriptors=3");
    assert_line(output, "hostname=bare");
    assert_line(output, "directory=/data");
    assert_line(output, "write_root=EROFS");
    assert_line(output, "write_data=ok");
    assert_line(output, "write_probe=EROFS");
    assert_line(output, "read_shadow=ENOENT");
    assert_line(output, "init_memory=EACCES");
    assert_line(output, "init_descriptors=EACCES");
    assert_line(output, "fill_data=ENOSPC");
    assert_line(output, "run_data=EPERM");
    assert_line(output, "kill=ok"); /* sent, and without effect on the namespace's first process */
}

/* Where bubblewrap does the same, the same comes out. */
static void is_as_tight_as_bubblewrap(void **state) {
    struct client *client = *state;
    static const char attempts[] =
        "ids capabilities pid processes hostname directory write_root write_data read_shadow kill";
    char ours[OUTPUT_BYTES], theirs[OUTPUT_BYTES] = "", command[1024];
    client_probe(client, "twin", "", attempts, ours);
    snprintf(command, sizeof command,
             "bwrap --unshare-all --uid 1000 --gid 1000 --cap-drop ALL --ro-bind %s/probe /probe --proc /proc "
             "--tmpfs /data --remount-ro / --chdir /data --hostname twin --setenv A b /probe %s",
             client->directory, attempts);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    assert_true(fread(theirs, 1, sizeof theirs - 1, pipe) > 0);
    assert_int_equal(pclose(pipe), 0);
    /* It has no filter of its own: the one difference. */
    char *filtered = strstr(theirs, "seccomp=0");
    assert_non_null(filtered);
    filtered[strlen("seccomp=")] = '2';
    assert_string_equal(ours, theirs);
}

static void forbidden_calls_are_refused_and_told(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES];
    client_probe(client, "calls", "", "inet mount ptrace unshare bpf keyctl packet inet", output);
    assert_line(output, "mount=EPERM");
    assert_line(output, "ptrace=EPERM");
    assert_line(output, "unshare=EPERM");
    assert_line(output, "bpf=EPERM");
    assert_line(output, "keyctl=EPERM");
    assert_line(output, "packet=EAFNOSUPPORT");
    assert_line(output, "inet=EAFNOSUPPORT");
    client_await(client, "violation calls syscall=mount count=1 detail=path=/data\n");
    client_await(client, "violation calls syscall=ptrace count=1 detail=\n");
    client_await(client, "violation calls syscall=unshare count=1 detail=\n");
    client_await(client, "violation calls syscall=bpf count=1 detail=\n");
    client_await(client, "violation calls syscall=keyctl count=1 detail=\n");
    client_await(client, "violation calls syscall=socket count=1 detail=family=packet\n");
    /* Every VM tries inet once as it boots, so the first is silent. */
    client_await(client, "detail=family=inet\n");
    const char *told = strstr(buf_string(&client->unasked), "detail=family=inet\n");
    assert_null(strstr(told + 1, "detail=family=inet\n"));
}

static void programs_are_counted(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES];
    client_probe(client, "counted", "execs 2\n", "exec exec exec", output);
    assert_string_equal(output, "exec=ok\nexec=EPERM\nexec=EPERM\n");
    client_await(client, "violation counted syscall=execve count=1 detail=path=/probe\n");
    client_probe(client, "uncounted", "", "exec exec exec", output);
    assert_string_equal(output, "exec=ok\nexec=ok\nexec=ok\n");
    assert_false(client_spawn(client, "none", "execs 0\n", "ids"));
    assert_non_null(strstr(client_detail(client), "start /probe"));
}

static void landlock_allows_what_the_plan_says(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES], more[512], path[128];
    snprintf(path, sizeof path, "%s/unruled", client->directory);
    write_file(path, "x", 0, 0644);
    snprintf(more, sizeof more, "bind %s /unruled\n", path);
    client_probe(client, "unruled", more, "read_unruled write_data exec", output);
    assert_string_equal(output, "read_unruled=ok\nwrite_data=ok\nexec=ok\n");
    snprintf(more, sizeof more, "bind %s /unruled\nread /proc\nexecute /probe\n", path);
    client_probe(client, "ruled", more, "read_unruled write_data exec processes", output);
    assert_string_equal(output, "read_unruled=EACCES\nwrite_data=EACCES\nexec=ok\nprocesses=2\n");
    snprintf(more, sizeof more, "bind %s /unruled\nread /probe\nwrite /data\nexecs 1\nread /unruled\n", path);
    assert_false(client_spawn(client, "noexec", more, "ids"));
    assert_non_null(strstr(client_detail(client), "Permission denied"));
}

static void each_network_is_its_own(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES];
    client_probe(client, "alone", "seccomp network\nnetwork none\n", "loopback", output);
    assert_string_equal(output, "loopback=ENETUNREACH\n");
    client_probe(client, "local", "seccomp network\nnetwork loopback\n", "loopback packet", output);
    assert_string_equal(output, "loopback=ok\npacket=EAFNOSUPPORT\n");
}

static void tells_what_a_node_died_of(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "exits", "", "fail"));
    client_await_death(client->fds[0]);
    client_assert_death(client, "exits", " cause=exited status=7 oom=0");
    assert_true(client_spawn(client, "crashes", "", "crash"));
    client_await_death(client->fds[0]);
    client_assert_death(client, "crashes", " cause=signaled status=11 oom=0");
    assert_true(client_spawn(client, "lives", "", "wait"));
    pid_t pid = (pid_t)client_number(client, "pid");
    client_assert_death(client, "lives", " cause=killed status=9 oom=0");
    assert_int_equal(kill(pid, 0), -1);
    client_assert_death(client, "never-was", " cause=unknown status=-1 oom=0");
}

static void memory_is_bounded(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "hungry", "", "exhaust"));
    client_await_death(client->fds[0]);
    client_assert_death(client, "hungry", " cause=oom status=9 oom=1");
}

static uint64_t bury_spinner(struct client *client, bool frozen) {
    char directory[256];
    assert_true(client_spawn(client, "spinner", "limit cpu 2\n", "ids spin"));
    client_directory(client, "memory=", directory);
    client_read_until(client->fds[1], "ids=");
    assert_int_equal(access(directory, F_OK), 0);
    if (frozen) assert_true(client_ask(client, "freeze", "spinner", -1));
    uint64_t begin_us = clock_monotonic_us();
    client_assert_death(client, "spinner", " cause=killed status=9 oom=0");
    uint64_t took_us = clock_monotonic_us() - begin_us;
    assert_int_equal(access(directory, F_OK), -1);
    return took_us;
}

/* Left to its quota, a spinner takes more than the bound to die, every time. A busy machine may exceed it too, but not
   so often. */
static void dies_at_once_throttled_or_frozen(void **state) {
    enum { BOUND_US = 100000, TRIES = 8 };
    struct client *client = *state;
    for (int frozen = 0; frozen < 2; frozen++) {
        uint64_t best_us = UINT64_MAX;
        for (int i = 0; i < TRIES && best_us >= BOUND_US; i++) {
            uint64_t took_us = bury_spinner(client, frozen);
            if (took_us < best_us) best_us = took_us;
        }
        print_message("buried in %llu us\n", (unsigned long long)best_us);
        assert_true(best_us < BOUND_US);
    }
}

static void yields_when_told_to(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "modest", "", "signal"));
    assert_true(client_ask(client, "yield", "modest on=1", -1));
    assert_true(client_ask(client, "yield", "modest on=0", -1));
    assert_true(client_ask(client, "yield", "modest on=1", -1));
    assert_true(client_limit(client, "modest", "limit cpu 50\n")); /* which sets its weight too */
    assert_false(client_ask(client, "yield", "modest", -1));
    assert_false(client_ask(client, "yield", "modest on=2", -1));
    assert_string_equal(client_detail(client), "on=1, or on=0");
    assert_false(client_ask(client, "yield", "nobody on=1", -1));
    assert_true(client_ask(client, "yield", "modest on=1", -1));
    assert_true(client_ask(client, "bury", "modest", -1));
}

static void limits_change_in_a_running_node(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "grows", "limit memory 60000000\n",
                             "hold signal data_size fill_data signal fill_data data_size wait"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening");
    assert_true(
        client_limit(client, "grows", "limit memory 60000000\nlimit cpu 50\nlimit os_tasks 20\nlimit disk 4194304\n"));
    kill(program, SIGUSR1);
    client_read_until(output_fd, "data_size=4194304\nfill_data=ENOSPC\nlistening=ok\n");
    assert_false(client_limit(client, "grows", "limit disk 1048576\n"));
    assert_true(string_starts(client->message, "conflict"));
    if (client->root) { /* refused as a whole: the disk is what it was, and has no room for more */
        assert_false(client_limit(client, "grows", "limit memory 16777216\nlimit disk 4198400\n"));
        assert_true(string_starts(client->message, "conflict"));
    }
    kill(program, SIGUSR1);
    client_read_until(output_fd, "signal=ok\nfill_data=ENOSPC\ndata_size=4194304\n");
    assert_true(client_ask(client, "bury", "grows", -1));
}

/* A kernel that has no such file counts these buffers as memory, or not at all. */
static void assert_socket_bound(const char *memory_directory, const char *expected) {
    char path[320], text[32] = "";
    snprintf(path, sizeof path, "%s/memory.kmem.tcp.limit_in_bytes", memory_directory);
    if (access(path, F_OK) < 0) return;
    assert_true(file_read_text(AT_FDCWD, path, text, sizeof text) > 0);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, expected);
}

static void buffers_of_sockets_are_bounded(void **state) {
    struct client *client = *state;
    char directory[256];
    assert_true(client_spawn(client, "talks", "limit socket_memory 4194304\n", "wait"));
    client_directory(client, "memory=", directory);
    assert_socket_bound(directory, "4194304");
    assert_true(client_limit(client, "talks", "limit socket_memory 2097152\n"));
    assert_socket_bound(directory, "2097152");
    assert_true(client_ask(client, "equip", "talks\nnode talks\nlimit socket_memory 8388608\n", -1));
    assert_socket_bound(directory, "8388608");
    assert_true(client_limit(client, "talks", "limit cpu 50\n")); /* none that is said is none that changes */
    assert_socket_bound(directory, "8388608");
    assert_true(client_ask(client, "bury", "talks", -1));
}

struct bad_plan {
    const char *more;
    const char *slug;
    const char *detail;
};

static void failing_spawns_leave_nothing(void **state) {
    struct client *client = *state;
    static const struct bad_plan plans[] = {
        {"bind /nonexistent /x\n", "system_error", "open /nonexistent: No such file or directory"},
        {"bind /etc/hostname /../x\n", "invalid_input", "/../x"},
        {"bind ../etc /x\n", "invalid_input", "../etc"},
        {"device sda\n", "invalid_input", "sda"},
        {"network host\n", "invalid_input", "host"},
        {"tmpfs /x 50\n", "invalid_input", "/x"},
        {"tmpfs /tmp 101\n", "invalid_input", "tmpfs of 101 is out of bounds"},
        {"project p99 /x\n", "malformed_data", ""}, /* a request, and no line of a plan */
        {"rlimit stack 1\n", "malformed_data", ""}, /* no line of a plan */
        {"limit colour 5\n", "invalid_input", "no limit 'colour'"},
        {"limit atoms 30000\n", "invalid_input", "no limit 'atoms'"}, /* the agent holds it */
        {"limit os_tasks 32\n", "invalid_input", "the limit os_tasks twice"},
        {"limit cpu 102401\n", "invalid_input", "limit cpu of 102401 is out of bounds"},
        {"limit network_rate 1\n", "invalid_input", "limit network_rate of 1 is out of bounds"},
        {"device full\n", "invalid_input", "full"},
        {"read /nowhere\n", "system_error", "Landlock rule for /nowhere"},
        {"seccomp loose\n", "invalid_input", "loose"},
        {"nonsense 1\n", "malformed_data", ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
        if (client_spawn(client, "bad", plans[i].more, "wait")) fail_msg("accepted: %s", plans[i].more);
        assert_true(string_starts(client->message, plans[i].slug));
        const char *detail = client_detail(client);
        if (!strstr(detail, plans[i].detail)) fail_msg("'%s' is not in '%s'", plans[i].detail, detail);
        assert_true(client_ask(client, "bury", "bad", -1));
        assert_string_equal(client->message, " cause=unknown status=-1 oom=0");
    }
    assert_true(client_spawn(client, "twice", "", "wait"));
    assert_false(client_spawn(client, "twice", "", "wait"));
    assert_true(string_starts(client->message, "already_exists"));
    assert_true(client_ask(client, "bury", "twice", -1));
}

static void binds_with_the_daemons_rights_only(void **state) {
    struct client *client = *state;
    char directory[128], more[256];
    snprintf(directory, sizeof directory, "%s/private", client->directory);
    make_directory(directory, 0, 0700);
    snprintf(more, sizeof more, "bind %s/inner /x\n", directory);
    assert_false(client_spawn(client, "thief", more, "wait"));
    assert_non_null(strstr(client_detail(client), "Permission denied"));
}

static void mounts_into_a_running_node(void **state) {
    struct client *client = *state;
    char directory[128], path[160], rest[256];
    snprintf(directory, sizeof directory, "%s/one", client->directory);
    snprintf(path, sizeof path, "%s/file", directory);
    make_directory(directory, client->daemon_uid, 0755);
    write_file(path, "x", client->daemon_uid, 0644);
    assert_true(client_spawn(client, "later", "read /app\nexecute /probe\nwrite /data\n", "signal app"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening");
    snprintf(rest, sizeof rest, "later %s /app/one", directory);
    if (!client_ask(client, "mount", rest, -1)) fail_msg("%s", client_detail(client));
    kill(program, SIGUSR1);
    client_read_until(output_fd, "app=ok\napp_write=EROFS\n");
    assert_false(client_ask(client, "mount", "later /nonexistent /app/two", -1));
    assert_false(client_ask(client, "mount", "later / /app/../data", -1));
    assert_true(client_ask(client, "bury", "later", -1));
}

/* Whether the mount at that place has the option, as a process of the node sees it. */
static bool mount_has(pid_t pid, const char *place, const char *option) {
    char path[64], line[1024], target[256], options[512];
    bool has = false, found = false;
    snprintf(path, sizeof path, "/proc/%d/mounts", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) {
        found = sscanf(line, "%*s %255s %*s %511s", target, options) == 2 && strcmp(target, place) == 0;
        has = found && strstr(options, option);
    }
    fclose(file);
    assert_true(found);
    return has;
}

/* As the kernel shows it: "Max open files  48  64  files". */
static void assert_soft_limit(pid_t pid, const char *name, const char *expected) {
    char path[64], line[256], value[32] = "";
    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (!value[0] && fgets(line, sizeof line, file))
        if (string_starts(line, name)) assert_int_equal(sscanf(line + strlen(name), "%31s", value), 1);
    fclose(file);
    assert_string_equal(value, expected);
}

/* Up to what it was started with, and back. */
static void changes_limits_of_a_running_process(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "grows", "", "wait"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    assert_true(client_limit(client, "grows", "limit descriptors 64\nlimit file_size 67108864\n"));
    assert_soft_limit(program, "Max open files", "64");
    assert_soft_limit(program, "Max file size", "67108864");
    assert_false(client_limit(client, "grows", "limit descriptors 129\n"));
    assert_non_null(strstr(client_detail(client), "more descriptors than the 128 it was started with"));
    assert_soft_limit(program, "Max open files", "64");
    assert_true(client_limit(client, "grows", "limit descriptors 128\n"));
    assert_soft_limit(program, "Max open files", "128");
    assert_soft_limit(program, "Max file size", "unlimited");
    assert_true(client_ask(client, "bury", "grows", -1));
}

/* In ns; 0: the kernel's own. Laid out as the kernel has it; its header and libc's can't be included together. */
static uint64_t slice_of(pid_t pid) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } found = {0};
    return syscall(SYS_sched_getattr, pid, &found, sizeof found, 0) == 0 ? found.runtime_ns : 0;
}

/* The service goes before its nodes, and they don't inherit that. */
static void nodes_have_an_ordinary_priority(void **state) {
    struct client *client = *state;
    assert_true(client_spawn(client, "meek", "", "wait"));
    pid_t init = (pid_t)client_number(client, "pid");
    int ordinary = client->root ? 0 : getpriority(PRIO_PROCESS, 0); /* a user's launcher can't go back from less */
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)init), ordinary);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)client_program_of(init)), ordinary);
    if (client->root) assert_int_equal(getpriority(PRIO_PROCESS, (id_t)client->launcher), -10);
    assert_in_range(slice_of(client_program_of(init)), 0, 500000);
    assert_true(client_ask(client, "bury", "meek", -1));
}

static void hands_out_what_tells_a_disks_use(void **state) {
    struct client *client = *state;
    struct statfs disk;
    char byte;
    assert_true(client_spawn(client, "stores", "tmpfs /tmp 25\n", "wait"));
    assert_true(client_ask(client, "disk", "stores", -1));
    assert_int_equal(fstatfs(client->fds[1], &disk), 0);
    assert_int_equal(disk.f_blocks * (uint64_t)disk.f_bsize, 262144);
    assert_int_equal(fstatfs(client->fds[0], &disk), 0);
    assert_int_equal(disk.f_blocks, disk.f_bfree);
    assert_int_equal(read(client->fds[0], &byte, 1), -1);
    assert_int_equal(errno, EBADF);
    assert_true(client_ask(client, "bury", "stores", -1));
    assert_false(client_ask(client, "disk", "stores", -1));
    assert_true(string_starts(client->message, "not_found"));
}

/* Limits and files at once, as for a pooled node. */
static void equips_a_running_node(void **state) {
    struct client *client = *state;
    char one[128], two[128], path[160], request[512];
    snprintf(one, sizeof one, "%s/equip-one", client->directory);
    snprintf(two, sizeof two, "%s/equip-two", client->directory);
    make_directory(one, client->daemon_uid, 0755);
    make_directory(two, client->daemon_uid, 0755);
    snprintf(path, sizeof path, "%s/file", one);
    write_file(path, "x", client->daemon_uid, 0644);
    assert_true(client_spawn(client, "waits", "read /app\nexecute /probe\nwrite /data\n", "signal app data_size wait"));
    pid_t program = client_program_of((pid_t)client_number(client, "pid"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "listening");
    assert_false(client_ask(client, "equip", "waits\nnode other\nlimit memory 30000000\n", -1));
    assert_non_null(strstr(client_detail(client), "another node's"));
    assert_false(client_ask(client, "equip", "waits\nnode waits\nlimit memory 30000000\ntmpfs /tmp 1\n", -1));
    assert_non_null(strstr(client_detail(client), "tmpfs"));
    assert_false(client_ask(client, "equip", "waits", -1));
    assert_false(client_ask(client, "equip", "nobody\nnode nobody\nlimit memory 30000000\n", -1));
    snprintf(request, sizeof request,
             "waits\nnode waits\nlimit memory 20000000\nlimit cpu 50\nlimit os_tasks 20\nlimit disk 4194304\n"
             "limit descriptors 96\nlimit file_size 67108864\nbind %s /app/one\n"
             "bind-exec %s /app/two\n",
             one, two);
    if (!client_ask(client, "equip", request, -1)) fail_msg("%s", client_detail(client));
    kill(program, SIGUSR1);
    client_read_until(output_fd, "app=ok\napp_write=EROFS\ndata_size=4194304\n");
    assert_soft_limit(program, "Max open files", "96");
    assert_soft_limit(program, "Max file size", "67108864");
    assert_true(mount_has(program, "/app/one", "noexec"));
    assert_false(mount_has(program, "/app/two", "noexec"));
    assert_true(mount_has(program, "/app/two", "ro,nosuid,nodev"));
    assert_true(client_ask(client, "bury", "waits", -1));
}

/* All told of, by however many messages. */
static uint64_t violations_of(struct client *client, const char *node) {
    char marked[96];
    uint64_t sum = 0;
    snprintf(marked, sizeof marked, "violation %s syscall=unshare count=", node);
    for (const char *at = buf_string(&client->unasked); (at = strstr(at, marked)); at += strlen(marked))
        sum += strtoull(at + strlen(marked), NULL, 10);
    return sum;
}

static void a_flood_is_counted_not_told(void **state) {
    struct client *client = *state;
    char output[OUTPUT_BYTES];
    buf_clear(&client->unasked);
    assert_true(client_spawn(client, "flood", "", "flood wait"));
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    client_read_until(output_fd, "flood=2000");
    while (violations_of(client, "flood") < 2000) client_pump(client);
    assert_int_equal(violations_of(client, "flood"), 2000);
    size_t messages = 0;
    for (const char *at = buf_string(&client->unasked); (at = strstr(at, "violation flood")); at++) messages++;
    assert_in_range(messages, 2, 30);
    assert_true(client_ask(client, "bury", "flood", -1));
    /* Another node's are told at once meanwhile. */
    client_probe(client, "calm", "", "unshare", output);
    client_await(client, "violation calm syscall=unshare count=1 detail=\n");
}

/* Whatever reads a node's memory waits for what the node does with it, such as mapping a file of a file system that is
   silent. */
static void memory_that_is_not_to_be_read_holds_nobody_up(void **state) {
    struct client *client = *state;
    char served[128], more[256];
    snprintf(served, sizeof served, "%s/served", client->directory);
    make_directory(served, 0, 0755);
    pid_t server = fuse_server_start(served, FUSE_SILENT_ON_READ);
    if (!server) skip();
    snprintf(more, sizeof more, "bind %s /served\n", served);
    bool is_spawned = client_spawn(client, "held", more, "mount_held wait");
    CLEANUP_FD int output_fd = take_fd(&client->fds[1]);
    if (is_spawned) client_read_until(output_fd, "mapped=ok");
    if (is_spawned) fuse_server_await_silence();
    client_send(client, "bury 999997 none", -1);
    bool is_answered = poll(&(struct pollfd){client->link_fd, POLLIN, 0}, 1, 5000) == 1;
    bool is_buried = is_answered && client_ask(client, "bury", "held", -1);
    fuse_server_end(server, served);
    assert_true(is_spawned && is_buried);
}

static void an_old_kernel_refuses_without_asking(void **state) {
    (void)state;
    static struct client old;
    char output[OUTPUT_BYTES];
    client_open_on_old_kernel(&old, true);
    client_probe(&old, "quiet", "", "mount unshare inet exec exec exec", output);
    assert_string_equal(output, "mount=EPERM\nunshare=EPERM\ninet=EAFNOSUPPORT\nexec=ok\nexec=ok\nexec=ok\n");
    assert_null(strstr(buf_string(&old.unasked), "violation"));
    assert_false(client_spawn(&old, "counted", "execs 2\n", "wait"));
    assert_true(string_starts(old.message, "guarantee_missing"));
    client_close(&old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(has_nothing_of_the_host),
        ROOT(is_as_tight_as_bubblewrap),
        BOTH(forbidden_calls_are_refused_and_told),
        BOTH(programs_are_counted),
        BOTH(landlock_allows_what_the_plan_says),
        BOTH(each_network_is_its_own),
        BOTH(tells_what_a_node_died_of),
        ROOT(memory_is_bounded),
        ROOT(dies_at_once_throttled_or_frozen),
        ROOT(yields_when_told_to),
        ROOT(one_that_yields_freezes_and_thaws),
        BOTH(freezes_and_thaws),
        BOTH(whoever_forks_stands_still_too),
        BOTH(others_are_served_while_many_are_stopped),
        BOTH(a_thaw_or_an_end_calls_a_freeze_off),
        BOTH(what_does_not_come_to_stand_still_goes_on),
        BOTH(limits_change_in_a_running_node),
        ROOT(buffers_of_sockets_are_bounded),
        BOTH(failing_spawns_leave_nothing),
        BOTH(binds_with_the_daemons_rights_only),
        BOTH(mounts_into_a_running_node),
        BOTH(equips_a_running_node),
        BOTH(changes_limits_of_a_running_process),
        BOTH(nodes_have_an_ordinary_priority),
        BOTH(hands_out_what_tells_a_disks_use),
        ROOT(a_flood_is_counted_not_told),
        ROOT(memory_that_is_not_to_be_read_holds_nobody_up),
        ROOT(a_record_that_lies_is_not_believed),
        ROOT(a_policy_that_says_nothing_ends_its_node),
        BOTH(a_new_launcher_adopts),
        BOTH(a_new_launcher_clears_away_the_dead),
        BOTH(refuses_what_it_cant_serve),
        BOTH(answers_only_the_daemon),
        BOTH(bad_messages_end_the_link_not_the_launcher),
        BOTH(sigterm_leaves_nodes_running),
        cmocka_unit_test(an_old_kernel_refuses_without_asking),
    };
    return cmocka_run_group_tests(tests, clients_open, clients_close);
}
