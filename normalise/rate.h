/* At most so many of something a second, by all threads together: each waits for its turn. */
#ifndef XCE_NORMALISE_RATE_H
#define XCE_NORMALISE_RATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rate {
    pthread_mutex_t lock;
    int64_t every_ns; /* 0 = no limit */
    int64_t next_ns;
};

/* 0 = no limit. */
void rate_init(struct rate *rate, uint32_t per_second);
void rate_done(struct rate *rate);

/* Sleeps until it is this one's turn, or until stop is true. What was not used before is not made up for. */
void rate_wait(struct rate *rate, const _Atomic bool *stop);

#endif
