/* The table of attacks, one for each limit, and an attack's code repeated without end. */
#include "limits/attacks.h"

#include <stdio.h>
#include <string.h>

#define SPIN "(fun Spin() -> Spin() end)()"
#define MANY(what, count) "[" what " || _ <- lists:seq(1, " count ")], " SPIN

static const struct limit_attack attacks[] = {
    {"memory", "binaries without end", "{\"limit\": {\"memory\": \"64M\"}, \"restart\": \"always\"}",
     "(fun Grow(L) -> Grow([binary:copy(<<1>>, 1 bsl 20) | L]) end)([])", SIGN_EVENT, "status", "error"},
    {"heap", "one process's list without end", "{}", "(fun Grow(L) -> Grow([make_ref() | L]) end)([])", SIGN_EVENT,
     "limit", "heap"},
    {"cpu", "spin, with half a core allowed", "{\"limit\": {\"cpu\": \"50%\"}}", SPIN, SIGN_RATE, NULL,
     "50 % of a core"},
    {"processes", "a bomb of VM processes", "{}",
     "(fun Bomb() -> spawn(Bomb), spawn(Bomb), receive never -> ok end end)()", SIGN_EVENT, "limit", "processes"},
    {"os_tasks", "a bomb of programs", "{\"profile\": \"low\"}", "os:cmd(\"for i in $(seq 1 400); do sleep 2 & done\")",
     SIGN_ANSWER, NULL, "fork"},
    {"disk", "files without end", "{}",
     "(fun Fill(N) -> case file:write_file(\"/data/\" ++ integer_to_list(N), binary:copy(<<1>>, 1 bsl 20)) of "
     "ok -> Fill(N + 1); Error -> Error end end)(1)",
     SIGN_ANSWER, NULL, "enospc"},
    {"files", "empty files without end", "{\"limit\": {\"files\": \"1000\"}}",
     "(fun Fill(N) -> case file:write_file(\"/data/e\" ++ integer_to_list(N), <<>>) of "
     "ok -> Fill(N + 1); Error -> Error end end)(1)",
     SIGN_ANSWER, NULL, "enospc"},
    {"file_size", "one large file", "{\"limit\": {\"file_size\": \"64M\", \"disk\": \"160M\"}}",
     "{ok, F} = file:open(\"/data/x\", [write, raw]), Told = file:pwrite(F, 64 bsl 20, <<1>>), file:close(F), Told",
     SIGN_ANSWER, NULL, "efbig"},
    {"descriptors", "open files without end", "{}",
     "(fun Open(L) -> case file:open(\"/data/x\", [write, raw]) of {ok, F} -> Open([F | L]); "
     "Error -> [file:close(F) || F <- L], Error end end)([])",
     SIGN_ANSWER, NULL, "emfile"},
    {"atoms", "atoms without end", "{\"limit\": {\"atoms\": \"50000\"}}",
     "(fun Make(N) -> binary_to_atom(integer_to_binary(N)), Make(N + 1) end)(erlang:unique_integer([positive]) bsl 32)",
     SIGN_EVENT, "limit", "atoms"},
    {"ets_tables", "5,000 tables", "{}", MANY("ets:new(t, [])", "5000"), SIGN_EVENT, "limit", "ets_tables"},
    {"ets_memory", "a table without end", "{\"limit\": {\"ets_memory\": \"16M\"}}",
     "T = ets:new(t, []), (fun Fill(N) -> ets:insert(T, {N, binary:copy(<<0>>, 60)}), Fill(N + 1) end)(1)", SIGN_EVENT,
     "limit", "ets_memory"},
    {"vm_ports", "900 ports", "{}", MANY("open_port({fd, 0, 1}, [])", "900"), SIGN_EVENT, "limit", "vm_ports"},
    {"sockets", "400 sockets", "{}", MANY("gen_udp:open(0)", "400"), SIGN_EVENT, "limit", "sockets"},
    {"message_queue", "messages that nobody reads", "{}",
     "process_flag(message_queue_data, off_heap), (fun Flood() -> self() ! x, Flood() end)()", SIGN_EVENT, "limit",
     "message_queue"},
    {"max_run", "an evaluation without end", "{\"limit\": {\"max_run\": \"500ms\"}}", SPIN, SIGN_ANSWER, NULL,
     "500 ms"},
    {"ttl", "outlive its time of one second", "{\"limit\": {\"ttl\": \"1s\"}}", SPIN, SIGN_EVENT, "destroyed", ""},
    {"control channel", "flood the service through the agent's connection", "{}",
     "Agent = whereis(sbx_agent), "
     "[Port] = [P || P <- erlang:ports(), erlang:port_info(P, connected) =:= {connected, Agent}], "
     "Frame = term_to_binary({event, noise, binary:copy(<<1>>, 65536)}), "
     "(fun Flood() -> _ = gen_tcp:send(Port, Frame), Flood() end)()",
     SIGN_EVENT, "violation", "channel_flood"},
    {"output", "print without end", "{}",
     "Text = binary:copy(<<\"x\">>, 4096), (fun Print() -> io:put_chars(Text), Print() end)()", SIGN_RATE, NULL,
     "4 MiB a second"},
};

const struct limit_attack *limit_attacks(size_t *ret_count) {
    *ret_count = sizeof attacks / sizeof *attacks;
    return attacks;
}

const struct limit_attack *limit_attack_find(const char *limit) {
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(attacks[i].limit, limit) == 0) return &attacks[i];
    return NULL;
}

void limit_attack_repeated(const struct limit_attack *attack, char ret[LIMIT_ATTACK_CODE_BYTES]) {
    snprintf(ret, LIMIT_ATTACK_CODE_BYTES, "(fun Again() -> (fun() -> %s end)(), Again() end)()", attack->code);
}
