/* Subordinate uids and their users. */
#include "base/schedule/principals.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/util.h"

enum { RANGES_MAX = 65536, FILE_MAX_BYTES = 4 << 20 };

struct named_range {
    const char *name;
    struct principals_range range;
};

/* ---- lines ---- */

static bool parse_uid(const char *text, uid_t *ret) {
    uint64_t number;
    if (!text || !parse_u64(text, &number) || number >= (uid_t)-1) return false;
    *ret = (uid_t)number;
    return true;
}

static bool read_line(char *line, struct named_range *ret) {
    uid_t first, count;
    const char *name = strsep(&line, ":"), *from = strsep(&line, ":"), *length = strsep(&line, ":");
    if (!*name || *name == '#' || !parse_uid(from, &first) || !parse_uid(length, &count) || first == 0 || count < 2 ||
        count > (uid_t)-1 - first)
        return false;
    *ret = (struct named_range){name, {.first = first, .last = first + count - 1}};
    return true;
}

/* ---- owners ---- */

static bool find_owner(const char *name, principals_find_fn find, uid_t *ret) {
    return find && (parse_uid(name, ret) || find(name, ret)) && *ret != 0;
}

static int compare_names(const void *one, const void *other) {
    const struct named_range *a = one, *b = other;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->range.first > b->range.first) - (a->range.first < b->range.first);
}

/* Of one name each, by which they are sorted. */
static void set_owners(struct named_range *ranges, size_t count, principals_find_fn find) {
    for (size_t i = 0; i < count; i++) {
        bool is_same = i > 0 && strcmp(ranges[i].name, ranges[i - 1].name) == 0;
        if (is_same)
            ranges[i].range.owner = ranges[i - 1].range.owner;
        else if (!find_owner(ranges[i].name, find, &ranges[i].range.owner))
            ranges[i].range.owner = ranges[i].range.first;
    }
}

/* ---- ranges ---- */

static int compare_firsts(const void *one, const void *other) {
    const struct principals_range *a = one, *b = other;
    return (a->first > b->first) - (a->first < b->first);
}

/* What two users may be counts as the one's whose range begins before. */
static size_t cut_apart(struct principals_range *ranges, size_t count) {
    size_t kept = 0;
    qsort(ranges, count, sizeof *ranges, compare_firsts);
    for (size_t i = 0; i < count; i++) {
        struct principals_range range = ranges[i];
        if (kept > 0 && range.first <= ranges[kept - 1].last) range.first = ranges[kept - 1].last + 1;
        if (range.first <= range.last) ranges[kept++] = range;
    }
    return kept;
}

bool principals_parse(char *text, principals_find_fn find, struct principals *ret) {
    CLEANUP(buf_free) struct buf named = {.max = RANGES_MAX * sizeof(struct named_range)};
    for (char *line; (line = strsep(&text, "\n"));) {
        struct named_range range;
        if (read_line(line, &range)) buf_append(&named, &range, sizeof range);
    }
    size_t count = named.size / sizeof(struct named_range);
    struct principals_range *ranges = calloc(count + 1, sizeof *ranges);
    if (!ranges) return false;
    struct named_range *items = (struct named_range *)named.data;
    if (count > 0) qsort(items, count, sizeof *items, compare_names);
    set_owners(items, count, find);
    for (size_t i = 0; i < count; i++) ranges[i] = items[i].range;
    *ret = (struct principals){.ranges = ranges, .count = cut_apart(ranges, count)};
    return true;
}

void principals_load(principals_find_fn find, struct principals *ret) {
    CLEANUP(buf_free) struct buf text = {.max = FILE_MAX_BYTES};
    CLEANUP_FD int fd = open("/etc/subuid", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char chunk[4096];
    *ret = (struct principals){0};
    for (ssize_t size; fd >= 0 && (size = read(fd, chunk, sizeof chunk)) > 0;) buf_append(&text, chunk, (size_t)size);
    buf_append_byte(&text, '\0');
    if (!text.failed) principals_parse((char *)text.data, find, ret);
}

void principals_free(struct principals *principals) {
    free(principals->ranges);
    *principals = (struct principals){0};
}

/* ---- looking up ---- */

uid_t principals_of(const struct principals *principals, uid_t uid) {
    size_t low = 0, high = principals ? principals->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct principals_range *range = &principals->ranges[middle];
        if (uid < range->first)
            high = middle;
        else if (uid > range->last)
            low = middle + 1;
        else
            return range->owner;
    }
    return uid;
}
