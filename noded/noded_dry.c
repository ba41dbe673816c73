/* A dry run of all sweeps: what runs or lies around under uids of guarded pools that are not here, and what would become of it.
 * Nothing is removed. It has a looker of its own, and holds up neither sweeps nor passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"

#define TOLD_MAX    500
#define PATIENCE_MS 10000 /* who asks waits for half a minute, if he has not said otherwise */

/* look (thread) ─▶ ask about accounts ─▶ tell */
struct dry {
    struct noded *n;
    struct looker *looker;
    uint64_t questions[DRY_QUESTIONS_MAX];
    size_t n_questions;
    struct span {
        uint32_t first, last;
    } spans[XCE_RANGES_MAX];
    size_t n_spans;
    struct sweep sweep;
    uint64_t steps; /* of the look, at the last beat; and when it had gone on last */
    int64_t moved_ms;
    char unseen[SWEEP_DETAIL_MAX]; /* what lies around is not looked at, and why; "" = it is */
};

static void begin(struct noded *n);

/* ---- the answer ---- */

static bool runs(enum reason reason)
{
    return reason == REASON_PROCESS || reason == REASON_PROCESS_UNKILLABLE ||
           reason == REASON_UNIT || reason == REASON_UNIT_FAILED;
}

/* As docs/node.md and leasectl(1) have it. */
static const char *would(const struct dry *d, const struct sweep_finding *f,
                         const struct verdicts *accounts)
{
    struct noded *n = d->n;

    if (f->uid == 0 || f->reason == REASON_GROUP_MEMBER || uid_list_has(&n->blocked, f->uid) ||
        verdicts_of(accounts, f->uid))
        return "leave";
    if (runs(f->reason))
        return "end";
    /* Of a uid that is in no hand the rest goes before its next lease. */
    return state_standing(n->state, f->uid) == STANDS_SWEPT || retired_has(&n->retired, f->uid) ||
                   uid_list_has(&n->leftover, f->uid)
               ? "remove"
               : "later";
}

static void finish(struct dry *d, const struct verdicts *accounts)
{
    struct noded *n = d->n;
    const struct sweep *s = &d->sweep;
    size_t n_told = s->n_findings < TOLD_MAX ? s->n_findings : TOLD_MAX;
    auto_free struct session_remnant *told = mem_must_calloc(n_told + 1, sizeof(*told));
    uint32_t left_out = (uint32_t)(s->n_findings - n_told) + s->overflow;

    for (size_t i = 0; i < n_told; i++) {
        const struct sweep_finding *f = &s->findings[i];
        told[i] = (struct session_remnant){f->uid, reason_word(f->reason), f->count,
                                           would(d, f, accounts), f->detail};
    }
    for (size_t i = 0; i < d->n_questions; i++)
        session_dry(n->session, d->questions[i], told, n_told, left_out);
    sweep_done(&d->sweep);
    looker_free(d->looker);
    free(d);
    n->dry.look = NULL;
    n->dry.running = false;
    if (n->dry.n_questions && !atomic_load(&n->stopping))
        begin(n);
    noded_touch(n);
}

/* Whose account it may be is not known: nothing of it would be touched then. */
static void asked(struct noded *n, bool failed, const struct verdicts *found, void *arg)
{
    struct dry *d = arg;

    (void)n;
    if (failed)
        sweep_found(&d->sweep, 0, REASON_SCAN_FAILED,
                    "the name services of this machine do not answer");
    finish(d, found);
}

static int by_uid(const void *a, const void *b)
{
    uint32_t x = ((const struct state_epoch *)a)->uid, y = ((const struct state_epoch *)b)->uid;

    return x < y ? -1 : x > y;
}

/* What it has found is there; only the name services are waited for. */
static void looked(int r, void *arg)
{
    struct dry *d = arg;
    const struct sweep *s = &d->sweep;
    struct state_epoch *uids;
    size_t n_uids = 0, kept = 0;

    (void)r;
    d->n->dry.look = NULL;
    if (*d->unseen)
        sweep_found(&d->sweep, 0, REASON_SCAN_FAILED, "%s", d->unseen);
    uids = mem_must_calloc(s->n_findings + 1, sizeof(*uids));
    for (size_t i = 0; i < s->n_findings; i++)
        if (s->findings[i].uid)
            uids[n_uids++] = (struct state_epoch){.uid = s->findings[i].uid};
    qsort(uids, n_uids, sizeof(*uids), by_uid);
    for (size_t i = 0; i < n_uids; i++)
        if (i == 0 || uids[i].uid != uids[kept - 1].uid)
            uids[kept++] = uids[i];
    noded_ask(d->n, uids, kept, asked, d);
    free(uids);
}

static void hung(void *arg, const char *where)
{
    struct dry *old = arg, *d = mem_must_calloc(1, sizeof(*d));
    struct verdicts none = {0};

    d->n = old->n;
    memcpy(d->questions, old->questions, sizeof(d->questions));
    d->n_questions = old->n_questions;
    sweep_found(&d->sweep, 0, REASON_SCAN_FAILED, "%s", where);
    finish(d, &none);
}

/* Its looker goes with whoever gave it up; one that never began has none such. */
static void late(void *arg)
{
    struct dry *d = arg;

    sweep_done(&d->sweep);
    if (!atomic_load(&d->looker->given_up))
        looker_free(d->looker);
    free(d);
}

/* ---- what stands still ---- */

static void tell_stands(struct noded *n, uint64_t *questions, size_t *n_questions,
                        const char *detail)
{
    const struct session_remnant told = {0, reason_word(REASON_SCAN_FAILED), 1, "leave", detail};

    for (size_t i = 0; i < *n_questions; i++)
        session_dry(n->session, questions[i], &told, 1, 0);
    *n_questions = 0;
}

void noded_dry_halt(struct noded *n)
{
    if (n->dry.look)
        sweep_progress_stop(&n->dry.look->looker->progress);
}

void noded_dry_beat(struct noded *n)
{
    struct dry *d = n->dry.look;
    int64_t now_ms = loop_now_ms(n->loop);
    char place[SWEEP_DETAIL_MAX - 40], detail[SWEEP_DETAIL_MAX];
    uint64_t steps;

    if (!d)
        return;
    steps = atomic_load(&d->looker->progress.steps);
    if (steps != d->steps || !d->moved_ms) {
        d->steps = steps;
        d->moved_ms = now_ms;
    }
    if (now_ms - d->moved_ms < PATIENCE_MS)
        return;
    sweep_progress_where(&d->looker->progress, place, sizeof(place));
    (void)snprintf(detail, sizeof(detail), "%s: no answer for %u s", place,
                   (unsigned)((now_ms - d->moved_ms) / 1000));
    tell_stands(n, d->questions, &d->n_questions, detail);
    tell_stands(n, n->dry.questions, &n->dry.n_questions, detail);
}

/* ---- the look ---- */

static bool is_not_here(uint32_t id, void *arg)
{
    struct dry *d = arg;

    for (size_t i = 0; i < d->n_spans; i++)
        if (id >= d->spans[i].first && id <= d->spans[i].last)
            return looker_may_touch(d->looker) && !node_map_here(&d->looker->map, id);
    return false;
}

static void work(void *arg)
{
    struct dry *d = arg;

    sweep_run(&d->sweep, SWEEP_RUNNING | (*d->unseen ? 0 : SWEEP_LYING));
}

static const struct look_fns dry_look = {work, looked, hung, late, .walks = true};
static const struct look_fns dry_look_running = {work, looked, hung, late};

static void begin(struct noded *n)
{
    struct dry *d = mem_must_calloc(1, sizeof(*d));
    size_t n_pools;
    const struct state_pool *pools = state_pools(n->state, &n_pools);
    const char *hangs = noded_look_hangs(n);
    uint32_t min = UINT32_MAX, max = 0;

    n->dry.running = true;
    n->dry.look = d;
    d->n = n;
    d->looker = looker_new(n);
    memcpy(d->questions, n->dry.questions, sizeof(d->questions));
    d->n_questions = n->dry.n_questions;
    n->dry.n_questions = 0;
    for (size_t i = 0; i < n_pools; i++) {
        if (pools[i].check != POOL_PASSED)
            continue;
        d->spans[d->n_spans++] = (struct span){pools[i].first, pools[i].last};
        min = pools[i].first < min ? pools[i].first : min;
        max = pools[i].last > max ? pools[i].last : max;
    }
    noded_looker_ready(n, d->looker);
    d->looker->min = min;
    d->looker->max = max;
    d->sweep = (struct sweep){
        .places = &d->looker->places,
        .progress = &d->looker->progress,
        .ids = {min, max, is_not_here, d},
    };
    if (hangs)
        (void)snprintf(d->unseen, sizeof(d->unseen), "%s", hangs);
    noded_look(n, d->looker, hangs ? &dry_look_running : &dry_look, d);
}

void noded_op_dry_run(uint64_t question, const char *reason, void *arg)
{
    struct noded *n = arg;

    log_info(LOG_FIELDS(.node = n->node), "asked what a sweep would do: %s", reason);
    if (n->dry.n_questions == DRY_QUESTIONS_MAX)
        return;
    n->dry.questions[n->dry.n_questions++] = question;
    if (!n->dry.running)
        begin(n);
}
