/* A replica fetches what its history lacks, whatever the other one answers: what can not be right is not taken, and when the
 * right answer comes the gap is gone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/history/history.h"
#include "leased/history/refill.h"
#include "leased/service/past_wire.h"
#include "leased/service/service.h"
#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"

#define WALL      1700000000000
#define UID_FIRST 2013265920u
#define LEASES    600u
#define LIVING    (LEASES + 1)

/* What the other replica does with what it should say. */
enum manner {
    HONEST,
    BACKWARDS,
    REPEATING,
    EMPTY,
    ENDLESS,
    FOREIGN,
    GARBAGE,
    AHEAD,
    FAR_AHEAD,
    UNREACHABLE,
    SILENT,
};

struct fixture {
    struct raft_kit kit;
    char path[2][320];
    struct history *source, *target;
    struct service *service;
    unsigned at; /* the replica that lacks something */
    char source_name[8];
    enum manner manner;
    size_t n_outlines, n_pages;
    uint64_t first_after; /* of the first page that was asked for */
    uint64_t revision;

    Xce__V1__PastRequest request;
    service_asked_fn done;
    void *done_arg;

    bool answered;
    size_t n_gaps, n;
    int64_t ended_wall_ms; /* of the first */
};

static int64_t clock_offset_ms;

static int64_t mono_ms(void)
{
    return clock_mono_ms() + clock_offset_ms;
}

/* ---- the other replica ---- */

static void answer(struct fixture *fx, int r, const uint8_t *bytes, size_t len)
{
    service_asked_fn done = fx->done;

    fx->done = NULL;
    done(r, bytes, len, r < 0 ? "nobody there" : "", fx->done_arg);
}

static void answer_packed(struct fixture *fx, const Xce__V1__PastReply *reply)
{
    size_t len = xce__v1__past_reply__get_packed_size(reply);
    uint8_t *bytes = calloc(1, len + 1);

    (void)xce__v1__past_reply__pack(reply, bytes);
    answer(fx, 0, bytes, len);
    free(bytes);
}

static void spoil_outline(const struct fixture *fx, Xce__V1__PastReply *reply)
{
    if (fx->manner == ENDLESS)
        reply->periods[0]->last_lease = 60000; /* may be: it could be ahead of us */
    if (fx->manner == FAR_AHEAD)
        reply->periods[0]->last_lease = HISTORY_LEASE_MAX;
    if (fx->manner == AHEAD)
        reply->periods[0]->revision = 1ull << 60;
}

static void outlined(int r, const struct history_outline *outline, const char *why, void *arg)
{
    struct fixture *fx = arg;
    struct past_wire wire;

    if (r < 0)
        fail_msg("%s", why);
    assert_int_equal(past_wire_outline(&wire, outline), 0);
    spoil_outline(fx, &wire.reply);
    answer_packed(fx, &wire.reply);
    past_wire_done(&wire);
}

static void spoil_page(const struct fixture *fx, Xce__V1__PastReply *reply)
{
    Xce__V1__PastLease **leases = reply->leases;

    if (fx->manner == BACKWARDS) {
        Xce__V1__PastLease *first = leases[0];

        leases[0] = leases[1];
        leases[1] = first;
    }
    if (fx->manner == EMPTY)
        reply->n_leases = 0;
    for (size_t i = 0; i < reply->n_leases; i++) {
        if (fx->manner == ENDLESS)
            leases[i]->lease = fx->request.after + 1000 + i; /* none of ours */
        if (fx->manner == FOREIGN && leases[i]->lease == LIVING) {
            leases[i]->epoch++;
            leases[i]->granted_ms++;
        }
    }
}

static void found(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                  const char *why, void *arg)
{
    struct fixture *fx = arg;
    struct past_wire wire;

    (void)revision;
    if (r < 0)
        fail_msg("%s", why);
    assert_int_equal(past_wire_leases(&wire, entries, n), 0);
    spoil_page(fx, &wire.reply);
    answer_packed(fx, &wire.reply);
    past_wire_done(&wire);
}

static void ask_page(struct fixture *fx)
{
    /* These say the same again and again. */
    bool stuck = fx->manner == REPEATING || fx->manner == ENDLESS;

    if (fx->n_pages++ == 0)
        fx->first_after = fx->request.after;
    history_ask(fx->source,
                &(struct history_query){.by = HISTORY_BY_PERIOD,
                                        .period = fx->request.period,
                                        .lease = stuck ? 0 : fx->request.after,
                                        .until = stuck ? HISTORY_LEASE_MAX : fx->request.until,
                                        .limit = HISTORY_PIECE_MAX},
                found, fx);
}

static void unreachable(void *arg)
{
    answer(arg, -EHOSTUNREACH, NULL, 0);
}

static void garbage(void *arg)
{
    answer(arg, 0, (const uint8_t *)"\xff\xff\xff\xff", 4);
}

static void ask_replica(const struct service_question *question, service_asked_fn done,
                        void *done_arg, void *arg)
{
    struct fixture *fx = arg;
    Xce__V1__PastRequest *request = xce__v1__past_request__unpack(NULL, question->len,
                                                                  question->bytes);

    assert_null(fx->done);
    assert_non_null(request);
    assert_string_equal(question->method, "/xce.v1.ClusterService/Past");
    assert_string_equal(question->name, fx->source_name);
    assert_non_null(question->address);
    fx->request = *request;
    xce__v1__past_request__free_unpacked(request, NULL);
    fx->done = done;
    fx->done_arg = done_arg;
    if (fx->manner == UNREACHABLE || fx->manner == GARBAGE)
        assert_int_equal(
            loop_defer(fx->kit.loop, fx->manner == GARBAGE ? garbage : unreachable, fx), 0);
    else if (fx->request.period)
        ask_page(fx);
    else if (fx->n_outlines++, fx->manner != SILENT)
        history_ask_outline(fx->source, outlined, fx);
}

/* ---- words ---- */

static void tell(struct fixture *fx, uint64_t id, enum lease_state state)
{
    static struct fsm_node node = {.name = "n1"};
    static struct fsm_member member = {.node = &node};
    static const uint8_t incarnation[16] = {7};
    struct fsm_lease lease = {.id = id,
                              .uid = UID_FIRST + (uint32_t)id,
                              .epoch = 1,
                              .state = state,
                              .cause = state >= LEASE_DRAINING ? END_RELEASE : END_NONE,
                              .pool = "main",
                              .job = "",
                              .owner = {"alice", 1000, 1000},
                              .members = &member,
                              .n_members = 1,
                              .granted_wall_ms = WALL + (int64_t)id * 4000};
    struct fsm_change change = {.kind = CHANGE_LEASE,
                                .lease = &lease,
                                .revision = ++fx->revision,
                                .wall_ms = WALL + (int64_t)fx->revision * 1000};

    history_changed(fx->source, incarnation, &change);
}

static const struct fsm_lease *the_living(uint64_t after, void *arg)
{
    static const struct fsm_lease lease = {.id = LIVING,
                                           .uid = UID_FIRST + LIVING,
                                           .epoch = 1,
                                           .state = LEASE_ACTIVE,
                                           .pool = "main",
                                           .job = "",
                                           .owner = {"alice", 1000, 1000},
                                           .granted_wall_ms = WALL + LIVING * 4000};

    (void)arg;
    return after < LIVING ? &lease : NULL;
}

/* The source has seen many come and go; the target was given the state that came of it. */
static void make_past(struct fixture *fx)
{
    static const uint8_t incarnation[16] = {7};

    for (uint64_t id = 1; id <= LEASES; id++)
        for (enum lease_state state = LEASE_RETIRED - 2; state <= LEASE_FREE; state++)
            tell(fx, id, state == LEASE_RETIRED - 2 ? LEASE_GRANTED : state);
    tell(fx, LIVING, LEASE_GRANTED);
    history_restored(fx->target, incarnation, fx->revision, the_living, NULL);
}

static void open_service(struct fixture *fx)
{
    const struct service_options options = {
        .heartbeat_ms = 2000, .lost_after_ms = 30000, .grace_ms = 0};
    const struct service_deps deps = {.engine = raft_kit_engine(&fx->kit, fx->at),
                                      .history = fx->target,
                                      .wall_ms = clock_wall_ms,
                                      .mono_ms = mono_ms,
                                      .ask_replica = ask_replica,
                                      .ask_arg = fx};

    assert_int_equal(service_new(&options, &deps, &fx->service), 0);
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    struct history **const histories[] = {&fx->source, &fx->target};
    char why[HISTORY_WHY_MAX];

    raft_kit_init(&fx->kit, tmp_dir(), 2);
    raft_kit_form(&fx->kit, 100);
    fx->at = 1;
    (void)snprintf(fx->source_name, sizeof fx->source_name, "r0");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(fx->path[i], sizeof fx->path[i], "%s/past%d.db", fx->kit.folder, i);
        if (history_open(fx->kit.loop, fx->path[i], NULL, NULL, NULL, histories[i], why) < 0)
            fail_msg("%s", why);
    }
    make_past(fx);
    open_service(fx);
    *state = fx;
    return 0;
}

static void note_closed(void *arg)
{
    ++*(int *)arg;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    int closed = 0;

    service_free(fx->service);
    if (fx->done)
        answer(fx, -ECANCELED, NULL, 0);
    history_close(fx->source, note_closed, &closed);
    history_close(fx->target, note_closed, &closed);
    while (closed < 2)
        loop_step(fx->kit.loop, 100);
    raft_kit_done(&fx->kit);
    tmp_remove(fx->kit.folder);
    free(fx);
    return 0;
}

static void elapse(struct fixture *fx)
{
    service_elapse(fx->service);
    raft_kit_elapse(&fx->kit, 10);
}

static void take_gaps(int r, const struct history_outline *outline, const char *why, void *arg)
{
    struct fixture *fx = arg;

    if (r < 0)
        fail_msg("%s", why);
    fx->n_gaps = outline->n_gaps + outline->behind;
    fx->answered = true;
}

static size_t gaps(struct fixture *fx)
{
    fx->answered = false;
    history_ask_outline(fx->target, take_gaps, fx);
    while (!fx->answered)
        loop_step(fx->kit.loop, 100);
    return fx->n_gaps;
}

static void take_entries(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                         const char *why, void *arg)
{
    struct fixture *fx = arg;

    (void)revision;
    if (r < 0)
        fail_msg("%s", why);
    fx->n = n;
    fx->ended_wall_ms = n ? entries[0].ended_wall_ms : 0;
    fx->answered = true;
}

/* Whether the target knows who had the uid of that lease. */
static bool knows(struct fixture *fx, uint64_t id)
{
    fx->answered = false;
    history_ask(
        fx->target,
        &(struct history_query){.by = HISTORY_BY_UID, .uid = UID_FIRST + (uint32_t)id, .limit = 10},
        take_entries, fx);
    while (!fx->answered)
        loop_step(fx->kit.loop, 100);
    return fx->n == 1;
}

static void until_asked(struct fixture *fx, const size_t *counter, size_t n)
{
    int64_t until = clock_mono_ms() + 60000;

    while (*counter < n) {
        elapse(fx);
        if (clock_mono_ms() > until)
            fail_msg("asked %zu times, not %zu", *counter, n);
    }
}

static void until_filled(struct fixture *fx)
{
    int64_t until = clock_mono_ms() + 60000;

    while (gaps(fx) > 0) {
        elapse(fx);
        if (clock_mono_ms() > until)
            fail_msg("the gap stays");
    }
}

static void until_whole(struct fixture *fx)
{
    fx->manner = HONEST;
    clock_offset_ms += 3600000; /* it need not rest */
    until_filled(fx);
    for (uint64_t id = 1; id <= LIVING; id++)
        assert_true(knows(fx, id));
}

/* It is asked, and nothing is taken; then the truth is. */
static void refuses(struct fixture *fx, enum manner manner)
{
    fx->manner = manner;
    until_asked(fx, &fx->n_outlines, 1);
    for (int i = 0; i < 20; i++)
        elapse(fx);
    assert_int_equal(gaps(fx), 1);
    /* And not again at once. */
    assert_int_equal(fx->n_outlines, 1);
    until_whole(fx);
    assert_int_equal(fx->n_outlines, 2);
}

/* ---- a snapshot takes the place of what was missed ---- */

static int setup_three(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    raft_kit_init(&fx->kit, tmp_dir(), 3);
    fx->kit.with_history = true;
    for (unsigned i = 0; i < 3; i++)
        fx->kit.nodes[i].kit.options.snapshot_entries = 20;
    raft_kit_form(&fx->kit, 1000);
    *state = fx;
    return 0;
}

static int teardown_three(void **state)
{
    struct fixture *fx = *state;

    service_free(fx->service);
    assert_null(fx->done);
    raft_kit_done(&fx->kit);
    tmp_remove(fx->kit.folder);
    free(fx);
    return 0;
}

static uint64_t acquire(struct fixture *fx, uint64_t i)
{
    assert_int_equal(raft_kit_acquire(&fx->kit, i), 0);
    return fx->kit.nodes[raft_kit_leader(&fx->kit, 0)].kit.lease;
}

static void release(struct fixture *fx, uint64_t lease)
{
    struct engine_kit *leader = &fx->kit.nodes[raft_kit_leader(&fx->kit, 0)].kit;
    uint8_t bytes[ENGINE_KIT_BYTES];

    assert_int_equal(engine_kit_do(leader, bytes, engine_kit_release(lease, 1, bytes)), 0);
    assert_int_equal(leader->out.code, FSM_OK);
}

static uint64_t snapshot_of(struct fixture *fx, unsigned at, uint64_t *ret_last)
{
    struct engine_status status;

    engine_get_status(raft_kit_engine(&fx->kit, at), &status);
    *ret_last = status.last_entry;
    return status.snapshot_entry;
}

/* Until what is in the log now is not in it any more: a snapshot waits until history is on disk. */
static void outlive_the_log(struct fixture *fx, unsigned leader)
{
    uint64_t now, last, i = 11;

    (void)snapshot_of(fx, leader, &now);
    while (snapshot_of(fx, leader, &last) < now + 20) {
        assert_true(i < 900);
        (void)acquire(fx, i++);
        raft_kit_elapse(&fx->kit, 5);
    }
}

/* When the lease ended, as a history has it. */
static int64_t ended(struct fixture *fx, struct history *history, uint64_t lease)
{
    fx->answered = false;
    history_ask(history,
                &(struct history_query){.by = HISTORY_BY_LEASE, .lease = lease, .limit = 10},
                take_entries, fx);
    while (!fx->answered)
        loop_step(fx->kit.loop, 100);
    assert_int_equal(fx->n, 1);
    return fx->ended_wall_ms;
}

static void refill_service_fills_what_a_snapshot_jumped_over(void **state)
{
    struct fixture *fx = *state;
    unsigned leader = (unsigned)raft_kit_leader(&fx->kit, 0);
    uint64_t leases[10];
    size_t wrong = 0;

    fx->at = (leader + 1) % 3;
    (void)snprintf(fx->source_name, sizeof fx->source_name, "r%u", leader);
    for (uint64_t i = 0; i < 10; i++)
        leases[i] = acquire(fx, i + 1);
    assert_true(raft_kit_equal(&fx->kit));
    raft_kit_stop(&fx->kit, fx->at);
    /* What was on its way when it was last heard would still come to it. */
    raft_kit_elapse(&fx->kit, 1000);
    for (size_t i = 0; i < 10; i++)
        release(fx, leases[i]);
    outlive_the_log(fx, leader);
    assert_int_equal(raft_kit_start(&fx->kit, fx->at), 0);
    /* A snapshot that came at a bad moment is dropped, and comes again much later (raft_guard.h). */
    for (int tries = 0; !raft_kit_equal(&fx->kit); tries++)
        assert_true(tries < 5);
    assert_int_equal(raft_kit_leader(&fx->kit, 0), leader);
    fx->source = fx->kit.nodes[leader].kit.history;
    fx->target = fx->kit.nodes[fx->at].kit.history;
    assert_int_equal(gaps(fx), 1);
    for (size_t i = 0; i < 10; i++)
        wrong += ended(fx, fx->target, leases[i]) != ended(fx, fx->source, leases[i]);
    assert_int_equal(wrong, 10);
    open_service(fx);
    until_filled(fx);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(ended(fx, fx->target, leases[i]), ended(fx, fx->source, leases[i]));
}

/* ---- tests ---- */

static void refill_service_fetches_what_is_missing_and_rests(void **state)
{
    struct fixture *fx = *state;

    assert_false(knows(fx, 5));
    until_whole(fx);
    assert_int_equal(fx->n_outlines, 1);
    assert_int_equal(fx->n_pages, LEASES / HISTORY_PIECE_MAX + 1);
    for (int i = 0; i < 20; i++)
        elapse(fx);
    assert_int_equal(fx->n_outlines, 1);
}

static void refill_service_goes_on_where_it_was(void **state)
{
    struct fixture *fx = *state;

    until_asked(fx, &fx->n_pages, 2);
    service_free(fx->service);
    while (fx->done)
        loop_step(fx->kit.loop, 100);
    fx->n_pages = 0;
    open_service(fx);
    until_whole(fx);
    assert_true(fx->first_after >= HISTORY_PIECE_MAX);
}

static void refill_service_freed_while_it_waits_is_no_harm(void **state)
{
    struct fixture *fx = *state;

    fx->manner = SILENT;
    until_asked(fx, &fx->n_outlines, 1);
    assert_non_null(fx->done);
}

static void refill_service_refuses_pages_out_of_order(void **state)
{
    refuses(*state, BACKWARDS);
}

static void refill_service_refuses_pages_that_come_again(void **state)
{
    struct fixture *fx = *state;

    refuses(fx, REPEATING);
    /* One was right. */
    assert_true(fx->n_pages > LEASES / HISTORY_PIECE_MAX);
}

static void refill_service_refuses_pages_that_hold_nothing(void **state)
{
    refuses(*state, EMPTY);
}

static void refill_service_refuses_what_never_ends(void **state)
{
    struct fixture *fx = *state;

    fx->manner = ENDLESS;
    until_asked(fx, &fx->n_pages, fx->revision / HISTORY_PIECE_MAX + 1);
    for (int i = 0; i < 20; i++)
        elapse(fx);
    /* No more leases than there were changes. */
    assert_int_equal(fx->n_pages, fx->revision / HISTORY_PIECE_MAX + 1);
    assert_int_equal(gaps(fx), 1);
}

static void refill_service_refuses_another_story(void **state)
{
    struct fixture *fx = *state;

    fx->manner = FOREIGN;
    until_asked(fx, &fx->n_pages, LEASES / HISTORY_PIECE_MAX + 1);
    for (int i = 0; i < 20; i++)
        elapse(fx);
    assert_int_equal(gaps(fx), 1);
    until_whole(fx);
}

static void refill_service_refuses_what_is_no_message(void **state)
{
    struct fixture *fx = *state;

    fx->manner = GARBAGE;
    for (int i = 0; i < 20; i++)
        elapse(fx);
    assert_int_equal(gaps(fx), 1);
    until_whole(fx);
}

static void refill_service_refuses_revisions_that_have_not_come(void **state)
{
    refuses(*state, AHEAD);
}

static void refill_service_refuses_leases_that_nobody_had_yet(void **state)
{
    struct fixture *fx = *state;

    refuses(fx, FAR_AHEAD);
}

static void refill_service_asks_later_whom_it_does_not_reach(void **state)
{
    struct fixture *fx = *state;

    fx->manner = UNREACHABLE;
    for (int i = 0; i < 20; i++)
        elapse(fx);
    assert_int_equal(gaps(fx), 1);
    until_whole(fx);
}

#define TEST_OF_THREE(fn) cmocka_unit_test_setup_teardown(fn, setup_three, teardown_three)
#define TEST(fn)          cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refill_service_fetches_what_is_missing_and_rests),
        TEST_OF_THREE(refill_service_fills_what_a_snapshot_jumped_over),
        TEST(refill_service_goes_on_where_it_was),
        TEST(refill_service_freed_while_it_waits_is_no_harm),
        TEST(refill_service_refuses_pages_out_of_order),
        TEST(refill_service_refuses_pages_that_come_again),
        TEST(refill_service_refuses_pages_that_hold_nothing),
        TEST(refill_service_refuses_what_never_ends),
        TEST(refill_service_refuses_another_story),
        TEST(refill_service_refuses_what_is_no_message),
        TEST(refill_service_refuses_revisions_that_have_not_come),
        TEST(refill_service_refuses_leases_that_nobody_had_yet),
        TEST(refill_service_asks_later_whom_it_does_not_reach),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
