/* Three members of etcd on this machine, to measure against: clients by unix sockets, members by loopback, no TLS. A claim
 * is a transaction that puts a key which is not there yet, under one lease that all keys share. */
#ifndef XCE_TESTS_BENCH_ETCD_RIG_H
#define XCE_TESTS_BENCH_ETCD_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/bench/load.h"

#define ETCD_MEMBERS 3

struct etcd {
    const char *program;
    char version[64]; /* "3.5.16" */
    char folder[256];
    struct loop *loop;
    pid_t pids[ETCD_MEMBERS]; /* 0 = does not run */
    unsigned ports[ETCD_MEMBERS];
    int64_t lease;
    uint64_t next; /* key */
};

/* The program to use: given, else XCE_ETCD of the environment, else what scripts/setup has unpacked, else the one in PATH.
 * NULL: there is none. */
const char *etcd_find(const char *given);

/* Start all three in folder, which is made; wait for a leader; make the lease. Dies with a message. */
void etcd_start(struct etcd *etcd, const char *program, const char *folder, struct loop *loop);
void etcd_stop(struct etcd *etcd);
/* The member that leads, waited for. */
unsigned etcd_leader(struct etcd *etcd);
/* kill -9; start again on what it left. */
void etcd_kill(struct etcd *etcd, unsigned member);
void etcd_restart(struct etcd *etcd, unsigned member);

/* Until that member knows a leader. */
void etcd_wait(struct etcd *etcd, unsigned member);

/* A load of claims on that member. */
void etcd_load(struct etcd *etcd, unsigned member, unsigned n_channels, struct load *ret);

#endif
