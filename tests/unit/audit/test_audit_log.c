/* The trail's files: written, read again, changed by others, cut off, full. */
#include "own_mounts.h"
#include "scratch.h"

#include "audit_test.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "audit/audit_internal.h"

static const struct audit_limits limits = {.file_max_bytes = 1 << 20, .files_kept = 4};

static struct audit_log open_log(const struct scratch *scratch, const struct audit_limits *with) {
    struct audit_log log;
    struct error error;
    if (audit_log_open(scratch->path, with, &log, &error) < 0) fail_msg("%s", error.detail);
    return log;
}

static void add(struct audit_log *log, const char *op) {
    char members[128];
    struct error error;
    snprintf(members, sizeof members, "\"op\":\"%s\",\"sandbox_id\":\"a\",\"uid\":7,\"outcome\":\"ok\"", op);
    if (audit_log_add(log, members, false, NULL, &error) < 0) fail_msg("%s", error.detail);
    audit_log_seal(log);
}

static void write_some(const struct scratch *scratch, unsigned count) {
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &limits);
    for (unsigned i = 0; i < count; i++) add(&log, i % 2 ? "create" : "destroy");
}

/* What verifying says: NULL for nothing. *ret_records may be NULL. */
static bool verifies(const char *home, char problem[256], uint64_t *ret_records) {
    atomic_bool call_off = false;
    json_t *verdict;
    struct error error;
    if (audit_verify(home, NULL, &call_off, &verdict, &error) < 0) fail_msg("%s", error.detail);
    const char *detail = json_string_value(json_object_get(json_object_get(verdict, "problem"), "detail"));
    bool valid = json_is_true(json_object_get(verdict, "valid"));
    assert_int_equal(valid, detail == NULL);
    if (problem) snprintf(problem, 256, "%s", detail ? detail : "");
    if (ret_records) *ret_records = (uint64_t)json_integer_value(json_object_get(verdict, "records"));
    json_decref(verdict);
    return valid;
}

static void expect_problem(const struct scratch *scratch, const char *expected) {
    char problem[256];
    assert_false(verifies(scratch->path, problem, NULL));
    if (!strstr(problem, expected)) fail_msg("\"%s\" does not say \"%s\"", problem, expected);
}

static void expect_whole(const struct scratch *scratch, uint64_t records) {
    char problem[256];
    uint64_t found;
    if (!verifies(scratch->path, problem, &found)) fail_msg("%s", problem);
    assert_int_equal(found, records);
}

#define FIRST_FILE "audit/00000000000000000001.jsonl"

/* The whole of a file of the home, and back. */
static size_t load(const struct scratch *scratch, const char *name, char *text, size_t size) {
    CLEANUP_FD int fd = openat(scratch->fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, size);
    assert_true(got >= 0 && (size_t)got < size);
    return (size_t)got;
}

static void save(const struct scratch *scratch, const char *name, const char *text, size_t size) {
    CLEANUP_FD int fd = openat(scratch->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, text, size), 0);
}

static void test_goes_on_where_it_ended(void **state) {
    struct scratch *scratch = *state;
    write_some(scratch, 3);
    write_some(scratch, 2);
    expect_whole(scratch, 5);
}

static void check_every_byte(const struct scratch *scratch, const char *name) {
    static const uint8_t changes[] = {0x01, 0x20, 0x80};
    char text[8192];
    size_t size = load(scratch, name, text, sizeof text);
    assert_true(size > 0);
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < ARRAY_SIZE(changes); j++) {
            text[i] ^= (char)changes[j];
            save(scratch, name, text, size);
            if (verifies(scratch->path, NULL, NULL)) fail_msg("byte %zu of %s", i, name);
            text[i] ^= (char)changes[j];
        }
    save(scratch, name, text, size);
    assert_true(verifies(scratch->path, NULL, NULL));
}

static void test_every_changed_byte_is_found(void **state) {
    struct scratch *scratch = *state;
    write_some(scratch, 4);
    check_every_byte(scratch, FIRST_FILE);
    check_every_byte(scratch, "audit/head");
}

/* The lines of the file in another order, or some of them. */
static void rearrange(const struct scratch *scratch, const char *order) {
    char text[8192], other[8192];
    const char *lines[16];
    size_t size = load(scratch, FIRST_FILE, text, sizeof text), count = 0, written = 0;
    for (char *at = text; at < text + size; at = strchr(at, '\n') + 1) lines[count++] = at;
    text[size] = '\0';
    for (; *order; order++) {
        const char *line = lines[*order - '1'];
        size_t length = (size_t)(strchr(line, '\n') + 1 - line);
        memcpy(other + written, line, length);
        written += length;
    }
    save(scratch, FIRST_FILE, other, written);
}

static void test_removed_and_moved_records_are_found(void **state) {
    struct scratch *scratch = *state;
    static const struct {
        const char *order, *expected;
    } cases[] = {
        {"1345", "records were removed or moved"}, {"12354", "records were removed or moved"},
        {"2345", "begins with record 2"},          {"1234", "record 5 was written last"},
        {"", "record 5 was written last"},         {"123455", "records were removed or moved"},
    };
    char text[8192];
    write_some(scratch, 5);
    size_t size = load(scratch, FIRST_FILE, text, sizeof text);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        rearrange(scratch, cases[i].order);
        expect_problem(scratch, cases[i].expected);
        save(scratch, FIRST_FILE, text, size);
    }
    expect_whole(scratch, 5);
    assert_int_equal(unlinkat(scratch->fd, FIRST_FILE, 0), 0);
    expect_problem(scratch, "written last");
}

/* A record made anew, with a hash that is right, does not fit the next. */
static void test_a_forged_record_is_found(void **state) {
    struct scratch *scratch = *state;
    struct audit_chain chain;
    char text[8192];
    CLEANUP(buf_free) struct buf forged = BUF_INIT;
    write_some(scratch, 3);
    size_t size = load(scratch, FIRST_FILE, text, sizeof text), first = (size_t)(strchr(text, '\n') + 1 - text);
    audit_chain_begin(&chain);
    assert_int_equal(audit_chain_add(&chain, "\"op\":\"nothing\"", &forged, NULL), 0);
    buf_append(&forged, text + first, size - first);
    save(scratch, FIRST_FILE, (char *)forged.data, forged.size);
    expect_problem(scratch, "does not follow");
}

/* ---- a daemon that is killed ---- */

static void test_a_torn_record_is_cut_off_and_told(void **state) {
    struct scratch *scratch = *state;
    char text[8192];
    write_some(scratch, 3);
    size_t size = load(scratch, FIRST_FILE, text, sizeof text);
    for (size_t torn = 1; torn < 200; torn += 66) {
        memcpy(text + size, text, torn);
        save(scratch, FIRST_FILE, text, size + torn);
        expect_whole(scratch, 3); /* the others are */
    }
    write_some(scratch, 1);
    expect_whole(scratch, 5);
    size = load(scratch, FIRST_FILE, text, sizeof text);
    text[size] = '\0';
    assert_non_null(strstr(text, "\"event\":\"mended\",\"cut_bytes\":199"));
}

static void write_until_killed(const struct scratch *scratch, int ready) {
    struct audit_log log = open_log(scratch, &limits);
    add(&log, "create");
    if (write(ready, "", 1) != 1) _exit(1);
    for (;;) add(&log, "create");
}

static void test_a_killed_writer_leaves_a_whole_trail(void **state) {
    struct scratch *scratch = *state;
    for (int round = 0; round < 5; round++) {
        int ready[2], status;
        char byte;
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) write_until_killed(scratch, ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        close(ready[0]);
        close(ready[1]);
        assert_true(verifies(scratch->path, NULL, NULL));
        write_some(scratch, 1);
        assert_true(verifies(scratch->path, NULL, NULL));
    }
}

/* ---- rotation ---- */

static unsigned count_files(const struct scratch *scratch) {
    CLEANUP(audit_names_free) struct audit_names names = {0};
    CLEANUP_FD int folder = openat(scratch->fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(audit_names_read(folder, &names, NULL), 0);
    return (unsigned)names.count;
}

static void test_files_follow_one_another(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 1000, .files_kept = 100};
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &small);
    for (int i = 0; i < 30; i++) add(&log, "create");
    assert_true(count_files(scratch) > 3);
    expect_whole(scratch, 30);
    assert_int_equal(unlinkat(scratch->fd, FIRST_FILE, 0), 0);
    expect_problem(scratch, "those before it were removed");
}

static void test_the_oldest_go_and_the_trail_says_so(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 1000, .files_kept = 3};
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &small);
    char problem[256];
    for (int i = 0; i < 40; i++) add(&log, "create");
    assert_int_equal(count_files(scratch), 3);
    assert_false(scratch_has(scratch, FIRST_FILE));
    if (!verifies(scratch->path, problem, NULL)) fail_msg("%s", problem);
}

/* ---- reading ---- */

static size_t count_matching(const struct scratch *scratch, struct audit_filter filter) {
    CLEANUP(buf_free) struct buf lines = BUF_INIT;
    read_all(scratch->path, &filter, &lines);
    size_t count = 0;
    for (const char *at = buf_string(&lines); (at = strchr(at, '\n')); at++) count++;
    return count;
}

static void test_filters(void **state) {
    struct scratch *scratch = *state;
    write_some(scratch, 9);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = -1}), 9);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 2, .uid = -1}), 2);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = 7, .op = "create"}), 4);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = 8}), 0);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = -1, .since = 7}), 2);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = -1, .sandbox_id = "b"}), 0);
    assert_int_equal(count_matching(scratch, (struct audit_filter){.limit = 100, .uid = -1, .outcome = "ok"}), 9);
}

static uint64_t seq_of(const char *line) {
    struct audit_chain record = {0};
    audit_line_end(line, &record);
    return record.seq;
}

/* Small files and small pages of them: none is left out, none comes twice, whatever the number that is wanted. */
static void test_pages(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 20000, .files_kept = 100};
    static const uint64_t wanted[] = {1, 99, 100, 101, 399, 400, 5000};
    enum { RECORDS = 400 };
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &small);
    for (int i = 0; i < RECORDS; i++) add(&log, "create");
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        CLEANUP(buf_free) struct buf lines = BUF_INIT;
        read_all(scratch->path, &(struct audit_filter){.limit = wanted[i], .uid = -1}, &lines);
        uint64_t expected = wanted[i] < RECORDS ? RECORDS - wanted[i] : 0;
        char *rest = (char *)buf_string(&lines), *line;
        while ((line = strsep(&rest, "\n")) && *line) assert_int_equal(seq_of(line), ++expected);
        assert_int_equal(expected, RECORDS);
    }
}

/* Files go while one is read that is older: the reader learns how many records it missed, and has the newest. */
static void test_a_reader_whose_files_go(void **state) {
    struct scratch *scratch = *state;
    static const struct audit_limits small = {.file_max_bytes = 80000, .files_kept = 2};
    const struct audit_filter filter = {.limit = 100000, .uid = -1};
    atomic_bool call_off = false;
    struct audit_cursor cursor;
    CLEANUP(buf_free) struct buf page = BUF_INIT;
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &small);
    for (int i = 0; i < 500; i++) add(&log, "create");
    assert_int_equal(audit_seek(scratch->path, &filter, &call_off, &cursor, NULL), 0);
    assert_int_equal(audit_read_page(scratch->path, &filter, &call_off, &cursor, &page, NULL), 0);
    assert_false(cursor.is_at_end);
    uint64_t seen = cursor.seen;
    for (int i = 0; i < 1000; i++) add(&log, "create");
    buf_clear(&page);
    assert_int_equal(audit_read_page(scratch->path, &filter, &call_off, &cursor, &page, NULL), 0);
    assert_true(cursor.skipped > 0);
    assert_int_equal(seq_of(buf_string(&page)), seen + cursor.skipped + 1);
    while (!cursor.is_at_end) {
        buf_clear(&page);
        assert_int_equal(audit_read_page(scratch->path, &filter, &call_off, &cursor, &page, NULL), 0);
    }
    assert_int_equal(cursor.seen, log.chain.seq);
}

/* ---- compared with what the service knows ---- */

static void expect_known(const struct scratch *scratch, const struct audit_chain *known, const char *expected) {
    atomic_bool call_off = false;
    json_t *verdict;
    assert_int_equal(audit_verify(scratch->path, known, &call_off, &verdict, NULL), 0);
    const char *detail = json_string_value(json_object_get(json_object_get(verdict, "problem"), "detail"));
    assert_int_equal(json_is_true(json_object_get(verdict, "valid")), expected == NULL);
    if (expected && !strstr(detail, expected)) fail_msg("\"%s\" does not say \"%s\"", detail, expected);
    json_decref(verdict);
}

static void test_an_emptied_trail_is_no_whole_one(void **state) {
    struct scratch *scratch = *state;
    CLEANUP(audit_log_close) struct audit_log log = open_log(scratch, &limits);
    for (int i = 0; i < 9; i++) add(&log, "create");
    struct audit_chain known = log.chain, another = log.chain;
    another.hash[0] = another.hash[0] == '0' ? '1' : '0';
    expect_known(scratch, &known, NULL);
    expect_known(scratch, &another, "record 9 is not the one that the service wrote");
    assert_int_equal(unlinkat(scratch->fd, "audit/head", 0), 0);
    expect_known(scratch, &known, "missing or damaged");
    save(scratch, FIRST_FILE, "", 0);
    expect_known(scratch, &known, "the service wrote record 9, and the trail ends with 0");
    assert_int_equal(unlinkat(scratch->fd, FIRST_FILE, 0), 0);
    expect_known(scratch, &known, "the service wrote record 9, and the trail ends with 0");
}

static void test_called_off(void **state) {
    struct scratch *scratch = *state;
    atomic_bool call_off = true;
    json_t *verdict = NULL;
    struct error error;
    write_some(scratch, 1);
    assert_true(audit_verify(scratch->path, NULL, &call_off, &verdict, &error) < 0);
    assert_int_equal(error.code, E_SHUTDOWN);
    assert_null(verdict);
}

/* ---- a full disk ---- */

static void fill(const struct scratch *scratch) {
    char block[4096] = "";
    CLEANUP_FD int fd = openat(scratch->fd, "disk/filler", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0) continue;
}

static int add_raw(struct audit_log *log, bool urgent, struct error *reterr) {
    return audit_log_add(log, "\"op\":\"create\",\"note\":\"of some length, so that the reserve has an end\"", urgent,
                         NULL, reterr);
}

static void use_a_full_disk(void **state) {
    struct scratch *scratch = *state;
    struct scratch disk = *scratch;
    struct error error;
    unsigned urgent = 0;
    scratch_folder(scratch, "disk");
    snprintf(disk.path + strlen(disk.path), sizeof disk.path - strlen(disk.path), "/disk");
    assert_int_equal(mount("disk", disk.path, "tmpfs", 0, "size=512k"), 0);
    struct audit_log log = open_log(&disk, &limits);
    add(&log, "create");
    fill(scratch);
    assert_true(log.reserved_end - log.size >= AUDIT_RESERVE_BYTES);
    int result = 0;
    for (int i = 0; result == 0 && i < 1000; i++) result = add_raw(&log, false, &error);
    assert_true(result < 0);
    assert_int_equal(error.code, E_DISK_FULL);
    while (add_raw(&log, true, &error) == 0) urgent++; /* what has happened still finds room for a while */
    assert_true(urgent > 50);
    assert_int_equal(error.code, E_DISK_FULL);
    assert_true(verifies(disk.path, NULL, NULL));
    assert_int_equal(unlinkat(scratch->fd, "disk/filler", 0), 0);
    add(&log, "create");
    assert_int_equal(log.missed, 0); /* and the trail has said so */
    assert_true(verifies(disk.path, NULL, NULL));
    audit_log_close(&log);
    assert_int_equal(umount2(disk.path, MNT_DETACH), 0);
}

static void test_a_full_disk(void **state) {
    (void)state;
    test_in_own_mounts(
        (struct CMUnitTest)cmocka_unit_test_setup_teardown(use_a_full_disk, scratch_setup, scratch_teardown));
}

int main(void) {
#define WITH_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH_SCRATCH(test_goes_on_where_it_ended),
        WITH_SCRATCH(test_every_changed_byte_is_found),
        WITH_SCRATCH(test_removed_and_moved_records_are_found),
        WITH_SCRATCH(test_a_forged_record_is_found),
        WITH_SCRATCH(test_a_torn_record_is_cut_off_and_told),
        WITH_SCRATCH(test_a_killed_writer_leaves_a_whole_trail),
        WITH_SCRATCH(test_files_follow_one_another),
        WITH_SCRATCH(test_the_oldest_go_and_the_trail_says_so),
        WITH_SCRATCH(test_filters),
        WITH_SCRATCH(test_pages),
        WITH_SCRATCH(test_a_reader_whose_files_go),
        WITH_SCRATCH(test_an_emptied_trail_is_no_whole_one),
        WITH_SCRATCH(test_called_off),
        cmocka_unit_test(test_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
