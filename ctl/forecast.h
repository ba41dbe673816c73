/* Whether a pool has uids enough for the way it is used: leases a second, times how long one keeps its uid, is how many uids
 * are away at a time. Pure.
 *
 * How many were granted of late is counted among the leases that are not free: for as long as the cool-down lasts none of these
 * can be missing. */
#ifndef XCE_CTL_FORECAST_H
#define XCE_CTL_FORECAST_H

#include <stdint.h>

#include "xce/client.h"

struct forecast {
    int64_t now_ms, window_ms, cooldown_ms;
    uint64_t n_granted;           /* within the window */
    uint64_t n_ended, n_running;  /* whose life is known; which still live */
    int64_t ended_ms, running_ms; /* of all of them together: their lives; their ages */
};

/* What comes of it. */
struct forecast_need {
    uint64_t uids;       /* away at a time, cool-down included; 0 = too few leases to tell */
    double rate_per_min; /* of grants */
    int64_t life_ms;     /* from grant to cool-down, on the average */
};

void forecast_init(struct forecast *forecast, int64_t now_ms, int64_t cooldown_ms);
/* Each lease of the pool that is not free. */
void forecast_add(struct forecast *forecast, const struct xce_lease *lease);
struct forecast_need forecast_end(const struct forecast *forecast);

#endif
