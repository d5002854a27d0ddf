/* Source text as tokens: enough of the grammars of Erlang and Elixir to tell code from comments, strings and names. */
#ifndef GUARD_SCAN_TOKENS_H
#define GUARD_SCAN_TOKENS_H

#include "guard/guard.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,  /* foo, foo?, also Erlang's variables */
    TOKEN_ALIAS, /* Elixir: Foo, without what follows a dot */
    TOKEN_ATOM,  /* Elixir's :foo and :"foo"; Erlang's 'foo' and foo */
    TOKEN_MARK,  /* any other character */
};

struct token {
    enum token_kind kind;
    struct beam_text text; /* of an atom: without colon and quotes */
    uint32_t line;
};

enum { TOKENS_NESTED_MAX = 32 }; /* depth of strings with code inside; deeper code is not scanned */

struct tokens {
    const char *at, *end;
    enum scan_language language;
    uint32_t line;
    /* For each open string with code: its closing character, and the number of open braces in the code. */
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
