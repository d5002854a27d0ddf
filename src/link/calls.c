/* What the messages to the launcher say, and how its answers are read. */
#include <stdio.h>
#include <string.h>

#include "jail/egress_policy.h"
#include "link/link_internal.h"

/* ---- reading ---- */

static const struct error malformed = {E_LAUNCHER, "the launcher's answer is malformed"};

static int take_descriptor(struct link_answer *answer, size_t index) {
    return take_fd(&answer->fds[index]);
}

/* "0x" and hexadecimal digits: a set of bits. */
static bool parse_bits(const char *text, uint32_t *ret) {
    if (!text || !string_starts(text, "0x") || strlen(text) > 10 || !text[2]) return false;
    if (text[2 + strspn(text + 2, "0123456789abcdef")]) return false;
    *ret = (uint32_t)strtoul(text + 2, NULL, 16);
    return true;
}

bool link_read_features(const struct wire_message *message, struct jail_features *ret) {
    struct jail_features features = {0};
    uint64_t version, cgroup, landlock, root;
    if (!wire_message_number(message, "version", &version) || version != JAIL_PROTOCOL_VERSION ||
        !parse_bits(wire_message_value(message, "guarantees"), &features.guarantees) ||
        !wire_message_number(message, "cgroup", &cgroup) || cgroup > 2 ||
        !wire_message_number(message, "landlock", &landlock) || landlock > INT_MAX ||
        !wire_message_number(message, "root", &root) || root > 1)
        return false;
    features.cgroup_version = (int)cgroup;
    features.landlock_abi = (int)landlock;
    features.root = root;
    *ret = features;
    return true;
}

/* All but the name and the descriptors. */
static bool read_node(const struct wire_message *message, struct link_node *ret) {
    uint64_t pid, start, uid, frozen;
    const char *memory = wire_message_value(message, "memory"), *cpu = wire_message_value(message, "cpu");
    const char *tasks = wire_message_value(message, "pids"); /* a launcher from before does not tell */
    if (!wire_message_number(message, "pid", &pid) || pid == 0 || pid > INT_MAX ||
        !wire_message_number(message, "start", &start) || !wire_message_number(message, "uid", &uid) ||
        uid > UINT32_MAX || !wire_message_number(message, "frozen", &frozen) || frozen > 1 || !memory || !cpu)
        return false;
    *ret = (struct link_node){.pid = (pid_t)pid,
                              .start_time = start,
                              .uid = (uid_t)uid,
                              .pidfd = -1,
                              .output_fd = -1,
                              .memory_cgroup = memory,
                              .cpu_cgroup = cpu,
                              .tasks_cgroup = tasks ? tasks : "",
                              .frozen = frozen};
    return true;
}

static bool read_cause(const char *name, enum jail_cause *ret) {
    static const char *const names[] = {
        [JAIL_CAUSE_EXITED] = "exited", [JAIL_CAUSE_SIGNALED] = "signaled", [JAIL_CAUSE_OOM] = "oom",
        [JAIL_CAUSE_KILLED] = "killed", [JAIL_CAUSE_UNKNOWN] = "unknown",
    };
    for (unsigned i = 0; name && i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], name) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

static bool read_status(const char *text, int *ret) {
    uint64_t status;
    if (string_equal(text, "-1")) {
        *ret = -1;
        return true;
    }
    if (!text || !parse_u64(text, &status) || status > INT_MAX) return false;
    *ret = (int)status;
    return true;
}

static bool read_death(const struct wire_message *message, struct jail_death *ret) {
    struct jail_death death;
    if (!read_cause(wire_message_value(message, "cause"), &death.cause) ||
        !read_status(wire_message_value(message, "status"), &death.status) ||
        !wire_message_number(message, "oom", &death.oom_kills))
        return false;
    *ret = death;
    return true;
}

static bool read_project(const struct wire_message *message, struct link_project *ret) {
    const char *token = wire_message_value(message, "token"), *kind = wire_message_value(message, "kind");
    const char *name = wire_message_value(message, "file");
    bool is_stream = string_equal(kind, "stream"), is_folder = string_equal(kind, "folder");
    if (!token || !plan_name_is_valid(token) || (!is_stream && !is_folder && !string_equal(kind, "mount")))
        return false;
    *ret = (struct link_project){
        .token = token, .fd = -1, .is_stream = is_stream, .is_file = name && *name, .name = name ? name : ""};
    return true;
}

/* ---- delivering ---- */

static bool deliver_done(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    (void)answer;
    ((link_done_fn)call->done)(call->data, error);
    return true;
}

static bool deliver_nothing(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    (void)call, (void)answer, (void)error;
    return true;
}

static bool deliver_spawned(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_spawned_fn done = (link_spawned_fn)call->done;
    struct link_node node;
    bool is_good = error || (read_node(answer->message, &node) && answer->fds[0] >= 0 && answer->fds[1] >= 0);
    if (error || !is_good) {
        done(call->data, NULL, error ? error : &malformed);
        return is_good;
    }
    node.name = call->node;
    node.pidfd = take_descriptor(answer, 0);
    node.output_fd = take_descriptor(answer, 1);
    done(call->data, &node, NULL);
    return true;
}

static bool deliver_buried(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_buried_fn done = (link_buried_fn)call->done;
    struct jail_death death;
    bool is_good = error || read_death(answer->message, &death);
    if (error || !is_good)
        done(call->data, NULL, error ? error : &malformed);
    else
        done(call->data, &death, NULL);
    return is_good;
}

/* It is mounted, and never seen. */
static bool deliver_folder(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_project_fn done = (link_project_fn)call->done;
    struct link_project folder;
    bool is_good = error || (read_project(answer->message, &folder) && answer->fds[0] < 0);
    if (error || !is_good)
        done(call->data, NULL, error ? error : &malformed);
    else
        done(call->data, &folder, NULL);
    return is_good;
}

/* "NAME uid= size=" */
static bool read_volume(char *line, struct link_volume *ret) {
    struct wire_message message;
    uint64_t owner, size;
    if (wire_message_parse(line, &message, NULL) < 0 || !plan_name_is_valid(message.verb) ||
        !wire_message_number(&message, "uid", &owner) || owner >= UINT32_MAX ||
        !wire_message_number(&message, "size", &size) || size > JAIL_VOLUME_MOST)
        return false;
    *ret = (struct link_volume){.owner = (uid_t)owner, .size_bytes = size};
    snprintf(ret->name, sizeof ret->name, "%s", message.verb);
    return true;
}

static bool deliver_volumes(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_volumes_fn done = (link_volumes_fn)call->done;
    CLEANUP_FREE struct link_volume *volumes = calloc(JAIL_VOLUMES_MAX, sizeof *volumes);
    size_t count = 0;
    char *at = error ? NULL : answer->message->body;
    bool is_good = volumes != NULL;
    for (char *line; is_good && at && (line = wire_next_line(&at)); count += is_good)
        is_good = count < JAIL_VOLUMES_MAX && read_volume(line, &volumes[count]);
    if (!error && !is_good) error = &malformed;
    done(call->data, volumes, error ? 0 : count, error);
    return is_good;
}

static bool deliver_file(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    ((link_file_fn)call->done)(call->data, error ? -1 : answer->fds[0], error);
    return true;
}

static bool deliver_project(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_project_fn done = (link_project_fn)call->done;
    struct link_project project;
    bool is_good = error || (read_project(answer->message, &project) && answer->fds[0] >= 0);
    if (error || !is_good) {
        done(call->data, NULL, error ? error : &malformed);
        return is_good;
    }
    project.fd = take_descriptor(answer, 0);
    if (project.is_stream)
        link_stream_receive(call->link, &project, done, call->data);
    else
        done(call->data, &project, NULL);
    return true;
}

static bool deliver_disks(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_disks_fn done = (link_disks_fn)call->done;
    int fds[JAIL_DISKS] = {-1, -1};
    bool is_good = error || (answer->fds[0] >= 0 && answer->fds[1] >= 0);
    for (size_t i = 0; !error && is_good && i < JAIL_DISKS; i++) fds[i] = take_descriptor(answer, i);
    done(call->data, fds, is_good ? error : &malformed);
    return is_good;
}

/* What is told of a port, but for its set. */
static bool read_port(struct link_answer *answer, struct link_port *ret) {
    const char *way = wire_message_value(answer->message, "way"), *text = wire_message_value(answer->message, "text");
    struct link_port port = {.set = "", .page_fd = -1};
    if (!way || !text || jail_port_way_find(way, &port.port.way) < 0 ||
        jail_port_parse(port.port.way, text, &port.port, NULL) < 0)
        return false;
    port.page_fd = take_descriptor(answer, 0);
    *ret = port;
    return true;
}

static bool deliver_port(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_port_fn done = (link_port_fn)call->done;
    struct link_port port;
    bool is_good = error || read_port(answer, &port);
    if (error || !is_good)
        done(call->data, NULL, error ? error : &malformed);
    else
        done(call->data, &port, NULL);
    return is_good;
}

static bool deliver_signature(const struct link_call *call, struct link_answer *answer, const struct error *error) {
    link_signature_fn done = (link_signature_fn)call->done;
    uint64_t signature = 0;
    bool is_good = error || wire_message_number(answer->message, "signature", &signature);
    done(call->data, signature, is_good ? error : &malformed);
    return is_good;
}

/* ---- unasked ---- */

static bool tell_node(const struct link_handler *handler, void *data, struct link_answer *answer) {
    struct link_node node;
    if (answer->message->count == 0 || !plan_name_is_valid(answer->message->words[0]) ||
        !read_node(answer->message, &node) || answer->fds[0] < 0)
        return false;
    node.name = answer->message->words[0];
    node.pidfd = take_descriptor(answer, 0);
    handler->node(data, &node);
    return true;
}

static bool tell_violation(const struct link_handler *handler, void *data, struct link_answer *answer) {
    const struct wire_message *message = answer->message;
    struct link_violation violation = {
        .node = wire_message_word(message, 0),
        .syscall = wire_message_value(message, "syscall"),
        .detail = wire_message_value(message, "detail"),
    };
    if (!violation.node || !violation.syscall || !violation.detail ||
        !wire_message_number(message, "count", &violation.count))
        return false;
    handler->violation(data, &violation);
    return true;
}

static bool tell_port(const struct link_handler *handler, void *data, struct link_answer *answer) {
    const char *set = wire_message_word(answer->message, 0);
    struct link_port port;
    if (!set || !plan_name_is_valid(set) || !read_port(answer, &port)) return false;
    port.set = set;
    if (handler->port)
        handler->port(data, &port);
    else
        fd_close(port.page_fd);
    return true;
}

bool link_tell(const struct link_handler *handler, void *data, struct link_answer *answer) {
    if (strcmp(answer->message->verb, "node") == 0) return tell_node(handler, data, answer);
    if (strcmp(answer->message->verb, "port") == 0) return tell_port(handler, data, answer);
    if (strcmp(answer->message->verb, "violation") == 0) return tell_violation(handler, data, answer);
    return false;
}

/* ---- asking ---- */

static void put_operand(struct buf *text, const char *word) {
    buf_append_byte(text, ' ');
    wire_put_word(text, word);
}

void link_spawn(struct launcher_link *link, const struct jail_plan *plan, link_spawned_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    struct link_call call = {.deliver = deliver_spawned, .done = (link_callback)done, .data = data};
    const char *node = jail_plan_word(plan, JAIL_PLAN_NODE, 0);
    if (node) string_format(call.node, sizeof call.node, NULL, "%s", node);
    buf_append_byte(&text, '\n');
    jail_plan_print(plan, &text);
    link_ask(link, &call, "spawn", &text, -1);
}

void link_bury(struct launcher_link *link, const char *node, link_buried_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    link_turns_forget_node(link_turns(link), node);
    link_ask(link, &(struct link_call){.deliver = deliver_buried, .done = (link_callback)done, .data = data}, "bury",
             &text, -1);
}

/* For the calls that are answered by nothing but "done". */
static void ask_done(struct launcher_link *link, const char *verb, const struct buf *text, link_done_fn done,
                     void *data) {
    link_ask(link, &(struct link_call){.deliver = deliver_done, .done = (link_callback)done, .data = data}, verb, text,
             -1);
}

void link_freeze(struct launcher_link *link, const char *node, bool frozen, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    ask_done(link, frozen ? "freeze" : "thaw", &text, done, data);
}

void link_yield(struct launcher_link *link, const char *node, bool yields, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    wire_put_number(&text, "on", yields);
    ask_done(link, "yield", &text, done, data);
}

void link_disks(struct launcher_link *link, const char *node, link_disks_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    link_ask(link, &(struct link_call){.deliver = deliver_disks, .done = (link_callback)done, .data = data}, "disk",
             &text, -1);
}

/* Lines of a plan that only says what a running node is given. */
static void put_plan(struct buf *text, const char *node, const struct link_equipment *equipment) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    int result = plan_add(&plan, JAIL_PLAN_NODE, node, NULL, 0, NULL);
    if (result == 0 && equipment->limits) result = plan_add_limits(&plan, equipment->limits, NULL);
    for (size_t i = 0; result == 0 && i < equipment->bind_count; i++) {
        const struct jail_bind *bind = &equipment->binds[i];
        result = plan_add(&plan, bind->executable ? JAIL_PLAN_BIND_EXEC : JAIL_PLAN_BIND, bind->source, bind->target, 0,
                          NULL);
    }
    if (result == 0 && equipment->egress) result = egress_write(equipment->egress, &plan, NULL);
    buf_append_byte(text, '\n');
    jail_plan_print(&plan, text);
    text->failed |= result < 0;
}

void link_limit(struct launcher_link *link, const char *node, const struct jail_limits *limits, link_done_fn done,
                void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_plan(&text, node, &(struct link_equipment){.limits = limits});
    link_ask(link,
             &(struct link_call){.deliver = deliver_done,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_node(link_turns(link), node)},
             "limit", &text, -1);
}

void link_resolved(struct launcher_link *link, const char *node, const struct jail_host *hosts, size_t count,
                   link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    put_operand(&text, node);
    put_plan(&text, node, &(struct link_equipment){0});
    text.failed |= egress_write_resolved(hosts, count, &plan, NULL) < 0;
    jail_plan_print(&plan, &text);
    ask_done(link, "resolved", &text, done, data);
}

void link_equip(struct launcher_link *link, const char *node, const struct link_equipment *equipment, link_done_fn done,
                void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_plan(&text, node, equipment);
    ask_done(link, "equip", &text, done, data);
}

void link_open_project(struct launcher_link *link, int peer_fd, const char *path, link_project_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, path);
    link_ask(link,
             &(struct link_call){.deliver = deliver_project,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_peer(link_turns(link), peer_fd)},
             "project", &text, peer_fd);
}

void link_grant(struct launcher_link *link, int peer_fd, const char *name, const char *path, link_done_fn done,
                void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    put_operand(&text, path);
    link_ask(link, &(struct link_call){.deliver = deliver_done, .done = (link_callback)done, .data = data}, "grant",
             &text, peer_fd);
}

void link_withdraw(struct launcher_link *link, const char *name) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "withdraw", &text, -1);
}

void link_open_granted(struct launcher_link *link, const char *name, link_project_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    link_ask(link, &(struct link_call){.deliver = deliver_project, .done = (link_callback)done, .data = data},
             "project", &text, -1);
}

void link_sign_granted(struct launcher_link *link, const char *name, link_signature_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    wire_put_number(&text, "sign", 1);
    link_ask(link, &(struct link_call){.deliver = deliver_signature, .done = (link_callback)done, .data = data},
             "project", &text, -1);
}

static void ask_project(struct launcher_link *link, const struct buf *text, int peer_fd, link_project_fn done,
                        void *data) {
    link_ask(link, &(struct link_call){.deliver = deliver_project, .done = (link_callback)done, .data = data},
             "project", text, peer_fd);
}

void link_open_toolchain(struct launcher_link *link, int peer_fd, const char *path, const char *below,
                         link_project_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, path);
    wire_put_pair(&text, "below", below);
    ask_project(link, &text, peer_fd, done, data);
}

void link_grant_toolchain(struct launcher_link *link, int peer_fd, const char *name, const char *path,
                          const char *below, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    put_operand(&text, path);
    wire_put_pair(&text, "below", below);
    link_ask(link, &(struct link_call){.deliver = deliver_done, .done = (link_callback)done, .data = data}, "grant",
             &text, peer_fd);
}

static void put_toolchain(struct buf *text, const char *name) {
    put_operand(text, name);
    wire_put_number(text, "toolchain", 1);
}

void link_withdraw_toolchain(struct launcher_link *link, const char *name) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_toolchain(&text, name);
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "withdraw", &text, -1);
}

void link_keep_toolchains(struct launcher_link *link, const struct buf *lines) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    buf_append_byte(&text, '\n');
    buf_append(&text, lines->data, lines->size);
    if (lines->failed) text.failed = true;
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "keep", &text, -1);
}

void link_open_granted_toolchain(struct launcher_link *link, const char *name, link_project_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_toolchain(&text, name);
    ask_project(link, &text, -1, done, data);
}

void link_grant_folder(struct launcher_link *link, int peer_fd, const char *name, const char *path, bool is_read_only,
                       link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    put_operand(&text, path);
    wire_put_pair(&text, "folder", is_read_only ? "ro" : "rw");
    link_ask(link, &(struct link_call){.deliver = deliver_done, .done = (link_callback)done, .data = data}, "grant",
             &text, peer_fd);
}

static void put_folder(struct buf *text, const char *name) {
    put_operand(text, name);
    wire_put_number(text, "folder", 1);
}

void link_withdraw_folder(struct launcher_link *link, const char *name) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_folder(&text, name);
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "withdraw", &text, -1);
}

void link_keep_folders(struct launcher_link *link, const struct buf *lines) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    wire_put_number(&text, "folder", 1);
    buf_append_byte(&text, '\n');
    buf_append(&text, lines->data, lines->size);
    if (lines->failed) text.failed = true;
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "keep", &text, -1);
}

void link_open_granted_folder(struct launcher_link *link, const char *name, link_project_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_folder(&text, name);
    link_ask(link, &(struct link_call){.deliver = deliver_folder, .done = (link_callback)done, .data = data}, "project",
             &text, -1);
}

void link_sign_toolchain(struct launcher_link *link, const char *name, link_signature_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_toolchain(&text, name);
    wire_put_number(&text, "sign", 1);
    link_ask(link, &(struct link_call){.deliver = deliver_signature, .done = (link_callback)done, .data = data},
             "project", &text, -1);
}

void link_release_project(struct launcher_link *link, const char *token) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, token);
    link_ask(link, &(struct link_call){.deliver = deliver_nothing}, "release", &text, -1);
}

void link_mount(struct launcher_link *link, const char *node, const char *source, const char *target, link_done_fn done,
                void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_operand(&text, source);
    put_operand(&text, target);
    ask_done(link, "mount", &text, done, data);
}

static void put_port(struct buf *text, const struct jail_port *port) {
    char words[JAIL_PORT_TEXT_BYTES];
    jail_port_print(port, words);
    wire_put_pair(text, "way", jail_port_way_name(port->way));
    wire_put_pair(text, "text", words);
}

void link_publish(struct launcher_link *link, int peer_fd, const char *set, const struct jail_port *port,
                  unsigned inside, link_port_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, set);
    put_port(&text, port);
    wire_put_number(&text, "inside", inside);
    link_ask(link,
             &(struct link_call){.deliver = deliver_port,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_peer(link_turns(link), peer_fd)},
             "publish", &text, peer_fd);
}

void link_serve(struct launcher_link *link, const char *set, const struct jail_port *port, const char *node,
                const struct jail_port_bounds *bounds, link_port_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, set);
    put_operand(&text, node);
    put_port(&text, port);
    wire_put_number(&text, "connections", bounds->connections);
    wire_put_number(&text, "rate", bounds->rate);
    link_ask(link, &(struct link_call){.deliver = deliver_port, .done = (link_callback)done, .data = data}, "serve",
             &text, -1);
}

void link_unpublish(struct launcher_link *link, const char *set, const struct jail_port *port, link_done_fn done,
                    void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, set);
    if (port) put_port(&text, port);
    ask_done(link, "unpublish", &text, done, data);
}

void link_mount_folder(struct launcher_link *link, const char *node, const char *token, const char *place,
                       bool is_executable, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_operand(&text, token);
    put_operand(&text, place);
    wire_put_number(&text, "exec", is_executable);
    link_ask(link,
             &(struct link_call){.deliver = deliver_done,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_node(link_turns(link), node)},
             "mount", &text, -1);
}

void link_mount_volume(struct launcher_link *link, const char *node, const char *name, const char *place,
                       bool is_read_only, bool is_executable, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_operand(&text, name);
    put_operand(&text, place);
    wire_put_number(&text, "volume", 1);
    wire_put_number(&text, "ro", is_read_only);
    wire_put_number(&text, "exec", is_executable);
    link_ask(link,
             &(struct link_call){.deliver = deliver_done,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_node(link_turns(link), node)},
             "mount", &text, -1);
}

void link_make_volume(struct launcher_link *link, int peer_fd, const char *name, uint64_t size_bytes, link_done_fn done,
                      void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    wire_put_number(&text, "size", size_bytes);
    link_ask(link,
             &(struct link_call){.deliver = deliver_done,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_peer(link_turns(link), peer_fd)},
             "make-volume", &text, peer_fd);
}

void link_remove_volume(struct launcher_link *link, int peer_fd, const char *name, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, name);
    link_ask(link,
             &(struct link_call){.deliver = deliver_done,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_peer(link_turns(link), peer_fd)},
             "remove-volume", &text, peer_fd);
}

void link_volumes(struct launcher_link *link, char digit, link_volumes_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    if (digit) wire_put_pair(&text, "private", (char[]){digit, '\0'});
    link_ask(link, &(struct link_call){.deliver = deliver_volumes, .done = (link_callback)done, .data = data},
             "volumes", &text, -1);
}

void link_file(struct launcher_link *link, const char *node, const struct link_file *file, int data_fd,
               link_file_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    put_operand(&text, node);
    put_operand(&text, file->kind);
    put_operand(&text, file->path);
    wire_put_number(&text, "offset", file->offset);
    wire_put_number(&text, "length", file->length);
    wire_put_number(&text, "mode", file->mode);
    link_ask(link,
             &(struct link_call){.deliver = deliver_file,
                                 .done = (link_callback)done,
                                 .data = data,
                                 .user = link_turns_of_node(link_turns(link), node)},
             "file", &text, data_fd);
}

void link_shutdown(struct launcher_link *link, link_done_fn done, void *data) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    ask_done(link, "shutdown", &text, done, data);
}
