/* Pools in use, and how many uids that takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ctl/forecast.h"

#define NOW_MS    INT64_C(1790000000000)
#define MINUTE_MS 60000

/* n leases of that state, the newest granted `last_ms` ago, one each `every_ms` before it; ended ones lived for life_ms. */
struct batch {
    int state;
    unsigned n;
    int64_t last_ms, every_ms, life_ms;
};

static void forecast_uses_are_told(void **state)
{
    static const struct {
        int64_t cooldown_ms;
        struct batch batches[3];
        uint64_t uids;
        unsigned rate_per_min;
        int64_t life_ms;
    } cases[] = {
        {5 * MINUTE_MS, {{0}}, 0, 0, 0},
        /* Three say nothing. */
        {5 * MINUTE_MS, {{XCE_ACTIVE, 3, 0, 1000, 0}}, 0, 0, 0},
        /* One a second, a second each: 300 cool down at a time. */
        {5 * MINUTE_MS, {{XCE_COOLING, 300, 0, 1000, 1000}}, 302, 60, 1000},
        /* One a minute for an hour each: of five minutes of grants one knows, their age is what the old ones say. */
        {5 * MINUTE_MS, {{XCE_ACTIVE, 120, 0, MINUTE_MS, 0}}, 65, 1, 119 * MINUTE_MS / 2},
        /* Many short ones beside a few long ones. */
        {MINUTE_MS,
         {{XCE_COOLING, 60, 0, 1000, 500}, {XCE_ACTIVE, 2, 60 * MINUTE_MS, 0, 0}},
         3661,
         60,
         60 * MINUTE_MS},
        /* No cool-down to speak of: ten seconds are looked at. */
        {1000, {{XCE_ACTIVE, 10, 0, 1000, 0}}, 6, 60, 4500},
        /* What was granted long ago alone: no grants. */
        {MINUTE_MS, {{XCE_ACTIVE, 100, 60 * MINUTE_MS, 0, 0}}, 0, 0, 0},
        /* Another machine's clock is ahead. */
        {MINUTE_MS, {{XCE_ACTIVE, 60, -MINUTE_MS, 0, 0}}, 61, 60, 0},
        {MINUTE_MS, {{XCE_COOLING, 60, 0, 0, -MINUTE_MS}}, 61, 60, 0},
        /* What is draining, or waits for its last proof, was granted, too. */
        {MINUTE_MS, {{XCE_DRAINING, 30, 0, 0, 0}, {XCE_RETIRED, 30, 0, 0, 0}}, 61, 60, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct forecast forecast;
        struct forecast_need need;

        forecast_init(&forecast, NOW_MS, cases[i].cooldown_ms);
        for (size_t k = 0; k < 3; k++)
            for (unsigned n = 0; n < cases[i].batches[k].n; n++) {
                const struct batch *batch = &cases[i].batches[k];
                int64_t granted_ms = NOW_MS - batch->last_ms - (int64_t)n * batch->every_ms;

                forecast_add(&forecast,
                             &(struct xce_lease){.state = batch->state,
                                                 .granted_ms = granted_ms,
                                                 .changed_ms = granted_ms + batch->life_ms});
            }
        need = forecast_end(&forecast);
        if (need.uids != cases[i].uids || (unsigned)need.rate_per_min != cases[i].rate_per_min ||
            need.life_ms != cases[i].life_ms)
            fail_msg("case %zu: %lu uids, %u a minute, %ld ms", i, (unsigned long)need.uids,
                     (unsigned)need.rate_per_min, (long)need.life_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forecast_uses_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
