#include "userdb/session.h"

#include <errno.h>
#include <string.h>

void session_init(struct session *session)
{
    *session = (struct session){.in = BUF_INIT(2 * SESSION_CALL_MAX),
                                .out = BUF_INIT(SESSION_OUT_MAX)};
}

void session_done(struct session *session)
{
    buf_done(&session->in);
    buf_done(&session->out);
    walk_done(&session->walk);
}

static size_t call_len(const struct session *session)
{
    return session->in.len ? strnlen(session->in.data, session->in.len) : 0;
}

static bool has_call(const struct session *session)
{
    return call_len(session) < session->in.len;
}

bool session_hungry(const struct session *session)
{
    return session->walk.kind == WALK_NONE && session->out.len == 0 && !has_call(session);
}

int session_feed(struct session *session, const char *bytes, size_t len)
{
    buf_add(&session->in, bytes, len);
    if (buf_error(&session->in) == -ENOBUFS || call_len(session) > SESSION_CALL_MAX)
        return -EMSGSIZE;
    return buf_error(&session->in);
}

/* Memory is not kept: most clients have one call, and are many. */
static void drop(struct buf *buf, size_t len)
{
    size_t rest = buf->len - len;

    if (rest == 0) {
        buf_done(buf);
        return;
    }
    memmove(buf->data, buf->data + len, rest);
    buf_cut(buf, rest);
}

static int answer_next(struct session *session, const struct answers *answers)
{
    AUTO(varlink_call_done) struct varlink_call call = {0};
    size_t len = call_len(session);
    int r = varlink_call_read(session->in.data, len, &call);

    if (r < 0)
        return r;
    answer_call(answers, &call, &session->out, &session->walk);
    drop(&session->in, len + 1);
    return 1;
}

int session_work(struct session *session, const struct answers *answers)
{
    int r;

    if (session->out.len >= SESSION_OUT_FULL)
        return 0;
    if (session->walk.kind != WALK_NONE) {
        answer_walk(answers, &session->out, &session->walk);
        r = 1;
    } else if (session->out.len == 0 && has_call(session)) {
        r = answer_next(session, answers);
    } else {
        return 0;
    }
    return buf_error(&session->out) ? -ENOMEM : r;
}

void session_sent(struct session *session, size_t len)
{
    drop(&session->out, len);
}
