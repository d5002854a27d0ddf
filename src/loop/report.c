/* The longest turns of a loop, longest first. */
#include "loop/loop.h"

void loop_report_add(struct loop_report *report, const struct loop_turn *turn) {
    report->turns++;
    if (turn->cpu_us <= LOOP_TURN_LONG_US) return;
    report->long_turns++;
    bool is_full = report->worst_count == LOOP_WORST;
    if (is_full && report->worst[LOOP_WORST - 1].cpu_us >= turn->cpu_us) return;
    size_t at = is_full ? LOOP_WORST - 1 : report->worst_count++;
    for (; at > 0 && report->worst[at - 1].cpu_us < turn->cpu_us; at--) report->worst[at] = report->worst[at - 1];
    report->worst[at] = *turn;
}
