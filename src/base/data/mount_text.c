/* "SOURCE:PATH[:ro]", taken apart. */
#include "base/data/mount_text.h"

#include <string.h>

#include "base/util.h"

bool mount_text_is_folder(const char *source) {
    return strchr(source, '/') || strcmp(source, ".") == 0 || strcmp(source, "..") == 0;
}

static bool has_controls(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < ' ' || *at == 0x7F) return true;
    return false;
}

/* The length of what is left of ":ro" or ":rw". */
static size_t cut_access(const char *text, size_t length, bool *ret_is_read_only) {
    if (length < 3) return length;
    bool is_ro = strncmp(text + length - 3, ":ro", 3) == 0;
    *ret_is_read_only = is_ro;
    return is_ro || strncmp(text + length - 3, ":rw", 3) == 0 ? length - 3 : length;
}

int mount_text_parse(const char *text, struct mount_text *ret, struct error *reterr) {
    bool is_read_only = false;
    size_t length = cut_access(text, strlen(text), &is_read_only), at = length;
    while (at > 0 && !(text[at] == ':' && text[at + 1] == '/' && at + 1 < length)) at--;
    if (at == 0 || has_controls(text))
        return error_set(reterr, E_INVALID, "'%.100s' is not SOURCE:PATH or SOURCE:PATH:ro", text);
    if (at >= sizeof ret->source || length - at - 1 >= sizeof ret->place)
        return error_set(reterr, E_INVALID, "the paths of '%.60s…' are too long", text);
    *ret = (struct mount_text){.is_read_only = is_read_only};
    memcpy(ret->source, text, at);
    memcpy(ret->place, text + at + 1, length - at - 1);
    return 0;
}
