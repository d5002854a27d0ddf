/* Published ports and connections to services, for people. */
#include "cli/cli_internal.h"

/* "127.0.0.1:8080", "unix:/run/app.sock" */
static void put_place(struct buf *line, json_t *published) {
    const char *address = text_of(published, "address", "-");
    text_clean_line(line, address, strlen(address));
    if (number_of(published, "port") > 0) buf_printf(line, ":%zu", number_of(published, "port"));
    if (string_equal(text_of(published, "protocol", ""), "udp")) buf_append_string(line, "/udp");
}

static void put_service(struct buf *line, json_t *connected) {
    const char *name = text_of(connected, "name", "-");
    text_clean_line(line, name, strlen(name));
    buf_printf(line, ":%zu", number_of(connected, "port"));
}

static void print_line(const struct cli *cli, struct buf *from, struct buf *to) {
    fprintf(stderr, "%s%s → %s%s\n", style_code(cli->err_colour, STYLE_DIM), buf_string(from), buf_string(to),
            style_code(cli->err_colour, STYLE_PLAIN));
}

void ports_lines(const struct cli *cli, json_t *sandbox) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(sandbox, "published"), i, item) {
        CLEANUP(buf_free) struct buf from = BUF_INIT, to = BUF_INIT;
        put_place(&from, item);
        buf_printf(&to, "port %zu of the sandbox", number_of(item, "target"));
        print_line(cli, &from, &to);
    }
    json_array_foreach(json_object_get(sandbox, "connects"), i, item) {
        CLEANUP(buf_free) struct buf from = BUF_INIT, to = BUF_INIT;
        const char *target = text_of(item, "target", "-");
        put_service(&from, item);
        buf_append_string(&from, " inside");
        text_clean_line(&to, target, strlen(target));
        print_line(cli, &from, &to);
    }
}

/* Nothing inside has listened so far, most likely. */
static void put_refused(struct buf *line, json_t *published) {
    size_t refused = number_of(published, "refused");
    if (refused > 0 && number_of(published, "connections") == 0) buf_printf(line, " (%zu refused)", refused);
}

bool ports_words(json_t *list) {
    bool has_any = false;
    size_t i, j;
    json_t *sandbox, *published;
    json_array_foreach(list, i, sandbox) {
        CLEANUP(buf_free) struct buf words = BUF_INIT;
        json_array_foreach(json_object_get(sandbox, "published"), j, published) {
            if (j > 0) buf_append_byte(&words, ' ');
            put_place(&words, published);
            put_refused(&words, published);
        }
        has_any |= words.size > 0;
        json_object_set_new(sandbox, "ports", json_string(buf_string(&words)));
    }
    return has_any;
}
