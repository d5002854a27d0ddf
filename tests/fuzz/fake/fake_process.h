/* The processes that the launcher starts, played in its own: nodes, helpers inside nodes, openers, the keeper. */
#ifndef FUZZ_FAKE_PROCESS_H
#define FUZZ_FAKE_PROCESS_H

#include <stdbool.h>

/* ---- fake_process.c ---- */

void process_start_node(void); /* the one whose sources were opened last: it builds its jail and says what came of it */
void process_start_forwarder(void); /* it says what came of its jail */
/* What a helper that ends would have written to the latest pipe. */
void process_report_failure(unsigned choice);
void process_forget_all(void);

/* ---- fake_kernel.c ---- */

unsigned fake_choose(void); /* 0: as it should be */
bool fake_fails_by(unsigned choice);
int fake_place(int fd); /* where the process that is played has its descriptors */
int fake_listener(void);
void fake_play_child(bool begins);

#endif
