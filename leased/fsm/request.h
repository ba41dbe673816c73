/* Answers to requests, so that a command that comes twice is done once (I4).
 *
 * Key = (principal, id); with a digest of the payload and the answer. Records lie one behind another in chunks, oldest
 * first, in one of two rings: `once` for what must not be done twice, `repeatable` for what may (renew, release, revoke).
 * Each ring has its own limit in bytes, so that renewals never push out acquires. A record goes after FSM_REQUEST_MS, or
 * sooner when its ring is full. Whatever leaves `once` raises the horizon: an acquire that is not known and was not
 * issued after it might be a late copy, and is refused (model/request.pml, R_HORIZON). */
#ifndef XCE_LEASED_FSM_REQUEST_H
#define XCE_LEASED_FSM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

#define REQUEST_ID_MAX        64
#define REQUEST_PRINCIPAL_MAX 255
#define REQUEST_DIGEST        16
/* issued_at may be ahead of cluster time by so much (it was read from a leader that had heard a later time). */
#define REQUEST_AHEAD_MS 60000

enum request_ring {
    RING_ONCE = 0,
    RING_REPEATABLE = 1,
};

struct request_key {
    const void *principal;
    size_t principal_len;
    const void *id;
    size_t id_len;
    uint8_t digest[REQUEST_DIGEST];
    int64_t issued_ms;
};

/* A record: this, then the id, padded to 8 bytes, then the slots. */
struct request {
    uint32_t next; /* in the chain of its hash; 0 = last */
    uint32_t hash;
    uint32_t principal; /* interned */
    uint8_t code;       /* enum fsm_code */
    uint8_t id_len;
    uint8_t waiting : 1, ring : 1;
    uint8_t spare;
    /* When it was applied; or issued if that is later, in `once`. */
    uint64_t at_ms : 48, n_slots : 16;
    uint8_t digest[REQUEST_DIGEST];
    uint8_t id[]; /* slots: lease ids with FSM_OK; else the first is the interned message */
};

struct request_chunk;

struct request_list {
    struct request_chunk *first, *last;
    size_t bytes; /* of records and messages */
    uint32_t n;
};

struct requests {
    struct request_list rings[2];
    struct request_chunk **chunks; /* by number; [0] unused, so that no record has reference 0 */
    uint32_t n_chunks, cap_chunks;
    struct request_chunk *spare; /* empty ones */
    uint32_t *heads;
    uint32_t n_heads; /* power of two */
    uint64_t key;
    int64_t horizon_ms;
};

void requests_init(struct requests *requests, uint64_t key);
void requests_done(struct requests *requests);

struct request *request_find(const struct fsm *fsm, const struct request_key *key);
/* Keep the answer, evicting what is too old or too much. The key must not be known. */
struct request *request_keep(struct fsm *fsm, enum request_ring ring, const struct request_key *key,
                             const struct fsm_outcome *outcome);
/* An answer as it is kept. message counts unless the code is FSM_OK; n_slots is then at least 1. */
struct request_answer {
    int64_t at_ms;
    uint8_t code;
    const uint64_t *slots;
    size_t n_slots;
    const char *message;
};

/* As request_keep, out of a snapshot: nothing is evicted. */
struct request *request_restore(struct fsm *fsm, enum request_ring ring,
                                const struct request_key *key, const struct request_answer *answer);
/* Turn an answer that waited into a failure. */
void request_fail(struct fsm *fsm, struct request *request, enum fsm_code code,
                  const char *message);
/* Forget a few of those that are old enough. */
void requests_age(struct fsm *fsm);

uint64_t *request_slots(const struct request *request);
/* NULL with FSM_OK. */
const char *request_message(const struct fsm *fsm, const struct request *request);
const char *request_principal(const struct fsm *fsm, const struct request *request);

/* Records of a ring, oldest first: begin with {ring}; NULL = that was the last. Ends with the next change. */
struct request_walk {
    enum request_ring ring;
    const struct request_chunk *chunk;
    uint32_t offset;
};

struct request *request_next(const struct requests *requests, struct request_walk *walk);

#endif
