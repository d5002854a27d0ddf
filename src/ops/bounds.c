/* How much a caller may send for an operation: what its parameters may hold, and no more. */
#include "ops/table.h"

enum {
    BODY_LEAST_BYTES = 16 << 10,
    BODY_MOST_BYTES = 4 << 20,
    ESCAPED_BYTES = 2, /* of one byte of text, as JSON mostly has it */
};

/* Of all its values together. */
static uint64_t param_bytes(const struct op_param *param) {
    uint64_t entries = (uint64_t)ops_entries_max(param);
    if (param->flags & OP_CLIENT) return 0;
    switch (param->type) {
    case OP_TEXT: return (uint64_t)ops_text_max(param);
    case OP_TEXTS: return entries * OP_NAME_MAX_BYTES;
    case OP_MOUNTS:
    case OP_PATHS: return entries * OP_PATH_MAX_BYTES;
    case OP_EXPRESSIONS: return entries * OP_EXPRESSION_MAX_BYTES;
    case OP_PAIRS:
    case OP_WORDS: return OP_PAIRS_MAX_BYTES;
    case OP_FILES: return OP_FILES_MAX_BYTES;
    case OP_PATH: return OP_PATH_MAX_BYTES;
    default: return OP_NAME_MAX_BYTES;
    }
}

size_t ops_body_max(const struct op *op) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < op->param_count && bytes < BODY_MOST_BYTES; i++) bytes += param_bytes(&op->params[i]);
    bytes *= ESCAPED_BYTES;
    return bytes < BODY_LEAST_BYTES ? BODY_LEAST_BYTES : bytes > BODY_MOST_BYTES ? BODY_MOST_BYTES : (size_t)bytes;
}
