/* What a look-up costs: the module called directly, through glibc, and against the least that could do it.
 *
 * usage: bench_nss [--json] [--reads N] [MODULE EMPTY-MODULE]
 *
 * Without arguments, the modules of the build folder that this program is in.
 *
 * 65,536 leases, each asked for once in a round. Figures are medians over rounds in which all contestants take turns, in ns
 * of processor time for one look-up:
 *   uid_hit name_hit miss           the module's entry points, called directly, leases in the order of their uids
 *   floor_uid floor_name floor_miss a bare reader of the same file: array by uid, name taken apart, seqlock, no checks
 *   glibc_uid glibc_empty           getpwuid_r through a private nsswitch.conf with our module, or an empty one, alone
 *   random_uid random_floor         uid_hit and floor_uid in random order: what the caches of the processor add
 *   torn_records                    found by 8 readers under 10,000 changes a second, in N reads (default 20,000,000)
 *
 * Everything happens in a mount name space of this process; the machine sees nothing of it. Needs root. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nss.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "map/name.h"
#include "tests/lib/map_fixture.h"
#include "tests/lib/map_race.h"

#define N_LEASES 65536u
#define ROUNDS   15
#define BUF      1024

enum figure {
    UID_HIT,
    NAME_HIT,
    MISS,
    FLOOR_UID,
    FLOOR_NAME,
    FLOOR_MISS,
    RANDOM_UID,
    RANDOM_FLOOR,
    GLIBC_UID,
    GLIBC_EMPTY,
    TORN,
    N_FIGURES
};

static const char *const names_of[N_FIGURES] = {
    "uid_hit_ns",    "name_hit_ns",    "miss_ns",       "floor_uid_ns",
    "floor_name_ns", "floor_miss_ns",  "random_uid_ns", "random_floor_ns",
    "glibc_uid_ns",  "glibc_empty_ns", "torn_records",
};

struct module {
    enum nss_status (*getpwuid)(uid_t, struct passwd *, char *, size_t, int *);
    enum nss_status (*getpwnam)(const char *, struct passwd *, char *, size_t, int *);
};

struct bench {
    struct map_fixture fixture;
    struct module module;
    struct map floor;
    uint32_t uid[N_LEASES], shuffled[N_LEASES], foreign[N_LEASES];
    char name[N_LEASES][NAME_BUF];
    double took[N_FIGURES][ROUNDS];
    char module_path[2][PATH_MAX];
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench nss: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Time that this thread had a processor: a machine that has other work must not make a look-up look slow. */
static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- the floor ---- */

static enum nss_status floor_uid(const struct map *map, uint32_t uid, struct passwd *ret, char *buf)
{
    const struct xce_map_header *header = map->base;
    uint32_t at = uid - header->first_uid, seq;
    const struct xce_map_record *record;
    const struct xce_map_pair *pair;

    if (at >= header->n_records ||
        __atomic_load_n(&header->state, __ATOMIC_ACQUIRE) != XCE_MAP_ALIVE)
        return NSS_STATUS_NOTFOUND;
    record = (const struct xce_map_record *)((const char *)map->base + header->records_at) + at;
    do {
        seq = __atomic_load_n(&record->seq, __ATOMIC_ACQUIRE);
        pair = (const struct xce_map_pair *)((const char *)map->base + header->pairs_at) +
               record->pair;
        memcpy(buf, record->text, sizeof(record->text));
        memcpy(buf + sizeof(record->text), pair->text, 32);
        ret->pw_uid = record->uid;
        ret->pw_gid = record->gid;
        ret->pw_name = buf;
        ret->pw_passwd = buf + record->name_len + 1;
        ret->pw_gecos = buf + record->name_len + 3;
        ret->pw_dir = buf + sizeof(record->text);
        ret->pw_shell = buf + sizeof(record->text) + pair->home_len + 1;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((seq & 1) || __atomic_load_n(&record->seq, __ATOMIC_RELAXED) != seq);
    return record->state ? NSS_STATUS_SUCCESS : NSS_STATUS_NOTFOUND;
}

static enum nss_status floor_name(const struct map *map, const char *name, struct passwd *ret,
                                  char *buf)
{
    const struct xce_map_header *header = map->base;
    uint32_t uid, epoch;
    size_t len;

    if (memcmp(name, header->prefix, 4) != 0)
        return NSS_STATUS_NOTFOUND;
    len = strlen(name + 4);
    if (name_decode_numbers(name + 4, len, &uid, &epoch) != 0 ||
        floor_uid(map, uid, ret, buf) != NSS_STATUS_SUCCESS)
        return NSS_STATUS_NOTFOUND;
    return memcmp(buf, name, len + 5) == 0 ? NSS_STATUS_SUCCESS : NSS_STATUS_NOTFOUND;
}

/* By pointer, as the module is called. */
static enum nss_status (*volatile floor_by_uid)(const struct map *, uint32_t, struct passwd *,
                                                char *) = floor_uid;
static enum nss_status (*volatile floor_by_name)(const struct map *, const char *, struct passwd *,
                                                 char *) = floor_name;

/* ---- contestants ---- */

static void expect(enum nss_status got, enum nss_status want, const char *who)
{
    if (got == want)
        return;
    (void)fprintf(stderr, "bench nss: %s answers %d instead of %d\n", who, got, want);
    exit(1);
}

static const uint32_t *uids_for(const struct bench *b, enum figure figure)
{
    if (figure == MISS || figure == FLOOR_MISS)
        return b->foreign;
    return figure == RANDOM_UID || figure == RANDOM_FLOOR ? b->shuffled : b->uid;
}

static void run_direct(struct bench *b, enum figure figure)
{
    const uint32_t *uids = uids_for(b, figure);
    enum nss_status want = uids == b->foreign ? NSS_STATUS_NOTFOUND : NSS_STATUS_SUCCESS, got;
    struct passwd pw;
    char buf[BUF];
    int error;

    for (uint32_t i = 0; i < N_LEASES; i++) {
        if (figure == UID_HIT || figure == MISS || figure == RANDOM_UID)
            got = b->module.getpwuid(uids[i], &pw, buf, sizeof(buf), &error);
        else if (figure == NAME_HIT)
            got = b->module.getpwnam(b->name[i], &pw, buf, sizeof(buf), &error);
        else if (figure == FLOOR_NAME)
            got = floor_by_name(&b->floor, b->name[i], &pw, buf);
        else
            got = floor_by_uid(&b->floor, uids[i], &pw, buf);
        if (got != want)
            expect(got, want, names_of[figure]);
    }
}

static void measure_direct(struct bench *b)
{
    for (int round = -1; round < ROUNDS; round++) {
        for (enum figure figure = UID_HIT; figure <= RANDOM_FLOOR; figure++) {
            double from = now_ns();

            run_direct(b, figure);
            if (round >= 0)
                b->took[figure][round] = (now_ns() - from) / N_LEASES;
        }
    }
}

/* A process of its own for each of the two, since a process reads nsswitch.conf once; they take turns by pipe. */
struct player {
    pid_t pid;
    int go, done;
};

static void play(const struct bench *b, int go, int done)
{
    struct passwd pw, *found;
    char buf[BUF], turn;
    double took;

    while (read(go, &turn, 1) == 1) {
        took = now_ns();
        for (uint32_t i = 0; i < N_LEASES; i++)
            if (getpwuid_r(b->uid[i], &pw, buf, sizeof(buf), &found) != 0 || !found)
                _exit(3);
        took = (now_ns() - took) / N_LEASES;
        if (write(done, &took, sizeof(took)) != sizeof(took))
            _exit(4);
    }
    _exit(0);
}

static void write_nsswitch(const char *path, const char *service)
{
    FILE *f = fopen(path, "we");

    if (!f || fprintf(f, "passwd: %s\ngroup: %s\n", service, service) < 0 || fclose(f) != 0)
        fail(path);
}

static struct player start_player(const struct bench *b, const char *nsswitch)
{
    int go[2], done[2];
    pid_t pid;

    if (pipe2(go, O_CLOEXEC) < 0 || pipe2(done, O_CLOEXEC) < 0)
        fail("pipe");
    pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        (void)close(go[1]);
        (void)close(done[0]);
        if (unshare(CLONE_NEWNS) < 0 ||
            mount(nsswitch, "/etc/nsswitch.conf", NULL, MS_BIND, NULL) < 0)
            fail("private nsswitch.conf");
        play(b, go[0], done[1]);
    }
    (void)close(go[0]);
    (void)close(done[1]);
    return (struct player){pid, go[1], done[0]};
}

static double turn(const struct player *player, const char *who)
{
    double took;

    if (write(player->go, "", 1) != 1 || read(player->done, &took, sizeof(took)) != sizeof(took)) {
        (void)fprintf(stderr, "bench nss: %s: a look-up through glibc failed\n", who);
        exit(1);
    }
    return took;
}

/* The second one has the pipes of the first: first let go of both, then wait. */
static void stop_players(const struct player *a, const struct player *b)
{
    (void)close(a->go);
    (void)close(b->go);
    (void)waitpid(b->pid, NULL, 0);
    (void)waitpid(a->pid, NULL, 0);
}

static void measure_glibc(struct bench *b)
{
    struct player ours, empty;
    char conf[2][128];

    (void)snprintf(conf[0], sizeof(conf[0]), "%s/nsswitch.ours", b->fixture.dir);
    (void)snprintf(conf[1], sizeof(conf[1]), "%s/nsswitch.empty", b->fixture.dir);
    write_nsswitch(conf[0], "xce");
    write_nsswitch(conf[1], "xceempty");
    ours = start_player(b, conf[0]);
    empty = start_player(b, conf[1]);
    for (int round = -1; round < ROUNDS; round++) {
        double took = turn(&ours, "xce"), none = turn(&empty, "xceempty");

        if (round >= 0) {
            b->took[GLIBC_UID][round] = took;
            b->took[GLIBC_EMPTY][round] = none;
        }
    }
    stop_players(&ours, &empty);
}

/* ---- the stage ---- */

static uint32_t next_random(void)
{
    static uint64_t seed = 88172645463325252u;

    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

/* /run of this process alone, with the map in its usual place, since the module knows no other. */
static void private_run(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/run", "tmpfs", 0, "mode=0755") < 0 || mkdir("/run/xce", 0755) < 0)
        fail("private /run (needs root)");
}

static void fill_map(struct bench *b)
{
    b->fixture = (struct map_fixture){.dir = "/run/xce", .path = XCE_MAP_PATH_DEFAULT};
    fixture_start(&b->fixture);
    fixture_shape(&b->fixture, N_LEASES);
    for (uint32_t i = 0; i < N_LEASES; i++) {
        uint32_t epoch = 1 + next_random() % 1000, k = next_random() % (i + 1);

        b->uid[i] = FIXTURE_BASE + i;
        b->shuffled[i] = b->shuffled[k];
        b->shuffled[k] = FIXTURE_BASE + i;
        b->foreign[i] = next_random() % 60000;
        fixture_set(&b->fixture, b->uid[i], epoch);
        (void)name_encode("xce-", b->uid[i], epoch, b->name[i]);
    }
    if (map_open(b->fixture.path, &b->floor, NULL, NULL) != 0)
        fail(b->fixture.path);
}

static void load_module(struct bench *b)
{
    void *lib = dlopen(b->module_path[0], RTLD_NOW);

    if (!lib) {
        (void)fprintf(stderr, "bench nss: %s\n", dlerror());
        exit(1);
    }
    *(void **)&b->module.getpwuid = dlsym(lib, "_nss_xce_getpwuid_r");
    *(void **)&b->module.getpwnam = dlsym(lib, "_nss_xce_getpwnam_r");
    if (!b->module.getpwuid || !b->module.getpwnam)
        fail("entry points");
}

/* The two modules: as given, or beside this program. */
static void find_modules(struct bench *b, char *const given[])
{
    static const char *const beside[2] = {"../../nss_xce/libnss_xce.so.2", "libnss_xceempty.so.2"};
    char exe[PATH_MAX], path[2 * PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (len < 0)
        fail("/proc/self/exe");
    exe[len] = '\0';
    *strrchr(exe, '/') = '\0';
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", exe, beside[i]);
        if (!realpath(given ? given[i] : path, b->module_path[i]))
            fail(given ? given[i] : path);
    }
}

/* glibc looks for modules where the loader does; begin again with the folders of both in front. */
static void with_library_path(struct bench *b, char *argv[])
{
    char folder[2][PATH_MAX], path[2 * PATH_MAX + 2];

    if (getenv("XCE_BENCH_NSS"))
        return;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(folder[i], sizeof(folder[i]), "%s", b->module_path[i]);
        *strrchr(folder[i], '/') = '\0';
    }
    (void)snprintf(path, sizeof(path), "%s:%s", folder[0], folder[1]);
    if (setenv("LD_LIBRARY_PATH", path, 1) < 0 || setenv("XCE_BENCH_NSS", "1", 1) < 0)
        fail("setenv");
    (void)execv("/proc/self/exe", argv);
    fail("/proc/self/exe");
}

/* ---- the report ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

static double target_of(enum figure figure, const double value[N_FIGURES])
{
    static const double absolute[] = {[UID_HIT] = 20, [NAME_HIT] = 35, [MISS] = 8};

    if (figure <= MISS) {
        double floor = value[figure - UID_HIT + FLOOR_UID] + 10;

        return absolute[figure] > floor ? absolute[figure] : floor;
    }
    return figure == GLIBC_UID ? value[GLIBC_EMPTY] * 1.05 : 0;
}

static void report(const double value[N_FIGURES], bool json)
{
    if (json) {
        printf("{\"bench\": \"nss\", \"figures\": {");
        for (enum figure i = 0; i < N_FIGURES; i++)
            printf("%s\"%s\": %.*f", i ? ", " : "", names_of[i], i == TORN ? 0 : 1, value[i]);
        printf("}}\n");
        return;
    }
    printf("%-16s %10s %10s\n", "figure", "value", "target");
    for (enum figure i = 0; i < N_FIGURES; i++) {
        bool aimed = i <= MISS || i == GLIBC_UID || i == TORN;
        double target = target_of(i, value);

        printf("%-16s %10.*f", names_of[i], i == TORN ? 0 : 1, value[i]);
        if (aimed)
            printf(" %10.*f  %s", i == TORN ? 0 : 1, target, value[i] <= target ? "met" : "missed");
        printf("\n");
    }
}

static int usage(void)
{
    (void)fputs("usage: bench_nss [--json] [--reads N] [MODULE EMPTY-MODULE]\n", stderr);
    return 2;
}

int main(int argc, char *argv[])
{
    double value[N_FIGURES];
    struct race_result race;
    uint64_t reads = 20000000;
    struct bench *b;
    bool json = false;
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--reads") == 0 && i + 1 < argc)
            reads = strtoull(argv[++i], NULL, 10);
        else
            return usage();
    }
    if ((argc - i != 2 && argc != i) || reads == 0)
        return usage();
    b = calloc(1, sizeof(*b));
    if (!b)
        fail("memory");
    find_modules(b, i < argc ? argv + i : NULL);
    with_library_path(b, argv);
    private_run();
    fill_map(b);
    load_module(b);
    measure_direct(b);
    measure_glibc(b);
    race = race_run(reads, 10000);
    for (enum figure k = 0; k < TORN; k++)
        value[k] = median(b->took[k]);
    value[TORN] = (double)(race.torn + race.missing + race.stale);
    report(value, json);
    map_close(&b->floor);
    fixture_end(&b->fixture);
    free(b);
    return 0;
}
