/* What tests of the audit trail share. */
#ifndef AUDIT_TEST_H
#define AUDIT_TEST_H

#include "audit/audit.h"

/* All pages of what matches, as lines. */
static inline void read_all(const char *home, const struct audit_filter *filter, struct buf *lines) {
    atomic_bool call_off = false;
    struct audit_cursor cursor;
    struct error error;
    CLEANUP(buf_free) struct buf page = BUF_INIT;
    if (audit_seek(home, filter, &call_off, &cursor, &error) < 0) fail_msg("%s", error.detail);
    do {
        buf_clear(&page);
        if (audit_read_page(home, filter, &call_off, &cursor, &page, &error) < 0) fail_msg("%s", error.detail);
        assert_in_range(page.size, 0, AUDIT_PAGE_BYTES + AUDIT_LINE_MAX_BYTES);
        buf_append(lines, page.data, page.size);
    } while (!cursor.is_at_end);
}

#endif
