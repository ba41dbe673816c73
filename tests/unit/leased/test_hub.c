/* The change feed: resume, skip, lists under way, filters, slow readers; over the real state machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "leased/watch/hub.h"
#include "leased/watch/lease_proto.h"
#include "tests/lib/fsm_kit.h"

struct fixture {
    struct kit kit;
    struct hub *hub;
    int woken;
};

static int64_t wall_ms(void)
{
    return 1700000000000;
}

static void follow(const struct fsm_change *change, void *arg)
{
    hub_changed(((struct fixture *)arg)->hub, change);
}

static void woken(void *arg)
{
    ((struct fixture *)arg)->woken++;
}

static void start(struct fixture *f, size_t ring_bytes)
{
    memset(f, 0, sizeof *f);
    kit_start(&f->kit, 64, 2);
    assert_int_equal(hub_new(f->kit.fsm, ring_bytes, wall_ms, &f->hub), 0);
    f->kit.follow = follow;
    f->kit.follow_arg = f;
}

static void finish(struct fixture *f)
{
    hub_free(f->hub);
    kit_done(&f->kit);
}

static struct hub_subscription *subscribe(struct fixture *f, uint64_t since,
                                          const struct hub_filter *filter)
{
    static const struct hub_filter all;
    struct hub_subscription *subscription;

    assert_int_equal(hub_subscribe(f->hub, since, filter ? filter : &all, woken, f, &subscription),
                     0);
    return subscription;
}

static struct hub_event next(struct hub_subscription *subscription, enum hub_event_kind kind)
{
    struct hub_event event;

    assert_int_equal(hub_next(subscription, &event), 1);
    assert_int_equal(event.kind, kind);
    return event;
}

static void expect_nothing(struct hub_subscription *subscription)
{
    struct hub_event event;

    assert_int_equal(hub_next(subscription, &event), 0);
}

/* The lease of an event, as a client would read it. */
static void expect_lease(const struct hub_event *event, uint64_t id, enum lease_state state)
{
    Xce__V1__Lease *lease = xce__v1__lease__unpack(NULL, event->lease_len, event->lease);

    assert_non_null(lease);
    assert_int_equal(lease->lease, id);
    assert_int_equal(lease->state, state);
    assert_int_equal(event->state, state);
    assert_int_equal(event->uid, lease->uid);
    xce__v1__lease__free_unpacked(lease, NULL);
}

static uint64_t grant(struct fixture *f, const char *node, uint32_t owner_uid)
{
    assert_int_equal(
        kit_acquire(&f->kit, &(struct kit_grant){.nodes = node, .owner_uid = owner_uid}), FSM_OK);
    return f->kit.out_leases[0];
}

static void hub_new_subscriber_gets_list_then_changes(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;
    uint64_t a, b;

    (void)state;
    start(&f, 0);
    a = kit_active(&f.kit, "n1");
    s = subscribe(&f, HUB_SINCE_LIST, NULL);
    event = next(s, HUB_LISTED);
    expect_lease(&event, a, LEASE_ACTIVE);
    event = next(s, HUB_SYNCED);
    assert_int_equal(event.revision, fsm_revision(f.kit.fsm));
    expect_nothing(s);
    b = grant(&f, "n1", 0);
    event = next(s, HUB_LEASE);
    expect_lease(&event, b, LEASE_GRANTED);
    expect_nothing(s);
    finish(&f);
}

static int64_t later(void *arg)
{
    return fsm_now_ms(((struct fixture *)arg)->kit.fsm) + 5000;
}

/* Cluster time goes on while nothing changes. */
static void hub_list_tells_when_a_lease_ends_whenever_it_is_asked(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;
    Xce__V1__Lease *lease;
    uint64_t a;

    (void)state;
    start(&f, 0);
    a = kit_active(&f.kit, "n1");
    hub_set_clock(f.hub, later, &f);
    s = subscribe(&f, HUB_SINCE_LIST, NULL);
    event = next(s, HUB_LISTED);
    lease = xce__v1__lease__unpack(NULL, event.lease_len, event.lease);
    assert_int_equal(lease->expires_ms, wall_ms() + kit_lease(&f.kit, a)->expires_ms - later(&f));
    xce__v1__lease__free_unpacked(lease, NULL);
    finish(&f);
}

static void hub_resume_gives_each_change_once_in_order(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    uint64_t since, lease;

    (void)state;
    start(&f, 0);
    since = fsm_revision(f.kit.fsm);
    lease = kit_active(&f.kit, "n1");
    kit_finish(&f.kit, lease);
    assert_true(hub_keeps(f.hub, since));
    s = subscribe(&f, since, NULL);
    for (uint64_t revision = since + 1; revision <= fsm_revision(f.kit.fsm); revision++) {
        struct hub_event event;

        assert_int_equal(hub_next(s, &event), 1);
        assert_int_equal(event.revision, revision);
    }
    expect_nothing(s);
    assert_int_equal(hub_position(s), fsm_revision(f.kit.fsm));
    finish(&f);
}

static void hub_last_change_of_a_lease_says_free(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event, last = {0};
    uint64_t since, lease;

    (void)state;
    start(&f, 0);
    since = fsm_revision(f.kit.fsm);
    lease = kit_active(&f.kit, "n1");
    kit_finish(&f.kit, lease);
    s = subscribe(&f, since, &(struct hub_filter){.leases_only = true});
    while (hub_next(s, &event) > 0)
        last = event;
    expect_lease(&last, lease, LEASE_FREE);
    finish(&f);
}

static void hub_what_is_not_kept_is_skipped_and_listed(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;
    uint64_t since, lease = 0;

    (void)state;
    start(&f, 600);
    since = fsm_revision(f.kit.fsm);
    for (int i = 0; i < 20; i++)
        lease = grant(&f, "n1", 0);
    assert_false(hub_keeps(f.hub, since));
    s = subscribe(&f, since, NULL);
    event = next(s, HUB_SKIPPED);
    assert_int_equal(event.revision, fsm_revision(f.kit.fsm));
    for (int i = 0; i < 20; i++)
        event = next(s, HUB_LISTED);
    expect_lease(&event, lease, LEASE_GRANTED);
    (void)next(s, HUB_SYNCED);
    finish(&f);
}

static void hub_since_beyond_the_state_is_a_full_list(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, 0);
    assert_false(hub_keeps(f.hub, fsm_revision(f.kit.fsm) + 1));
    (void)next(subscribe(&f, fsm_revision(f.kit.fsm) + 1, NULL), HUB_SKIPPED);
    finish(&f);
}

/* Changes that come while the list is given out: of listed leases at once, of the others only in the list. */
static void hub_list_under_way_never_goes_back_in_time(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;
    uint64_t a, b, c;

    (void)state;
    start(&f, 0);
    a = kit_active(&f.kit, "n1");
    b = kit_active(&f.kit, "n1");
    s = subscribe(&f, HUB_SINCE_LIST, &(struct hub_filter){.leases_only = true});
    event = next(s, HUB_LISTED);
    expect_lease(&event, a, LEASE_ACTIVE);
    assert_int_equal(kit_release(&f.kit, b, NULL), FSM_OK);
    assert_int_equal(kit_release(&f.kit, a, NULL), FSM_OK);
    c = grant(&f, "n1", 0);
    event = next(s, HUB_LEASE);
    expect_lease(&event, a, LEASE_DRAINING);
    event = next(s, HUB_LISTED);
    expect_lease(&event, b, LEASE_DRAINING);
    event = next(s, HUB_LISTED);
    expect_lease(&event, c, LEASE_GRANTED);
    event = next(s, HUB_SYNCED);
    assert_int_equal(event.revision, fsm_revision(f.kit.fsm));
    expect_nothing(s);
    finish(&f);
}

static void hub_slow_reader_is_skipped_ahead_again(void **state)
{
    struct fixture f;
    struct hub_subscription *s;

    (void)state;
    start(&f, 600);
    s = subscribe(&f, fsm_revision(f.kit.fsm), NULL);
    (void)grant(&f, "n1", 0);
    (void)next(s, HUB_LEASE);
    for (int i = 0; i < 20; i++)
        (void)grant(&f, "n1", 0);
    (void)next(s, HUB_SKIPPED);
    (void)next(s, HUB_LISTED);
    for (int i = 0; i < 20; i++)
        (void)grant(&f, "n1", 0);
    (void)next(s, HUB_SKIPPED);
    for (int i = 0; i < 41; i++)
        (void)next(s, HUB_LISTED);
    (void)next(s, HUB_SYNCED);
    finish(&f);
}

static bool is_alice(const char *owner_name, uint32_t owner_uid, void *arg)
{
    return owner_uid == *(uint32_t *)arg && !strcmp(owner_name, "alice");
}

static void hub_filters_by_owner_and_node(void **state)
{
    struct fixture f;
    struct hub_subscription *own, *node, *listed;
    struct hub_event event;
    uint64_t since, theirs, here;
    uint32_t uid = 2000;

    (void)state;
    start(&f, 0);
    since = fsm_revision(f.kit.fsm);
    theirs = grant(&f, "n1", 2000);
    here = grant(&f, "n2", 1000);
    own = subscribe(&f, since, &(struct hub_filter){.sees = is_alice, .sees_arg = &uid});
    event = next(own, HUB_LEASE);
    expect_lease(&event, theirs, LEASE_GRANTED);
    expect_nothing(own);
    assert_int_equal(hub_position(own), fsm_revision(f.kit.fsm));
    node = subscribe(&f, since, &(struct hub_filter){.node = "n2"});
    event = next(node, HUB_LEASE);
    expect_lease(&event, here, LEASE_GRANTED);
    expect_nothing(node);
    listed = subscribe(&f, HUB_SINCE_LIST, &(struct hub_filter){.node = "n2"});
    event = next(listed, HUB_LISTED);
    expect_lease(&event, here, LEASE_GRANTED);
    (void)next(listed, HUB_SYNCED);
    finish(&f);
}

static void hub_wakes_whom_has_nothing_once_a_batch(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;

    (void)state;
    start(&f, 0);
    s = subscribe(&f, fsm_revision(f.kit.fsm), NULL);
    expect_nothing(s);
    hub_flush(f.hub, 0);
    assert_int_equal(f.woken, 0);
    (void)grant(&f, "n1", 0);
    (void)grant(&f, "n1", 0);
    assert_int_equal(f.woken, 0);
    hub_flush(f.hub, 0);
    hub_flush(f.hub, 0);
    assert_int_equal(f.woken, 1);
    while (hub_next(s, &event) > 0)
        continue;
    (void)grant(&f, "n1", 0);
    hub_flush(f.hub, 0);
    assert_int_equal(f.woken, 2);
    finish(&f);
}

static struct hub_subscription *subscribe_patient(struct fixture *f, const char *node)
{
    struct hub_subscription *s = subscribe(f, fsm_revision(f->kit.fsm),
                                           &(struct hub_filter){.concerns = node});

    expect_nothing(s);
    hub_flush(f->hub, 0); /* looks at what was before */
    f->woken = 0;
    return s;
}

static void take_all(struct hub_subscription *s)
{
    struct hub_event event;

    while (hub_next(s, &event) > 0)
        continue;
}

static void hub_patient_is_woken_at_once_by_what_concerns_it(void **state)
{
    struct hub_subscription *s;
    struct fixture f;

    (void)state;
    start(&f, 0);
    s = subscribe_patient(&f, "n2");
    (void)grant(&f, "n1", 0);
    hub_flush(f.hub, 1);
    assert_int_equal(f.woken, 0);
    (void)grant(&f, "n2", 0);
    hub_flush(f.hub, 1);
    assert_int_equal(f.woken, 1);
    /* Both: nothing is left out on the way. */
    take_all(s);
    assert_int_equal(hub_position(s), fsm_revision(f.kit.fsm));
    finish(&f);
}

static void hub_patient_waits_for_the_rest(void **state)
{
    struct hub_subscription *s;
    struct fixture f;

    (void)state;
    start(&f, 0);
    s = subscribe_patient(&f, "n2");
    /* Long idle: at once. */
    (void)grant(&f, "n1", 0);
    hub_flush(f.hub, HUB_PATIENCE_MS);
    assert_int_equal(f.woken, 1);
    take_all(s);
    (void)grant(&f, "n1", 0);
    hub_flush(f.hub, 2 * HUB_PATIENCE_MS - 1);
    assert_int_equal(f.woken, 1);
    hub_flush(f.hub, 2 * HUB_PATIENCE_MS);
    assert_int_equal(f.woken, 2);
    take_all(s);
    /* With nothing new, time alone does not wake it. */
    hub_flush(f.hub, 9 * HUB_PATIENCE_MS);
    assert_int_equal(f.woken, 2);
    finish(&f);
}

static void hub_patient_skips_when_the_ring_has_gone_on(void **state)
{
    struct hub_subscription *s;
    struct hub_event event;
    struct fixture f;

    (void)state;
    start(&f, 4096);
    s = subscribe_patient(&f, "n2");
    for (int i = 0; i < 60; i++)
        (void)grant(&f, "n1", 0);
    hub_flush(f.hub, 1);
    assert_int_equal(f.woken, 1);
    assert_int_equal(hub_next(s, &event), 1);
    assert_int_equal(event.kind, HUB_SKIPPED);
    finish(&f);
}

struct leaver {
    struct hub_subscription *whom[2];
};

static void leave(void *arg)
{
    struct leaver *leaver = arg;

    hub_unsubscribe(leaver->whom[0]);
    hub_unsubscribe(leaver->whom[1]);
    leaver->whom[0] = leaver->whom[1] = NULL;
}

static void hub_subscribers_may_leave_while_woken(void **state)
{
    static const struct hub_filter all;
    struct fixture f;
    struct leaver leaver;

    (void)state;
    start(&f, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            hub_subscribe(f.hub, fsm_revision(f.kit.fsm), &all, leave, &leaver, &leaver.whom[i]),
            0);
        expect_nothing(leaver.whom[i]);
    }
    (void)grant(&f, "n1", 0);
    hub_flush(f.hub, 0);
    assert_null(leaver.whom[0]);
    finish(&f);
}

static void hub_tells_pools_and_nodes_by_name(void **state)
{
    struct fixture f;
    struct hub_subscription *s;
    struct hub_event event;

    (void)state;
    start(&f, 0);
    s = subscribe(&f, fsm_revision(f.kit.fsm), NULL);
    assert_int_equal(kit_pool_create(&f.kit, "other", KIT_FIRST_UID + 1000, KIT_FIRST_UID + 1009),
                     FSM_OK);
    event = next(s, HUB_POOL);
    assert_string_equal(event.name, "other");
    assert_int_equal(kit_pool_retire(&f.kit, "other"), FSM_OK);
    do
        assert_int_equal(hub_next(s, &event), 1);
    while (event.kind == HUB_POOL);
    assert_int_equal(event.kind, HUB_POOL_GONE);
    assert_int_equal(kit_verb(&f.kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "x"), FSM_OK);
    event = next(s, HUB_NODE);
    assert_string_equal(event.name, "n1");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hub_new_subscriber_gets_list_then_changes),
        cmocka_unit_test(hub_list_tells_when_a_lease_ends_whenever_it_is_asked),
        cmocka_unit_test(hub_resume_gives_each_change_once_in_order),
        cmocka_unit_test(hub_last_change_of_a_lease_says_free),
        cmocka_unit_test(hub_what_is_not_kept_is_skipped_and_listed),
        cmocka_unit_test(hub_since_beyond_the_state_is_a_full_list),
        cmocka_unit_test(hub_list_under_way_never_goes_back_in_time),
        cmocka_unit_test(hub_slow_reader_is_skipped_ahead_again),
        cmocka_unit_test(hub_filters_by_owner_and_node),
        cmocka_unit_test(hub_wakes_whom_has_nothing_once_a_batch),
        cmocka_unit_test(hub_patient_is_woken_at_once_by_what_concerns_it),
        cmocka_unit_test(hub_patient_waits_for_the_rest),
        cmocka_unit_test(hub_patient_skips_when_the_ring_has_gone_on),
        cmocka_unit_test(hub_subscribers_may_leave_while_woken),
        cmocka_unit_test(hub_tells_pools_and_nodes_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
