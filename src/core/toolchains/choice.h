/* choice: which toolchain a caller's project gets. The one that the caller names; else the one that fits the project's
   own .tool-versions or mise.toml; else the default. */
#ifndef CORE_TOOLCHAINS_CHOICE_H
#define CORE_TOOLCHAINS_CHOICE_H

#include "core/core.h"
#include "core/toolchains/toolchains.h"
#include "core/toolchains/versions.h"

struct toolchain_choice {
    struct engine *engine;
    const struct caller *caller;
    const char *name; /* that the caller gave; NULL: none */
    const char *home; /* as in own_look */
    /* Its end. Without an error *entry is held, and can be used. */
    void (*done)(struct toolchain_choice *choice, const struct error *error);
    void *data;
    struct toolchain_entry *entry;
    char warning[320]; /* the project asks for one that is not there; "" */

    /* Its own. */
    int project_fd;
    uv_work_t work;
    char file[32]; /* that names the wanted ones */
    struct wanted_versions wanted;
    size_t probed;
    bool is_by_file;   /* the entry at hand */
    unsigned attempts; /* with what the file names: one that turns out to be broken is passed over */
};

/* A project that is a folder, or NULL. done may be called from inside. */
void toolchain_choose(struct toolchain_choice *choice, const struct link_project *project);

#endif
