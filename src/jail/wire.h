/* Words of plans and of messages on the launcher's socket: how they are written, and how they are taken apart. */
#ifndef JAIL_WIRE_H
#define JAIL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

void wire_put_word(struct buf *buf, const char *word);                   /* percent-encoded; "" is written as "%" */
void wire_put_pair(struct buf *buf, const char *key, const char *value); /* " key=value" */
void wire_put_number(struct buf *buf, const char *key, uint64_t value);
/* Decode in place the word that starts at *at and ends at a space or newline; advances *at past the separator. NULL at
   the line's end, or when badly encoded: then *at stays on the word. */
char *wire_next_word(char **at);
/* Cut the line that starts at *at off the rest; NULL at the text's end. */
char *wire_next_line(char **at);

enum { WIRE_WORDS_MAX = 16 }; /* operands of one message */

/* A message of the launcher's socket; everything points into its text. */
struct wire_message {
    char *verb;
    char *words[WIRE_WORDS_MAX]; /* operands, decoded */
    size_t count;
    char *body; /* from the second line on; "" when there is none */
};

/* Takes the terminated text apart in place; E_FORMAT. */
int wire_message_parse(char *text, struct wire_message *ret, struct error *reterr);
const char *wire_message_word(const struct wire_message *message, size_t index);     /* NULL when absent */
const char *wire_message_value(const struct wire_message *message, const char *key); /* of key=value; NULL */
bool wire_message_number(const struct wire_message *message, const char *key, uint64_t *ret);

#endif
