/* Writes the generated project, applies changes to it, and knows which files each change makes stale. */
#include "generated.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "templates.h"

#define STALE(...)                                                                                                     \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }
#define MACRO_USERS "lib/g0/macro_user.ex", "lib/g0/macro_importer.ex"

const struct generated_change generated_changes[] = {
    {.name = "body", .file = "lib/g0/plain_b.ex", .from = "do: 1", .to = "do: 2", .stale = STALE("lib/g0/plain_b.ex")},
    {.name = "Erlang body",
     .file = "src/g0_plain.erl",
     .from = "value() -> 1",
     .to = "value() -> 2",
     .stale = STALE("src/g0_plain.erl")},
    {.name = "macro",
     .file = "lib/g0/macros.ex",
     .from = "* 1",
     .to = "* 2",
     .stale = STALE("lib/g0/macros.ex", MACRO_USERS)},
    {.name = "function that a macro calls",
     .file = "lib/g0/helper.ex",
     .from = "+ 1",
     .to = "+ 2",
     .stale = STALE("lib/g0/helper.ex", MACRO_USERS)},
    {.name = "function that this one calls",
     .file = "lib/g0/deep.ex",
     .from = "10",
     .to = "20",
     .stale = STALE("lib/g0/deep.ex", MACRO_USERS)},
    {.name = "__using__",
     .file = "lib/g0/template.ex",
     .from = ":first",
     .to = ":second",
     .stale = STALE("lib/g0/template.ex", "lib/g0/template_user.ex")},
    {.name = "struct default",
     .file = "lib/g0/point.ex",
     .from = "x: 0",
     .to = "x: 7",
     .stale = STALE("lib/g0/point.ex", "lib/g0/point_user.ex")},
    {.name = "callback",
     .file = "lib/g0/contract.ex",
     .from = "integer\n",
     .to = "integer\n  @callback extra(term) :: term\n  @optional_callbacks extra: 1\n",
     .stale = STALE("lib/g0/contract.ex", "lib/g0/contract_user.ex")},
    {.name = "implementation's body",
     .file = "lib/g0/shape_point.ex",
     .from = "do: 0",
     .to = "do: 3",
     .stale = STALE("lib/g0/shape_point.ex")},
    {.name = "implementation added",
     .file = "lib/g0/circle.ex",
     .to = "defmodule Generated.G0.Circle do\n  defstruct [:radius]\n\n"
           "  defimpl Generated.G0.Shape do\n    def area(circle), do: 3 * circle.radius\n  end\nend\n",
     .stale = STALE("lib/g0/circle.ex")},
    /* The protocol's code, which runs when implementations are compiled, names those for built-in types. */
    {.name = "implementation for a built-in type added",
     .file = "lib/g0/shape_float.ex",
     .to = "defimpl Generated.G0.Shape, for: Float do\n  def area(side), do: side * side\nend\n",
     .stale = STALE("lib/g0/shape_*.ex", "lib/g0/circle.ex", "lib/g0/derived.ex")},
    {.name = "__deriving__",
     .file = "lib/g0/shape_any.ex",
     .from = "+ 1",
     .to = "+ 2",
     .stale = STALE("lib/g0/shape*.ex", "lib/g0/circle.ex", "lib/g0/derived.ex")},
    {.name = "include",
     .file = "include/g0.hrl",
     .from = "value = 1",
     .to = "value = 2",
     .stale = STALE("src/g0_record.erl")},
    {.name = "Erlang callback",
     .file = "src/g0_contract.erl",
     .from = "-callback",
     .to = "-callback more(term()) -> term().\n-optional_callbacks([more/1]).\n-callback",
     .stale = STALE("src/g0_contract.erl", "src/g0_worker.erl")},
    {.name = "external resource",
     .file = "priv/g0.txt",
     .from = "first",
     .to = "second",
     .stale = STALE("lib/g0/resource.ex")},
    {.name = "configuration",
     .file = "config/config.exs",
     .from = "limit: 10",
     .to = "limit: 20",
     .stale = STALE("lib/*/settings.ex")},
    {.name = "module deleted", .file = "lib/g0/counter.ex", .stale = STALE(NULL)},
    {.name = "module added",
     .file = "lib/g0/added.ex",
     .to = "defmodule Generated.G0.Added do\n  def value, do: Generated.G0.PlainA.value(0)\nend\n",
     .stale = STALE("lib/g0/added.ex")},
    {.name = "module moved",
     .file = "lib/g0/plain_a.ex",
     .moved_to = "lib/moved/plain_a.ex",
     .stale = STALE("lib/moved/plain_a.ex")},
};
const size_t generated_change_count = ARRAY_SIZE(generated_changes);

bool generated_is_stale(const struct generated_change *change, const char *source) {
    for (const char *const *pattern = change->stale; *pattern; pattern++)
        if (fnmatch(*pattern, source, 0) == 0) return true;
    return false;
}

/* ---- files ---- */

static void *end(const char *what, const char *path) {
    fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void make_parents(const char *path) {
    char above[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        if (mkdir(above, 0755) < 0 && errno != EEXIST) end("making", above);
    }
}

void generated_write_file(const char *path, const char *text) {
    make_parents(path);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) end("writing", path);
}

static char *read_text(const char *path) {
    struct buf text = BUF_INIT;
    char chunk[4096];
    size_t count;
    FILE *file = fopen(path, "re");
    if (!file) end("reading", path);
    while ((count = fread(chunk, 1, sizeof chunk, file)) > 0) buf_append(&text, chunk, count);
    fclose(file);
    char *taken = buf_take_string(&text);
    return taken ? taken : end("reading", path);
}

void generated_replace(const char *path, const char *from, const char *to) {
    struct buf text = BUF_INIT;
    CLEANUP_FREE char *before = read_text(path);
    const char *at = strstr(before, from);
    if (!at) {
        fprintf(stderr, "%s has no \"%s\"\n", path, from);
        exit(1);
    }
    buf_append(&text, before, (size_t)(at - before));
    buf_append_string(&text, to);
    buf_append_string(&text, at + strlen(from));
    generated_write_file(path, buf_string(&text));
    buf_free(&text);
}

static void join(char ret[PATH_MAX], const char *folder, const char *name) {
    int length = snprintf(ret, PATH_MAX, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_MAX) end("too long:", folder);
}

void generated_apply(const char *folder, const struct generated_change *change) {
    char path[PATH_MAX], target[PATH_MAX];
    join(path, folder, change->file);
    if (change->from) {
        generated_replace(path, change->from, change->to);
    } else if (change->to) {
        generated_write_file(path, change->to);
    } else if (change->moved_to) {
        join(target, folder, change->moved_to);
        make_parents(target);
        if (rename(path, target) < 0) end("moving", path);
    } else if (unlink(path) < 0) {
        end("removing", path);
    }
}

static int age(const char *path, const struct stat *status, int kind, struct FTW *place) {
    enum { SECONDS = 10 };
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = status->st_mtim.tv_sec - SECONDS}};
    (void)kind, (void)place;
    if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) < 0) end("ageing", path);
    return 0;
}

void generated_age(const char *folder) {
    enum { DESCRIPTORS = 16 };
    if (nftw(folder, age, DESCRIPTORS, FTW_PHYS) < 0) end("reading", folder);
}

/* ---- the project ---- */

struct group {
    unsigned number, next;
};

static void expand(struct buf *ret, const char *text, const struct group *group) {
    for (const char *at = text; *at; at++) {
        if (*at == '$' && (at[1] == 'G' || at[1] == 'N'))
            buf_printf(ret, "%u", *++at == 'G' ? group->number : group->next);
        else
            buf_append_byte(ret, (uint8_t)*at);
    }
}

static void write_one(const char *folder, const struct template *template, const struct group *group) {
    struct buf path = BUF_INIT, text = BUF_INIT;
    buf_printf(&path, "%s/", folder);
    expand(&path, template->path, group);
    expand(&text, template->text, group);
    generated_write_file(buf_string(&path), buf_string(&text));
    buf_free(&path);
    buf_free(&text);
}

void generated_write(const char *folder, unsigned modules) {
    unsigned groups = (modules + GENERATED_GROUP_MODULES - 1) / GENERATED_GROUP_MODULES;
    for (const struct template *one = project_templates; one->path; one++) write_one(folder, one, &(struct group){0});
    for (unsigned i = 0; i < groups; i++) {
        struct group group = {i, (i + 1) % groups};
        for (const struct template *one = data_templates; one->path; one++) write_one(folder, one, &group);
    }
    for (unsigned i = 0; i < modules; i++) {
        unsigned number = i / GENERATED_GROUP_MODULES;
        write_one(folder, &module_templates[i % GENERATED_GROUP_MODULES],
                  &(struct group){number, (number + 1) % groups});
    }
}
