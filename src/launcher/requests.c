/* What the daemon may ask for. */
#include <stdio.h>
#include <string.h>

#include "jail/plan.h"
#include "jail/wire.h"
#include "launcher/cgroup/cgroup.h"
#include "launcher/egress/egress.h"
#include "launcher/launcher.h"
#include "launcher/nodes/files.h"
#include "launcher/nodes/nodes.h"
#include "launcher/ports/ports.h"
#include "launcher/project/project.h"
#include "launcher/record.h"
#include "launcher/server.h"
#include "launcher/start/spawn.h"

/* What a handler gets: operands without the id. */
struct call {
    struct launcher *launcher;
    struct request request;
    const struct wire_message *message;
    int fd;
    char **copy;   /* the whole message as it came, for one that has to wait for a volume; NULL: it names none */
    int volume_fd; /* the volume, once it is open; -1 */
    uid_t volume_owner;
};

static const char *operand(const struct call *call, size_t index) {
    return wire_message_word(call->message, index + 1);
}

static void refuse(const struct call *call, enum error_code code, const char *detail) {
    struct error error;
    error_set(&error, code, "%s", detail);
    server_fail(call->launcher, call->request, &error);
}

static void finish(const struct call *call, int failed, const struct error *error) {
    if (failed)
        server_fail(call->launcher, call->request, error);
    else
        server_ok(call->launcher, call->request, "", NULL, 0);
}

void requests_describe_node(const struct launcher *launcher, const struct jailed_node *node, struct buf *text) {
    char directory[PATH_MAX];
    wire_put_number(text, "pid", (uint64_t)node->pid);
    wire_put_number(text, "start", node->start_time);
    wire_put_number(text, "uid", node->uid);
    cgroup_memory_dir(&launcher->cgroups, node->name, directory);
    wire_put_pair(text, "memory", directory);
    cgroup_cpu_dir(&launcher->cgroups, node->name, directory);
    wire_put_pair(text, "cpu", directory);
    cgroup_tasks_dir(&launcher->cgroups, node->name, directory);
    wire_put_pair(text, "pids", directory);
    wire_put_number(text, "frozen", node->frozen);
}

static void handle_hello(const struct call *call) {
    const struct jail_features *features = &call->launcher->features;
    char text[128];
    uint64_t version;
    if (!wire_message_number(call->message, "version", &version) || version != JAIL_PROTOCOL_VERSION) {
        snprintf(text, sizeof text, "this launcher speaks version %d", JAIL_PROTOCOL_VERSION);
        refuse(call, E_INVALID, text);
        return;
    }
    snprintf(text, sizeof text, " version=%d guarantees=0x%x cgroup=%d landlock=%d root=%d", JAIL_PROTOCOL_VERSION,
             features->guarantees, features->cgroup_version, features->landlock_abi, features->root);
    server_ok(call->launcher, call->request, text, NULL, 0);
    server_announce_all(call->launcher);
}

/* True: the request is carried out again when the volume is open, or is refused. */
static bool must_wait_for(const struct call *call, const char *volume) {
    struct error error;
    if (!volume || call->volume_fd >= 0) return false;
    if (volume_open(call->launcher, call->request, volume, call->copy, &error) < 0)
        server_fail(call->launcher, call->request, &error);
    return true;
}

static void handle_spawn(const struct call *call) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP_FD int output_fd = -1;
    struct jailed_node *node;
    struct error error;
    if (call->launcher->shutting_down) {
        refuse(call, E_SHUTDOWN, "the launcher is shutting down");
        return;
    }
    int failed = jail_plan_parse(call->message->body, strlen(call->message->body), &plan, &error);
    const char *volume = failed ? NULL : jail_plan_word(&plan, JAIL_PLAN_VOLUME, 0);
    if (!failed && must_wait_for(call, volume)) return;
    if (!failed)
        failed = spawn_node(call->launcher, &plan, call->volume_fd, call->volume_owner, &node, &output_fd, &error);
    if (failed) {
        server_fail(call->launcher, call->request, &error);
        return;
    }
    requests_describe_node(call->launcher, node, &text);
    server_ok(call->launcher, call->request, buf_string(&text), (int[]){node->pidfd, output_fd}, 2);
}

/* One that is dead and has but its cgroups left is none: its pid may be another process's by now. */
static struct jailed_node *find_node(const struct call *call) {
    const char *name = operand(call, 0);
    struct jailed_node *node = name ? nodes_find(call->launcher, name) : NULL;
    if (node && !node->burial.dead_ms) return node;
    refuse(call, E_NOT_FOUND, "there is no such node");
    return NULL;
}

static void handle_bury(const struct call *call) {
    const char *name = operand(call, 0);
    struct jailed_node *node = name ? nodes_find(call->launcher, name) : NULL;
    if (!name)
        refuse(call, E_INVALID, "which node?");
    else if (node)
        bury_start(call->launcher, node, call->request);
    else /* one that ended while there was no launcher has been cleared away already */
        server_ok(call->launcher, call->request, " cause=unknown status=-1 oom=0", NULL, 0);
}

static void handle_freeze(const struct call *call) {
    struct jailed_node *node = find_node(call);
    if (node) freezing_begin(call->launcher, node, true, call->request);
}

static void handle_thaw(const struct call *call) {
    struct jailed_node *node = find_node(call);
    if (node) freezing_begin(call->launcher, node, false, call->request);
}

static void handle_yield(const struct call *call) {
    struct error error;
    uint64_t on;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    if (!wire_message_number(call->message, "on", &on) || on > 1) {
        refuse(call, E_INVALID, "on=1, or on=0");
        return;
    }
    int failed = cgroup_set_yielding(&call->launcher->cgroups, node->name, on, &error);
    if (!failed) node->yields = on;
    finish(call, failed, &error);
}

static void ports_limit(struct launcher *launcher, const struct jailed_node *node, const struct jail_limits *limits) {
    struct jail_port_bounds bounds = {limits->port_connections, limits->port_rate};
    ports_set_bounds(launcher, node->name, &bounds);
}

/* All or nothing: a disk that was resized for a memory limit that is refused gets its size back, and egress its
   bounds. */
static int set_limits(struct launcher *launcher, struct jailed_node *node, const struct jail_limits *limits,
                      struct error *reterr) {
    struct jail_limits before = node->egress ? jail_egress_bounds(node->egress) : (struct jail_limits){0};
    if (jailed_check_rlimits(node, limits, reterr) < 0) return -1;
    jailed_disk_limits(launcher, node, &before);
    bool resizes = limits->disk_bytes && jailed_disk_differs(limits, &before);
    int failed = resizes ? jailed_resize(launcher, node, *limits, reterr) : 0;
    if (!failed) failed = egress_set_bounds(launcher, node, limits, reterr);
    if (!failed) {
        failed = cgroup_set_limits(&launcher->cgroups, node->name, limits, reterr);
        if (failed) egress_set_bounds(launcher, node, &before, NULL);
    }
    /* Setting them ends it, also where that fails half-way. */
    node->yields = failed && node->yields && cgroup_set_yielding(&launcher->cgroups, node->name, true, NULL) == 0;
    if (failed && resizes && before.disk_bytes) jailed_resize(launcher, node, before, NULL);
    if (!failed) jailed_set_rlimits(launcher, node, limits);
    if (!failed) ports_limit(launcher, node, limits);
    return failed;
}

/* The message's body: a plan of what a running node is given, its limits among it. */
static int read_equipment(const struct call *call, const struct jailed_node *node, struct jail_plan *ret,
                          struct jail_limits *ret_limits, struct error *reterr) {
    if (call->message->count != 2)
        return error_set(reterr, E_INVALID, "a node's name is all that is said before its plan");
    int failed = jail_plan_parse(call->message->body, strlen(call->message->body), ret, reterr);
    if (!failed && !string_equal(jail_plan_word(ret, JAIL_PLAN_NODE, 0), node->name))
        failed = error_set(reterr, E_INVALID, "the plan is another node's");
    if (!failed) failed = plan_check_equipment(ret, reterr);
    return failed ? failed : plan_limits(ret, ret_limits, reterr);
}

static void handle_limit(const struct call *call) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    struct jail_limits limits;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    int failed = read_equipment(call, node, &plan, &limits, &error);
    finish(call, failed ? failed : set_limits(call->launcher, node, &limits, &error), &error);
}

static void handle_resolved(const struct call *call) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    struct jail_limits limits;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    int failed = read_equipment(call, node, &plan, &limits, &error);
    if (!failed) failed = egress_set_resolved(call->launcher, node, &plan, &error);
    finish(call, failed, &error);
}

/* Bounded here too, where the array is: what checked the plan counts by other rules, and may change. */
static int collect_binds(const struct jail_plan *plan, struct jailed_bind ret[PLAN_BINDS_MAX], size_t *ret_count,
                         struct error *reterr) {
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct jail_plan_op *op = &plan->ops[i];
        if (op->verb != JAIL_PLAN_BIND && op->verb != JAIL_PLAN_BIND_EXEC) continue;
        if (count == PLAN_BINDS_MAX) return error_set(reterr, E_INVALID, "more than %d mounts at once", PLAN_BINDS_MAX);
        ret[count++] = (struct jailed_bind){
            .source = op->words[0], .target = op->words[1], .executable = op->verb == JAIL_PLAN_BIND_EXEC};
    }
    *ret_count = count;
    return 0;
}

static int mount_plan(const struct launcher *launcher, const struct jailed_node *node, const struct jail_plan *plan,
                      struct error *reterr) {
    struct jailed_bind binds[PLAN_BINDS_MAX];
    size_t count = 0;
    if (collect_binds(plan, binds, &count, reterr) < 0) return -1;
    return count > 0 ? jailed_mount(launcher, node, binds, count, reterr) : 0;
}

/* A pool node gets its sandbox: the limits first, so that nothing of the sandbox runs without them. */
static void handle_equip(const struct call *call) {
    CLEANUP(jail_plan_free) struct jail_plan plan = {0};
    struct error error;
    struct jail_limits limits;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    int failed = read_equipment(call, node, &plan, &limits, &error);
    if (!failed) failed = set_limits(call->launcher, node, &limits, &error);
    if (!failed && jail_plan_word(&plan, JAIL_PLAN_REACH, 0))
        failed = node->egress ? egress_confirm(call->launcher, node, &plan, &error)
                              : egress_attach(call->launcher, node, &plan, &error);
    if (!failed) failed = mount_plan(call->launcher, node, &plan, &error);
    finish(call, failed, &error);
}

/* A toolchain's path lies in the folder that the request names. */
static bool is_place_of(const struct call *call, const char *path) {
    const char *below = wire_message_value(call->message, "below");
    return !below || (path_is_clean(below) && project_is_below(path, below));
}

static enum grant_kind grant_kind_of(const struct call *call) {
    uint64_t toolchain = 0, folder = 0;
    wire_message_number(call->message, "toolchain", &toolchain);
    wire_message_number(call->message, "folder", &folder);
    return folder ? GRANT_FOLDER : toolchain ? GRANT_TOOLCHAIN : GRANT_SOURCE;
}

/* A path as the caller at hand, or a name as the user that gave a standing permission under it. */
static void handle_project(const struct call *call) {
    const char *what = operand(call, 0);
    uint64_t sign = 0;
    wire_message_number(call->message, "sign", &sign);
    if (what && plan_name_is_valid(what) && call->fd < 0)
        project_open_granted(call->launcher, call->request, what, grant_kind_of(call), sign);
    else if (!what || call->fd < 0 || !path_is_clean(what) || !is_place_of(call, what))
        refuse(call, E_INVALID, "a project needs a clean absolute path and the caller's socket, or a grant's name");
    else
        project_open(call->launcher, call->request, call->fd, what, wire_message_value(call->message, "below"));
}

/* Not at once: the folder is opened first. */
static void grant_folder(const struct call *call, const char *name, const char *path, enum folder_access access) {
    if (access == FOLDER_NONE || wire_message_value(call->message, "below"))
        refuse(call, E_INVALID, "a folder is handed over as folder=ro or folder=rw");
    else
        project_grant_folder(call->launcher, call->request, call->fd, name, path, access);
}

static void handle_grant(const struct call *call) {
    const char *name = operand(call, 0), *path = operand(call, 1), *below = wire_message_value(call->message, "below");
    struct grant grant = {0};
    struct error error;
    if (!name || !path || call->fd < 0 || !plan_name_is_valid(name) || !path_is_clean(path) ||
        !is_place_of(call, path)) {
        refuse(call, E_INVALID, "a grant needs a name, a clean absolute path and the caller's socket");
        return;
    }
    const char *folder = wire_message_value(call->message, "folder");
    if (folder) {
        grant_folder(call, name, path, folder_access_find(folder));
        return;
    }
    snprintf(grant.path, sizeof grant.path, "%s", path);
    snprintf(grant.below, sizeof grant.below, "%s", below ? below : "");
    int failed = project_caller(call->launcher, call->fd, &grant.caller, &error);
    if (!failed) failed = grant_write(call->launcher, name, &grant, &error);
    finish(call, failed, &error);
}

static void handle_withdraw(const struct call *call) {
    const char *name = operand(call, 0);
    if (name && plan_name_is_valid(name)) grant_remove(call->launcher, name, grant_kind_of(call));
    finish(call, 0, NULL);
}

/* What an earlier daemon was given and this one has no use for. */
static void handle_keep(const struct call *call) {
    grant_keep(call->launcher, grant_kind_of(call) == GRANT_FOLDER ? GRANT_FOLDER : GRANT_TOOLCHAIN,
               call->message->body);
    finish(call, 0, NULL);
}

static void handle_release(const struct call *call) {
    const char *token = operand(call, 0);
    struct launcher_project *project = token ? project_find(call->launcher, token) : NULL;
    if (project) project_release(call->launcher, project);
    finish(call, 0, NULL);
}

static bool is_folder(const struct call *call, const char *token) {
    const struct launcher_project *project = project_find(call->launcher, token);
    return project && project->folder != FOLDER_NONE;
}

static uid_t owner_of_source(const struct call *call, const struct jailed_bind *bind) {
    const struct launcher_project *project = project_find(call->launcher, bind->source);
    if (bind->is_volume) return call->volume_owner;
    return project && project->folder != FOLDER_NONE ? project->caller.uid : NODE_UNOWNED;
}

static int mount_for_owner(const struct call *call, struct jailed_node *node, const struct jailed_bind *bind,
                           struct error *reterr) {
    uid_t owner = owner_of_source(call, bind);
    if (owner != NODE_UNOWNED && jailed_claim(call->launcher, node, owner, reterr) < 0) return -1;
    return jailed_mount(call->launcher, node, bind, 1, reterr);
}

/* Folders alone may be executable, and are mounted where the node's programs expect files of others. */
static void handle_mount(const struct call *call) {
    struct error error;
    const char *source = operand(call, 1), *target = operand(call, 2);
    uint64_t exec = 0, volume = 0, read_only = 0;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    wire_message_number(call->message, "exec", &exec);
    wire_message_number(call->message, "volume", &volume);
    wire_message_number(call->message, "ro", &read_only);
    struct jailed_bind bind = {.source = source,
                               .target = target,
                               .executable = exec,
                               .is_volume = volume,
                               .is_read_only = read_only,
                               .volume_fd = call->volume_fd};
    if (!source || !target || !(path_is_clean(source) || plan_name_is_valid(source)) || !path_is_clean(target))
        refuse(call, E_INVALID, "a mount needs a clean absolute path or a project, and where it goes");
    else if (volume && !plan_name_is_valid(source))
        refuse(call, E_INVALID, "a volume is mounted by its name");
    else if (volume && volume_is_private(source) ? strcmp(target, JAIL_DATA) != 0 || exec || read_only
             : volume || is_folder(call, source) ? !plan_is_volume_place(target)
                                                 : exec != 0)
        refuse(call, E_INVALID, "folders are mounted below /mnt or /data, and they alone may be executable");
    else if (!must_wait_for(call, volume ? source : NULL))
        finish(call, mount_for_owner(call, node, &bind, &error), &error);
}

static void handle_file(const struct call *call) {
    const char *path = operand(call, 2);
    struct file_task task = {.path = path};
    uint64_t length = 0, mode = 0;
    struct jailed_node *node = find_node(call);
    if (!node) return;
    wire_message_number(call->message, "offset", &task.offset);
    wire_message_number(call->message, "length", &length);
    wire_message_number(call->message, "mode", &mode);
    task.length = (size_t)length;
    task.mode = (mode_t)(mode & 07777);
    if (!path || !file_task_find(operand(call, 1), &task.kind))
        refuse(call, E_INVALID, "a file is read, written, made or listed, by its path");
    else
        jailed_file(call->launcher, call->request, node, &task, call->fd);
}

static void handle_make_volume(const struct call *call) {
    const char *name = operand(call, 0);
    uint64_t size = 0;
    if (!name || !plan_name_is_valid(name) || !volume_name_is_listed(name) || call->fd < 0 ||
        !wire_message_number(call->message, "size", &size))
        refuse(call, E_INVALID, "a volume needs a name, a size and the caller's socket");
    else
        volume_make(call->launcher, call->request, call->fd, name, size);
}

static void handle_remove_volume(const struct call *call) {
    const char *name = operand(call, 0);
    if (!name || !plan_name_is_valid(name) || (call->fd < 0 && !volume_is_private(name)))
        refuse(call, E_INVALID, "which volume, and who says so?");
    else
        volume_remove(call->launcher, call->request, call->fd, name);
}

static void handle_volumes(const struct call *call) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    const char *private = wire_message_value(call->message, "private");
    struct error error;
    if (private && strlen(private) != 1)
        refuse(call, E_INVALID, "private= is followed by one digit");
    else if (volumes_print(call->launcher, private ? *private : '\0', &text, &error) < 0)
        server_fail(call->launcher, call->request, &error);
    else
        server_ok(call->launcher, call->request, buf_string(&text), NULL, 0);
}

/* Descriptors that say how full its disk is and open nothing. */
static void handle_disk(const struct call *call) {
    struct error error;
    int fds[JAIL_DISKS] = {-1, -1};
    struct jailed_node *node = find_node(call);
    if (!node) return;
    if (jailed_open_disks(call->launcher, node, fds, &error) < 0)
        server_fail(call->launcher, call->request, &error);
    else
        server_ok(call->launcher, call->request, "", fds, JAIL_DISKS);
    for (size_t i = 0; i < JAIL_DISKS; i++) fd_close(fds[i]);
}

/* SET, way= and text=: which port. */
static bool read_port(const struct call *call, struct launcher_port *ret) {
    const char *set = operand(call, 0), *way = wire_message_value(call->message, "way");
    const char *text = wire_message_value(call->message, "text");
    struct error error;
    *ret = (struct launcher_port){0};
    if (!set || !plan_name_is_valid(set) || !way || !text || jail_port_way_find(way, &ret->port.way) < 0) {
        refuse(call, E_INVALID, "a port needs the name of its sandbox, its way and its text");
        return false;
    }
    snprintf(ret->set, sizeof ret->set, "%s", set);
    if (jail_port_parse(ret->port.way, text, &ret->port, &error) == 0) return true;
    server_fail(call->launcher, call->request, &error);
    return false;
}

static void handle_publish(const struct call *call) {
    struct launcher_port wanted;
    uint64_t inside = 0;
    if (!read_port(call, &wanted)) return;
    wire_message_number(call->message, "inside", &inside);
    if (call->fd < 0 || inside > JAIL_PORT_NAMES_MAX || (inside == 0) != (wanted.port.name[0] == '\0')) {
        refuse(call, E_INVALID, "a port needs its caller's socket, and a place inside for its name");
        return;
    }
    wanted.inside = (unsigned)inside;
    ports_publish(call->launcher, call->request, &wanted, call->fd);
}

static void handle_serve(const struct call *call) {
    struct launcher_port wanted;
    struct jail_port_bounds bounds = {0};
    const char *name = operand(call, 1);
    if (!read_port(call, &wanted)) return;
    struct launcher_port *port = ports_find(call->launcher, wanted.set, &wanted.port);
    struct jailed_node *node = name ? nodes_find(call->launcher, name) : NULL;
    struct error error;
    wire_message_number(call->message, "connections", &bounds.connections);
    wire_message_number(call->message, "rate", &bounds.rate);
    if (!port)
        refuse(call, E_NOT_FOUND, "there is no such port any more: the sandbox's owner must publish it again");
    else if (!node || node->burial.under_way || node->is_starting)
        refuse(call, E_CONFLICT, "there is no such node");
    else if (port->caller.uid != 0 && jailed_claim(call->launcher, node, port->caller.uid, &error) < 0)
        server_fail(call->launcher, call->request, &error);
    else
        ports_serve(call->launcher, call->request, port, node, &bounds);
}

/* One port of a set, or all of it. */
static void handle_unpublish(const struct call *call) {
    const char *set = operand(call, 0);
    struct launcher_port wanted;
    if (set && plan_name_is_valid(set) && !wire_message_value(call->message, "way"))
        ports_unpublish(call->launcher, call->request, set, NULL);
    else if (read_port(call, &wanted))
        ports_unpublish(call->launcher, call->request, wanted.set, &wanted.port);
}

static void handle_shutdown(const struct call *call) {
    /* One answer goes out at the end: a second request would take the first one's. */
    if (call->launcher->shutdown_request.link_serial == call->request.link_serial) {
        refuse(call, E_CONFLICT, "the launcher is shutting down already");
        return;
    }
    call->launcher->shutting_down = true;
    call->launcher->daemon.wanted = false;
    call->launcher->shutdown_request = call->request;
    bury_everything(call->launcher);
    shutdown_advance(call->launcher);
}

static const struct {
    const char *verb;
    void (*handle)(const struct call *call);
} verbs[] = {
    {"hello", handle_hello},
    {"spawn", handle_spawn},
    {"bury", handle_bury},
    {"freeze", handle_freeze},
    {"thaw", handle_thaw},
    {"limit", handle_limit},
    {"project", handle_project},
    {"release", handle_release},
    {"mount", handle_mount},
    {"shutdown", handle_shutdown},
    {"grant", handle_grant},
    {"withdraw", handle_withdraw},
    {"equip", handle_equip},
    {"disk", handle_disk},
    {"resolved", handle_resolved},
    {"yield", handle_yield},
    {"keep", handle_keep},
    {"publish", handle_publish},
    {"serve", handle_serve},
    {"unpublish", handle_unpublish},
    {"make-volume", handle_make_volume},
    {"volumes", handle_volumes},
    {"remove-volume", handle_remove_volume},
    {"file", handle_file},
};

static void carry_out(struct launcher *launcher, char *text, int fd, int volume_fd, uid_t volume_owner) {
    struct wire_message message;
    CLEANUP_FREE char *copy = volume_fd < 0 && strstr(text, "volume") ? strdup(text) : NULL;
    struct call call = {.launcher = launcher,
                        .request = {.link_serial = launcher->server.link_serial},
                        .message = &message,
                        .fd = fd,
                        .copy = &copy,
                        .volume_fd = volume_fd,
                        .volume_owner = volume_owner};
    if (wire_message_parse(text, &message, NULL) < 0 || message.count == 0 ||
        !parse_u64(message.words[0], &call.request.id)) {
        server_drop_link(launcher);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i].verb, message.verb) == 0) {
            verbs[i].handle(&call);
            return;
        }
    refuse(&call, E_INVALID, "the launcher knows no such verb");
}

void requests_handle(struct launcher *launcher, char *text, int fd) {
    carry_out(launcher, text, fd, -1, NODE_UNOWNED);
}

void requests_go_on(struct launcher *launcher, struct request request, char *text, int volume_fd, uid_t owner) {
    if (request.link_serial == launcher->server.link_serial && launcher->server.link_fd >= 0)
        carry_out(launcher, text, -1, volume_fd, owner);
}
