#include "tests/lib/service_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/net/loop.h"
#include "tests/lib/tmp.h"
#include "xce/v1/command.pb-c.h"

#define MACHINE "0123456789abcdef0123456789abcdef"
#define BOOT    "fedcba9876543210fedcba9876543210"

/* Of all kits: the clock's function takes no argument. */
static int64_t now_ms = 1000000;

static int64_t mono_ms(void)
{
    return now_ms;
}

static int64_t wall_ms(void)
{
    return 1700000000000 + now_ms;
}

/* ---- the whole ---- */

static void changed(const struct fsm_change *change, void *arg)
{
    struct service_kit *kit = arg;

    hub_changed(kit->hub, change);
    service_changed(kit->service, change);
}

static void applied(void *arg)
{
    struct service_kit *kit = arg;

    hub_flush(kit->hub, mono_ms());
    service_flush(kit->service);
}

static void told(const uint8_t *bytes, size_t len, void *arg)
{
    service_told(((struct service_kit *)arg)->service, bytes, len);
}

/* Off the loop, in an order that a test can tell: it is done when it is begun, or when the test says so. */
struct kit_job {
    TAILQ_ENTRY(kit_job) link;
    struct service_kit *kit;
    void (*work)(void *arg);
    void (*done)(int r, void *arg);
    void *arg;
};

static void job_done(void *arg)
{
    struct kit_job *job = arg;

    job->done(0, job->arg);
    free(job);
}

static void job_run(struct kit_job *job)
{
    job->work(job->arg);
    assert_int_equal(loop_defer(job->kit->engine.loop, job_done, job), 0);
}

static int offload(void (*work)(void *arg), void (*done)(int r, void *arg), void *arg,
                   void *offload_arg)
{
    struct service_kit *kit = offload_arg;
    struct kit_job *job = calloc(1, sizeof *job);

    assert_non_null(job);
    *job = (struct kit_job){.kit = kit, .work = work, .done = done, .arg = arg};
    kit->n_jobs++;
    if (kit->slow)
        TAILQ_INSERT_TAIL(&kit->jobs, job, link);
    else
        job_run(job);
    return 0;
}

void service_kit_work(struct service_kit *kit)
{
    struct kit_job *job;

    while ((job = TAILQ_FIRST(&kit->jobs))) {
        TAILQ_REMOVE(&kit->jobs, job, link);
        job_run(job);
    }
}

void service_kit_init(struct service_kit *kit, uint32_t n_uids)
{
    const struct service_options options = {
        .heartbeat_ms = 2000, .lost_after_ms = 30000, .grace_ms = 0};
    struct service_deps deps = {
        .offload = offload, .offload_arg = kit, .wall_ms = wall_ms, .mono_ms = mono_ms};

    memset(kit, 0, sizeof *kit);
    TAILQ_INIT(&kit->jobs);
    log_set_level(LOG_ERR);
    engine_kit_init(&kit->engine, tmp_dir());
    assert_int_equal(engine_kit_open(&kit->engine, true), 0);
    engine_kit_start(&kit->engine, n_uids);
    assert_int_equal(hub_new(kit->engine.fsm, 0, wall_ms, &kit->hub), 0);
    deps.engine = kit->engine.engine;
    deps.hub = kit->hub;
    deps.history = kit->engine.history;
    assert_int_equal(service_new(&options, &deps, &kit->service), 0);
    kit->hooks = (struct engine_hooks){
        .change = changed, .applied = applied, .told = told, .arg = kit};
    kit->engine.also = &kit->hooks;
    service_leading(kit->service, true);
}

void service_kit_done(struct service_kit *kit)
{
    engine_kit_close(&kit->engine);
    service_free(kit->service);
    hub_free(kit->hub);
    service_kit_work(kit);
    engine_kit_done(&kit->engine);
    tmp_remove(kit->engine.folder);
}

void service_kit_stall(int64_t ms)
{
    now_ms += ms;
}

void service_kit_elapse(struct service_kit *kit, int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += 50) {
        now_ms += 50;
        service_elapse(kit->service);
        loop_step(kit->engine.loop, 0);
    }
}

/* One command behind the others: when it is through, so are they. */
void service_kit_settle(struct service_kit *kit)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdGrace grace = XCE__V1__CMD_GRACE__INIT;
    uint8_t bytes[ENGINE_KIT_BYTES];

    command.kind_case = XCE__V1__COMMAND__KIND_GRACE;
    command.grace = &grace;
    assert_int_equal(engine_kit_do(&kit->engine, bytes, xce__v1__command__pack(&command, bytes)),
                     0);
    loop_step(kit->engine.loop, 0);
}

/* ---- calls ---- */

/* As the caller reads it: what is sent. */
static void take_acquired(struct kit_call *call, const ProtobufCMessage *reply)
{
    size_t len = protobuf_c_message_get_packed_size(reply);
    uint8_t *bytes = malloc(len + 1);
    Xce__V1__AcquireReply *acquired;

    assert_int_equal(protobuf_c_message_pack(reply, bytes), len);
    acquired = xce__v1__acquire_reply__unpack(NULL, len, bytes);
    assert_non_null(acquired);
    call->n_leases = acquired->n_leases;
    call->uid = acquired->leases[0]->uid;
    xce__v1__acquire_reply__free_unpacked(acquired, NULL);
    free(bytes);
}

static void replied(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    struct kit_call *call = arg;

    assert_false(call->done);
    call->done = true;
    call->r = r;
    (void)snprintf(call->message, sizeof call->message, "%s", message ? message : "");
    if (reply && reply->descriptor == &xce__v1__acquire_reply__descriptor)
        take_acquired(call, reply);
}

/* The message and what it points to, in one piece. */
struct acquire {
    Xce__V1__AcquireRequest message;
    Xce__V1__RequestId id;
    uint8_t id_bytes[16];
    Xce__V1__LeaseSpec spec, *specs[1024];
    ProtobufCBinaryData node;
};

void service_kit_acquire(struct service_kit *kit, struct kit_call *call, uint32_t id, size_t n)
{
    struct acquire *acquire = calloc(1, sizeof *acquire);

    assert_non_null(acquire);
    xce__v1__acquire_request__init(&acquire->message);
    xce__v1__request_id__init(&acquire->id);
    xce__v1__lease_spec__init(&acquire->spec);
    memcpy(acquire->id_bytes, &id, sizeof id);
    acquire->id.id = (ProtobufCBinaryData){sizeof acquire->id_bytes, acquire->id_bytes};
    acquire->node = (ProtobufCBinaryData){2, (uint8_t *)"n1"};
    acquire->spec.nodes = &acquire->node;
    acquire->spec.n_nodes = 1;
    for (size_t i = 0; i < n; i++)
        acquire->specs[i] = &acquire->spec;
    acquire->message.request = &acquire->id;
    acquire->message.leases = acquire->specs;
    acquire->message.n_leases = n;
    acquire->message.wait = true;
    *call = (struct kit_call){.request = {.scope = SCOPE_ALL,
                                          .message = &acquire->message.base,
                                          .reply = replied,
                                          .reply_arg = call}};
    principal_from_peer(0, 0, "root", &call->request.principal);
    service_handle(kit->service, &call->request, service_lease_acquire, false);
}

void kit_call_cancel(struct kit_call *call)
{
    service_request_cancel(&call->request);
}

void kit_call_done(struct kit_call *call)
{
    free((void *)call->request.message);
}

/* ---- sessions ---- */

static int sent(struct service_stream *face, const uint8_t *data, size_t len)
{
    struct kit_stream *stream = (struct kit_stream *)face;
    Xce__V1__SessionDown *down = xce__v1__session_down__unpack(NULL, len, data);

    assert_non_null(down);
    stream->n_sent++;
    if (down->body_case == XCE__V1__SESSION_DOWN__BODY_WELCOME)
        stream->session = down->welcome->session;
    if (down->body_case == XCE__V1__SESSION_DOWN__BODY_OVERLAP) {
        stream->question = *down->overlap;
        stream->n_questions++;
    }
    stream->n_acks += down->body_case == XCE__V1__SESSION_DOWN__BODY_ACK;
    xce__v1__session_down__free_unpacked(down, NULL);
    return stream->full;
}

static void finished(struct service_stream *face, int r, const char *message)
{
    struct kit_stream *stream = (struct kit_stream *)face;

    assert_false(stream->finished);
    stream->finished = true;
    stream->r = r;
    (void)snprintf(stream->message, sizeof stream->message, "%s", message ? message : "");
}

static void paused(struct service_stream *face)
{
    ((struct kit_stream *)face)->paused = true;
}

static void resumed(struct service_stream *face)
{
    ((struct kit_stream *)face)->paused = false;
}

static const struct service_stream_ops ops = {
    .send = sent, .finish = finished, .pause = paused, .resume = resumed};

void kit_stream_open(struct service_kit *kit, struct kit_stream *stream)
{
    *stream = (struct kit_stream){.face = {.scope = SCOPE_ALL, .ops = &ops}};
    principal_from_peer(0, 0, "root", &stream->face.principal);
    service_node_session.open(kit->service, &stream->face);
}

void kit_stream_say(struct kit_stream *stream, const Xce__V1__SessionUp *up)
{
    service_node_session.message(&stream->face, &up->base);
}

void kit_stream_hello(struct kit_stream *stream, const char *node)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Hello hello = XCE__V1__HELLO__INIT;

    hello.node = (ProtobufCBinaryData){strlen(node), (uint8_t *)node};
    hello.machine_id = (ProtobufCBinaryData){32, (uint8_t *)MACHINE};
    hello.boot_id = (ProtobufCBinaryData){32, (uint8_t *)BOOT};
    up.body_case = XCE__V1__SESSION_UP__BODY_HELLO;
    up.hello = &hello;
    kit_stream_say(stream, &up);
}

void kit_stream_beat(struct kit_stream *stream, uint64_t watermark)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Heartbeat beat = XCE__V1__HEARTBEAT__INIT;

    beat.watermark = watermark;
    up.body_case = XCE__V1__SESSION_UP__BODY_HEARTBEAT;
    up.heartbeat = &beat;
    kit_stream_say(stream, &up);
}

void kit_stream_report(struct kit_stream *stream, uint32_t uid, uint32_t epoch,
                       Xce__V1__ReportKind kind)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__MemberReport member = XCE__V1__MEMBER_REPORT__INIT, *members[] = {&member};

    member.uid = uid;
    member.epoch = epoch;
    member.kind = kind;
    report.members = members;
    report.n_members = 1;
    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = &report;
    kit_stream_say(stream, &up);
}

void kit_stream_answer(struct kit_stream *stream, uint64_t question, uint32_t uid, const char *what)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__OverlapAnswer answer = XCE__V1__OVERLAP_ANSWER__INIT;

    answer.question = question ? question : stream->question.question;
    answer.uid = uid;
    answer.what = (ProtobufCBinaryData){strlen(what), (uint8_t *)(uintptr_t)what};
    up.body_case = XCE__V1__SESSION_UP__BODY_OVERLAP;
    up.overlap = &answer;
    kit_stream_say(stream, &up);
}

void kit_stream_end(struct kit_stream *stream)
{
    service_node_session.ended(&stream->face);
}
