#include "leased/service/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"
#include "leased/service/dry.h"
#include "leased/service/handed.h"
#include "leased/service/internal.h"
#include "leased/service/report.h"
#include "leased/service/survey.h"
#include "leased/service/tell.h"
#include "leased/service/ticker.h"
#include "leased/service/wire.h"
#include "leased/watch/hub.h"
#include "leased/watch/lease_proto.h"

#define CHANGES_BYTES (256u << 10) /* a message is sent when it has grown so far */
#define CHANGES_MAX   (4u << 20)
#define HELLO_WITHIN  10000 /* ms */
#define AHEAD_POOL    32
#define AHEAD_MAX     1024
#define LOOK_EVERY_MS 1000
#define PROPOSALS_MAX 8  /* of one node at a time: the queue is for all */
#define DRY_ASKED_MAX 32 /* dry runs of one node at a time, of all replicas */
#define REPORT_AGAIN  "a pool is new: report your epochs again"

/* hello ─▶ CmdHello applied ─▶ welcome, pools, changes since resume (or all) ─▶ reports, heartbeats, ... ─▶ ended */
enum stage {
    STAGE_OPEN,  /* nothing said yet */
    STAGE_HELLO, /* its hello is under way */
    STAGE_SERVED,
    STAGE_OVER, /* finished by us; the stream will end */
};

struct session {
    struct service *service;
    struct service_stream *stream;
    enum stage stage;
    bool orphan;        /* the stream has ended; a proposal still points here */
    unsigned proposals; /* under way */
    int64_t opened_ms;
    char node[TEXT_NODE_MAX + 1];
    uint64_t number;
    struct beat beat;
    uint64_t resume;
    bool mirror_own, same_incarnation;
    bool list_wanted;
    bool epochs_asked, epochs_told;    /* in this session */
    uint64_t n_epochs;                 /* reported in it */
    uint64_t looked;                   /* version of the look-ahead sent last */
    uint64_t surveyed;                 /* the question of a survey that was sent last */
    bool answered;                     /* and it was */
    uint64_t dry_asked[DRY_ASKED_MAX]; /* and not answered; 0 = nothing */
    size_t dry_next;                   /* its place */
    struct hub_subscription *subscription;
    bool full; /* the stream takes no more for now */
    /* a full list is under way: the node does not hold everything up to anything yet */
    bool listing;
    struct session *next, **place;
};

struct look_ahead {
    uint64_t version;
    int64_t looked_ms;
    uint32_t uids[AHEAD_MAX], epochs[AHEAD_MAX];
    size_t n;
};

static void destroy(struct session *session)
{
    if (session->orphan && !session->proposals)
        free(session);
}

static void finish(struct session *session, int r, const char *message)
{
    if (session->stage == STAGE_OVER)
        return;
    session->stage = STAGE_OVER;
    if (!session->orphan)
        session->stream->ops->finish(session->stream, r, message);
}

/* ---- sending ---- */

static void send_bytes(struct session *session, const struct buf *buf)
{
    int r = buf_error(buf);

    if (r == 0)
        r = session->stream->ops->send(session->stream, (const uint8_t *)buf_str(buf), buf->len);
    if (r < 0)
        finish(session, r, NULL);
    else if (r > 0)
        session->full = true;
}

static void send_message(struct session *session, const Xce__V1__SessionDown *message)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(CHANGES_MAX);
    size_t len = xce__v1__session_down__get_packed_size(message);
    uint8_t *room = buf_reserve(&buf, len);

    if (room) {
        (void)xce__v1__session_down__pack(message, room);
        buf_commit(&buf, len);
    }
    send_bytes(session, &buf);
}

/* SessionDown{changes} around what has gathered. */
static void send_changes(struct session *session, struct buf *changes)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(CHANGES_MAX + 64);

    if (buf_error(changes) == 0)
        wire_bytes(&buf, 2, buf_str(changes), changes->len);
    else
        buf.error = buf_error(changes);
    send_bytes(session, &buf);
    buf_reset(changes);
}

/* With what this node has blocked: how it knows what is unblocked, and what it still has to clean. */
static void add_pool(struct session *session, struct buf *changes, const struct fsm_pool *pool)
{
    struct pool_proto proto;
    uint8_t *bytes;
    size_t len;

    if (pool_proto_init(&proto, service_fsm(session->service), pool, 0, false) < 0) {
        changes->error = -ENOMEM;
        return;
    }
    if (pool_proto_blocked(&proto, pool, session->node) < 0) {
        pool_proto_done(&proto);
        changes->error = -ENOMEM;
        return;
    }
    len = xce__v1__pool__get_packed_size(&proto.message);
    bytes = malloc(len);
    if (bytes) {
        (void)xce__v1__pool__pack(&proto.message, bytes);
        wire_bytes(changes, 3, bytes, len);
    } else {
        changes->error = -ENOMEM;
    }
    free(bytes);
    pool_proto_done(&proto);
}

/* false: the session is over. */
static bool add_node(struct session *session, struct buf *changes)
{
    const struct fsm_node *node = fsm_node(service_fsm(session->service), session->node);

    if (!node || node->state == NODE_FENCED) {
        finish(session, FSM_IGNORED,
               node ? "this node is fenced" : "this node was removed from the register");
        return false;
    }
    /* At another replica. */
    if (node->session > session->number) {
        finish(session, FSM_IGNORED, "a newer session of this node has begun");
        return false;
    }
    /* It is asked at the beginning of a session. */
    if (fsm_wants_epochs(service_fsm(session->service), node) &&
        (session->epochs_told || !session->epochs_asked)) {
        finish(session, FSM_IGNORED, REPORT_AGAIN);
        return false;
    }
    wire_varint(changes, 6, (uint64_t)node->state);
    return true;
}

/* ---- the feed ---- */

/* Add one event to the message that gathers. false: the session is over. */
static bool add_event(struct session *session, struct buf *changes, const struct hub_event *event)
{
    const struct fsm_pool *pool;

    switch (event->kind) {
    case HUB_LEASE:
    case HUB_LISTED:
        wire_bytes(changes, 2, event->lease, event->lease_len);
        break;
    case HUB_POOL:
        pool = fsm_pool(service_fsm(session->service), event->name);
        if (pool)
            add_pool(session, changes, pool);
        break;
    case HUB_POOL_GONE:
        if (!fsm_pool(service_fsm(session->service), event->name))
            wire_bytes(changes, 4, event->name, strlen(event->name));
        break;
    case HUB_NODE:
    case HUB_NODE_GONE:
        if (!strcmp(event->name, session->node))
            return add_node(session, changes);
        break;
    case HUB_SYNCED:
        session->listing = false;
        wire_varint(changes, 5, 1);
        break;
    case HUB_SKIPPED:
        finish(session, FSM_IGNORED, "too slow: changes were skipped; begin a new session");
        return false;
    }
    return true;
}

static void pump(void *arg)
{
    struct session *session = arg;
    AUTO(buf_done) struct buf changes = BUF_INIT(CHANGES_MAX);
    struct hub_event event;
    bool any = false;

    while (!session->full && session->stage == STAGE_SERVED &&
           hub_next(session->subscription, &event) > 0) {
        any = true;
        if (!add_event(session, &changes, &event))
            return;
        if (changes.len < CHANGES_BYTES)
            continue;
        wire_varint(&changes, 1, session->listing ? 0 : hub_position(session->subscription));
        send_changes(session, &changes);
        any = false;
    }
    if (!any || session->stage != STAGE_SERVED)
        return;
    wire_varint(&changes, 1, session->listing ? 0 : hub_position(session->subscription));
    send_changes(session, &changes);
}

/* ---- hello ---- */

/* Follow the feed; whether the node will get a full list is told by what the hub gives first. */
static int subscribe(struct session *session, bool *ret_full)
{
    const struct hub_filter filter = {.node = session->mirror_own ? session->node : NULL,
                                      .concerns = session->node};
    bool resumes = session->resume && !session->list_wanted && session->same_incarnation &&
                   hub_keeps(session->service->deps.hub, session->resume);

    *ret_full = session->listing = !resumes;
    return hub_subscribe(session->service->deps.hub, resumes ? session->resume : HUB_SINCE_LIST,
                         &filter, pump, session, &session->subscription);
}

static void send_welcome(struct session *session, const struct fsm_outcome *outcome, bool full)
{
    const struct fsm *fsm = service_fsm(session->service);
    Xce__V1__SessionDown message = XCE__V1__SESSION_DOWN__INIT;
    Xce__V1__Welcome welcome = XCE__V1__WELCOME__INIT;

    welcome.session = session->number;
    welcome.revision = outcome->revision;
    welcome.prefix = (char *)fsm_prefix(fsm);
    welcome.heartbeat_ms = session->service->options.heartbeat_ms;
    welcome.full = full;
    welcome.incarnation.data = (uint8_t *)fsm_incarnation(fsm);
    welcome.incarnation.len = 16;
    welcome.epochs_wanted = session->epochs_asked;
    message.body_case = XCE__V1__SESSION_DOWN__BODY_WELCOME;
    message.welcome = &welcome;
    send_message(session, &message);
}

/* Pools go ahead of the leases in them: the map needs its ranges first. */
static void send_pools(struct session *session)
{
    AUTO(buf_done) struct buf changes = BUF_INIT(CHANGES_MAX);
    const struct fsm_pool *pool = NULL;

    while ((pool = fsm_pool_next(service_fsm(session->service), pool)))
        add_pool(session, &changes, pool);
    if (add_node(session, &changes))
        send_changes(session, &changes);
}

/* The same node under an older session is answered no more. */
static void supersede(struct session *session)
{
    struct session *other, *next;

    for (other = session->service->sessions; other; other = next) {
        next = other->next;
        if (other != session && other->stage == STAGE_SERVED && !strcmp(other->node, session->node))
            finish(other, FSM_IGNORED, "a newer session of this node has begun");
    }
}

static void greet(struct session *session, const struct fsm_outcome *outcome)
{
    bool full;
    int r;

    session->number = outcome->session;
    session->stage = STAGE_SERVED;
    session->epochs_asked = fsm_wants_epochs(
        service_fsm(session->service), fsm_node(service_fsm(session->service), session->node));
    supersede(session);
    ticker_heard(session->service->ticker, session->node, session->number, 0, "");
    r = subscribe(session, &full);
    if (r < 0) {
        finish(session, r, NULL);
        return;
    }
    log_info(LOG_FIELDS(.message_id = LOG_ID_NODE_STATE, .node = session->node), "session %llu%s",
             (unsigned long long)session->number, full ? ", full list" : "");
    send_welcome(session, outcome, full);
    if (session->stage == STAGE_SERVED)
        send_pools(session);
    pump(session);
}

static void greeted(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct session *session = arg;

    session->proposals--;
    if (session->orphan || session->stage != STAGE_HELLO) {
        destroy(session);
        return;
    }
    if (r < 0) {
        finish(session, r, NULL);
    } else if (outcome->code != FSM_OK) {
        log_error(LOG_FIELDS(.node = session->node), "no session for node %s: %s", session->node,
                  outcome->message);
        finish(session, (int)outcome->code, outcome->message);
    } else {
        greet(session, outcome);
    }
}

/* A node speaks for itself alone. */
static int check_own(const struct session *session, const Xce__V1__Hello *hello, struct err *err)
{
    const struct service_stream *stream = session->stream;
    char node[TEXT_NODE_MAX + 1];

    memcpy(node, hello->node.data, hello->node.len);
    node[hello->node.len] = '\0';
    if (policy_sees_node(&stream->principal, stream->scope, node))
        return 0;
    return err_set(err, -EACCES, "node %s is not you", node);
}

static bool has_left(const struct session *session, const Xce__V1__Hello *hello)
{
    char boot_id[TEXT_NODE_MAX + 1];

    if (hello->boot_id.len > TEXT_NODE_MAX)
        return false;
    memcpy(boot_id, hello->boot_id.data, hello->boot_id.len);
    boot_id[hello->boot_id.len] = '\0';
    return fsm_node_has_left(service_fsm(session->service), session->node, boot_id);
}

static void said_hello(struct session *session, const Xce__V1__Hello *hello)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdHello say = XCE__V1__CMD_HELLO__INIT;
    const uint8_t *incarnation = fsm_incarnation(service_fsm(session->service));
    struct err err = {{0}};
    int r = report_check_hello(hello, &err);

    if (r == 0)
        r = check_own(session, hello, &err);
    if (r == 0)
        r = report_members(hello->proofs, hello->n_proofs, &say.proofs, &err);
    if (r < 0) {
        finish(session, r, *err.text ? err.text : NULL);
        return;
    }
    memcpy(session->node, hello->node.data, hello->node.len);
    session->node[hello->node.len] = '\0';
    session->resume = hello->resume;
    session->list_wanted = hello->list;
    session->mirror_own = hello->mirror_own;
    session->same_incarnation = hello->incarnation.len == 16 &&
                                !memcmp(hello->incarnation.data, incarnation, 16);
    session->stage = STAGE_HELLO;
    say.node = hello->node;
    say.machine_id = hello->machine_id;
    say.boot_id = hello->boot_id;
    say.clean_start = hello->clean_start;
    say.returned = has_left(session, hello);
    say.seen = session->same_incarnation ? hello->resume : 0;
    say.n_proofs = hello->n_proofs;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &say;
    session->proposals++;
    service_propose_own(session->service, &command, greeted, session);
    free(say.proofs);
}

/* ---- reports, heartbeats ---- */

/* What it says is not read while so many are under way. */
static void proposal_begins(struct session *session)
{
    if (++session->proposals >= PROPOSALS_MAX)
        session->stream->ops->pause(session->stream);
}

/* false: so is the session. */
static bool proposal_is_over(struct session *session)
{
    session->proposals--;
    if (session->orphan) {
        destroy(session);
        return false;
    }
    if (session->proposals == PROPOSALS_MAX - 1)
        session->stream->ops->resume(session->stream);
    return true;
}

static void reported(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct session *session = arg;

    if (!proposal_is_over(session))
        return;
    /* The node says it again when it does not see its word in the feed, or in its next session. */
    if (r < 0)
        finish(session, r, NULL);
    else if (outcome->code != FSM_OK)
        finish(session, (int)outcome->code, outcome->message);
}

static void epochs_reported(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct session *session = arg;

    session->epochs_told = r == 0 && outcome->code == FSM_OK;
    /* A pool came between its first report and its last; no change of the node may follow that would say so. */
    if (session->epochs_told && !session->orphan &&
        fsm_wants_epochs(service_fsm(session->service),
                         fsm_node(service_fsm(session->service), session->node)))
        finish(session, FSM_IGNORED, REPORT_AGAIN);
    reported(r, outcome, arg);
}

static void warn_pools(const struct session *session, const Xce__V1__Report *report)
{
    for (size_t i = 0; i < report->n_pools; i++) {
        const Xce__V1__PoolCheckReport *check = report->pools[i];
        char detail[512];

        if (check->passed)
            continue;
        (void)text_escape(check->detail.data, check->detail.len, detail, sizeof detail);
        log_warning(LOG_FIELDS(.message_id = LOG_ID_BLOCKED, .node = session->node),
                    "pool %.*s overlaps what this node has, which guards nothing there: %s",
                    (int)check->pool.len, (const char *)check->pool.data, detail);
    }
}

static void said_report(struct session *session, const Xce__V1__Report *report)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdReport say = XCE__V1__CMD_REPORT__INIT;
    struct err err = {{0}};
    int r = report_check_pools(report, &err);

    if (r == 0)
        r = report_members(report->members, report->n_members, &say.members, &err);
    if (r == 0)
        r = report_blocks(report->blocks, report->n_blocks, &say.blocks, &err);
    if (r == 0)
        r = report_epochs(report->epochs, report->n_epochs, &say.epochs, &err);
    if (r == 0)
        warn_pools(session, report);
    if (r < 0) {
        finish(session, r, *err.text ? err.text : NULL);
    } else if (report->n_members || report->n_blocks || report->n_epochs || report->epochs_done) {
        say.node.data = (uint8_t *)session->node;
        say.node.len = strlen(session->node);
        say.session = session->number;
        say.n_members = report->n_members;
        say.n_blocks = report->n_blocks;
        say.n_epochs = report->n_epochs;
        say.epochs_done = report->epochs_done;
        say.epochs_before = session->n_epochs;
        session->n_epochs += report->n_epochs;
        command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
        command.report = &say;
        proposal_begins(session);
        service_propose_own(session->service, &command,
                            report->epochs_done ? epochs_reported : reported, session);
    }
    free(say.members);
    free(say.blocks);
    free(say.epochs);
}

static void said_heartbeat(struct session *session, const Xce__V1__Heartbeat *beat)
{
    struct err err = {{0}};

    if (text_require("hangs", beat->hangs.data, beat->hangs.len, TICKER_HANGS_MAX, &err) < 0) {
        finish(session, -EINVAL, err.text);
        return;
    }
    session->beat.node = session->node;
    session->beat.session = session->number;
    if (beat->hangs.len)
        memcpy(session->beat.hangs, beat->hangs.data, beat->hangs.len);
    session->beat.hangs[beat->hangs.len] = '\0';
    session->beat.watermark = beat->watermark;
    session->beat.seq = beat->seq;
    tell_beat(session->service->tell, &session->beat);
}

void session_ack(struct beat *beat)
{
    struct session *session = CONTAINER_OF(beat, struct session, beat);
    Xce__V1__SessionDown message = XCE__V1__SESSION_DOWN__INIT;
    Xce__V1__HeartbeatAck ack = XCE__V1__HEARTBEAT_ACK__INIT;

    /* A node that does not read gets no answers that would only gather here. */
    if (session->full || session->stage != STAGE_SERVED)
        return;
    ack.seq = beat->seq;
    ack.now_ms = engine_told_ms(session->service->deps.engine);
    message.body_case = XCE__V1__SESSION_DOWN__BODY_ACK;
    message.ack = &ack;
    send_message(session, &message);
}

/* One answer to the question that this session was asked last. */
static void said_overlap(struct session *session, const Xce__V1__OverlapAnswer *answer)
{
    if (session->stage != STAGE_SERVED || session->answered || !answer->question ||
        answer->question != session->surveyed)
        return;
    session->answered = true;
    survey_heard(session->service, session->node, answer);
}

/* The node says it again when it does not see the lease end. */
static void released(int r, const struct fsm_outcome *outcome, void *arg)
{
    (void)r, (void)outcome;
    (void)proposal_is_over(arg);
}

static void said_release(struct session *session, const Xce__V1__DeferredRelease *release)
{
    const char *message;
    int r;

    proposal_begins(session);
    r = handed_release(session->service, session->node, release, released, session, &message);
    if (r != HANDED_PROPOSED)
        (void)proposal_is_over(session);
    if (r < 0)
        finish(session, r, message);
}

/* One answer to each question that this session was asked: it goes to all replicas. */
static void said_dry(struct session *session, const Xce__V1__DryReport *report)
{
    for (size_t i = 0; i < DRY_ASKED_MAX; i++) {
        if (!report->question || session->dry_asked[i] != report->question)
            continue;
        session->dry_asked[i] = 0;
        if (dry_is_sound(report))
            tell_dry_found(session->service->tell, report);
        return;
    }
}

/* ---- the stream's events ---- */

static void opened(struct service *service, struct service_stream *stream)
{
    struct session *session = calloc(1, sizeof *session);

    stream->handler = session;
    if (!session) {
        stream->ops->finish(stream, -ENOMEM, NULL);
        return;
    }
    session->service = service;
    session->stream = stream;
    session->opened_ms = service->deps.mono_ms();
    session->next = service->sessions;
    session->place = &service->sessions;
    if (session->next)
        session->next->place = &session->next;
    service->sessions = session;
}

static void said(struct service_stream *stream, const ProtobufCMessage *message)
{
    const Xce__V1__SessionUp *up = (const Xce__V1__SessionUp *)message;
    struct session *session = stream->handler;
    bool hello = up->body_case == XCE__V1__SESSION_UP__BODY_HELLO;

    if (!session || session->stage == STAGE_OVER)
        return;
    if (hello != (session->stage == STAGE_OPEN)) {
        finish(session, -EINVAL,
               hello ? "a session has one hello"
                     : "a session begins with a hello, and waits for its welcome");
        return;
    }
    switch (up->body_case) {
    case XCE__V1__SESSION_UP__BODY_HELLO:
        said_hello(session, up->hello);
        break;
    case XCE__V1__SESSION_UP__BODY_HEARTBEAT:
        if (session->stage == STAGE_SERVED)
            said_heartbeat(session, up->heartbeat);
        break;
    case XCE__V1__SESSION_UP__BODY_REPORT:
        if (session->stage == STAGE_SERVED && up->report->dry)
            said_dry(session, up->report->dry);
        else if (session->stage == STAGE_SERVED)
            said_report(session, up->report);
        break;
    case XCE__V1__SESSION_UP__BODY_OVERLAP:
        said_overlap(session, up->overlap);
        break;
    case XCE__V1__SESSION_UP__BODY_RELEASE:
        if (session->stage == STAGE_SERVED)
            said_release(session, up->release);
        break;
    default:
        break; /* of a newer version */
    }
}

static void half_closed(struct service_stream *stream)
{
    struct session *session = stream->handler;

    if (session)
        finish(session, 0, NULL);
}

static void writable(struct service_stream *stream)
{
    struct session *session = stream->handler;

    if (!session)
        return;
    session->full = false;
    if (session->stage == STAGE_SERVED)
        pump(session);
}

static void ended(struct service_stream *stream)
{
    struct session *session = stream->handler;

    if (!session)
        return;
    *session->place = session->next;
    if (session->next)
        session->next->place = session->place;
    if (session->subscription)
        hub_unsubscribe(session->subscription);
    session->subscription = NULL;
    if (session->number) {
        session->beat.node = session->node;
        session->beat.session = session->number;
        tell_gone(session->service->tell, &session->beat);
    }
    session->stage = STAGE_OVER;
    session->orphan = true;
    destroy(session);
}

const struct service_stream_handler service_node_session = {
    .request = &xce__v1__session_up__descriptor,
    .open = opened,
    .message = said,
    .half_closed = half_closed,
    .writable = writable,
    .ended = ended,
};

/* ---- for the others ---- */

void session_stop(struct service *service)
{
    for (struct session *session = service->sessions; session; session = session->next)
        finish(session, -ECANCELED, NULL);
}

static struct session *served(const struct service *service, const char *node)
{
    for (struct session *session = service->sessions; session; session = session->next)
        if (session->stage == STAGE_SERVED && !strcmp(session->node, node))
            return session;
    return NULL;
}

void session_fill(const struct service *service, const char *node, Xce__V1__Node *ret)
{
    ret->connected = ticker_connected(service->ticker, node);
    ret->heard_ms = ticker_heard_wall_ms(service->ticker, node);
    ret->hangs = (char *)(uintptr_t)ticker_hangs(service->ticker, node);
    ret->listening_ms = ticker_listening_wall_ms(service->ticker);
}

void session_sweep(struct service *service, const char *node, const ProtobufCBinaryData *reason,
                   uint64_t question)
{
    Xce__V1__SessionDown message = XCE__V1__SESSION_DOWN__INIT;
    Xce__V1__SweepNow sweep = XCE__V1__SWEEP_NOW__INIT;
    struct session *session = served(service, node);
    char text[TEXT_NOTE_MAX + 1];

    if (!session || session->full)
        return;
    if (reason->len)
        memcpy(text, reason->data, reason->len);
    text[reason->len] = '\0';
    sweep.reason = text;
    sweep.dry_run = question != 0;
    sweep.question = question;
    if (question) {
        session->dry_asked[session->dry_next] = question;
        session->dry_next = (session->dry_next + 1) % DRY_ASKED_MAX;
    }
    message.body_case = XCE__V1__SESSION_DOWN__BODY_SWEEP;
    message.sweep = &sweep;
    send_message(session, &message);
}

/* The uids next in line have changed: a new version of what nodes check ahead of time. */
static void look(struct service *service)
{
    const struct fsm *fsm = service_fsm(service);
    struct look_ahead *ahead = service->look_ahead;
    uint32_t uids[AHEAD_MAX];
    const struct fsm_pool *pool = NULL;
    size_t n = 0;

    while ((pool = fsm_pool_next(fsm, pool)) && n + AHEAD_POOL <= AHEAD_MAX)
        if (!pool->retiring)
            n += fsm_pool_ahead(pool, uids + n, AHEAD_POOL);
    if (n == ahead->n && !memcmp(uids, ahead->uids, n * sizeof *uids))
        return;
    ahead->version++;
    ahead->n = n;
    memcpy(ahead->uids, uids, n * sizeof *uids);
    for (size_t i = 0; i < n; i++)
        ahead->epochs[i] = fsm_epoch_floor(fsm, uids[i]) + 1;
}

static void send_look_ahead(struct session *session)
{
    Xce__V1__SessionDown message = XCE__V1__SESSION_DOWN__INIT;
    Xce__V1__LookAhead look_ahead = XCE__V1__LOOK_AHEAD__INIT;
    struct look_ahead *ahead = session->service->look_ahead;

    session->looked = ahead->version;
    look_ahead.uids = ahead->uids;
    look_ahead.n_uids = ahead->n;
    look_ahead.epochs = ahead->epochs;
    look_ahead.n_epochs = ahead->n;
    message.body_case = XCE__V1__SESSION_DOWN__BODY_LOOK_AHEAD;
    message.look_ahead = &look_ahead;
    send_message(session, &message);
}

void session_elapse(struct service *service)
{
    int64_t now_ms = service->deps.mono_ms();
    struct session *session, *next;

    if (!service->look_ahead)
        service->look_ahead = calloc(1, sizeof *service->look_ahead);
    if (service->look_ahead && now_ms - service->look_ahead->looked_ms >= LOOK_EVERY_MS) {
        service->look_ahead->looked_ms = now_ms;
        look(service);
    }
    for (session = service->sessions; session; session = next) {
        next = session->next;
        if (session->stage == STAGE_OPEN && now_ms - session->opened_ms > HELLO_WITHIN)
            finish(session, -ETIME, "no hello came");
        else if (session->stage == STAGE_SERVED && !session->full && service->look_ahead &&
                 session->looked != service->look_ahead->version)
            send_look_ahead(session);
    }
}

static bool survey_one(struct session *session, const Xce__V1__OverlapQuestion *question)
{
    Xce__V1__SessionDown message = XCE__V1__SESSION_DOWN__INIT;

    if (session->surveyed == question->question)
        return session->answered;
    if (!session->full) {
        session->surveyed = question->question;
        session->answered = false;
        message.body_case = XCE__V1__SESSION_DOWN__BODY_OVERLAP;
        message.overlap = (Xce__V1__OverlapQuestion *)(uintptr_t)question;
        send_message(session, &message);
    }
    return false;
}

bool session_survey(struct service *service, const Xce__V1__OverlapQuestion *question)
{
    bool all = true;

    for (struct session *session = service->sessions, *next; session; session = next) {
        next = session->next;
        if (session->stage == STAGE_SERVED && !survey_one(session, question))
            all = false;
    }
    return all;
}
