/* Any bytes at all as the code of a module: how many labels and functions it is said to have, and then the code. Every
   way of reading it says the same. */
#include "code_ways.h"
#include "fuzz/harness/fuzz.h"

void fuzz_one(const uint8_t *data, size_t size) {
    if (size < 2) return;
    uint32_t label_count = data[0] + 1u, function_count = data[1];
    size_t code_size = size - 2;
    uint8_t *code = malloc(code_size ? code_size : 1);
    if (!code) abort();
    memcpy(code, data + 2, code_size);
    if (ways_try(code, code_size, label_count, function_count).disagreement) abort();
    free(code);
}
