/* Load of unary calls: so many outstanding over so many channels, one after another, for a time. What is asked and what an
 * answer means is the user's. Whatever fails that is not the user's to judge ends the program. One loop. */
#ifndef XCE_TESTS_BENCH_LOAD_H
#define XCE_TESTS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"

#define LOAD_REQUEST_MAX  512
#define LOAD_CHANNELS_MAX 16

struct load {
    struct loop *loop;
    const char *path; /* of the method */
    int64_t timeout_ms;
    /* The next request into bytes; its length. */
    size_t (*ask)(uint8_t bytes[static LOAD_REQUEST_MAX], void *arg);
    /* A good answer. false ends the program. */
    bool (*answered)(const uint8_t *bytes, size_t len, void *arg);
    /* A call that failed; NULL: ends the program. Whether another one takes its place. */
    bool (*failed)(enum grpc_status status, const char *message, void *arg);
    void *arg;
    struct grpc_channel *channels[LOAD_CHANNELS_MAX];
    unsigned n_channels;

    /* Counted since load_run or load_once began. */
    uint64_t n_done;
    unsigned outstanding;
    int64_t until_us; /* clock_mono_us */
};

/* Answers per second with so many outstanding, for so long; all have ended. */
double load_run(struct load *load, unsigned outstanding, double seconds);
/* The two halves of it: begin, without running the loop; run it until nothing is outstanding. */
void load_begin(struct load *load, unsigned outstanding, double seconds);
void load_drain(struct load *load);
/* One call on the first channel; microseconds. */
double load_once(struct load *load);

/* End the channels, and wait for it. */
void load_close(struct load *load);

/* The middle of n values, which are sorted by it; 0 of none. */
double load_median(double *values, size_t n);

#endif
