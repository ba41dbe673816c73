#include "tests/bench/etcd_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/bench/claims_rig.h"

#define UNPACKED  "/var/cache/xce-lease/etcd-server/usr/bin/etcd"
#define LEADER_MS 20000

/* ---- protobuf by hand: of etcd's messages we need a few fields ---- */

struct wire {
    uint8_t *bytes;
    size_t len;
};

static void put_varint(struct wire *w, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        w->bytes[w->len++] = (uint8_t)(value | 0x80);
    w->bytes[w->len++] = (uint8_t)value;
}

static void put_number(struct wire *w, unsigned field, uint64_t value)
{
    put_varint(w, field << 3);
    put_varint(w, value);
}

static void put_bytes(struct wire *w, unsigned field, const void *bytes, size_t len)
{
    put_varint(w, field << 3 | 2);
    put_varint(w, len);
    memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
}

static bool get_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;

        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The number in field, or the bytes of it (*ret_bytes, its length). 0 where it is missing. */
static uint64_t get_field(const uint8_t *bytes, size_t len, unsigned field,
                          const uint8_t **ret_bytes)
{
    const uint8_t *at = bytes, *end = bytes + len;
    uint64_t tag, value;

    while (get_varint(&at, end, &tag) && get_varint(&at, end, &value)) {
        if ((tag & 7) == 2) {
            if (value > (uint64_t)(end - at))
                return 0;
            if (tag >> 3 == field && ret_bytes) {
                *ret_bytes = at;
                return value;
            }
            at += value;
        } else if (tag >> 3 == field && !ret_bytes) {
            return value;
        }
    }
    return 0;
}

/* ---- claims ---- */

static size_t ask_claim(uint8_t bytes[static LOAD_REQUEST_MAX], void *arg)
{
    struct etcd *etcd = arg;
    uint8_t compare[64], put[96], operation[128];
    struct wire w_compare = {compare, 0}, w_put = {put, 0}, w_operation = {operation, 0};
    struct wire w = {bytes, 0};
    char key[32];
    size_t key_len = (size_t)snprintf(key, sizeof key, "/uid/%llu",
                                      (unsigned long long)etcd->next++);

    put_number(&w_compare, 2, 1); /* target: CREATE; result EQUAL is 0 */
    put_bytes(&w_compare, 3, key, key_len);
    put_bytes(&w_put, 1, key, key_len);
    put_bytes(&w_put, 2, "alice", 5);
    put_number(&w_put, 3, (uint64_t)etcd->lease);
    put_bytes(&w_operation, 2, put, w_put.len);
    put_bytes(&w, 1, compare, w_compare.len);
    put_bytes(&w, 2, operation, w_operation.len);
    return w.len;
}

static bool claimed(const uint8_t *bytes, size_t len, void *arg)
{
    (void)arg;
    return get_field(bytes, len, 2, NULL) == 1; /* succeeded */
}

static struct grpc_channel *channel_to(const struct etcd *etcd, unsigned member)
{
    struct grpc_channel *channel;
    char target[320];

    (void)snprintf(target, sizeof target, "unix:%s/m%u/localhost:%u", etcd->folder, member,
                   member + 1);
    if (grpc_channel_new(etcd->loop, target, NULL, &channel) < 0)
        rig_die(target, "no channel");
    return channel;
}

void etcd_load(struct etcd *etcd, unsigned member, unsigned n_channels, struct load *ret)
{
    *ret = (struct load){
        .loop = etcd->loop,
        .path = "/etcdserverpb.KV/Txn",
        .timeout_ms = 20000,
        .ask = ask_claim,
        .answered = claimed,
        .arg = etcd,
        .n_channels = n_channels,
    };
    for (unsigned i = 0; i < n_channels; i++)
        ret->channels[i] = channel_to(etcd, member);
}

/* ---- single calls ---- */

struct single {
    struct etcd *etcd;
    bool leads, knows;
    bool failed;
};

static size_t ask_nothing(uint8_t bytes[static LOAD_REQUEST_MAX], void *arg)
{
    (void)bytes, (void)arg;
    return 0;
}

static bool told_status(const uint8_t *bytes, size_t len, void *arg)
{
    struct single *single = arg;
    const uint8_t *header = NULL;
    uint64_t header_len = get_field(bytes, len, 1, &header),
             leader = get_field(bytes, len, 4, NULL);

    single->knows = leader != 0;
    single->leads = leader != 0 && header && get_field(header, header_len, 2, NULL) == leader;
    return true;
}

static size_t ask_lease(uint8_t bytes[static LOAD_REQUEST_MAX], void *arg)
{
    struct wire w = {bytes, 0};

    (void)arg;
    put_number(&w, 1, 3600); /* TTL, s */
    return w.len;
}

static bool told_lease(const uint8_t *bytes, size_t len, void *arg)
{
    struct single *single = arg;

    single->etcd->lease = (int64_t)get_field(bytes, len, 2, NULL);
    return single->etcd->lease != 0;
}

static bool note_failed(enum grpc_status status, const char *message, void *arg)
{
    (void)status, (void)message;
    ((struct single *)arg)->failed = true;
    return false;
}

/* false: it failed. */
static bool call(struct etcd *etcd, unsigned member, struct single *single, const char *path,
                 size_t (*ask)(uint8_t *, void *),
                 bool (*answered)(const uint8_t *, size_t, void *))
{
    struct load load = {.loop = etcd->loop,
                        .path = path,
                        .timeout_ms = 2000,
                        .ask = ask,
                        .answered = answered,
                        .failed = note_failed,
                        .arg = single,
                        .channels = {channel_to(etcd, member)},
                        .n_channels = 1};

    *single = (struct single){.etcd = etcd};
    (void)load_once(&load);
    load_close(&load);
    return !single->failed;
}

/* ---- members ---- */

unsigned etcd_leader(struct etcd *etcd)
{
    int64_t until_ms = clock_mono_ms() + LEADER_MS;
    struct single single;

    while (clock_mono_ms() < until_ms)
        for (unsigned i = 0; i < ETCD_MEMBERS; i++)
            if (etcd->pids[i] &&
                call(etcd, i, &single, "/etcdserverpb.Maintenance/Status", ask_nothing,
                     told_status) &&
                single.leads)
                return i;
    rig_die("etcd", "no member leads");
}

void etcd_wait(struct etcd *etcd, unsigned member)
{
    int64_t until_ms = clock_mono_ms() + LEADER_MS;
    struct single single = {.knows = false};

    while (!call(etcd, member, &single, "/etcdserverpb.Maintenance/Status", ask_nothing,
                 told_status) ||
           !single.knows) {
        if (clock_mono_ms() > until_ms)
            rig_die("etcd", "a member does not come back");
        loop_step(etcd->loop, 20);
    }
}

static void run(const struct etcd *etcd, unsigned member, pid_t parent)
{
    char folder[300], name[8], peer[64], client[32], cluster[256];

    (void)snprintf(folder, sizeof folder, "%s/m%u", etcd->folder, member);
    (void)snprintf(name, sizeof name, "m%u", member);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%u", etcd->ports[member]);
    (void)snprintf(client, sizeof client, "unix://localhost:%u", member + 1);
    (void)snprintf(cluster, sizeof cluster,
                   "m0=http://127.0.0.1:%u,m1=http://127.0.0.1:%u,m2=http://127.0.0.1:%u",
                   etcd->ports[0], etcd->ports[1], etcd->ports[2]);
    /* It ends with us, however we end. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || chdir(folder) < 0)
        _exit(126);
    (void)dup2(open("log", O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)execl(etcd->program, etcd->program, "--name", name, "--data-dir", "data",
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", cluster, "--initial-cluster-state", "new",
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--heartbeat-interval", "30", "--election-timeout", "150", "--log-level", "error",
                NULL);
    _exit(127);
}

void etcd_restart(struct etcd *etcd, unsigned member)
{
    char folder[300];
    pid_t parent = getpid();

    (void)snprintf(folder, sizeof folder, "%s/m%u", etcd->folder, member);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        rig_die(folder, strerror(errno));
    etcd->pids[member] = fork();
    if (etcd->pids[member] < 0)
        rig_die("fork", strerror(errno));
    if (etcd->pids[member] == 0)
        run(etcd, member, parent);
}

void etcd_kill(struct etcd *etcd, unsigned member)
{
    if (!etcd->pids[member])
        return;
    (void)kill(etcd->pids[member], SIGKILL);
    (void)waitpid(etcd->pids[member], NULL, 0);
    etcd->pids[member] = 0;
}

static void read_version(struct etcd *etcd)
{
    char command[320];
    FILE *pipe_end;
    int fds[2];
    pid_t pid;

    (void)snprintf(command, sizeof command, "%s", etcd->program);
    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        rig_die("pipe", strerror(errno));
    if (pid == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)execl(command, command, "--version", NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    pipe_end = fdopen(fds[0], "r");
    if (!pipe_end || fscanf(pipe_end, "etcd Version: %63s", etcd->version) != 1)
        (void)snprintf(etcd->version, sizeof etcd->version, "unknown");
    if (pipe_end)
        (void)fclose(pipe_end);
    (void)waitpid(pid, NULL, 0);
}

void etcd_start(struct etcd *etcd, const char *program, const char *folder, struct loop *loop)
{
    struct single single;

    *etcd = (struct etcd){.program = program, .loop = loop};
    (void)snprintf(etcd->folder, sizeof etcd->folder, "%s", folder);
    if (mkdir(folder, 0700) < 0)
        rig_die(folder, strerror(errno));
    read_version(etcd);
    for (unsigned i = 0; i < ETCD_MEMBERS; i++)
        etcd->ports[i] = rig_free_port();
    for (unsigned i = 0; i < ETCD_MEMBERS; i++)
        etcd_restart(etcd, i);
    if (!call(etcd, etcd_leader(etcd), &single, "/etcdserverpb.Lease/LeaseGrant", ask_lease,
              told_lease))
        rig_die("etcd", "gives no lease");
}

void etcd_stop(struct etcd *etcd)
{
    for (unsigned i = 0; i < ETCD_MEMBERS; i++)
        etcd_kill(etcd, i);
}

/* ---- which ---- */

static const char *in_path(void)
{
    static char path[512];
    const char *folders = getenv("PATH");

    while (folders && *folders) {
        size_t len = strcspn(folders, ":");

        if (len > 0 &&
            (size_t)snprintf(path, sizeof path, "%.*s/etcd", (int)len, folders) < sizeof path &&
            access(path, X_OK) == 0)
            return path;
        folders += len + (folders[len] == ':');
    }
    return NULL;
}

const char *etcd_find(const char *given)
{
    const char *named = given ? given : getenv("XCE_ETCD");

    if (named)
        return named;
    return access(UNPACKED, X_OK) == 0 ? UNPACKED : in_path();
}
