/* The boot file of a toolchain: made once by a VM of it, in a jail, and kept in the home. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "node/node_internal.h"

enum {
    ANSWER_MAX_BYTES = 256 * 1024, /* ten times what an OTP with Elixir says */
    FACTS_MAX_BYTES = 8 * 1024,    /* read in one turn of the loop */
    PROBE_DEADLINE_MS = 20000,
};

struct probe {
    struct node_host *host;
    struct toolchain *toolchain;
    toolchain_probed_fn done;
    void *data;
    char name[NODE_NAME_BYTES];
    struct buf answer;
    uv_pipe_t output;
    uv_timer_t deadline;
    uint64_t due_ms; /* by loop_attended_ms */
    bool output_open, deadline_open;
    unsigned open_handles;
    bool spawned, burying;
    int status;         /* that the VM ended with; -1: not known */
    struct error error; /* code E_NONE: all is well so far */
    uv_work_t work;
    struct error not_kept; /* of the thread that keeps the answer */
};

static int facts_path(const struct probe *probe, const char *name, char ret[PATH_MAX], struct error *reterr) {
    return string_format(ret, PATH_MAX, reterr, "%s/toolchain/%s/%s", probe->host->home, probe->toolchain->digest,
                         name);
}

/* ---- reading what was found before ---- */

/* "OTP_RELEASE 25" and "ELIXIR_VERSION 1.14.0", one fact per line; others are for people. A VM may say anything. */
static void take_fact(struct toolchain *toolchain, const char *line) {
    const struct {
        const char *name;
        char *field;
    } facts[] = {{"OTP_RELEASE ", toolchain->otp_release},
                 {"OTP_VERSION ", toolchain->otp_version},
                 {"ELIXIR_VERSION ", toolchain->elixir_version}};
    char value[32];
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        if (!string_starts(line, facts[i].name)) continue;
        const char *text = line + strlen(facts[i].name);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(text, " \t\r\n"), text);
        if (toolchain_version_is_plain(value)) memcpy(facts[i].field, value, sizeof value);
    }
}

static bool use_known(struct probe *probe) {
    struct toolchain *toolchain = probe->toolchain;
    char facts[PATH_MAX], boot[PATH_MAX], line[256];
    struct error ignored;
    if (facts_path(probe, "facts", facts, &ignored) < 0 || facts_path(probe, "node.boot", boot, &ignored) < 0)
        return false;
    FILE *file = access(boot, R_OK) == 0 ? fopen(facts, "re") : NULL;
    if (!file) return false;
    for (size_t size = 0; size < FACTS_MAX_BYTES && fgets(line, sizeof line, file); size += strlen(line))
        take_fact(toolchain, line);
    fclose(file);
    if (toolchain->elixir_version[0] &&
        toolchain_check_fit(toolchain_generation(toolchain), toolchain->elixir_version, &probe->error) < 0)
        return true;
    snprintf(toolchain->boot_dir, sizeof toolchain->boot_dir, "%s/toolchain/%s", probe->host->home, toolchain->digest);
    return true;
}

/* ---- writing what a VM answered ---- */

static int write_file(const char *path, const void *data, size_t size, struct error *reterr) {
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) return error_errno(reterr, errno, "writing %s", path);
    return 0;
}

static int save(const struct probe *probe, const char *encoded, size_t length, struct error *reterr) {
    char folder[PATH_MAX], path[PATH_MAX];
    CLEANUP(buf_free) struct buf boot = BUF_INIT;
    int result =
        string_format(folder, sizeof folder, reterr, "%s/toolchain/%s", probe->host->home, probe->toolchain->digest);
    if (result == 0 && mkdir(folder, 0755) < 0 && errno != EEXIST)
        result = error_errno(reterr, errno, "making %s", folder);
    if (result == 0 && !base64_decode(encoded, length, &boot))
        result = error_set(reterr, E_TOOLCHAIN, "the boot file came damaged");
    if (result == 0) result = facts_path(probe, "node.boot", path, reterr);
    if (result == 0) result = write_file(path, boot.data, boot.size, reterr);
    if (result == 0) result = facts_path(probe, "facts", path, reterr);
    const char *facts = encoded + length;
    return result < 0 ? result : write_file(path, facts, strnlen(facts, FACTS_MAX_BYTES), reterr);
}

static int tell_last_words(const struct probe *probe, const char *text, struct error *reterr) {
    enum { WORDS_BYTES = 400 };
    static const char ours[] = "SBXERROR "; /* what the agent's module says begins so; the rest is the VM's own */
    CLEANUP(buf_free) struct buf shown = BUF_INIT;
    const char *said = strstr(text, ours);
    if (said) text = said + strlen(ours);
    size_t length = said ? strnlen(text, WORDS_BYTES) : strlen(text);
    while (length > 0 && strchr(" \r\n", text[length - 1])) length--;
    size_t skipped = length > WORDS_BYTES ? length - WORDS_BYTES : 0;
    escape_text(&shown, text + skipped, length - skipped);
    if (shown.size == 0) buf_printf(&shown, "it ended with status %d and said nothing", probe->status);
    return error_set(reterr, E_TOOLCHAIN, "the VM of %s could not make a boot file: %s", probe->toolchain->otp_root,
                     buf_string(&shown));
}

/* The boot file on a line of its own, then a fact per line. */
static int keep_answer(struct probe *probe, struct error *reterr) {
    if (probe->answer.failed)
        return error_set(reterr, E_TOOLCHAIN, "the VM of %s says more than %d bytes", probe->toolchain->otp_root,
                         ANSWER_MAX_BYTES);
    const char *text = buf_string(&probe->answer);
    const char *line = strstr(text, "SBXBOOT ");
    if (!line) return tell_last_words(probe, text, reterr);
    const char *encoded = line + strlen("SBXBOOT ");
    return save(probe, encoded, strcspn(encoded, "\n"), reterr);
}

/* On a thread: a stranger's VM decides how much there is to decode and write. */
static void run_keep_answer(uv_work_t *work) {
    struct probe *probe = work->data;
    keep_answer(probe, &probe->not_kept);
}

/* ---- running the VM ---- */

static void on_closed(uv_handle_t *handle) {
    struct probe *probe = handle->data;
    if (--probe->open_handles > 0) return;
    probe->toolchain->probe = NULL;
    probe->done(probe->data, probe->error.code ? &probe->error : NULL);
    buf_free(&probe->answer);
    free(probe);
}

static void close_all(struct probe *probe) {
    if (probe->output_open) uv_close((uv_handle_t *)&probe->output, on_closed);
    probe->output_open = false;
    if (probe->deadline_open) uv_close((uv_handle_t *)&probe->deadline, on_closed);
    probe->deadline_open = false;
}

static void on_kept(uv_work_t *work, int status) {
    struct probe *probe = work->data;
    (void)status;
    if (probe->error.code == E_NONE) probe->error = probe->not_kept;
    if (probe->error.code == E_NONE && !use_known(probe))
        error_set(&probe->error, E_TOOLCHAIN, "the boot file could not be kept");
    close_all(probe);
}

static void on_probe_buried(void *data, const struct jail_death *death, const struct error *error) {
    struct probe *probe = data;
    (void)error;
    probe->status = death ? death->status : -1;
    probe->work.data = probe;
    if (probe->error.code == E_NONE)
        host_work(probe->host, probe->toolchain->is_own ? probe->toolchain->owner : 0, &probe->work, run_keep_answer,
                  on_kept);
    else
        close_all(probe);
}

static void end_probe(struct probe *probe) {
    if (probe->burying) return;
    probe->burying = true;
    uv_read_stop((uv_stream_t *)&probe->output);
    uv_timer_stop(&probe->deadline);
    link_bury(probe->host->link, probe->name, on_probe_buried, probe);
}

static void on_probe_deadline(uv_timer_t *timer) {
    struct probe *probe = timer->data;
    if (loop_deadline_is_early(timer, probe->due_ms, on_probe_deadline)) return;
    error_set(&probe->error, E_TOOLCHAIN, "the VM of %s did not answer within %d s", probe->toolchain->otp_root,
              PROBE_DEADLINE_MS / 1000);
    end_probe(probe);
}

static void on_probe_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
    (void)suggested;
    struct probe *probe = handle->data;
    *ret = uv_buf_init(probe->host->read_buffer, sizeof probe->host->read_buffer);
}

static void on_probe_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    struct probe *probe = stream->data;
    if (count > 0) buf_append(&probe->answer, bytes->base, (size_t)count);
    /* One that says too much could go on until the deadline, and keep the loop at reading. */
    if (count < 0 || probe->answer.failed) end_probe(probe);
}

static void on_probe_spawned(void *data, const struct link_node *node, const struct error *error) {
    struct probe *probe = data;
    if (error) {
        if (probe->error.code == E_NONE) probe->error = *error;
        close_all(probe);
        return;
    }
    fd_close(node->pidfd); /* the end of its output tells */
    probe->spawned = true;
    if (uv_pipe_open(&probe->output, node->output_fd) < 0) fd_close(node->output_fd);
    uv_read_start((uv_stream_t *)&probe->output, on_probe_alloc, on_probe_output);
    probe->due_ms = loop_attended_ms(probe->host->loop) + PROBE_DEADLINE_MS;
    uv_timer_start(&probe->deadline, on_probe_deadline, PROBE_DEADLINE_MS, 0);
    if (probe->error.code != E_NONE) end_probe(probe); /* called off meanwhile */
}

static void on_known(uv_timer_t *timer) {
    close_all(timer->data);
}

static void init_handles(struct probe *probe) {
    uv_pipe_init(probe->host->loop, &probe->output, 0);
    uv_timer_init(probe->host->loop, &probe->deadline);
    probe->output.data = probe->deadline.data = probe;
    probe->output_open = probe->deadline_open = true;
    probe->open_handles = 2;
}

void toolchain_probe(struct node_host *host, struct toolchain *toolchain, toolchain_probed_fn done, void *data) {
    struct probe *probe = new_or_abort(struct probe);
    *probe = (struct probe){.host = host,
                            .toolchain = toolchain,
                            .done = done,
                            .data = data,
                            .answer = {.max = ANSWER_MAX_BYTES},
                            .name = "p"};
    init_handles(probe);
    toolchain->probe = probe;
    struct jail_plan plan = {0};
    if (use_known(probe) || make_random_hex(probe->name + 1, 12, &probe->error) < 0 ||
        vm_probe_plan(host, toolchain, probe->name, &plan, &probe->error) < 0) {
        uv_timer_start(&probe->deadline, on_known, 0, 0); /* the answer never comes from inside the call */
    } else {
        toolchain_spawn(host->link, toolchain, &plan, on_probe_spawned, probe);
        jail_plan_free(&plan);
    }
}

void toolchain_probe_abort(struct toolchain *toolchain) {
    struct probe *probe = toolchain->probe;
    if (!probe || probe->error.code != E_NONE) return;
    error_set(&probe->error, E_SHUTDOWN, "the service is shutting down");
    if (probe->spawned) end_probe(probe); /* otherwise the launcher's answer, or a timer, is still to come */
}
