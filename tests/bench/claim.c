#include "tests/bench/claim.h"

#include <string.h>

#include "tests/bench/claims_rig.h"
#include "xce/v1/lease.pb-c.h"

#define ISSUED_LEN 5

void claim_init(struct claim *claim, uint32_t first_uid)
{
    claim_init_on(claim, first_uid, (const char *const[]){RIG_NODE}, 1, false);
}

void claim_init_on(struct claim *claim, uint32_t first_uid, const char *const *nodes, size_t n,
                   bool wait)
{
    Xce__V1__AcquireRequest ask = XCE__V1__ACQUIRE_REQUEST__INIT;
    Xce__V1__RequestId request = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__LeaseSpec spec = XCE__V1__LEASE_SPEC__INIT, *specs[] = {&spec};
    ProtobufCBinaryData members[CLAIM_NODES_MAX];
    uint8_t id[16];
    const uint8_t *at;

    memset(claim, 0, sizeof *claim);
    claim->first_uid = first_uid;
    pb_arena_init(&claim->arena, PB_ARENA_MAX);
    memset(id, 0xee, sizeof id);
    request.id = (ProtobufCBinaryData){sizeof id, id};
    request.issued_at_ms = 1 << 28; /* ISSUED_LEN bytes of a varint */
    spec.lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS;
    spec.ttl_ms = 3600000;
    for (size_t i = 0; i < n; i++)
        members[i] = (ProtobufCBinaryData){strlen(nodes[i]), (uint8_t *)(uintptr_t)nodes[i]};
    spec.nodes = members;
    spec.n_nodes = n;
    ask.wait = wait;
    ask.request = &request;
    ask.leases = specs;
    ask.n_leases = 1;
    claim->request_len = xce__v1__acquire_request__pack(&ask, claim->request);
    at = memmem(claim->request, claim->request_len, id, sizeof id);
    claim->id_at = (size_t)(at - claim->request);
    claim->issued_at = claim->id_at + sizeof id + 1;
}

/* As clients do: the time of the last reply, as a varint of a fixed length (the high groups may be zero). */
static void put_issued(struct claim *claim)
{
    uint8_t *to = claim->request + claim->issued_at;
    uint64_t value = (uint64_t)claim->now_ms;

    for (int i = 0; i < ISSUED_LEN; i++, value >>= 7)
        to[i] = (uint8_t)((value & 0x7f) | (i < ISSUED_LEN - 1 ? 0x80 : 0));
}

static size_t ask(uint8_t bytes[static LOAD_REQUEST_MAX], void *arg)
{
    struct claim *claim = arg;

    memcpy(claim->request + claim->id_at, &claim->next, sizeof claim->next);
    put_issued(claim);
    claim->next++;
    memcpy(bytes, claim->request, claim->request_len);
    return claim->request_len;
}

/* A client reads what it was given. */
static bool claimed(const uint8_t *data, size_t len, void *arg)
{
    struct claim *claim = arg;
    ProtobufCMessage *message;
    const Xce__V1__AcquireReply *reply;
    bool good;

    if (pb_unpack(&claim->arena, &xce__v1__acquire_reply__descriptor, data, len, &message, NULL) <
        0)
        return false;
    reply = (const Xce__V1__AcquireReply *)message;
    good = reply->n_leases == 1 && reply->leases[0]->uid >= claim->first_uid;
    claim->now_ms = reply->info->now_ms;
    claim->revision = good ? reply->leases[0]->revision : 0;
    pb_arena_reset(&claim->arena);
    return good;
}

void claim_done(struct claim *claim)
{
    pb_arena_done(&claim->arena);
}

void claim_load(struct claim *claim, struct loop *loop, struct load *ret)
{
    *ret = (struct load){
        .loop = loop,
        .path = "/xce.v1.LeaseService/Acquire",
        .timeout_ms = 20000,
        .ask = ask,
        .answered = claimed,
        .arg = claim,
    };
}
