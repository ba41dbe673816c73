/* A claim on leased: Acquire{ttl, one member, no wait} on RIG_NODE, and what its answer must be. For struct load. */
#ifndef XCE_TESTS_BENCH_CLAIM_H
#define XCE_TESTS_BENCH_CLAIM_H

#include <stdint.h>

#include "common/pb.h"
#include "tests/bench/load.h"

struct claim {
    struct pb_arena arena;
    uint32_t first_uid; /* of the pool */
    /* The request, packed; its id is at id_at, its issued_at_ms, in a varint of fixed length, at issued_at. */
    uint8_t request[256];
    size_t request_len, id_at, issued_at;
    int64_t now_ms; /* cluster time by the last reply */
    uint64_t next;  /* request id */
};

void claim_init(struct claim *claim, uint32_t first_uid);
void claim_done(struct claim *claim);
/* A load of claims, without channels yet. */
void claim_load(struct claim *claim, struct loop *loop, struct load *ret);

#endif
