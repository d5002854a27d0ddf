/* The life of one node: spawned, booting, running, ending, gone. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "node/node_internal.h"

enum { BURY_RETRY_MS = 100 };

int make_random_hex(char *ret, size_t digits, struct error *reterr) {
    uint8_t bytes[64];
    size_t size = digits / 2;
    if (getrandom(bytes, size, 0) != (ssize_t)size) return error_errno(reterr, errno, "asking for randomness");
    hex_encode(bytes, size, ret);
    return 0;
}

/* ---- closing ---- */

static void remove_control_dir(const struct node *node) {
    char socket_path[PATH_MAX + 16];
    if (!node->control_dir[0]) return;
    snprintf(socket_path, sizeof socket_path, "%s/agent.sock", node->control_dir);
    unlink(socket_path);
    rmdir(node->control_dir);
}

static void all_closed(struct node *node) {
    fd_close(node->pidfd);
    map_remove(&node->host->nodes, node->name);
    if (node->detached) {
        node->detached(node->detached_data);
    } else if (node->handler.gone) {
        remove_control_dir(node);
        node->handler.gone(node->data, node, &node->end);
    }
    free(node);
}

void node_handle_closed(struct node *node) {
    if (--node->open_handles == 0 && node->state == NODE_CLOSING) all_closed(node);
}

static void on_handle_closed(uv_handle_t *handle) {
    node_handle_closed(handle->data);
}

void node_close_handle(bool *open, void *handle) {
    if (!*open) return;
    *open = false;
    uv_close(handle, on_handle_closed);
}

/* For callers that count as one of its handles: the last of these must not find itself the last too early. */
static void start_closing(struct node *node) {
    node->state = NODE_CLOSING;
    node_close_disk(node);
    channel_close(&node->channel);
    node_close_handle(&node->death_open, &node->death);
    node_close_handle(&node->output_open, &node->output);
    node_close_handle(&node->output_pause_open, &node->output_pause);
    node_close_handle(&node->beat_open, &node->beat);
    calls_fail_all(node, &node->end.error);
}

static void close_handles(struct node *node) {
    node->open_handles++;
    start_closing(node);
    node_handle_closed(node);
}

/* ---- ending ---- */

/* A VM that could not boot says why. */
static void add_last_words(const struct node *node, struct error *error) {
    CLEANUP(buf_free) struct buf words = {.max = 4 * sizeof node->last_words};
    size_t size = node->last_words_size;
    if (node->has_greeted || size == 0) return;
    while (size > 0 && strchr(" \r\n", node->last_words[size - 1])) size--;
    escape_text(&words, node->last_words, size);
    struct error with_words = *error;
    error_set(&with_words, error->code, "%s; its last words: %s", error->detail, buf_string(&words));
    *error = with_words;
}

static void decide_end(struct node *node, const struct jail_death *death) {
    struct node_end *end = &node->end;
    end->status = death->status;
    end->has_exited = !node->end_known && death->cause == JAIL_CAUSE_EXITED && death->oom_kills == 0;
    if (death->cause == JAIL_CAUSE_OOM || (!node->end_known && death->oom_kills > 0)) {
        end->cause = NODE_OUT_OF_MEMORY;
        error_set(&end->error, E_LIMIT, "the VM was killed: it used more memory than its limit");
    } else if (node->end_known) {
        return; /* our own decision, made before it died */
    } else if (death->cause == JAIL_CAUSE_EXITED && death->status == 0) {
        end->cause = NODE_EXITED;
        error_set(&end->error, E_NODE, "the VM ended by itself");
    } else {
        end->cause = NODE_CRASHED;
        error_set(&end->error, E_NODE, "the VM ended %s %d",
                  death->cause == JAIL_CAUSE_SIGNALED ? "by signal" : "with status", death->status);
        add_last_words(node, &end->error);
    }
}

static void on_buried(void *data, const struct jail_death *death, const struct error *error);

static void bury(struct node *node) {
    node->open_handles++; /* it must live until the launcher has answered, as with every request to it */
    link_bury(node->host->link, node->name, on_buried, node);
}

static void on_bury_again(uv_timer_t *timer) {
    bury(timer->data);
}

static void on_buried(void *data, const struct jail_death *death, const struct error *error) {
    static const struct jail_death unknown = {.cause = JAIL_CAUSE_UNKNOWN, .status = -1};
    struct node *node = data;
    /* Either there is no launcher just now, and a new one will adopt the node first, or the node is slow to die. */
    bool try_again = error && !node->host->ending;
    if (node->state == NODE_ENDING && try_again) {
        uv_timer_start(&node->beat, on_bury_again, BURY_RETRY_MS, 0);
    } else if (node->state == NODE_ENDING) {
        decide_end(node, death ? death : &unknown);
        start_closing(node);
    }
    node_handle_closed(node);
}

static void start_ending(struct node *node) {
    if (node->state >= NODE_ENDING) return;
    bool spawned = node->state != NODE_SPAWNING;
    if (!spawned) {
        node->kill_wanted = true; /* the launcher's answer is still to come */
        return;
    }
    node->state = NODE_ENDING;
    node_close_disk(node);
    uv_timer_stop(&node->beat);
    if (node->death_open) uv_poll_stop(&node->death);
    bury(node);
}

static void end_because(struct node *node, enum node_cause cause, enum error_code code, const char *text) {
    if (node->state >= NODE_ENDING || node->end_known) return;
    node->end_known = true;
    node->end.cause = cause;
    error_set(&node->end.error, code, "%s", text);
    start_ending(node);
}

void node_kill(struct node *node, const char *why) {
    end_because(node, NODE_KILLED, E_NODE, why);
}

void node_misbehaved(struct node *node, enum node_cause cause, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (node->state >= NODE_ENDING || node->end_known) return;
    if (node->handler.violation)
        node->handler.violation(node->data, node, cause == NODE_SILENT ? "heartbeat_missed" : "protocol_violation",
                                text);
    end_because(node, cause, cause == NODE_SILENT ? E_NODE : E_PROTOCOL, text);
}

static void report(struct node *node, const char *what, const char *detail) {
    if (node->handler.violation) node->handler.violation(node->data, node, what, detail);
}

void node_flooded(struct node *node) {
    if (node->channel.flood_reported) return;
    node->channel.flood_reported = true;
    report(node, "channel_flood", "the control channel is read no faster than its budget grows");
}

/* Told once a second at most, for as long as it goes on. */
void node_dials_flooded(struct node *node) {
    uint64_t now_ms = uv_now(node->host->loop), *told_ms = &node->channel.dials_told_ms;
    if (*told_ms > 0 && now_ms - *told_ms < DIALS_TOLD_EVERY_MS) return;
    *told_ms = now_ms;
    report(node, "channel_flood", "the control channel is dialled more often than connections are taken");
}

void node_passed_descriptor(struct node *node) {
    report(node, "passed_descriptor", "a message on the control channel came with a descriptor");
}

static void on_death(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    start_ending(poll->data);
}

/* ---- what the channel says ---- */

bool node_hello(struct node *node, const struct term *secret, int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool fits = secret && secret->type == TERM_BINARY && secret->binary.size == strlen(node->secret) &&
                CRYPTO_memcmp(secret->binary.data, node->secret, secret->binary.size) == 0;
    bool own = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (node->uid == 0 || peer.uid == node->uid);
    if (fits && own) return true;
    report(node, "forged_hello", fits ? "from a process that is not the node's" : "with a wrong secret");
    return false;
}

void node_tell_ready(struct node *node) {
    if (node_is_ready(node) && !node->is_being_equipped && node->handler.ready) node->handler.ready(node->data, node);
}

void node_connected(struct node *node) {
    if (node->state >= NODE_ENDING) return;
    node->last_alive_ms = loop_attended_ms(node->host->loop);
    if (node->state == NODE_BOOTING) node->state = NODE_RUNNING;
    if (!node->has_greeted) node_end_boot_words(node);
    node->has_greeted = true;
    calls_flush(node);
    node_tell_ready(node);
}

void node_disconnected(struct node *node) {
    if (node->state < NODE_CLOSING) calls_lose_sent(node);
}

struct term_doc *node_keep_answer(struct node *node) {
    return node->frame ? take_ptr(*node->frame) : NULL;
}

void node_frame(struct node *node, const struct term *frame, void **made) {
    uint64_t id;
    if (node->state >= NODE_ENDING) return;
    if (term_is_tagged(frame, "reply", 3) && term_to_uint64(term_at(frame, 1), &id)) {
        if (!calls_answer(node, id, term_at(frame, 2), made))
            node_misbehaved(node, NODE_MISBEHAVED, "a reply to no call (%llu)", (unsigned long long)id);
        return;
    }
    const struct term *kind = term_at(frame, 1);
    if (term_is_tagged(frame, "event", 3) && kind->type == TERM_ATOM) {
        if (node->handler.event) node->handler.event(node->data, node, kind->atom.text, term_at(frame, 2));
        return;
    }
    node_misbehaved(node, NODE_MISBEHAVED, "a frame that is neither a reply nor an event");
}

/* ---- starting ---- */

static void watch_death(struct node *node, int pidfd) {
    node->pidfd = pidfd;
    if (uv_poll_init(node->host->loop, &node->death, pidfd) < 0) return;
    node->death.data = node;
    node->death_open = true;
    node->open_handles++;
    uv_poll_start(&node->death, UV_READABLE, on_death);
}

static void take_info(struct node *node, const struct link_node *info) {
    node->pid = info->pid;
    node->uid = info->uid;
    node->frozen = info->frozen;
    snprintf(node->memory_cgroup, sizeof node->memory_cgroup, "%s", info->memory_cgroup);
    snprintf(node->cpu_cgroup, sizeof node->cpu_cgroup, "%s", info->cpu_cgroup);
    snprintf(node->tasks_cgroup, sizeof node->tasks_cgroup, "%s", info->tasks_cgroup);
    node_watch_output(node, info->output_fd);
    watch_death(node, info->pidfd);
}

static void start_watching(struct node *node, const struct link_node *info) {
    take_info(node, info);
    node->state = node->channel.agent ? NODE_RUNNING : NODE_BOOTING;
    node_start_beating(node);
    if (node->kill_wanted)
        start_ending(node);
    else
        node_tell_ready(node);
}

static void on_spawned(void *data, const struct link_node *info, const struct error *error) {
    struct node *node = data;
    if (node->state == NODE_CLOSING) { /* detached meanwhile: the next daemon will not know it, and buries it */
        fd_close(error ? -1 : info->pidfd);
        fd_close(error ? -1 : info->output_fd);
    } else if (error) {
        node->end = (struct node_end){.cause = NODE_CRASHED, .status = -1, .error = *error};
        start_closing(node);
    } else {
        start_watching(node, info);
    }
    node_handle_closed(node);
}

static int make_control_dir(struct node *node, struct error *reterr) {
    int result =
        string_format(node->control_dir, sizeof node->control_dir, reterr, "%s/nodes/%s", node->host->home, node->name);
    if (result < 0) {
        node->control_dir[0] = '\0';
        return result;
    }
    if (mkdir(node->control_dir, 0755) < 0 && errno != EEXIST)
        return error_errno(reterr, errno, "making %s", node->control_dir);
    return 0;
}

static int open_node(struct node_host *host, enum node_kind kind, const char *name, const char *secret,
                     const struct node_handler *handler, void *data, struct node **ret, struct error *reterr) {
    struct node *node = calloc(1, sizeof *node);
    if (!node) return error_set(reterr, E_NO_MEMORY, "no memory for a node");
    node->host = host;
    node->kind = kind;
    node->pidfd = node->disk_fds[0] = node->disk_fds[1] = -1;
    node->channel.frame_max_bytes = kind == NODE_COMPILER ? COMPILER_FRAME_MAX_BYTES : FRAME_MAX_BYTES;
    snprintf(node->name, sizeof node->name, "%s", name);
    snprintf(node->secret, sizeof node->secret, "%s", secret);
    uv_timer_init(host->loop, &node->beat);
    node->beat.data = node;
    node->beat_open = true;
    node->open_handles = 1;
    int result = map_set(&host->nodes, name, node) ? make_control_dir(node, reterr)
                                                   : error_set(reterr, E_NO_MEMORY, "no memory for a node");
    if (result == 0) result = channel_listen(&node->channel, node, node->control_dir, reterr);
    if (result < 0) {
        remove_control_dir(node);
        close_handles(node);
        return result;
    }
    node->handler = *handler;
    node->data = data;
    *ret = node;
    return 0;
}

int node_start(struct node_host *host, const struct node_spec *spec, const struct node_handler *handler, void *data,
               struct node **ret, struct error *reterr) {
    char name[NODE_NAME_BYTES] = "n", secret[NODE_SECRET_BYTES];
    struct node *node;
    int result = make_random_hex(name + 1, 12, reterr);
    if (result == 0) result = make_random_hex(secret, sizeof secret - 1, reterr);
    if (result == 0) result = open_node(host, spec->kind, name, secret, handler, data, &node, reterr);
    if (result < 0) return result;
    struct jail_plan plan = {0};
    struct vm_identity identity = {node->name, node->secret, node->control_dir};
    result = vm_plan(host, spec, &identity, &plan, &node->lost_guarantees, reterr);
    if (result < 0) {
        node->handler = (struct node_handler){0};
        remove_control_dir(node);
        close_handles(node);
        return result;
    }
    node->open_handles++;
    toolchain_spawn(host->link, spec->toolchain, &plan, on_spawned, node);
    jail_plan_free(&plan);
    *ret = node;
    return 0;
}

int node_expect(struct node_host *host, const char *name, const char *secret, enum node_kind kind,
                const struct node_handler *handler, void *data, struct node **ret, struct error *reterr) {
    return open_node(host, kind, name, secret, handler, data, ret, reterr);
}

/* A node that an earlier daemon left is known before there is a link; it is told when it is found. */
static void tell_owner(const struct node *node) {
    if (node->host->link && node->owner) link_set_owner(node->host->link, node->name, node->owner);
}

void node_set_owner(struct node *node, uid_t owner) {
    node->owner = owner;
    tell_owner(node);
}

void node_adopted(struct node *node, const struct link_node *info) {
    if (node->state != NODE_SPAWNING) { /* told again by a new launcher, or given up meanwhile */
        fd_close(info->pidfd);
        fd_close(info->output_fd);
        return;
    }
    node->yielding.is_in_doubt = true; /* an earlier daemon may have wanted it */
    tell_owner(node);
    start_watching(node, info);
}

/* ---- calls and notifications ---- */

void node_lost(struct node *node, bool host_restarted) {
    if (node->state != NODE_SPAWNING) return;
    node->end = (struct node_end){.cause = host_restarted ? NODE_HOST_RESTARTED : NODE_CRASHED, .status = -1};
    error_set(&node->end.error, E_NODE,
              host_restarted ? "the host was restarted" : "the VM ended while no daemon watched it");
    close_handles(node);
}

struct node *node_find(const struct node_host *host, const char *name) {
    return map_get(&host->nodes, name);
}

const char *node_name(const struct node *node) {
    return node->name;
}

const char *node_secret(const struct node *node) {
    return node->secret;
}

uint32_t node_lost_guarantees(const struct node *node) {
    return node->lost_guarantees;
}

pid_t node_os_pid(const struct node *node) {
    return node->pid;
}

bool node_is_ready(const struct node *node) {
    return node->state == NODE_RUNNING && node->channel.agent;
}

bool node_is_frozen(const struct node *node) {
    return node->frozen;
}

void node_violation(struct node *node, const struct link_violation *violation) {
    char detail[512];
    if (violation->count > 1)
        snprintf(detail, sizeof detail, "%s%s×%llu", violation->detail, violation->detail[0] ? " " : "",
                 (unsigned long long)violation->count);
    else
        snprintf(detail, sizeof detail, "%s", violation->detail);
    if (node->handler.violation) node->handler.violation(node->data, node, violation->syscall, detail);
}

void node_detach(struct node *node, void (*detached)(void *data), void *data) {
    node->detached = detached;
    node->detached_data = data;
    node->handler = (struct node_handler){0};
    error_set(&node->end.error, E_SHUTDOWN, "the service is shutting down");
    if (node->state != NODE_CLOSING) close_handles(node);
}
