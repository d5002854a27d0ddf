/* The table of attacks. Event floods are last: their events stay in the home that all services of a run share. */
#include "siege.h"

static const struct siege_attack attacks[] = {
    {"descriptors", "pass a lingering TCP socket on agent.sock", 0, NULL, NULL, 0, "descriptors"},
    {"descriptors", "pass a lingering TCP socket on api.sock", UID_NOBODY, descriptors_volley, NULL, 1, NULL},
    {"bodies", "300,000 keys, 1 connection", UID_NOBODY, bodies_volley, bodies_prepare, 1, "keys"},
    {"bodies", "300,000 keys, 24 connections", UID_NOBODY, bodies_volley, bodies_prepare, 24, "keys"},
    {"bodies", "300,000 keys, 90 connections", UID_NOBODY, bodies_volley, bodies_prepare, 90, "keys"},
    {"bodies", "1.9 M elements, 1 connection", UID_NOBODY, bodies_volley, bodies_prepare, 1, "elements"},
    {"bodies", "1.9 M elements, 24 connections", UID_NOBODY, bodies_volley, bodies_prepare, 24, "elements"},
    {"bodies", "1.9 M elements, 90 connections", UID_NOBODY, bodies_volley, bodies_prepare, 90, "elements"},
    {"bodies", "3.8 MB of code, 1 connection", UID_NOBODY, bodies_volley, bodies_prepare, 1, "code"},
    {"bodies", "3.8 MB of code, 24 connections", UID_NOBODY, bodies_volley, bodies_prepare, 24, "code"},
    {"bodies", "3.8 MB of code, 90 connections", UID_NOBODY, bodies_volley, bodies_prepare, 90, "code"},
    {"json", "2 M brackets deep, 2 connections", UID_NOBODY, bodies_volley, bodies_prepare, 2, "brackets"},
    {"json", "objects 200 deep and wide, 2 connections", UID_NOBODY, bodies_volley, bodies_prepare, 2, "nested"},
    {"json", "3.8 MB of escapes, 2 connections", UID_NOBODY, bodies_volley, bodies_prepare, 2, "escapes"},
    {"results", "eval of 1.5 M small integers", UID_TENANT, results_volley, results_prepare, 1,
     "[N rem 256 || N <- lists:seq(1, 1500000)]"},
    {"results", "eval of a map of 400,000 pairs", UID_TENANT, results_volley, results_prepare, 1,
     "maps:from_list([{N, N} || N <- lists:seq(1, 400000)])"},
    {"results", "eval of 4 MB of control characters", UID_TENANT, results_volley, results_prepare, 1,
     "binary:copy(<<1>>, 4000000)"},
    {"results", "eval of 1,500 floats in an improper list", UID_TENANT, results_volley, results_prepare, 1,
     "[1.25e-300 * N || N <- lists:seq(1, 1500)] ++ x"},
    {"queries", "60 questions for stats at once", UID_TENANT, queries_volley, results_prepare, 60,
     "sandboxes/tenant/stats?history=recent"},
    {"queries", "60 lists of what uses most at once", UID_TENANT, queries_volley, results_prepare, 60, "top"},
    {"dials", "dial agent.sock, one byte, hang up", 0, NULL, NULL, 0, "dial_byte"},
    {"dials", "dial agent.sock, a false hello, hang up", 0, NULL, NULL, 0, "dial_hello"},
    {"maps", "forged events, maps of 980,000 keys", 0, NULL, NULL, 0, "wide_map"},
    {"connections", "1,024 followers of events", UID_NOBODY, followers_volley, NULL, 1024, NULL},
    {"openers", "8 compiles of a 40 MB file, openers stopped", UID_UNUSED, openers_volley, openers_prepare, 8, NULL},
    {"compilations", "20 compilations at once", UID_NOBODY, compilations_volley, NULL, 20, NULL},
    {"events", "failing creates with long paths", UID_NOBODY, failures_volley, NULL, 4, NULL},
};

const struct siege_attack *siege_attacks(size_t *ret_count) {
    *ret_count = ARRAY_SIZE(attacks);
    return attacks;
}
