/* Passes over the pools' ranges: whatever runs under a uid that is not here is ended and reported; what somebody else has an
 * account for is only reported. A pass looks at what runs alone, so that no disk can hold it up; what lies around is walked for
 * behind it (noded_walk.c). */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"

#define KILL_WAIT_MS       2000
#define KILL_WAIT_AGAIN_MS 100 /* for what sweeps have waited for */

/* look (thread) ─▶ judge ─▶ ask about accounts ─▶ end (thread) ─▶ report */
struct pass {
    struct noded *n;
    struct looker *looker;
    struct span {
        uint32_t first, last;
    } spans[XCE_RANGES_MAX];
    size_t n_spans;
    bool clean;
    struct sweep look, end;
    uint64_t retired_nr;          /* of the last one when it began */
    struct state_epoch *suspects; /* sorted */
    size_t n_suspects;
    struct verdicts found; /* what of each suspect, for the report */
    uint32_t *numbers;
    size_t n_numbers;
    struct sweep_list list;
};

/* ---- what somebody else has ---- */

void noded_block(struct noded *n, uint32_t uid, unsigned reason, const char *detail)
{
    if (uid_list_has(&n->blocked, uid))
        return;
    uid_list_add(&n->blocked, &(struct state_epoch){.uid = uid});
    atomic_store(&n->sweeper->stale, true);
    atomic_store(&n->guarder->stale, true);
    log_error(
        LOG_FIELDS(.message_id = LOG_ID_BLOCKED, .uid = uid),
        "the uid is in a pool, but not free on this machine (%s: %s): nothing of it is touched",
        reason_word((enum reason)reason), detail);
    session_block(n->session, uid, reason, detail);
}

/* ---- the end of a pass ---- */

static void pass_free(struct pass *p)
{
    sweep_done(&p->look);
    sweep_done(&p->end);
    verdicts_done(&p->found);
    free(p->suspects);
    free(p->numbers);
    free(p);
}

static void pass_finish(struct pass *p)
{
    struct noded *n = p->n;
    bool held = noded_left_holds(n) || noded_nscd_behind(n);
    enum guard_verdict verdict = !p->clean ? GUARD_DIRTY : held ? GUARD_HELD : GUARD_CLEAN;
    unsigned outcome;

    if (guard_walk_counts(&n->guard, verdict))
        noded_walk_counts(n);
    outcome = guard_end(&n->guard, loop_now_ms(n->loop), verdict,
                        noded_walk_wanted(n, p->retired_nr));
    if (outcome & GUARD_RISEN)
        session_watermark(n->session, n->guard.watermark);
    if (outcome & GUARD_WALK)
        noded_walk_begin(n, p->retired_nr);
    pass_free(p);
    noded_touch(n);
}

/* Nothing is proved. The thread keeps the pass that it works on. */
static void pass_hung(void *arg, const char *where)
{
    struct noded *n = ((struct pass *)arg)->n;

    guard_hung(&n->guard, loop_now_ms(n->loop));
    noded_touch(n);
}

static void pass_late(void *arg)
{
    pass_free(arg);
}

/* ---- end what must not be ---- */

static bool may_end(uint32_t id, void *arg)
{
    struct pass *p = arg;

    return sweep_list_has(id, &p->list) && looker_may_touch(p->looker) &&
           !atomic_load(&p->looker->stale) && !node_map_here(&p->looker->map, id);
}

static void end_work(void *arg)
{
    struct pass *p = arg;

    sweep_run(&p->end, SWEEP_RUNNING);
}

/* Nothing of it ran: the end of a unit that had failed was all, and is nobody's stray. */
static bool only_lay(struct pass *p, uint32_t uid)
{
    const struct sweep_finding *left = sweep_verdict(&p->end, uid);

    return !verdicts_of(&p->found, uid) &&
           (!left || left->uid == 0 || left->reason == REASON_UNIT_FAILED);
}

static void ended(int r, void *arg)
{
    struct pass *p = arg;
    struct noded *n = p->n;

    for (size_t i = 0; i < p->n_numbers; i++) {
        uint32_t uid = p->numbers[i];
        const struct state_verdict *v = verdicts_of(&p->found, uid);
        const struct sweep_finding *left = sweep_verdict(&p->end, uid);
        bool lay = only_lay(p, uid);
        if (state_standing(n->state, uid) == STANDS_SWEPT) { /* the sweep tells */
            if (!lay)
                state_stray(n->state, uid, REASON_PROCESS, v ? v->detail : left->detail);
            continue;
        }
        if (lay) {
            log_info(LOG_FIELDS(.uid = uid), "%s of a failed unit with the uid, which is not here",
                     left ? "can not reset the state" : "reset the state");
            continue;
        }
        if (left && left->reason != REASON_PROCESS)
            log_error(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = uid),
                      "something runs under the uid, which is not here, and does not end: %s: %s",
                      reason_word(left->reason), left->detail);
        else
            log_warning(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = uid),
                        "ended what ran under the uid, which is not here: %s",
                        v ? v->detail : left->detail);
        state_stray(n->state, uid, REASON_PROCESS, v ? v->detail : left->detail);
    }
    pass_finish(p);
}

/* A pass that waits for what a sweep could not end either would hold up all uids that are to be free. */
static int64_t patience_ms(const struct pass *p)
{
    for (size_t i = 0; i < p->n_numbers; i++)
        if (state_standing(p->n->state, p->numbers[i]) != STANDS_SWEPT)
            return KILL_WAIT_MS;
    return KILL_WAIT_AGAIN_MS;
}

static const struct look_fns end_look = {end_work, ended, pass_hung, pass_late};

static void asked(struct noded *n, bool failed, const struct verdicts *found, void *arg)
{
    struct pass *p = arg;
    bool stale = atomic_load(&p->looker->stale);

    for (size_t i = 0; !failed && i < p->n_suspects; i++) {
        uint32_t uid = p->suspects[i].uid;
        const struct state_verdict *v = verdicts_of(found, uid);
        if (!v && !stale)
            p->numbers[p->n_numbers++] = uid;
        else if (v && v->reason != REASON_SCAN_FAILED)
            noded_block(n, uid, v->reason, v->detail);
    }
    if (failed)
        log_warning(NULL,
                    "the name services do not answer: what runs and is not here is left alone");
    if (p->n_numbers == 0 || atomic_load(&n->stopping)) {
        pass_finish(p);
        return;
    }
    p->list = (struct sweep_list){p->numbers, p->n_numbers};
    p->end = (struct sweep){
        .places = &p->looker->places,
        .progress = &p->looker->progress,
        .ids = {p->numbers[0], p->numbers[p->n_numbers - 1], may_end, p},
        .uids = p->numbers,
        .n_uids = p->n_numbers,
        .remove = true,
        .wait_ms = patience_ms(p),
    };
    p->looker->min = p->end.ids.min;
    p->looker->max = p->end.ids.max;
    atomic_store(&p->looker->stale, false);
    noded_look(n, p->looker, &end_look, p);
}

/* ---- judge ---- */

static int by_uid(const void *a, const void *b)
{
    uint32_t x = ((const struct state_epoch *)a)->uid, y = ((const struct state_epoch *)b)->uid;

    return x < y ? -1 : x > y;
}

static void suspect_add(struct pass *p, uint32_t uid)
{
    for (size_t i = 0; i < p->n_suspects; i++)
        if (p->suspects[i].uid == uid)
            return;
    p->suspects[p->n_suspects++] = (struct state_epoch){.uid = uid};
}

/* In a pool that is not guarded here, and is not to be: nothing of it is touched. Its uid waits for it, but not all the others:
 * what has retired drains again and is dirty here, what nobody has is blocked, and no pass is clean before leased knows. */
static void unguarded_judge(struct pass *p, const struct sweep_finding *f,
                            enum state_standing standing)
{
    struct noded *n = p->n;

    log_error(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = f->uid),
              "something runs under the uid (%s), in a pool that is not guarded here", f->detail);
    /* A lease whose name is here has not retired: no watermark of this pass frees its uid. */
    if (standing != STANDS_NOT || uid_list_has(&n->leftover, f->uid))
        return;
    p->clean = false;
    if (!n->complete || n->listing) /* it may have a lease */
        return;
    if (state_is_retired(n->state, f->uid))
        state_stray(n->state, f->uid, f->reason, f->detail);
    else
        noded_left_found(n, &(struct state_verdict){f->uid, 0, f->reason, f->detail});
}

/* No process of the uid, but root's, which acts for it. Of one whose lease stands elsewhere that says nothing; of others the pass
 * proves nothing as long as it does. */
static void lent_judge(struct pass *p, const struct sweep_finding *f, enum state_standing standing)
{
    if (standing == STANDS_NAMED || standing == STANDS_SWEPT)
        return;
    p->clean = false;
    log_warning(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = f->uid),
                "a process of root acts with the uid, which is not here, and is left alone: %s",
                f->detail);
}

/* What one finding says of this node: nothing against it if it has become here meanwhile, if it is somebody's and leased
 * knows, if the map was lost and it is not yet known whether its lease stands, or if it is but a unit that has failed. Where
 * leased waits for our sweep anyway the watermark need not wait as well, but the next try of a sweep may be half a minute
 * away: it is ended now. */
static void finding_judge(struct pass *p, const struct sweep_finding *f)
{
    struct noded *n = p->n;
    const struct state_pool *pool;
    enum state_standing standing;
    bool runs = f->reason != REASON_UNIT_FAILED;

    if (f->uid == 0) {
        log_warning(NULL, "a look at what runs here failed: %s", f->detail);
        p->clean = false;
        return;
    }
    standing = state_standing(n->state, f->uid);
    if (standing == STANDS_HERE || uid_list_has(&n->blocked, f->uid))
        return;
    pool = state_pool_of(n->state, f->uid);
    if (runs && pool && pool->check == POOL_FAILED) {
        unguarded_judge(p, f, standing);
        return;
    }
    if (f->reason == REASON_PROCESS_LENT) {
        lent_judge(p, f, standing);
        return;
    }
    if (runs && standing != STANDS_SWEPT)
        p->clean = false;
    if ((!n->complete || standing == STANDS_NAMED) && state_was_admitted(n->state, f->uid))
        return;
    if (!pool || pool->check != POOL_PASSED) {
        if (!runs)
            return;
        log_error(LOG_FIELDS(.message_id = LOG_ID_STRAY, .uid = f->uid),
                  "something runs under the uid (%s), in a pool that is not guarded here",
                  f->detail);
        return;
    }
    suspect_add(p, f->uid);
    if (runs && !verdicts_of(&p->found, f->uid))
        verdicts_add(&p->found, f->uid, 0, f->reason, f->detail);
}

static void looked(int r, void *arg)
{
    struct pass *p = arg;
    struct noded *n = p->n;

    guard_looked(&n->guard, loop_now_ms(n->loop));
    p->clean = r == 0 && !p->looker->map.unsure && !p->look.overflow && !atomic_load(&n->stopping);
    p->suspects = mem_must_calloc(p->look.n_findings + 1, sizeof(*p->suspects));
    p->numbers = mem_must_calloc(p->look.n_findings + 1, sizeof(*p->numbers));
    for (size_t i = 0; i < p->look.n_findings; i++)
        finding_judge(p, &p->look.findings[i]);
    if (p->n_suspects == 0 || atomic_load(&n->stopping)) {
        pass_finish(p);
        return;
    }
    qsort(p->suspects, p->n_suspects, sizeof(*p->suspects), by_uid);
    atomic_store(&p->looker->stale, false);
    noded_ask(n, p->suspects, p->n_suspects, asked, p);
}

/* ---- look ---- */

static bool is_not_here(uint32_t id, void *arg)
{
    struct pass *p = arg;

    for (size_t i = 0; i < p->n_spans; i++)
        if (id >= p->spans[i].first && id <= p->spans[i].last)
            return looker_may_touch(p->looker) && !node_map_here(&p->looker->map, id);
    return false;
}

static void look_work(void *arg)
{
    struct pass *p = arg;

    sweep_run(&p->look, SWEEP_RUNNING);
}

static const struct look_fns look_look = {look_work, looked, pass_hung, pass_late};

static void pass_begin(struct noded *n, int64_t now_ms)
{
    struct pass *p = mem_must_calloc(1, sizeof(*p));
    size_t n_pools;
    const struct state_pool *pools = state_pools(n->state, &n_pools);
    uint32_t min = UINT32_MAX, max = 0;

    p->n = n;
    p->looker = n->guarder;
    for (size_t i = 0; i < n_pools; i++) {
        p->spans[p->n_spans++] = (struct span){pools[i].first, pools[i].last};
        min = pools[i].first < min ? pools[i].first : min;
        max = pools[i].last > max ? pools[i].last : max;
    }
    noded_looker_ready(n, p->looker);
    p->looker->min = min;
    p->looker->max = max;
    p->look = (struct sweep){
        .places = &p->looker->places,
        .progress = &p->looker->progress,
        .ids = {min, max, is_not_here, p},
    };
    p->retired_nr = n->retired.nr;
    /* While a list is coming in the map does not hold all up to any revision. */
    guard_begin(&n->guard, now_ms, n->complete && !n->listing ? n->revision : 0);
    noded_look(n, p->looker, &look_look, p);
}

static bool is_named(const struct noded *n)
{
    struct state_counts counts;

    state_count(n->state, &counts);
    return counts.ended || counts.named || counts.retired;
}

int64_t noded_guard_next_ms(const struct noded *n)
{
    return guard_next_ms(&n->guard, is_named(n), n->complete && !n->listing);
}

void noded_guard_settle(struct noded *n, int64_t now_ms)
{
    if (!atomic_load(&n->stopping) && now_ms >= noded_guard_next_ms(n))
        pass_begin(n, now_ms);
}
