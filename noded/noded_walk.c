/* Walks: what has retired is looked for among all that may lie around. A dump or a mail can come after the sweep that called it
 * clean, and nobody looks again before the uid is somebody else's. A walk follows a clean pass, and has a looker of its own:
 * passes go on while it takes long, or hangs. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"

struct walk {
    struct noded *n;
    struct looker *looker;
    uint64_t nr;    /* it is for all that had retired when this one was the last */
    uint32_t *uids; /* sorted */
    struct sweep_list list;
    bool waits; /* of some the pool is not checked */
    bool clean;
    struct sweep sweep;
};

/* ---- what has retired ---- */

/* Those of guarded pools that are retired still: for what is free by now nobody waits, nor would sweep it. */
static bool is_waited_for(uint32_t uid, void *arg)
{
    struct noded *n = arg;
    const struct state_pool *pool = state_pool_of(n->state, uid);

    return state_is_retired(n->state, uid) && pool && pool->check != POOL_FAILED;
}

bool noded_walk_wanted(struct noded *n, uint64_t nr)
{
    retired_tidy(&n->retired, is_waited_for, n);
    return retired_wanted(&n->retired, nr);
}

void noded_walk_counts(struct noded *n)
{
    retired_walked(&n->retired, n->walked_nr);
}

/* ---- its end ---- */

static void walk_free(struct walk *w)
{
    sweep_done(&w->sweep);
    free(w->uids);
    free(w);
}

/* Something came after the sweep: it is a stray, and another sweep takes it away. */
static void judge(struct walk *w, const struct sweep_finding *f)
{
    struct noded *n = w->n;

    if (f->uid == 0) {
        log_warning(NULL, "a look at what was left behind failed: %s", f->detail);
        w->clean = false;
        return;
    }
    if (!state_is_retired(n->state, f->uid) || uid_list_has(&n->blocked, f->uid))
        return;
    w->clean = false;
    log_warning(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = f->uid),
                "something of the uid came after it was clean: %s: %s", reason_word(f->reason),
                f->detail);
    state_stray(n->state, f->uid, f->reason, f->detail);
}

static void finish(struct walk *w)
{
    struct noded *n = w->n;

    if (guard_walk_end(&n->guard, loop_now_ms(n->loop), w->clean))
        n->walked_nr = w->nr;
    walk_free(w);
    noded_touch(n);
}

static void looked(int r, void *arg)
{
    struct walk *w = arg;

    w->clean = r == 0 && !w->looker->map.unsure && !w->sweep.overflow && !w->waits &&
               !atomic_load(&w->n->stopping);
    for (size_t i = 0; i < w->sweep.n_findings; i++)
        judge(w, &w->sweep.findings[i]);
    finish(w);
}

/* Nothing is proved. The thread keeps the walk that it works on. */
static void hung(void *arg, const char *where)
{
    struct noded *n = ((struct walk *)arg)->n;

    guard_walk_hung(&n->guard, loop_now_ms(n->loop));
    noded_touch(n);
}

static void late(void *arg)
{
    walk_free(arg);
}

/* ---- the walk ---- */

static bool is_retired(uint32_t id, void *arg)
{
    struct walk *w = arg;

    return sweep_list_has(id, &w->list) && looker_may_touch(w->looker) &&
           !node_map_here(&w->looker->map, id);
}

static void work(void *arg)
{
    struct walk *w = arg;

    sweep_run(&w->sweep, SWEEP_LYING);
}

/* A pool that is not checked yet may be guarded soon: until then no walk is clean. */
static void take(struct walk *w)
{
    struct noded *n = w->n;
    size_t taken = 0;

    w->uids = mem_must_calloc(n->retired.n + 1, sizeof(*w->uids));
    for (size_t i = 0; i < n->retired.n; i++) {
        const struct retired *item = &n->retired.items[i];
        const struct state_pool *pool = state_pool_of(n->state, item->uid);
        if (item->first > w->nr)
            continue;
        if (pool && pool->check == POOL_PASSED)
            w->uids[taken++] = item->uid;
        else
            w->waits = true;
    }
    w->list = (struct sweep_list){w->uids, taken};
}

static const struct look_fns walk_look = {work, looked, hung, late, .walks = true};

void noded_walk_begin(struct noded *n, uint64_t nr)
{
    struct walk *w = mem_must_calloc(1, sizeof(*w));

    w->n = n;
    w->looker = n->walker;
    w->nr = nr;
    take(w);
    guard_walk_begin(&n->guard, loop_now_ms(n->loop));
    if (w->list.n == 0) {
        finish(w);
        return;
    }
    noded_looker_ready(n, w->looker);
    w->looker->min = w->uids[0];
    w->looker->max = w->uids[w->list.n - 1];
    w->sweep = (struct sweep){
        .places = &w->looker->places,
        .progress = &w->looker->progress,
        .ids = {w->looker->min, w->looker->max, is_retired, w},
    };
    noded_look(n, w->looker, &walk_look, w);
}
