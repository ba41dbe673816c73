/* Which uids of this machine are taken, whoever took them: login.defs, subuid and subgid, every account and group that
 * NSS shows. The fixed classes and the pools themselves are the FSM's to check (fsm/pool.c).
 *
 * Gathering blocks (NSS): off the loop. What was gathered is a value; looking into it is pure. */
#ifndef XCE_LEASED_SERVICE_OVERLAP_H
#define XCE_LEASED_SERVICE_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

struct overlap_taken {
    uint32_t first, last;
    uint32_t reach; /* of those that begin no later, the place of the one that ends last */
    char what[96];  /* "account lp of passwd", "/etc/subuid: alice" */
};

struct overlap {
    struct overlap_taken *taken; /* by first */
    size_t n, capacity;
};

struct overlap_sources {
    const char *login_defs, *subuid, *subgid, *passwd, *group,
        *nsswitch;      /* absent files are fine */
    const char *prefix; /* of lease names: entries that NSS shows of us are no overlap */
};

/* 0; -ENOMEM; -errno a file is there but can not be read; -EHOSTDOWN a name service does not answer; -ELIBACC it can not be
 * loaded: nothing is known then. Any thread. */
int overlap_gather(const struct overlap_sources *sources, struct overlap *ret);
void overlap_done(struct overlap *overlap);

/* An entry that shares a uid with first..last, the one that ends last; NULL = none. O(log n). */
const struct overlap_taken *overlap_find(const struct overlap *overlap, uint32_t first,
                                         uint32_t last);

#endif
