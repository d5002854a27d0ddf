/* Words and lines of plans and messages: written percent-encoded, taken apart in place. */
#include <string.h>

#include "jail/wire.h"

static bool is_plain(unsigned char byte) {
    return byte > ' ' && byte <= '~' && byte != '%';
}

static void put_encoded(struct buf *buf, const char *text) {
    for (const char *at = text; *at;) {
        size_t plain = 0;
        while (is_plain((unsigned char)at[plain])) plain++;
        buf_append(buf, at, plain);
        at += plain;
        if (*at) buf_printf(buf, "%%%02X", (unsigned char)*at++);
    }
}

void wire_put_word(struct buf *buf, const char *word) {
    if (*word)
        put_encoded(buf, word);
    else
        buf_append_byte(buf, '%');
}

void wire_put_pair(struct buf *buf, const char *key, const char *value) {
    buf_append_byte(buf, ' ');
    buf_append_string(buf, key);
    buf_append_byte(buf, '=');
    put_encoded(buf, value);
}

void wire_put_number(struct buf *buf, const char *key, uint64_t value) {
    buf_append_byte(buf, ' ');
    buf_append_string(buf, key);
    buf_append_byte(buf, '=');
    buf_append_decimal(buf, value);
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

/* The byte written as two digits; -1 when they are none, or for a zero byte, which no string can hold. */
static int hex_byte(const char *digits) {
    int high = hex_digit(digits[0]);
    int low = high < 0 ? -1 : hex_digit(digits[1]);
    int byte = high * 16 + low;
    return low < 0 || byte == 0 ? -1 : byte;
}

/* Decode size bytes of word in place and terminate it. */
static bool decode(char *word, size_t size) {
    if (size == 1 && word[0] == '%') size = 0;
    size_t written = 0;
    for (size_t read = 0; read < size; read++) {
        int byte = (unsigned char)word[read];
        if (byte == '%') {
            byte = size - read > 2 ? hex_byte(word + read + 1) : -1;
            read += 2;
        } else if (!is_plain((unsigned char)byte)) {
            byte = -1;
        }
        if (byte < 0) return false;
        word[written++] = (char)byte;
    }
    word[written] = '\0';
    return true;
}

char *wire_next_word(char **at) {
    char *word = *at;
    size_t size = strcspn(word, " \n");
    if (size == 0) return NULL;
    char *next = word[size] ? word + size + 1 : word + size;
    if (!decode(word, size)) return NULL;
    *at = next;
    return word;
}

char *wire_next_line(char **at) {
    char *line = *at;
    if (!*line) return NULL;
    size_t size = strcspn(line, "\n");
    *at = line[size] ? line + size + 1 : line + size;
    line[size] = '\0';
    return line;
}

int wire_message_parse(char *text, struct wire_message *ret, struct error *reterr) {
    struct wire_message message = {.body = text};
    char *at = wire_next_line(&message.body);
    if (!at) return error_set(reterr, E_FORMAT, "the message is empty");
    message.verb = wire_next_word(&at);
    if (!message.verb) return error_set(reterr, E_FORMAT, "the message has no verb");
    while (*at) {
        char *word = wire_next_word(&at);
        if (!word) return error_set(reterr, E_FORMAT, "operand %zu is badly encoded", message.count + 1);
        if (message.count == WIRE_WORDS_MAX)
            return error_set(reterr, E_FORMAT, "the message has more than %d operands", WIRE_WORDS_MAX);
        message.words[message.count++] = word;
    }
    *ret = message;
    return 0;
}

const char *wire_message_word(const struct wire_message *message, size_t index) {
    return index < message->count ? message->words[index] : NULL;
}

const char *wire_message_value(const struct wire_message *message, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < message->count; i++)
        if (strncmp(message->words[i], key, length) == 0 && message->words[i][length] == '=')
            return message->words[i] + length + 1;
    return NULL;
}

bool wire_message_number(const struct wire_message *message, const char *key, uint64_t *ret) {
    const char *value = wire_message_value(message, key);
    return value && parse_u64(value, ret);
}
