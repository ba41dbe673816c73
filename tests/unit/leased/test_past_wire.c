/* History between replicas as messages: there and back; what is none is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/service/past_wire.h"

#define WALL 1700000000000

struct fixture {
    struct pb_arena arena;
    uint8_t *bytes;
    size_t len;
    struct err err;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    pb_arena_init(&fx->arena, PB_ARENA_MAX);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    pb_arena_done(&fx->arena);
    free(fx->bytes);
    free(fx);
    return 0;
}

static void pack(struct fixture *fx, const Xce__V1__PastReply *reply)
{
    free(fx->bytes);
    fx->len = xce__v1__past_reply__get_packed_size(reply);
    fx->bytes = malloc(fx->len + 1);
    assert_non_null(fx->bytes);
    assert_int_equal(xce__v1__past_reply__pack(reply, fx->bytes), fx->len);
}

static struct history_entry entry_here(uint64_t lease)
{
    return (struct history_entry){.lease = lease,
                                  .uid = 2013265920,
                                  .epoch = 3,
                                  .pool = "main",
                                  .job = "17.batch",
                                  .owner_name = "m\xc3\xbcller",
                                  .nodes = "n1,n2",
                                  .owner_uid = 1000,
                                  .owner_gid = 100,
                                  .cause = END_EXPIRED,
                                  .granted_wall_ms = WALL,
                                  .ended_wall_ms = WALL + 1,
                                  .retired_wall_ms = WALL + 2,
                                  .freed_wall_ms = WALL + 3};
}

static void past_wire_outline_comes_as_it_went(void **state)
{
    struct fixture *fx = *state;
    struct history_period periods[] = {{-1, {1, 2, 3}, 40, WALL, 7},
                                       {1, {[15] = 9}, UINT64_MAX, WALL + 5, HISTORY_LEASE_MAX}};
    struct history_gap gap = {.id = 4,
                              .period = -1,
                              .from_revision = 3,
                              .to_revision = 9,
                              .from_wall_ms = WALL,
                              .to_wall_ms = WALL + 9,
                              .made_up_ms = WALL + 8,
                              .source = 77};
    struct history_outline ret;
    struct past_wire wire;

    assert_int_equal(past_wire_outline(&wire, &(struct history_outline){periods, 2, &gap, 1}), 0);
    pack(fx, &wire.reply);
    past_wire_done(&wire);
    assert_int_equal(past_wire_take_outline(&fx->arena, fx->bytes, fx->len, &ret, &fx->err), 0);
    assert_int_equal(ret.n_periods, 2);
    assert_memory_equal(ret.periods, periods, sizeof periods);
    assert_int_equal(ret.n_gaps, 1);
    /* What is of the file alone does not go. */
    gap.id = 0;
    gap.source = 0;
    assert_memory_equal(ret.gaps, &gap, sizeof gap);
}

static void past_wire_leases_come_as_they_went(void **state)
{
    struct fixture *fx = *state;
    struct history_entry sent[] = {entry_here(5), entry_here(HISTORY_LEASE_MAX)}, *ret;
    struct past_wire wire;
    size_t n;

    sent[1].job = sent[1].nodes = "";
    assert_int_equal(past_wire_leases(&wire, sent, 2), 0);
    pack(fx, &wire.reply);
    past_wire_done(&wire);
    assert_int_equal(past_wire_take_leases(&fx->arena, fx->bytes, fx->len, &ret, &n, &fx->err), 0);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(ret[i].pool, sent[i].pool);
        assert_string_equal(ret[i].job, sent[i].job);
        assert_string_equal(ret[i].owner_name, sent[i].owner_name);
        assert_string_equal(ret[i].nodes, sent[i].nodes);
        assert_int_equal(ret[i].lease, sent[i].lease);
        assert_int_equal(ret[i].uid, sent[i].uid);
        assert_int_equal(ret[i].epoch, sent[i].epoch);
        assert_int_equal(ret[i].owner_uid, sent[i].owner_uid);
        assert_int_equal(ret[i].owner_gid, sent[i].owner_gid);
        assert_int_equal(ret[i].cause, sent[i].cause);
        assert_int_equal(ret[i].granted_wall_ms, sent[i].granted_wall_ms);
        assert_int_equal(ret[i].ended_wall_ms, sent[i].ended_wall_ms);
        assert_int_equal(ret[i].retired_wall_ms, sent[i].retired_wall_ms);
        assert_int_equal(ret[i].freed_wall_ms, sent[i].freed_wall_ms);
    }
}

static void past_wire_nothing_is_an_empty_answer(void **state)
{
    struct fixture *fx = *state;
    struct history_outline outline;
    struct history_entry *entries;
    size_t n = 1;

    assert_int_equal(past_wire_take_outline(&fx->arena, NULL, 0, &outline, &fx->err), 0);
    assert_int_equal(outline.n_periods + outline.n_gaps, 0);
    assert_int_equal(past_wire_take_leases(&fx->arena, NULL, 0, &entries, &n, &fx->err), 0);
    assert_int_equal(n, 0);
}

static void past_wire_incarnation_of_another_length_is_refused(void **state)
{
    struct fixture *fx = *state;
    Xce__V1__PastReply reply = XCE__V1__PAST_REPLY__INIT;
    Xce__V1__PastPeriod period = XCE__V1__PAST_PERIOD__INIT, *pointer = &period;
    struct history_outline ret;
    uint8_t bytes[17] = {0};

    reply.periods = &pointer;
    reply.n_periods = 1;
    period.incarnation.data = bytes;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        period.incarnation.len = len;
        pack(fx, &reply);
        assert_int_equal(past_wire_take_outline(&fx->arena, fx->bytes, fx->len, &ret, &fx->err),
                         len == 16 ? 0 : -EBADMSG);
        pb_arena_reset(&fx->arena);
    }
}

static void past_wire_bytes_cut_anywhere_are_refused_or_fewer_leases(void **state)
{
    struct fixture *fx = *state;
    struct history_entry sent[] = {entry_here(5), entry_here(6)}, *ret;
    struct past_wire wire;
    size_t n, whole = 0;

    assert_int_equal(past_wire_leases(&wire, sent, 2), 0);
    pack(fx, &wire.reply);
    past_wire_done(&wire);
    for (size_t len = 0; len < fx->len; len++) {
        if (past_wire_take_leases(&fx->arena, fx->bytes, len, &ret, &n, &fx->err) == 0) {
            assert_true(n < 2);
            whole++;
        }
        pb_arena_reset(&fx->arena);
    }
    assert_int_equal(whole, 2); /* none, and the first alone */
}

static void past_wire_text_that_is_none_is_refused(void **state)
{
    struct fixture *fx = *state;
    static const char *const bad[] = {"\xff", "\xc0\xaf", "\xed\xa0\x80"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct history_entry entry = entry_here(5), *ret;
        struct past_wire wire;
        size_t n;

        entry.owner_name = bad[i];
        assert_int_equal(past_wire_leases(&wire, &entry, 1), 0);
        pack(fx, &wire.reply);
        past_wire_done(&wire);
        assert_int_equal(past_wire_take_leases(&fx->arena, fx->bytes, fx->len, &ret, &n, &fx->err),
                         -EBADMSG);
        pb_arena_reset(&fx->arena);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(past_wire_outline_comes_as_it_went),
        TEST(past_wire_leases_come_as_they_went),
        TEST(past_wire_nothing_is_an_empty_answer),
        TEST(past_wire_incarnation_of_another_length_is_refused),
        TEST(past_wire_bytes_cut_anywhere_are_refused_or_fewer_leases),
        TEST(past_wire_text_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
