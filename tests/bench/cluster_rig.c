#include "tests/bench/cluster_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/net/tls_keys.h"
#include "tests/bench/claims_rig.h"

#define ARGS_MAX  16
#define LEADER_MS 20000
#define SERVE_MS  20000

/* ---- programs ---- */

/* Run it to its end, its output to out (-1: nowhere); the exit status. It ends with us, however we end. */
static int run(const char *const *args, int out)
{
    pid_t parent = getpid(), pid = fork();
    int status;

    if (pid < 0)
        rig_die("fork", strerror(errno));
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
            _exit(126);
        if (out < 0)
            out = open("/dev/null", O_WRONLY);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        (void)execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid)
        rig_die(args[0], strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* leasectl with these words, the last NULL; must succeed. */
static void leasectl(const struct cluster *cluster, ...) __attribute__((sentinel));

static void leasectl(const struct cluster *cluster, ...)
{
    const char *args[ARGS_MAX];
    char program[300];
    size_t n = 1;
    va_list ap;

    (void)snprintf(program, sizeof program, "%s/ctl/leasectl", cluster->build);
    args[0] = program;
    va_start(ap, cluster);
    while (n < ARGS_MAX && (args[n] = va_arg(ap, const char *)))
        n++;
    va_end(ap);
    if (run(args, -1) != 0)
        rig_die("leasectl failed", args[1]);
}

/* ---- replicas ---- */

static void name_of(unsigned replica, char ret[static 8])
{
    (void)snprintf(ret, 8, "r%u", replica);
}

static void write_config(const struct cluster *cluster, unsigned replica)
{
    char path[320], name[8];
    FILE *file;

    name_of(replica, name);
    (void)snprintf(path, sizeof path, "%s/%s.conf", cluster->folder, name);
    file = fopen(path, "we");
    if (!file)
        rig_die(path, strerror(errno));
    (void)fprintf(
        file,
        "[leased]\nSocket = %s/%s.sock\nStateDir = %s/%s\nLostAfter = 10m\nLogLevel = "
        "warning\nEngine = raft\nListen = localhost:%u\nElectionTimeout = 150ms\n"
        "RaftHeartbeat = 30ms\nCertificate = %s/%s.pem\nKey = %s/%s.key\nCA = %s/ca/ca.pem\n"
        "CRL = %s/ca/crl.pem\nConnections = 20000\n",
        cluster->folder, name, cluster->folder, name, cluster->ports[replica], cluster->folder,
        name, cluster->folder, name, cluster->folder, cluster->folder);
    if (fclose(file) < 0)
        rig_die(path, strerror(errno));
}

void cluster_restart(struct cluster *cluster, unsigned replica)
{
    char name[8];

    name_of(replica, name);
    cluster->pids[replica] = rig_spawn(cluster->build, "leased/leased", cluster->folder, name);
}

void cluster_kill(struct cluster *cluster, unsigned replica)
{
    if (!cluster->pids[replica])
        return;
    (void)kill(cluster->pids[replica], SIGKILL);
    (void)waitpid(cluster->pids[replica], NULL, 0);
    cluster->pids[replica] = 0;
}

/* What leasectl prints for these words, what being NULL at will; "" when it fails. */
static void ask(const struct cluster *cluster, unsigned replica, const char *noun, const char *verb,
                const char *what, char *ret, size_t size)
{
    const char *args[] = {
        NULL, "--server", cluster->sockets[replica], "--timeout", "2s", "--json", noun, verb,
        what, NULL};
    char program[300];
    ssize_t n = -1;
    int fds[2];

    (void)snprintf(program, sizeof program, "%s/ctl/leasectl", cluster->build);
    args[0] = program;
    if (pipe2(fds, O_CLOEXEC) < 0)
        rig_die("pipe", strerror(errno));
    if (run(args, fds[1]) == 0)
        n = read(fds[0], ret, size - 1);
    (void)close(fds[0]);
    (void)close(fds[1]);
    ret[n < 0 ? 0 : n] = '\0';
}

/* What the replica calls its leader; -1: none, or it does not answer. */
static int leader_by(const struct cluster *cluster, unsigned replica)
{
    char text[4096], *at;

    ask(cluster, replica, "cluster", "status", NULL, text, sizeof text);
    at = strstr(text, "\"leader\": \"r");
    return at ? at[strlen("\"leader\": \"r")] - '0' : -1;
}

unsigned cluster_leader(struct cluster *cluster)
{
    int64_t until_ms = clock_mono_ms() + LEADER_MS;

    while (clock_mono_ms() < until_ms) {
        int leader = -1;
        bool agreed = true;

        for (unsigned i = 0; i < CLUSTER_REPLICAS && agreed; i++) {
            int by = cluster->pids[i] ? leader_by(cluster, i) : leader;

            agreed = !cluster->pids[i] || (by >= 0 && (leader < 0 || by == leader));
            leader = by >= 0 ? by : leader;
        }
        if (agreed && leader >= 0 && cluster->pids[leader])
            return (unsigned)leader;
        loop_step(cluster->loop, 20);
    }
    rig_die("the replicas", "agree on no leader");
}

/* ---- nodes ---- */

static void write_noded_config(const struct cluster *cluster, unsigned first, const char *node)
{
    const char *folder = cluster->folder;
    const unsigned *ports = cluster->ports;
    char path[320];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s.conf", folder, node);
    file = fopen(path, "we");
    if (!file)
        rig_die(path, strerror(errno));
    (void)fprintf(file,
                  "[noded]\nServer = localhost:%u, localhost:%u, localhost:%u\nNode = %s\n"
                  "RuntimeDir = %s/%s/run\nStateDir = %s/%s/state\nNscd =\nLogLevel = warning\n"
                  "Certificate = %s/%s.pem\nKey = %s/%s.key\nCA = %s/ca/ca.pem\n",
                  ports[first % CLUSTER_REPLICAS], ports[(first + 1) % CLUSTER_REPLICAS],
                  ports[(first + 2) % CLUSTER_REPLICAS], node, folder, node, folder, node, folder,
                  node, folder, node, folder);
    if (fclose(file) < 0)
        rig_die(path, strerror(errno));
}

pid_t cluster_noded(const struct cluster *cluster, unsigned first, const char *node)
{
    char ca[300];

    (void)snprintf(ca, sizeof ca, "%s/ca", cluster->folder);
    leasectl(cluster, "cert", "issue", "node", node, "--ca", ca, "--out", cluster->folder, NULL);
    write_noded_config(cluster, first, node);
    return rig_spawn(cluster->build, "noded/noded", cluster->folder, node);
}

bool cluster_node_ready(const struct cluster *cluster, const char *node)
{
    char text[4096];

    ask(cluster, 0, "node", "show", node, text, sizeof text);
    return strstr(text, "\"state\": \"ready\"") != NULL;
}

/* ---- the whole ---- */

static void find_build(struct cluster *cluster)
{
    char *slash;

    /* build/tests/bench/bench_cluster */
    if (readlink("/proc/self/exe", cluster->build, sizeof cluster->build - 1) < 0)
        rig_die("/proc/self/exe", strerror(errno));
    for (int i = 0; i < 3; i++)
        if ((slash = strrchr(cluster->build, '/')))
            *slash = '\0';
}

static void make_certificates(struct cluster *cluster)
{
    char ca[300], pem[320], key[320], ca_pem[320];
    struct tls_files files = {pem, key, ca_pem, NULL};
    struct err err = {{0}};
    char name[8];

    (void)snprintf(ca, sizeof ca, "%s/ca", cluster->folder);
    (void)snprintf(pem, sizeof pem, "%s/root.pem", cluster->folder);
    (void)snprintf(key, sizeof key, "%s/root.key", cluster->folder);
    (void)snprintf(ca_pem, sizeof ca_pem, "%s/ca.pem", ca);
    leasectl(cluster, "cert", "init", ca, NULL);
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++) {
        name_of(i, name);
        leasectl(cluster, "cert", "issue", "replica", name, "--ca", ca, "--out", cluster->folder,
                 NULL);
    }
    leasectl(cluster, "cert", "issue", "user", "root", "--group", "xce-admin", "--ca", ca, "--out",
             cluster->folder, NULL);
    if (tls_keys_new(cluster->loop, &files, NULL, NULL, &cluster->keys, &err) < 0)
        rig_die("the certificates", err.text);
}

static void wait_served(const struct cluster *cluster, unsigned replica)
{
    int64_t until_ms = clock_mono_ms() + SERVE_MS;
    const char *path = cluster->sockets[replica] + strlen("unix:");

    while (access(path, F_OK) < 0) {
        if (clock_mono_ms() > until_ms)
            rig_die("a replica does not serve; see the log beside", path);
        loop_step(cluster->loop, 20);
    }
}

void cluster_start(struct cluster *cluster, const char *folder, struct loop *loop, uint32_t first,
                   uint32_t n_uids)
{
    char range[64], address[64], name[8];

    *cluster = (struct cluster){.loop = loop};
    (void)snprintf(cluster->folder, sizeof cluster->folder, "%s", folder);
    find_build(cluster);
    if (mkdir(folder, 0700) < 0)
        rig_die(folder, strerror(errno));
    make_certificates(cluster);
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++) {
        name_of(i, name);
        cluster->ports[i] = rig_free_port();
        (void)snprintf(cluster->sockets[i], sizeof cluster->sockets[i], "unix:%s/%s.sock", folder,
                       name);
        write_config(cluster, i);
        cluster_restart(cluster, i);
        wait_served(cluster, i);
    }
    leasectl(cluster, "--server", cluster->sockets[0], "cluster", "init", NULL);
    while (leader_by(cluster, 0) != 0)
        loop_step(loop, 20);
    for (unsigned i = 1; i < CLUSTER_REPLICAS; i++) {
        name_of(i, name);
        (void)snprintf(address, sizeof address, "localhost:%u", cluster->ports[i]);
        leasectl(cluster, "--server", cluster->sockets[0], "cluster", "add", name, "--address",
                 address, NULL);
    }
    (void)snprintf(range, sizeof range, "%u-%u", first, first + n_uids - 1);
    /* The node of a claim does not answer: it may take its time. */
    leasectl(cluster, "--server", cluster->sockets[0], "pool", "create", "main", "--range", range,
             "--directory-ranges", "none", "--ready-timeout", "10m", NULL);
}

void cluster_stop(struct cluster *cluster)
{
    for (unsigned i = 0; i < CLUSTER_REPLICAS; i++)
        cluster_kill(cluster, i);
    tls_keys_free(cluster->keys);
    cluster->keys = NULL;
}

void cluster_channels(struct cluster *cluster, unsigned replica, unsigned n, struct load *load)
{
    char address[64];

    (void)snprintf(address, sizeof address, "localhost:%u", cluster->ports[replica]);
    for (unsigned i = 0; i < n; i++)
        if (grpc_channel_tls_new(cluster->loop, address, cluster->keys, "xce://replica/", NULL,
                                 NULL, &load->channels[i]) < 0)
            rig_die(address, "no channel");
    load->n_channels = n;
}
