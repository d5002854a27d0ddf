/* A service with sandboxes of root and of another user, which attack nothing and must not notice anything. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "siege.h"

enum { SHUTDOWN_MAX_MS = 30000, FIRST_COUNT = 41 };

struct victim {
    const char *id;
    uid_t owner;
};

static const struct victim victims[] = {
    {NEIGHBOUR, 0}, {"root-1", 0}, {"root-2", 0}, {"other-1", UID_VICTIM}, {"other-2", UID_VICTIM},
};

void arena_find(struct arena *arena, const char *work) {
    if (string_format(arena->work, PATH_MAX, NULL, "%s", work) < 0 ||
        string_format(arena->home, PATH_MAX, NULL, "%s/home", work) < 0 ||
        string_format(arena->counter, PATH_MAX, NULL, "%s/counter_erl", work) < 0 ||
        string_format(arena->inside, PATH_MAX, NULL, "%s/siege.erl", work) < 0)
        bench_end("a path is too long", work);
}

struct sbx *arena_client(const char *home) {
    struct sbx_options how = SBX_OPTIONS_INIT;
    struct sbx *client = NULL;
    struct sbx_error error;
    how.home = home;
    how.flags = SBX_NO_AUTOSTART;
    how.timeout_ms = PATIENCE_MS;
    return sbx_open_with(&how, &client, &error) < 0 ? NULL : client;
}

/* Both clear what the kernel does to a child whose parent ends, so that is asked for last. */
static void become(uid_t uid) {
    if (uid != 0 && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)) _exit(2);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() == 1) _exit(2);
}

pid_t arena_fork_as(uid_t uid, int (*run)(void *data), void *data) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) bench_end("fork", strerror(errno));
    if (child > 0) return child;
    become(uid);
    _exit(run(data));
}

/* ---- the victims ---- */

struct task {
    const struct arena *arena;
    const char *id;
};

static int create_counted(void *data) {
    const struct task *task = data;
    struct sbx *client = arena_client(task->arena->home);
    struct sbx_error error = {0};
    char code[48];
    snprintf(code, sizeof code, "counter:increment(%d)", FIRST_COUNT);
    int result = client ? sbx_create(client, task->id, task->arena->counter, NULL, NULL, &error) : -1;
    if (result == 0) result = sbx_eval(client, task->id, code, NULL, NULL, &error);
    if (result < 0) fprintf(stderr, "%s: %s\n", task->id, error.detail);
    return result < 0;
}

/* All at once: booting takes longest. */
static void create_victims(struct arena *arena) {
    pid_t children[ARRAY_SIZE(victims)];
    for (size_t i = 0; i < ARRAY_SIZE(victims); i++) {
        struct task task = {arena, victims[i].id};
        children[i] = arena_fork_as(victims[i].owner, create_counted, &task);
    }
    for (size_t i = 0; i < ARRAY_SIZE(victims); i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        if (status != 0) bench_end("a victim's sandbox", victims[i].id);
    }
}

/* The service answers even where it has been ill: it is asked with new connections. NULL: the same sandbox with its
   count; else what it is now, to be freed. */
static char *what_became_of(struct sbx *client, const char *id) {
    CLEANUP_FREE char *text = NULL, *answer = NULL;
    struct sbx_error error = {0};
    if (!client || sbx_info(client, id, &text, &error) < 0) return string_print("%s: %s", id, error.detail);
    json_t *info = json_loads(text, 0, NULL);
    const char *status = json_string_value(json_object_get(info, "status"));
    const char *reason = json_string_value(json_object_get(json_object_get(info, "last_error"), "detail"));
    char *fate = string_equal(status, "running") ? NULL : string_print("%s: %s, %s", id, status, reason ? reason : "");
    json_decref(info);
    if (fate) return fate;
    if (sbx_eval(client, id, "counter:value()", NULL, &answer, &error) < 0)
        return string_print("%s: %s", id, error.detail);
    json_t *value = json_loads(answer, 0, NULL);
    bool is_same = json_integer_value(json_object_get(value, "result")) >= FIRST_COUNT;
    json_decref(value);
    return is_same ? NULL : string_print("%s: its count is lost", id);
}

json_t *arena_verdict(struct arena *arena) {
    struct sbx *client = arena_client(arena->home);
    CLEANUP_FREE char *first = NULL;
    int ended = 0;
    for (size_t i = 0; i < ARRAY_SIZE(victims); i++) {
        char *fate = what_became_of(client, victims[i].id);
        if (!fate) continue;
        ended++;
        if (first)
            free(fate);
        else
            first = fate;
    }
    sbx_close(client);
    return json_pack("{s:i, s:i, s:s*, s:b}", "ended", ended, "of", (int)ARRAY_SIZE(victims), "first", first,
                     "daemon_died", client_lock_owner(arena->home, "daemon.lock") != arena->daemon);
}

/* ---- the service ---- */

static void end_service(struct arena *arena) {
    struct client_watch watch;
    client_watch_open(arena->home, &watch);
    struct sbx *client = arena_client(arena->home);
    bool ended = client && sbx_op(client, "shutdown", NULL, NULL, NULL) == 0;
    ended = client_watch_wait(&watch, SHUTDOWN_MAX_MS) && ended;
    client_watch_close(&watch);
    sbx_close(client);
    if (ended) return;
    /* Crash-only: what a killed daemon leaves, the next one finds and ends. */
    pid_t daemon = client_lock_owner(arena->home, "daemon.lock");
    if (daemon > 0) kill(daemon, SIGKILL);
}

void arena_open(struct arena *arena) {
    struct sbx_error error;
    struct sbx_options how = SBX_OPTIONS_INIT;
    how.home = arena->home;
    how.timeout_ms = PATIENCE_MS;
    if (sbx_open_with(&how, &arena->service, &error) < 0) bench_end("the service", error.detail);
    arena->daemon = client_lock_owner(arena->home, "daemon.lock");
    create_victims(arena);
}

void arena_close(struct arena *arena) {
    sbx_close(arena->service);
    arena->service = NULL;
    end_service(arena);
}
