/* Any term as what a node tells of states and of a reload, and any text as what is kept of versions or asked for as
   migrations: it becomes JSON that can be printed, and what is kept reads back the same. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "fuzz/harness/fuzz.h"

static const struct term_bounds bounds = {.max_bytes = 1 << 16, .max_terms = 1 << 14, .max_depth = 64};

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_reload_answer: %s\n", what);
    abort();
}

static void check_json(json_t *json) {
    char *text = json_dumps(json, JSON_ENCODE_ANY);
    check(json && text, "no JSON");
    free(text);
    json_decref(json);
}

static void take_states(const struct term *term) {
    struct kept_states states = {0};
    CLEANUP(buf_free) struct buf args = BUF_INIT;
    states_take(&states, term);
    check_json(states_to_json(&states));
    struct term_map map = states_begin_args(&states, &args);
    term_map_end(&map);
    check(!args.failed, "memory");
    struct kept_states refused = {0};
    states_read_refused(term, &refused);
    states_arrived(&states, &refused);
    states_free(&refused);
    check_json(states_to_json(&states));
    states_free(&states);
}

static void read_term(const struct term *term) {
    take_states(term);
    check_json(transaction_report(term));
    check_json(transaction_failure(term));
}

static void read_history(const char *text) {
    struct history history = {0}, again = {0};
    if (history_restore(&history, "Elixir.A", text)) {
        json_t *list = history_to_json(&history, "Elixir.A");
        check_json(versions_summarize(list));
        check_json(list);
        char *written = history_text(&history, "Elixir.A");
        check(written && history_restore(&again, "Elixir.A", written), "a history that does not read back");
        char *twice = history_text(&again, "Elixir.A");
        check(twice && strcmp(written, twice) == 0, "a history that reads back as another");
        free(written);
        free(twice);
    }
    history_free(&history);
    history_free(&again);
}

/* A line each, as a caller's list of texts. */
static void read_migrations(const char *text) {
    CLEANUP_FREE char *copy = strdup(text);
    char *rest = copy;
    json_t *texts = json_array(), *migrations = NULL;
    struct error error = {0};
    for (char *line; (line = strsep(&rest, "\n"));) json_array_append_new(texts, json_string(line));
    if (migrations_read(texts, "elixir", &migrations, &error) == 0) {
        check(migrations_name_modules(migrations) <= (json_object_size(migrations) > 0),
              "a module without a migration");
        check_json(migrations);
    } else {
        check(error.code != E_NONE && error.detail[0], "no reason");
    }
    json_decref(texts);
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct term_doc *doc = NULL;
    if (term_decode(data, size, &bounds, &doc, NULL) == 0) {
        read_term(term_root(doc));
        term_free(doc);
        return;
    }
    CLEANUP_FREE char *text = strndup((const char *)data, size);
    check(text != NULL, "memory");
    read_history(text);
    read_migrations(text);
}
