/* A folder of a test's own. It lies below TMPDIR, which tools/test.sh sets to a place in memory: the tests make and
   remove tens of thousands of files. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

/* Short, since paths of sockets are: a longer TMPDIR is not used. */
#define TEST_FOLDER_BYTES 32

/* NULL when it can't be made. The test removes it. */
static inline char *test_folder_make(char ret_path[static TEST_FOLDER_BYTES]) {
    const char *place = getenv("TMPDIR");
    int length = place ? snprintf(ret_path, TEST_FOLDER_BYTES, "%s/sandbox-XXXXXX", place) : -1;
    if (length < 0 || length >= TEST_FOLDER_BYTES) snprintf(ret_path, TEST_FOLDER_BYTES, "/tmp/sandbox-XXXXXX");
    return mkdtemp(ret_path);
}

#endif
