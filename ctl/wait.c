#include "ctl/wait.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/hostlist.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

struct wait {
    struct ctl *ctl;
    uint64_t lease;
    uint32_t epoch;
    enum wait_for what;
    const struct hostlist *nodes; /* NULL: wait for what */
    bool listed, told;            /* listed: the list that is under way had it */
    bool gone;                    /* a whole list does not have it */
    struct xce_event *last;       /* that was about it */
    int status;                   /* what ended the waiting */
};

static bool so_far(const struct wait *wait, int state)
{
    if (wait->what == WAIT_FREE)
        return state == XCE_FREE;
    return state == XCE_COOLING || state == XCE_RETIRED || state == XCE_FREE;
}

static int member_gone(const struct wait *wait, const struct xce_member *member)
{
    bool refused = *member->reason != 0;

    return ctl_fail(wait->ctl, XCE_PRECONDITION,
                    "node %s is no member of lease %" PRIu64 " any more: %s%s%s%s", member->node,
                    wait->lease, refused ? member->reason : "it was not ready in time, or let go",
                    *member->detail ? " (" : "", member->detail, *member->detail ? ")" : "");
}

/* Whether the members that are waited for are ready, or never will be. */
static bool members_settled(struct wait *wait, const struct xce_lease *lease)
{
    bool ready = lease->state == XCE_ACTIVE;

    if (lease->state != XCE_GRANTED && lease->state != XCE_ACTIVE) {
        wait->status = ctl_fail(wait->ctl, XCE_PRECONDITION, "lease %" PRIu64 " has ended: %s",
                                lease->lease, lease->end_cause);
        return true;
    }
    for (size_t i = 0; i < lease->n_members; i++) {
        const struct xce_member *member = &lease->members[i];

        if (!hostlist_contains(wait->nodes, member->node))
            continue;
        if (member->released) {
            wait->status = member_gone(wait, member);
            return true;
        }
        ready &= member->proof == XCE_PROOF_READY;
    }
    return ready;
}

static void tell_hindrance(struct wait *wait, const struct xce_lease *lease)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);

    if (!lease->quarantined || wait->told || wait->nodes)
        return;
    wait->told = true;
    view_strings(&text, lease->reasons, lease->n_reasons);
    for (size_t i = 0; i < lease->n_members; i++) {
        const struct xce_member *member = &lease->members[i];

        if (member->proof == XCE_PROOF_DIRTY)
            buf_addf(&text, "; %s: %s %s", member->node, member->reason, member->detail);
    }
    ctl_say(wait->ctl,
            "lease %" PRIu64 " is quarantined: %s (leasectl explain --lease %" PRIu64 ")",
            lease->lease, buf_str(&text), lease->lease);
}

static bool settled(struct wait *wait, const struct xce_lease *lease)
{
    tell_hindrance(wait, lease);
    return wait->nodes ? members_settled(wait, lease) : so_far(wait, lease->state);
}

/* It is not in a whole list: it is free. */
static bool gone(struct wait *wait)
{
    if (wait->nodes)
        wait->status = ctl_fail(wait->ctl, XCE_PRECONDITION, "lease %" PRIu64 " has ended",
                                wait->lease);
    wait->gone = true;
    return true;
}

/* Whether this event ends the waiting. */
static bool seen(struct wait *wait, const struct xce_event *event)
{
    switch (event->kind) {
    case XCE_EVENT_SKIPPED:
        wait->listed = false;
        return false;
    case XCE_EVENT_SYNCED:
        return !wait->listed && gone(wait);
    case XCE_EVENT_LISTED:
    case XCE_EVENT_LEASE:
        if (event->lease->lease != wait->lease)
            return false;
        wait->listed = true;
        return settled(wait, event->lease);
    }
    return false;
}

/* XCE_OK: it is settled, and status says how. */
static int follow(struct wait *wait, uint64_t revision, int64_t deadline_ms)
{
    struct xce_watch *watch;
    int code = xce_watch_new(wait->ctl->client, revision, &watch);

    if (code != XCE_OK)
        return code;
    for (;;) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        struct xce_event *event;
        bool done;

        code = xce_watch_next(watch, left_ms < 0 ? 0 : left_ms, &event);
        if (code != XCE_OK)
            break;
        done = seen(wait, event);
        if (event->lease && event->lease->lease == wait->lease) {
            xce_free(wait->last);
            wait->last = event;
        } else {
            xce_free(event);
        }
        if (done)
            break;
    }
    xce_watch_free(watch);
    return code;
}

static int run(struct wait *wait, const struct xce_lease *lease, const char *goal,
               int64_t deadline_ms)
{
    int code;

    if (settled(wait, lease))
        return wait->status;
    code = follow(wait, lease->revision, deadline_ms);
    if (code == XCE_TIMEOUT)
        return ctl_fail(wait->ctl, code,
                        "lease %" PRIu64 " (uid %u) is not %s in time: leasectl explain "
                        "--lease %" PRIu64 " says what it waits for",
                        lease->lease, lease->uid, goal, lease->lease);
    return code == XCE_OK ? wait->status : ctl_failed(wait->ctl, code);
}

int wait_lease(struct ctl *ctl, const struct xce_lease *lease, enum wait_for what,
               int64_t deadline_ms, struct wait_end *ret)
{
    struct wait wait = {.ctl = ctl, .lease = lease->lease, .epoch = lease->epoch, .what = what};
    int status = run(&wait, lease, what == WAIT_FREE ? "free" : "proved clean", deadline_ms);

    *ret = (struct wait_end){.last = wait.last, .gone = wait.gone};
    return status;
}

void wait_end_done(struct wait_end *end)
{
    xce_free(end->last);
    end->last = NULL;
}

int wait_members(struct ctl *ctl, const struct xce_lease *lease, const struct hostlist *nodes,
                 int64_t deadline_ms)
{
    struct wait wait = {.ctl = ctl, .lease = lease->lease, .epoch = lease->epoch, .nodes = nodes};
    int status = run(&wait, lease, "ready on all of these nodes", deadline_ms);

    xce_free(wait.last);
    return status;
}
