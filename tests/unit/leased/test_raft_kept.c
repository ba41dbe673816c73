#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "leased/engine/raft_kept.h"

static void note(struct raft_kept *kept, unsigned n, uint32_t bytes)
{
    for (unsigned i = 0; i < n; i++)
        raft_kept_note(kept, bytes);
}

static void raft_kept_of_short_entries_is_their_number(void **state)
{
    struct raft_kept kept = {0};

    (void)state;
    note(&kept, 20000, 100);
    assert_int_equal(raft_kept_count(&kept, 4097, 1 << 20), 4097);
    assert_int_equal(raft_kept_count(&kept, 100000, 1 << 20), RAFT_KEPT_MAX);
}

static void raft_kept_of_long_entries_is_what_fits(void **state)
{
    struct raft_kept kept = {0};

    (void)state;
    note(&kept, 10000, 1000);
    note(&kept, 5, 100000);
    assert_int_equal(raft_kept_count(&kept, 4097, 499999), 4);
    assert_int_equal(raft_kept_count(&kept, 4097, 500000), 5);
    assert_int_equal(raft_kept_count(&kept, 4097, 510000), 15);
}

static void raft_kept_is_never_none(void **state)
{
    struct raft_kept kept = {0};

    (void)state;
    assert_int_equal(raft_kept_count(&kept, 0, 0), 1);
    note(&kept, 1, 1 << 20);
    assert_int_equal(raft_kept_count(&kept, 4097, 1), 1);
}

static void raft_kept_counts_what_was_not_seen_for_nothing(void **state)
{
    struct raft_kept kept = {0};

    (void)state;
    note(&kept, 3, 10);
    assert_int_equal(raft_kept_count(&kept, 4097, 30), 4097);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raft_kept_of_short_entries_is_their_number),
        cmocka_unit_test(raft_kept_of_long_entries_is_what_fits),
        cmocka_unit_test(raft_kept_is_never_none),
        cmocka_unit_test(raft_kept_counts_what_was_not_seen_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
