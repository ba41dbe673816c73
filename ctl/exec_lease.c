#include "ctl/exec_lease.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "common/clock.h"
#include "ctl/ctl.h"
#include "ctl/exec_unit.h"
#include "ctl/noded.h"

enum {
    /* A member that refuses, or is not ready in time, costs one lease: so many are tried, as leased does for --wait. */
    TRIES = 8,
    SLICE_MS = 100,
    /* Members are ready within the pool's ready timeout, or leased ends the lease itself. */
    READY_MOST_MS = 5 * 60 * 1000,
    RENEW_TIMEOUT_MS = 5000,
    HAND_OVER_TIMEOUT_MS = 5000,
};

int exec_signal_pending(void)
{
    sigset_t pending;
    const int *signals;
    size_t n = exec_unit_signals(&signals);

    (void)sigpending(&pending);
    for (size_t i = 0; i < n; i++)
        if (sigismember(&pending, signals[i]))
            return signals[i];
    return 0;
}

/* ---- until it is ready ---- */

enum progress {
    GOING_ON,
    READY,
    ENDED,
};

static enum progress progress_of(const struct xce_lease *lease)
{
    if (lease->state == XCE_GRANTED)
        return GOING_ON;
    return lease->state == XCE_ACTIVE ? READY : ENDED;
}

static void tell_refusal(const struct ctl *ctl, const struct xce_lease *lease)
{
    for (size_t i = 0; i < lease->n_members; i++) {
        const struct xce_member *member = &lease->members[i];

        if (member->proof == XCE_PROOF_REFUSED)
            ctl_say(ctl, "%s refuses uid %" PRIu32 ": %s %s", member->node, lease->uid,
                    member->reason, member->detail);
    }
    ctl_say(ctl, "lease %" PRIu64 " ended before it was ready: %s", lease->lease, lease->end_cause);
}

/* What an event says about the lease; GOING_ON also if it is about another. */
static enum progress progress_by(struct ctl *ctl, uint64_t lease, const struct xce_event *event)
{
    enum progress progress;

    if (!event->lease || event->lease->lease != lease)
        return GOING_ON;
    progress = progress_of(event->lease);
    if (progress == ENDED)
        tell_refusal(ctl, event->lease);
    return progress;
}

/* An exit status, or 128 + a signal. */
static int await_ready(struct ctl *ctl, const struct xce_lease *lease, enum progress *ret)
{
    int64_t deadline_ms = clock_mono_ms() + READY_MOST_MS;
    struct xce_watch *watch;
    struct xce_event *event;
    int code, number = 0;

    *ret = progress_of(lease);
    if (*ret != GOING_ON)
        return EXIT_OK;
    code = xce_watch_new(ctl->client, lease->revision, &watch);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    while (*ret == GOING_ON) {
        code = xce_watch_next(watch, SLICE_MS, &event);
        number = exec_signal_pending();
        if (code == XCE_OK) {
            *ret = progress_by(ctl, lease->lease, event);
            xce_free(event);
        }
        if (number || (code != XCE_OK && code != XCE_TIMEOUT) || clock_mono_ms() > deadline_ms)
            break;
    }
    xce_watch_free(watch);
    if (*ret != GOING_ON)
        return EXIT_OK;
    if (number)
        return 128 + number;
    if (code == XCE_OK || code == XCE_TIMEOUT)
        return ctl_fail(ctl, XCE_TIMEOUT, "lease %" PRIu64 " is still not ready", lease->lease);
    return ctl_failed(ctl, code);
}

/* ---- the verbs ---- */

static bool signal_came(void *arg)
{
    (void)arg;
    return exec_signal_pending() != 0;
}

static int get_once(struct ctl *ctl, const struct acquire_spec *spec, struct xce_lease **ret,
                    enum progress *ret_progress)
{
    struct xce_call call = ctl_call(ctl);
    struct exec_released released;
    struct xce_leases *leases;
    struct xce_key key;
    int status, code;

    /* While nothing is held, a signal may end it: a server that hangs is no reason to hang with it. */
    ctl->give_up = signal_came;
    status = acquire_run(ctl, spec, 1, false, NULL, &leases);
    ctl->give_up = NULL;
    if (status != EXIT_OK)
        return exec_signal_pending() ? 128 + exec_signal_pending() : status;
    key = (struct xce_key){.kind = XCE_BY_LEASE, .lease = leases->items[0].lease};
    status = await_ready(ctl, &leases->items[0], ret_progress);
    if (status == EXIT_OK && *ret_progress == READY) {
        /* A result of its own, and the proofs as they are now. */
        code = xce_lease_get(ctl->client, &call, &key, ret);
        if (code != XCE_OK)
            status = ctl_failed(ctl, code);
    }
    if (status != EXIT_OK) {
        (void)exec_lease_release(ctl, &leases->items[0], &released);
        xce_free(released.lease);
    }
    xce_free(leases);
    return status;
}

int exec_lease_get(struct ctl *ctl, const struct acquire_spec *spec, struct xce_lease **ret)
{
    for (int i = 0; i < TRIES; i++) {
        enum progress progress = GOING_ON;
        int status = get_once(ctl, spec, ret, &progress);

        if (status != EXIT_OK || progress == READY)
            return status;
        if (exec_signal_pending())
            return 128 + exec_signal_pending();
    }
    return ctl_fail(ctl, XCE_FAILED, "no lease became ready in %d tries", TRIES);
}

void exec_lease_renew(struct ctl *ctl, const struct xce_lease *lease)
{
    struct xce_call call = {.timeout_ms = RENEW_TIMEOUT_MS};
    struct xce_lease *renewed;
    int code = xce_lease_renew(ctl->client, &call, lease->lease, lease->epoch, 0, &renewed);

    if (code == XCE_OK)
        xce_free(renewed);
    else
        ctl_say(ctl, "lease %" PRIu64 " is not renewed: %s", lease->lease,
                xce_client_message(ctl->client));
}

/* No leased answers. Where noded is here it keeps the release, and ends what is here at once. Whether it does. */
static bool hand_over(struct ctl *ctl, const struct xce_lease *lease)
{
    struct xce_key key = {.kind = XCE_BY_LEASE, .lease = lease->lease};
    struct xce_call call = {.timeout_ms = HAND_OVER_TIMEOUT_MS};
    struct xce_client *noded;
    struct xce_deferred *kept;
    int code;

    if (access(NODED_SOCKET, F_OK) < 0 || noded_client(ctl, NULL, &noded) != EXIT_OK)
        return false;
    code = xce_lease_release_deferred(noded, &call, &key, &kept);
    if (code == XCE_OK) {
        ctl_say(ctl,
                "%s; lease %" PRIu64 " was released at noded of this machine, which tells leased "
                "when it is there",
                xce_client_message(ctl->client), lease->lease);
        xce_free(kept);
    } else {
        ctl_say(ctl, "noded of this machine does not take the release: %s",
                xce_client_message(noded));
    }
    xce_client_free(noded);
    return code == XCE_OK;
}

int exec_lease_release(struct ctl *ctl, const struct xce_lease *lease, struct exec_released *ret)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *after = NULL;
    int code = xce_lease_release(ctl->client, &call, lease->lease, lease->epoch, NULL, &after);

    *ret = (struct exec_released){.lease = code == XCE_OK ? after : NULL};
    if (code == XCE_OK)
        return EXIT_OK;
    /* It ended without us: expired, revoked. */
    if (code == XCE_NOT_FOUND || code == XCE_PRECONDITION)
        return EXIT_OK;
    ret->handed = (code == XCE_UNREACHABLE || code == XCE_TIMEOUT) && hand_over(ctl, lease);
    if (ret->handed)
        return EXIT_OK;
    if (lease->ttl_ms)
        ctl_say(ctl, "lease %" PRIu64 " could not be released; it ends with its ttl", lease->lease);
    return ctl_failed_change(ctl, code);
}
