/* Sessions of nodes, and what leased makes of their voices: on a real engine, with time in the test's hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/fsm/fsm.h"
#include "leased/service/session.h"
#include "tests/lib/service_kit.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/replica.pb-c.h"

static int setup(void **state)
{
    struct service_kit *kit = calloc(1, sizeof *kit);

    service_kit_init(kit, 1024);
    *state = kit;
    return 0;
}

static int teardown(void **state)
{
    service_kit_done(*state);
    free(*state);
    return 0;
}

static const struct fsm_node *node(const struct service_kit *kit, const char *name)
{
    return fsm_node(kit->engine.fsm, name);
}

/* A node in session, through its first pass. */
static void begin(struct service_kit *kit, struct kit_stream *stream, const char *name)
{
    kit_stream_open(kit, stream);
    kit_stream_hello(stream, name);
    service_kit_settle(kit);
    assert_int_equal(stream->r, 0);
    assert_true(stream->session > 0);
    kit_stream_beat(stream, fsm_revision(kit->engine.fsm));
    service_kit_settle(kit);
    assert_int_equal(node(kit, name)->state, NODE_READY);
}

/* ---- the order of things ---- */

static void session_that_begins_with_anything_else_is_ended(void **state)
{
    struct kit_stream stream;

    kit_stream_open(*state, &stream);
    kit_stream_beat(&stream, 1);
    assert_int_equal(stream.r, -EINVAL);
    assert_non_null(strstr(stream.message, "hello"));
    kit_stream_beat(&stream, 1); /* what comes after the end is nothing */
    kit_stream_end(&stream);
}

static void session_has_one_hello(void **state)
{
    struct kit_stream stream;

    kit_stream_open(*state, &stream);
    kit_stream_hello(&stream, "n2");
    kit_stream_hello(&stream, "n2");
    assert_int_equal(stream.r, -EINVAL);
    service_kit_settle(*state);
    assert_int_equal(stream.session, 0);
    kit_stream_end(&stream);
}

static void session_that_ends_during_its_hello_is_gone(void **state)
{
    struct kit_stream stream;

    kit_stream_open(*state, &stream);
    kit_stream_hello(&stream, "n2");
    kit_stream_end(&stream);
    service_kit_settle(*state);
    assert_non_null(node(*state, "n2"));
}

static void session_without_a_word_is_ended(void **state)
{
    struct kit_stream stream;

    kit_stream_open(*state, &stream);
    service_kit_elapse(*state, 9000);
    assert_false(stream.finished);
    service_kit_elapse(*state, 1200);
    assert_int_equal(stream.r, -ETIME);
    kit_stream_end(&stream);
}

static void session_anew_ends_the_one_before(void **state)
{
    struct kit_stream old, new;

    begin(*state, &old, "n2");
    kit_stream_open(*state, &new);
    kit_stream_hello(&new, "n2");
    service_kit_settle(*state);
    assert_int_equal(old.r, FSM_IGNORED);
    assert_true(new.session > old.session);
    kit_stream_report(&old, ENGINE_KIT_UID, 1, XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN);
    kit_stream_end(&old);
    kit_stream_end(&new);
}

/* ---- bad words ---- */

static void session_hello_that_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *node, *machine, *boot, *word;
    } rows[] = {
        {"", "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef", "node"},
        {"a b", "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef", "a b"},
        {"n2", "0123456789ABCDEF0123456789abcdef", "0123456789abcdef0123456789abcdef", "machine"},
        {"n2", "0123456789abcdef0123456789abcdef", "", "boot_id"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
        Xce__V1__Hello hello = XCE__V1__HELLO__INIT;
        struct kit_stream stream;

        hello.node = (ProtobufCBinaryData){strlen(rows[i].node), (uint8_t *)rows[i].node};
        hello.machine_id = (ProtobufCBinaryData){strlen(rows[i].machine),
                                                 (uint8_t *)rows[i].machine};
        hello.boot_id = (ProtobufCBinaryData){strlen(rows[i].boot), (uint8_t *)rows[i].boot};
        up.body_case = XCE__V1__SESSION_UP__BODY_HELLO;
        up.hello = &hello;
        kit_stream_open(*state, &stream);
        kit_stream_say(&stream, &up);
        assert_int_equal(stream.r, -EINVAL);
        assert_non_null(strstr(stream.message, rows[i].word));
        kit_stream_end(&stream);
    }
}

static void say_report(struct kit_stream *stream, Xce__V1__Report *report)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;

    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = report;
    kit_stream_say(stream, &up);
}

static void session_report_that_cannot_be_names_the_place(void **state)
{
    static const char *const words[] = {"members[0]: reason", "blocks[0]: detail", "pools[0]"};
    Xce__V1__MemberReport member = XCE__V1__MEMBER_REPORT__INIT, *members[] = {&member};
    Xce__V1__BlockReport block = XCE__V1__BLOCK_REPORT__INIT, *blocks[] = {&block};
    Xce__V1__PoolCheckReport check = XCE__V1__POOL_CHECK_REPORT__INIT, *pools[] = {&check};

    member.reason = (ProtobufCBinaryData){2, (uint8_t *)"\xff\xfe"};
    block.detail = (ProtobufCBinaryData){3, (uint8_t *)"a\nb"};
    check.pool = (ProtobufCBinaryData){5, (uint8_t *)"a\n\x1b[2"};
    for (size_t i = 0; i < 3; i++) {
        Xce__V1__Report report = XCE__V1__REPORT__INIT;
        struct kit_stream stream;

        begin(*state, &stream, "n2");
        report.members = members;
        report.blocks = blocks;
        report.pools = pools;
        report.n_members = i == 0;
        report.n_blocks = i == 1;
        report.n_pools = i == 2;
        say_report(&stream, &report);
        assert_int_equal(stream.r, -EINVAL);
        if (!strstr(stream.message, words[i]))
            fail_msg("%s: %s", words[i], stream.message);
        kit_stream_end(&stream);
    }
}

static void session_reports_of_what_is_not_change_nothing(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream;
    uint64_t revision;

    begin(kit, &stream, "n2");
    revision = fsm_revision(kit->engine.fsm);
    for (int kind = 0; kind < 9; kind++)
        for (int i = 0; i < 4; i++)
            kit_stream_report(&stream, (uint32_t[]){0, 1000, ENGINE_KIT_UID - 1, UINT32_MAX}[i],
                              (uint32_t[]){0, 1, 7, UINT32_MAX}[i], (Xce__V1__ReportKind)kind);
    service_kit_settle(kit);
    assert_false(stream.finished);
    assert_int_equal(fsm_revision(kit->engine.fsm), revision);
    kit_stream_end(&stream);
}

/* ---- who does not read ---- */

static void propose(struct service_kit *kit, const Xce__V1__Command *command)
{
    uint8_t bytes[ENGINE_KIT_BYTES];

    assert_true(xce__v1__command__get_packed_size(command) <= sizeof bytes);
    assert_int_equal(engine_kit_do(&kit->engine, bytes, xce__v1__command__pack(command, bytes)), 0);
    assert_int_equal(kit->engine.out.code, FSM_OK);
}

static void become_a_backup(struct service_kit *kit)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRestore restore = XCE__V1__CMD_RESTORE__INIT;
    uint8_t incarnation[16] = "another one";

    restore.incarnation = (ProtobufCBinaryData){sizeof incarnation, incarnation};
    command.kind_case = XCE__V1__COMMAND__KIND_RESTORE;
    command.restore = &restore;
    propose(kit, &command);
}

/* The pool was not there when the node told of its uid: the node must say it again, and nothing else would tell it. */
static void session_whose_epochs_a_new_pool_overtakes_reports_them_again(void **state)
{
    struct service_kit *kit = *state;
    Xce__V1__EpochReport epoch = XCE__V1__EPOCH_REPORT__INIT, *epochs[] = {&epoch};
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdPoolCreate create = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    struct kit_stream stream;

    become_a_backup(kit);
    kit_stream_open(kit, &stream);
    kit_stream_hello(&stream, "n2");
    service_kit_settle(kit);
    assert_int_equal(stream.r, 0);
    epoch.uid = range.first = range.last = ENGINE_KIT_UID + 5000;
    epoch.epoch = 2;
    report.epochs = epochs;
    report.n_epochs = 1;
    say_report(&stream, &report);
    service_kit_settle(kit);
    create.name = (ProtobufCBinaryData){4, (uint8_t *)"late"};
    create.range = &range;
    create.directory_none = true;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &create;
    propose(kit, &command);
    assert_false(stream.finished);
    report.n_epochs = 0;
    report.epochs_done = true;
    say_report(&stream, &report);
    service_kit_settle(kit);
    assert_true(stream.finished);
    assert_non_null(strstr(stream.message, "report your epochs again"));
    kit_stream_end(&stream);
    /* In its next session it says all at once. */
    kit_stream_open(kit, &stream);
    kit_stream_hello(&stream, "n2");
    service_kit_settle(kit);
    report.n_epochs = 1;
    say_report(&stream, &report);
    service_kit_settle(kit);
    assert_false(stream.finished);
    assert_false(fsm_wants_epochs(kit->engine.fsm, node(kit, "n2")));
    kit_stream_end(&stream);
}

static void beat(struct service_kit *kit, struct kit_stream *stream)
{
    kit_stream_beat(stream, 0);
    service_kit_settle(kit);
}

static void session_that_does_not_read_gets_no_more_acks(void **state)
{
    struct kit_stream stream;
    unsigned acks;

    begin(*state, &stream, "n2");
    acks = stream.n_acks;
    beat(*state, &stream);
    assert_int_equal(stream.n_acks, acks + 1);
    stream.full = true;
    for (int i = 0; i < 100; i++)
        beat(*state, &stream);
    assert_int_equal(stream.n_acks, acks + 2);
    stream.full = false;
    service_node_session.writable(&stream.face);
    beat(*state, &stream);
    assert_int_equal(stream.n_acks, acks + 3);
    kit_stream_end(&stream);
}

/* ---- what replicas tell each other ---- */

static bool connected(const struct service_kit *kit, const char *name)
{
    Xce__V1__Node message = XCE__V1__NODE__INIT;

    session_fill(kit->service, name, &message);
    return message.connected;
}

static void session_is_connected_until_it_hangs_up(void **state)
{
    struct kit_stream stream;

    begin(*state, &stream, "n2");
    assert_true(connected(*state, "n2"));
    kit_stream_end(&stream);
    service_kit_settle(*state);
    assert_false(connected(*state, "n2"));
}

/* As another replica does it. */
static void tell(struct service_kit *kit, const char *node, uint64_t session, bool gone)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;
    Xce__V1__Heard heard = XCE__V1__HEARD__INIT, *all[] = {&heard};
    uint8_t bytes[128];

    heard.node.data = (uint8_t *)(uintptr_t)node;
    heard.node.len = strlen(node);
    heard.session = session;
    told.heard = told.gone = all;
    told.n_heard = !gone;
    told.n_gone = gone;
    service_told(kit->service, bytes, xce__v1__told__pack(&told, bytes));
}

static void node_at_another_replica_is_connected_as_long_as_it_is_told(void **state)
{
    tell(*state, "n1", 77, false);
    assert_true(connected(*state, "n1"));
    tell(*state, "n1", 76, true); /* of an older session: late */
    assert_true(connected(*state, "n1"));
    tell(*state, "n1", 77, true);
    assert_false(connected(*state, "n1"));
    /* A replica that dies says no more. */
    tell(*state, "n1", 78, false);
    service_kit_elapse(*state, 5000);
    assert_true(connected(*state, "n1"));
    service_kit_elapse(*state, 1500);
    assert_false(connected(*state, "n1"));
}

static void node_at_another_replica_is_not_lost(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream;
    uint64_t number;

    begin(kit, &stream, "n2");
    number = stream.session;
    kit_stream_end(&stream);
    for (int i = 0; i < 20; i++) {
        service_kit_elapse(kit, 2000);
        tell(kit, "n2", number, false);
    }
    assert_int_equal(node(kit, "n2")->state, NODE_READY);
}

static void session_ends_when_the_node_has_begun_another_elsewhere(void **state)
{
    struct service_kit *kit = *state;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    char id[] = "0123456789abcdef0123456789abcdef";
    struct kit_stream stream;
    uint8_t bytes[256];

    begin(kit, &stream, "n2");
    hello.node.data = (uint8_t *)"n2";
    hello.node.len = 2;
    hello.machine_id.data = hello.boot_id.data = (uint8_t *)id;
    hello.machine_id.len = hello.boot_id.len = strlen(id);
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    assert_int_equal(engine_kit_do(&kit->engine, bytes, xce__v1__command__pack(&command, bytes)),
                     0);
    service_kit_settle(kit);
    assert_true(stream.finished);
    assert_int_equal(stream.r, FSM_IGNORED);
    kit_stream_end(&stream);
}

static void verb(struct service_kit *kit, const char *name, Xce__V1__NodeVerb what)
{
    const struct fsm_node *known = node(kit, name);
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdNodeVerb change = XCE__V1__CMD_NODE_VERB__INIT;

    change.verb = what;
    change.node = (ProtobufCBinaryData){strlen(name), (uint8_t *)(uintptr_t)name};
    change.reason = (ProtobufCBinaryData){3, (uint8_t *)"why"};
    change.machine_id = (ProtobufCBinaryData){strlen(known->machine_id),
                                              (uint8_t *)(uintptr_t)known->machine_id};
    change.boot_id = (ProtobufCBinaryData){strlen(known->boot_id),
                                           (uint8_t *)(uintptr_t)known->boot_id};
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_VERB;
    command.node_verb = &change;
    propose(kit, &command);
    service_kit_settle(kit);
}

/* Its machine stood still, and goes on: it is not to be answered as if nothing were, but to say who it is. */
static void session_ends_when_the_node_is_fenced(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream;

    begin(kit, &stream, "n2");
    service_kit_elapse(kit, 40000);
    service_kit_settle(kit);
    assert_int_equal(node(kit, "n2")->state, NODE_LOST);
    assert_false(stream.finished);
    verb(kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_FENCE);
    assert_true(stream.finished);
    assert_int_equal(stream.r, FSM_IGNORED);
    kit_stream_end(&stream);
}

/* While it resolves names it must be registered, or nobody waits until it has forgotten them. */
static void session_ends_when_the_node_is_forgotten(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream, other;

    begin(kit, &stream, "n2");
    begin(kit, &other, "n3");
    verb(kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_DRAIN);
    kit_stream_beat(&stream, fsm_revision(kit->engine.fsm));
    service_kit_settle(kit);
    service_kit_elapse(kit, 2000);
    service_kit_settle(kit);
    verb(kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_FORGET);
    assert_true(stream.finished);
    assert_int_equal(stream.r, FSM_IGNORED);
    assert_false(other.finished);
    kit_stream_end(&stream);
    kit_stream_end(&other);
}

/* The queue is for all nodes. */
static void session_with_many_reports_under_way_is_not_read(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream;
    unsigned n = 0;

    begin(kit, &stream, "n2");
    while (!stream.paused && n < 100) {
        kit_stream_report(&stream, ENGINE_KIT_UID, 7, XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN);
        n++;
    }
    assert_int_equal(n, 8);
    service_kit_settle(kit);
    assert_false(stream.paused);
    assert_false(stream.finished);
    kit_stream_end(&stream);
}

/* A lease of n1, whose first member says nothing, that n2 is a member of, too. */
static void lease_on_n2(struct service_kit *kit, struct kit_call *call)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;
    ProtobufCBinaryData n2 = {2, (uint8_t *)"n2"};

    service_kit_acquire(kit, call, 1, 1);
    service_kit_settle(kit);
    renew.lease = 1;
    renew.epoch = 1;
    renew.nodes = &n2;
    renew.n_nodes = 1;
    command.kind_case = XCE__V1__COMMAND__KIND_RENEW;
    command.renew = &renew;
    propose(kit, &command);
    service_kit_settle(kit);
    assert_int_equal(fsm_lease(kit->engine.fsm, 1)->n_members, 2);
}

/* Of a lease that is here each id is another one. */
static void session_with_many_releases_under_way_is_not_read(void **state)
{
    struct service_kit *kit = *state;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__DeferredRelease release = XCE__V1__DEFERRED_RELEASE__INIT;
    struct kit_stream stream;
    struct kit_call call;
    uint8_t id[16] = {0};

    begin(kit, &stream, "n2");
    lease_on_n2(kit, &call);
    release.lease = 1;
    release.uid = ENGINE_KIT_UID;
    release.epoch = 1;
    release.id = (ProtobufCBinaryData){sizeof id, id};
    up.body_case = XCE__V1__SESSION_UP__BODY_RELEASE;
    up.release = &release;
    for (id[0] = 0; !stream.paused && id[0] < 100; id[0]++)
        kit_stream_say(&stream, &up);
    assert_int_equal(id[0], 8);
    service_kit_settle(kit);
    assert_false(stream.paused);
    assert_false(stream.finished);
    assert_int_equal(fsm_lease(kit->engine.fsm, 1)->state, LEASE_DRAINING);
    /* What is over needs no proposal. */
    for (id[0] = 100; id[0] < 200; id[0]++)
        kit_stream_say(&stream, &up);
    assert_false(stream.paused);
    kit_call_done(&call);
    kit_stream_end(&stream);
}

/* ---- dry runs ---- */

static unsigned n_dry_told;

static void count_dry(const uint8_t *bytes, size_t len, void *arg)
{
    Xce__V1__Told *told = xce__v1__told__unpack(NULL, len, bytes);

    n_dry_told += told && told->dry_found;
    xce__v1__told__free_unpacked(told, NULL);
}

static void dry_say(struct service_kit *kit, struct kit_stream *stream, uint64_t question, size_t n)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Report report = XCE__V1__REPORT__INIT;
    Xce__V1__DryReport dry = XCE__V1__DRY_REPORT__INIT;
    Xce__V1__RemnantReport remnant = XCE__V1__REMNANT_REPORT__INIT;
    Xce__V1__RemnantReport **remnants = calloc(n + 1, sizeof *remnants);

    for (size_t i = 0; i < n; i++)
        remnants[i] = &remnant;
    dry.question = question;
    dry.remnants = remnants;
    dry.n_remnants = n;
    report.dry = &dry;
    up.body_case = XCE__V1__SESSION_UP__BODY_REPORT;
    up.report = &report;
    kit_stream_say(stream, &up);
    service_kit_settle(kit);
    free(remnants);
}

/* It goes to all replicas, outside of the log. */
static void session_tells_one_answer_to_a_dry_run_that_was_asked(void **state)
{
    static const ProtobufCBinaryData reason = {0};
    struct service_kit *kit = *state;
    struct kit_stream stream, other;

    begin(kit, &stream, "n2");
    begin(kit, &other, "n3");
    kit->hooks.told = count_dry;
    n_dry_told = 0;
    session_sweep(kit->service, "n2", &reason, 42);
    dry_say(kit, &stream, 43, 1);
    dry_say(kit, &stream, 0, 1);
    dry_say(kit, &other, 42, 1);
    assert_int_equal(n_dry_told, 0);
    dry_say(kit, &stream, 42, 1);
    assert_int_equal(n_dry_told, 1);
    dry_say(kit, &stream, 42, 1);
    assert_int_equal(n_dry_told, 1);
    session_sweep(kit->service, "n2", &reason, 44);
    dry_say(kit, &stream, 44, 501);
    assert_int_equal(n_dry_told, 1);
    kit_stream_end(&stream);
    kit_stream_end(&other);
}

static void rubbish_from_another_replica_changes_nothing(void **state)
{
    static const uint8_t rubbish[] = {0x0a, 0x7f, 0xff, 0x00};
    struct kit_stream stream;

    begin(*state, &stream, "n2");
    service_told(((struct service_kit *)*state)->service, rubbish, sizeof rubbish);
    tell(*state, "no name", 5, false);
    tell(*state, "", 5, false);
    assert_true(connected(*state, "n2"));
    kit_stream_end(&stream);
}

/* ---- watermarks ---- */

static void watermark_of_the_future_ends_nothing(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream stream;
    uint64_t entries;

    kit_stream_open(kit, &stream);
    kit_stream_hello(&stream, "n2");
    service_kit_settle(kit);
    entries = kit->engine.n_applied;
    for (int i = 0; i < 100; i++) {
        kit_stream_beat(&stream, UINT64_MAX);
        kit_stream_beat(&stream, fsm_revision(kit->engine.fsm) + 1);
    }
    service_kit_elapse(kit, 3000);
    service_kit_settle(kit);
    assert_int_equal(node(kit, "n2")->state, NODE_UNKNOWN);
    assert_int_equal(node(kit, "n2")->watermark, 0);
    assert_true(kit->engine.n_applied - entries < 10);
    kit_stream_beat(&stream, fsm_revision(kit->engine.fsm));
    service_kit_settle(kit);
    assert_int_equal(node(kit, "n2")->state, NODE_READY);
    kit_stream_end(&stream);
}

#define MANY 5000

static void watermarks_of_many_nodes_are_all_told(void **state)
{
    struct service_kit *kit = *state;
    struct kit_stream *streams = calloc(MANY, sizeof *streams);
    unsigned told = 0;
    char name[16];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        kit_stream_open(kit, &streams[i]);
        kit_stream_hello(&streams[i], name);
    }
    service_kit_settle(kit);
    for (int i = 0; i < MANY; i++)
        kit_stream_beat(&streams[i], 1);
    service_kit_settle(kit);
    service_kit_elapse(kit, 900); /* one round */
    service_kit_settle(kit);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        told += node(kit, name)->watermark == 1;
        kit_stream_end(&streams[i]);
    }
    free(streams);
    assert_int_equal(told, MANY);
}

/* ---- silence ---- */

static void node_that_is_silent_is_lost(void **state)
{
    struct kit_stream stream;

    begin(*state, &stream, "n2");
    service_kit_elapse(*state, 29000);
    assert_int_equal(node(*state, "n2")->state, NODE_READY);
    service_kit_elapse(*state, 3000);
    service_kit_settle(*state);
    assert_int_equal(node(*state, "n2")->state, NODE_LOST);
    kit_stream_end(&stream);
}

/* It is leased that heard nothing: what the nodes said waits in their sockets. */
static void node_is_not_lost_by_a_loop_that_stood_still(void **state)
{
    struct kit_stream stream;

    begin(*state, &stream, "n2");
    service_kit_elapse(*state, 20000);
    service_kit_stall(100000);
    service_kit_elapse(*state, 2000);
    service_kit_settle(*state);
    assert_int_equal(node(*state, "n2")->state, NODE_READY);
    service_kit_elapse(*state, 10000);
    service_kit_settle(*state);
    assert_int_equal(node(*state, "n2")->state, NODE_LOST);
    kit_stream_end(&stream);
}

/* ---- time ---- */

static int64_t wanted_ms;

static bool log_has_the_time(const struct engine_kit *kit)
{
    return fsm_now_ms(kit->fsm) >= wanted_ms;
}

/* What was told is good for who leads next, whose time begins with that of the log. */
static void time_is_written_when_nothing_else_is(void **state)
{
    struct service_kit *kit = *state;
    uint64_t before = kit->engine.n_applied;

    engine_kit_pass(&kit->engine, 10000);
    service_kit_elapse(kit, 1000);
    service_kit_settle(kit);
    assert_int_equal(kit->engine.n_applied, before + 1);
    wanted_ms = fsm_now_ms(kit->engine.fsm) + 25000;
    engine_kit_pass(&kit->engine, 25000);
    service_kit_elapse(kit, 1000);
    assert_true(engine_kit_until(&kit->engine, log_has_the_time));
    service_kit_elapse(kit, 1000);
    service_kit_settle(kit);
    assert_int_equal(kit->engine.n_applied, before + 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(session_that_begins_with_anything_else_is_ended),
        TEST(session_has_one_hello),
        TEST(session_that_ends_during_its_hello_is_gone),
        TEST(session_without_a_word_is_ended),
        TEST(session_anew_ends_the_one_before),
        TEST(session_with_many_reports_under_way_is_not_read),
        TEST(session_with_many_releases_under_way_is_not_read),
        TEST(session_tells_one_answer_to_a_dry_run_that_was_asked),
        TEST(session_hello_that_cannot_be_is_refused),
        TEST(session_report_that_cannot_be_names_the_place),
        TEST(session_reports_of_what_is_not_change_nothing),
        TEST(session_whose_epochs_a_new_pool_overtakes_reports_them_again),
        TEST(session_that_does_not_read_gets_no_more_acks),
        TEST(session_is_connected_until_it_hangs_up),
        TEST(node_at_another_replica_is_connected_as_long_as_it_is_told),
        TEST(node_at_another_replica_is_not_lost),
        TEST(session_ends_when_the_node_has_begun_another_elsewhere),
        TEST(session_ends_when_the_node_is_fenced),
        TEST(session_ends_when_the_node_is_forgotten),
        TEST(rubbish_from_another_replica_changes_nothing),
        TEST(watermark_of_the_future_ends_nothing),
        TEST(watermarks_of_many_nodes_are_all_told),
        TEST(node_that_is_silent_is_lost),
        TEST(node_is_not_lost_by_a_loop_that_stood_still),
        TEST(time_is_written_when_nothing_else_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
