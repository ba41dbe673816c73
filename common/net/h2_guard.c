#include <errno.h>
#include <nghttp2/nghttp2.h>

#include "common/net/h2_conn.h"
#include "common/net/loop.h"

/* What a peer may do to us in time and number. Two buckets: resets, which make work and leave no stream to count; and
 * control frames, which cost us and bring nothing (useful frames fill that one again). Beside them one timer per
 * connection, which rests while nothing depends on it. */

enum {
    RESETS_PER_S = 200,
    CONTROL_BURST = 10000,
    CONTROL_PER_S = 1000,
    EARNED = 2,
    /* Frames that may wait for a peer that does not read. */
    QUEUE_BASE = 4000,
    QUEUE_PER_STREAM = 4,
    /* A call that is finished may wait so many ticks for its peer to take the rest. */
    STALLS_MAX = 3,
    STALL_TICK_MS = 20000,
    LINGER_MS = 1000,
};

/* ---- numbers ---- */

static struct h2_bucket bucket(struct h2_conn *conn, int64_t burst, int64_t per_s)
{
    return (struct h2_bucket){
        .left = burst, .burst = burst, .per_s = per_s, .filled_ms = loop_now_ms(conn->loop)};
}

static bool take(struct h2_conn *conn, struct h2_bucket *bucket)
{
    if (bucket->left <= 0) {
        int64_t now = loop_now_ms(conn->loop);
        int64_t gain = (now - bucket->filled_ms) * bucket->per_s / 1000;

        if (gain <= 0)
            return false;
        bucket->left = gain < bucket->burst ? gain : bucket->burst;
        bucket->filled_ms = now;
    }
    bucket->left--;
    return true;
}

static void earn(struct h2_bucket *bucket)
{
    bucket->left = bucket->left + EARNED < bucket->burst ? bucket->left + EARNED : bucket->burst;
}

static bool take_reset(struct h2_conn *conn)
{
    if (take(conn, &conn->resets))
        return true;
    h2_conn_doom(conn, -EPROTO, NGHTTP2_ENHANCE_YOUR_CALM,
                 "too many reset streams: more than %lld, then %d a second",
                 (long long)conn->resets.burst, RESETS_PER_S);
    return false;
}

bool h2_guard_frame(struct h2_conn *conn, uint8_t type, uint8_t flags, size_t len)
{
    if (type == NGHTTP2_RST_STREAM)
        return take_reset(conn);
    if (type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION ||
        (type == NGHTTP2_DATA && (len > 0 || (flags & NGHTTP2_FLAG_END_STREAM)))) {
        earn(&conn->control);
        return true;
    }
    if (take(conn, &conn->control))
        return true;
    h2_conn_doom(conn, -EPROTO, NGHTTP2_ENHANCE_YOUR_CALM,
                 "too many frames of type %u that carry nothing", type);
    return false;
}

void h2_guard_fault(struct h2_conn *conn, uint32_t error)
{
    if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_CANCEL)
        (void)take_reset(conn);
}

void h2_guard_queue(struct h2_conn *conn)
{
    size_t queued = nghttp2_session_get_outbound_queue_size(conn->session);

    if (queued > QUEUE_BASE + QUEUE_PER_STREAM * (size_t)conn->limits->streams)
        h2_conn_doom(conn, -EPROTO, NGHTTP2_ENHANCE_YOUR_CALM,
                     "the peer does not read: %zu frames wait for it", queued);
}

/* ---- time ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool handshake_late(struct h2_conn *conn, int64_t now, int64_t *next)
{
    if (conn->settled)
        return false;
    if (now >= conn->born_ms + conn->limits->handshake_ms) {
        h2_conn_doom(conn, -ETIMEDOUT, NGHTTP2_SETTINGS_TIMEOUT,
                     "no HTTP/2 handshake within %lld ms", (long long)conn->limits->handshake_ms);
        return true;
    }
    *next = sooner(*next, conn->born_ms + conn->limits->handshake_ms);
    return false;
}

/* A connection with streams whose peer is silent is asked; one that does not answer, or does not read, is dead. */
static bool peer_dead(struct h2_conn *conn, int64_t now, int64_t *next)
{
    int64_t wait = conn->limits->keepalive_ms;
    bool mute;

    if (wait < 0 || (conn->n_streams == 0 && !conn->ping_out && !conn->blocked))
        return false;
    mute = conn->ping_out && now >= conn->ping_ms + wait;
    if (mute || (conn->blocked && now >= conn->blocked_ms + 2 * wait)) {
        h2_conn_doom(conn, -ETIMEDOUT, NGHTTP2_NO_ERROR, "the peer is silent: no %s for %lld ms",
                     mute ? "answer to PING" : "byte taken", (long long)(mute ? wait : 2 * wait));
        return true;
    }
    if (conn->settled && !conn->ping_out && now >= conn->heard_ms + wait) {
        conn->ping_out = true;
        conn->ping_ms = now;
        (void)h2_conn_try(conn, nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL));
        h2_flush_later(conn);
    }
    *next = sooner(*next, (conn->ping_out ? conn->ping_ms : conn->heard_ms) + wait);
    if (conn->blocked)
        *next = sooner(*next, conn->blocked_ms + 2 * wait);
    return false;
}

static bool idle_long(struct h2_conn *conn, int64_t now, int64_t *next)
{
    int64_t wait = conn->limits->idle_ms;

    if (wait == 0)
        return false;
    if (conn->n_streams == 0 && now >= conn->empty_ms + wait) {
        conn->leaving = true;
        (void)h2_conn_try(conn, nghttp2_session_terminate_session(conn->session, NGHTTP2_NO_ERROR));
        h2_flush_later(conn);
        return true;
    }
    *next = sooner(*next, (conn->n_streams == 0 ? conn->empty_ms : now) + wait);
    return false;
}

static bool lived_long(struct h2_conn *conn, int64_t now, int64_t *next)
{
    int64_t end_ms = conn->born_ms + conn->limits->life_ms;

    if (conn->limits->life_ms == 0)
        return false;
    if (now >= end_ms) {
        h2_conn_doom(conn, -ETIMEDOUT, NGHTTP2_NO_ERROR, "it has lasted for the limit of %lld ms",
                     (long long)conn->limits->life_ms);
        return true;
    }
    *next = sooner(*next, end_ms);
    return false;
}

/* Finished streams whose peer gives no window would stay for ever. */
static void reset_stalled(struct h2_conn *conn, int64_t now, int64_t *next)
{
    struct h2_stream *stream;

    if (conn->n_streams > 0)
        *next = sooner(*next, now + STALL_TICK_MS);
    LIST_FOREACH(stream, &conn->streams, link)
    if (stream->ending && !stream->ended && stream->stalls++ == STALLS_MAX)
        h2_reset(stream, NGHTTP2_CANCEL);
}

static void tick(void *arg)
{
    struct h2_conn *conn = arg;
    int64_t now = loop_now_ms(conn->loop);
    int64_t next = INT64_MAX;

    conn->ticking = false;
    if (conn->lingers) {
        h2_conn_doom(conn, 0, NGHTTP2_NO_ERROR, "closed in order");
        return;
    }
    if (conn->doomed || handshake_late(conn, now, &next) || peer_dead(conn, now, &next) ||
        idle_long(conn, now, &next) || lived_long(conn, now, &next))
        return;
    reset_stalled(conn, now, &next);
    if (next == INT64_MAX)
        return;
    conn->ticking = true;
    loop_timer_start(conn->tick, next > now ? next - now : 1, 0);
}

void h2_guard_awake(struct h2_conn *conn)
{
    if (conn->ticking)
        return;
    conn->heard_ms = loop_now_ms(conn->loop);
    tick(conn);
}

void h2_guard_linger(struct h2_conn *conn)
{
    conn->ticking = true;
    loop_timer_start(conn->tick, LINGER_MS, 0);
}

int h2_guard_init(struct h2_conn *conn)
{
    int r = loop_timer_new(conn->loop, tick, conn, &conn->tick);

    if (r < 0)
        return r;
    conn->born_ms = conn->heard_ms = conn->empty_ms = loop_now_ms(conn->loop);
    conn->resets = bucket(conn, 2 * (int64_t)conn->limits->streams, RESETS_PER_S);
    conn->control = bucket(conn, CONTROL_BURST, CONTROL_PER_S);
    tick(conn);
    return 0;
}

void h2_guard_done(struct h2_conn *conn)
{
    loop_timer_free(conn->tick);
}
