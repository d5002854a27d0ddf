/* One connection to the service: calls, and streams that are shown item by item. */
#include <string.h>

#include "cli/cli_internal.h"

int session_open(struct cli *cli, enum op_start start, struct sbx_error *reterr) {
    if (cli->sbx) return 0;
    struct sbx_options options = SBX_OPTIONS_INIT;
    options.home = cli->home;
    options.timeout_ms = cli->timeout_ms;
    options.cancel_fd = cli->cancel_fd;
    if (cli->no_autostart || start != OP_STARTS_SERVICE) options.flags |= SBX_NO_AUTOSTART;
    return sbx_open_with(&options, &cli->sbx, reterr);
}

void session_close(struct cli *cli) {
    sbx_close(cli->sbx);
    cli->sbx = NULL;
}

static int parse_answer(const char *text, json_t **ret, struct sbx_error *reterr) {
    json_t *answer = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!answer) {
        *reterr = (struct sbx_error){.code = "out_of_memory", .exit_code = 1};
        return -1;
    }
    *ret = answer;
    return 0;
}

/* The parameters as text, without those that only the command line uses. */
static char *request_text(const struct op *op, const json_t *params) {
    CLEANUP_JSON json_t *sent = json_copy((json_t *)(uintptr_t)params);
    for (size_t i = 0; i < op->param_count; i++)
        if (op->params[i].flags & OP_CLIENT) json_object_del(sent, op->params[i].name);
    return json_dumps(sent, JSON_COMPACT);
}

int session_call(struct cli *cli, const struct op *op, const json_t *params, json_t **ret, struct sbx_error *reterr) {
    if (session_open(cli, op->start, reterr) < 0) return -1;
    CLEANUP_FREE char *request = request_text(op, params);
    CLEANUP_FREE char *answer = NULL;
    if (sbx_op(cli->sbx, op->name, request, &answer, reterr) < 0) return -1;
    return parse_answer(answer, ret, reterr);
}

struct reader {
    struct cli *cli;
    item_fn *on_item;
    void *data;
};

static int read_item(const char *text, void *data) {
    const struct reader *reader = data;
    CLEANUP_JSON json_t *item = json_loads(text, JSON_DECODE_ANY, NULL);
    return item ? reader->on_item(reader->cli, item, reader->data) : -1;
}

int session_stream(struct cli *cli, const struct op *op, const json_t *params, item_fn *on_item, void *data,
                   json_t **ret, struct sbx_error *reterr) {
    if (session_open(cli, op->start, reterr) < 0) return -1;
    struct reader reader = {cli, on_item, data};
    CLEANUP_FREE char *request = request_text(op, params);
    CLEANUP_FREE char *answer = NULL;
    if (sbx_stream(cli->sbx, op->name, request, read_item, &reader, &answer, reterr) < 0) return -1;
    return parse_answer(answer, ret, reterr);
}
