/* Before a uid is here: has anybody an account for it, and does anything run under it? Asked ahead of time of the uids that
 * are next in line, so that a grant need not wait for name services; the look at processes is always made. */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"
#include "noded/sweep/kinds.h"

#define AHEAD_FRESH_MS (10 * 60 * 1000)
#define AHEAD_SWEEP_MS 10000
#define AHEAD_MAX      1024

struct vet {
    struct noded *n;
    struct state_epoch *uids; /* sorted by uid */
    uint32_t *numbers;
    size_t n_uids;
    unsigned waiting; /* for so many answers */
    struct verdicts bad;
    struct sweep_places places;
    char prefix[NAME_PREFIX_MAX + 1];
    struct sweep_list list;
    struct sweep scan;
};

/* ---- what was looked at ahead ---- */

static struct ahead *ahead_place(const struct noded *n, uint32_t uid)
{
    return &n->ahead[uid & (AHEAD_PLACES - 1)];
}

static bool ahead_knows(const struct noded *n, const struct state_epoch *e, int64_t now_ms)
{
    const struct ahead *a = ahead_place(n, e->uid);

    return a->uid == e->uid && a->epoch == e->epoch && now_ms - a->checked_ms < AHEAD_FRESH_MS;
}

void noded_vet_forget(struct noded *n)
{
    memset(n->ahead, 0, AHEAD_PLACES * sizeof(*n->ahead));
    n->ahead_wanted = true;
}

/* ---- vetting ---- */

static void vet_finish(struct vet *v)
{
    struct noded *n = v->n;

    for (size_t i = 0; i < v->n_uids; i++) {
        const struct state_epoch *e = &v->uids[i];
        const struct sweep_finding *f = sweep_verdict(&v->scan, e->uid);
        if (verdicts_of(&v->bad, e->uid))
            continue;
        if (f)
            verdicts_add(&v->bad, e->uid, e->epoch, f->reason, f->detail);
        else if (noded_left_lies(n, e->uid)) /* it was granted before leased knew */
            verdicts_add(&v->bad, e->uid, e->epoch, REASON_LEFTOVER,
                         "something of the uid lies here that can not be removed");
    }
    state_vetted(n->state, v->bad.items, v->bad.n);
    verdicts_done(&v->bad);
    sweep_done(&v->scan);
    free(v->uids);
    free(v->numbers);
    free(v);
    noded_touch(n);
}

static void scan_work(void *arg)
{
    struct vet *v = arg;

    sweep_processes(&v->scan);
}

static void scan_done(int r, void *arg)
{
    struct vet *v = arg;

    noded_offload_done(v->n);
    if (--v->waiting == 0)
        vet_finish(v);
}

static void asked(struct noded *n, bool failed, const struct verdicts *found, void *arg)
{
    struct vet *v = arg;
    int64_t now_ms = loop_now_ms(n->loop);

    for (size_t i = 0; i < v->n_uids; i++) {
        const struct state_epoch *e = &v->uids[i];
        const struct state_verdict *verdict = verdicts_of(found, e->uid);
        if (verdict)
            verdicts_add(&v->bad, e->uid, e->epoch, verdict->reason, verdict->detail);
        else if (failed && !ahead_knows(n, e, now_ms))
            verdicts_add(&v->bad, e->uid, e->epoch, REASON_SCAN_FAILED,
                         "the name services of this machine do not answer");
    }
    if (--v->waiting == 0)
        vet_finish(v);
}

static int by_uid(const void *a, const void *b)
{
    uint32_t x = ((const struct state_epoch *)a)->uid, y = ((const struct state_epoch *)b)->uid;

    return x < y ? -1 : x > y;
}

static void scan_prepare(struct vet *v)
{
    v->numbers = mem_must_calloc(v->n_uids, sizeof(*v->numbers));
    qsort(v->uids, v->n_uids, sizeof(*v->uids), by_uid);
    for (size_t i = 0; i < v->n_uids; i++)
        v->numbers[i] = v->uids[i].uid;
    v->list = (struct sweep_list){v->numbers, v->n_uids};
    v->places = (struct sweep_places){.prefix = v->prefix, .proc = "/proc"};
    v->scan = (struct sweep){
        .places = &v->places,
        .ids = {v->numbers[0], v->numbers[v->n_uids - 1], sweep_list_has, &v->list},
    };
}

void noded_op_vet(const struct state_epoch *uids, size_t n_uids, void *arg)
{
    struct noded *n = arg;
    struct vet *v = mem_must_calloc(1, sizeof(*v));
    auto_free struct state_epoch *unknown = mem_must_calloc(n_uids, sizeof(*unknown));
    int64_t now_ms = loop_now_ms(n->loop);
    size_t n_unknown = 0;

    v->n = n;
    v->uids = mem_must_dup(uids, n_uids * sizeof(*uids));
    v->n_uids = n_uids;
    memcpy(v->prefix, n->prefix, sizeof(v->prefix));
    scan_prepare(v);
    for (size_t i = 0; i < n_uids; i++)
        if (!ahead_knows(n, &uids[i], now_ms))
            unknown[n_unknown++] = uids[i];
    v->waiting = n_unknown ? 2 : 1;
    noded_offload(n, scan_work, scan_done, v);
    if (n_unknown)
        noded_ask(n, unknown, n_unknown, asked, v);
}

/* ---- ahead ---- */

struct looking {
    struct state_epoch *uids;
    size_t n_uids;
};

static void ahead_asked(struct noded *n, bool failed, const struct verdicts *found, void *arg)
{
    struct looking *looking = arg;
    int64_t now_ms = loop_now_ms(n->loop);

    n->aheading = false;
    for (size_t i = 0; !failed && i < looking->n_uids; i++) {
        const struct state_epoch *e = &looking->uids[i];
        const struct state_verdict *verdict = verdicts_of(found, e->uid);
        if (verdict && verdict->reason != REASON_SCAN_FAILED) {
            noded_block(n, e->uid, verdict->reason, verdict->detail);
        } else if (!verdict) {
            *ahead_place(n, e->uid) = (struct ahead){e->uid, e->epoch, now_ms};
            if (n->ahead_sweep.n < AHEAD_MAX && !uid_list_has(&n->ahead_sweep, e->uid))
                uid_list_add(&n->ahead_sweep, e);
        }
    }
    free(looking->uids);
    free(looking);
    noded_touch(n);
}

static void look(struct noded *n)
{
    const struct state_epoch *uids = n->ahead_told.items;
    size_t n_uids = n->ahead_told.n;
    struct looking *looking;
    int64_t now_ms = loop_now_ms(n->loop);

    looking = mem_must_calloc(1, sizeof(*looking));
    looking->uids = mem_must_calloc(n_uids, sizeof(*looking->uids));
    for (size_t i = 0; i < n_uids; i++) {
        const struct state_pool *pool = state_pool_of(n->state, uids[i].uid);
        if (pool && pool->check == POOL_PASSED && !ahead_knows(n, &uids[i], now_ms) &&
            !uid_list_has(&n->blocked, uids[i].uid))
            looking->uids[looking->n_uids++] = uids[i];
    }
    if (looking->n_uids == 0) {
        free(looking->uids);
        free(looking);
        return;
    }
    n->aheading = true;
    noded_ask(n, looking->uids, looking->n_uids, ahead_asked, looking);
}

/* The latest word counts; what was told meanwhile is looked at when it is granted. */
void noded_op_look_ahead(const struct state_epoch *uids, size_t n_uids, void *arg)
{
    struct noded *n = arg;

    n->ahead_told.n = 0;
    for (size_t i = 0; i < n_uids && i < AHEAD_MAX; i++)
        uid_list_add(&n->ahead_told, &uids[i]);
    n->ahead_wanted = true;
    noded_touch(n);
}

static void ahead_swept(struct noded *n, const struct verdicts *dirty)
{
    for (size_t i = 0; i < dirty->n; i++) {
        const struct state_verdict *v = &dirty->items[i];
        if (v->reason != REASON_SCAN_FAILED && state_standing(n->state, v->uid) == STANDS_NOT)
            noded_left_found(n, v);
    }
}

void noded_vet_settle(struct noded *n, int64_t now_ms)
{
    struct state_counts counts;

    if (n->ahead_wanted && !n->aheading && n->ahead_told.n) {
        n->ahead_wanted = false;
        look(n);
    }
    if (n->ahead_sweep.n == 0 || now_ms - n->ahead_swept_ms < AHEAD_SWEEP_MS)
        return;
    state_count(n->state, &counts);
    if (counts.busy || !noded_sweep_free(n, n->ahead_sweep.items, n->ahead_sweep.n, ahead_swept))
        return;
    n->ahead_sweep.n = 0;
    n->ahead_swept_ms = now_ms;
}
