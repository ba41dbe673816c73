#include "noded/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "common/pb.h"
#include "common/text.h"
#include "noded/deferred.h"
#include "noded/reason.h"
#include "noded/session_decode.h"

#define METHOD           "/xce.v1.NodeService/Session"
#define SERVERS_MAX      16
#define HEARTBEAT_MIN_MS 50
#define HEARTBEAT_MAX_MS 60000
/* So many unanswered in a row: the server is as good as gone. Sooner where another one may be better off. */
#define HEARTBEATS_LOST            5
#define HEARTBEATS_LOST_OF_SEVERAL 2
#define HEARTBEATS_KEPT            16 /* whose time of sending is known */
#define WELCOME_WAIT_MS            20000
#define WELCOME_WAIT_OF_SEVERAL_MS 4000 /* the same, where there is another one */
#define MEMBERS_IN_MESSAGE         512
#define EPOCHS_IN_MESSAGE          4096
#define WAITING_MAX                (1u << 20) /* reports that the server does not take: give up on it */
#define DETAIL_MAX                 256

/* A growing row of messages of one kind, each in a piece of memory of its own. */
struct row {
    void **items;
    size_t n, cap;
};

struct packed {
    size_t len;
    uint8_t bytes[];
};

struct session {
    struct loop *loop;
    struct session_ops ops;
    void *arg;
    char *node;
    char *servers[SERVERS_MAX];
    size_t n_servers, server; /* the one in use */
    int64_t retry_min_ms, retry_max_ms, retry_ms;

    struct tls_keys *keys;
    struct grpc_channel *channel;
    struct grpc_request *request;
    struct loop_timer *timer; /* next attempt; welcome overdue; heartbeat */
    struct loop_soon *flush;
    struct pb_arena arena;
    bool welcomed, blocked, closing;
    bool silent;   /* this session ended because its server says nothing */
    bool unwanted; /* the welcome was not to our liking */
    char trouble[256];

    int64_t heartbeat_ms;
    uint64_t seq, acked;
    int64_t sent_ms[HEARTBEATS_KEPT];
    uint64_t watermark;
    char hangs[DETAIL_MAX];
    bool beat_wanted; /* it would say something new */

    struct row members, blocks, pools, releases;
    struct row dry;                  /* whole messages, as struct packed */
    Xce__V1__OverlapAnswer *overlap; /* to be said; NULL = none */
    struct state_epoch *epochs;      /* to be reported; NULL = none are wanted, or all have been */
    size_t n_epochs, epochs_sent;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void attempt(struct session *s);

/* ---- rows ---- */

static void row_add(struct row *row, void *item)
{
    mem_must_grow(&row->items, &row->cap, row->n + 1, sizeof(*row->items));
    row->items[row->n++] = item;
}

static void row_cut(struct row *row, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        free(row->items[i]);
    memmove(row->items, row->items + n, (row->n - n) * sizeof(*row->items));
    row->n -= n;
}

static void row_done(struct row *row)
{
    row_cut(row, row->n);
    free(row->items);
    *row = (struct row){0};
}

static void rows_forget(struct session *s)
{
    row_done(&s->members);
    row_done(&s->blocks);
    row_done(&s->pools);
    row_done(&s->dry);
    row_done(&s->releases);
    free(mem_take(s->overlap));
    free(mem_take(s->epochs));
    s->beat_wanted = false;
}

/* ---- ends and beginnings ---- */

static void channel_drop(struct session *s)
{
    if (s->channel)
        grpc_channel_close(s->channel, NULL, NULL);
    s->channel = NULL;
}

static void trouble(struct session *s, const char *what)
{
    char text[sizeof(s->trouble)];

    (void)snprintf(text, sizeof(text), "%s: %s", s->servers[s->server], what);
    if (strcmp(text, s->trouble) != 0)
        log_notice(LOG_FIELDS(.node = s->node), "no session with leased: %s", text);
    memcpy(s->trouble, text, sizeof(text));
}

static void close_finish(struct session *s)
{
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;

    channel_drop(s);
    loop_timer_free(s->timer);
    loop_soon_free(s->flush);
    rows_forget(s);
    pb_arena_done(&s->arena);
    for (size_t i = 0; i < s->n_servers; i++)
        free(s->servers[i]);
    free(s->node);
    free(s);
    if (closed)
        closed(arg);
}

static void on_end(struct grpc_request *request, enum grpc_status status, const char *message,
                   bool sent, void *arg)
{
    struct session *s = arg;
    bool was = s->welcomed;
    char text[200];

    s->request = NULL;
    s->welcomed = false;
    rows_forget(s);
    loop_timer_stop(s->timer);
    if (s->closing) {
        close_finish(s);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%s%s", grpc_status_name(status),
                   message && *message ? ": " : "", message ? message : "");
    trouble(s, text);
    if (was)
        s->ops.ended(s->arg);
    was = was && !s->unwanted;
    s->unwanted = false;
    /* The next one in the row, save after a session that was good to its end: it is likely to be back at once. */
    if (s->n_servers > 1 && (!was || s->silent)) {
        channel_drop(s);
        s->server = (s->server + 1) % s->n_servers;
    }
    s->silent = false;
    s->retry_ms = was ? s->retry_min_ms : s->retry_ms * 2;
    if (s->retry_ms > s->retry_max_ms)
        s->retry_ms = s->retry_max_ms;
    loop_timer_start(s->timer, s->retry_ms, 0);
}

static void end_because(struct session *s, const char *why)
{
    log_warning(LOG_FIELDS(.node = s->node), "ending the session with leased: %s", why);
    if (s->request)
        grpc_request_cancel(s->request);
}

void session_again(struct session *s, const char *why)
{
    if (s)
        end_because(s, why);
}

/* Behind a cut a connection stays open for long: it is left, too. */
static void end_silent(struct session *s, const char *why)
{
    s->silent = true;
    end_because(s, why);
}

/* ---- up ---- */

static int up_send(struct session *s, Xce__V1__SessionUp *up)
{
    size_t len = xce__v1__session_up__get_packed_size(up);
    auto_free uint8_t *bytes = mem_must_alloc(len);
    int r;

    (void)xce__v1__session_up__pack(up, bytes);
    r = grpc_request_send(s->request, bytes, len);
    if (r == GRPC_FULL)
        s->blocked = true;
    return r < 0 ? r : 0;
}

static void heartbeat_send(struct session *s)
{
    Xce__V1__Heartbeat heartbeat = XCE__V1__HEARTBEAT__INIT;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;

    heartbeat.seq = ++s->seq;
    heartbeat.watermark = heartbeat.pass_began = s->watermark;
    heartbeat.hangs = (ProtobufCBinaryData){strlen(s->hangs), (uint8_t *)s->hangs};
    up.body_case = XCE__V1__SESSION_UP__BODY_HEARTBEAT;
    up.heartbeat = &heartbeat;
    s->sent_ms[s->seq % HEARTBEATS_KEPT] = loop_now_fresh_ms();
    s->beat_wanted = false;
    (void)up_send(s, &up);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void report_send(struct session *s)
{
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;

    report.n_members = least(s->members.n, MEMBERS_IN_MESSAGE);
    report.members = (Xce__V1__MemberReport **)s->members.items;
    report.n_blocks = least(s->blocks.n, MEMBERS_IN_MESSAGE);
    report.blocks = (Xce__V1__BlockReport **)s->blocks.items;
    report.n_pools = least(s->pools.n, MEMBERS_IN_MESSAGE);
    report.pools = (Xce__V1__PoolCheckReport **)s->pools.items;
    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = &report;
    (void)up_send(s, &up);
    row_cut(&s->members, report.n_members);
    row_cut(&s->blocks, report.n_blocks);
    row_cut(&s->pools, report.n_pools);
}

/* The next piece of them. */
static void epochs_send(struct session *s)
{
    Xce__V1__EpochReport items[EPOCHS_IN_MESSAGE], *list[EPOCHS_IN_MESSAGE];
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;

    report.n_epochs = least(s->n_epochs - s->epochs_sent, EPOCHS_IN_MESSAGE);
    report.epochs = list;
    for (size_t i = 0; i < report.n_epochs; i++) {
        xce__v1__epoch_report__init(&items[i]);
        items[i].uid = s->epochs[s->epochs_sent + i].uid;
        items[i].epoch = s->epochs[s->epochs_sent + i].epoch;
        list[i] = &items[i];
    }
    s->epochs_sent += report.n_epochs;
    report.epochs_done = s->epochs_sent == s->n_epochs;
    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = &report;
    (void)up_send(s, &up);
    if (report.epochs_done)
        free(mem_take(s->epochs));
}

static void overlap_send(struct session *s)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    auto_free Xce__V1__OverlapAnswer *answer = mem_take(s->overlap);

    up.body_case = XCE__V1__SESSION_UP__BODY_OVERLAP;
    up.overlap = answer;
    (void)up_send(s, &up);
}

static void dry_send(struct session *s)
{
    const struct packed *packed = s->dry.items[0];

    if (grpc_request_send(s->request, packed->bytes, packed->len) == GRPC_FULL)
        s->blocked = true;
    row_cut(&s->dry, 1);
}

static void release_send(struct session *s)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;

    up.body_case = XCE__V1__SESSION_UP__BODY_RELEASE;
    up.release = s->releases.items[0];
    (void)up_send(s, &up);
    row_cut(&s->releases, 1);
}

static void flush(void *arg)
{
    struct session *s = arg;

    if (!s->welcomed || !s->request)
        return;
    while (!s->blocked && s->epochs)
        epochs_send(s);
    while (!s->blocked && s->releases.n)
        release_send(s);
    while (!s->blocked && (s->members.n || s->blocks.n || s->pools.n))
        report_send(s);
    if (!s->blocked && s->overlap)
        overlap_send(s);
    while (!s->blocked && s->dry.n)
        dry_send(s);
    if (!s->blocked && s->beat_wanted)
        heartbeat_send(s);
    if (s->members.n > WAITING_MAX)
        end_because(s, "it does not take our reports");
}

static void hello_send(struct session *s)
{
    Xce__V1__Hello hello = XCE__V1__HELLO__INIT;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    struct session_hello h = {0};

    s->ops.hello(&h, s->arg);
    hello.node = (ProtobufCBinaryData){strlen(s->node), (uint8_t *)s->node};
    hello.machine_id = (ProtobufCBinaryData){strlen(h.machine_id),
                                             (uint8_t *)(uintptr_t)h.machine_id};
    hello.boot_id = (ProtobufCBinaryData){strlen(h.boot_id), (uint8_t *)(uintptr_t)h.boot_id};
    hello.clean_start = h.clean_start;
    hello.resume = h.resume;
    hello.list = h.list;
    hello.mirror_own = h.mirror_own;
    hello.incarnation = (ProtobufCBinaryData){h.incarnation_len,
                                              (uint8_t *)(uintptr_t)h.incarnation};
    up.body_case = XCE__V1__SESSION_UP__BODY_HELLO;
    up.hello = &hello;
    (void)up_send(s, &up);
}

/* ---- down ---- */

static int on_welcome(struct session *s, const Xce__V1__Welcome *message, struct err *err)
{
    struct session_welcome welcome;
    int r;

    if (s->welcomed)
        return err_set(err, -EBADMSG, "a second welcome");
    r = session_decode_welcome(message, &welcome, err);
    if (r < 0)
        return r;
    s->heartbeat_ms = message->heartbeat_ms;
    if (s->heartbeat_ms < HEARTBEAT_MIN_MS)
        s->heartbeat_ms = HEARTBEAT_MIN_MS;
    if (s->heartbeat_ms > HEARTBEAT_MAX_MS)
        s->heartbeat_ms = HEARTBEAT_MAX_MS;
    s->welcomed = true;
    s->seq = s->acked = 0;
    s->watermark = 0;
    r = s->ops.welcome(&welcome, s->arg);
    s->unwanted = r < 0;
    if (r < 0)
        return err_set(err, r, "its state is another than the one known here");
    s->retry_ms = s->retry_min_ms;
    s->trouble[0] = '\0';
    log_info(LOG_FIELDS(.node = s->node), "session %llu with leased at %s, from revision %llu on",
             (unsigned long long)welcome.session, s->servers[s->server],
             (unsigned long long)welcome.revision);
    heartbeat_send(s);
    loop_timer_start(s->timer, s->heartbeat_ms, s->heartbeat_ms);
    return 0;
}

static void on_ack(struct session *s, const Xce__V1__HeartbeatAck *ack)
{
    if (ack->seq <= s->acked || ack->seq > s->seq)
        return;
    s->acked = ack->seq;
    if (s->seq - ack->seq < HEARTBEATS_KEPT)
        s->ops.heard(s->sent_ms[ack->seq % HEARTBEATS_KEPT], s->arg);
}

static int on_down(struct session *s, const Xce__V1__SessionDown *down, struct err *err)
{
    if (!s->welcomed && down->body_case != XCE__V1__SESSION_DOWN__BODY_WELCOME)
        return err_set(err, -EBADMSG, "something came before the welcome");
    switch (down->body_case) {
    case XCE__V1__SESSION_DOWN__BODY_WELCOME:
        return on_welcome(s, down->welcome, err);
    case XCE__V1__SESSION_DOWN__BODY_CHANGES:
        return session_decode_changes(down->changes, s->node, &s->ops, s->arg, err);
    case XCE__V1__SESSION_DOWN__BODY_ACK:
        on_ack(s, down->ack);
        return 0;
    case XCE__V1__SESSION_DOWN__BODY_LOOK_AHEAD:
        return session_decode_look_ahead(down->look_ahead, &s->ops, s->arg, err);
    case XCE__V1__SESSION_DOWN__BODY_SWEEP:
        if (down->sweep->dry_run)
            s->ops.dry_run(down->sweep->question, down->sweep->reason, s->arg);
        else
            s->ops.sweep_now(down->sweep->reason, s->arg);
        return 0;
    case XCE__V1__SESSION_DOWN__BODY_OVERLAP:
        if (down->overlap->first > down->overlap->last)
            return err_set(err, -EBADMSG, "an overlap of %u-%u", down->overlap->first,
                           down->overlap->last);
        s->ops.overlap(down->overlap->question, down->overlap->first, down->overlap->last, s->arg);
        return 0;
    default:
        return 0; /* of a newer leased */
    }
}

static void on_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct session *s = arg;
    ProtobufCMessage *message = NULL;
    struct err err = {0};
    int r = pb_unpack(&s->arena, &xce__v1__session_down__descriptor, data, len, &message, &err);

    if (r == 0)
        r = on_down(s, (const Xce__V1__SessionDown *)message, &err);
    pb_arena_reset(&s->arena);
    if (r < 0)
        end_because(s, *err.text ? err.text : err_text(r));
}

static void on_writable(struct grpc_request *request, void *arg)
{
    struct session *s = arg;

    s->blocked = false;
    flush(s);
}

static const struct grpc_request_events events = {
    .message = on_message, .writable = on_writable, .end = on_end};

/* ---- attempts ---- */

static void attempt(struct session *s)
{
    struct grpc_limits limits = {0};
    int r = 0;

    s->blocked = false;
    if (!s->channel)
        r = grpc_channel_open(s->loop, s->servers[s->server], s->keys, &limits, &s->channel);
    if (r == 0)
        r = grpc_request_start(s->channel, METHOD, 0, NULL, &events, s, &s->request);
    if (r < 0) {
        trouble(s, err_text(r));
        loop_timer_start(s->timer, s->retry_max_ms, 0);
        return;
    }
    hello_send(s);
    loop_timer_start(s->timer, s->n_servers > 1 ? WELCOME_WAIT_OF_SEVERAL_MS : WELCOME_WAIT_MS, 0);
}

static void on_timer(void *arg)
{
    struct session *s = arg;

    if (!s->request)
        attempt(s);
    else if (!s->welcomed)
        end_silent(s, "no answer to our hello");
    else if (s->seq - s->acked >= (s->n_servers > 1 ? HEARTBEATS_LOST_OF_SEVERAL : HEARTBEATS_LOST))
        end_silent(s, "no answer to our heartbeats");
    else if (!s->blocked)
        heartbeat_send(s);
    else
        s->seq++; /* it does not take them either: counts as unanswered */
}

int session_new(struct loop *loop, const struct session_options *options,
                const struct session_ops *ops, void *arg, struct session **ret)
{
    struct session *s;

    if (options->n_servers == 0 || options->n_servers > SERVERS_MAX)
        return -EINVAL;
    s = mem_must_calloc(1, sizeof(*s));
    s->loop = loop;
    s->ops = *ops;
    s->arg = arg;
    s->node = mem_must_strdup(options->node);
    s->keys = options->keys;
    for (size_t i = 0; i < options->n_servers; i++)
        s->servers[s->n_servers++] = mem_must_strdup(options->servers[i]);
    s->retry_min_ms = options->retry_min_ms ? options->retry_min_ms : 100;
    s->retry_max_ms = options->retry_max_ms ? options->retry_max_ms : 5000;
    s->retry_ms = s->retry_min_ms;
    pb_arena_init(&s->arena, PB_ARENA_MAX);
    if (loop_timer_new(loop, on_timer, s, &s->timer) < 0 ||
        loop_soon_new(loop, flush, s, &s->flush) < 0)
        abort();
    loop_timer_start(s->timer, 0, 0);
    *ret = s;
    return 0;
}

void session_close(struct session *s, void (*done)(void *arg), void *arg)
{
    s->closing = true;
    s->closed = done;
    s->closed_arg = arg;
    if (s->request)
        grpc_request_cancel(s->request);
    else
        close_finish(s);
}

const char *session_server(const struct session *s)
{
    return s && s->welcomed ? s->servers[s->server] : NULL;
}

const char *session_trouble(const struct session *s)
{
    return s ? s->trouble : "";
}

/* ---- what is said ---- */

static ProtobufCBinaryData word_of(unsigned reason)
{
    const char *word = reason_word((enum reason)reason);

    return (ProtobufCBinaryData){strlen(word), (uint8_t *)(uintptr_t)word};
}

/* A message of len bytes and behind it the detail, made safe; *ret_text is set to it. */
static void *said_new(size_t len, const char *detail, ProtobufCBinaryData *ret_text)
{
    char text[DETAIL_MAX];
    size_t n = detail ? text_escape(detail, strlen(detail), text, sizeof(text)) : 0;
    char *said = mem_must_calloc(1, len + n + 1);

    if (n)
        memcpy(said + len, text, n);
    *ret_text = (ProtobufCBinaryData){n, (uint8_t *)said + len};
    return said;
}

void session_say(struct session *s, enum state_say what, const struct state_verdict *about)
{
    ProtobufCBinaryData detail;
    Xce__V1__MemberReport *report;

    if (!s || !s->welcomed)
        return;
    report = said_new(sizeof(*report), about->detail, &detail);
    xce__v1__member_report__init(report);
    report->uid = about->uid;
    report->epoch = about->epoch;
    report->kind = (Xce__V1__ReportKind)what; /* the same numbers */
    report->reason = word_of(about->reason);
    report->detail = detail;
    row_add(&s->members, report);
    loop_soon_start(s->flush);
}

void session_epochs(struct session *s, const struct state_epoch *epochs, size_t n)
{
    if (!s || !s->welcomed)
        return;
    free(s->epochs);
    s->epochs = mem_must_calloc(n + 1, sizeof(*epochs));
    if (n)
        memcpy(s->epochs, epochs, n * sizeof(*epochs));
    s->n_epochs = n;
    s->epochs_sent = 0;
    loop_soon_start(s->flush);
}

/* The message with its id behind it. */
void session_release(struct session *s, const struct deferred_release *release)
{
    Xce__V1__DeferredRelease *message;

    if (!s || !s->welcomed)
        return;
    message = mem_must_alloc(sizeof(*message) + release->id_len);
    xce__v1__deferred_release__init(message);
    message->lease = release->lease;
    message->uid = release->uid;
    message->epoch = release->epoch;
    message->caller = release->caller;
    message->since_ms = release->since_ms;
    message->id = (ProtobufCBinaryData){release->id_len, (uint8_t *)(message + 1)};
    memcpy(message->id.data, release->id, release->id_len);
    row_add(&s->releases, message);
    loop_soon_start(s->flush);
}

void session_block(struct session *s, uint32_t uid, unsigned reason, const char *detail)
{
    ProtobufCBinaryData text;
    Xce__V1__BlockReport *report;

    if (!s || !s->welcomed)
        return;
    report = said_new(sizeof(*report), detail, &text);
    xce__v1__block_report__init(report);
    report->uid = uid;
    report->reason = word_of(reason);
    report->detail = text;
    row_add(&s->blocks, report);
    loop_soon_start(s->flush);
}

void session_pool_check(struct session *s, const char *pool, bool passed, const char *detail)
{
    ProtobufCBinaryData text;
    Xce__V1__PoolCheckReport *report;
    size_t len = strlen(pool);
    char *name;

    if (!s || !s->welcomed)
        return;
    report = said_new(sizeof(*report) + len + 1, detail, &text);
    name = (char *)(report + 1);
    memcpy(name, pool, len + 1);
    xce__v1__pool_check_report__init(report);
    report->pool = (ProtobufCBinaryData){len, (uint8_t *)name};
    report->passed = passed;
    report->detail = text;
    row_add(&s->pools, report);
    loop_soon_start(s->flush);
}

void session_overlap(struct session *s, uint64_t question, uint32_t uid, const char *what)
{
    ProtobufCBinaryData text;
    Xce__V1__OverlapAnswer *answer;

    if (!s || !s->welcomed)
        return;
    answer = said_new(sizeof(*answer), what, &text);
    xce__v1__overlap_answer__init(answer);
    answer->question = question;
    answer->uid = uid;
    answer->what = text;
    free(s->overlap);
    s->overlap = answer;
    loop_soon_start(s->flush);
}

void session_watermark(struct session *s, uint64_t revision)
{
    if (!s || !s->welcomed || revision <= s->watermark)
        return;
    s->watermark = revision;
    s->beat_wanted = true;
    loop_soon_start(s->flush);
}

void session_hangs(struct session *s, const char *where)
{
    char text[DETAIL_MAX] = "";

    if (!s)
        return;
    if (where)
        (void)text_escape(where, strlen(where), text, sizeof(text));
    if (strcmp(text, s->hangs) == 0)
        return;
    memcpy(s->hangs, text, sizeof(text));
    s->beat_wanted = true;
    if (s->welcomed)
        loop_soon_start(s->flush);
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

void session_dry(struct session *s, uint64_t question, const struct session_remnant *remnants,
                 size_t n, uint32_t left_out)
{
    Xce__V1__DryReport dry = XCE__V1__DRY_REPORT__INIT;
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    auto_free Xce__V1__RemnantReport *items = mem_must_calloc(n + 1, sizeof(*items));
    auto_free Xce__V1__RemnantReport **list = mem_must_calloc(n + 1, sizeof(*list));
    auto_free char(*details)[DETAIL_MAX] = mem_must_calloc(n + 1, sizeof(*details));
    struct packed *packed;

    if (!s || !s->welcomed)
        return;
    for (size_t i = 0; i < n; i++) {
        list[i] = &items[i];
        xce__v1__remnant_report__init(&items[i]);
        (void)text_escape(remnants[i].detail, strlen(remnants[i].detail), details[i], DETAIL_MAX);
        items[i].uid = remnants[i].uid;
        items[i].kind = bytes_of(remnants[i].kind);
        items[i].count = remnants[i].count;
        items[i].would = bytes_of(remnants[i].would);
        items[i].detail = bytes_of(details[i]);
    }
    dry.question = question;
    dry.remnants = list;
    dry.n_remnants = n;
    dry.left_out = left_out;
    report.dry = &dry;
    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = &report;
    packed = mem_must_calloc(1, sizeof(*packed) + xce__v1__session_up__get_packed_size(&up));
    packed->len = xce__v1__session_up__pack(&up, packed->bytes);
    row_add(&s->dry, packed);
    loop_soon_start(s->flush);
}
