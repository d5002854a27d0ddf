/* What tests of quotas share: rules from short texts. */
#ifndef QUOTA_TEST_H
#define QUOTA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "quota/quota.h"

#define GIB (UINT64_C(1) << 30)

/* "quota user 1000" and "sandboxes=3 memory=1G", which must be right. */
static inline void add_rule(struct quota_rules *rules, const char *header, const char *pairs) {
    struct quota_rule *rule;
    struct error error;
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", pairs);
    if (quota_rules_begin(rules, header, &rule, &error) < 0) fail_msg("%s", error.detail);
    for (char *pair; (pair = strsep(&rest, " "));) {
        char *equals = strchr(pair, '=');
        *equals = '\0';
        if (quota_rule_set(rule, pair, equals + 1, &error) < 0) fail_msg("%s", error.detail);
    }
}

#endif
