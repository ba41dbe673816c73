#include "ctl/wait.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/clock.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

struct wait {
    struct ctl *ctl;
    uint64_t lease;
    uint32_t epoch;
    enum wait_for what;
    bool listed, told; /* listed: the list that is under way had it */
};

static bool so_far(const struct wait *wait, int state)
{
    if (wait->what == WAIT_FREE)
        return state == XCE_FREE;
    return state == XCE_COOLING || state == XCE_RETIRED || state == XCE_FREE;
}

static void tell_hindrance(struct wait *wait, const struct xce_lease *lease)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);

    if (!lease->quarantined || wait->told)
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

/* Whether this event ends the waiting. */
static bool seen(struct wait *wait, const struct xce_event *event)
{
    switch (event->kind) {
    case XCE_EVENT_SKIPPED:
        wait->listed = false;
        return false;
    case XCE_EVENT_SYNCED:
        /* What is not in a whole list is free. */
        return !wait->listed;
    case XCE_EVENT_LISTED:
    case XCE_EVENT_LEASE:
        if (event->lease->lease != wait->lease)
            return false;
        wait->listed = true;
        tell_hindrance(wait, event->lease);
        return so_far(wait, event->lease->state);
    }
    return false;
}

int wait_lease(struct ctl *ctl, const struct xce_lease *lease, enum wait_for what,
               int64_t deadline_ms)
{
    struct wait wait = {.ctl = ctl, .lease = lease->lease, .epoch = lease->epoch, .what = what};
    struct xce_watch *watch;
    int code;

    if (so_far(&wait, lease->state))
        return EXIT_OK;
    tell_hindrance(&wait, lease);
    code = xce_watch_new(ctl->client, lease->revision, &watch);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    for (;;) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        struct xce_event *event;
        bool done;

        code = xce_watch_next(watch, left_ms < 0 ? 0 : left_ms, &event);
        if (code != XCE_OK)
            break;
        done = seen(&wait, event);
        xce_free(event);
        if (done)
            break;
    }
    xce_watch_free(watch);
    if (code == XCE_TIMEOUT)
        return ctl_fail(ctl, code,
                        "lease %" PRIu64 " (uid %u) is not %s in time: leasectl explain "
                        "--lease %" PRIu64 " says what it waits for",
                        lease->lease, lease->uid, what == WAIT_FREE ? "free" : "proved clean",
                        lease->lease);
    return code == XCE_OK ? EXIT_OK : ctl_failed(ctl, code);
}
