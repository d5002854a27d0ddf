/* sandboxd: the unprivileged service. Opens its parts, runs the loop, and closes them in order. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api/api.h"
#include "confine/confine.h"
#include "core/core.h"
#include "daemon/log_file.h"
#include "daemon/settings.h"
#include "loop/loop.h"

enum {
    LARGE_BYTES = 256 << 10,
    BACKLOG = 256, /* a client that dials without end fills it, and others wait behind: a few milliseconds of dials */
};

struct daemon {
    int argc;
    char **argv;
    uv_loop_t loop;
    uv_signal_t on_term, on_int;
    struct settings settings;
    struct log log;
    struct loop_watch *watch;
    struct principals principals;
    struct quotas *quotas;
    struct engine *engine;
    struct api *api;
    bool ending;
};

static int fail(const struct daemon *daemon, const char *event, const struct error *error) {
    log_line(&daemon->log, LOG_ERROR_LEVEL, event, "detail", error->detail, NULL);
    fprintf(stderr, "sandboxd: %s\n", error->detail);
    return error_kind(error->code)->exit_code;
}

/* ---- one daemon per home ---- */

static int take_lock(const char *home, struct error *reterr) {
    char path[PATH_MAX], pid[32];
    int result = string_format(path, sizeof path, reterr, "%s/daemon.lock", home);
    if (result < 0) return result;
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return error_errno(reterr, errno, "opening %s", path);
    if (!file_lock(fd)) return error_set(reterr, E_CONFLICT, "another sandboxd serves %s already", home);
    int length = snprintf(pid, sizeof pid, "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || write(fd, pid, (size_t)length) != length)
        return error_errno(reterr, errno, "writing %s", path);
    return take_fd(&fd);
}

static int open_socket(const char *home, struct error *reterr) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", home) >= (int)sizeof address.sun_path)
        return error_set(reterr, E_INVALID, "the path %s/api.sock is longer than the %zu bytes a socket may have", home,
                         sizeof address.sun_path - 1);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_errno(reterr, errno, "making a socket");
    stranger_refuse_descriptors(fd); /* before a client can dial; the api finds out whether it worked */
    unlink(address.sun_path);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(reterr, errno, "binding %s", address.sun_path);
    /* The uid of each caller decides what it may do, not the permission to connect. */
    if (chmod(address.sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0)
        return error_errno(reterr, errno, "listening on %s", address.sun_path);
    return take_fd(&fd);
}

/* The lock is still ours, so the socket can't be a later daemon's. */
static void remove_socket(const char *home) {
    char path[PATH_MAX];
    if (string_format(path, sizeof path, NULL, "%s/api.sock", home) == 0) unlink(path);
}

/* ---- ending: requests first, then the engine, then the loop runs empty ---- */

static void on_engine_closed(void *data) {
    struct daemon *daemon = data;
    loop_watch_close(daemon->watch);
    uv_close((uv_handle_t *)&daemon->on_term, NULL);
    uv_close((uv_handle_t *)&daemon->on_int, NULL);
}

static void on_api_closed(void *data) {
    struct daemon *daemon = data;
    engine_close(daemon->engine, on_engine_closed, daemon);
}

static void end(void *data) {
    struct daemon *daemon = data;
    if (daemon->ending) return;
    daemon->ending = true;
    engine_quiesce(daemon->engine);
    api_close(daemon->api, on_api_closed, daemon);
}

static void on_signal(uv_signal_t *signal, int number) {
    (void)number;
    end(signal->data);
}

static void watch_signal(struct daemon *daemon, uv_signal_t *signal, int number) {
    uv_signal_init(&daemon->loop, signal);
    signal->data = daemon;
    uv_signal_start(signal, on_signal, number);
}

static void on_left_out(void *data, uid_t uid, uint64_t count) {
    const struct daemon *daemon = data;
    char uid_text[16], count_text[32];
    snprintf(uid_text, sizeof uid_text, "%u", uid);
    snprintf(count_text, sizeof count_text, "%llu", (unsigned long long)count);
    log_line(&daemon->log, LOG_WARN_LEVEL, "left_out", "uid", uid_text, "count", count_text, "why",
             "quota \"log\" was used up", NULL);
}

static bool find_user(const char *name, uid_t *ret) {
    return quota_find_user(name, ret, NULL) == 0;
}

static int open_quotas(struct daemon *daemon, struct error *reterr) {
    struct quotas_config config = {.rules = &daemon->settings.quotas,
                                   .service_uid = daemon->settings.admin_uid,
                                   .principals = &daemon->principals,
                                   .left_out = on_left_out,
                                   .data = daemon};
    principals_load(find_user, &daemon->principals);
    return quotas_open(&config, &daemon->quotas, reterr);
}

/* ---- settings that are read again ---- */

static int read_again(void *data, void **ret, const struct engine_config **ret_config, struct error *reterr) {
    const struct daemon *daemon = data;
    struct settings *next = calloc(1, sizeof *next);
    if (!next) return error_set(reterr, E_NO_MEMORY, "no memory for the settings");
    int result = settings_read(daemon->argc, daemon->argv, next, reterr);
    if (result < 0) {
        free(next);
        return result;
    }
    *ret = next;
    *ret_config = &next->engine;
    return 0;
}

static void adopt_read(void *data, void *read, json_t *told) {
    struct daemon *daemon = data;
    settings_adopt(&daemon->settings, read, told);
    free(read);
}

static void discard_read(void *data, void *read) {
    (void)data;
    free(read);
}

static int serve(struct daemon *daemon, struct error *reterr) {
    const struct settings *settings = &daemon->settings;
    struct engine_config engine_config = settings->engine;
    struct api_config api_config;
    api_config_defaults(&api_config);
    engine_config.log = api_config.log = &daemon->log;
    api_config.admin_uid = settings->admin_uid;
    int result = loop_watch_open(&daemon->loop, &daemon->watch, reterr);
    if (result == 0) result = open_quotas(daemon, reterr);
    if (result < 0) return result;
    engine_config.quotas = api_config.quotas = daemon->quotas;
    engine_config.principals = &daemon->principals;
    result = engine_open(&daemon->loop, &engine_config, &daemon->engine, reterr);
    if (result < 0) return result;
    api_config.listen_fd = open_socket(settings->engine.home, reterr);
    if (api_config.listen_fd < 0) return api_config.listen_fd;
    result = api_open(&daemon->loop, daemon->engine, &api_config, &daemon->api, reterr);
    if (result < 0) return result;
    engine_on_shutdown(daemon->engine, end, daemon);
    engine_on_reload_config(daemon->engine, &(struct settings_source){read_again, adopt_read, discard_read, daemon});
    watch_signal(daemon, &daemon->on_term, SIGTERM);
    watch_signal(daemon, &daemon->on_int, SIGINT);
    log_line(&daemon->log, LOG_INFO_LEVEL, "serving", "home", settings->engine.home, "version", SANDBOX_VERSION, NULL);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    remove_socket(settings->engine.home);
    daemon->quotas = quotas_close(daemon->quotas);
    principals_free(&daemon->principals);
    return 0;
}

/* Freed memory is merged at once. Left for later, as is the allocator's habit, the small pieces of a huge request would
   be merged by the loop, a million in one turn, when it next frees something large. */
static void set_allocator(void) {
    mallopt(M_MXFAST, 0);
    /* Fixed: by itself the allocator would keep more the larger a stranger's request was. */
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * LARGE_BYTES);
}

/* Before there are other threads and before anything of a stranger's is read. Sanitizers look into their own process in
   ways that no filter should allow. A kernel without filters is no reason not to serve: nodes lose more by it. */
static void confine(const struct daemon *daemon) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct error error;
    if (confine_daemon(&error) < 0)
        log_line(&daemon->log, LOG_WARN_LEVEL, "daemon_unfiltered", "detail", error.detail, NULL);
#else
    (void)daemon;
#endif
}

int main(int argc, char **argv) {
    static struct daemon daemon = {.log = {.fd = STDERR_FILENO, .level = LOG_INFO_LEVEL}};
    struct error error;
    set_allocator();
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "sandboxd"); /* executed by a descriptor, it would be called by the descriptor's number */
    if (getenv("SANDBOX_TEST_CLOCK")) clock_step_wall_by_file(getenv("SANDBOX_TEST_CLOCK")); /* tests step it */
    daemon.argc = argc;
    daemon.argv = argv;
    if (settings_read(argc, argv, &daemon.settings, &error) < 0) return fail(&daemon, "bad_settings", &error);
    if (daemon.settings.show_only) return 0;
    confine(&daemon);
    CLEANUP_FD int lock = take_lock(daemon.settings.engine.home, &error);
    if (lock < 0) return fail(&daemon, "not_started", &error);
    struct log_file *log_file = NULL;
    if (log_file_open(daemon.settings.engine.home, daemon.settings.log_max_bytes, &log_file, &error) < 0)
        return fail(&daemon, "not_started", &error);
    if (log_file) daemon.log.fd = log_file_fd(log_file);
    uv_loop_init(&daemon.loop);
    if (serve(&daemon, &error) < 0) {
        int status = fail(&daemon, "not_started", &error);
        log_file_close(log_file);
        return status;
    }
    int leaked = uv_loop_close(&daemon.loop);
    log_line(&daemon.log, LOG_INFO_LEVEL, "ended", "clean", leaked == 0 ? "yes" : "no", NULL);
    log_file_close(log_file);
    return leaked == 0 ? 0 : 1;
}
