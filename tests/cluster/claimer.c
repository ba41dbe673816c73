/* Clients of leased for tests on booted machines: many at once, each with a libxce client and a thread of its own. They
 * acquire, hold or release, and write down what they were told. Run in a machine by replicas.py.
 *
 *     claimer KEY=VALUE...
 *         out=FILE       one JSON object a line, as in oracle.py; each is there before the client's next step
 *         servers=LIST   client i begins with the i-th of them
 *         clients=N  count=N      acquires of all of them together; 0 = until the file of stop= is there
 *         run=NAME   pool=NAME    jobs are named NAME-CLIENT-NUMBER
 *         nodes=A,B      each lease names one of them, in turn; of=all: all of them, and waits until they are ready
 *         keep=PERCENT   of the leases that are not released again
 *         pause=MS       after each step
 *         ttl=MS         of the leases; 0 = none
 *         timeout=MS     deadline of a call. A call without an answer is made again under its id, for up to two minutes.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xce/client.h"

#define CLIENTS_MAX 256
#define LIST_MAX    16
#define PATIENCE_MS 120000

struct list {
    char *text; /* cut into items */
    const char *items[LIST_MAX];
    size_t n;
};

static struct {
    FILE *out;
    struct list servers, nodes;
    const char *stop, *run, *pool;
    bool wait_for_all;
    long clients, count, keep, pause_ms, ttl_ms, timeout_ms;
} set = {.run = "run", .pool = "main", .clients = 1, .keep = 100, .timeout_ms = 20000};

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static atomic_long begun;

struct worker {
    pthread_t thread;
    long number;
    unsigned seed;
    struct xce_client *client;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void record(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void record(const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&writing);
    fprintf(set.out, "{\"t\": %.6f, ", now_s());
    va_start(args, format);
    vfprintf(set.out, format, args);
    va_end(args);
    fputs("}\n", set.out);
    fflush(set.out);
    pthread_mutex_unlock(&writing);
}

/* Its text is plain ASCII without control characters or quotes of ours: jobs and messages of leased may have quotes. */
static const char *quoted(const char *text, char ret[static 2 * XCE_MESSAGE_MAX])
{
    char *at = ret;

    for (; *text && at < ret + 2 * XCE_MESSAGE_MAX - 3; text++) {
        if (*text == '"' || *text == '\\')
            *at++ = '\\';
        *at++ = *text;
    }
    *at = '\0';
    return ret;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- one call, until it is answered ---- */

/* Whether a call that ended with code is to be made again under its id, which goes into *request; says so. */
static bool again(const struct worker *w, const char *what, const char *job, int code, double end,
                  struct xce_request *request)
{
    char text[2 * XCE_MESSAGE_MAX];
    bool more = (code == XCE_UNREACHABLE || code == XCE_TIMEOUT) && now_s() < end;
    struct xce_request last;

    record("\"ev\": \"%s\", \"what\": \"%s\", \"client\": %ld, \"job\": \"%s\", \"code\": \"%s\", "
           "\"said\": \"%s\"",
           more ? "again" : "failed", what, w->number, job, xce_code_name(code),
           quoted(xce_client_message(w->client), text));
    if (more) {
        xce_client_request(w->client, &last);
        if (last.id_len)
            *request = last;
        sleep_ms(20);
    }
    return more;
}

static struct xce_leases *acquire(const struct worker *w, const char *job, long at)
{
    struct xce_spec spec = {
        .pool = set.pool, .job = job, .ttl_ms = set.ttl_ms ? set.ttl_ms : XCE_TTL_NONE};
    struct xce_acquire what = {.specs = &spec, .n_specs = 1, .wait = set.wait_for_all};
    double end = now_s() + PATIENCE_MS / 1000.0;
    struct xce_request request = {.id_len = 0};
    struct xce_leases *leases;
    int code;

    spec.nodes = set.wait_for_all ? set.nodes.items : &set.nodes.items[(size_t)at % set.nodes.n];
    spec.n_nodes = set.wait_for_all ? set.nodes.n : 1;
    do {
        struct xce_call call = {.timeout_ms = set.timeout_ms,
                                .request = request.id_len ? &request : NULL};

        code = xce_lease_acquire(w->client, &call, &what, &leases);
        if (code == XCE_OK)
            return leases;
    } while (again(w, "acquire", job, code, end, &request));
    return NULL;
}

static void release(const struct worker *w, const char *job, const struct xce_lease *lease)
{
    double end = now_s() + PATIENCE_MS / 1000.0;
    struct xce_request request = {.id_len = 0};
    int code;

    record("\"ev\": \"releasing\", \"client\": %ld, \"job\": \"%s\", \"lease\": %llu, \"uid\": %u, "
           "\"epoch\": %u",
           w->number, job, (unsigned long long)lease->lease, lease->uid, lease->epoch);
    do {
        struct xce_call call = {.timeout_ms = set.timeout_ms,
                                .request = request.id_len ? &request : NULL};
        struct xce_lease *after;

        code = xce_lease_release(w->client, &call, lease->lease, lease->epoch, NULL, &after);
        /* It was done by an attempt whose answer was lost, libxce's too, and the uid is free by now. One that leased does
         * not know is told otherwise. */
        if (code == XCE_OK ||
            (code == XCE_NOT_FOUND && strstr(xce_client_message(w->client), "is free again"))) {
            if (code == XCE_OK)
                xce_free(after);
            record("\"ev\": \"released\", \"client\": %ld, \"job\": \"%s\", \"lease\": %llu, "
                   "\"uid\": %u, \"epoch\": %u",
                   w->number, job, (unsigned long long)lease->lease, lease->uid, lease->epoch);
            return;
        }
    } while (again(w, "release", job, code, end, &request));
}

/* ---- clients ---- */

static void step(struct worker *w, long number)
{
    struct xce_leases *leases;
    const struct xce_lease *lease;
    double began = now_s();
    char job[128];

    snprintf(job, sizeof job, "%s-%ld-%ld", set.run, w->number, number);
    record("\"ev\": \"acquiring\", \"client\": %ld, \"job\": \"%s\"", w->number, job);
    leases = acquire(w, job, w->number + number);
    if (!leases)
        return;
    lease = &leases->items[0];
    record("\"ev\": \"acquired\", \"client\": %ld, \"job\": \"%s\", \"rid\": \"%s\", \"lease\": "
           "%llu, \"uid\": %u, "
           "\"epoch\": %u, \"name\": \"%s\", \"state\": \"%s\", \"took\": %.6f",
           w->number, job, job, (unsigned long long)lease->lease, lease->uid, lease->epoch,
           lease->name, xce_lease_state_word(lease->state), now_s() - began);
    if (rand_r(&w->seed) % 100 >= set.keep) {
        sleep_ms(set.pause_ms);
        release(w, job, lease);
    }
    xce_free(leases);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    long number = 0;

    while (set.count == 0 || atomic_fetch_add(&begun, 1) < set.count) {
        if (set.stop && access(set.stop, F_OK) == 0)
            break;
        step(w, number++);
        sleep_ms(set.pause_ms);
    }
    return NULL;
}

/* All servers, that one first. */
static int make_client(struct worker *w)
{
    struct xce_client_options options = {.patience_ms = set.timeout_ms};
    char servers[1024] = "", why[XCE_MESSAGE_MAX];

    for (size_t i = 0; i < set.servers.n; i++) {
        size_t at = strlen(servers);

        snprintf(servers + at, sizeof servers - at, "%s%s", i ? "," : "",
                 set.servers.items[((size_t)w->number + i) % set.servers.n]);
    }
    if (set.servers.n)
        options.server = servers;
    if (xce_client_new(&options, &w->client, why) == XCE_OK)
        return 0;
    fprintf(stderr, "claimer: %s\n", why);
    return -1;
}

/* ---- arguments ---- */

static void split(char *text, struct list *ret)
{
    char *rest = text, *item;

    while ((item = strsep(&rest, ",")) && ret->n < LIST_MAX)
        ret->items[ret->n++] = item;
}

static bool take(char *key, char *value)
{
    const struct {
        const char *key;
        long *number;
    } numbers[] = {
        {"clients", &set.clients}, {"count", &set.count},        {"keep", &set.keep},
        {"pause", &set.pause_ms},  {"timeout", &set.timeout_ms}, {"ttl", &set.ttl_ms},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].number = strtol(value, NULL, 10);
            return true;
        }
    if (strcmp(key, "out") == 0)
        return (set.out = fopen(value, "ae"));
    if (strcmp(key, "stop") == 0)
        return (set.stop = value);
    if (strcmp(key, "run") == 0)
        return (set.run = value);
    if (strcmp(key, "pool") == 0)
        return (set.pool = value);
    if (strcmp(key, "servers") == 0)
        split(value, &set.servers);
    else if (strcmp(key, "nodes") == 0)
        split(value, &set.nodes);
    else if (strcmp(key, "of") == 0)
        set.wait_for_all = strcmp(value, "all") == 0;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static struct worker workers[CLIENTS_MAX];

    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (value)
            *value++ = '\0';
        if (!value || !take(argv[i], value)) {
            fprintf(stderr, "claimer: %s: what is that?\n", argv[i]);
            return 2;
        }
    }
    if (!set.out || !set.nodes.n || set.clients < 1 || set.clients > CLIENTS_MAX) {
        fprintf(stderr, "claimer: out=, nodes=, clients= (1 to %d) are needed\n", CLIENTS_MAX);
        return 2;
    }
    for (long i = 0; i < set.clients; i++) {
        workers[i] = (struct worker){.number = i, .seed = (unsigned)(i + getpid())};
        if (make_client(&workers[i]) < 0 ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            return 1;
    }
    for (long i = 0; i < set.clients; i++) {
        pthread_join(workers[i].thread, NULL);
        xce_client_free(workers[i].client);
    }
    return 0;
}
