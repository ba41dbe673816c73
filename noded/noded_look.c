/* Looks and sweeps run on threads of their own, since any of them may hang: a file system that is frozen, a disk or a server that
 * answers no more. A thread that hangs in the kernel can not be ended. One that stands still for too long is given up: whoever
 * waits for it is told so, with the place, and goes on with another looker. What the thread finds when it comes back is thrown
 * away, and it touches nothing any more. */
#include "noded/noded_look.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "common/thread.h"
#include "noded/noded_inside.h"

#define HUNG_MAX 4 /* threads that hang; no further look begins while there are as many */
#define WATCH_MS 1000

struct look {
    struct noded *n;
    struct looker *looker;
    const struct look_fns *fns;
    void *arg;
    struct loop_timer *watch;
    struct loop_wake *wake;
    uint64_t steps; /* when it was last looked at */
    int64_t
        stood_ms; /* so long it has not gone on since; a machine that slept meanwhile has not waited */
    bool given_up;
};

static void look_free(struct look *look)
{
    loop_timer_free(look->watch);
    loop_wake_free(look->wake);
    free(look);
}

static void *run(void *arg)
{
    struct look *look = arg;

    look->fns->work(look->arg);
    loop_wake_send(look->wake);
    return NULL;
}

/* On the loop: the thread is through. */
static void ended(void *arg)
{
    struct look *look = arg;
    struct noded *n = look->n;
    const struct look_fns *fns = look->fns;
    void *of = look->arg;

    if (!look->given_up) {
        look_free(look);
        noded_offload_done(n);
        fns->done(0, of);
        return;
    }
    n->n_hung--;
    log_notice(NULL, "a look that had been given up has ended; what it found counts no more");
    fns->late(of);
    looker_free(look->looker);
    look_free(look);
    noded_touch(n);
}

static void watch(void *arg)
{
    struct look *look = arg;
    struct noded *n = look->n;
    struct sweep_progress *progress = &look->looker->progress;
    uint64_t steps = atomic_load(&progress->steps);
    char where[SWEEP_DETAIL_MAX - 40];

    look->stood_ms = steps == look->steps ? look->stood_ms + WATCH_MS : 0;
    look->steps = steps;
    if (look->stood_ms < n->settings->look_limit_ms)
        return;
    sweep_progress_where(progress, where, sizeof(where));
    (void)snprintf(n->hung_where, sizeof(n->hung_where), "%s: no answer for %u s", where,
                   (unsigned)(look->stood_ms / 1000));
    log_error(NULL, "a look at what is left behind stands still and is given up: %s",
              n->hung_where);
    loop_timer_stop(look->watch);
    look->given_up = true;
    atomic_store(&look->looker->given_up, true);
    n->n_hung++;
    noded_looker_replace(n, look->looker);
    noded_offload_done(n);
    look->fns->hung(look->arg, n->hung_where);
}

struct refused {
    struct noded *n;
    const struct look_fns *fns;
    void *arg;
};

static void refuse(void *arg)
{
    struct refused *refused = arg;

    noded_offload_done(refused->n);
    refused->fns->hung(refused->arg, refused->n->hung_where);
    refused->fns->late(refused->arg);
    free(refused);
}

/* As many hang already as may. */
static void begin_none(struct noded *n, const struct look_fns *fns, void *arg)
{
    struct refused *refused = mem_must_calloc(1, sizeof(*refused));

    *refused = (struct refused){n, fns, arg};
    if (loop_defer(n->loop, refuse, refused) < 0)
        abort();
}

void noded_look(struct noded *n, struct looker *looker, const struct look_fns *fns, void *arg)
{
    struct look *look;
    pthread_t thread;

    n->n_jobs++;
    if (n->n_hung >= HUNG_MAX) {
        begin_none(n, fns, arg);
        return;
    }
    look = mem_must_calloc(1, sizeof(*look));
    look->n = n;
    look->looker = looker;
    look->fns = fns;
    look->arg = arg;
    look->steps = atomic_load(&looker->progress.steps);
    if (loop_timer_new(n->loop, watch, look, &look->watch) < 0 ||
        loop_wake_new(n->loop, ended, look, &look->wake) < 0)
        abort();
    loop_timer_start(look->watch, WATCH_MS, WATCH_MS);
    if (thread_start("look", 0, run, look, &thread) < 0) {
        log_error(NULL, "no thread for a look at what is left behind");
        look_free(look);
        (void)snprintf(n->hung_where, sizeof(n->hung_where), "no thread for it");
        begin_none(n, fns, arg);
        return;
    }
    (void)pthread_detach(thread);
}
