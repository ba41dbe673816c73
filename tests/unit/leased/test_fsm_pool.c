/* Pools: where they may lie, their settings, growing, ending, and epochs that outlive them. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"
#include "xce/limits.h"

static struct kit kit;

static int no_pool(void **state)
{
    kit_start(&kit, 0, 2);
    return 0;
}

static int one_pool(void **state)
{
    kit_start(&kit, 16, 2);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

/* ---- ranges ---- */

static void pool_range_that_belongs_to_others_is_refused(void **state)
{
    static const struct {
        uint32_t first, last;
        const char *message; /* NULL = fine */
    } rows[] = {
        {0, 10, "0-10 overlaps 0-999: system accounts"},
        {999, 1100, "999-1100 overlaps 0-999: system accounts"},
        {1000, 1100, NULL},
        {50000, 60000, NULL},
        {50000, 60001, "50000-60001 overlaps 60001-60577: systemd-homed and mapped users"},
        {60577, 60578, "60577-60578 overlaps 60001-60577: systemd-homed and mapped users"},
        {60578, 61183, NULL},
        {61183, 61184, "61183-61184 overlaps 61184-65519: DynamicUser= of systemd"},
        {65519, 65520, "65519-65520 overlaps 61184-65519: DynamicUser= of systemd"},
        {65520, 65533, NULL},
        {65534, 65534, "65534-65534 overlaps 65534-65535: nobody and the 16-bit -1"},
        {65535, 65600, "65535-65600 overlaps 65534-65535: nobody and the 16-bit -1"},
        {65536, 65700, NULL},
        {524287, 524288, "524287-524288 overlaps 524288-1879048191: containers of systemd-nspawn"},
        {1879048191, 1879048200,
         "1879048191-1879048200 overlaps 524288-1879048191: containers of systemd-nspawn"},
        {1879048192, 1879048200, NULL},
        {0x7ffdff00, 0x7ffdffff, NULL},
        {0x7ffdffff, 0x7ffe0000,
         "2147352575-2147352576 overlaps 2147352576-4294967295: the foreign range and all above "
         "it"},
        {4294967294, 4294967295,
         "4294967294-4294967295 overlaps 2147352576-4294967295: the foreign range and all above "
         "it"},
        {900, 4294967295, "900-4294967295 overlaps 0-999: system accounts"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum fsm_code code = kit_pool_create(&kit, "p", rows[i].first, rows[i].last);

        if (code != (rows[i].message ? FSM_PRECONDITION : FSM_OK) ||
            (rows[i].message && strcmp(kit.out.message, rows[i].message) != 0))
            fail_msg("row %zu: %d %s", i, code, kit.out.message);
        if (!rows[i].message)
            assert_int_equal(kit_pool_retire(&kit, "p"), FSM_OK);
        assert_null(fsm_pool(kit.fsm, "p"));
    }
}

static void pool_range_that_is_no_range_is_refused(void **state)
{
    assert_int_equal(kit_pool_create(&kit, "p", 70000, 69999), FSM_INVALID);
    assert_string_equal(kit.out.message, "range 70000-69999 ends before it begins");
    assert_int_equal(kit_pool_create(&kit, "p", 1879048192, 1879048192 + (1 << 20)), FSM_INVALID);
    assert_string_equal(kit.out.message,
                        "range 1879048192-1880096768: a pool has at most 1048576 uids");
    assert_int_equal(kit_pool_create(&kit, "", 70000, 70010), FSM_INVALID);
    assert_int_equal(kit_pool_make(&kit, 70000, &(struct kit_pool_set){.name = "p", .last = 70010}),
                     FSM_INVALID);
    assert_non_null(strstr(kit.out.message, "or none"));
    assert_int_equal(kit_pool_make(&kit, 70000,
                                   &(struct kit_pool_set){.name = "p",
                                                          .last = 70010,
                                                          .directory = {1000, 2000},
                                                          .directory_none = true}),
                     FSM_INVALID);
}

static void pool_range_of_other_pools_and_directories_is_refused(void **state)
{
    struct kit_pool_set a = {.name = "a", .last = 70099, .directory = {80000, 89999}};
    struct kit_pool_set b = {.name = "b", .last = 70199, .directory = {70050, 70060}};

    assert_int_equal(kit_pool_make(&kit, 70000, &a), FSM_OK);
    assert_int_equal(fsm_pool(kit.fsm, "a")->n_directory, 1);
    assert_int_equal(kit_pool_create(&kit, "a", 71000, 71001), FSM_EXISTS);
    assert_int_equal(kit_pool_create(&kit, "b", 70099, 70100), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "70099-70100 overlaps pool a: 70000-70099");
    assert_int_equal(kit_pool_create(&kit, "b", 79990, 80000), FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "79990-80000 overlaps the directory range 80000-89999 of pool a");
    assert_int_equal(kit_pool_make(&kit, 70100, &b), FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "the directory range 70050-70060 overlaps pool a: 70000-70099");
    b.directory = (struct fsm_range){70150, 70160};
    assert_int_equal(kit_pool_make(&kit, 70100, &b), FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "70100-70199 overlaps the directory range 70150-70160 that was given");
    b.directory = (struct fsm_range){70260, 70250};
    assert_int_equal(kit_pool_make(&kit, 70100, &b), FSM_INVALID);
    b.directory = (struct fsm_range){70250, 70260};
    assert_int_equal(kit_pool_make(&kit, 70100, &b), FSM_OK);
    assert_ptr_equal(fsm_pool_of_uid(kit.fsm, 70150), fsm_pool(kit.fsm, "b"));
    assert_ptr_equal(fsm_pool_of_uid(kit.fsm, 70000), fsm_pool(kit.fsm, "a"));
    assert_null(fsm_pool_of_uid(kit.fsm, 70200));
    assert_ptr_equal(fsm_pool_next(kit.fsm, NULL), fsm_pool(kit.fsm, "a"));
    assert_ptr_equal(fsm_pool_next(kit.fsm, fsm_pool(kit.fsm, "a")), fsm_pool(kit.fsm, "b"));
    assert_null(fsm_pool_next(kit.fsm, fsm_pool(kit.fsm, "b")));
}

/* ---- settings ---- */

static char too_long[XCE_HOME_LEN_MAX + 2]; /* for a node's map */

static void pool_settings_have_defaults_and_bounds(void **state)
{
    static const struct {
        struct kit_pool_set set;
        const char *message;
    } rows[] = {
        {{.ttl_min_ms = 999}, "ttl_min_ms: 999ms, must be 1s to 365d"},
        {{.cooldown_ms = -1}, "cooldown_ms: -1ms, must be 1s to 7d"},
        {{.ready_timeout_ms = 600001}, "ready_timeout_ms: 10m1ms, must be 1s to 10m"},
        {{.validity_ms = 1}, "validity_ms: 1ms, must be 1s to 7d"},
        {{.ttl_min_ms = 5000, .ttl_max_ms = 4000},
         "ttl_min_ms 5s, ttl_default_ms 5s, ttl_max_ms 4s: must be in this order"},
        {{.ttl_default_ms = 4000, .ttl_max_ms = 3000},
         "ttl_min_ms 1s, ttl_default_ms 4s, ttl_max_ms 3s: must be in this order"},
        {{.home = "home"}, "home: must be an absolute path without a colon"},
        {{.shell = "/bin/a:b"}, "shell: must be an absolute path without a colon"},
        {{.shell = "/bin/\n"}, "shell: holds a control character"},
        {{.home = too_long}, "home: longer than 240 bytes"},
        {{.shell = too_long}, "shell: longer than 240 bytes"},
    };
    const struct fsm_settings *s = &kit_pool(&kit)->settings;
    uint64_t revision = fsm_revision(kit.fsm);

    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[0] = '/';
    assert_int_equal(s->ttl_min_ms, 1000);
    assert_int_equal(s->ttl_max_ms, 2592000000);
    assert_int_equal(s->ttl_default_ms, 3600000);
    assert_int_equal(s->cooldown_ms, 300000);
    assert_int_equal(s->ready_timeout_ms, 10000);
    assert_int_equal(s->validity_ms, 3600000);
    assert_false(s->witnesses_all);
    assert_int_equal(s->max_per_owner, 0);
    assert_string_equal(s->home, "/nonexistent");
    assert_string_equal(s->shell, "/usr/sbin/nologin");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (kit_pool_set(&kit, &rows[i].set) != FSM_INVALID ||
            strcmp(kit.out.message, rows[i].message) != 0)
            fail_msg("row %zu: %s", i, kit.out.message);
        assert_int_equal(fsm_revision(kit.fsm), revision);
    }
}

static void pool_settings_that_are_set_change_alone(void **state)
{
    const struct fsm_settings *s = &kit_pool(&kit)->settings;

    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.ttl_max_ms = 60000,
                                                               .home = "/scratch",
                                                               .witnesses_all = true}),
                     FSM_OK);
    assert_int_equal(s->ttl_max_ms, 60000);
    assert_int_equal(s->ttl_default_ms, 60000);
    assert_int_equal(s->cooldown_ms, 300000);
    assert_string_equal(s->home, "/scratch");
    assert_string_equal(s->shell, "/usr/sbin/nologin");
    assert_true(s->witnesses_all);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.cooldown_ms = 1000}), FSM_OK);
    assert_true(s->witnesses_all);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.name = "x"}), FSM_NOT_FOUND);
}

static void pool_cooldown_counts_from_when_it_began(void **state)
{
    uint64_t id = kit_active(&kit, "n1"), later = kit_active(&kit, "n1");

    kit_release(&kit, id, NULL);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    kit_pool_set(&kit, &(struct kit_pool_set){.cooldown_ms = 1000});
    kit_release(&kit, later, NULL);
    kit_report(&kit, "n1", later, KIT_CLEAN, NULL);
    assert_int_equal(fsm_pool_next_due_ms(kit.fsm, kit_pool(&kit)), kit.now_ms + 1000);
    kit_elapse(&kit, 1000);
    assert_int_equal(kit_state(&kit, later), LEASE_RETIRED);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    kit_elapse(&kit, 299000);
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
}

/* ---- growing, ending ---- */

static void pool_grows_and_its_new_uids_come_first(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    uint32_t ahead[20];

    kit_finish(&kit, id);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 14}),
                     FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "pool main ends at 2013265935: it can grow, not shrink to 2013265934");
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 15}),
                     FSM_OK);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 17}),
                     FSM_OK);
    assert_int_equal(kit_counts(&kit).free, 18);
    assert_int_equal(fsm_pool_ahead(kit_pool(&kit), ahead, 20), 18);
    assert_int_equal(ahead[0], KIT_FIRST_UID + 16);
    assert_int_equal(ahead[1], KIT_FIRST_UID + 17);
    assert_int_equal(ahead[2], KIT_FIRST_UID + 1);
    assert_int_equal(ahead[17], KIT_FIRST_UID);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = 0x7ffe0000}),
                     FSM_PRECONDITION);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + (1 << 20)}),
                     FSM_INVALID);
    kit_pool_create(&kit, "next", KIT_FIRST_UID + 20, KIT_FIRST_UID + 29);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 20}),
                     FSM_PRECONDITION);
    assert_int_equal(kit_counts(&kit).free, 18);
}

static void pool_set_may_answer_the_directory_question_anew(void **state)
{
    struct kit_pool_set set = {.directory = {KIT_FIRST_UID + 15, KIT_FIRST_UID + 15}};

    assert_int_equal(kit_pool_set(&kit, &set), FSM_PRECONDITION);
    set.directory = (struct fsm_range){KIT_FIRST_UID + 16, KIT_FIRST_UID + 20};
    assert_int_equal(kit_pool_set(&kit, &set), FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_directory, 1);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 16}),
                     FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "2013265920-2013265936 overlaps the directory range "
                                         "2013265936-2013265940 that was given");
    set.directory_none = true;
    assert_int_equal(kit_pool_set(&kit, &set), FSM_INVALID);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 16,
                                                               .directory_none = true}),
                     FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_directory, 0);
}

static void pool_blocked_uids_beyond_those_with_a_reason_are_known(void **state)
{
    const uint32_t first = KIT_FIRST_UID + 4096, n = FSM_BLOCKED_MAX + 3;

    assert_int_equal(kit_pool_create(&kit, "big", first, first + 2047), FSM_OK);
    for (uint32_t i = 0; i < n; i++) {
        kit_elapse(&kit, 3600000 / FSM_NODE_BLOCKS + 1000);
        kit_block(&kit, "n1", first + i, "account");
    }
    assert_int_equal(fsm_pool_of_uid(kit.fsm, first)->n_blocked, FSM_BLOCKED_MAX);
    for (uint32_t i = 0; i < n; i++)
        assert_true(fsm_uid_is_blocked(kit.fsm, first + i));
    assert_false(fsm_uid_is_blocked(kit.fsm, first + n));
    assert_false(fsm_uid_is_blocked(kit.fsm, first - 1));
}

static void pool_retired_grants_no_more_and_goes_when_empty(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_block(&kit, "n1", KIT_FIRST_UID + 3, "account");
    assert_int_equal(kit_pool_retire(&kit, "main"), FSM_OK);
    assert_true(kit_pool(&kit)->retiring);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "pool main is retiring: it grants nothing more");
    assert_int_equal(kit_pool_retire(&kit, "main"), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.last = KIT_FIRST_UID + 100}),
                     FSM_PRECONDITION);
    kit_finish(&kit, id);
    assert_null(kit_pool(&kit));
    assert_int_equal(kit.changes[1].kind, CHANGE_POOL_GONE);
    assert_string_equal(kit.changes[1].name, "main");
    assert_int_equal(kit_pool_retire(&kit, "main"), FSM_NOT_FOUND);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "there is no pool yet");
}

static void pool_epochs_outlive_the_pool(void **state)
{
    uint64_t a = kit_active(&kit, "n1"), b = kit_active(&kit, "n1");

    kit_finish(&kit, a);
    kit_finish(&kit, b);
    kit_pool_retire(&kit, "main");
    assert_null(kit_pool(&kit));
    assert_int_equal(fsm_epoch_floor(kit.fsm, KIT_FIRST_UID), 1);
    assert_int_equal(fsm_epoch_floor(kit.fsm, KIT_FIRST_UID + 2), 0);
    assert_int_equal(kit_pool_create(&kit, "other", KIT_FIRST_UID - 4, KIT_FIRST_UID), FSM_OK);
    kit_pool_create(&kit, "main", KIT_FIRST_UID + 1, KIT_FIRST_UID + 7);
    kit_acquire(&kit, &(struct kit_grant){.pool = "main"});
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->uid, KIT_FIRST_UID + 1);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->epoch, 2);
    assert_int_equal(fsm_epoch_floor(kit.fsm, KIT_FIRST_UID), 1);
    assert_int_equal(fsm_epoch_floor(kit.fsm, KIT_FIRST_UID + 1), 2);
}

static void pools_are_so_many_at_most(void **state)
{
    char name[] = "p00";

    for (int i = 0; i < FSM_POOLS_MAX; i++) {
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        assert_int_equal(
            kit_pool_create(&kit, name, 70000 + 10 * (uint32_t)i, 70000 + 10 * (uint32_t)i + 9),
            FSM_OK);
    }
    assert_int_equal(kit_pool_create(&kit, "one-more", 100000, 100001), FSM_EXHAUSTED);
    assert_string_equal(fsm_pool_of_uid(kit.fsm, 70425)->name, "p42");
}

/* A node has one map for all of them. */
static void pools_have_so_many_uids_together_at_most(void **state)
{
    const uint32_t first = 1879048192, each = 1 << 20;
    char name[] = "p0";
    uint64_t revision;

    kit.light = true; /* 4,194,304 uids are a lot to look through after each command */
    assert_int_equal(kit_pool_create(&kit, "one", 70000, 70000), FSM_OK);
    for (uint32_t i = 0; i < 4; i++, name[1]++)
        assert_int_equal(
            kit_pool_create(&kit, name, first + i * each, first + (i + 1) * each - 1 - (i == 3)),
            FSM_OK);
    revision = fsm_revision(kit.fsm);
    assert_int_equal(kit_pool_create(&kit, "more", 70001, 70001), FSM_EXHAUSTED);
    assert_string_equal(kit.out.message,
                        "with range 70001-70001 all pools would have 4194305 uids, "
                        "more than the 4194304 that a node can hold");
    assert_int_equal(kit_pool_set(&kit, &(struct kit_pool_set){.name = "one", .last = 70001}),
                     FSM_EXHAUSTED);
    assert_int_equal(fsm_revision(kit.fsm), revision);
}

#define WITHOUT(name) cmocka_unit_test_setup_teardown(name, no_pool, end)
#define WITH(name)    cmocka_unit_test_setup_teardown(name, one_pool, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITHOUT(pool_range_that_belongs_to_others_is_refused),
        WITHOUT(pool_range_that_is_no_range_is_refused),
        WITHOUT(pool_range_of_other_pools_and_directories_is_refused),
        WITH(pool_settings_have_defaults_and_bounds),
        WITH(pool_settings_that_are_set_change_alone),
        WITH(pool_cooldown_counts_from_when_it_began),
        WITH(pool_grows_and_its_new_uids_come_first),
        WITH(pool_set_may_answer_the_directory_question_anew),
        WITH(pool_blocked_uids_beyond_those_with_a_reason_are_known),
        WITH(pool_retired_grants_no_more_and_goes_when_empty),
        WITH(pool_epochs_outlive_the_pool),
        WITHOUT(pools_are_so_many_at_most),
        WITHOUT(pools_have_so_many_uids_together_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
