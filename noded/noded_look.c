/* Looks and sweeps run on threads of their own, since any of them may hang: a file system that is frozen, a disk or a server that
 * answers no more. A thread that hangs in the kernel can not be ended. One that stands still for too long is given up: whoever
 * waits for it is told so, with the place, and goes on with another looker. What the thread finds when it comes back is thrown
 * away, and it touches nothing any more.
 *
 * The place is remembered as long as the thread hangs there, which is how it is seen that it answers again: no other one is sent
 * to what lies around meanwhile, or each would hang as well. What looks at processes alone goes on, until eight of them hang. */
#include "noded/noded_look.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "common/thread.h"
#include "noded/noded_inside.h"

#define WATCH_MS 1000
/* Threads that hang in looks at what runs, each in another look: something is wrong with this machine's kernel. */
#define HUNG_RUNNING_MAX 8

struct look {
    struct noded *n;
    struct looker *looker;
    const struct look_fns *fns;
    void *arg;
    struct loop_timer *watch;
    struct loop_wake *wake;
    uint64_t steps; /* when it was last looked at */
    /* so long it has not gone on since; a machine that slept meanwhile has not waited */
    int64_t stood_ms;
    bool given_up;
    bool answers; /* and it has gone on since */
    char where[SWEEP_DETAIL_MAX];
    LIST_ENTRY(look) link; /* of those that are given up */
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

const char *noded_look_hangs(const struct noded *n)
{
    const struct look *look;

    LIST_FOREACH(look, &n->hung, link)
    if (look->fns->walks && !look->answers)
        return look->where;
    return NULL;
}

/* No uid of this node becomes free meanwhile: leased can say why. */
static void hangs_say(struct noded *n)
{
    session_hangs(n->session, noded_look_hangs(n));
}

/* What waits for it goes on at once, if it was the last one. */
static void answers_again(struct look *look)
{
    struct noded *n = look->n;

    if (look->answers)
        return;
    look->answers = true;
    hangs_say(n);
    if (noded_look_hangs(n))
        return;
    guard_walk_want(&n->guard);
    state_sweep_now(n->state);
    noded_left_sweep_now(n);
    noded_touch(n);
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
    answers_again(look);
    LIST_REMOVE(look, link);
    n->n_hung--;
    log_notice(NULL, "a look that had been given up has ended; what it found counts no more");
    fns->late(of);
    looker_free(look->looker);
    look_free(look);
    noded_touch(n);
}

static void give_up(struct look *look)
{
    struct noded *n = look->n;
    char place[SWEEP_DETAIL_MAX - 40];

    sweep_progress_where(&look->looker->progress, place, sizeof(place));
    (void)snprintf(look->where, sizeof(look->where), "%s: no answer for %u s", place,
                   (unsigned)(look->stood_ms / 1000));
    log_error(NULL, "a look at what is left behind stands still and is given up: %s", look->where);
    look->given_up = true;
    atomic_store(&look->looker->given_up, true);
    sweep_progress_stop(&look->looker->progress);
    LIST_INSERT_HEAD(&n->hung, look, link);
    n->n_hung++;
    hangs_say(n);
    noded_looker_replace(n, look->looker);
    noded_offload_done(n);
    look->fns->hung(look->arg, look->where);
}

/* It had gone on for a while only. */
static void hangs_again(struct look *look)
{
    look->answers = false;
    hangs_say(look->n);
}

static void watch(void *arg)
{
    struct look *look = arg;
    uint64_t steps = atomic_load(&look->looker->progress.steps);
    bool stands = steps == look->steps;

    look->steps = steps;
    look->stood_ms = stands ? look->stood_ms + WATCH_MS : 0;
    if (look->given_up && !stands)
        answers_again(look);
    else if (look->answers && look->stood_ms >= look->n->settings->look_limit_ms)
        hangs_again(look);
    else if (!look->given_up && look->stood_ms >= look->n->settings->look_limit_ms)
        give_up(look);
}

struct refused {
    struct noded *n;
    const struct look_fns *fns;
    void *arg;
    char where[SWEEP_DETAIL_MAX];
};

static void refuse(void *arg)
{
    struct refused *refused = arg;

    noded_offload_done(refused->n);
    refused->fns->hung(refused->arg, refused->where);
    refused->fns->late(refused->arg);
    free(refused);
}

static void begin_none(struct noded *n, const struct look_fns *fns, void *arg, const char *where)
{
    struct refused *refused = mem_must_calloc(1, sizeof(*refused));

    *refused = (struct refused){.n = n, .fns = fns, .arg = arg};
    (void)snprintf(refused->where, sizeof(refused->where), "%s", where);
    if (loop_defer(n->loop, refuse, refused) < 0)
        abort();
}

/* Why no other thread is sent there; NULL = one may be. */
static const char *hangs_too(const struct noded *n, const struct look_fns *fns)
{
    const struct look *look, *one = NULL;
    unsigned n_running = 0;

    if (fns->walks)
        return noded_look_hangs(n);
    LIST_FOREACH(look, &n->hung, link)
    if (!look->fns->walks) {
        n_running++;
        one = look;
    }
    return n_running >= HUNG_RUNNING_MAX ? one->where : NULL;
}

void noded_look(struct noded *n, struct looker *looker, const struct look_fns *fns, void *arg)
{
    const char *hangs = hangs_too(n, fns);
    struct look *look;
    pthread_t thread;

    n->n_jobs++;
    if (hangs) {
        begin_none(n, fns, arg, hangs);
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
        begin_none(n, fns, arg, "no thread for it");
        return;
    }
    (void)pthread_detach(thread);
}
