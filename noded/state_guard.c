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

void guard_session(struct guard *g)
{
    g->watermark = 0;
    g->awaited = 0;
    g->wanted = true;
    g->session_is_newer = g->running;
}

int64_t guard_next_ms(const struct guard *g, bool named, bool complete)
{
    int64_t gap = g->took_ms * GAP_FACTOR;
    int64_t pace = named ? g->limits.fast_ms : g->limits.idle_ms;

    if (g->running)
        return INT64_MAX;
    if (gap < GAP_MIN_MS)
        gap = GAP_MIN_MS;
    if (g->ended_ms == 0)
        return 0;
    if (!g->wanted && (!complete || g->watermark >= g->awaited))
        return g->began_ms + pace > g->ended_ms + gap ? g->began_ms + pace : g->ended_ms + gap;
    /* What does not go away is not worth a look at every moment. */
    for (unsigned i = 0; i < g->dirty_in_a_row && gap < g->limits.fast_ms; i++)
        gap *= 2;
    if (gap > g->limits.fast_ms && g->took_ms * GAP_FACTOR < g->limits.fast_ms)
        gap = g->limits.fast_ms;
    return g->ended_ms + gap;
}

void guard_begin(struct guard *g, int64_t now_ms, uint64_t revision)
{
    g->running = true;
    g->wanted = false;
    g->session_is_newer = false;
    g->began_ms = now_ms;
    g->looked_ms = 0;
    g->began_revision = revision;
}

void guard_looked(struct guard *g, int64_t now_ms)
{
    g->looked_ms = now_ms;
}

bool guard_end(struct guard *g, int64_t now_ms, bool clean)
{
    g->running = false;
    g->ended_ms = now_ms;
    g->took_ms = (g->looked_ms ? g->looked_ms : now_ms) - g->began_ms;
    if (!clean) {
        g->wanted = true;
        if (g->dirty_in_a_row < DIRTY_MAX)
            g->dirty_in_a_row++;
        return false;
    }
    g->dirty_in_a_row = 0;
    if (g->session_is_newer || g->began_revision <= g->watermark)
        return false;
    g->watermark = g->began_revision;
    return true;
}
