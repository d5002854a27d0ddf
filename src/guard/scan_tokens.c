/* The tokenizer for Erlang and Elixir source text. It skips comments, strings and characters, but not code inside
   strings. */
#include "guard/scan_tokens.h"

#include <ctype.h>
#include <string.h>

void tokens_begin(struct tokens *tokens, const char *text, size_t size, enum scan_language language) {
    *tokens = (struct tokens){.at = text, .end = text + size, .language = language, .line = 1};
}

static char peek(const struct tokens *tokens, size_t ahead) {
    return (size_t)(tokens->end - tokens->at) > ahead ? tokens->at[ahead] : '\0';
}

static void step(struct tokens *tokens) {
    if (*tokens->at++ == '\n') tokens->line++;
}

static void skip(struct tokens *tokens, size_t count) {
    while (count-- > 0 && tokens->at < tokens->end) step(tokens);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '@' || (unsigned char)c >= 0x80;
}

static bool is_triple(const struct tokens *tokens, char quote) {
    return peek(tokens, 0) == quote && peek(tokens, 1) == quote && peek(tokens, 2) == quote;
}

/* ---- strings ---- */

static char closing(char open) {
    static const char pairs[] = "()[]{}<>";
    const char *at = memchr(pairs, open, sizeof pairs - 1);
    return at && (at - pairs) % 2 == 0 ? at[1] : open;
}

/* Code inside a string (#{…}): tokens follow until its brace closes. */
static bool enter_code(struct tokens *tokens, char close, bool triple) {
    if (tokens->depth == TOKENS_NESTED_MAX) return false;
    tokens->nested[tokens->depth].close = close;
    tokens->nested[tokens->depth].is_triple = triple;
    tokens->nested[tokens->depth].braces = 0;
    tokens->depth++;
    skip(tokens, 2);
    return true;
}

/* Skips to the end of the string, or to code inside it. */
static void skip_string(struct tokens *tokens, char close, bool triple, bool has_escapes, bool has_code) {
    while (tokens->at < tokens->end) {
        char c = peek(tokens, 0);
        if (c == '\\' && (has_escapes || peek(tokens, 1) == close)) {
            skip(tokens, 2);
        } else if (has_code && c == '#' && peek(tokens, 1) == '{') {
            if (enter_code(tokens, close, triple)) return;
            skip(tokens, 2);
        } else if (c == close && (!triple || is_triple(tokens, close))) {
            skip(tokens, triple ? 3 : 1);
            return;
        } else {
            step(tokens);
        }
    }
}

static void skip_quoted(struct tokens *tokens, char quote) {
    bool is_elixir = tokens->language == SCAN_ELIXIR;
    bool triple = is_elixir && is_triple(tokens, quote);
    skip(tokens, triple ? 3 : 1);
    skip_string(tokens, quote, triple, true, is_elixir);
}

/* ~s(…), ~S"""…""", ~r/…/: a lower-case letter allows escapes and code. */
static bool skip_sigil(struct tokens *tokens) {
    size_t letters = 1;
    bool is_lower = islower((unsigned char)peek(tokens, 1));
    if (!isalpha((unsigned char)peek(tokens, 1))) return false;
    while (isalpha((unsigned char)peek(tokens, letters))) letters++;
    char open = peek(tokens, letters);
    if (open == '\0' || !strchr("/|\"'([{<", open)) return false;
    skip(tokens, letters);
    bool triple = (open == '"' || open == '\'') && is_triple(tokens, open);
    skip(tokens, triple ? 3 : 1);
    skip_string(tokens, closing(open), triple, is_lower, is_lower);
    return true;
}

/* ---- skipped text ---- */

static void skip_comment(struct tokens *tokens) {
    while (tokens->at < tokens->end && *tokens->at != '\n') step(tokens);
}

/* ?a and $a, also with an escape: a character that opens no string. */
static bool skip_character(struct tokens *tokens) {
    if (peek(tokens, 0) != (tokens->language == SCAN_ELIXIR ? '?' : '$')) return false;
    skip(tokens, peek(tokens, 1) == '\\' ? 3 : 2);
    return true;
}

static bool skip_one(struct tokens *tokens) {
    char c = peek(tokens, 0);
    bool is_elixir = tokens->language == SCAN_ELIXIR;
    if (isspace((unsigned char)c) || c == '\0')
        step(tokens);
    else if (c == (is_elixir ? '#' : '%'))
        skip_comment(tokens);
    else if (c == '"' || (c == '\'' && is_elixir))
        skip_quoted(tokens, c);
    else if (!(is_elixir && c == '~' && skip_sigil(tokens)) && !skip_character(tokens))
        return false;
    return true;
}

/* The brace that closes code inside a string: the rest of the string follows. */
static bool leave_code(struct tokens *tokens) {
    if (tokens->depth == 0) return false;
    unsigned *braces = &tokens->nested[tokens->depth - 1].braces;
    if (peek(tokens, 0) == '{') ++*braces;
    if (peek(tokens, 0) != '}') return false;
    if (*braces > 0) {
        --*braces;
        return false;
    }
    tokens->depth--;
    step(tokens);
    skip_string(tokens, tokens->nested[tokens->depth].close, tokens->nested[tokens->depth].is_triple, true, true);
    return true;
}

/* ---- tokens ---- */

static struct token take_word(struct tokens *tokens, enum token_kind kind) {
    struct token token = {.kind = kind, .text = {.data = tokens->at}, .line = tokens->line};
    while (tokens->at < tokens->end && is_word(*tokens->at)) tokens->at++;
    bool may_end = tokens->language == SCAN_ELIXIR && (peek(tokens, 0) == '?' || peek(tokens, 0) == '!');
    if (may_end && peek(tokens, 1) != '=') tokens->at++;
    token.text.size = (size_t)(tokens->at - token.text.data);
    return token;
}

/* A quoted atom. One with escapes is never a name that is searched for. */
static struct token take_quoted_atom(struct tokens *tokens, char quote) {
    struct token token = {.kind = TOKEN_ATOM, .text = {.data = tokens->at + 1}, .line = tokens->line};
    step(tokens);
    skip_string(tokens, quote, false, true, false);
    token.text.size = (size_t)(tokens->at - token.text.data);
    if (token.text.size > 0) token.text.size--;
    return token;
}

static struct token take_elixir(struct tokens *tokens) {
    char c = peek(tokens, 0), next = peek(tokens, 1);
    if (c == ':' && (isalpha((unsigned char)next) || next == '_')) {
        tokens->at++;
        return take_word(tokens, TOKEN_ATOM);
    }
    if (c == ':' && next == '"') {
        tokens->at++;
        return take_quoted_atom(tokens, '"');
    }
    if (c == ':' && next == ':') tokens->at++; /* of a binary's type: the second colon begins no atom */
    return take_word(tokens, isupper((unsigned char)c) ? TOKEN_ALIAS : TOKEN_NAME);
}

static struct token take_erlang(struct tokens *tokens) {
    char c = peek(tokens, 0);
    if (c == '\'') return take_quoted_atom(tokens, '\'');
    return take_word(tokens, islower((unsigned char)c) ? TOKEN_ATOM : TOKEN_NAME);
}

struct token tokens_next(struct tokens *tokens) {
    while (tokens->at < tokens->end)
        if (!leave_code(tokens) && !skip_one(tokens)) break;
    if (tokens->at >= tokens->end) return (struct token){.kind = TOKEN_END, .line = tokens->line};
    struct token token = tokens->language == SCAN_ELIXIR ? take_elixir(tokens) : take_erlang(tokens);
    if (token.text.size > 0 || token.kind == TOKEN_ATOM) return token; /* '' is an atom too */
    token = (struct token){.kind = TOKEN_MARK, .text = {.data = tokens->at, .size = 1}, .line = tokens->line};
    step(tokens);
    return token;
}
