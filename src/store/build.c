/* Builds on the thread pool: puts and sweeps in the order of their requests, and folders for temporary files. */
#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loop/loop.h"

enum { PUTS_MAX = 2 }; /* at once, since the pool has other users */

/* Puts run side by side; a sweep runs alone, in the order of requests. So a sweep never sees an unfinished build, and a
   put never finds an existing build that the sweep is about to remove. */
struct build_job {
    STAILQ_ENTRY(build_job) link;
    struct store *store;
    uv_work_t work;
    struct error error;

    /* A put. */
    char base[STORE_DIGEST_BYTES]; /* "" for none */
    const struct store_file *files;
    size_t count;
    store_build_fn put_done;
    char tmp_name[32];
    char digest[STORE_DIGEST_BYTES];
    bool written; /* by this job; otherwise it existed already */

    /* A sweep. */
    struct map keep;
    int64_t min_age_s;
    store_done_fn sweep_done;

    /* A removal by name is a sweep too. */
    struct map named, gone; /* gone is the thread's until the work is done */
    store_removed_fn removed;

    void *data;
};

static bool is_sweep(const struct build_job *job) {
    return job->put_done == NULL;
}

static bool is_removal(const struct build_job *job) {
    return job->removed != NULL;
}

/* Apart from its age. */
static bool may_remove(const struct build_job *job, const char *digest) {
    return is_removal(job) ? map_get(&job->named, digest) != NULL : !map_get(&job->keep, digest);
}

static void free_job(struct build_job *job) {
    map_free(&job->named);
    map_free(&job->gone);
    map_free(&job->keep);
    free(job);
}

/* ---- on the pool ---- */

static void work(uv_work_t *request) {
    struct build_job *job = request->data;
    const struct build_queue *queue = &job->store->builds;
    if (job->error.code != E_NONE) return; /* the set of builds to keep is incomplete */
    if (is_removal(job))
        build_remove_named(queue, &job->named, &job->gone);
    else if (is_sweep(job))
        build_sweep(queue, &job->keep, job->min_age_s, &job->error);
    else
        build_write(queue, job->tmp_name, job->base, job->files, job->count, job->digest, &job->written, &job->error);
}

/* ---- on the loop ---- */

/* The caller of this put can't have named the build to a sweep that was requested earlier. */
static void protect_from_waiting_sweeps(struct build_queue *queue, const char *digest) {
    struct build_job *job;
    STAILQ_FOREACH(job, &queue->waiting, link) {
        if (is_removal(job))
            map_remove(&job->named, digest);
        else if (is_sweep(job) && !map_set(&job->keep, digest, job))
            error_set(&job->error, E_NO_MEMORY, "no memory to remember which builds to keep");
    }
}

static void answer(struct build_job *job) {
    const struct error *error = job->error.code == E_NONE ? NULL : &job->error;
    if (is_removal(job))
        job->removed(job->data, &job->gone);
    else if (!is_sweep(job))
        job->put_done(job->data, error ? NULL : job->digest, error);
    else if (job->sweep_done)
        job->sweep_done(job->data, error);
}

static void dispatch(struct store *store);

static void finish(struct build_job *job) {
    struct store *store = job->store;
    if (is_sweep(job))
        store->builds.sweep = NULL;
    else
        store->builds.puts_running--;
    free_job(job);
    dispatch(store);
    store_maybe_closed(store);
}

/* ---- after writing ---- */

struct unsynced {
    const struct build_queue *queue;
    char digest[STORE_DIGEST_BYTES];
};

static void sync_work(void *data) {
    const struct unsynced *unsynced = data;
    build_sync(unsynced->queue->builds_fd, unsynced->digest);
    fsync(unsynced->queue->builds_fd);
}

static void fill_work(void *data) {
    const struct store *store = data;
    preallocate(store->builds.preallocated_fd);
}

static void after_fill(void *data) {
    ((struct store *)data)->builds.awaits_preallocation = false;
}

static void note_written(const struct build_job *job) {
    struct store *store = job->store;
    struct unsynced *unsynced = malloc(sizeof *unsynced);
    store->builds.written++;
    if (!store->builds.awaits_preallocation) {
        store->builds.awaits_preallocation = true;
        store_add_chore(store, fill_work, after_fill, store);
    }
    if (!unsynced) return; /* the kernel syncs it in its own time */
    unsynced->queue = &store->builds;
    memcpy(unsynced->digest, job->digest, sizeof unsynced->digest);
    store_add_chore(store, sync_work, free, unsynced);
}

/* The caller gets the build before it is synced: forty small files take 1 ms to write and 120 ms to sync. */
static void after_work(uv_work_t *request, int status) {
    struct build_job *job = request->data;
    if (status < 0) error_errno(&job->error, -status, "working on a build");
    if (!is_sweep(job) && job->error.code == E_NONE) protect_from_waiting_sweeps(&job->store->builds, job->digest);
    answer(job);
    if (job->written) note_written(job);
    finish(job);
}

static bool may_start(const struct build_queue *queue, const struct build_job *job) {
    if (queue->sweep) return false;
    return is_sweep(job) ? queue->puts_running == 0 : queue->puts_running < PUTS_MAX;
}

static void start(struct store *store, struct build_job *job) {
    if (is_sweep(job))
        store->builds.sweep = job;
    else
        store->builds.puts_running++;
    loop_queue_work(store->loop, &job->work, work, after_work);
}

static void dispatch(struct store *store) {
    struct build_queue *queue = &store->builds;
    struct build_job *job;
    while ((job = STAILQ_FIRST(&queue->waiting)) && may_start(queue, job)) {
        STAILQ_REMOVE_HEAD(&queue->waiting, link);
        start(store, job);
    }
}

static void enqueue(struct store *store, struct build_job *job, void *data) {
    job->store = store;
    job->work.data = job;
    job->data = data;
    STAILQ_INSERT_TAIL(&store->builds.waiting, job, link);
    dispatch(store);
}

void store_put_build(struct store *store, const char *base, const struct store_file *files, size_t count,
                     store_build_fn done, void *data) {
    struct build_job *job = calloc(1, sizeof *job);
    if (!job) {
        struct error error;
        error_set(&error, E_NO_MEMORY, "no memory to write a build");
        done(data, NULL, &error);
        return;
    }
    snprintf(job->base, sizeof job->base, "%s", base ? base : "");
    job->files = files;
    job->count = count;
    job->put_done = done;
    snprintf(job->tmp_name, sizeof job->tmp_name, BUILD_PUT_PREFIX "%" PRIu64, store->builds.tmp_counter++);
    enqueue(store, job, data);
}

/* ---- for callers that are on the pool already ---- */

struct store_put {
    struct build_job job;
};

static void tell_nobody(void *data, const char *digest, const struct error *error) {
    (void)data, (void)digest, (void)error;
}

struct store_put *store_put_begin(struct store *store) {
    struct build_queue *queue = &store->builds;
    bool is_free = !queue->sweep && STAILQ_EMPTY(&queue->waiting);
    struct store_put *put = is_free ? calloc(1, sizeof *put) : NULL;
    if (!put) return NULL;
    put->job.store = store;
    put->job.work.data = &put->job;
    put->job.put_done = tell_nobody;
    snprintf(put->job.tmp_name, sizeof put->job.tmp_name, BUILD_PUT_PREFIX "%" PRIu64, queue->tmp_counter++);
    queue->puts_running++;
    return put;
}

int store_put_write(struct store_put *put, const char *base, const struct store_file *files, size_t count,
                    char ret_digest[STORE_DIGEST_BYTES], struct error *reterr) {
    struct build_job *job = &put->job;
    int result =
        build_write(&job->store->builds, job->tmp_name, base, files, count, job->digest, &job->written, reterr);
    if (result == 0) memcpy(ret_digest, job->digest, sizeof job->digest);
    return result;
}

void store_put_end(struct store_put *put) {
    struct build_job *job = &put->job;
    if (job->digest[0]) protect_from_waiting_sweeps(&job->store->builds, job->digest);
    if (job->written) note_written(job);
    finish(job);
}

static bool copy_keep(struct map *keep, const char *const *digests, void *any) {
    for (; *digests; digests++)
        if (!map_set(keep, *digests, any)) return false;
    return true;
}

const char *store_scratch(const struct store *store) {
    return store->builds.tmp_path;
}

uint64_t store_builds_written(const struct store *store) {
    return store->builds.written;
}

void store_sweep_builds(struct store *store, const char *const *keep, int64_t min_age_s, store_done_fn done,
                        void *data) {
    struct build_job *job = calloc(1, sizeof *job);
    if (!job || !copy_keep(&job->keep, keep, job)) {
        struct error error;
        error_set(&error, E_NO_MEMORY, "no memory to sweep builds");
        if (job) free_job(job);
        if (done) done(data, &error);
        return;
    }
    job->min_age_s = min_age_s;
    job->sweep_done = done;
    enqueue(store, job, data);
}

void store_remove_builds(struct store *store, struct map *digests, store_removed_fn removed, void *data) {
    struct build_job *job = calloc(1, sizeof *job);
    struct map none = MAP_INIT;
    if (!job) {
        map_free(digests);
        removed(data, &none);
        return;
    }
    job->named = *digests;
    *digests = none;
    job->removed = removed;
    enqueue(store, job, data);
}

bool store_build_stays(const struct store *store, const char *digest) {
    const struct build_queue *queue = &store->builds;
    const struct build_job *job;
    if (queue->sweep && may_remove(queue->sweep, digest)) return false;
    STAILQ_FOREACH(job, &queue->waiting, link) {
        if (is_sweep(job) && may_remove(job, digest)) return false;
    }
    return faccessat(queue->builds_fd, digest, F_OK, 0) == 0;
}

static bool digest_valid(const char *digest) {
    return strlen(digest) == STORE_DIGEST_BYTES - 1 && strspn(digest, "0123456789abcdef") == STORE_DIGEST_BYTES - 1;
}

int store_build_path(const struct store *store, const char *digest, char *ret, size_t size, struct error *reterr) {
    if (!digest_valid(digest)) return error_set(reterr, E_INVALID, "'%.80s' is not the digest of a build", digest);
    if (faccessat(store->builds.builds_fd, digest, F_OK, 0) < 0)
        return error_set(reterr, E_NOT_FOUND, "there is no build %s", digest);
    return string_format(ret, size, reterr, "%s/store/builds/%s", store->home, digest);
}

/* ---- opening ---- */

static int open_folder(int parent_fd, const char *name, mode_t mode, int *ret_fd, struct error *reterr) {
    if (mkdirat(parent_fd, name, mode) < 0 && errno != EEXIST)
        return error_errno(reterr, errno, "making the store's folder '%s'", name);
    CLEANUP_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) < 0) return error_errno(reterr, errno, "opening the store's folder '%s'", name);
    *ret_fd = take_fd(&fd);
    return 0;
}

/* A unique name, so that files of an earlier daemon are told apart from this one's, whatever the clock says. */
static int make_own_tmp(struct build_queue *queue, const char *home, struct error *reterr) {
    queue->tmp_path = string_print("%s/store/tmp/daemon-XXXXXX", home);
    if (!queue->tmp_path) return error_set(reterr, E_NO_MEMORY, "no memory for the store");
    if (!mkdtemp(queue->tmp_path)) return error_errno(reterr, errno, "making %s", queue->tmp_path);
    queue->tmp_fd = open(queue->tmp_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return queue->tmp_fd < 0 ? error_errno(reterr, errno, "opening %s", queue->tmp_path) : 0;
}

int build_queue_open(struct build_queue *queue, const char *home, struct error *reterr) {
    STAILQ_INIT(&queue->waiting);
    CLEANUP_FD int home_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home_fd < 0) return error_errno(reterr, errno, "opening the home '%s'", home);
    CLEANUP_FD int store_fd = -1;
    int result = open_folder(home_fd, "store", 0700, &store_fd, reterr);
    if (result == 0) result = open_folder(store_fd, "builds", 0755, &queue->builds_fd, reterr);
    if (result == 0) result = open_folder(store_fd, "tmp", 0700, &queue->all_tmp_fd, reterr);
    if (result == 0) result = make_own_tmp(queue, home, reterr);
    if (result == 0) result = build_check_after_boot(store_fd, queue->builds_fd, reterr);
    return result < 0 ? result : open_folder(store_fd, PREALLOCATED_NAME, 0700, &queue->preallocated_fd, reterr);
}

void build_queue_close(struct build_queue *queue) {
    queue->builds_fd = fd_close(queue->builds_fd);
    if (queue->tmp_fd >= 0) rmdir(queue->tmp_path); /* otherwise the next daemon removes it */
    queue->tmp_fd = fd_close(queue->tmp_fd);
    queue->all_tmp_fd = fd_close(queue->all_tmp_fd);
    free(take_ptr(queue->tmp_path));
    queue->preallocated_fd = fd_close(queue->preallocated_fd);
}

bool build_queue_idle(const struct build_queue *queue) {
    return STAILQ_EMPTY(&queue->waiting) && queue->puts_running == 0 && !queue->sweep;
}
