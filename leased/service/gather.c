#include "leased/service/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/err.h"
#include "leased/service/internal.h"
#include "map/name.h"

/* Less than another replica, or a client, has for its answer. */
#define WAIT_MS     6000
#define KEPT_MS     30000
#define WAITERS_MAX 64

struct waiter {
    TAILQ_ENTRY(waiter) link;
    int64_t until_ms;
    gather_fn done;
    void *arg;
};

TAILQ_HEAD(waiters, waiter);

/* What the other thread has; it may outlive all else. */
struct listing {
    struct gather *gather; /* NULL: nobody wants it any more */
    char prefix[NAME_PREFIX_MAX + 1];
    struct overlap overlap;
    int r;
};

struct gather {
    struct service *service;
    struct waiters waiters;
    size_t n_waiters;
    struct listing *listing; /* under way */
    bool missed;             /* somebody who waited for it does no more */
    struct listing *kept;
    int64_t kept_until_ms;
};

static void listing_free(struct listing *listing)
{
    if (!listing)
        return;
    overlap_done(&listing->overlap);
    free(listing);
}

int gather_new(struct service *service, struct gather **ret)
{
    struct gather *gather = calloc(1, sizeof *gather);

    if (!gather)
        return -ENOMEM;
    gather->service = service;
    TAILQ_INIT(&gather->waiters);
    *ret = gather;
    return 0;
}

static void leave(struct gather *gather, struct waiter *waiter)
{
    TAILQ_REMOVE(&gather->waiters, waiter, link);
    gather->n_waiters--;
    free(waiter);
}

void gather_free(struct gather *gather)
{
    struct waiter *waiter;

    if (!gather)
        return;
    while ((waiter = TAILQ_FIRST(&gather->waiters)))
        leave(gather, waiter);
    if (gather->listing)
        gather->listing->gather = NULL;
    listing_free(gather->kept);
    free(gather);
}

const char *gather_why(int r)
{
    if (r == -ETIMEDOUT)
        return "its accounts take long to list: ask again soon";
    return r == -EHOSTDOWN ? "one of its name services does not answer" : err_text(r);
}

/* ---- listing ---- */

static void work(void *arg)
{
    struct listing *listing = arg;
    const struct overlap_sources sources = {
        .login_defs = "/etc/login.defs",
        .subuid = "/etc/subuid",
        .subgid = "/etc/subgid",
        .passwd = "/etc/passwd",
        .group = "/etc/group",
        .nsswitch = "/etc/nsswitch.conf",
        .prefix = listing->prefix,
    };

    listing->r = overlap_gather(&sources, &listing->overlap);
}

/* Whoever waits now; who comes while they are told waits for the next one. */
static void tell(struct gather *gather, int r, const struct overlap *overlap)
{
    struct waiters told = TAILQ_HEAD_INITIALIZER(told);
    struct waiter *waiter;

    TAILQ_CONCAT(&told, &gather->waiters, link);
    gather->n_waiters = 0;
    while ((waiter = TAILQ_FIRST(&told))) {
        TAILQ_REMOVE(&told, waiter, link);
        waiter->done(r, r == 0 ? overlap : NULL, waiter->arg);
        free(waiter);
    }
}

static void listed(int r, void *arg)
{
    struct listing *listing = arg;
    struct gather *gather = listing->gather;

    if (!gather) {
        listing_free(listing);
        return;
    }
    gather->listing = NULL;
    if (r == 0 && gather->missed) {
        gather->kept = listing;
        gather->kept_until_ms = gather->service->deps.mono_ms() + KEPT_MS;
        tell(gather, listing->r, &listing->overlap);
    } else {
        tell(gather, r < 0 ? r : listing->r, &listing->overlap);
        listing_free(listing);
    }
}

static int begin(struct gather *gather)
{
    const struct service_deps *deps = &gather->service->deps;
    const char *prefix = fsm_prefix(service_fsm(gather->service));
    struct listing *listing = calloc(1, sizeof *listing);

    if (!listing)
        return -ENOMEM;
    listing->gather = gather;
    memcpy(listing->prefix, prefix, strlen(prefix) + 1);
    if (deps->offload(work, listed, listing, deps->offload_arg) < 0) {
        free(listing);
        return -ENOMEM;
    }
    gather->listing = listing;
    gather->missed = false;
    return 0;
}

/* ---- waiting ---- */

static void drop_old(struct gather *gather)
{
    if (!gather->kept || gather->service->deps.mono_ms() < gather->kept_until_ms)
        return;
    listing_free(gather->kept);
    gather->kept = NULL;
}

int gather_wait(struct gather *gather, gather_fn done, void *arg)
{
    struct waiter *waiter;
    int r = 0;

    if (gather->n_waiters == WAITERS_MAX)
        return -ENOBUFS;
    waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return -ENOMEM;
    drop_old(gather);
    if (!gather->kept && !gather->listing)
        r = begin(gather);
    if (r < 0) {
        free(waiter);
        return r;
    }
    *waiter = (struct waiter){
        .until_ms = gather->service->deps.mono_ms() + WAIT_MS, .done = done, .arg = arg};
    TAILQ_INSERT_TAIL(&gather->waiters, waiter, link);
    gather->n_waiters++;
    return 0;
}

void gather_forget(struct gather *gather, const void *arg)
{
    struct waiter *waiter;

    TAILQ_FOREACH(waiter, &gather->waiters, link)
    if (waiter->arg == arg) {
        gather->missed = true;
        leave(gather, waiter);
        return;
    }
}

void gather_elapse(struct gather *gather)
{
    int64_t now_ms = gather->service->deps.mono_ms();
    struct waiter *waiter;

    if (gather->kept)
        tell(gather, gather->kept->r, &gather->kept->overlap);
    drop_old(gather);
    /* In order of their time. */
    while ((waiter = TAILQ_FIRST(&gather->waiters)) && now_ms >= waiter->until_ms) {
        gather_fn done = waiter->done;
        void *arg = waiter->arg;

        gather->missed = true;
        leave(gather, waiter);
        done(-ETIMEDOUT, NULL, arg);
    }
}

void gather_stop(struct gather *gather)
{
    tell(gather, -ECANCELED, NULL);
}
