/* The pools: what stands still in them, and whether they have uids enough. */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"
#include "ctl/forecast.h"

enum {
    ASK_MS = 5000,
    PAGES_MOST = 100,
    LOW_PART = 20, /* one in so many free is few */
};

#define MORE                                                                                       \
    "leasectl pool set NAME --last UID makes it larger; or another pool, a shorter --cooldown"

/* Each is listed once for each node that has found something. */
static size_t n_blocked_uids(const struct xce_pool *pool)
{
    size_t n = 0;

    for (size_t i = 0, j; i < pool->n_blocked; i++) {
        for (j = 0; pool->blocked[j].uid != pool->blocked[i].uid;)
            j++;
        n += j == i;
    }
    return n;
}

static void judge_leftovers(struct doctor *doctor, const struct xce_pool *pool)
{
    if (pool->n_blocked)
        doctor_found(doctor, SEVERITY_WARNING, "pools-blocked",
                     "leasectl pool show NAME names them; remove what is there, then leasectl pool "
                     "unblock NAME UID --reason WHY",
                     "pool %s: %zu uids are blocked", pool->name, n_blocked_uids(pool));
    if (pool->counts.quarantined)
        doctor_found(doctor, SEVERITY_WARNING, "pools-quarantined",
                     "leasectl list --quarantined, then leasectl explain UID",
                     "pool %s: %u leases are quarantined", pool->name, pool->counts.quarantined);
}

/* Of all leases that are not free. false: they can not be listed, or are too many. */
static bool look_at_leases(struct doctor *doctor, const struct xce_pool *pool,
                           struct forecast *forecast)
{
    struct xce_lease_filter filter = {.all = true, .pool = pool->name, .page_size = 2000};
    struct xce_call call = {.timeout_ms = ASK_MS};

    for (unsigned i = 0; i < PAGES_MOST; i++) {
        struct xce_leases *leases;

        if (xce_lease_list(doctor->ctl->client, &call, &filter, &leases) != XCE_OK)
            return false;
        for (size_t k = 0; k < leases->n; k++)
            forecast_add(forecast, &leases->items[k]);
        filter.after = leases->next;
        xce_free(leases);
        if (!filter.after)
            return true;
    }
    return false;
}

static void judge_use(struct doctor *doctor, const struct xce_pool *pool)
{
    uint64_t size = (uint64_t)pool->range.last - pool->range.first + 1;
    uint64_t usable = size - pool->counts.blocked;
    char life[TEXT_DURATION_BUF], cooldown[TEXT_DURATION_BUF];
    struct forecast forecast;
    struct forecast_need need = {0};

    forecast_init(&forecast, clock_wall_ms(), pool->settings.cooldown_ms);
    if (look_at_leases(doctor, pool, &forecast))
        need = forecast_end(&forecast);
    if (need.uids > usable)
        doctor_found(doctor, SEVERITY_WARNING, "pools-dry", MORE,
                     "pool %s: %.4g leases a minute, which keep their uids for %s, and %s of "
                     "cool-down, take %" PRIu64 " uids of %" PRIu64 ": it runs dry",
                     pool->name, need.rate_per_min, text_format_duration(need.life_ms, life),
                     text_format_duration(pool->settings.cooldown_ms, cooldown), need.uids, usable);
    else if (!pool->counts.free)
        doctor_found(doctor, SEVERITY_WARNING, "pools-empty", MORE,
                     "pool %s: none of its %" PRIu64 " uids is free: nothing can be leased",
                     pool->name, size);
    else if (pool->counts.free <= size / LOW_PART)
        doctor_found(doctor, SEVERITY_WARNING, "pools-low", MORE,
                     "pool %s: %u of %" PRIu64 " uids are free", pool->name, pool->counts.free,
                     size);
}

void doctor_check_pools(struct doctor *doctor)
{
    struct xce_call call = {.timeout_ms = ASK_MS};
    size_t before = doctor->n_findings;
    struct xce_client *client = doctor->ctl->client;
    struct xce_pools *pools;

    if (!doctor->leased_answers)
        return;
    if (xce_pool_list(client, &call, &pools) != XCE_OK) {
        doctor_found(doctor, SEVERITY_NOTE, "pools-unlisted", "ask as an administrator",
                     "the pools can not be listed: %s", xce_client_message(client));
        return;
    }
    if (!pools->n)
        doctor_found(doctor, SEVERITY_WARNING, "pools-none", "leasectl pool create",
                     "there is no pool: nothing can be leased");
    for (size_t i = 0; i < pools->n; i++) {
        const struct xce_pool *pool = &pools->items[i];

        doctor_add_range(doctor, pool->range.first, pool->range.last);
        if (!pool->has_counts)
            continue;
        judge_leftovers(doctor, pool);
        if (pool->state == XCE_POOL_OPEN)
            judge_use(doctor, pool);
    }
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "pools-ok", NULL, "%zu pools have uids enough", pools->n);
    xce_free(pools);
}
