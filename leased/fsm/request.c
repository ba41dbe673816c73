#include "leased/fsm/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/hash.h"
#include "leased/fsm/state.h"
#include "leased/fsm/wait.h"

/* A reference to a record is chunk number << UNIT_BITS | offset / 8. */
#define CHUNK_BYTES 65536u
#define UNIT_BITS   13

struct request_chunk {
    struct request_chunk *next;
    uint32_t number;
    uint32_t begin, end; /* offsets of the oldest record and behind the youngest */
    _Alignas(8) uint8_t bytes[];
};

static const size_t ring_max[] = {
    [RING_ONCE] = FSM_REQUEST_BYTES,
    [RING_REPEATABLE] = FSM_REPEATABLE_BYTES,
};

void requests_init(struct requests *requests, uint64_t key)
{
    *requests = (struct requests){.key = key, .n_chunks = 1, .n_heads = 256};
    requests->heads = mem_must_calloc(requests->n_heads, sizeof(*requests->heads));
}

void requests_done(struct requests *requests)
{
    for (uint32_t i = 1; i < requests->n_chunks; i++)
        free(requests->chunks[i]);
    free(requests->chunks);
    free(requests->heads);
    *requests = (struct requests){0};
}

/* ---- records ---- */

static size_t slots_at(const struct request *request)
{
    return (sizeof(*request) + request->id_len + 7) & ~(size_t)7;
}

static size_t size_of(size_t id_len, size_t n_slots)
{
    return ((sizeof(struct request) + id_len + 7) & ~(size_t)7) + n_slots * sizeof(uint64_t);
}

uint64_t *request_slots(const struct request *request)
{
    return (uint64_t *)(void *)((uint8_t *)request + slots_at(request));
}

static struct request *at(const struct requests *requests, uint32_t ref)
{
    struct request_chunk *chunk = requests->chunks[ref >> UNIT_BITS];

    return (struct request *)(void *)(chunk->bytes + (size_t)(ref & ((1u << UNIT_BITS) - 1)) * 8);
}

static uint32_t ref_of(const struct request_chunk *chunk, uint32_t offset)
{
    return chunk->number << UNIT_BITS | offset / 8;
}

const char *request_message(const struct fsm *fsm, const struct request *request)
{
    return request->code == FSM_OK
               ? NULL
               : intern_string(&fsm->strings, (uint32_t)request_slots(request)[0]);
}

const char *request_principal(const struct fsm *fsm, const struct request *request)
{
    return intern_string(&fsm->strings, request->principal);
}

static size_t cost(const struct fsm *fsm, const struct request *request)
{
    const char *message = request_message(fsm, request);

    return size_of(request->id_len, request->n_slots) + (message ? strlen(message) + 32 : 0);
}

/* ---- chunks ---- */

static struct request_chunk *new_chunk(struct requests *requests)
{
    struct request_chunk *chunk = requests->spare;

    if (chunk) {
        requests->spare = chunk->next;
    } else {
        if (requests->n_chunks >= requests->cap_chunks) {
            requests->cap_chunks = requests->cap_chunks ? requests->cap_chunks * 2 : 16;
            requests->chunks = mem_must_realloc(requests->chunks, requests->cap_chunks,
                                                sizeof(struct request_chunk *));
            requests->chunks[0] = NULL;
        }
        chunk = mem_must_alloc(sizeof(*chunk) + CHUNK_BYTES);
        chunk->number = requests->n_chunks;
        requests->chunks[requests->n_chunks++] = chunk;
        assert(requests->n_chunks < 1u << (32 - UNIT_BITS));
    }
    chunk->begin = chunk->end = 0;
    chunk->next = NULL;
    return chunk;
}

static struct request *room(struct requests *requests, enum request_ring ring, size_t size,
                            uint32_t *ret_ref)
{
    struct request_list *list = &requests->rings[ring];
    struct request_chunk *chunk = list->last;
    uint32_t offset;

    assert(size <= CHUNK_BYTES);
    if (!chunk || chunk->end + size > CHUNK_BYTES) {
        struct request_chunk *more = new_chunk(requests);

        if (chunk)
            chunk->next = more;
        else
            list->first = more;
        list->last = chunk = more;
    }
    offset = chunk->end;
    chunk->end += (uint32_t)size;
    *ret_ref = ref_of(chunk, offset);
    return (struct request *)(void *)(chunk->bytes + offset);
}

static struct request *oldest(const struct requests *requests, enum request_ring ring)
{
    const struct request_chunk *chunk = requests->rings[ring].first;

    return chunk ? at(requests, ref_of(chunk, chunk->begin)) : NULL;
}

/* The oldest record of a chunk goes; a chunk without records is spare. */
static void drop_oldest(struct requests *requests, enum request_ring ring, size_t size)
{
    struct request_list *list = &requests->rings[ring];
    struct request_chunk *chunk = list->first;

    chunk->begin += (uint32_t)size;
    if (chunk->begin < chunk->end)
        return;
    list->first = chunk->next;
    if (!list->first)
        list->last = NULL;
    chunk->next = requests->spare;
    requests->spare = chunk;
}

struct request *request_next(const struct requests *requests, struct request_walk *walk)
{
    struct request *request;

    if (!walk->chunk) {
        walk->chunk = requests->rings[walk->ring].first;
        walk->offset = walk->chunk ? walk->chunk->begin : 0;
    } else if (walk->offset >= walk->chunk->end && walk->chunk->next) {
        walk->chunk = walk->chunk->next;
        walk->offset = walk->chunk->begin;
    }
    if (!walk->chunk || walk->offset >= walk->chunk->end)
        return NULL;
    request = at(requests, ref_of(walk->chunk, walk->offset));
    walk->offset += (uint32_t)size_of(request->id_len, request->n_slots);
    return request;
}

/* ---- the table ---- */

static uint32_t hash_key(const struct requests *requests, uint32_t principal, const void *id,
                         size_t id_len)
{
    return (uint32_t)hash_bytes(requests->key ^ principal, id, id_len);
}

struct request *request_find(const struct fsm *fsm, const struct request_key *key)
{
    const struct requests *requests = &fsm->requests;
    const char *name = intern_find(&fsm->strings, key->principal, key->principal_len);
    uint32_t principal = intern_id(name);
    uint32_t hash;

    if (!name && key->principal_len)
        return NULL;
    hash = hash_key(requests, principal, key->id, key->id_len);
    for (uint32_t ref = requests->heads[hash & (requests->n_heads - 1)]; ref;) {
        struct request *request = at(requests, ref);

        if (request->hash == hash && request->principal == principal &&
            request->id_len == key->id_len && memcmp(request->id, key->id, key->id_len) == 0)
            return request;
        ref = request->next;
    }
    return NULL;
}

static void grow_heads(struct requests *requests)
{
    uint32_t n = requests->n_heads * 2;
    uint32_t *heads = mem_must_calloc(n, sizeof(*heads));

    for (int ring = 0; ring < 2; ring++) {
        struct request_walk walk = {.ring = (enum request_ring)ring};
        struct request *request;

        while ((request = request_next(requests, &walk))) {
            uint32_t ref = ref_of(walk.chunk, (uint32_t)((uint8_t *)request - walk.chunk->bytes));

            request->next = heads[request->hash & (n - 1)];
            heads[request->hash & (n - 1)] = ref;
        }
    }
    free(requests->heads);
    requests->heads = heads;
    requests->n_heads = n;
}

static struct request *add(struct fsm *fsm, enum request_ring ring, const struct request_key *key,
                           size_t n_slots)
{
    struct requests *requests = &fsm->requests;
    const char *principal = intern_add(&fsm->strings, key->principal, key->principal_len);
    struct request *request;
    uint32_t ref, *head;

    if (requests->rings[0].n + requests->rings[1].n >= requests->n_heads)
        grow_heads(requests);
    request = room(requests, ring, size_of(key->id_len, n_slots), &ref);
    memset(request, 0, size_of(key->id_len, n_slots));
    request->principal = intern_id(principal);
    request->id_len = (uint8_t)key->id_len;
    request->ring = ring & 1;
    request->n_slots = (uint16_t)n_slots;
    memcpy(request->digest, key->digest, sizeof(request->digest));
    memcpy(request->id, key->id, key->id_len);
    request->hash = hash_key(requests, request->principal, key->id, key->id_len);
    head = &requests->heads[request->hash & (requests->n_heads - 1)];
    request->next = *head;
    *head = ref;
    requests->rings[ring].n++;
    return request;
}

static void evict(struct fsm *fsm, enum request_ring ring)
{
    struct requests *requests = &fsm->requests;
    struct request_list *list = &requests->rings[ring];
    struct request *request = oldest(requests, ring);
    uint32_t ref = ref_of(list->first, list->first->begin);
    uint32_t *link = &requests->heads[request->hash & (requests->n_heads - 1)];

    while (*link != ref)
        link = &at(requests, *link)->next;
    *link = request->next;
    if (request->waiting)
        wait_forget(fsm, request);
    if (ring == RING_ONCE && requests->horizon_ms <= (int64_t)request->at_ms)
        requests->horizon_ms = (int64_t)request->at_ms + 1;
    list->n--;
    list->bytes -= cost(fsm, request);
    intern_put(&fsm->strings, request_message(fsm, request));
    intern_put(&fsm->strings, request_principal(fsm, request));
    drop_oldest(requests, ring, size_of(request->id_len, request->n_slots));
}

void requests_age(struct fsm *fsm)
{
    for (int ring = 0; ring < 2; ring++)
        for (int i = 0; i < 4; i++) {
            const struct request *request = oldest(&fsm->requests, (enum request_ring)ring);

            if (!request || (int64_t)request->at_ms + FSM_REQUEST_MS > fsm->now_ms)
                break;
            evict(fsm, (enum request_ring)ring);
        }
}

struct request *request_restore(struct fsm *fsm, enum request_ring ring,
                                const struct request_key *key, const struct request_answer *answer)
{
    struct request *request = add(fsm, ring, key, answer->n_slots);
    uint64_t *slots = request_slots(request);

    request->code = answer->code;
    request->at_ms = (uint64_t)answer->at_ms & (((uint64_t)1 << 48) - 1);
    if (answer->code != FSM_OK)
        slots[0] = intern_id(intern_text(&fsm->strings, answer->message));
    else if (answer->n_slots)
        memcpy(slots, answer->slots, answer->n_slots * sizeof(*slots));
    fsm->requests.rings[ring].bytes += cost(fsm, request);
    return request;
}

struct request *request_keep(struct fsm *fsm, enum request_ring ring, const struct request_key *key,
                             const struct fsm_outcome *outcome)
{
    struct request_list *list = &fsm->requests.rings[ring];
    struct request_answer answer = {
        .at_ms = ring == RING_ONCE && key->issued_ms > fsm->now_ms ? key->issued_ms : fsm->now_ms,
        .code = (uint8_t)outcome->code,
        .slots = outcome->leases,
        .n_slots = outcome->code == FSM_OK ? outcome->n_leases : 1,
        .message = outcome->message,
    };
    size_t more = size_of(key->id_len, answer.n_slots) + FSM_MESSAGE_MAX + 32;

    while (list->n && list->bytes + more > ring_max[ring])
        evict(fsm, ring);
    return request_restore(fsm, ring, key, &answer);
}

void request_fail(struct fsm *fsm, struct request *request, enum fsm_code code, const char *message)
{
    struct request_list *list = &fsm->requests.rings[request->ring];

    assert(request->code == FSM_OK && request->n_slots);
    list->bytes -= cost(fsm, request);
    request->code = (uint8_t)code;
    memset(request_slots(request), 0, request->n_slots * sizeof(uint64_t));
    request_slots(request)[0] = intern_id(intern_text(&fsm->strings, message));
    list->bytes += cost(fsm, request);
}

int fsm_request_find(const struct fsm *fsm, const void *principal, size_t principal_len,
                     const void *id, size_t id_len, struct fsm_request *ret)
{
    struct request_key key = {principal, principal_len, id, id_len, {0}, 0};
    const struct request *request = fsm->initialised ? request_find(fsm, &key) : NULL;
    const char *message;
    bool ok;

    if (!request)
        return -ENOENT;
    ok = request->code == FSM_OK;
    message = request_message(fsm, request);
    *ret = (struct fsm_request){
        .code = (enum fsm_code)request->code,
        .waiting = request->waiting,
        .at_ms = (int64_t)request->at_ms,
        .n_leases = ok ? request->n_slots : 0,
        .leases = request_slots(request),
        .message = message ? message : "",
    };
    return 0;
}

int64_t fsm_request_horizon_ms(const struct fsm *fsm)
{
    return fsm->requests.horizon_ms;
}
