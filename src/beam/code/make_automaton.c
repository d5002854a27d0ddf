/* Prints the automaton as a C table, at build time. */
#include <stdio.h>

#include "beam/code/automaton.h"

enum { STEPS_IN_A_LINE = 10 };

static struct automaton made;

int main(void) {
    automaton_build(&made);
    printf("#include \"beam/code/automaton.h\"\n\nconst struct automaton automaton = {\n    .columns = {");
    for (unsigned i = 0; i < ARRAY_SIZE(made.columns); i++) printf("%u,", made.columns[i]);
    printf("},\n    .between = %#x,\n    .behind_label = %#x,\n    .behind_line = %#x,\n    .end = %#x,\n    .wrong = "
           "%#x,\n",
           made.between, made.behind_label, made.behind_line, made.end, made.wrong);
    printf("    .step_count = %u,\n    .steps = {", made.step_count);
    for (unsigned i = 0; i < made.step_count; i++)
        printf("%s%#x,", i % STEPS_IN_A_LINE == 0 ? "\n        " : "", made.steps[i]);
    printf("\n    },\n};\n");
    return 0;
}
