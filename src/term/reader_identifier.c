/* Reads pids, ports, references and functions. */
#include <string.h>

#include "term/reader.h"

static int read_atom_child(struct reader *reader, const struct term **ret) {
    struct term *atom = NULL;
    int result = reader_allocate_terms(reader, 1, &atom);
    if (result == 0) result = reader_child(reader, atom);
    if (result < 0) return result;
    if (atom->type != TERM_ATOM) return reader_malformed(reader, "something else than an atom");
    *ret = atom;
    return 0;
}

static int read_u32_child(struct reader *reader, uint32_t *ret) {
    struct term term;
    int result = reader_child(reader, &term);
    if (result < 0) return result;
    if (term.type != TERM_INTEGER || term.integer < 0 || term.integer > UINT32_MAX)
        return reader_malformed(reader, "no small integer");
    *ret = (uint32_t)term.integer;
    return 0;
}

static int allocate_identifier(struct reader *reader, struct term_identifier **ret) {
    struct term_identifier *identifier = arena_allocate(reader->arena, sizeof *identifier);
    if (!identifier) return reader_no_memory(reader);
    *identifier = (struct term_identifier){0};
    int result = read_atom_child(reader, &identifier->node);
    if (result == 0) *ret = identifier;
    return result;
}

/* The node's name, then numbers: id, serial for pids, and creation, with these widths. */
struct layout {
    enum term_type type;
    uint8_t id_bytes, serial_bytes, creation_bytes;
};

static int read_identifier(struct reader *reader, const struct layout *layout, struct term *ret) {
    struct term_identifier *identifier = NULL;
    uint8_t *numbers = NULL;
    int result = allocate_identifier(reader, &identifier);
    if (result >= 0)
        result =
            reader_take(reader, (size_t)layout->id_bytes + layout->serial_bytes + layout->creation_bytes, &numbers);
    if (result < 0) return result;
    identifier->id = layout->id_bytes == 8 ? load_u64(numbers) : load_u32(numbers);
    numbers += layout->id_bytes;
    if (layout->serial_bytes) identifier->serial = load_u32(numbers);
    numbers += layout->serial_bytes;
    identifier->creation = layout->creation_bytes == 4 ? load_u32(numbers) : numbers[0];
    *ret = (struct term){.type = layout->type, .identifier = identifier};
    return 0;
}

int read_pid(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    return read_identifier(reader, &(struct layout){TERM_PID, 4, 4, 1}, ret);
}

int read_new_pid(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    return read_identifier(reader, &(struct layout){TERM_PID, 4, 4, 4}, ret);
}

int read_port(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    return read_identifier(reader, &(struct layout){TERM_PORT, 4, 0, 1}, ret);
}

int read_new_port(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    return read_identifier(reader, &(struct layout){TERM_PORT, 4, 0, 4}, ret);
}

int read_v4_port(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    return read_identifier(reader, &(struct layout){TERM_PORT, 8, 0, 4}, ret);
}

static int read_reference_words(struct reader *reader, unsigned words, size_t creation_bytes,
                                struct term_identifier *identifier) {
    uint8_t *numbers = NULL;
    int result = reader_take(reader, creation_bytes + 4 * (size_t)words, &numbers);
    if (result < 0) return result;
    identifier->creation = creation_bytes == 4 ? load_u32(numbers) : numbers[0];
    identifier->word_count = words;
    for (unsigned i = 0; i < words; i++) identifier->words[i] = load_u32(numbers + creation_bytes + 4 * (size_t)i);
    return 0;
}

static int read_counted_reference(struct reader *reader, unsigned words, size_t creation_bytes, struct term *ret) {
    if (words == 0 || words > REFERENCE_MAX_WORDS) return reader_malformed(reader, "a reference of impossible size");
    struct term_identifier *identifier = NULL;
    int result = allocate_identifier(reader, &identifier);
    if (result == 0) result = read_reference_words(reader, words, creation_bytes, identifier);
    if (result == 0) *ret = (struct term){.type = TERM_REFERENCE, .identifier = identifier};
    return result;
}

int read_new_reference(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_counted_reference(reader, load_u16(fixed), 1, ret);
}

int read_newer_reference(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    return read_counted_reference(reader, load_u16(fixed), 4, ret);
}

/* The oldest form has one word, before the creation. */
int read_reference(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    struct term_identifier *identifier = NULL;
    uint8_t *numbers = NULL;
    int result = allocate_identifier(reader, &identifier);
    if (result >= 0) result = reader_take(reader, 5, &numbers);
    if (result < 0) return result;
    identifier->words[0] = load_u32(numbers);
    identifier->word_count = 1;
    identifier->creation = numbers[4];
    *ret = (struct term){.type = TERM_REFERENCE, .identifier = identifier};
    return 0;
}

int read_export(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    (void)fixed;
    struct term_fun *fun = arena_allocate(reader->arena, sizeof *fun);
    if (!fun) return reader_no_memory(reader);
    *fun = (struct term_fun){0};
    int result = read_atom_child(reader, &fun->module);
    if (result == 0) result = read_atom_child(reader, &fun->function);
    if (result == 0) result = read_u32_child(reader, &fun->arity);
    if (result < 0) return result;
    if (fun->arity > UINT8_MAX) return reader_malformed(reader, "a function of more than 255 arguments");
    *ret = (struct term){.type = TERM_EXPORT, .fun = fun};
    return 0;
}

/* Size, arity, 16 bytes of unique, index, number of free variables; then terms. */
enum { FUN_ARITY_AT = 4, FUN_INDEX_AT = 21, FUN_FREE_AT = 25 };

static int read_closure_terms(struct reader *reader, size_t free_variables, struct term_fun *fun) {
    struct term creator;
    const struct term *variables;
    int result = read_atom_child(reader, &fun->module);
    if (result == 0) result = read_u32_child(reader, &fun->old_index);
    if (result == 0) result = read_u32_child(reader, &fun->old_unique);
    if (result == 0) result = reader_child(reader, &creator);
    if (result == 0 && creator.type != TERM_PID) result = reader_malformed(reader, "something else than a pid");
    if (result == 0) result = reader_elements(reader, free_variables, &variables);
    return result;
}

int read_fun(struct reader *reader, const uint8_t *fixed, struct term *ret) {
    struct term_fun *fun = arena_allocate(reader->arena, sizeof *fun);
    if (!fun) return reader_no_memory(reader);
    *fun = (struct term_fun){.arity = fixed[FUN_ARITY_AT], .index = load_u32(fixed + FUN_INDEX_AT), .raw = fixed - 1};
    int result = read_closure_terms(reader, load_u32(fixed + FUN_FREE_AT), fun);
    if (result < 0) return result;
    const uint8_t *end = reader->data + reader->at;
    if ((size_t)(end - fixed) != load_u32(fixed)) return reader_malformed(reader, "a fun of another size than it says");
    fun->raw_size = (size_t)(end - fun->raw);
    *ret = (struct term){.type = TERM_FUN, .fun = fun};
    return 0;
}
