#include "cli/cli_internal.h"

int main(int count, char **words) {
    return cli_main(count, words);
}
