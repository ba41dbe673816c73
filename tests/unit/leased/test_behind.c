/* Replicas that are behind, or cut off from the others: what they say is what was acknowledged, or that they cannot say. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/service/service.h"
#include "leased/watch/hub.h"
#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"

#define REPLICAS         3
#define SNAPSHOT_ENTRIES 20

/* The service of one replica. */
struct place {
    struct engine_hooks hooks;
    struct hub *hub;
    struct service *service;
    unsigned n_restored;
};

struct call {
    struct service_request request;
    bool done;
    int r;
};

/* What the state of a replica alone speaks against, or tells. */
struct questions {
    Xce__V1__RequestId id;
    Xce__V1__RenewRequest renew;
    Xce__V1__ReleaseRequest release;
    Xce__V1__RevokeRequest revoke;
    Xce__V1__LeaseSpec spec, *specs[1];
    Xce__V1__AcquireRequest acquire;
    Xce__V1__SuggestPoolRequest suggest;
    Xce__V1__HistoryRequest history;
};

#define QUESTIONS 6

struct fixture {
    struct raft_kit kit;
    struct place places[REPLICAS];
    struct questions ask;
    struct call calls[QUESTIONS];
};

/* ---- the whole ---- */

static void restored(const struct fsm *fsm, void *arg)
{
    struct place *place = arg;

    (void)fsm;
    place->n_restored++;
    service_restored(place->service);
}

static void changed(const struct fsm_change *change, void *arg)
{
    struct place *place = arg;

    hub_changed(place->hub, change);
    service_changed(place->service, change);
}

static void applied(void *arg)
{
    struct place *place = arg;

    hub_flush(place->hub, clock_mono_ms());
    service_flush(place->service);
}

static void leader(bool leading, void *arg)
{
    service_leading(((struct place *)arg)->service, leading);
}

static int offload(void (*work)(void *arg), void (*done)(int r, void *arg), void *arg,
                   void *offload_arg)
{
    return loop_work_submit(((struct fixture *)offload_arg)->kit.loop, work, done, arg);
}

static void open_place(struct fixture *fx, unsigned i)
{
    const struct service_options options = {
        .heartbeat_ms = 2000, .lost_after_ms = 30000, .grace_ms = 0};
    struct engine_kit *kit = &fx->kit.nodes[i].kit;
    struct service_deps deps = {.engine = kit->engine,
                                .history = kit->history,
                                .wall_ms = clock_wall_ms,
                                .mono_ms = clock_mono_ms,
                                .offload = offload,
                                .offload_arg = fx};
    struct place *place = &fx->places[i];

    assert_int_equal(hub_new(kit->fsm, 0, clock_wall_ms, &place->hub), 0);
    deps.hub = place->hub;
    assert_int_equal(service_new(&options, &deps, &place->service), 0);
    place->hooks = (struct engine_hooks){.restored = restored,
                                         .change = changed,
                                         .applied = applied,
                                         .leader = leader,
                                         .arg = place};
    kit->also = &place->hooks;
    service_leading(place->service, kit->leading);
}

static int setup_with(void **state, uint64_t snapshot_entries)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    raft_kit_init(&fx->kit, tmp_dir(), REPLICAS);
    for (unsigned i = 0; i < REPLICAS; i++)
        fx->kit.nodes[i].kit.options.snapshot_entries = snapshot_entries;
    fx->kit.with_history = true;
    raft_kit_form(&fx->kit, 1000);
    assert_true(raft_kit_equal(&fx->kit));
    for (unsigned i = 0; i < REPLICAS; i++)
        open_place(fx, i);
    *state = fx;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 0);
}

static int setup_with_snapshots(void **state)
{
    return setup_with(state, SNAPSHOT_ENTRIES);
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    for (unsigned i = 0; i < REPLICAS; i++)
        raft_kit_stop(&fx->kit, i);
    for (unsigned i = 0; i < REPLICAS; i++) {
        service_free(fx->places[i].service);
        hub_free(fx->places[i].hub);
    }
    return raft_kit_teardown(state);
}

static unsigned leads(struct fixture *fx)
{
    int i = raft_kit_leader(&fx->kit, 0);

    assert_true(i >= 0);
    return (unsigned)i;
}

static uint64_t revision(const struct fixture *fx, unsigned i)
{
    return fsm_revision(fx->kit.nodes[i].kit.fsm);
}

/* ---- watches ---- */

struct watch {
    struct service_stream face; /* first */
    unsigned n_sent, n_listed, n_changed;
    bool skipped, synced, finished;
    uint64_t reached;
    int r;
};

static int sent(struct service_stream *face, const uint8_t *data, size_t len)
{
    struct watch *watch = (struct watch *)face;
    Xce__V1__WatchEvent *event = xce__v1__watch_event__unpack(NULL, len, data);

    assert_non_null(event);
    watch->n_sent++;
    watch->n_listed += event->event_case == XCE__V1__WATCH_EVENT__EVENT_LISTED;
    watch->n_changed += event->event_case == XCE__V1__WATCH_EVENT__EVENT_LEASE;
    watch->skipped |= event->event_case == XCE__V1__WATCH_EVENT__EVENT_SKIPPED_TO;
    watch->synced |= event->event_case == XCE__V1__WATCH_EVENT__EVENT_SYNCED;
    watch->reached = event->revision;
    xce__v1__watch_event__free_unpacked(event, NULL);
    return 0;
}

static void finished(struct service_stream *face, int r, const char *message)
{
    struct watch *watch = (struct watch *)face;

    (void)message;
    assert_false(watch->finished);
    watch->finished = true;
    watch->r = r;
}

static const struct service_stream_ops ops = {.send = sent, .finish = finished};

/* As rpc opens it: the request, then the caller has no more to say. */
static void watch_begin(struct fixture *fx, unsigned i, struct watch *watch, uint64_t since)
{
    Xce__V1__WatchRequest request = XCE__V1__WATCH_REQUEST__INIT;

    *watch = (struct watch){.face = {.scope = SCOPE_ALL, .ops = &ops}};
    principal_from_peer(0, 0, "root", &watch->face.principal);
    service_lease_watch.open(fx->places[i].service, &watch->face);
    request.since = since;
    service_lease_watch.message(&watch->face, &request.base);
    service_lease_watch.half_closed(&watch->face);
}

static void watch_end(struct watch *watch)
{
    service_lease_watch.ended(&watch->face);
}

static bool watch_has_answer(struct raft_kit *kit, void *arg)
{
    const struct watch *watch = arg;

    (void)kit;
    return watch->finished || watch->n_sent > 0;
}

/* As clients do: asked again while nobody leads. */
static void watch_until_served(struct fixture *fx, unsigned i, struct watch *watch, uint64_t since)
{
    int64_t until = clock_mono_ms() + 60000;

    for (;;) {
        watch_begin(fx, i, watch, since);
        assert_true(raft_kit_until(&fx->kit, watch_has_answer, watch));
        if (!watch->finished)
            return;
        assert_int_equal(watch->r, -EAGAIN);
        watch_end(watch);
        assert_true(clock_mono_ms() < until);
        raft_kit_elapse(&fx->kit, 20);
    }
}

static bool watch_is_synced(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct watch *)arg)->synced;
}

/* A replica that hears of nothing any more, and a lease that was acknowledged without it. */
static unsigned cut_off(struct fixture *fx)
{
    unsigned behind = (leads(fx) + 1) % REPLICAS;

    raft_kit_cut(&fx->kit, (int)behind, -1);
    assert_int_equal(raft_kit_acquire(&fx->kit, 1), 0);
    assert_false(raft_kit_has_lease(&fx->kit, behind, 1));
    return behind;
}

static void watch_at_one_that_is_cut_off_lists_nothing(void **state)
{
    static const bool from_afar[] = {false, true};
    struct fixture *fx = *state;
    unsigned behind = cut_off(fx);

    for (size_t i = 0; i < sizeof from_afar / sizeof *from_afar; i++) {
        struct watch watch;

        watch_begin(fx, behind, &watch, from_afar[i] ? revision(fx, leads(fx)) : 0);
        assert_true(raft_kit_until(&fx->kit, watch_has_answer, &watch));
        assert_int_equal(watch.n_sent, 0);
        assert_int_equal(watch.r, -EAGAIN);
        watch_end(&watch);
    }
}

static void watch_at_one_that_is_behind_lists_what_was_acknowledged(void **state)
{
    struct fixture *fx = *state;
    unsigned behind = cut_off(fx);
    struct watch watch;

    raft_kit_heal(&fx->kit);
    watch_until_served(fx, behind, &watch, 0);
    assert_true(raft_kit_until(&fx->kit, watch_is_synced, &watch));
    assert_int_equal(watch.n_listed, 1);
    assert_false(watch.skipped);
    watch_end(&watch);
}

static void watch_goes_on_at_one_that_is_behind(void **state)
{
    struct fixture *fx = *state;
    unsigned behind = cut_off(fx);
    uint64_t since = revision(fx, leads(fx));
    struct watch watch;

    assert_int_equal(raft_kit_acquire(&fx->kit, 2), 0);
    assert_true(revision(fx, behind) < since);
    raft_kit_heal(&fx->kit);
    watch_until_served(fx, behind, &watch, since);
    assert_false(watch.skipped);
    assert_int_equal(watch.n_listed, 0);
    assert_true(watch.n_changed > 0 && watch.reached > since);
    watch_end(&watch);
}

static void watch_that_ends_before_it_is_served_is_gone(void **state)
{
    struct fixture *fx = *state;
    unsigned behind = cut_off(fx);
    struct watch watch;

    watch_begin(fx, behind, &watch, 0);
    watch_end(&watch);
    raft_kit_heal(&fx->kit);
    assert_true(raft_kit_equal(&fx->kit));
    assert_int_equal(watch.n_sent, 0);
    assert_false(watch.finished);
}

static void watch_that_asks_twice_is_ended(void **state)
{
    Xce__V1__WatchRequest request = XCE__V1__WATCH_REQUEST__INIT;
    struct fixture *fx = *state;
    struct watch watch;

    watch_begin(fx, leads(fx), &watch, 0);
    service_lease_watch.message(&watch.face, &request.base);
    assert_int_equal(watch.r, -EINVAL);
    raft_kit_elapse(&fx->kit, 50);
    assert_int_equal(watch.n_sent, 0);
    watch_end(&watch);
}

/* ---- calls ---- */

static void replied(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    struct call *call = arg;

    (void)message, (void)reply;
    assert_false(call->done);
    call->done = true;
    call->r = r;
}

/* As rpc hands over what alice asks, who may do all that with what is hers. */
static void call_begin(struct fixture *fx, unsigned i, struct call *call, service_unary_fn handler,
                       const ProtobufCMessage *message)
{
    *call = (struct call){
        .request = {.scope = SCOPE_OWN, .message = message, .reply = replied, .reply_arg = call}};
    principal_from_peer(1000, 1000, "alice", &call->request.principal);
    service_handle(fx->places[i].service, &call->request, handler, false);
}

static bool call_is_done(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct call *)arg)->done;
}

static void questions_init(struct questions *ask)
{
    xce__v1__request_id__init(&ask->id);
    ask->id.id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
    xce__v1__renew_request__init(&ask->renew);
    xce__v1__release_request__init(&ask->release);
    xce__v1__revoke_request__init(&ask->revoke);
    ask->renew.lease = ask->release.lease = ask->revoke.lease = 99; /* nobody's */
    ask->revoke.reason = (ProtobufCBinaryData){3, (uint8_t *)"why"};
    xce__v1__lease_spec__init(&ask->spec); /* this machine is no node */
    xce__v1__acquire_request__init(&ask->acquire);
    ask->specs[0] = &ask->spec;
    ask->acquire.leases = ask->specs;
    ask->acquire.n_leases = 1;
    ask->renew.request = ask->release.request = ask->revoke.request = ask->acquire
                                                                          .request = &ask->id;
    xce__v1__suggest_pool_request__init(&ask->suggest);
    xce__v1__history_request__init(&ask->history);
    ask->history.who_case = XCE__V1__HISTORY_REQUEST__WHO_UID;
    ask->history.uid = ENGINE_KIT_UID;
}

static void ask_all(struct fixture *fx, unsigned i)
{
    struct questions *ask = &fx->ask;
    struct call *calls = fx->calls;

    questions_init(ask);
    call_begin(fx, i, &calls[0], service_lease_renew, &ask->renew.base);
    call_begin(fx, i, &calls[1], service_lease_release, &ask->release.base);
    call_begin(fx, i, &calls[2], service_lease_revoke, &ask->revoke.base);
    call_begin(fx, i, &calls[3], service_lease_acquire, &ask->acquire.base);
    call_begin(fx, i, &calls[4], service_pool_suggest, &ask->suggest.base);
    call_begin(fx, i, &calls[5], service_lease_history, &ask->history.base);
}

static void leader_that_may_lead_no_more_says_nothing_by_itself(void **state)
{
    struct fixture *fx = *state;
    unsigned old = leads(fx);

    raft_kit_cut(&fx->kit, (int)old, -1);
    ask_all(fx, old);
    for (int i = 0; i < QUESTIONS; i++) {
        assert_true(raft_kit_until(&fx->kit, call_is_done, &fx->calls[i]));
        assert_int_equal(fx->calls[i].r, -EAGAIN);
    }
}

static void leader_refuses_when_it_is_known_to_lead(void **state)
{
    static const int expected[QUESTIONS] = {
        FSM_NOT_FOUND, FSM_NOT_FOUND, FSM_NOT_FOUND, -EINVAL, 0, 0};
    struct fixture *fx = *state;

    ask_all(fx, leads(fx));
    for (int i = 0; i < QUESTIONS; i++) {
        assert_true(raft_kit_until(&fx->kit, call_is_done, &fx->calls[i]));
        assert_int_equal(fx->calls[i].r, expected[i]);
    }
}

static void call_that_ends_while_the_leader_asks_is_forgotten(void **state)
{
    struct fixture *fx = *state;
    struct call *call = &fx->calls[0];

    questions_init(&fx->ask);
    call_begin(fx, leads(fx), call, service_lease_release, &fx->ask.release.base);
    assert_false(call->done);
    service_request_cancel(&call->request);
    assert_int_equal(raft_kit_read(&fx->kit, leads(fx)), 0);
    assert_false(call->done);
}

/* ---- a snapshot takes the place of entries ---- */

/* n1 says it under the session that the kit began. */
static void say_ready(struct fixture *fx, uint32_t uid)
{
    struct engine_kit *kit = &fx->kit.nodes[leads(fx)].kit;
    Xce__V1__CmdMember member = XCE__V1__CMD_MEMBER__INIT, *members[] = {&member};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t bytes[ENGINE_KIT_BYTES];

    member.uid = uid;
    member.epoch = 1;
    member.kind = XCE__V1__REPORT_KIND__REPORT_KIND_READY;
    report.node = (ProtobufCBinaryData){2, (uint8_t *)"n1"};
    report.session = fsm_node(kit->fsm, "n1")->session;
    report.members = members;
    report.n_members = 1;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    assert_int_equal(engine_kit_do(kit, bytes, xce__v1__command__pack(&command, bytes)), 0);
    assert_int_equal(kit->out.code, FSM_OK);
    assert_int_equal(fsm_lease_of_uid(kit->fsm, uid)->state, LEASE_ACTIVE);
}

static uint64_t snapshot_of(struct fixture *fx, unsigned i, uint64_t *ret_last)
{
    struct engine_status status;

    engine_get_status(raft_kit_engine(&fx->kit, i), &status);
    *ret_last = status.last_entry;
    return status.snapshot_entry;
}

/* Until what is in the leader's log now is not in it any more. */
static void outlive_the_log(struct fixture *fx)
{
    uint64_t now, last, i = 100;

    (void)snapshot_of(fx, leads(fx), &now);
    while (snapshot_of(fx, leads(fx), &last) < now + SNAPSHOT_ENTRIES) {
        assert_true(i < 900);
        assert_int_equal(raft_kit_acquire(&fx->kit, i++), 0);
        raft_kit_elapse(&fx->kit, 5);
    }
}

static bool has_lease(struct raft_kit *kit, void *arg)
{
    return fsm_lease_of_uid(kit->nodes[*(unsigned *)arg].kit.fsm, ENGINE_KIT_UID) != NULL;
}

/* The leader has noticed that it is away: what it would tell it now is not on its way. */
static bool is_missed(struct raft_kit *kit, void *arg)
{
    const struct raft_node *away = &kit->nodes[*(unsigned *)arg];
    struct replica_status status;

    replica_get_status(raft_kit_engine(kit, (unsigned)raft_kit_leader(kit, 0)), &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (!strcmp(status.members[i].name, away->name))
            return !status.members[i].up;
    return true;
}

static void acquire_that_waits_is_answered_when_a_snapshot_says_ready(void **state)
{
    ProtobufCBinaryData node = {2, (uint8_t *)"n1"};
    struct fixture *fx = *state;
    unsigned behind = (leads(fx) + 1) % REPLICAS;
    struct call *call = &fx->calls[0];

    questions_init(&fx->ask);
    fx->ask.spec.nodes = &node;
    fx->ask.spec.n_nodes = 1;
    fx->ask.acquire.wait = true;
    call_begin(fx, behind, call, service_lease_acquire, &fx->ask.acquire.base);
    assert_true(raft_kit_until(&fx->kit, has_lease, &behind));
    assert_false(call->done);
    /* It is called in vain, and what was on its way is lost. */
    raft_kit_cut_one_way(&fx->kit, -1, (int)behind);
    raft_kit_break(&fx->kit, behind);
    assert_true(raft_kit_until(&fx->kit, is_missed, &behind));
    say_ready(fx, ENGINE_KIT_UID);
    outlive_the_log(fx);
    assert_false(call->done);
    raft_kit_heal(&fx->kit);
    /* A snapshot that came at a bad moment is dropped, and comes again much later (raft_guard.h). */
    for (int tries = 0; !raft_kit_equal(&fx->kit); tries++)
        assert_true(tries < 5);
    assert_true(fx->places[behind].n_restored > 0);
    assert_true(call->done);
    assert_int_equal(call->r, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(watch_at_one_that_is_cut_off_lists_nothing),
        TEST(watch_at_one_that_is_behind_lists_what_was_acknowledged),
        TEST(watch_goes_on_at_one_that_is_behind),
        TEST(watch_that_ends_before_it_is_served_is_gone),
        TEST(watch_that_asks_twice_is_ended),
        TEST(leader_that_may_lead_no_more_says_nothing_by_itself),
        TEST(leader_refuses_when_it_is_known_to_lead),
        TEST(call_that_ends_while_the_leader_asks_is_forgotten),
        cmocka_unit_test_setup_teardown(acquire_that_waits_is_answered_when_a_snapshot_says_ready,
                                        setup_with_snapshots, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
