/* bench_watched: what watching a hundred folders of a thousand files costs, while nothing happens and when one is saved
   to. Prints JSON. tools/bench/watch/bench_watch.sh makes a sentence of that. */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "bench.h"
#include "watch/watch.h"

enum { WATCHES = 100, FOLDERS = 10, FILES = 100, SAVES = 200, IDLE_MS = 5000 };

struct scene {
    uv_loop_t loop;
    uv_timer_t timer;
    char folder[64];
    unsigned reports;
    bool is_over;
};

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0) bench_end("writing", path);
}

static void make_folder(const char *path) {
    if (mkdir(path, 0755) < 0) bench_end("making a folder", path);
}

static void make_files(const char *folder) {
    char path[256];
    make_folder(folder);
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        make_folder(path);
        for (int k = 0; k < FILES; k++) {
            snprintf(path, sizeof path, "%s/%d/%d.ex", folder, i, k);
            write_text(path, path);
        }
    }
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *where) {
    (void)info, (void)flag, (void)where;
    return remove(path);
}

static double memory_mib(void) {
    long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2) bench_end("memory", "unknown");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static double cpu_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void on_report(void *data, const struct watch_report *report) {
    struct scene *scene = data;
    if (report->error || report->polling)
        bench_end("watching", report->error ? report->error->detail : report->polling);
    scene->reports++;
}

static void wait_reports(struct scene *scene, unsigned count) {
    while (scene->reports < count) uv_run(&scene->loop, UV_RUN_ONCE);
}

static void on_timer(uv_timer_t *timer) {
    ((struct scene *)timer->data)->is_over = true;
}

static double idle_percent(struct scene *scene) {
    double before_ms = cpu_ms();
    uv_timer_start(&scene->timer, on_timer, IDLE_MS, 0);
    while (!scene->is_over) uv_run(&scene->loop, UV_RUN_ONCE);
    return (cpu_ms() - before_ms) * 100 / IDLE_MS;
}

static void time_saves(struct scene *scene, json_t *result) {
    char path[256], text[32];
    for (unsigned i = 0; i < SAVES; i++) {
        snprintf(path, sizeof path, "%s/%u/%u/%u.ex", scene->folder, i * 7 % WATCHES, i % FOLDERS, i % FILES);
        snprintf(text, sizeof text, "version %u", i);
        uint64_t begun_us = clock_monotonic_us();
        scene->reports = 0;
        write_text(path, text);
        wait_reports(scene, 1);
        bench_note(result, "detection_ms", bench_since_ms(begun_us));
    }
}

static void on_closed(void *data) {
    (void)data;
}

int main(void) {
    struct scene scene = {.folder = "/dev/shm/bench-watched-XXXXXX"};
    struct watch *watches[WATCHES];
    char path[128];
    json_t *result = json_pack("{s:i, s:i, s:i, s:i}", "watches", WATCHES, "files", FOLDERS * FILES, "saves", SAVES,
                               "idle_seconds", IDLE_MS / 1000);
    if (!mkdtemp(scene.folder)) bench_end("making a folder", scene.folder);
    uv_loop_init(&scene.loop);
    uv_timer_init(&scene.loop, &scene.timer);
    scene.timer.data = &scene;
    struct watcher *watcher = watcher_open(&scene.loop);
    double before_mib = memory_mib();
    for (int i = 0; i < WATCHES; i++) {
        snprintf(path, sizeof path, "%s/%d", scene.folder, i);
        make_files(path);
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        watches[i] = watch_begin(watcher, 0, fd, &(struct watch_patterns){0}, on_report, &scene);
        fd_close(fd);
    }
    wait_reports(&scene, WATCHES);
    json_object_set_new(result, "memory_mib", json_real(memory_mib() - before_mib));
    json_object_set_new(result, "idle_cpu_percent", json_real(idle_percent(&scene)));
    time_saves(&scene, result);
    for (int i = 0; i < WATCHES; i++) watch_end(watches[i]);
    watcher_close(watcher, on_closed, NULL);
    uv_close((uv_handle_t *)&scene.timer, NULL);
    uv_run(&scene.loop, UV_RUN_DEFAULT);
    uv_loop_close(&scene.loop);
    nftw(scene.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    json_dumpf(result, stdout, JSON_REAL_PRECISION(6));
    json_decref(result);
    return 0;
}
