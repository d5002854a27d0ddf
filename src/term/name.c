/* Names of modules as their language writes them. */
#include <string.h>

#include "term/term.h"

static const char elixir_prefix[] = "Elixir.";

static bool is_upper(char character) {
    return character >= 'A' && character <= 'Z';
}

const char *term_module_name(const char *atom_text) {
    size_t prefix_length = strlen(elixir_prefix);
    if (!string_starts(atom_text, elixir_prefix) || !is_upper(atom_text[prefix_length])) return atom_text;
    const char *rest = atom_text + prefix_length;
    /* Without its prefix, Elixir.Elixir.X would name another module. */
    return string_equal(rest, "Elixir") || string_starts(rest, elixir_prefix) ? atom_text : rest;
}

void term_module_atom(const char *written, struct buf *ret) {
    if (is_upper(written[0]) && !string_equal(written, "Elixir") && !string_starts(written, elixir_prefix))
        buf_append_string(ret, elixir_prefix);
    buf_append_string(ret, written);
}
