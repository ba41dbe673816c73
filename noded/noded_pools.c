/* Pools: kept over a reboot, checked against this machine's accounts before anything is guarded in them, and again when
 * accounts may have changed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/noded_pools_file.h"
#include "noded/reason.h"

#define CHECK_MS       30000
#define CHECK_AGAIN_MS 5000
#define FAILED_MS      60000
#define VALIDITY_MS    3600000 /* while nobody has told it */

/* ---- the file ---- */

bool noded_pools_start(struct noded *n)
{
    struct pools_file file;
    int r = pools_file_read(n->pools_path, &file);

    if (r == -EBADMSG)
        log_warning(NULL, "%s: is damaged; leased tells the pools anew", n->pools_path);
    else if (r < 0 && r != -ENOENT)
        log_warning(NULL, "%s: %s", n->pools_path, err_text(r));
    if (r < 0)
        return false;
    memcpy(n->prefix, file.prefix, sizeof(n->prefix));
    for (size_t i = 0; i < file.n_pools; i++)
        (void)state_pool_set(n->state, &file.pools[i]);
    return true;
}

/* A node that knows of no pool guards nothing, ends nothing, and takes each pass for a clean one. */
void noded_pools_guess(struct noded *n)
{
    struct xce_map_range ranges[XCE_RANGES_MAX];
    size_t n_ranges = node_map_ranges(n->map, ranges);

    for (size_t i = 0; i < n_ranges; i++) {
        struct state_pool pool = {.first = ranges[i].first,
                                  .last = ranges[i].first + ranges[i].count - 1,
                                  .validity_ms = VALIDITY_MS};
        (void)snprintf(pool.name, sizeof(pool.name), "(%u, of the map)", pool.first);
        (void)state_pool_set(n->state, &pool);
    }
    n->pools_guessed = n_ranges > 0;
    n->complete = false;
    if (n_ranges)
        log_warning(NULL, "%s: the pools are those of the map until leased tells them",
                    n->pools_path);
}

static void guesses_drop(struct noded *n)
{
    const struct state_pool *pool;

    while (n->pools_guessed && (pool = state_pool_at(n->state, 0)))
        state_pool_gone(n->state, pool->name);
    n->pools_guessed = false;
}

struct save {
    struct noded *n;
    struct buf text;
    int r;
};

static void save_work(void *arg)
{
    struct save *save = arg;

    save->r = fs_write_file(AT_FDCWD, save->n->pools_path, buf_str(&save->text), save->text.len,
                            0600);
}

static void save_done(int r, void *arg)
{
    struct save *save = arg;
    struct noded *n = save->n;

    noded_offload_done(n);
    n->saving = false;
    if (r == 0 && save->r < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s: cannot be written: %s", n->pools_path,
                  err_text(save->r));
        n->save_wanted = true;
        n->save_retry_ms = loop_now_ms(n->loop) + CHECK_AGAIN_MS;
    }
    buf_done(&save->text);
    free(save);
    noded_touch(n);
}

static bool save_may(const struct noded *n)
{
    return *n->prefix && !n->pools_guessed;
}

static void save_begin(struct noded *n)
{
    struct save *save = mem_must_calloc(1, sizeof(*save));
    struct pools_file file = {.n_pools = 0};
    const struct state_pool *pools = state_pools(n->state, &file.n_pools);

    save->n = n;
    memcpy(file.prefix, n->prefix, sizeof(file.prefix));
    memcpy(file.pools, pools, file.n_pools * sizeof(*pools));
    pools_file_print(&file, &save->text);
    n->saving = true;
    n->save_wanted = false;
    noded_offload_slow(n, save_work, save_done, save);
}

/* ---- what leased tells ---- */

void noded_op_pool(const struct state_pool *told, void *arg)
{
    struct noded *n = arg;
    struct state_pool pool = *told, *held;
    int r;

    guesses_drop(n);
    pool.check_at_ms = 0;
    held = state_pool_named(n->state, pool.name);
    /* The stand-by and the next noded have it from the file. */
    n->save_wanted |= held && held->validity_ms != pool.validity_ms;
    /* One that grows was looked at in its old part. */
    pool.passed_once = held && held->first == pool.first && held->passed_once &&
                       held->last >= pool.last;
    r = state_pool_set(n->state, &pool);
    if (r < 0) {
        log_error(NULL, "pool %s: this node can hold no more pools", pool.name);
        return;
    }
    held = state_pool_named(n->state, pool.name);
    held->listed = true;
    if (r == STATE_POOL_CHANGED) {
        log_info(NULL, "pool %s: %u to %u", pool.name, pool.first, pool.last);
        n->shape_wanted = n->save_wanted = true;
    }
    noded_touch(n);
}

/* What an administrator has unblocked is guarded again, and blocked anew if it must be. A block of ours that leased has not
 * heard of yet goes, too: it is found again. */
void noded_op_pool_blocked(const struct state_pool *pool, const uint32_t *uids, size_t n, void *arg)
{
    struct noded *noded = arg;
    struct uid_list *blocked = &noded->blocked;
    size_t kept = 0;

    for (size_t i = 0; i < blocked->n; i++) {
        uint32_t uid = blocked->items[i].uid;
        bool keep = uid < pool->first || uid > pool->last;
        for (size_t j = 0; !keep && j < n; j++)
            keep = uids[j] == uid;
        if (keep)
            blocked->items[kept++] = blocked->items[i];
    }
    if (kept < blocked->n)
        guard_want(&noded->guard);
    blocked->n = kept;
}

void noded_op_pool_gone(const char *name, void *arg)
{
    struct noded *n = arg;

    if (!state_pool_named(n->state, name))
        return;
    log_info(NULL, "pool %s is gone", name);
    state_pool_gone(n->state, name);
    n->shape_wanted = n->save_wanted = true;
    noded_touch(n);
}

void noded_pools_listed(struct noded *n)
{
    struct state_pool *pool;

    n->pools_guessed = false;
    for (size_t i = 0; (pool = state_pool_at(n->state, i));) {
        char name[sizeof(pool->name)];
        memcpy(name, pool->name, sizeof(name));
        if (pool->listed)
            i++;
        else
            noded_op_pool_gone(name, n);
    }
}

void noded_pools_say(struct noded *n)
{
    struct state_pool *pool;

    for (size_t i = 0; !n->pools_guessed && (pool = state_pool_at(n->state, i)); i++)
        if (pool->check != POOL_UNCHECKED)
            session_pool_check(n->session, pool->name, pool->check == POOL_PASSED, "");
}

/* ---- checks ---- */

static void verdict_take(struct noded *n, struct state_pool *pool, bool passed, const char *detail)
{
    enum state_pool_check before = pool->check;

    state_pool_checked(n->state, pool->name, passed);
    pool->check_at_ms = passed ? INT64_MAX : loop_now_ms(n->loop) + FAILED_MS;
    if (passed && !pool->passed_once)
        pool->passed_once = n->save_wanted = true;
    n->ahead_wanted = true;
    if (before == pool->check)
        return;
    if (passed)
        log_info(NULL, "pool %s: nobody else has anything in %u to %u here", pool->name,
                 pool->first, pool->last);
    else
        log_error(
            LOG_FIELDS(.message_id = LOG_ID_BLOCKED),
            "pool %s overlaps what this machine has, so nothing in it is touched or used here: %s",
            pool->name, detail);
    if (!n->pools_guessed)
        session_pool_check(n->session, pool->name, passed, detail);
}

/* Who has it is blocked by itself, so that no other node is given it either. Where he came later the pool goes on; an id map, or
 * too many to tell, is no such thing. */
static void answer_take(struct noded *n, struct state_pool *pool,
                        const struct collide_answer *answer)
{
    const struct collide_found *refuses = NULL;

    for (uint32_t i = 0; i < answer->n && !refuses; i++) {
        const struct collide_found *found = &answer->found[i];
        if (found->reason == REASON_SCAN_FAILED) {
            log_warning(NULL, "pool %s: %s", pool->name, found->detail);
            pool->check_at_ms = loop_now_ms(n->loop) + CHECK_AGAIN_MS;
            return;
        }
        if (found->whole || !pool->passed_once || answer->total > answer->n)
            refuses = found;
    }
    for (uint32_t i = 0; i < answer->n; i++)
        if (!answer->found[i].whole && answer->found[i].reason != REASON_SCAN_FAILED)
            noded_block(n, answer->found[i].uid, answer->found[i].reason, answer->found[i].detail);
    verdict_take(n, pool, !refuses, refuses ? refuses->detail : "");
}

static void checked(int r, const struct collide_answer *answer, void *arg)
{
    struct noded *n = arg;
    struct state_pool *pool = state_pool_named(n->state, n->checking);

    n->checking[0] = '\0';
    if (r == -ECANCELED)
        return;
    if (pool && r == 0) {
        answer_take(n, pool, answer);
    } else if (r == -ETIMEDOUT && !n->checking_files) {
        log_warning(
            NULL,
            "listing all accounts takes too long here: each uid is asked for before it is used");
        n->checking_files = true;
    } else if (pool) {
        pool->check_at_ms = loop_now_ms(n->loop) + CHECK_AGAIN_MS;
    }
    noded_touch(n);
}

static void check_begin(struct noded *n, const struct state_pool *pool)
{
    struct collide_question q = {
        .kind = n->checking_files ? COLLIDE_RANGE_FILES : COLLIDE_RANGE,
        .n = 2,
        .uids = {{pool->first, 0}, {pool->last, 0}},
    };

    memcpy(q.prefix, n->prefix, sizeof(n->prefix));
    memcpy(n->checking, pool->name, sizeof(n->checking));
    accounts_ask(n->accounts, &q, CHECK_MS, checked, n);
}

/* The pool that has been due for longest, or is so first. One that fails again and again does not keep the others back. */
static struct state_pool *check_next(const struct noded *n)
{
    struct state_pool *pool, *next = NULL;

    for (size_t i = 0; (pool = state_pool_at(n->state, i)); i++)
        if (!next || pool->check_at_ms < next->check_at_ms)
            next = pool;
    return next;
}

static void all_want_check(struct noded *n)
{
    struct state_pool *pool;

    for (size_t i = 0; (pool = state_pool_at(n->state, i)); i++)
        pool->check_at_ms = 0;
}

void noded_pools_settle(struct noded *n, int64_t now_ms)
{
    struct state_pool *pool;

    if (n->save_wanted && !n->saving && save_may(n) && now_ms >= n->save_retry_ms)
        save_begin(n);
    if (now_ms >= n->checked_ms + n->settings->account_check_ms) {
        n->checked_ms = now_ms;
        n->checking_files = false;
        all_want_check(n);
    }
    if (*n->checking || !*n->prefix)
        return;
    pool = check_next(n);
    if (pool && pool->check_at_ms <= now_ms)
        check_begin(n, pool);
}

int64_t noded_pools_next_ms(const struct noded *n)
{
    const struct state_pool *pool = check_next(n);
    int64_t next_ms = n->checked_ms + n->settings->account_check_ms;

    if (!*n->prefix)
        return next_ms;
    if (n->save_wanted && !n->saving && save_may(n) && n->save_retry_ms < next_ms)
        next_ms = n->save_retry_ms;
    if (pool && !*n->checking && pool->check_at_ms < next_ms)
        next_ms = pool->check_at_ms;
    return next_ms;
}

void noded_pools_beat(struct noded *n)
{
    const struct collide_files *f = &collide_files_default;
    const char *const paths[] = {f->nsswitch, f->passwd, f->group,
                                 f->subuid,   f->subgid, f->login_defs};
    bool changed = false;

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct stat st = {0};
        (void)stat(paths[i], &st);
        if (st.st_mtim.tv_sec == n->account_mtimes[i].tv_sec &&
            st.st_mtim.tv_nsec == n->account_mtimes[i].tv_nsec)
            continue;
        n->account_mtimes[i] = st.st_mtim;
        changed = true;
    }
    if (!changed)
        return;
    noded_vet_forget(n);
    all_want_check(n);
    noded_touch(n);
}
