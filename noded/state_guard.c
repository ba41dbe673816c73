#include "noded/state_guard.h"

#define GAP_MIN_MS 20
#define GAP_FACTOR 9 /* rest nine times as long as it took */
#define DIRTY_MAX  6

void guard_init(struct guard *g, const struct guard_limits *limits)
{
    *g = (struct guard){.limits = *limits, .wanted = true};
}

void guard_want(struct guard *g)
{
    g->wanted = true;
}

void guard_await(struct guard *g, uint64_t revision)
{
    if (revision > g->awaited)
        g->awaited = revision;
}

/* It went through everything for nothing: it rests for no more than its own length. */
static void walk_wasted(struct guard *g)
{
    g->walk.done = false;
    g->walk.wanted = true;
    g->walk.due_ms = g->walk.began_ms + 2 * g->walk.took_ms;
}

static void walk_spoil(struct guard *g)
{
    g->walk.spoilt = true;
    if (g->walk.done)
        walk_wasted(g);
}

void guard_session(struct guard *g)
{
    g->watermark = 0;
    g->awaited = 0;
    g->wanted = true;
    g->session_is_newer = g->running;
    walk_spoil(g);
}

static int64_t gap_ms(int64_t took_ms)
{
    int64_t gap = took_ms * GAP_FACTOR;

    return gap < GAP_MIN_MS ? GAP_MIN_MS : gap;
}

/* What does not go away is not worth a look at every moment. */
static int64_t rest_ms(const struct guard *g, int64_t took_ms, unsigned dirty_in_a_row)
{
    int64_t gap = gap_ms(took_ms);

    for (unsigned i = 0; i < dirty_in_a_row && gap < g->limits.fast_ms; i++)
        gap *= 2;
    if (gap > g->limits.fast_ms && took_ms * GAP_FACTOR < g->limits.fast_ms)
        gap = g->limits.fast_ms;
    return gap;
}

int64_t guard_next_ms(const struct guard *g, bool named, bool complete)
{
    int64_t paced_ms = g->began_ms + (named ? g->limits.fast_ms : g->limits.idle_ms);
    int64_t next_ms = g->ended_ms + rest_ms(g, g->took_ms, g->dirty_in_a_row);

    if (g->running)
        return INT64_MAX;
    if (g->ended_ms == 0)
        return 0;
    if (paced_ms < g->ended_ms + gap_ms(g->took_ms))
        paced_ms = g->ended_ms + gap_ms(g->took_ms);
    if (g->wanted)
        return next_ms;
    /* While a walk runs, or rests, a pass does not bring what is awaited. */
    if (!complete || g->watermark >= g->awaited || g->walk.running)
        return paced_ms;
    if (g->walk.wanted && next_ms < g->walk.due_ms)
        next_ms = g->walk.due_ms;
    return next_ms < paced_ms ? next_ms : paced_ms;
}

void guard_begin(struct guard *g, int64_t now_ms, uint64_t revision)
{
    g->running = true;
    g->wanted = false;
    g->session_is_newer = false;
    g->began_ms = now_ms;
    g->looked_ms = 0;
    g->began_revision = revision;
    g->walk.proved = g->walk.done;
}

void guard_looked(struct guard *g, int64_t now_ms)
{
    g->looked_ms = now_ms;
}

static bool rise(struct guard *g, uint64_t revision)
{
    if (revision <= g->watermark)
        return false;
    g->watermark = revision;
    return true;
}

static void ended(struct guard *g, int64_t now_ms, int64_t took_ms, enum guard_verdict verdict)
{
    g->running = false;
    g->ended_ms = now_ms;
    g->took_ms = took_ms;
    if (verdict == GUARD_CLEAN) {
        g->dirty_in_a_row = 0;
        return;
    }
    g->wanted = true;
    if (verdict == GUARD_DIRTY)
        walk_spoil(g);
    if (g->dirty_in_a_row < DIRTY_MAX)
        g->dirty_in_a_row++;
}

bool guard_walk_counts(const struct guard *g, enum guard_verdict verdict)
{
    return verdict == GUARD_CLEAN && g->walk.done && g->walk.proved && !g->session_is_newer;
}

unsigned guard_end(struct guard *g, int64_t now_ms, enum guard_verdict verdict, bool retired)
{
    unsigned outcome = GUARD_NOTHING;

    if (guard_walk_counts(g, verdict)) {
        outcome = rise(g, g->walk.revision) ? GUARD_RISEN : GUARD_NOTHING;
        g->walk.done = false;
    }
    ended(g, now_ms, (g->looked_ms ? g->looked_ms : now_ms) - g->began_ms, verdict);
    if (verdict != GUARD_CLEAN || g->session_is_newer || g->began_revision <= g->watermark)
        return outcome;
    g->walk.wanted = retired;
    if (!retired)
        return rise(g, g->began_revision) ? GUARD_RISEN : outcome;
    return outcome |
           (!g->walk.running && !g->walk.done && now_ms >= g->walk.due_ms ? GUARD_WALK
                                                                          : GUARD_NOTHING);
}

void guard_hung(struct guard *g, int64_t now_ms)
{
    ended(g, now_ms, g->limits.fast_ms / GAP_FACTOR, GUARD_DIRTY);
}

void guard_walk_begin(struct guard *g, int64_t now_ms)
{
    g->walk.running = true;
    g->walk.wanted = g->walk.spoilt = g->walk.done = false;
    g->walk.revision = g->began_revision;
    g->walk.began_ms = now_ms;
}

bool guard_walk_end(struct guard *g, int64_t now_ms, bool clean)
{
    g->walk.running = false;
    g->walk.took_ms = now_ms - g->walk.began_ms;
    if (clean)
        g->walk.dirty_in_a_row = 0;
    else if (g->walk.dirty_in_a_row < DIRTY_MAX)
        g->walk.dirty_in_a_row++;
    g->walk.due_ms = now_ms + rest_ms(g, g->walk.took_ms, g->walk.dirty_in_a_row);
    g->walk.done = clean && !g->walk.spoilt;
    g->walk.wanted = !g->walk.done;
    g->wanted |= g->walk.done;
    if (clean && g->walk.spoilt)
        walk_wasted(g);
    return g->walk.done;
}

void guard_walk_hung(struct guard *g, int64_t now_ms)
{
    g->walk.running = false;
    g->walk.wanted = true;
    g->walk.due_ms = now_ms + g->limits.fast_ms;
}

void guard_walk_want(struct guard *g)
{
    g->walk.due_ms = 0;
}
