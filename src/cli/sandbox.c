/* The program `sandbox`. All of it is in cli_main, so that tests can call that. */
#include "cli/cli_internal.h"

int main(int count, char **words) {
    return cli_main(count, words);
}
