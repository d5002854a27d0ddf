/* The daemon's settings: flags over environment over $home/sandbox.conf, one table for all three. */
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

#include <limits.h>
#include <stdio.h>

#include "core/core.h"
#include "quota/quota.h"

enum { SETTINGS_SECTIONS_BYTES = 32 << 10, SETTINGS_TEXT_BYTES = 1024 };

struct settings {
    struct engine_config engine;
    uid_t admin_uid;              /* besides root */
    uint64_t daemon_memory_bytes; /* the launcher reads it by itself: here it is only checked */
    uint64_t log_max_bytes;       /* of daemon.log and what is kept of it */
    char home[PATH_MAX];
    char agent_dir[PATH_MAX];
    char otp[PATH_MAX], elixir[PATH_MAX];
    char webhook[SETTINGS_TEXT_BYTES], webhook_secret[SETTINGS_TEXT_BYTES], webhook_events[SETTINGS_TEXT_BYTES];
    /* Sections of sandbox.conf as they are, on the same lines as there. */
    char profiles[SETTINGS_SECTIONS_BYTES], toolchains[SETTINGS_SECTIONS_BYTES];
    char toolchain[SETTINGS_TEXT_BYTES];
    char publish_addresses[SETTINGS_TEXT_BYTES], connect_addresses[SETTINGS_TEXT_BYTES]; /* the launcher goes by them */
    struct quota_rules quotas;
    bool show_only; /* --help or --version was asked for, and answered */
};

/* Every setting there is. */
void settings_each(void (*each)(void *data, const char *name, const char *summary), void *data);

/* The lines of a file into settings, which may be half changed when it fails; path is for messages. */
int settings_read_stream(FILE *file, const char *path, struct settings *settings, struct error *reterr);

/* Take over what may change while the daemon runs. *told has the lists `changed` and `at_start`, of names. */
void settings_adopt(struct settings *settings, const struct settings *next, json_t *told);

int settings_read(int argc, char **argv, struct settings *ret, struct error *reterr);

#endif
