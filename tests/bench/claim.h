/* A claim on leased: Acquire{ttl, one member, no wait} on RIG_NODE, or one of its kind on other nodes, and what its answer must
 * be. For struct load. */
#ifndef XCE_TESTS_BENCH_CLAIM_H
#define XCE_TESTS_BENCH_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/pb.h"
#include "tests/bench/load.h"

struct claim {
    struct pb_arena arena;
    uint32_t first_uid; /* of the pool */
    /* The request, packed; its id is at id_at, its issued_at_ms, in a varint of fixed length, at issued_at. */
    uint8_t request[256];
    size_t request_len, id_at, issued_at;
    int64_t now_ms;    /* cluster time by the last reply */
    uint64_t revision; /* of the lease in it */
    uint64_t next;     /* request id */
};

#define CLAIM_NODES_MAX 4

void claim_init(struct claim *claim, uint32_t first_uid);
/* With these members; wait: answered when all are READY. */
void claim_init_on(struct claim *claim, uint32_t first_uid, const char *const *nodes, size_t n,
                   bool wait);
void claim_done(struct claim *claim);
/* A load of claims, without channels yet. */
void claim_load(struct claim *claim, struct loop *loop, struct load *ret);

#endif
