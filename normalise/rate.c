#include "normalise/rate.h"

#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define NAP_NS    INT64_C(100000000) /* so long until it is seen that all ends */

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

void rate_init(struct rate *rate, uint32_t per_second)
{
    *rate = (struct rate){.every_ns = per_second ? SECOND_NS / per_second : 0};
    (void)pthread_mutex_init(&rate->lock, NULL);
}

void rate_done(struct rate *rate)
{
    (void)pthread_mutex_destroy(&rate->lock);
}

static int64_t turn_take(struct rate *rate)
{
    int64_t now = now_ns(), turn;

    (void)pthread_mutex_lock(&rate->lock);
    turn = rate->next_ns > now ? rate->next_ns : now;
    rate->next_ns = turn + rate->every_ns;
    (void)pthread_mutex_unlock(&rate->lock);
    return turn;
}

void rate_wait(struct rate *rate, const _Atomic bool *stop)
{
    int64_t turn, left;

    if (!rate->every_ns)
        return;
    turn = turn_take(rate);
    while ((left = turn - now_ns()) > 0 && !atomic_load(stop)) {
        const struct timespec nap = {.tv_nsec = left < NAP_NS ? left : NAP_NS};
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    }
}
