/* The applications that OTP and Elixir themselves consist of. Other packages may be installed beside them. */
#pragma once

#include <stdbool.h>
#include <string.h>

/* Whether the path has a folder of one of these applications, with or without a version. */
static inline bool is_of_otp_or_elixir(const char *path) {
    static const char *const applications[] = {
        "asn1",   "common_test",  "compiler",   "crypto",     "dialyzer",      "eex",    "elixir", "erts",
        "eunit",  "ex_unit",      "ftp",        "iex",        "inets",         "kernel", "logger", "mix",
        "mnesia", "os_mon",       "parsetools", "public_key", "sasl",          "snmp",   "ssh",    "ssl",
        "stdlib", "syntax_tools", "tftp",       "tools",      "runtime_tools", "xmerl"};
    for (size_t i = 0; i < sizeof applications / sizeof *applications; i++) {
        size_t length = strlen(applications[i]);
        for (const char *at = strstr(path, applications[i]); at; at = strstr(at + 1, applications[i]))
            if (at > path && at[-1] == '/' && (strncmp(at + length, "/ebin/", 6) == 0 || at[length] == '-'))
                return true;
    }
    return false;
}
