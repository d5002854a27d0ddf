/* Source text as tokens: enough of Erlang's and Elixir's grammars to tell code from comments, strings and names. */
#ifndef GUARD_SCAN_TOKENS_H
#define GUARD_SCAN_TOKENS_H

#include "guard/guard.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,  /* foo, foo?, Erlang's variables too */
    TOKEN_ALIAS, /* Elixir: Foo, without what follows a dot */
    TOKEN_ATOM,  /* Elixir's :foo and :"foo"; Erlang's 'foo' and foo */
    TOKEN_MARK,  /* any other character */
};

struct token {
    enum token_kind kind;
    struct beam_text text; /* of an atom: without colon and quotes */
    uint32_t line;
};

enum { TOKENS_NESTED_MAX = 32 }; /* strings with code in them, in one another; what is deeper is not looked at */

struct tokens {
    const char *at, *end;
    enum scan_language language;
    uint32_t line;
    /* Of each string with code in it that we are in: what ends it, and how many braces are open in the code. */
    struct {
        char close;
        bool is_triple;
        unsigned braces;
    } nested[TOKENS_NESTED_MAX];
    unsigned depth;
};

void tokens_begin(struct tokens *tokens, const char *text, size_t size, enum scan_language language);
struct token tokens_next(struct tokens *tokens);

#endif
