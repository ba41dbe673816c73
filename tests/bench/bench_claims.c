/* Claims of a single replica: leased itself, its clients here. usage: bench_claims [--json] [--rounds N] [--dir FOLDER]
 *
 * A claim is Acquire{ttl, one member, no wait}. Each round starts leased on an empty folder, with a pool that the round
 * cannot empty and a node that listens; then serial claims in turns with appends of 512 bytes + fdatasync on the same file
 * system, then claims with 1, 64 and 256 outstanding over 8 connections. Medians of the rounds. At last leased with 65,536
 * leases, the real noded that mirrors them all, and xce-userdbd that has told of each, for their memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/bench/claim.h"
#include "tests/bench/claims_rig.h"
#include "tests/bench/load.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/pool.pb-c.h"

/* Not where the sample pool is: the real noded below guards the range on this machine, also in its containers. */
#define FIRST_UID   0x74000000u
#define POOL_UIDS   (1u << 20)
#define CONNECTIONS 8
#define ROUNDS_MAX  99
#define TURNS       10
#define TURN        200 /* samples of each kind in a turn */
#define WARM_UP     2000
#define SECONDS     1.5
#define RSS_LEASES  65536
#define RSS_BATCH   1024

enum figure {
    SERIAL,
    FDATASYNC,
    CLAIMS_1,
    CLAIMS_64,
    CLAIMS_256,
    RSS_LEASED,
    RSS_NODED,
    RSS_USERDB,
    N_FIGURES,
};

static const char *const names[N_FIGURES] = {
    "serial_p50_us", "fdatasync_p50_us", "claims_1",      "claims_64",
    "claims_256",    "rss_leased_mib",   "rss_noded_mib", "rss_userdb_mib",
};

struct bench {
    struct rig rig;
    struct load load;
    struct claim claim;
    uint64_t next_batch;
};

static double append_once(int fd)
{
    static const char bytes[512] = "x";
    int64_t began = clock_mono_us();

    if (write(fd, bytes, sizeof bytes) != sizeof bytes || fdatasync(fd) < 0)
        rig_die("append", strerror(errno));
    return (double)(clock_mono_us() - began);
}

/* ---- rounds ---- */

/* In turns, so that both see the same disk and the same neighbours. */
static void measure_serial(struct bench *bench, double *ret_serial, double *ret_fdatasync)
{
    static double serial[TURNS * TURN], append[TURNS * TURN];
    char path[320];
    int fd;

    (void)snprintf(path, sizeof path, "%s/append", bench->rig.folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        rig_die(path, strerror(errno));
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < TURN; i++)
            append[turn * TURN + i] = append_once(fd);
        for (size_t i = 0; i < TURN; i++)
            serial[turn * TURN + i] = load_once(&bench->load);
    }
    (void)close(fd);
    *ret_serial = load_median(serial, TURNS * TURN);
    *ret_fdatasync = load_median(append, TURNS * TURN);
}

static void open_channels(struct bench *bench)
{
    claim_load(&bench->claim, bench->rig.loop, &bench->load);
    bench->load.n_channels = CONNECTIONS;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        if (grpc_channel_new(bench->rig.loop, bench->rig.target, NULL, &bench->load.channels[i]) <
            0)
            rig_die("channel", NULL);
}

static void measure_round(struct bench *bench, double value[N_FIGURES])
{
    rig_start(&bench->rig, FIRST_UID, POOL_UIDS);
    rig_node(&bench->rig);
    open_channels(bench);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)load_once(&bench->load);
    measure_serial(bench, &value[SERIAL], &value[FDATASYNC]);
    value[CLAIMS_1] = load_run(&bench->load, 1, SECONDS);
    value[CLAIMS_64] = load_run(&bench->load, 64, SECONDS);
    value[CLAIMS_256] = load_run(&bench->load, 256, SECONDS);
    load_close(&bench->load);
    rig_stop(&bench->rig);
}

/* ---- memory ---- */

static void acquire_batch(struct bench *bench)
{
    Xce__V1__AcquireRequest ask = XCE__V1__ACQUIRE_REQUEST__INIT;
    Xce__V1__RequestId request = XCE__V1__REQUEST_ID__INIT;
    static Xce__V1__LeaseSpec specs[RSS_BATCH], *pointers[RSS_BATCH];
    ProtobufCBinaryData node = {strlen(RIG_NODE), (uint8_t *)RIG_NODE};
    uint8_t id[16] = {0};

    memcpy(id, &bench->next_batch, sizeof bench->next_batch);
    id[15] = 1; /* of none of the claims */
    bench->next_batch++;
    request.id = (ProtobufCBinaryData){sizeof id, id};
    for (size_t i = 0; i < RSS_BATCH; i++) {
        xce__v1__lease_spec__init(&specs[i]);
        specs[i].lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS;
        specs[i].ttl_ms = 3600000;
        specs[i].nodes = &node;
        specs[i].n_nodes = 1;
        pointers[i] = &specs[i];
    }
    ask.request = &request;
    ask.leases = pointers;
    ask.n_leases = RSS_BATCH;
    protobuf_c_message_free_unpacked(rig_call(&bench->rig, "/xce.v1.LeaseService/Acquire",
                                              &ask.base, &xce__v1__acquire_reply__descriptor),
                                     NULL);
}

static bool all_active(struct rig *rig)
{
    Xce__V1__PoolKey key = XCE__V1__POOL_KEY__INIT;
    ProtobufCMessage *message;
    bool all;

    key.name = (ProtobufCBinaryData){4, (uint8_t *)"main"};
    message = rig_call(rig, "/xce.v1.PoolService/Get", &key.base, &xce__v1__pool_reply__descriptor);
    all = ((const Xce__V1__PoolReply *)message)->pool->counts->active == RSS_LEASES;
    protobuf_c_message_free_unpacked(message, NULL);
    return all;
}

static void measure_memory(struct bench *bench, double value[N_FIGURES])
{
    /* A few more than are leased: noded may find one of them in use on this machine, and block it. */
    rig_start(&bench->rig, FIRST_UID, RSS_LEASES + RSS_BATCH);
    rig_noded(&bench->rig);
    for (unsigned i = 0; i < RSS_LEASES / RSS_BATCH; i++)
        acquire_batch(bench);
    rig_until(&bench->rig, all_active, 120, "all leases to be active");
    value[RSS_LEASED] = rig_rss_mib(bench->rig.leased);
    value[RSS_NODED] = rig_rss_mib(bench->rig.noded);
    if (rig_userdb(&bench->rig, FIRST_UID, RSS_LEASES + RSS_BATCH) != RSS_LEASES)
        rig_die("xce-userdbd", "it does not know of every lease");
    value[RSS_USERDB] = rig_rss_mib(bench->rig.userdb);
    rig_stop(&bench->rig);
}

/* ---- the report ---- */

/* 0 = no target. */
static double target_of(enum figure figure, const double value[N_FIGURES])
{
    switch (figure) {
    case SERIAL:
        return 1.5 * value[FDATASYNC];
    case CLAIMS_256:
        return 100000;
    case RSS_LEASED:
        return 64;
    case RSS_NODED:
        return 32;
    case RSS_USERDB:
        return 8;
    default:
        return 0;
    }
}

static void report(const double value[N_FIGURES], bool json)
{
    if (json) {
        printf("{\"bench\": \"claims\", \"figures\": {");
        for (enum figure i = 0; i < N_FIGURES; i++)
            printf("%s\"%s\": %.1f", i ? ", " : "", names[i], value[i]);
        printf("}}\n");
        return;
    }
    printf("%-18s %10s %10s\n", "figure", "value", "target");
    for (enum figure i = 0; i < N_FIGURES; i++) {
        double target = target_of(i, value);
        bool met = i == CLAIMS_256 ? value[i] >= target : value[i] <= target;

        printf("%-18s %10.1f", names[i], value[i]);
        if (target > 0)
            printf(" %10.1f  %s", target, met ? "met" : "missed");
        printf("\n");
    }
}

static int usage(void)
{
    (void)fputs("usage: bench_claims [--json] [--rounds N] [--dir FOLDER]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    static double rounds[N_FIGURES][ROUNDS_MAX];
    double value[N_FIGURES];
    struct bench *bench = calloc(1, sizeof *bench);
    const char *dir = "/var/tmp";
    unsigned long n = 5;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            n = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            dir = argv[++i];
        else
            return usage();
    }
    if (n < 1 || n > ROUNDS_MAX)
        return usage();
    rig_init(&bench->rig, dir);
    claim_init(&bench->claim, FIRST_UID);
    for (size_t i = 0; i < n; i++) {
        measure_round(bench, value);
        for (enum figure f = 0; f < RSS_LEASED; f++)
            rounds[f][i] = value[f];
        fprintf(stderr,
                "round %zu: serial %.0f us, append+fdatasync %.0f us, claims/s %.0f %.0f %.0f\n",
                i + 1, value[SERIAL], value[FDATASYNC], value[CLAIMS_1], value[CLAIMS_64],
                value[CLAIMS_256]);
    }
    for (enum figure f = 0; f < RSS_LEASED; f++)
        value[f] = load_median(rounds[f], n);
    measure_memory(bench, value);
    report(value, json);
    claim_done(&bench->claim);
    rig_done(&bench->rig);
    free(bench);
    return 0;
}
