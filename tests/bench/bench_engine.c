/* How fast the engine alone is: serial latency against an append with fdatasync on the same file system, and commands a
 * second with N outstanding. bench_engine FOLDER [SECONDS] [without-history] */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/lib/engine_kit.h"

#define POOL_UIDS       (1u << 20)
#define SERIAL          2000
#define OUTSTANDING_MAX 256

struct bench {
    struct engine_kit kit;
    uint64_t next; /* request */
    uint64_t n_done;
    int64_t until_us;
    unsigned outstanding;
    bool failed;
};

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void report(const char *name, int64_t *us, size_t n)
{
    qsort(us, n, sizeof *us, compare);
    printf("%-28s p50 %5" PRId64 "  p90 %5" PRId64 "  p99 %6" PRId64 "  max %6" PRId64 " us\n",
           name, us[n / 2], us[n * 9 / 10], us[n * 99 / 100], us[n - 1]);
}

static void time_fdatasync(const char *folder)
{
    static int64_t us[SERIAL];
    char path[512], bytes[512] = "x";
    int fd;

    (void)snprintf(path, sizeof path, "%s/append", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t i = 0; i < SERIAL; i++) {
        int64_t began = clock_mono_us();

        if (write(fd, bytes, sizeof bytes) != sizeof bytes || fdatasync(fd) < 0)
            perror(path);
        us[i] = clock_mono_us() - began;
    }
    (void)close(fd);
    (void)unlink(path);
    report("append 512 + fdatasync", us, SERIAL);
}

static void time_serial(struct bench *bench)
{
    static int64_t us[SERIAL];

    for (size_t i = 0; i < SERIAL; i++) {
        int64_t began = clock_mono_us();

        if (engine_kit_do_acquire(&bench->kit, bench->next++) < 0 || bench->kit.out.code != FSM_OK)
            bench->failed = true;
        us[i] = clock_mono_us() - began;
    }
    report("serial", us, SERIAL);
}

static void propose(struct bench *bench);

static void done(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct bench *bench = arg;

    bench->outstanding--;
    bench->n_done++;
    if (r < 0 || outcome->code != FSM_OK) {
        bench->failed = true;
        if (bench->n_done < 10)
            printf("failed: %d %s\n", r, outcome ? outcome->message : "");
    }
    if (bench->n_done % 64 || clock_mono_us() < bench->until_us)
        propose(bench);
    else
        bench->until_us = 0;
}

static void propose(struct bench *bench)
{
    uint8_t bytes[ENGINE_KIT_BYTES];

    if (!bench->until_us)
        return;
    bench->outstanding++;
    engine_propose(bench->kit.engine, bytes, engine_kit_acquire(bench->next++, bytes), done, bench);
}

static void time_rate(struct bench *bench, unsigned outstanding, double seconds)
{
    int64_t began = clock_mono_us();
    struct engine_status status;
    uint64_t entries;

    engine_get_status(bench->kit.engine, &status);
    entries = status.last_entry;
    bench->n_done = 0;
    bench->until_us = began + (int64_t)(seconds * 1e6);
    for (unsigned i = 0; i < outstanding; i++)
        propose(bench);
    while (bench->outstanding)
        loop_step(bench->kit.loop, 1000);
    engine_get_status(bench->kit.engine, &status);
    printf("%3u outstanding: %8.0f commands/s, %.1f in an entry, log %" PRIu64
           " KiB, history behind %zu KiB\n",
           outstanding, (double)bench->n_done * 1e6 / (double)(clock_mono_us() - began),
           (double)bench->n_done / (double)(status.last_entry - entries), status.log_bytes >> 10,
           bench->kit.history ? history_lag_bytes(bench->kit.history) >> 10 : 0);
}

int main(int argc, char **argv)
{
    struct bench *bench = calloc(1, sizeof *bench);
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;
    bool with_history = argc < 4;

    if (argc < 2) {
        fprintf(stderr, "usage: bench_engine FOLDER [SECONDS] [without-history]\n");
        return 2;
    }
    engine_kit_init(&bench->kit, argv[1]);
    if (engine_kit_open(&bench->kit, with_history) < 0) {
        fprintf(stderr, "%s\n", bench->kit.why);
        return 1;
    }
    engine_kit_start(&bench->kit, POOL_UIDS);
    time_fdatasync(argv[1]);
    time_serial(bench);
    time_fdatasync(argv[1]);
    time_serial(bench);
    time_rate(bench, 1, seconds);
    time_rate(bench, 64, seconds);
    time_rate(bench, 256, seconds);
    engine_kit_done(&bench->kit);
    return bench->failed;
}
