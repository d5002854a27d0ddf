/* Prints atoms as Elixir does: with or without quotes, as keyword keys and as function names. */
#include <string.h>

#include "term/term_internal.h"

/* The kind of an atom decides its quotes. Letters beyond Latin Extended-A are always quoted, which is correct; Elixir
   would also print many of them bare. */
enum kind {
    KIND_ALIAS,           /* Elixir.Foo.Bar */
    KIND_IDENTIFIER,      /* foo?, a name that can be called */
    KIND_NAME,            /* Foo, a@b: bare, but not a function's name */
    KIND_OPERATOR,        /* bare, and callable */
    KIND_QUOTED_OPERATOR, /* callable, but quoted elsewhere */
    KIND_SYNTAX,          /* %{} and the like: bare, not callable */
    KIND_OTHER,
};

struct operators {
    enum kind kind;
    const char *names; /* each between spaces */
};

static bool in_words(const char *words, const char *text, size_t length) {
    for (const char *at = words; *at;) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, text, length) == 0) return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

static bool find_operator(const char *text, size_t length, enum kind *ret) {
    static const struct operators table[] = {
        {KIND_SYNTAX, "% %{} {} <<>> ... .. . ..// ->"},
        {KIND_QUOTED_OPERATOR, ":: ^^^ ~~~ <|>"},
        {KIND_OPERATOR,
         "& ! ^ not + - @ <- \\\\ when | = || ||| or && &&& and == != =~ === !== < <= >= > |> <<< >>> <~ "
         "~> <<~ ~>> <~> in ++ -- <> +++ --- * / **"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (length > 0 && in_words(table[i].names, text, length)) {
            *ret = table[i].kind;
            return true;
        }
    return false;
}

static bool is_upper(char character) {
    return character >= 'A' && character <= 'Z';
}

static bool is_alphanumeric(char character) {
    return is_upper(character) || (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9') ||
           character == '_';
}

static bool is_alias(const char *text) {
    if (!string_starts(text, "Elixir")) return false;
    const char *at = text + strlen("Elixir");
    while (*at == '.' && is_upper(at[1])) {
        at++;
        while (is_alphanumeric(*at)) at++;
    }
    return *at == '\0';
}

/* The letters of Latin-1 and Latin Extended-A that every Elixir prints bare; 1.20 took some out. */
static bool is_latin_letter(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0xC0, 0xD6},   {0xD8, 0xF6},   {0xF8, 0x113},  {0x116, 0x12B}, {0x12E, 0x131}, {0x134, 0x137},
                  {0x139, 0x13E}, {0x141, 0x148}, {0x14A, 0x14D}, {0x150, 0x155}, {0x158, 0x161}, {0x164, 0x17E}};
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

/* Extended-A alternates capital and small letters. Two runs begin with an odd capital. */
static bool is_lower_latin(uint32_t code) {
    if (code < 0x100) return code >= 0xDF;
    if (code == 0x178) return false;
    bool odd_capitals = (code >= 0x139 && code <= 0x148) || code >= 0x179;
    return odd_capitals ? code % 2 == 0 : code % 2 == 1;
}

static bool starts_identifier(uint32_t code) {
    return (code >= 'a' && code <= 'z') || code == '_' || (is_latin_letter(code) && is_lower_latin(code));
}

static bool is_capital(uint32_t code) {
    return (code >= 'A' && code <= 'Z') || (is_latin_letter(code) && !is_lower_latin(code));
}

static bool continues_name(uint32_t code) {
    const uint32_t middle_dot = 0xB7;
    return (code < 0x80 && is_alphanumeric((char)code)) || code == '@' || is_latin_letter(code) || code == middle_dot;
}

static enum kind classify_name(const char *text, size_t length) {
    const uint8_t *data = (const uint8_t *)text;
    uint32_t first = 0;
    utf8_decode(data, length, &first);
    if (!starts_identifier(first) && !is_capital(first)) return KIND_OTHER;
    if (length > 1 && (text[length - 1] == '?' || text[length - 1] == '!')) length--;
    if (!bytes_are_text(data, length, continues_name)) return KIND_OTHER;
    return starts_identifier(first) && !memchr(text, '@', length) ? KIND_IDENTIFIER : KIND_NAME;
}

static enum kind classify(const char *text, size_t length) {
    enum kind kind;
    if (memchr(text, '\0', length)) return KIND_OTHER;
    if (find_operator(text, length, &kind)) return kind;
    if (is_alias(text)) return KIND_ALIAS;
    return classify_name(text, length);
}

static void print_quoted(struct printer *printer, const struct term *atom) {
    print_text(printer, "\"");
    print_elixir_escaped(printer, (const uint8_t *)atom->atom.text, atom->atom.length, '"');
    print_text(printer, "\"");
}

static void print_literal(struct printer *printer, const struct term *atom, enum kind kind) {
    const char *text = atom->atom.text;
    if (in_words("nil true false", text, atom->atom.length)) {
        print_text(printer, text);
    } else if (kind == KIND_ALIAS) {
        print_text(printer, term_module_name(text));
    } else {
        print_text(printer, ":");
        if (kind == KIND_OTHER || kind == KIND_QUOTED_OPERATOR)
            print_quoted(printer, atom);
        else
            print_text(printer, text);
    }
}

void print_elixir_atom(struct printer *printer, const struct term *atom, enum elixir_atom_place place) {
    enum kind kind = classify(atom->atom.text, atom->atom.length);
    if (place == ELIXIR_LITERAL) {
        print_literal(printer, atom, kind);
        return;
    }
    bool callable = kind == KIND_IDENTIFIER || kind == KIND_OPERATOR || kind == KIND_QUOTED_OPERATOR;
    bool bare_key = kind == KIND_IDENTIFIER || kind == KIND_OPERATOR || kind == KIND_NAME || kind == KIND_SYNTAX;
    if (place == ELIXIR_CALL ? callable : bare_key)
        print_text(printer, atom->atom.text);
    else
        print_quoted(printer, atom);
    if (place == ELIXIR_KEY) print_text(printer, ":");
}
