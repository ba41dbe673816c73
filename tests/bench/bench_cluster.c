/* Three replicas over mutual TLS, beside three members of etcd at the same timeouts in the same run.
 * usage: bench_cluster [--json] [--rounds N] [--kills N] [--seconds N] [--nodes N] [--etcd PROGRAM]
 *        [--dir FOLDER]
 *
 * Each round: etcd starts on empty folders, then claims with 64 and 256 outstanding on its leader over 8 connections, each a
 * transaction on a key that is not there under one shared lease; then its leader is killed with -9, again and again, each time
 * until a claim is answered by one of the others. Then leased the same way; a claim is Acquire{ttl, one member, no wait}. Rates
 * are medians of the rounds; fail-over is the median and the longest of all kills. Beside the rates stands what a claim costs:
 * the time that all three replicas, or members, had a core for it, without that of the load.
 *
 * Then real nodeds of two nodes, and acquires with --wait on both, one after another, on the leader: from the question to the
 * answer, which comes when both are READY: ready_2_ms, the median.
 *
 * Last --nodes (10,000) simulated nodes (swarm.h), a third on each replica. cpu_10000_percent: of one core, all three replicas
 * together, while the nodes do no more than send heartbeats. Then grants, each alone and to one of the nodes, asked of the
 * leader: fanout_10000_ms, the median of the times from the question until the last session holds the revision of the grant.
 * rss_10000_mib: resident memory of the largest replica after that.
 *
 * --rounds 0, --nodes 0 and --etcd none leave their part out. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/bench/claim.h"
#include "tests/bench/claims_rig.h"
#include "tests/bench/cluster_rig.h"
#include "tests/bench/etcd_rig.h"
#include "tests/bench/swarm.h"

#define FIRST_UID   0x74000000u
#define POOL_UIDS   (1u << 20)
#define CONNECTIONS 8
#define SECONDS     2
#define SECONDS_MAX 600
#define WARM_UP     0.5
#define ROUNDS_MAX  20
#define KILLS_MAX   200
#define ATTEMPT_MS  100
#define NODES       10000
#define NODES_MAX   60000

#define READIES_FIRST  20
#define READIES        201
#define FANOUTS        9
#define SWARM_SETTLE_S 5
#define SWARM_IDLE_S   20.0

enum figure {
    CLAIMS_1,
    CLAIMS_64,
    CLAIMS_256,
    CPU_64, /* us of a core for a claim */
    CPU_256,
    ETCD_CPU_256,
    ETCD_64,
    ETCD_256,
    N_RATES,
};

struct bench {
    char folder[256];
    struct loop *loop;
    const char *etcd_program;
    double seconds; /* of each load */
    unsigned kills; /* in a round */
    double rates[N_RATES][ROUNDS_MAX];
    double failover[KILLS_MAX], etcd_failover[KILLS_MAX];
    size_t n_failover, n_etcd_failover;
    double ready_ms, fanout_ms, cpu_percent, rss_mib;
    char etcd_version[64];
};

static double largest(const double *values, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* All three. */
static double cpu_s(const pid_t *pids)
{
    double sum = 0;

    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++)
        sum += rig_cpu_s(pids[i]);
    return sum;
}

/* The rate of claims; what one costs, in us of a core. */
static double run_load(const struct bench *bench, struct load *load, const pid_t *pids,
                       unsigned outstanding, double *ret_cpu)
{
    double before_s = cpu_s(pids), rate = load_run(load, outstanding, bench->seconds);

    *ret_cpu = (cpu_s(pids) - before_s) * 1e6 / (double)load->n_done;
    return rate;
}

/* ---- fail-over ---- */

/* Claims on those that are left, one outstanding on each, until one is answered. */
struct race {
    struct load load[CLUSTER_REPLICAS];
    bool (*answered)(const uint8_t *bytes, size_t len, void *arg);
    bool won;
};

static struct race *the_race;

static bool answered(const uint8_t *bytes, size_t len, void *arg)
{
    if (!the_race->answered(bytes, len, arg))
        return false;
    the_race->won = true;
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++)
        the_race->load[i].until_us = 0;
    return true;
}

static bool failed(enum grpc_status status, const char *message, void *arg)
{
    (void)status, (void)message, (void)arg;
    return !the_race->won;
}

/* Milliseconds from now to the first answer. The loads have their channels. */
static double run_race(struct loop *loop, struct race *race)
{
    int64_t began_us = clock_mono_us();
    double took_ms = 0;

    the_race = race;
    race->won = false;
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++) {
        struct load *load = &race->load[i];

        if (!load->n_channels)
            continue;
        race->answered = load->answered;
        load->answered = answered;
        load->failed = failed;
        load->timeout_ms = ATTEMPT_MS;
        load_begin(load, 1, 60);
    }
    while (!race->won) {
        if (clock_mono_us() - began_us > 60000000)
            rig_die("fail-over", "no claim was answered within a minute");
        loop_step(loop, 1000);
    }
    took_ms = (double)(clock_mono_us() - began_us) / 1000;
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++) {
        load_drain(&race->load[i]);
        load_close(&race->load[i]);
    }
    return took_ms;
}

/* ---- etcd ---- */

static void measure_etcd(struct bench *bench, size_t round)
{
    struct etcd etcd;
    struct load load;
    char folder[300];

    (void)snprintf(folder, sizeof folder, "%s/etcd", bench->folder);
    etcd_start(&etcd, bench->etcd_program, folder, bench->loop);
    (void)snprintf(bench->etcd_version, sizeof bench->etcd_version, "%s", etcd.version);
    etcd_load(&etcd, etcd_leader(&etcd), CONNECTIONS, &load);
    (void)load_run(&load, 64, WARM_UP);
    bench->rates[ETCD_64][round] = load_run(&load, 64, bench->seconds);
    bench->rates[ETCD_256][round] = run_load(bench, &load, etcd.pids, 256,
                                             &bench->rates[ETCD_CPU_256][round]);
    load_close(&load);
    for (unsigned i = 0; i < bench->kills; i++) {
        unsigned leader = etcd_leader(&etcd);
        struct race race = {.won = false};

        for (unsigned m = 0; m < ETCD_MEMBERS; m++) {
            if (m == leader)
                continue;
            etcd_load(&etcd, m, 1, &race.load[m]);
            (void)load_once(&race.load[m]);
        }
        etcd_kill(&etcd, leader);
        bench->etcd_failover[bench->n_etcd_failover++] = run_race(bench->loop, &race);
        etcd_restart(&etcd, leader);
        etcd_wait(&etcd, leader);
    }
    etcd_stop(&etcd);
}

/* ---- leased ---- */

static void measure_leased(struct bench *bench, size_t round)
{
    struct cluster cluster;
    struct claim claim;
    struct load load;
    struct rig node;
    char folder[300];
    unsigned leader;

    (void)snprintf(folder, sizeof folder, "%s/leased", bench->folder);
    cluster_start(&cluster, folder, bench->loop, FIRST_UID, POOL_UIDS);
    leader = cluster_leader(&cluster);
    rig_attach(&node, cluster.sockets[leader], bench->loop);
    rig_node(&node);
    claim_init(&claim, FIRST_UID);
    claim_load(&claim, bench->loop, &load);
    cluster_channels(&cluster, leader, CONNECTIONS, &load);
    (void)load_run(&load, 64, WARM_UP);
    bench->rates[CLAIMS_1][round] = load_run(&load, 1, bench->seconds);
    bench->rates[CLAIMS_64][round] = run_load(bench, &load, cluster.pids, 64,
                                              &bench->rates[CPU_64][round]);
    bench->rates[CLAIMS_256][round] = run_load(bench, &load, cluster.pids, 256,
                                               &bench->rates[CPU_256][round]);
    load_close(&load);
    /* It stays trusted for as long as it is not lost: ten minutes. */
    rig_stop(&node);
    for (unsigned i = 0; i < bench->kills; i++) {
        struct race race = {.won = false};

        leader = cluster_leader(&cluster);
        for (unsigned r = 0; r < CLUSTER_REPLICAS; r++) {
            if (r == leader)
                continue;
            claim_load(&claim, bench->loop, &race.load[r]);
            cluster_channels(&cluster, r, 1, &race.load[r]);
            (void)load_once(&race.load[r]);
        }
        cluster_kill(&cluster, leader);
        bench->failover[bench->n_failover++] = run_race(bench->loop, &race);
        cluster_restart(&cluster, leader);
        (void)cluster_leader(&cluster);
    }
    claim_done(&claim);
    cluster_stop(&cluster);
}

/* ---- nodes ---- */

static void wait_ready(const struct cluster *cluster, const char *node)
{
    int64_t until_ms = clock_mono_ms() + 30000;

    while (!cluster_node_ready(cluster, node)) {
        if (clock_mono_ms() > until_ms)
            rig_die(node, "does not become ready");
        loop_step(cluster->loop, 20);
    }
}

static void measure_ready(struct bench *bench)
{
    static const char *const names[] = {"n1", "n2"};
    static double took_ms[READIES];
    struct cluster cluster;
    struct claim claim;
    struct load load;
    char folder[300];
    pid_t nodeds[2];
    unsigned leader;

    (void)snprintf(folder, sizeof folder, "%s/ready", bench->folder);
    cluster_start(&cluster, folder, bench->loop, FIRST_UID, 65536);
    leader = cluster_leader(&cluster);
    for (unsigned i = 0; i < 2; i++)
        nodeds[i] = cluster_noded(&cluster, leader + i, names[i]);
    wait_ready(&cluster, names[0]);
    wait_ready(&cluster, names[1]);
    claim_init_on(&claim, FIRST_UID, names, 2, true);
    claim_load(&claim, bench->loop, &load);
    cluster_channels(&cluster, leader, 1, &load);
    for (unsigned i = 0; i < READIES_FIRST; i++)
        (void)load_once(&load);
    for (unsigned i = 0; i < READIES; i++)
        took_ms[i] = load_once(&load) / 1000;
    bench->ready_ms = load_median(took_ms, READIES);
    load_close(&load);
    claim_done(&claim);
    for (unsigned i = 0; i < 2; i++) {
        (void)kill(nodeds[i], SIGTERM);
        (void)waitpid(nodeds[i], NULL, 0);
    }
    cluster_stop(&cluster);
}

static void measure_fanout(struct bench *bench, struct cluster *cluster, struct swarm *swarm)
{
    double took_ms[FANOUTS];
    struct claim claim;
    struct load load;

    claim_init_on(&claim, FIRST_UID, (const char *const[]){SWARM_FIRST}, 1, false);
    claim_load(&claim, bench->loop, &load);
    cluster_channels(cluster, cluster_leader(cluster), 1, &load);
    (void)load_once(&load);
    for (unsigned i = 0; i < FANOUTS; i++) {
        int64_t began_us;

        swarm_rest(swarm, 2);
        began_us = clock_mono_us();
        (void)load_once(&load);
        swarm_until(swarm, claim.revision);
        took_ms[i] = (double)(clock_mono_us() - began_us) / 1000;
    }
    bench->fanout_ms = load_median(took_ms, FANOUTS);
    load_close(&load);
    claim_done(&claim);
}

static void measure_swarm(struct bench *bench, size_t nodes)
{
    struct cluster cluster;
    struct swarm *swarm;
    double before_s, rss_mib[CLUSTER_REPLICAS];
    char folder[300];

    (void)snprintf(folder, sizeof folder, "%s/swarm", bench->folder);
    cluster_start(&cluster, folder, bench->loop, FIRST_UID, 65536);
    (void)cluster_leader(&cluster);
    swarm_start(&cluster, nodes, &swarm);
    swarm_rest(swarm, SWARM_SETTLE_S);
    before_s = cpu_s(cluster.pids);
    swarm_rest(swarm, SWARM_IDLE_S);
    bench->cpu_percent = 100 * (cpu_s(cluster.pids) - before_s) / SWARM_IDLE_S;
    measure_fanout(bench, &cluster, swarm);
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++)
        rss_mib[i] = rig_rss_mib(cluster.pids[i]);
    bench->rss_mib = largest(rss_mib, CLUSTER_REPLICAS);
    swarm_stop(swarm);
    cluster_stop(&cluster);
}

/* ---- the report ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return ftw->level > 0 ? remove(path) : 0;
}

struct row {
    const char *name;
    double value;
    double target; /* 0 = none */
    bool at_least;
};

static void report(struct bench *bench, size_t rounds, bool json)
{
    double etcd_64 = load_median(bench->rates[ETCD_64], rounds);
    double etcd_256 = load_median(bench->rates[ETCD_256], rounds);
    struct row rows[] = {
        {"claims_1", load_median(bench->rates[CLAIMS_1], rounds), 0, true},
        {"claims_64", load_median(bench->rates[CLAIMS_64], rounds), 5 * etcd_64, true},
        {"claims_256", load_median(bench->rates[CLAIMS_256], rounds), 8 * etcd_256, true},
        {"etcd_claims_64", etcd_64, 0, true},
        {"etcd_claims_256", etcd_256, 0, true},
        {"cpu_claim_64_us", load_median(bench->rates[CPU_64], rounds), 0, false},
        {"cpu_claim_256_us", load_median(bench->rates[CPU_256], rounds), 0, false},
        {"etcd_cpu_claim_256_us", load_median(bench->rates[ETCD_CPU_256], rounds), 0, false},
        {"failover_max_ms", largest(bench->failover, bench->n_failover), 600, false},
        {"failover_median_ms", load_median(bench->failover, bench->n_failover), 300, false},
        {"etcd_failover_median_ms", load_median(bench->etcd_failover, bench->n_etcd_failover), 0,
         false},
        {"ready_2_ms", bench->ready_ms, 5, false},
        {"fanout_10000_ms", bench->fanout_ms, 250, false},
        {"cpu_10000_percent", bench->cpu_percent, 0, false},
        {"rss_10000_mib", bench->rss_mib, 0, false},
    };
    const char *between = "";

    if (json)
        printf("{\"bench\": \"cluster\", \"etcd\": \"%s\", \"figures\": {", bench->etcd_version);
    else
        printf("%-24s %10s %10s    (etcd %s)\n", "figure", "value", "target", bench->etcd_version);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        bool met = row->at_least ? row->value >= row->target : row->value <= row->target;

        if (row->value <= 0)
            continue; /* was not measured */
        if (json) {
            printf("%s\"%s\": %.1f", between, row->name, row->value);
            between = ", ";
            continue;
        }
        printf("%-24s %10.1f", row->name, row->value);
        if (row->target > 0)
            printf(" %10.1f  %s", row->target, met ? "met" : "missed");
        printf("\n");
    }
    if (json)
        printf("}}\n");
}

static int usage(void)
{
    (void)fputs("usage: bench_cluster [--json] [--rounds N] [--kills N] [--seconds N] [--nodes N] "
                "[--etcd PROGRAM] [--dir FOLDER]\n",
                stderr);
    return 2;
}

/* For what we start too. */
static void take_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        rig_die("descriptors", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        rig_die("descriptors", strerror(errno));
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const char *dir = "/var/tmp", *etcd = NULL;
    unsigned long rounds = 3, kills = 20, seconds = SECONDS, nodes = NODES;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--kills") && i + 1 < argc)
            kills = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            seconds = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--nodes") && i + 1 < argc)
            nodes = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--etcd") && i + 1 < argc)
            etcd = argv[++i];
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            dir = argv[++i];
        else
            return usage();
    }
    if (rounds > ROUNDS_MAX || kills < 1 || kills > KILLS_MAX || seconds < 1 ||
        seconds > SECONDS_MAX || nodes > NODES_MAX)
        return usage();
    take_descriptors();
    bench.etcd_program = etcd && strcmp(etcd, "none") == 0 ? NULL : etcd_find(etcd);
    if (!bench.etcd_program && !etcd)
        rig_die("etcd",
                "is not there: scripts/setup unpacks it, or name it with --etcd (none: without)");
    bench.seconds = (double)seconds;
    bench.kills = rounds ? (unsigned)((kills + rounds - 1) / rounds) : 0;
    (void)snprintf(bench.folder, sizeof bench.folder, "%s/xce-bench.XXXXXX", dir);
    if (!mkdtemp(bench.folder) || loop_new(&bench.loop) < 0)
        rig_die(bench.folder, strerror(errno));
    for (size_t i = 0; i < rounds; i++) {
        if (bench.etcd_program)
            measure_etcd(&bench, i);
        measure_leased(&bench, i);
        fprintf(stderr, "round %zu: claims/s %.0f %.0f, etcd %.0f %.0f\n", i + 1,
                bench.rates[CLAIMS_64][i], bench.rates[CLAIMS_256][i], bench.rates[ETCD_64][i],
                bench.rates[ETCD_256][i]);
        (void)nftw(bench.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    measure_ready(&bench);
    if (nodes > 0)
        measure_swarm(&bench, nodes);
    (void)nftw(bench.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    report(&bench, rounds, json);
    loop_free(bench.loop);
    (void)rmdir(bench.folder);
    return 0;
}
