/* Versions as .tool-versions and mise.toml write them, and the listed toolchain that fits them best. */
#include "core/toolchains/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct text { /* a part of a file, without a terminator */
    const char *at;
    size_t size;
};

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static struct text trim(struct text text) {
    while (text.size > 0 && is_blank(text.at[0])) text.at++, text.size--;
    while (text.size > 0 && is_blank(text.at[text.size - 1])) text.size--;
    return text;
}

/* The part before the byte, which is cut off the rest with it. */
static struct text cut(struct text *rest, char byte) {
    const char *end = memchr(rest->at, byte, rest->size);
    size_t length = end ? (size_t)(end - rest->at) : rest->size, skipped = end ? length + 1 : length;
    struct text part = {rest->at, length};
    rest->at += skipped;
    rest->size -= skipped;
    return part;
}

static bool is_text(struct text text, const char *expected) {
    return text.size == strlen(expected) && memcmp(text.at, expected, text.size) == 0;
}

static void keep(struct text version, char field[VERSION_BYTES]) {
    if (field[0] || version.size == 0 || version.size >= VERSION_BYTES) return;
    for (size_t i = 0; i < version.size; i++)
        if (version.at[i] <= ' ' || version.at[i] > '~') return;
    memcpy(field, version.at, version.size);
    field[version.size] = '\0';
}

static void keep_of(struct text tool, struct text version, struct wanted_versions *wanted) {
    if (is_text(tool, "erlang")) keep(version, wanted->erlang);
    if (is_text(tool, "elixir")) keep(version, wanted->elixir);
}

/* "erlang 27.2 26.2  # a comment": the first is wanted, the others are what asdf falls back to. */
void wanted_read_tool_versions(const char *text, size_t size, struct wanted_versions *wanted) {
    struct text rest = {text, size};
    while (rest.size > 0) {
        struct text line = cut(&rest, '\n');
        line = trim(cut(&line, '#'));
        for (size_t i = 0; i < line.size; i++)
            if (is_blank(line.at[i])) {
                struct text tool = {line.at, i}, versions = trim((struct text){line.at + i, line.size - i});
                size_t length = 0;
                while (length < versions.size && !is_blank(versions.at[length])) length++;
                keep_of(tool, (struct text){versions.at, length}, wanted);
                break;
            }
    }
}

static struct text unquote(struct text text) {
    bool is_quoted =
        text.size >= 2 && (text.at[0] == '"' || text.at[0] == '\'') && text.at[text.size - 1] == text.at[0];
    return is_quoted ? (struct text){text.at + 1, text.size - 2} : text;
}

/* "27.2", ["27.2", "26"] or { version = "27.2" }: the first text in quotes, of the version where it is a table. */
static struct text toml_version(struct text value) {
    static const char key[] = "version";
    const char *table = value.size > 0 && value.at[0] == '{' ? memmem(value.at, value.size, key, strlen(key)) : NULL;
    if (table) value = (struct text){table, value.size - (size_t)(table - value.at)};
    for (size_t i = 0; i < value.size; i++) {
        if (value.at[i] != '"' && value.at[i] != '\'') continue;
        struct text rest = {value.at + i + 1, value.size - i - 1};
        return cut(&rest, value.at[i]);
    }
    return (struct text){value.at, 0};
}

void wanted_read_mise(const char *text, size_t size, struct wanted_versions *wanted) {
    struct text rest = {text, size};
    bool is_tools = false, is_top = true;
    while (rest.size > 0) {
        struct text line = trim(cut(&rest, '\n'));
        if (line.size == 0 || line.at[0] == '#') continue;
        if (line.at[0] == '[') {
            line.at++, line.size--;
            is_tools = is_text(trim(cut(&line, ']')), "tools");
            is_top = false;
            continue;
        }
        struct text tool = trim(cut(&line, '='));
        static const char dotted[] = "tools.";
        bool is_dotted = is_top && tool.size > strlen(dotted) && memcmp(tool.at, dotted, strlen(dotted)) == 0;
        if (is_dotted) tool = (struct text){tool.at + strlen(dotted), tool.size - strlen(dotted)};
        if (is_tools || is_dotted) keep_of(unquote(trim(tool)), toml_version(trim(line)), wanted);
    }
}

bool wanted_is_any(const struct wanted_versions *wanted) {
    return !wanted->erlang[0] && !wanted->elixir[0];
}

bool version_fits(const char *wanted, const char *version) {
    size_t length = strlen(wanted);
    if (!wanted[0] || strcmp(wanted, "latest") == 0) return true;
    if (strncmp(wanted, version, length) != 0) return false;
    return !version[length] || version[length] == '.' || version[length] == '-';
}

static const char build_mark[] = "-otp-";

unsigned version_built_for(const char *elixir) {
    const char *mark = strstr(elixir, build_mark);
    return mark ? (unsigned)strtoul(mark + strlen(build_mark), NULL, 10) : 0;
}

void version_without_build(const char *elixir, char ret[VERSION_BYTES]) {
    const char *mark = strstr(elixir, build_mark);
    int length = mark ? (int)(mark - elixir) : (int)strlen(elixir);
    snprintf(ret, VERSION_BYTES, "%.*s", length, elixir);
}

static bool fits(const struct wanted_versions *wanted, const struct version_candidate *candidate) {
    char elixir[VERSION_BYTES], installed[VERSION_BYTES];
    bool erlang_is_system = strcmp(wanted->erlang, "system") == 0,
         elixir_is_system = strcmp(wanted->elixir, "system") == 0;
    unsigned build = version_built_for(wanted->elixir);
    if ((erlang_is_system || elixir_is_system) && !candidate->is_system) return false;
    if (!erlang_is_system && !version_fits(wanted->erlang, candidate->otp)) return false;
    if (build > 0 && build != (unsigned)strtoul(candidate->otp, NULL, 10)) return false;
    if (!wanted->elixir[0] || elixir_is_system) return true;
    version_without_build(wanted->elixir, elixir);
    version_without_build(candidate->elixir, installed);
    return candidate->elixir[0] && version_fits(elixir, installed);
}

static bool is_newer(const struct version_candidate *one, const struct version_candidate *other) {
    int otp = strverscmp(one->otp, other->otp);
    return otp != 0 ? otp > 0 : strverscmp(one->elixir, other->elixir) > 0;
}

size_t versions_choose(const struct wanted_versions *wanted, const struct version_candidate *candidates, size_t count) {
    size_t chosen = count;
    for (size_t i = 0; i < count; i++) {
        if (!fits(wanted, &candidates[i])) continue;
        if (candidates[i].is_default) return i;
        if (chosen == count || is_newer(&candidates[i], &candidates[chosen])) chosen = i;
    }
    return chosen;
}
