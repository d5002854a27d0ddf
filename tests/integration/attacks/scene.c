/* Sets up the scene of the attacks: listeners on the host that must stay untouched, the hostile project, its sandboxes
   and a neighbour. */
#include <fcntl.h>
#include <ftw.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "attacks.h"

const char *const profile_names[PROFILES] = {"high", "medium", "low"};

/* ---- the host's doors ---- */

static void open_tcp_door(struct scene *scene) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    scene->tcp_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(scene->tcp_listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(scene->tcp_listener, 8), 0);
    assert_int_equal(getsockname(scene->tcp_listener, (struct sockaddr *)&address, &size), 0);
    scene->tcp_port = ntohs(address.sin_port);
}

/* One that is not the loopback's, as Erlang writes it; where there is none, the one that would lead to the host. */
static void find_address(struct scene *scene) {
    struct ifaddrs *list;
    strcpy(scene->address, "{198,18,0,2}");
    assert_int_equal(getifaddrs(&list), 0);
    for (struct ifaddrs *at = list; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || at->ifa_flags & IFF_LOOPBACK) continue;
        const uint8_t *bytes = (const uint8_t *)&((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr;
        snprintf(scene->address, sizeof scene->address, "{%u,%u,%u,%u}", bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    freeifaddrs(list);
}

static void open_unix_door(struct scene *scene) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(scene->abstract_name, sizeof scene->abstract_name, "sbx-attack-%d", (int)getpid());
    strcpy(address.sun_path + 1, scene->abstract_name);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(scene->abstract_name));
    scene->unix_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(scene->unix_listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(scene->unix_listener, 8), 0);
}

/* ---- the attacking project ---- */

/* nftw has no argument for its callback. */
static _Thread_local struct {
    struct world *world;
    const char *name;
} copying;

static int copy_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    char name[256];
    (void)status, (void)walk;
    if (type != FTW_F) return 0;
    snprintf(name, sizeof name, "%s%s", copying.name, path + strlen(VICTIM));
    world_copy(copying.world, name, path, SIZE_MAX);
    return 0;
}

const char *scene_project(struct scene *scene, const char *name) {
    copying.world = scene->world;
    copying.name = name;
    assert_int_equal(nftw(VICTIM, copy_entry, 8, FTW_PHYS), 0);
    return world_path(scene->world, name);
}

const char *scene_weapon(struct scene *scene, const char *name) {
    static const char *const files[] = {"src/attack_vm.erl", "src/impostors.erl"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char from[PATH_MAX], to[128];
        snprintf(from, sizeof from, VICTIM "/%s", files[i]);
        snprintf(to, sizeof to, "%s/%s", name, files[i]);
        world_copy(scene->world, to, from, SIZE_MAX);
    }
    return world_path(scene->world, name);
}

/* ---- the sandboxes ---- */

struct creation {
    struct scene *scene;
    const char *id, *profile;
    bool is_small;
    struct sbx_error error;
    int result;
};

static void *create(void *data) {
    struct creation *creation = data;
    char options[128];
    /* Little of everything, since it is going to be filled. */
    snprintf(options, sizeof options,
             "{\"profile\": \"%s\", \"disk_bytes\": 4194304, \"limit\": {\"os_tasks\": \"64\"}%s}", creation->profile,
             creation->is_small ? ", \"memory_bytes\": 41943040" : "");
    creation->result =
        sbx_create(world_client(creation->scene->world), creation->id, VICTIM, options, NULL, &creation->error);
    return NULL;
}

static void create_victims(struct scene *scene, unsigned where, unsigned small, const char *const *profiles) {
    struct creation creations[PROFILES] = {0};
    pthread_t threads[PROFILES];
    for (unsigned i = 0; i < PROFILES; i++) {
        creations[i] = (struct creation){
            .scene = scene, .id = profile_names[i], .profile = profiles[i], .is_small = small & 1u << i};
        if (where & 1u << i) assert_int_equal(pthread_create(&threads[i], NULL, create, &creations[i]), 0);
    }
    for (unsigned i = 0; i < PROFILES; i++)
        if (where & 1u << i) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < PROFILES; i++)
        if (creations[i].result < 0) fail_msg("creating %s: %s", creations[i].profile, creations[i].error.detail);
}

static void create_neighbour(struct scene *scene) {
    json_t *neighbour = world_create(scene->world, "neighbour", VICTIM, "medium");
    scene->neighbour = (pid_t)json_integer_value(json_object_get(neighbour, "os_pid"));
    json_decref(neighbour);
    CLEANUP_FREE char *text = world_eval_text(
        scene->world, "neighbour", NULL, "ok = file:write_file(\"/data/secret\", \"mine\"), victim_counter:add(42)");
    assert_string_equal(text, "42");
}

struct scene *scene_open(const char *settings, unsigned where, unsigned small, const char *const *profiles) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    open_tcp_door(scene);
    open_unix_door(scene);
    find_address(scene);
    scene->world = world_open(settings);
    scene->daemon = world_pid(scene->world, "daemon.lock");
    scene->launcher = world_pid(scene->world, "launcher.lock");
    create_neighbour(scene);
    create_victims(scene, where, small, profiles ? profiles : profile_names);
    return scene;
}

void scene_close(struct scene *scene) {
    if (!scene) return;
    fd_close(scene->tcp_listener);
    fd_close(scene->unix_listener);
    world_close(scene->world);
    free(scene);
}

static void check_doors(const struct scene *scene) {
    struct pollfd doors[] = {{scene->tcp_listener, POLLIN, 0}, {scene->unix_listener, POLLIN, 0}};
    if (poll(doors, ARRAY_SIZE(doors), 0) != 0) fail_msg("somebody reached the host");
}

void scene_check(struct scene *scene) {
    check_doors(scene);
    assert_int_equal(world_pid(scene->world, "daemon.lock"), scene->daemon);
    assert_int_equal(world_pid(scene->world, "launcher.lock"), scene->launcher);
    CLEANUP_FREE char *text =
        world_eval_text(scene->world, "neighbour", NULL, "{victim_counter:value(), file:read_file(\"/data/secret\")}");
    assert_string_equal(text, "{42,{ok,<<\"mine\">>}}");
    json_t *neighbour = world_info(scene->world, "neighbour");
    assert_int_equal(json_integer_value(json_object_get(neighbour, "os_pid")), scene->neighbour);
    assert_int_equal(json_integer_value(json_object_get(neighbour, "restart_count")), 0);
    assert_string_equal(json_string_value(json_object_get(neighbour, "status")), "running");
    json_decref(neighbour);
}

/* ---- what rows may refer to ---- */

static const char *value_of(const struct scene *scene, const char *name, size_t length, char *number, size_t size) {
    const struct {
        const char *name;
        const char *text;
        long number;
    } values[] = {
        {"HOME", world_home(scene->world), 0}, {"DAEMON", NULL, scene->daemon},
        {"LAUNCHER", NULL, scene->launcher},   {"NEIGHBOUR", NULL, scene->neighbour},
        {"HOST_PORT", NULL, scene->tcp_port},  {"HOST_SOCKET", scene->abstract_name, 0},
        {"HOST_ADDRESS", scene->address, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (strlen(values[i].name) != length || strncmp(values[i].name, name, length) != 0) continue;
        snprintf(number, size, "%ld", values[i].number);
        return values[i].text ? values[i].text : number;
    }
    return NULL;
}

char *scene_expand(const struct scene *scene, const char *code) {
    struct buf text = BUF_INIT;
    char number[24];
    while (*code) {
        size_t length = *code == '{' ? strcspn(code, "}") : 0;
        const char *value = length > 1 ? value_of(scene, code + 1, length - 1, number, sizeof number) : NULL;
        if (value)
            buf_append_string(&text, value);
        else
            buf_append_byte(&text, (uint8_t)*code);
        code += value ? length + 1 : 1;
    }
    return buf_take_string(&text);
}
