/* Choosing a toolchain for a project: what the caller names, what the project's own files name, or the default. */
#include "core/toolchains/choice.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/core_internal.h"
#include "core/toolchains/own.h"

enum { ATTEMPTS_MAX = 4 };

/* ---- the end ---- */

static void on_looked(void *data, const struct own_list *list, const struct error *error);

static void on_ready(void *data, const struct error *error) {
    struct toolchain_choice *choice = data;
    struct error named;
    if (!error) {
        toolchain_hold(&choice->entry, choice->entry); /* or its successor */
        choice->done(choice, NULL);
        return;
    }
    if (error->code == E_TOOLCHAIN && choice->is_by_file && choice->attempts++ < ATTEMPTS_MAX) {
        choice->is_by_file = false;
        toolchain_hold(&choice->entry, NULL);
        own_look(choice->engine, choice->caller, choice->home, on_looked, choice);
        return;
    }
    error_set(&named, error->code, "%s", error->detail);
    if (error->code == E_TOOLCHAIN) error_prefix(&named, "toolchain %s", choice->entry->name);
    toolchain_hold(&choice->entry, NULL);
    choice->done(choice, &named);
}

static void use(struct toolchain_choice *choice, struct toolchain_entry *entry) {
    toolchain_hold(&choice->entry, entry);
    if (entry->own)
        own_use(entry, choice->caller->peer_fd, on_ready, choice);
    else
        toolchain_need(entry, on_ready, choice);
}

/* ---- one of the caller's own, by its name ---- */

/* Why it can't be used, where the list says so: of it, or of all of its manager, "mise:*". */
static const char *problem_of(const struct own_list *list, const char *name) {
    size_t i, manager = strcspn(name, ":") + 1;
    json_t *item;
    json_array_foreach(list->problems, i, item) {
        const char *listed = json_string_value(json_object_get(item, "name"));
        bool is_all = strncmp(listed, name, manager) == 0 && strcmp(listed + manager, "*") == 0;
        if (is_all || strcmp(listed, name) == 0) return json_string_value(json_object_get(item, "problem"));
    }
    return NULL;
}

static void on_own_listed(void *data, const struct own_list *list, const struct error *error) {
    struct toolchain_choice *choice = data;
    struct error why;
    for (size_t i = 0; !error && i < list->count; i++)
        if (strcmp(list->entries[i]->name, choice->name) == 0) {
            use(choice, list->entries[i]);
            return;
        }
    const char *problem = error ? error->detail : problem_of(list, choice->name);
    if (problem)
        error_set(&why, E_TOOLCHAIN, "toolchain %.80s: %s", choice->name, problem);
    else
        error_set(&why, E_INVALID, "uid %u has no toolchain '%.80s'; `sandbox toolchains` lists them",
                  choice->caller->uid, choice->name);
    choice->done(choice, &why);
}

static void use_own(struct toolchain_choice *choice) {
    struct toolchain_entry *known = choice->home ? NULL : own_find(choice->engine, choice->caller->uid, choice->name);
    if (known && own_is_checked(known))
        use(choice, known);
    else
        own_look(choice->engine, choice->caller, choice->home, on_own_listed, choice);
}

/* ---- what the project's files name ---- */

static const struct {
    const char *name;
    void (*read)(const char *text, size_t size, struct wanted_versions *wanted);
} files[] = {
    {"mise.toml", wanted_read_mise}, {".mise.toml", wanted_read_mise}, {".tool-versions", wanted_read_tool_versions}};

static bool read_file(int folder_fd, const char *name, struct buf *text) {
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    struct stat status;
    char chunk[4096];
    CLEANUP_FD int fd = file_open_how(folder_fd, name, &how);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) return false;
    for (ssize_t size; text->size < WANTED_FILE_MAX_BYTES && (size = read(fd, chunk, sizeof chunk)) > 0;)
        buf_append(text, chunk, (size_t)size);
    return !text->failed && text->size > 0;
}

static void read_files(uv_work_t *work) {
    struct toolchain_choice *choice = work->data;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT;
        if (!read_file(choice->project_fd, files[i].name, &text)) continue;
        files[i].read((const char *)text.data, text.size, &choice->wanted);
        if (!choice->file[0] && !wanted_is_any(&choice->wanted))
            snprintf(choice->file, sizeof choice->file, "%s", files[i].name);
    }
}

static const char *otp_of(const struct toolchain *toolchain) {
    return toolchain->otp_version[0] ? toolchain->otp_version : toolchain->otp_release;
}

static void use_default(struct toolchain_choice *choice) {
    struct toolchain_entry *entry = toolchains_default(choice->engine);
    const struct wanted_versions *wanted = &choice->wanted;
    snprintf(choice->warning, sizeof choice->warning,
             "the project's %s asks for%s%s%s%s, which no listed toolchain has; '%s' is used (OTP %s%s%s)",
             choice->file, wanted->erlang[0] ? " Erlang " : "", wanted->erlang, wanted->elixir[0] ? " Elixir " : "",
             wanted->elixir, entry->name, otp_of(&entry->toolchain),
             entry->toolchain.elixir_version[0] ? ", Elixir " : "", entry->toolchain.elixir_version);
    use(choice, entry);
}

static void on_looked(void *data, const struct own_list *list, const struct error *error) {
    struct toolchain_choice *choice = data;
    struct version_candidate candidates[OWN_PAIRS_MAX] = {0};
    size_t count = error ? 0 : list->count;
    char versions[OWN_PAIRS_MAX][OWN_NAME_BYTES];
    for (size_t i = 0; i < count; i++) { /* "mise:27.2+1.18.1-otp-27" */
        const char *name = strchr(list->entries[i]->name, ':') + 1;
        snprintf(versions[i], sizeof versions[i], "%s", name);
        char *plus = strchr(versions[i], '+');
        if (plus) *plus = '\0';
        bool is_broken = list->entries[i]->error.code;
        candidates[i] = (struct version_candidate){.otp = is_broken ? "none" : versions[i],
                                                   .elixir = plus && !is_broken ? plus + 1 : ""};
    }
    size_t chosen = versions_choose(&choice->wanted, candidates, count);
    choice->is_by_file = chosen < count;
    if (chosen < count)
        use(choice, list->entries[chosen]);
    else
        use_default(choice);
}

/* The system's and the operator's come first. */
static void choose_listed(struct toolchain_choice *choice) {
    const struct toolchains *toolchains = &choice->engine->toolchains;
    struct version_candidate candidates[TOOLCHAINS_MAX] = {0};
    for (size_t i = 0; i < toolchains->count; i++) {
        const struct toolchain_entry *entry = toolchains->items[i];
        bool is_usable = entry->toolchain.boot_dir[0];
        candidates[i] = (struct version_candidate){
            .otp = is_usable ? otp_of(&entry->toolchain) : "none",
            .elixir = is_usable ? entry->toolchain.elixir_version : "",
            .is_system = strcmp(entry->name, TOOLCHAIN_SYSTEM) == 0,
            .is_default = entry == toolchains_default(choice->engine),
        };
    }
    size_t chosen = versions_choose(&choice->wanted, candidates, toolchains->count);
    if (chosen < toolchains->count)
        use(choice, toolchains->items[chosen]);
    else
        own_look(choice->engine, choice->caller, choice->home, on_looked, choice);
}

static void on_one_probed(void *data, const struct error *error) {
    struct toolchain_choice *choice = data;
    (void)error;
    if (choice->probed == choice->engine->toolchains.count)
        choose_listed(choice);
    else
        toolchain_need(choice->engine->toolchains.items[choice->probed++], on_one_probed, choice);
}

static void on_read(uv_work_t *work, int status) {
    struct toolchain_choice *choice = work->data;
    (void)status;
    choice->project_fd = fd_close(choice->project_fd);
    if (wanted_is_any(&choice->wanted))
        use(choice, toolchains_default(choice->engine));
    else
        on_one_probed(choice, NULL);
}

/* ---- the beginning ---- */

void toolchain_choose(struct toolchain_choice *choice, const struct link_project *project) {
    struct toolchain_entry *entry;
    struct error error;
    bool is_folder = project && !project->is_stream && !project->is_file;
    choice->project_fd = -1;
    if (choice->name && own_manager_of(choice->name) < OWN_MANAGERS) {
        use_own(choice);
    } else if (choice->name || !is_folder) {
        if (toolchains_find(choice->engine, choice->name, &entry, &error) == 0)
            use(choice, entry);
        else
            choice->done(choice, &error);
    } else {
        choice->project_fd = fcntl(project->fd, F_DUPFD_CLOEXEC, 0);
        choice->work.data = choice;
        host_work(&choice->engine->host, choice->caller->uid, &choice->work, read_files, on_read);
    }
}
