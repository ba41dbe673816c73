/* Three leased as replicas on this machine: the real programs, mutual TLS on loopback, a CA of their own. Made and grown by
 * leasectl, as an administrator would. Whatever fails ends the program with a message; what it started ends with it. */
#ifndef XCE_TESTS_BENCH_CLUSTER_RIG_H
#define XCE_TESTS_BENCH_CLUSTER_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/load.h"

#define CLUSTER_REPLICAS 3

struct tls_keys;

struct cluster {
    char build[256], folder[256];
    struct loop *loop;
    struct tls_keys *keys; /* of an administrator */
    pid_t pids[CLUSTER_REPLICAS];
    unsigned ports[CLUSTER_REPLICAS];
    char sockets[CLUSTER_REPLICAS][320]; /* "unix:..." */
};

/* Start all three in folder, which is made; election 150 ms, heartbeat 30 ms; a pool "main" of n_uids from first on. */
void cluster_start(struct cluster *cluster, const char *folder, struct loop *loop, uint32_t first,
                   uint32_t n_uids);
void cluster_stop(struct cluster *cluster);
/* The replica that all that run call their leader, waited for. */
unsigned cluster_leader(struct cluster *cluster);
/* kill -9; start again on what it left. */
void cluster_kill(struct cluster *cluster, unsigned replica);
void cluster_restart(struct cluster *cluster, unsigned replica);

/* A real noded of that name, over mutual TLS to the replicas, first to that one. Its process: the caller's to end. */
pid_t cluster_noded(const struct cluster *cluster, unsigned first, const char *node);
/* Whether leases may name the node now. */
bool cluster_node_ready(const struct cluster *cluster, const char *node);

/* Channels over mutual TLS to that replica. */
void cluster_channels(struct cluster *cluster, unsigned replica, unsigned n, struct load *load);

#endif
