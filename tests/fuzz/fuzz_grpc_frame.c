/* gRPC's message framing. The first byte cuts the rest into pieces: however it is cut, the same messages come out as from
 * a plain walk over the whole, and the same kind of error. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/grpc_frame.h"

enum {
    LIMIT = 1000,
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* What a plain reading of the format says of data: the messages, then the error, one number over all of it. */
struct outcome {
    unsigned n;
    uint64_t sum;
    int error;
    bool boundary;
};

static void note(struct outcome *outcome, const uint8_t *message, size_t len)
{
    outcome->n++;
    outcome->sum = outcome->sum * 31 + len;
    for (size_t i = 0; i < len; i++)
        outcome->sum = outcome->sum * 31 + message[i];
}

static struct outcome plain(const uint8_t *data, size_t size)
{
    struct outcome outcome = {0};
    size_t at = 0;

    while (size - at >= GRPC_FRAME_HEAD) {
        uint32_t len = (uint32_t)data[at + 1] << 24 | (uint32_t)data[at + 2] << 16 |
                       (uint32_t)data[at + 3] << 8 | data[at + 4];

        if (data[at] > 1)
            outcome.error = GRPC_FRAME_BAD_FLAG;
        else if (data[at] == 1)
            outcome.error = GRPC_FRAME_COMPRESSED;
        else if (len > LIMIT)
            outcome.error = GRPC_FRAME_TOO_LARGE;
        if (outcome.error || len > size - at - GRPC_FRAME_HEAD)
            return outcome;
        note(&outcome, data + at + GRPC_FRAME_HEAD, len);
        at += GRPC_FRAME_HEAD + len;
    }
    outcome.boundary = at == size;
    return outcome;
}

/* The same through the reader, piece by piece. */
static struct outcome pieces(const uint8_t *data, size_t size, size_t piece)
{
    struct grpc_budget held = {.limit = SIZE_MAX};
    struct grpc_frame_reader reader = {.limit_bytes = LIMIT, .budget = &held};
    struct outcome outcome = {.boundary = true};

    for (size_t at = 0; at < size && !outcome.error; at += piece) {
        const uint8_t *next = data + at, *message;
        size_t left = size - at < piece ? size - at : piece, len;

        while (left > 0 && !outcome.error) {
            int r = grpc_frame_take(&reader, &next, &left, &message, &len);

            if (r == GRPC_FRAME_MESSAGE)
                note(&outcome, message, len);
            else
                outcome.error = r;
        }
        must(held.bytes <= LIMIT);
    }
    outcome.boundary = !outcome.error && grpc_frame_at_boundary(&reader);
    grpc_frame_done(&reader);
    must(held.bytes == 0);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome expect, got;

    if (size == 0)
        return 0;
    expect = plain(data + 1, size - 1);
    got = pieces(data + 1, size - 1, data[0] + 1u);
    must(got.n == expect.n && got.sum == expect.sum && got.error == expect.error);
    must(got.boundary == (expect.boundary && !expect.error));
    return 0;
}
