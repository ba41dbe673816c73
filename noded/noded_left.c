/* What lies here of uids that no lease answers for: what this node left when it went off, and what was found of uids that
 * nobody has. It is swept; what can not be removed leased is told, which blocks the uid, and is tried again and again.
 *
 *     left (state) ─▶ swept: nothing ─▶ done
 *                        └─▶ something: said, once in each session ─▶ leased lists it: leftover ─▶ swept: nothing ─▶ CLEAN
 */
#include <stdlib.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"

#define LEFT_AGAIN_MS 5000
#define LEFT_MAX      1024
#define LEFTOVER_MS   60000
/* after the first look that found nothing of it */
#define LEFTOVER_AGAIN_MS 1000

/* ---- found, and said in this session ---- */

static struct found *found_of(const struct noded *n, uint32_t uid)
{
    for (size_t i = 0; i < n->n_found; i++)
        if (n->found[i].uid == uid)
            return &n->found[i];
    return NULL;
}

static void found_drop(struct noded *n, uint32_t uid)
{
    struct found *found = found_of(n, uid);

    if (found)
        *found = n->found[--n->n_found];
}

void noded_left_found(struct noded *n, const struct state_verdict *v)
{
    int64_t now_ms = loop_now_ms(n->loop);

    state_left_add(n->state, v->uid);
    if (v->reason == REASON_ACCOUNT || v->reason == REASON_GROUP) {
        noded_block(n, v->uid, v->reason, v->detail);
        return;
    }
    if (!found_of(n, v->uid)) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_BLOCKED, .uid = v->uid),
                  "nobody has the uid, and something of it can not be removed: %s: %s",
                  reason_word((enum reason)v->reason), v->detail);
        mem_must_grow(&n->found, &n->cap_found, n->n_found + 1, sizeof(*n->found));
        n->found[n->n_found++] = (struct found){v->uid, now_ms};
    }
    if (n->found_next_ms <= now_ms) /* others may be waiting for it */
        n->found_next_ms = now_ms + LEFTOVER_MS;
    session_block(n->session, v->uid, REASON_LEFTOVER, v->detail);
}

bool noded_left_lies(const struct noded *n, uint32_t uid)
{
    return found_of(n, uid) || uid_list_has(&n->leftover, uid);
}

/* In a session that has gone on since nothing is lost: leased has it, or would not have it. Until it lists it, or all is gone,
 * the uid is not admitted here, but others need not wait for that. */
bool noded_left_holds(const struct noded *n)
{
    int64_t now_ms = loop_now_ms(n->loop);
    size_t n_left;
    const struct state_epoch *left = state_left(n->state, &n_left);

    for (size_t i = 0; i < n_left; i++) {
        const struct state_pool *pool = state_pool_of(n->state, left[i].uid);
        const struct found *found = found_of(n, left[i].uid);
        if (!pool || pool->check == POOL_FAILED || uid_list_has(&n->blocked, left[i].uid) ||
            (found && session_server(n->session) && now_ms - found->since_ms >= LEFTOVER_MS))
            continue;
        return true;
    }
    return false;
}

/* ---- what leased knows of ---- */

static bool is_listed(const uint32_t *uids, size_t n, uint32_t uid)
{
    for (size_t i = 0; i < n; i++)
        if (uids[i] == uid)
            return true;
    return false;
}

/* What an administrator has unblocked is swept again before it is admitted here, and said anew if it must be. */
void noded_op_pool_leftover(const struct state_pool *pool, const uint32_t *uids, size_t n,
                            void *arg)
{
    struct noded *noded = arg;
    struct uid_list *list = &noded->leftover;
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++) {
        uint32_t uid = list->items[i].uid;
        if (uid < pool->first || uid > pool->last || is_listed(uids, n, uid)) {
            list->items[kept++] = list->items[i]; /* with what has been seen of it */
        } else if (state_standing(noded->state, uid) == STANDS_NOT) {
            found_drop(noded, uid);
            state_left_add(noded->state, uid);
        }
    }
    list->n = kept;
    for (size_t i = 0; i < n; i++)
        if (!uid_list_has(list, uids[i]))
            uid_list_add(list, &(struct state_epoch){.uid = uids[i]});
}

/* Whether this was the second time in a row that nothing of it was found; closed notes the first. */
static bool leftover_is_gone(struct noded *n, uint32_t uid, bool clean)
{
    struct uid_list *list = &n->leftover;
    bool before;

    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].uid != uid)
            continue;
        before = list->items[i].closed;
        list->items[i].closed = clean;
        if (clean && !before) {
            log_debug(LOG_FIELDS(.uid = uid),
                      "nothing of it was found: it is looked for once more");
            n->leftover_next_ms = loop_now_ms(n->loop) + LEFTOVER_AGAIN_MS;
        }
        return clean && before;
    }
    return false;
}

static void leftover_drop(struct noded *n, uint32_t uid)
{
    struct uid_list *list = &n->leftover;

    for (size_t i = list->n; i-- > 0;)
        if (list->items[i].uid == uid)
            list->items[i] = list->items[--list->n];
}

static void leftover_swept(struct noded *n, const struct verdicts *dirty)
{
    for (size_t i = 0; i < n->leftover_sweep.n; i++) {
        uint32_t uid = n->leftover_sweep.items[i].uid;
        bool clean = !verdicts_of(dirty, uid) && state_standing(n->state, uid) == STANDS_NOT;

        if (!leftover_is_gone(n, uid, clean))
            continue;
        log_info(LOG_FIELDS(.uid = uid), "nothing of the uid is left here any more");
        found_drop(n, uid);
        leftover_drop(n, uid);
        state_left_done(n->state, uid, true);
        session_say(n->session, SAY_CLEAN, &(struct state_verdict){.uid = uid});
    }
}

static void leftover_settle(struct noded *n, int64_t now_ms)
{
    if (n->leftover.n == 0 || n->listing || n->sweeping || now_ms < n->leftover_next_ms)
        return;
    n->leftover_next_ms = now_ms + LEFTOVER_MS;
    n->leftover_sweep.n = 0;
    for (size_t i = 0; i < n->leftover.n; i++)
        uid_list_add(&n->leftover_sweep, &n->leftover.items[i]);
    (void)noded_sweep_free(n, n->leftover_sweep.items, n->leftover_sweep.n, leftover_swept);
}

/* ---- what it does not know of yet ---- */

static void left_swept(struct noded *n, const struct verdicts *dirty)
{
    for (size_t i = 0; i < n->left_sweep.n; i++) {
        uint32_t uid = n->left_sweep.items[i].uid;
        const struct state_verdict *v = verdicts_of(dirty, uid);
        if (v && v->reason == REASON_SCAN_FAILED) {
            log_warning(LOG_FIELDS(.uid = uid), "can not look for what this node left of it: %s",
                        v->detail);
            n->left_next_ms = loop_now_ms(n->loop) + LEFT_AGAIN_MS;
        } else if (v) {
            /* A lease that has the uid meanwhile is dirty, and goes on by itself. */
            state_left_refuse(n->state, uid, v->reason, v->detail);
            if (state_standing(n->state, uid) != STANDS_SWEPT)
                noded_left_found(n, v);
        } else {
            found_drop(n, uid);
            state_left_done(n->state, uid, true);
        }
    }
}

/* One that is blocked is found out by its vetting, and what lies of it is of no use to anybody before it is unblocked. */
static void left_judge(struct noded *n)
{
    size_t n_left;
    const struct state_epoch *left = state_left(n->state, &n_left);

    for (size_t i = n_left; i-- > 0;) {
        uint32_t uid = left[i].uid;
        if (uid_list_has(&n->leftover, uid))
            state_left_done(n->state, uid, false);
        else if (uid_list_has(&n->blocked, uid))
            state_left_refuse(n->state, uid, REASON_ACCOUNT, "this node has blocked the uid");
        else if (found_of(n, uid))
            state_left_refuse(n->state, uid, REASON_LEFTOVER,
                              "something of the uid lies here that can not be removed");
    }
}

/* Of a pool that is not guarded here nothing is touched; while it is not checked yet, it waits. */
static void left_settle(struct noded *n, int64_t now_ms)
{
    size_t n_left;
    const struct state_epoch *left = state_left(n->state, &n_left);
    bool again = now_ms >= n->found_next_ms;

    if (n_left == 0 || !n->complete || n->listing || n->sweeping || now_ms < n->left_next_ms)
        return;
    n->left_sweep.n = 0;
    for (size_t i = n_left; i-- > 0 && n->left_sweep.n < LEFT_MAX;) {
        const struct state_pool *pool = state_pool_of(n->state, left[i].uid);
        if (pool && pool->check == POOL_PASSED && !uid_list_has(&n->blocked, left[i].uid) &&
            (again || !found_of(n, left[i].uid)))
            uid_list_add(&n->left_sweep, &left[i]);
    }
    if (!noded_sweep_free(n, n->left_sweep.items, n->left_sweep.n, left_swept))
        return;
    if (again)
        n->found_next_ms = now_ms + LEFTOVER_MS;
    log_notice(NULL, "sweeping %zu uids of which something may lie here", n->left_sweep.n);
}

void noded_left_session(struct noded *n)
{
    n->leftover.n = n->n_found = 0;
    n->left_next_ms = 0;
}

void noded_left_sweep_now(struct noded *n)
{
    n->leftover_next_ms = n->found_next_ms = 0;
}

void noded_left_settle(struct noded *n, int64_t now_ms)
{
    left_judge(n);
    left_settle(n, now_ms);
    leftover_settle(n, now_ms);
}
