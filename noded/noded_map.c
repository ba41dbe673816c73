/* What goes into the uid map, and what leased hears of it. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"
#include "noded/sweep/uids.h"

/* ---- start ---- */

static void recall(const struct state_lease *lease, bool closed, void *arg)
{
    state_recall_lease(arg, lease, closed);
}

int noded_map_start(struct noded *n, bool torn)
{
    struct node_map_past past = {0};
    struct err err = {0};
    int r = node_map_open(n->map_path, &n->map, &past, &err);

    if (r < 0) {
        log_error(NULL, "%s", err.text);
        return r;
    }
    if (past.why)
        log_warning(NULL, "%s: %s; it is made anew", n->map_path, past.why);
    if (past.repaired)
        log_notice(NULL, "%s: %u records that were being written have been repaired", n->map_path,
                   past.repaired);
    if (past.taken && !past.complete)
        log_warning(NULL, "%s: damaged records were emptied", n->map_path);
    node_map_each(n->map, recall, n->state);
    n->nscd_wanted = true; /* the one before us may have ended before it could tell */
    n->clean_start = n->clean_start && past.in_order && past.complete && !torn;
    if (past.taken && past.complete && past.revision) {
        n->complete = true;
        n->revision = n->written = past.revision;
        memcpy(n->incarnation, past.incarnation, sizeof(n->incarnation));
        n->incarnation_len = 16;
    }
    n->heard_ms = (int64_t)past.heard_boot_ms;
    /* By another clock (of another time namespace, or machine), or never: it counts from now on, also for who comes after us, or
     * one that is killed again and again would begin anew each time. */
    if (past.taken && (n->heard_ms == 0 || n->heard_ms > n->started_ms))
        n->heard_ms = n->started_ms;
    if (!*n->prefix)
        (void)snprintf(n->prefix, sizeof(n->prefix), "%s", past.prefix);
    return 0;
}

/* ---- shape and beat ---- */

void noded_map_shape(struct noded *n)
{
    size_t n_pools;
    const struct state_pool *pools = state_pools(n->state, &n_pools);
    int r;

    n->shape_wanted = false;
    if (!*n->prefix)
        return;
    r = node_map_shape(n->map, n->prefix, pools, n_pools);
    if (r < 0 && !n->map_failing)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
                  "%s: cannot be made (%s): leases that are new here are refused until it can",
                  n->map_path, err_text(r));
    if (r == 0 && n->map_failing)
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s: there is room again", n->map_path);
    n->map_failing = r < 0;
    /* Who asks whether noded lives (pam_xce) need not wait for the next beat. */
    if (r == 0)
        (void)node_map_beat(n->map, (uint64_t)loop_now_ms(n->loop), (uint64_t)n->heard_ms);
    /* The first map comes after the first word of leased. */
    if (r == 0 && n->incarnation_len)
        node_map_incarnation(n->map, n->incarnation, n->incarnation_len);
    if (r == 0 && n->map_missed) {
        n->map_missed = false;
        n->complete = false;
        session_again(n->session, "leases were missed while there was no map for them");
    }
}

void noded_map_beat(struct noded *n)
{
    int64_t now_ms = loop_now_ms(n->loop);
    int r;

    if (n->map_failing || n->shape_wanted)
        noded_map_shape(n);
    r = node_map_beat(n->map, (uint64_t)now_ms, (uint64_t)n->heard_ms);
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
                  "%s: is gone and cannot be written again (%s)", n->map_path, err_text(r));
    if (r != MAP_BROKEN)
        return;
    /* Nothing in the mapping can be relied on or even touched any more. The next process makes the map anew. */
    log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
              "%s: somebody has cut or overwritten it; ending, to begin anew", n->map_path);
    log_close();
    _exit(EXIT_FAILURE);
}

void noded_map_settle(struct noded *n)
{
    struct state_counts counts;

    if (!n->complete || n->listing || n->written == n->revision)
        return;
    state_count(n->state, &counts);
    /* What is being vetted is not in the map yet: after a crash it must be told again. */
    if (counts.vetting)
        return;
    n->written = n->revision;
    node_map_progress(n->map, n->revision, true);
}

/* ---- ops ---- */

int noded_op_map_set(const struct state_lease *lease, uint8_t flags, void *arg)
{
    struct noded *n = arg;
    int r;

    if (n->shape_wanted)
        noded_map_shape(n);
    r = node_map_set(n->map, lease, flags);
    if (r < 0) {
        n->map_missed = n->map_missed || n->map_failing;
        if (!n->map_failing)
            log_warning(LOG_FIELDS(.lease = lease->lease, .uid = lease->uid, .epoch = lease->epoch),
                        "%s: cannot hold it: %s", n->map_path, err_text(r));
        return n->map_failing ? -ENOSPC : r;
    }
    n->nscd_wanted = true;
    return 0;
}

void noded_op_map_mark(uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop, void *arg)
{
    struct noded *n = arg;

    node_map_mark(n->map, uid, epoch, add, drop);
}

void noded_op_map_retire(uint32_t uid, uint32_t epoch, uint64_t revision, void *arg)
{
    struct noded *n = arg;

    node_map_retire(n->map, uid, epoch, revision);
    n->nscd_wanted = true;
}

static const char *what_word(enum state_say what)
{
    static const char *const words[] = {"nothing", "ready", "refused", "clean", "dirty", "stray"};

    return words[what];
}

void noded_op_say(enum state_say what, const struct state_verdict *about, void *arg)
{
    struct noded *n = arg;
    int level = what == SAY_READY || what == SAY_CLEAN ? LOG_DEBUG : LOG_WARNING;

    log_at(level,
           LOG_FIELDS(.uid = about->uid, .epoch = about->epoch,
                      .message_id = what == SAY_STRAY ? LOG_ID_STRAY : NULL),
           "%s%s%s%s%s", what_word(what), about->reason ? ": " : "",
           reason_word((enum reason)about->reason), about->detail ? ": " : "",
           about->detail ? about->detail : "");
    if (what == SAY_READY && (noded_nscd_behind(n) || uids_in_hand(about->uid)))
        noded_nscd_hold(n, about);
    else
        session_say(n->session, what, about);
}
