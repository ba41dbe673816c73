/* What comes down the stream: what is taken, what is refused, and that nothing unsound is passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noded/session_decode.h"
#include "xce/limits.h"

#define UID 2013265921u

struct fixture {
    struct state_lease lease;
    char gecos[XCE_GECOS_LEN_MAX + 1];
    struct state_pool pool;
    int leases, pools, gone, changed, ahead;
    uint64_t revision;
    bool full_done;
    enum session_node node;
    int blocked_told, blocked;
    uint32_t blocked_first;
    bool gone_before_pools;
    int leftover;
    uint32_t leftover_first;
    struct state_epoch uids[4];
    struct err err;

    /* A sound message: each test spoils one thing. */
    Xce__V1__Lease l;
    Xce__V1__Owner owner;
    Xce__V1__Member member;
    Xce__V1__Member *members[1];
    Xce__V1__Pool p;
    Xce__V1__UidRange range;
    Xce__V1__PoolSettings settings;
    Xce__V1__Lease *all_leases[1];
    Xce__V1__Pool *all_pools[1];
    char *all_gone[1];
    Xce__V1__Changes changes;
};

static void take_lease(const struct state_lease *lease, void *arg)
{
    struct fixture *f = arg;

    f->leases++;
    f->lease = *lease;
    (void)snprintf(f->gecos, sizeof(f->gecos), "%s", lease->gecos);
}

static void take_pool(const struct state_pool *pool, void *arg)
{
    struct fixture *f = arg;

    f->pools++;
    f->pool = *pool;
}

static void take_blocked(const struct state_pool *pool, const uint32_t *uids, size_t n, void *arg)
{
    struct fixture *f = arg;

    f->blocked_told++;
    f->blocked = (int)n;
    f->blocked_first = n ? uids[0] : 0;
}

static void take_leftover(const struct state_pool *pool, const uint32_t *uids, size_t n, void *arg)
{
    struct fixture *f = arg;

    f->leftover = (int)n;
    f->leftover_first = n ? uids[0] : 0;
}

static void take_gone(const char *name, void *arg)
{
    struct fixture *f = arg;

    f->gone++;
    f->gone_before_pools = f->pools == 0;
}

static void take_changed(uint64_t revision, bool full_done, enum session_node node, void *arg)
{
    struct fixture *f = arg;

    f->changed++;
    f->revision = revision;
    f->full_done = full_done;
    f->node = node;
}

static void take_ahead(const struct state_epoch *uids, size_t n, void *arg)
{
    struct fixture *f = arg;

    f->ahead = (int)n;
    for (size_t i = 0; i < n && i < 4; i++)
        f->uids[i] = uids[i];
}

static const struct session_ops ops = {
    .lease = take_lease,
    .pool = take_pool,
    .pool_blocked = take_blocked,
    .pool_leftover = take_leftover,
    .pool_gone = take_gone,
    .changed = take_changed,
    .look_ahead = take_ahead,
};

static char text_alice[] = "alice", text_home[] = "/home", text_shell[] = "/bin/sh";
static char text_me[] = "n1", text_pool[] = "main";

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    xce__v1__lease__init(&f->l);
    xce__v1__owner__init(&f->owner);
    xce__v1__member__init(&f->member);
    xce__v1__pool__init(&f->p);
    xce__v1__uid_range__init(&f->range);
    xce__v1__pool_settings__init(&f->settings);
    xce__v1__changes__init(&f->changes);
    f->owner.name = text_alice;
    f->l.lease = 12;
    f->l.uid = f->l.gid = UID;
    f->l.epoch = 3;
    f->l.state = XCE__V1__LEASE_STATE__LEASE_STATE_ACTIVE;
    f->l.owner = &f->owner;
    f->l.home = text_home;
    f->l.shell = text_shell;
    f->member.node = text_me;
    f->member.proof = XCE__V1__MEMBER_PROOF__MEMBER_PROOF_READY;
    f->members[0] = &f->member;
    f->l.nodes = f->members;
    f->l.n_nodes = 1;
    f->range.first = UID;
    f->range.last = UID + 99;
    f->settings.validity_ms = 5000;
    f->p.name = text_pool;
    f->p.range = &f->range;
    f->p.settings = &f->settings;
    f->all_leases[0] = &f->l;
    f->all_pools[0] = &f->p;
    f->all_gone[0] = text_pool;
    f->changes.leases = f->all_leases;
    f->changes.n_leases = 1;
    f->changes.pools = f->all_pools;
    f->changes.n_pools = 1;
    f->changes.gone_pools = f->all_gone;
    f->changes.n_gone_pools = 1;
    f->changes.revision = 77;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static int decode(struct fixture *f)
{
    return session_decode_changes(&f->changes, "n1", &ops, f, &f->err);
}

static void session_changes_are_told_in_order(void **state)
{
    struct fixture *f = *state;

    f->changes.full_done = true;
    f->changes.node_state = XCE__V1__NODE_STATE__NODE_STATE_UNKNOWN;
    assert_int_equal(decode(f), 0);
    assert_int_equal(f->leases, 1);
    assert_int_equal(f->pools, 1);
    assert_int_equal(f->gone, 1);
    assert_int_equal(f->changed, 1);
    assert_int_equal(f->revision, 77);
    assert_true(f->full_done);
    assert_int_equal(f->node, SESSION_NODE_UNKNOWN);
    assert_int_equal(f->lease.uid, UID);
    assert_int_equal(f->lease.phase, STATE_ACTIVE);
    assert_true(f->lease.member);
    assert_int_equal(f->lease.proof, PROOF_READY);
    assert_string_equal(f->gecos, "lease 12");
    assert_int_equal(f->pool.last, UID + 99);
    assert_int_equal(f->pool.validity_ms, 5000);
}

/* As many as a node holds, and one takes the place of another. */
static void session_pool_that_is_gone_makes_room_for_a_new_one(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(decode(f), 0);
    assert_true(f->gone_before_pools);
}

/* Also when there is none: that is how a node hears of an unblock. A list that may have been cut tells nothing. */
static void session_blocked_uids_are_told_whole_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    Xce__V1__BlockedUid uid = XCE__V1__BLOCKED_UID__INIT;
    static Xce__V1__BlockedUid *list[1000];

    assert_int_equal(decode(f), 0);
    assert_int_equal(f->blocked_told, 1);
    assert_int_equal(f->blocked, 0);
    uid.uid = UID + 5;
    for (size_t i = 0; i < 1000; i++)
        list[i] = &uid;
    f->p.blocked = list;
    f->p.n_blocked = 999;
    assert_int_equal(decode(f), 0);
    assert_int_equal(f->blocked, 999);
    assert_int_equal(f->blocked_first, UID + 5);
    f->p.n_blocked = 1000;
    assert_int_equal(decode(f), 0);
    assert_int_equal(f->blocked_told, 2);
}

static void session_leftovers_are_those_of_this_node(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *node, *reason;
    } rows[] = {{"n1", "account"}, {"n2", "leftover"}, {"n1", "leftover"}, {"n1", "stray"}};
    Xce__V1__BlockedUid uids[4], *list[4];

    for (uint32_t i = 0; i < 4; i++) {
        xce__v1__blocked_uid__init(&uids[i]);
        uids[i].uid = UID + i;
        uids[i].node = (char *)(uintptr_t)rows[i].node;
        uids[i].reason = (char *)(uintptr_t)rows[i].reason;
        list[i] = &uids[i];
    }
    f->p.blocked = list;
    f->p.n_blocked = 4;
    assert_int_equal(decode(f), 0);
    assert_int_equal(f->blocked, 4);
    assert_int_equal(f->leftover, 1);
    assert_int_equal(f->leftover_first, UID + 2);
}

static void session_lease_of_others_is_no_membership(void **state)
{
    struct fixture *f = *state;
    char other[] = "n10";

    f->member.node = other;
    assert_int_equal(decode(f), 0);
    assert_false(f->lease.member);
}

static void session_gecos_tells_neither_owner_nor_job(void **state)
{
    struct fixture *f = *state;
    char job[] = "secret";

    f->l.job = job;
    assert_int_equal(decode(f), 0);
    assert_string_equal(f->gecos, "lease 12");
    f->l.owner = NULL;
    f->l.lease = UINT64_MAX;
    assert_int_equal(decode(f), 0);
    assert_string_equal(f->gecos, "lease 18446744073709551615");
}

/* Each of these is refused, and the error names the lease or the pool. */
static void session_unsound_changes_are_refused(void **state)
{
    struct fixture *f = *state;
    char long_home[XCE_HOME_LEN_MAX + 2], long_name[40];

    memset(long_home, 'x', sizeof(long_home) - 1);
    long_home[sizeof(long_home) - 1] = '\0';
    memset(long_name, 'p', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
#define REFUSED(spoil, mend)                                                                       \
    do {                                                                                           \
        spoil;                                                                                     \
        f->changed = 0;                                                                            \
        assert_int_equal(decode(f), -EBADMSG);                                                     \
        assert_int_equal(f->changed, 0);                                                           \
        assert_true(strlen(f->err.text) > 5);                                                      \
        mend;                                                                                      \
    } while (0)
    REFUSED(f->l.uid = f->l.gid = 0, f->l.uid = f->l.gid = UID);
    REFUSED(f->l.uid = f->l.gid = 999, f->l.uid = f->l.gid = UID);
    REFUSED(f->l.uid = f->l.gid = UINT32_MAX, f->l.uid = f->l.gid = UID);
    REFUSED(f->l.gid = UID + 1, f->l.gid = UID);
    REFUSED(f->l.epoch = 0, f->l.epoch = 3);
    REFUSED(f->l.state = 0, f->l.state = 2);
    REFUSED(f->l.state = 8, f->l.state = 2);
    REFUSED(f->l.n_gids = XCE_GIDS_MAX + 1, f->l.n_gids = 0);
    REFUSED(f->l.home = long_home, f->l.home = text_home);
    REFUSED(f->member.proof = 6, f->member.proof = 1);
    REFUSED(f->p.range = NULL, f->p.range = &f->range);
    REFUSED(f->range.last = UID - 1, f->range.last = UID + 99);
    REFUSED(f->range.first = 0, f->range.first = UID);
    REFUSED(f->p.name = long_name, f->p.name = text_pool);
    assert_int_equal(decode(f), 0);
}

static void session_welcome_accepts_and_rejects(void **state)
{
    struct fixture *f = *state;
    Xce__V1__Welcome w = XCE__V1__WELCOME__INIT;
    struct session_welcome welcome;
    uint8_t incarnation[40] = {1};
    char good[] = "xce-", bad[] = "Xce", longest[] = "abcdefghijklmnop-";

    w.session = 1;
    w.prefix = good;
    w.incarnation = (ProtobufCBinaryData){16, incarnation};
    assert_int_equal(session_decode_welcome(&w, &welcome, &f->err), 0);
    assert_string_equal(welcome.prefix, "xce-");
    w.prefix = bad;
    assert_int_equal(session_decode_welcome(&w, &welcome, &f->err), -EBADMSG);
    w.prefix = longest;
    assert_int_equal(session_decode_welcome(&w, &welcome, &f->err), -EBADMSG);
    w.prefix = good;
    w.session = 0;
    assert_int_equal(session_decode_welcome(&w, &welcome, &f->err), -EBADMSG);
    w.session = 1;
    w.incarnation.len = 33;
    assert_int_equal(session_decode_welcome(&w, &welcome, &f->err), -EBADMSG);
}

static void session_look_ahead_pairs_uids_with_epochs(void **state)
{
    struct fixture *f = *state;
    Xce__V1__LookAhead ahead = XCE__V1__LOOK_AHEAD__INIT;
    uint32_t uids[] = {UID, UID + 1}, epochs[] = {4, 9};

    ahead.uids = uids;
    ahead.n_uids = 2;
    ahead.epochs = epochs;
    ahead.n_epochs = 2;
    assert_int_equal(session_decode_look_ahead(&ahead, &ops, f, &f->err), 0);
    assert_int_equal(f->ahead, 2);
    assert_int_equal(f->uids[1].epoch, 9);
    ahead.n_epochs = 1;
    assert_int_equal(session_decode_look_ahead(&ahead, &ops, f, &f->err), -EBADMSG);
    ahead.n_epochs = 0;
    assert_int_equal(session_decode_look_ahead(&ahead, &ops, f, &f->err), 0);
    assert_int_equal(f->uids[1].epoch, 0);
    uids[0] = 5;
    assert_int_equal(session_decode_look_ahead(&ahead, &ops, f, &f->err), -EBADMSG);
}

int main(void)
{
#define SESSION_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        SESSION_TEST(session_changes_are_told_in_order),
        SESSION_TEST(session_pool_that_is_gone_makes_room_for_a_new_one),
        SESSION_TEST(session_blocked_uids_are_told_whole_or_not_at_all),
        SESSION_TEST(session_leftovers_are_those_of_this_node),
        SESSION_TEST(session_lease_of_others_is_no_membership),
        SESSION_TEST(session_gecos_tells_neither_owner_nor_job),
        SESSION_TEST(session_unsound_changes_are_refused),
        SESSION_TEST(session_welcome_accepts_and_rejects),
        SESSION_TEST(session_look_ahead_pairs_uids_with_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
