/* ops/direct: how a call travels without HTTP. A client that asks often over one connection has it upgraded (GET
   /direct, Upgrade: sandbox-direct-2) and from then on sends frames, one question at a time, each of which is answered
   by one:

     question: size of the rest (4 bytes, big endian), the processor that asks (2), length of the operation's name (1),
               name, parameters as JSON
     answer:   size of the rest (4), status as HTTP has it (2), the object or the problem as JSON

   A client that closes its end, if only for writing, has left: what runs for it is called off. */
#ifndef OPS_DIRECT_H
#define OPS_DIRECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "ops/table.h"

#define DIRECT_PATH "/direct"
#define DIRECT_PROTOCOL "sandbox-direct-2"

enum {
    DIRECT_SIZE_BYTES = 4,
    DIRECT_PROCESSOR_BYTES = 2,
    DIRECT_NAME_MAX_BYTES = 255,
    /* Of a question, before its parameters. */
    DIRECT_HEAD_MAX_BYTES = DIRECT_SIZE_BYTES + DIRECT_PROCESSOR_BYTES + 1 + DIRECT_NAME_MAX_BYTES,
    DIRECT_PROCESSOR_UNKNOWN = 0xffff,
};

struct direct_question {
    const struct op *op;
    json_t *params;     /* an object */
    unsigned processor; /* nothing is decided by it but where the answer is made */
};

/* Only operations with one object as their answer; the others have pages, or an answer in pieces. */
bool direct_takes(const struct op *op);

/* Whether bytes hold a whole frame; *ret_size is then, and as soon as its size is known, that of all its bytes. 0: not
   known yet. */
bool direct_is_whole(const uint8_t *bytes, size_t size, size_t *ret_size);

/* Put a frame behind what is in the buffer. */
void direct_put_question(struct buf *buf, const struct direct_question *question);
void direct_put_answer(struct buf *buf, unsigned status, const void *body, size_t size);

struct direct_text { /* a question whose parameters are not read yet */
    const struct op *op;
    const uint8_t *params; /* inside of the frame */
    size_t size;
    unsigned processor;
};

/* Of a whole frame, or of one that has come as far as its operation's name. E_FORMAT for what is no question at all,
   after which nothing that comes can be trusted to be one; E_NOT_FOUND for one that can't be asked directly. */
int direct_split_question(const uint8_t *frame, size_t size, struct direct_text *ret, struct error *reterr);
/* Of a whole frame; the body is inside of it. */
int direct_read_answer(const uint8_t *frame, size_t size, unsigned *ret_status, const char **ret_body,
                       size_t *ret_body_size, struct error *reterr);

#endif
