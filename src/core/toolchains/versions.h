/* The versions that a project's own files name, and which of the listed toolchains fits them. Pure: the files are a
   stranger's, and are read within bounds. */
#ifndef CORE_TOOLCHAINS_VERSIONS_H
#define CORE_TOOLCHAINS_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { VERSION_BYTES = 32, WANTED_FILE_MAX_BYTES = 64 * 1024 };

struct wanted_versions {
    char erlang[VERSION_BYTES], elixir[VERSION_BYTES]; /* "27", "27.2", "1.18.1-otp-27", "latest", "system"; "": any */
};

/* What the text names is taken where nothing was named before. */
void wanted_read_tool_versions(const char *text, size_t size, struct wanted_versions *wanted); /* .tool-versions */
void wanted_read_mise(const char *text, size_t size, struct wanted_versions *wanted);          /* mise.toml */
bool wanted_is_any(const struct wanted_versions *wanted);

/* "27" and "27.2" fit 27.2.1, "latest" fits all, "2" does not fit 27. */
bool version_fits(const char *wanted, const char *version);
/* The OTP that an Elixir was built for: 27 of "1.18.1-otp-27"; 0: it does not say. */
unsigned version_built_for(const char *elixir);
/* "1.18.1" of "1.18.1-otp-27". */
void version_without_build(const char *elixir, char ret[VERSION_BYTES]);

struct version_candidate {
    const char *otp, *elixir; /* elixir "": it has none */
    bool is_system, is_default;
};

/* The default if it fits, else the newest; count when none fits. */
size_t versions_choose(const struct wanted_versions *wanted, const struct version_candidate *candidates, size_t count);

#endif
