/* Nodes of which there is only the session: each over a TLS connection of its own, in turn to each replica, mirroring all
 * leases and sending heartbeats as noded does, with a new watermark once a minute; a session that ends is begun again. They
 * report nothing else. Whatever else fails ends the program. One loop. */
#ifndef XCE_TESTS_BENCH_SWARM_H
#define XCE_TESTS_BENCH_SWARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct swarm;

/* Name of the first of them; the others follow it in number. */
#define SWARM_FIRST "s0"

/* Begin n sessions, wait until each has had its full list and the cluster trusts the first one with leases. */
void swarm_start(struct cluster *cluster, size_t n, struct swarm **ret);
/* Ends them; the replicas may be gone. */
void swarm_stop(struct swarm *swarm);

/* Run the loop until each session holds everything up to this revision. */
void swarm_until(struct swarm *swarm, uint64_t revision);
/* Run the loop so long. */
void swarm_rest(struct swarm *swarm, double seconds);

#endif
