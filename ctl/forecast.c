#include "ctl/forecast.h"

enum {
    WINDOW_LEAST_MS = 10000,
    ENOUGH = 4, /* grants that say something */
};

void forecast_init(struct forecast *forecast, int64_t now_ms, int64_t cooldown_ms)
{
    *forecast = (struct forecast){
        .now_ms = now_ms,
        .cooldown_ms = cooldown_ms,
        .window_ms = cooldown_ms > WINDOW_LEAST_MS ? cooldown_ms : WINDOW_LEAST_MS,
    };
}

/* Of what another machine's clock says. */
static int64_t not_below_zero(int64_t ms)
{
    return ms > 0 ? ms : 0;
}

void forecast_add(struct forecast *forecast, const struct xce_lease *lease)
{
    if (lease->granted_ms > forecast->now_ms - forecast->window_ms)
        forecast->n_granted++;
    if (lease->state == XCE_COOLING) {
        forecast->n_ended++;
        forecast->ended_ms += not_below_zero(lease->changed_ms - lease->granted_ms);
    } else if (lease->state == XCE_GRANTED || lease->state == XCE_ACTIVE) {
        forecast->n_running++;
        forecast->running_ms += not_below_zero(forecast->now_ms - lease->granted_ms);
    }
}

struct forecast_need forecast_end(const struct forecast *forecast)
{
    struct forecast_need need = {0};
    int64_t ended_ms = forecast->n_ended ? forecast->ended_ms / (int64_t)forecast->n_ended : 0;
    int64_t age_ms = forecast->n_running ? forecast->running_ms / (int64_t)forecast->n_running : 0;

    if (forecast->n_granted < ENOUGH)
        return need;
    /* Leases that ended of late were short ones, if there are long ones; the age of those that live says how long. */
    need.life_ms = ended_ms > age_ms ? ended_ms : age_ms;
    need.rate_per_min = (double)forecast->n_granted * 60000 / (double)forecast->window_ms;
    need.uids = (uint64_t)(need.rate_per_min / 60000 *
                           (double)(need.life_ms + forecast->cooldown_ms)) +
                1;
    return need;
}
