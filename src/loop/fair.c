/* A queue in which no key waits for more than one item of each other key. */
#include "loop/loop.h"

#include <stdlib.h>

struct fair_line {
    TAILQ_ENTRY(fair_line) link;
    uint64_t key;
    STAILQ_HEAD(, fair_item) items;
    size_t count;
};

void fair_init(struct fair *fair) {
    *fair = (struct fair){.count = 0};
    TAILQ_INIT(&fair->lines);
}

static struct fair_line *find_line(const struct fair *fair, uint64_t key) {
    struct fair_line *line;
    TAILQ_FOREACH(line, &fair->lines, link) {
        if (line->key == key) return line;
    }
    return NULL;
}

size_t fair_count(const struct fair *fair, uint64_t key) {
    const struct fair_line *line = find_line(fair, key);
    return line ? line->count : 0;
}

static struct fair_line *line_of(struct fair *fair, uint64_t key) {
    struct fair_line *line = find_line(fair, key);
    if (line) return line;
    line = calloc(1, sizeof *line);
    if (!line) return NULL;
    line->key = key;
    STAILQ_INIT(&line->items);
    TAILQ_INSERT_TAIL(&fair->lines, line, link);
    return line;
}

bool fair_put(struct fair *fair, uint64_t key, struct fair_item *item) {
    struct fair_line *line = line_of(fair, key);
    if (!line) return false;
    item->line = line;
    STAILQ_INSERT_TAIL(&line->items, item, link);
    line->count++;
    fair->count++;
    return true;
}

static void remove_item(struct fair *fair, struct fair_item *item) {
    STAILQ_REMOVE(&item->line->items, item, fair_item, link);
    item->line->count--;
    item->line = NULL;
    fair->count--;
}

/* Behind the other lines, or away. */
static void end_turn(struct fair *fair, struct fair_line *line) {
    TAILQ_REMOVE(&fair->lines, line, link);
    if (STAILQ_EMPTY(&line->items))
        free(line);
    else
        TAILQ_INSERT_TAIL(&fair->lines, line, link);
}

struct fair_item *fair_take(struct fair *fair, bool (*may)(const void *data, uint64_t key), const void *data) {
    struct fair_line *line;
    TAILQ_FOREACH(line, &fair->lines, link) {
        if (may && !may(data, line->key)) continue;
        struct fair_item *item = STAILQ_FIRST(&line->items);
        remove_item(fair, item);
        end_turn(fair, line);
        return item;
    }
    return NULL;
}

void fair_remove(struct fair *fair, struct fair_item *item) {
    struct fair_line *line = item->line;
    if (!line) return;
    remove_item(fair, item);
    if (!STAILQ_EMPTY(&line->items)) return;
    TAILQ_REMOVE(&fair->lines, line, link);
    free(line);
}
