/* Reads what options name, with the caller's rights: files of configuration and environment variables, and scripts.
   They may hold secrets, so an error tells a file and a line and no value. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_internal.h"

enum { LINE_SHOWN_BYTES = 64 };

/* ---- reading ---- */

int given_text_read(int fd, const char *name, size_t max_bytes, struct buf *ret, struct error *reterr) {
    char piece[4096];
    ssize_t size;
    while ((size = read(fd, piece, sizeof piece)) != 0) {
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return error_errno(reterr, errno, "reading %s", name);
        buf_append(ret, piece, (size_t)size);
        if (ret->size > max_bytes)
            return error_set(reterr, E_INVALID, "%s is longer than %zu KiB", name, max_bytes >> 10);
    }
    return ret->failed ? error_set(reterr, E_NO_MEMORY, "no memory for %s", name) : 0;
}

int given_file_read(const char *path, json_t **ret, struct error *reterr) {
    CLEANUP(buf_free) struct buf text = BUF_INIT;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_errno(reterr, errno, "opening %s", path);
    int result = given_text_read(fd, path, OP_FILES_MAX_BYTES, &text, reterr);
    if (result < 0) return result;
    const char *content = buf_string(&text);
    if (strlen(content) != text.size) return error_set(reterr, E_INVALID, "%s is not text", path);
    json_t *value = json_string(content);
    if (!value) return error_set(reterr, E_INVALID, "%s is not UTF-8", path);
    *ret = value;
    return 0;
}

/* ---- lines of an environment ---- */

static bool is_name(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return *name && strspn(name, allowed) == strlen(name) && (*name < '0' || *name > '9');
}

/* In place. False: the quote is not closed, or words follow it. */
static bool unquote(char *value) {
    static const char escapes[] = "nrt\\\"$", meanings[] = "\n\r\t\\\"$";
    char quote = *value, *to = value, *at = value + 1;
    for (; *at && *at != quote; at++) {
        const char *escape = quote == '"' && at[0] == '\\' && at[1] ? strchr(escapes, at[1]) : NULL;
        if (escape) at++;
        *to++ = escape ? meanings[escape - escapes] : *at;
    }
    char *rest = *at ? at + 1 : at;
    bool is_closed = *at == quote;
    rest = string_trim(rest);
    *to = '\0';
    return is_closed && (!*rest || *rest == '#');
}

/* " #" begins a comment. */
static void cut_comment(char *value) {
    for (char *at = strchr(value, '#'); at; at = strchr(at + 1, '#')) {
        if (at != value && at[-1] != ' ' && at[-1] != '\t') continue;
        *at = '\0';
        return;
    }
}

static int read_line(char *line, json_t *ret, struct error *reterr) {
    char *at = string_trim(line);
    if (!*at || *at == '#') return 0;
    if (string_starts(at, "export ")) at = string_trim(at + strlen("export "));
    char *equals = strchr(at, '=');
    if (!equals) return error_set(reterr, E_INVALID, "a line is NAME=VALUE");
    *equals = '\0';
    char *name = string_trim(at), *value = string_trim(equals + 1);
    if (!is_name(name))
        return error_set(reterr, E_INVALID,
                         "the name of a variable has letters, digits and _ alone, and no digit first");
    if (*value == '"' || *value == '\'') {
        if (!unquote(value))
            return error_set(reterr, E_INVALID, "the value of %.*s has no end quote", LINE_SHOWN_BYTES, name);
    } else {
        cut_comment(value);
        value = string_trim(value);
    }
    json_object_set_new(ret, name, json_string(value));
    return 0;
}

int given_variables_read(const char *path, const char *text, json_t *ret, struct error *reterr) {
    CLEANUP_FREE char *copy = strdup(text);
    unsigned number = 0;
    if (!copy) return error_set(reterr, E_NO_MEMORY, "no memory for %s", path);
    for (char *line = copy, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        number++;
        if (read_line(line, ret, reterr) < 0) return error_prefix(reterr, "%s:%u", path, number);
    }
    return 0;
}

/* Later files go over earlier ones, and what is given by itself goes over all of them. */
int given_files_merge(const struct op *op, json_t *params, struct error *reterr) {
    CLEANUP_JSON json_t *variables = json_object();
    const char *path;
    json_t *text;
    if (!json_object_get(params, "env_file")) return 0;
    json_object_foreach(json_object_get(params, "env_file"), path, text) {
        if (given_variables_read(path, json_string_value(text), variables, reterr) < 0)
            return error_prefix(reterr, "--env-file");
    }
    json_object_update(variables, json_object_get(params, "env"));
    json_t *checked = NULL;
    if (ops_convert(ops_param(op, "env"), variables, &checked, reterr) < 0) return error_prefix(reterr, "--env-file");
    json_object_set_new(params, "env", checked);
    json_object_del(params, "env_file");
    return 0;
}
