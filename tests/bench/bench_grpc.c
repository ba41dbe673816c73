/* Unary echo of 100 bytes over a unix socket, one process each for server and client.
 * usage: bench_grpc [SECONDS-PER-POINT]
 * Prints calls a second at 1, 64 and 256 outstanding over 8 connections, the serial latency, and CPU per call. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"

enum {
    CONNECTIONS = 8,
    PAYLOAD = 100,
    SAMPLES_MAX = 1 << 20,
};

static int64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "bench_grpc: %s: %s\n", what, strerror(-r));
    exit(1);
}

/* ---- server ---- */

static void echo_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    (void)arg;
    (void)grpc_call_send(call, data, len);
}

static void echo_half_closed(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void echo_end(struct grpc_call *call, void *arg)
{
    (void)call;
    (void)arg;
}

static const struct grpc_call_events echo = {
    .message = echo_message, .half_closed = echo_half_closed, .end = echo_end, .unary = true};

static void accept_call(struct grpc_call *call, const char *path, void *arg)
{
    (void)path;
    (void)arg;
    grpc_call_bind(call, &echo, NULL);
}

static void serve(const char *path, int ready_fd)
{
    struct loop *loop;
    struct grpc_server *server;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(loop_new(&loop), "loop");
    must(grpc_server_new(loop, NULL, accept_call, NULL, &server), "server");
    must(grpc_server_listen_unix(server, path, 0600), path);
    (void)!write(ready_fd, "", 1);
    (void)close(ready_fd);
    loop_run(loop);
}

/* ---- client ---- */

struct bench {
    struct loop *loop;
    pid_t server;
    struct grpc_channel *channels[CONNECTIONS];
    int64_t until_ns;
    unsigned outstanding;
    uint64_t calls;
    bool over;
    /* Latencies, when one call at a time is under way. */
    int64_t began_ns;
    uint32_t *samples_ns;
    size_t n_samples;
};

static struct bench bench;
static uint8_t payload[PAYLOAD];

static void start_call(struct grpc_channel *channel);

static void call_end(struct grpc_request *request, enum grpc_status status, const char *message,
                     bool sent, void *arg)
{
    int64_t now;

    (void)request;
    (void)sent;
    if (status != GRPC_OK) {
        (void)fprintf(stderr, "bench_grpc: %s: %s\n", grpc_status_name(status), message);
        exit(1);
    }
    bench.calls++;
    now = now_ns();
    if (bench.samples_ns && bench.n_samples < SAMPLES_MAX)
        bench.samples_ns[bench.n_samples++] = (uint32_t)(now - bench.began_ns);
    bench.over = bench.over || now >= bench.until_ns;
    if (!bench.over)
        start_call(arg);
    else if (--bench.outstanding == 0)
        loop_stop(bench.loop);
}

static const struct grpc_request_events call_events = {.end = call_end, .unary = true};

static void start_call(struct grpc_channel *channel)
{
    struct grpc_request *request;

    if (bench.samples_ns)
        bench.began_ns = now_ns();
    must(grpc_request_start(channel, "/xce.v1.LeaseService/Acquire", 10000, NULL, &call_events,
                            channel, &request),
         "start");
    must(grpc_request_send(request, payload, sizeof payload), "send");
    grpc_request_half_close(request);
}

/* CPU time of a process so far. */
static int64_t cpu_ns(pid_t pid)
{
    struct timespec ts = {0};
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) == 0)
        (void)clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void run_point(unsigned outstanding, unsigned connections, double seconds)
{
    int64_t from = now_ns(), client = cpu_ns(getpid()), server = cpu_ns(bench.server);

    bench.until_ns = from + (int64_t)(seconds * 1e9);
    bench.calls = 0;
    bench.over = false;
    bench.outstanding = outstanding;
    for (unsigned i = 0; i < outstanding; i++)
        start_call(bench.channels[i % connections]);
    loop_run(bench.loop);
    (void)printf("calls_%u=%.0f client_us_per_call=%.2f server_us_per_call=%.2f\n", outstanding,
                 (double)bench.calls / ((double)(now_ns() - from) / 1e9),
                 (double)(cpu_ns(getpid()) - client) / 1e3 / (double)bench.calls,
                 (double)(cpu_ns(bench.server) - server) / 1e3 / (double)bench.calls);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void serial(double seconds)
{
    bench.samples_ns = calloc(SAMPLES_MAX, sizeof *bench.samples_ns);
    if (!bench.samples_ns)
        must(-1, "memory");
    run_point(1, 1, seconds);
    qsort(bench.samples_ns, bench.n_samples, sizeof *bench.samples_ns, by_value);
    (void)printf("serial_p50_us=%.1f serial_p99_us=%.1f\n",
                 bench.samples_ns[bench.n_samples / 2] / 1e3,
                 bench.samples_ns[bench.n_samples * 99 / 100] / 1e3);
    free(bench.samples_ns);
    bench.samples_ns = NULL;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    char folder[] = "/tmp/xce-bench-grpc-XXXXXX";
    char path[64], target[80], c;
    int ready[2];

    if (!mkdtemp(folder) || pipe(ready) < 0)
        must(-1, folder);
    (void)snprintf(path, sizeof path, "%s/s", folder);
    (void)snprintf(target, sizeof target, "unix:%s", path);
    bench.server = fork();
    if (bench.server == 0) {
        serve(path, ready[1]);
        _exit(0);
    }
    (void)close(ready[1]);
    if (read(ready[0], &c, 1) != 1)
        must(-1, "the server did not start");
    must(loop_new(&bench.loop), "loop");
    for (unsigned i = 0; i < CONNECTIONS; i++)
        must(grpc_channel_new(bench.loop, target, NULL, &bench.channels[i]), "channel");

    serial(seconds);
    run_point(64, CONNECTIONS, seconds);
    run_point(256, CONNECTIONS, seconds);

    for (unsigned i = 0; i < CONNECTIONS; i++)
        grpc_channel_close(bench.channels[i], NULL, NULL);
    loop_run(bench.loop);
    loop_free(bench.loop);
    (void)kill(bench.server, SIGKILL);
    (void)waitpid(bench.server, NULL, 0);
    (void)unlink(path);
    (void)rmdir(folder);
    return 0;
}
