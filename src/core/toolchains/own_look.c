/* Which toolchains a user has: the folders of mise, asdf and kerl in the user's home. The launcher opens each with the
   user's rights; a thread lists it. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"
#include "jail/plan.h"

enum { ENTRIES_MAX = 256, LIST_MAX_BYTES = 16 * 1024, PASSWD_BYTES = 16 * 1024 };

/* Below the home. */
static const struct place {
    enum own_manager manager;
    bool is_elixir;
    const char *path;
    const char *prefix; /* of the names of its folders, cut off */
    const char *list;   /* a file that names the installations instead; NULL: its folders are they */
} places[] = {
    {OWN_MISE, false, ".local/share/mise/installs/erlang", "", NULL},
    {OWN_MISE, true, ".local/share/mise/installs/elixir", "", NULL},
    {OWN_ASDF, false, ".asdf/installs/erlang", "", NULL},
    {OWN_ASDF, true, ".asdf/installs/elixir", "", NULL},
    {OWN_KERL, false, ".kerl", "", "otp_installations"},
    {OWN_KERL, true, ".kiex/elixirs", "elixir-", NULL},
};

struct own_look {
    struct own_look *next; /* of the engine's */
    struct engine *engine;
    uid_t uid;
    int peer_fd; /* the caller's */
    char home[PATH_MAX];
    size_t place; /* the one at hand */
    int fd;       /* its folder */
    uv_work_t work;
    struct own_found found[OWN_FOUND_MAX];
    size_t found_count;
    struct own_list list;
    struct error error;
    own_looked_fn done;
    void *data;
};

/* ---- on a thread ---- */

static void find_home(uv_work_t *work) {
    struct own_look *look = work->data;
    struct passwd entry, *found = NULL;
    char text[PASSWD_BYTES];
    if (look->home[0]) return;
    getpwuid_r(look->uid, &entry, text, sizeof text, &found);
    if (found && found->pw_dir) string_format(look->home, sizeof look->home, NULL, "%s", found->pw_dir);
}

static void add_found(struct own_look *look, const char *name) {
    const struct place *place = &places[look->place];
    size_t prefix = strlen(place->prefix);
    if (look->found_count == OWN_FOUND_MAX || !string_starts(name, place->prefix) ||
        !own_version_is_valid(name + prefix))
        return;
    struct own_found found = {.manager = place->manager,
                              .is_elixir = place->is_elixir,
                              .path = string_print("%s/%s/%s", look->home, place->path, name)};
    snprintf(found.version, sizeof found.version, "%s", name + prefix);
    if (found.path) look->found[look->found_count++] = found;
}

/* Links are other names of folders beside them: "27" of "27.2", "latest". */
static void list_folders(struct own_look *look) {
    int fd = openat(look->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct stat status;
    if (!directory) {
        fd_close(fd);
        return;
    }
    struct dirent *entry;
    for (size_t i = 0; i < ENTRIES_MAX && (entry = readdir(directory)); i++)
        if (fstatat(look->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode))
            add_found(look, entry->d_name);
    closedir(directory);
}

static void read_list(struct own_look *look, const char *name) {
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    char text[LIST_MAX_BYTES];
    struct stat status;
    CLEANUP_FD int fd = file_open_how(look->fd, name, &how);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) return;
    ssize_t size = read(fd, text, sizeof text);
    if (size > 0)
        look->found_count +=
            own_read_kerl(text, (size_t)size, look->found + look->found_count, OWN_FOUND_MAX - look->found_count);
}

static void list_place(uv_work_t *work) {
    struct own_look *look = work->data;
    const struct place *place = &places[look->place];
    if (place->list)
        read_list(look, place->list);
    else
        list_folders(look);
}

/* ---- the list ---- */

static void add_problem(struct own_look *look, const char *name, const char *source, const char *path,
                        const char *problem) {
    json_t *item = json_pack("{s:s, s:n, s:n, s:n, s:s, s:s, s:b, s:b, s:s}", "name", name, "otp", "erts", "elixir",
                             "source", source, "path", path, "default", 0, "usable", 0, "problem", problem);
    json_array_append_new(look->list.problems, item);
}

static void add_pair(struct own_look *look, const struct own_pair *pair) {
    const char *source = own_manager_names[pair->otp->manager];
    struct own_place place = {.uid = look->uid,
                              .home = look->home,
                              .otp = pair->otp->path,
                              .elixir = pair->elixir ? pair->elixir->path : NULL};
    size_t home_length = strlen(look->home);
    bool is_below = strncmp(place.otp, look->home, home_length) == 0 && place.otp[home_length] == '/';
    if (pair->is_double) {
        add_problem(look, pair->name, source, place.otp, "there are two of this name; give one of them another");
    } else if (!is_below || !path_is_clean(place.otp)) {
        CLEANUP_FREE char *why =
            string_print("it lies outside of %s; its operator may name it in sandbox.conf", look->home);
        add_problem(look, pair->name, source, place.otp, why);
    } else {
        struct toolchain_entry *entry = own_entry(look->engine, pair->name, &place);
        if (entry) toolchain_hold(&look->list.entries[look->list.count++], entry);
    }
}

/* One that is not there any more can't be used; sandboxes that run on it go on. */
static void note_gone(struct own_look *look) {
    for (struct toolchain_entry *entry = look->engine->toolchains.own; entry; entry = entry->next) {
        bool is_listed = false;
        if (entry->own->uid != look->uid || strcmp(entry->own->home, look->home) != 0) continue;
        for (size_t i = 0; i < look->list.count; i++) is_listed |= look->list.entries[i] == entry;
        entry->is_gone = !is_listed;
    }
}

static void end(struct own_look *look) {
    struct own_pair pairs[OWN_PAIRS_MAX];
    struct own_look **at = &look->engine->toolchains.looks;
    while (*at != look) at = &(*at)->next;
    *at = look->next;
    size_t count = own_make_pairs(look->found, look->found_count, pairs);
    for (size_t i = 0; i < count; i++) add_pair(look, &pairs[i]);
    note_gone(look);
    look->done(look->data, &look->list, look->error.code ? &look->error : NULL);
    for (size_t i = 0; i < look->list.count; i++) toolchain_hold(&look->list.entries[i], NULL);
    for (size_t i = 0; i < look->found_count; i++) free(look->found[i].path);
    json_decref(look->list.problems);
    engine_wake(look->engine);
    free(look);
}

/* ---- one place after another ---- */

static void open_place(struct own_look *look);

static void on_listed(uv_work_t *work, int status) {
    struct own_look *look = work->data;
    (void)status;
    look->fd = fd_close(look->fd);
    look->place++;
    open_place(look);
}

static void on_opened(void *data, const struct link_project *project, const struct error *error) {
    struct own_look *look = data;
    const struct place *place = &places[look->place];
    if (!error) {
        link_release_project(look->engine->host.link, project->token);
        look->fd = project->fd;
        host_work(&look->engine->host, look->uid, &look->work, list_place, on_listed);
        return;
    }
    if (error->code == E_TOOLCHAIN || error->code == E_FORBIDDEN) {
        char name[32];
        CLEANUP_FREE char *path = string_print("%s/%s", look->home, place->path);
        snprintf(name, sizeof name, "%s:*", own_manager_names[place->manager]);
        add_problem(look, name, own_manager_names[place->manager], path ? path : "", error->detail);
    }
    look->place++;
    open_place(look);
}

static void open_place(struct own_look *look) {
    char path[PATH_MAX];
    bool is_over = look->place == ARRAY_SIZE(places) || look->engine->closing.is_begun;
    if (is_over || string_format(path, sizeof path, &look->error, "%s/%s", look->home, places[look->place].path) < 0)
        end(look);
    else
        link_open_toolchain(look->engine->host.link, look->peer_fd, path, look->home, on_opened, look);
}

static void on_home(uv_work_t *work, int status) {
    struct own_look *look = work->data;
    (void)status;
    if (!path_is_clean(look->home))
        end(look); /* no home, or "/": none of them is a user's own */
    else
        open_place(look);
}

/* ---- asking ---- */

void own_look(struct engine *engine, const struct caller *caller, const char *home, own_looked_fn done, void *data) {
    static const struct own_list none;
    if (caller->peer_fd < 0) {
        done(data, &none, NULL);
        return;
    }
    struct own_look *look = new_or_abort(struct own_look);
    look->list.problems = json_array();
    look->engine = engine;
    look->uid = caller->uid;
    look->peer_fd = caller->peer_fd;
    look->fd = -1;
    look->work.data = look;
    snprintf(look->home, sizeof look->home, "%s", home ? home : "");
    look->next = engine->toolchains.looks;
    engine->toolchains.looks = look;
    look->done = done;
    look->data = data;
    host_work(&engine->host, caller->uid, &look->work, find_home, on_home);
}
