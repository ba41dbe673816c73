/* What the hot paths of common cost: a request's digest, its check and unpacking, a snapshot's checksum.
 * Each figure is the best of five rounds, so that another load of the machine matters little. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/mem.h"
#include "common/pb.h"
#include "xce/v1/lease.pb-c.h"

#define ROUNDS 5
#define TIMES  200000
#define MIB    (16u << 20)

struct work {
    uint8_t bytes[512];
    size_t len;
    struct pb_arena arena;
    uint8_t *large;
    uint64_t sum; /* so that nothing can be left out */
};

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

/* What a claim of one lease sends. */
static void pack_acquire(struct work *work)
{
    Xce__V1__AcquireRequest request = XCE__V1__ACQUIRE_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__LeaseSpec spec = XCE__V1__LEASE_SPEC__INIT, *specs[1] = {&spec};
    ProtobufCBinaryData node = bytes_of("n1");

    id.id = bytes_of("0123456789abcdef");
    id.issued_at_ms = 1234567890;
    spec.pool = bytes_of("default");
    spec.job = bytes_of("job-123456");
    spec.lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS;
    spec.ttl_ms = 60000;
    spec.nodes = &node;
    spec.n_nodes = 1;
    request.request = &id;
    request.leases = specs;
    request.n_leases = 1;
    work->len = xce__v1__acquire_request__pack(&request, work->bytes);
}

static void check_once(struct work *work)
{
    work->sum += (uint64_t)pb_check(&xce__v1__acquire_request__descriptor, work->bytes, work->len,
                                    NULL);
}

static void unpack_once(struct work *work)
{
    ProtobufCMessage *message = NULL;

    if (pb_unpack(&work->arena, &xce__v1__acquire_request__descriptor, work->bytes, work->len,
                  &message, NULL) < 0)
        abort();
    work->sum += message->n_unknown_fields;
    pb_arena_reset(&work->arena);
}

static void digest_once(struct work *work)
{
    const struct digest_piece pieces[] = {
        {work->bytes, 20}, {work->bytes + 20, 100}, {work->bytes + 120, 80}};
    uint8_t digest[DIGEST_LEN];

    work->bytes[300]++;
    digest_pieces(pieces, ARRAY_LEN(pieces), digest);
    work->sum += digest[0];
}

/* ns of one call, the best round. */
static double measure(void (*once)(struct work *work), struct work *work)
{
    double best = 1e18, ns;
    int64_t began_us;
    unsigned round, i;

    for (round = 0; round < ROUNDS; round++) {
        began_us = clock_mono_us();
        for (i = 0; i < TIMES; i++)
            once(work);
        ns = (double)(clock_mono_us() - began_us) * 1000 / TIMES;
        if (ns < best)
            best = ns;
    }
    return best;
}

static double crc_gib_per_s(uint32_t (*crc)(uint32_t, const void *, size_t), struct work *work)
{
    int64_t best = INT64_MAX, us;
    unsigned round;

    for (round = 0; round < ROUNDS; round++) {
        us = clock_mono_us();
        work->sum += crc(0, work->large, MIB);
        us = clock_mono_us() - us;
        if (us < best)
            best = us;
    }
    return (double)MIB / (1 << 30) / ((double)best / 1e6);
}

int main(void)
{
    static struct work work;

    pb_arena_init(&work.arena, PB_ARENA_MAX);
    work.large = mem_must_calloc(1, MIB);
    pack_acquire(&work);
    printf("pb_check of an AcquireRequest of %zu bytes: %.0f ns\n", work.len,
           measure(check_once, &work));
    printf("pb_unpack of it, check included:         %.0f ns\n", measure(unpack_once, &work));
    printf("digest_pieces of 200 bytes in 3 pieces:  %.0f ns\n", measure(digest_once, &work));
    printf("digest_crc32c:                           %.2f GiB/s\n",
           crc_gib_per_s(digest_crc32c, &work));
    printf("digest_crc32c_portable:                  %.2f GiB/s\n",
           crc_gib_per_s(digest_crc32c_portable, &work));
    free(work.large);
    pb_arena_done(&work.arena);
    return work.sum == 0;
}
