/* Who comes in: tables of users, services and states of a lease, against maps of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "map/name.h"
#include "pam/check.h"
#include "tests/lib/map_fixture.h"

#define BASE  FIXTURE_BASE
#define N     16u
#define READY (XCE_MAP_MEMBER | XCE_MAP_SAID_READY)
/* of no pool, but a uid that one might have */
#define ORDINARY 1000u

struct fixture {
    struct map_fixture disk;
    struct map map;
    struct check_conf conf;
    struct map_entry entry;
    int64_t now_ms;
};

/* A map of N uids in which BASE has the lease xce-1w00000-3, here and ready, and noded has caught up. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    fixture_begin(&f->disk);
    fixture_start(&f->disk);
    fixture_shape(&f->disk, N);
    map_writer_progress(f->disk.writer, 10, true);
    check_conf_init(&f->conf);
    assert_int_equal(map_open(f->disk.path, &f->map, NULL, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    map_close(&f->map);
    fixture_end(&f->disk);
    free(f);
    return 0;
}

static void set(struct fixture *f, uint32_t epoch, enum xce_map_lease state, uint8_t flags)
{
    struct map_lease lease = fixture_lease(BASE, epoch);

    lease.state = state;
    lease.flags = flags;
    assert_int_equal(map_writer_set(f->disk.writer, &lease), 0);
}

/* As PAM asks it. uid 0: the machine has no account of that name. */
static enum check ask_map(struct fixture *f, const struct map *map, const char *user, uint32_t uid,
                          const char *service)
{
    const struct check_who who = {.user = user, .service = service, .known = uid != 0, .uid = uid};

    return check_concerns(&who) ? check_decide(&f->conf, map, f->now_ms, &who, &f->entry)
                                : CHECK_FOREIGN;
}

static enum check ask(struct fixture *f, const char *user, uint32_t uid)
{
    return ask_map(f, &f->map, user, uid, "xce");
}

static void check_lease_comes_in_only_while_it_is_here_and_ready(void **state)
{
    static const struct {
        enum xce_map_lease state;
        uint8_t flags;
        enum check verdict;
    } table[] = {
        {XCE_MAP_GRANTED, READY, CHECK_ALLOWED},
        {XCE_MAP_ACTIVE, READY, CHECK_ALLOWED},
        {XCE_MAP_GRANTED, XCE_MAP_MEMBER, CHECK_NOT_READY},
        {XCE_MAP_ACTIVE, XCE_MAP_MEMBER, CHECK_NOT_READY},
        {XCE_MAP_GRANTED, 0, CHECK_NOT_HERE},
        {XCE_MAP_ACTIVE, 0, CHECK_NOT_HERE},
        {XCE_MAP_ACTIVE, XCE_MAP_SAID_READY, CHECK_NOT_HERE},
        {XCE_MAP_DRAINING, READY, CHECK_NOT_HERE},
        {XCE_MAP_NORMALISING, READY, CHECK_NOT_HERE},
        {XCE_MAP_COOLING, READY | XCE_MAP_SAID_CLEAN, CHECK_NOT_HERE},
        {XCE_MAP_GRANTED, READY | XCE_MAP_CLOSED, CHECK_NOT_HERE},
        {XCE_MAP_ACTIVE, READY | XCE_MAP_CLOSED, CHECK_NOT_HERE},
    };
    struct fixture *f = *state;

    for (uint32_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char name[NAME_BUF];

        set(f, i + 1, table[i].state, table[i].flags);
        (void)name_encode("xce-", BASE, i + 1, name);
        assert_int_equal(ask(f, name, BASE), table[i].verdict);
        assert_int_equal(ask(f, name, 0), table[i].verdict);
    }
    assert_int_equal(map_writer_retire(f->disk.writer, BASE, 12, 99), 0);
    assert_int_equal(ask(f, "xce-1w00000-c", 0), CHECK_NO_LEASE);
}

/* Nobody would end what came in then. */
static void check_lease_comes_in_only_while_noded_lives(void **state)
{
    struct fixture *f = *state;

    set(f, 3, XCE_MAP_ACTIVE, READY);
    assert_int_equal(map_writer_beat(f->disk.writer, 1000000, 1), MAP_SAME);
    f->now_ms = 999999; /* it has beaten while we asked what time it is */
    assert_int_equal(ask(f, "xce-1w00000-3", 0), CHECK_ALLOWED);
    f->now_ms = 1000000 + CHECK_ALIVE_MS;
    assert_int_equal(ask(f, "xce-1w00000-3", 0), CHECK_ALLOWED);
    f->now_ms++;
    assert_int_equal(ask(f, "xce-1w00000-3", 0), CHECK_STALE);
    assert_int_equal(ask(f, "xce-1w00000-4", 0), CHECK_NO_LEASE);
    assert_int_equal(ask(f, "alice", 0), CHECK_FOREIGN);
}

static void check_verdict_comes_with_the_lease(void **state)
{
    struct fixture *f = *state;

    set(f, 3, XCE_MAP_ACTIVE, READY);
    assert_int_equal(ask(f, "xce-1w00000-3", BASE), CHECK_ALLOWED);
    assert_int_equal(f->entry.record.uid, BASE);
    assert_int_equal(f->entry.record.epoch, 3);
    assert_string_equal(map_name(&f->entry), "xce-1w00000-3");
}

/* Under the lease xce-1w00000-3, which is here and ready. */
static void check_only_its_own_name_comes_in(void **state)
{
    static const struct {
        const char *user;
        uint32_t uid; /* 0: no account */
        enum check verdict;
    } table[] = {
        {"xce-1w00000-3", BASE, CHECK_ALLOWED},
        {"xce-1w00000-3", BASE + 1, CHECK_OTHER_ACCOUNT},
        {"xce-1w00000-3", ORDINARY, CHECK_OTHER_ACCOUNT},
        {"xce-1w00000-2", 0, CHECK_NO_LEASE},
        {"xce-1w00000-4", 0, CHECK_NO_LEASE},
        {"xce-1w00001-1", 0, CHECK_NO_LEASE},
        {"xce-1w0000f-3zzzzzz", 0, CHECK_NO_LEASE},
        /* numbers */
        {"2013265920", 0, CHECK_OTHER_NAME},
        {"2013265935", 0, CHECK_OTHER_NAME},
        {"02013265920", 0, CHECK_OTHER_NAME},
        {"0x78000000", 0, CHECK_OTHER_NAME},
        {"0X78000000", 0, CHECK_OTHER_NAME},
        {"#2013265920", 0, CHECK_OTHER_NAME}, /* sudo, of a uid without a name */
        {"#2013265936", 0, CHECK_FOREIGN},
        {"##2013265920", 0, CHECK_FOREIGN},
        {"#", 0, CHECK_FOREIGN},
        {"2013265936", 0, CHECK_FOREIGN},
        {"2013265919", 0, CHECK_FOREIGN},
        {"6308233216", 0, CHECK_FOREIGN}, /* the uid + 2^32 */
        {"0", 0, CHECK_FOREIGN},
        {"0x", 0, CHECK_FOREIGN},
        {"1000", ORDINARY, CHECK_FOREIGN},
        /* other spellings */
        {"XCE-1W00000-3", 0, CHECK_OTHER_NAME},
        {"xce-1W00000-3", 0, CHECK_OTHER_NAME},
        {"Xce-1w00000-3", BASE, CHECK_OTHER_NAME},
        {"xce-01w00000-3", 0, CHECK_OTHER_NAME},
        {"xce-1w00000-03", 0, CHECK_OTHER_NAME},
        {"xce-000000000000000000000001w00000-00000000000000003", 0, CHECK_OTHER_NAME},
        {"xce-1wooOO0-3", 0, CHECK_OTHER_NAME},
        {"xce-iw00000-3", 0, CHECK_OTHER_NAME},
        {"xce-Lw00000-3", 0, CHECK_OTHER_NAME},
        /* accounts of the uid under names of their own */
        {"foo2", BASE, CHECK_OTHER_NAME},
        {"foo2", BASE + N - 1, CHECK_OTHER_NAME},
        {"xce-leased", BASE + 1, CHECK_OTHER_NAME},
        {"xce-1-1", BASE, CHECK_NO_LEASE},
        {"", BASE, CHECK_OTHER_NAME},
        /* everybody else */
        {"root", 0, CHECK_FOREIGN},
        {"alice", ORDINARY, CHECK_FOREIGN},
        {"alice", BASE + N, CHECK_FOREIGN},
        {"alice", BASE - 1, CHECK_FOREIGN},
        {"nobody", 65534, CHECK_FOREIGN},
        {"xce-leased", 990, CHECK_FOREIGN},
        {"xce-web-app", ORDINARY, CHECK_FOREIGN},
        {"xce-1w00010-1", 0, CHECK_FOREIGN}, /* of no range */
        {"job-1w00000-3", ORDINARY, CHECK_FOREIGN},
        {"xce-", 0, CHECK_FOREIGN},
        {"xce-1w00000", 0, CHECK_FOREIGN},
        {"xce-1w00000-", 0, CHECK_FOREIGN},
        {"xce-1w00000-0", 0, CHECK_FOREIGN},
        {"xce-1w00000-3 ", 0, CHECK_FOREIGN},
        {"", 0, CHECK_FOREIGN},
        {"nosuch", 0, CHECK_FOREIGN},
        {"xce-1w00000-30000000000000000000000000000000000000000000000000000", 0, CHECK_FOREIGN},
    };
    struct fixture *f = *state;

    set(f, 3, XCE_MAP_ACTIVE, READY);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        enum check verdict = ask(f, table[i].user, table[i].uid);

        if (verdict != table[i].verdict)
            fail_msg("\"%s\" with uid %u: %s", table[i].user, table[i].uid, check_text(verdict));
    }
}

static void check_services_are_a_list(void **state)
{
    static const struct {
        const char *argument, *service;
        enum check verdict;
    } table[] = {
        {NULL, "xce", CHECK_ALLOWED},
        {NULL, "", CHECK_SERVICE},
        {NULL, "xc", CHECK_SERVICE},
        {NULL, "xcee", CHECK_SERVICE},
        {NULL, "sshd", CHECK_SERVICE},
        {"services=xce,sshd", "xce", CHECK_ALLOWED},
        {"services=xce,sshd", "sshd", CHECK_ALLOWED},
        {"services=xce,sshd", "xce,sshd", CHECK_SERVICE},
        {"services=xce,sshd", "ssh", CHECK_SERVICE},
        {"services=sshd", "xce", CHECK_SERVICE},
        {"services=,sshd,", "sshd", CHECK_ALLOWED},
        {"services=,", "", CHECK_SERVICE},
    };
    struct fixture *f = *state;

    set(f, 3, XCE_MAP_ACTIVE, READY);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        check_conf_init(&f->conf);
        assert_true(!table[i].argument || check_argument(&f->conf, table[i].argument));
        assert_int_equal(ask_map(f, &f->map, "xce-1w00000-3", BASE, table[i].service),
                         table[i].verdict);
    }
}

/* The ranges are what is shipped then. */
static void check_without_a_map_nobody_comes_in(void **state)
{
    static const struct {
        const char *user;
        uint32_t uid;
        enum check verdict;
    } table[] = {
        {"xce-1w00000-3", BASE, CHECK_NO_MAP},
        {"xce-1w00000-3", 0, CHECK_NO_MAP},
        {"XCE-1w00000-3", 0, CHECK_NO_MAP},
        {"2013265920", 0, CHECK_NO_MAP},
        {"2013331455", 0, CHECK_NO_MAP},
        {"2013331456", 0, CHECK_FOREIGN},
        {"foo2", BASE + 65535, CHECK_NO_MAP},
        {"foo2", BASE + 65536, CHECK_FOREIGN},
        /* the ranges are not known: the form tells */
        {"xce-4e20-1", 0, CHECK_NO_MAP},
        {"XCE-4e20-1", 0, CHECK_FOREIGN},
        {"xce-1-1", 0, CHECK_FOREIGN}, /* a uid that no pool has */
        {"job-4e20-1", 0, CHECK_FOREIGN},
        {"root", 0, CHECK_FOREIGN},
        {"alice", ORDINARY, CHECK_FOREIGN},
        {"xce-leased", 990, CHECK_FOREIGN},
        {"nosuch", 0, CHECK_FOREIGN},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        enum check verdict = ask_map(f, NULL, table[i].user, table[i].uid, "xce");

        if (verdict != table[i].verdict)
            fail_msg("\"%s\" with uid %u: %s", table[i].user, table[i].uid, check_text(verdict));
    }
}

static void check_arguments_say_what_is_ours_without_a_map(void **state)
{
    struct fixture *f = *state;

    assert_true(check_argument(&f->conf, "ranges=70000-70009,80000-80000"));
    assert_true(check_argument(&f->conf, "prefix=job-"));
    assert_int_equal(ask_map(f, NULL, "a", 70000, "xce"), CHECK_NO_MAP);
    assert_int_equal(ask_map(f, NULL, "a", 70009, "xce"), CHECK_NO_MAP);
    assert_int_equal(ask_map(f, NULL, "a", 70010, "xce"), CHECK_FOREIGN);
    assert_int_equal(ask_map(f, NULL, "a", 80000, "xce"), CHECK_NO_MAP);
    assert_int_equal(ask_map(f, NULL, "a", BASE, "xce"), CHECK_FOREIGN);
    assert_int_equal(ask_map(f, NULL, "job-1w00000-3", 0, "xce"), CHECK_NO_MAP);
    assert_int_equal(ask_map(f, NULL, "xce-1w00000-3", 0, "xce"), CHECK_FOREIGN);
    assert_true(check_argument(&f->conf, "ranges=none"));
    assert_int_equal(ask_map(f, NULL, "a", 70000, "xce"), CHECK_FOREIGN);
    assert_int_equal(ask_map(f, NULL, "job-1w00000-3", 0, "xce"), CHECK_NO_MAP);
}

/* Of a cluster's pools it may lack some. What it has is so. */
static void check_map_that_lags_behind_is_not_the_whole_truth(void **state)
{
    struct fixture *f = *state;

    set(f, 3, XCE_MAP_ACTIVE, READY);
    assert_int_equal(ask(f, "foo2", BASE + N), CHECK_FOREIGN);
    assert_int_equal(ask(f, "xce-4e20-1", 0), CHECK_FOREIGN);
    map_writer_progress(f->disk.writer, 10, false);
    assert_int_equal(ask(f, "foo2", BASE + N), CHECK_OTHER_NAME);
    assert_int_equal(ask(f, "xce-4e20-1", 0), CHECK_NO_LEASE);
    assert_int_equal(ask(f, "xce-1w00000-3", BASE), CHECK_ALLOWED);
    assert_int_equal(ask(f, "alice", ORDINARY), CHECK_FOREIGN);
}

static void check_prefix_is_that_of_the_map(void **state)
{
    const struct map_span range = {BASE, BASE + 3};
    const struct map_shape shape = {"job-", &range, 1};
    struct fixture *f = *state;

    assert_int_equal(map_writer_shape(f->disk.writer, &shape), MAP_REPLACED);
    map_writer_progress(f->disk.writer, 11, true);
    map_close(&f->map);
    assert_int_equal(map_open(f->disk.path, &f->map, NULL, NULL), 0);
    set(f, 3, XCE_MAP_ACTIVE, READY);
    assert_int_equal(ask(f, "job-1w00000-3", BASE), CHECK_ALLOWED);
    assert_int_equal(ask(f, "job-1w00000-2", 0), CHECK_NO_LEASE);
    assert_int_equal(ask(f, "xce-1w00000-3", 0), CHECK_FOREIGN);
    assert_int_equal(ask(f, "xce-1w00000-3", BASE), CHECK_NO_LEASE);
}

static void check_damaged_record_lets_nobody_in(void **state)
{
    struct fixture *f = *state;
    struct xce_map_record *record;
    struct map copy = {.size = f->map.size};
    char *bytes = aligned_alloc(XCE_MAP_PAGE, f->map.size);

    set(f, 3, XCE_MAP_ACTIVE, READY);
    memcpy(bytes, f->map.base, f->map.size);
    copy.base = bytes;
    record = (void *)(bytes + ((struct xce_map_header *)bytes)->records_at);
    assert_int_equal(ask_map(f, &copy, "xce-1w00000-3", BASE, "xce"), CHECK_ALLOWED);
    for (size_t bit = 0; bit < 8 * sizeof(*record); bit++) {
        enum check verdict;

        ((char *)record)[bit / 8] ^= (char)(1 << bit % 8);
        verdict = ask_map(f, &copy, "xce-1w00000-3", BASE, "xce");
        /* Odd: being written, and the intent has it whole. */
        if (bit == 0)
            assert_int_equal(verdict, CHECK_ALLOWED);
        else
            assert_true(verdict == CHECK_DAMAGED || verdict == CHECK_NO_LEASE);
        ((char *)record)[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(bytes);
}

static void check_arguments_accepted_and_refused(void **state)
{
    static const char *const good[] = {"services=xce",
                                       "services=a,b",
                                       "prefix=a-",
                                       "prefix=abcdefghijklmno-",
                                       "ranges=none",
                                       "ranges=1000-60000",
                                       "ranges=2013265920-2013331455,70000-70000"};
    static const char *const bad[] = {"",
                                      "services",
                                      "services=",
                                      "service=xce",
                                      "SERVICES=xce",
                                      "prefix=",
                                      "prefix=xce",
                                      "prefix=XCE-",
                                      "prefix=abcdefghijklmnop-",
                                      "ranges=",
                                      "ranges=all",
                                      "ranges=70000",
                                      "ranges=70000-",
                                      "ranges=70009-70000",
                                      "ranges=70000-70009,",
                                      "ranges=70000-70009;80000-80001",
                                      "ranges=-1-5",
                                      "ranges=0-999",
                                      "ranges=900-1000",
                                      "ranges=60000-70000",
                                      "ranges=4294967296-4294967297",
                                      "ranges=18446744073709551616-18446744073709551617",
                                      "debug"};
    struct check_conf before, conf;

    (void)state;
    check_conf_init(&before);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        check_conf_init(&conf);
        if (!check_argument(&conf, good[i]))
            fail_msg("\"%s\" is refused", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        check_conf_init(&conf);
        if (check_argument(&conf, bad[i]))
            fail_msg("\"%s\" is accepted", bad[i]);
        assert_memory_equal(&conf, &before, sizeof(conf));
    }
}

static void check_too_many_ranges_are_refused(void **state)
{
    char text[16 * (XCE_RANGES_MAX + 1) + 16] = "ranges=70000-70000";
    struct check_conf conf;

    (void)state;
    for (int i = 1; i <= XCE_RANGES_MAX; i++) {
        check_conf_init(&conf);
        assert_true(check_argument(&conf, text));
        assert_int_equal(conf.n_ranges, i);
        (void)snprintf(text + strlen(text), 16, ",7%04d-7%04d", i, i);
    }
    assert_false(check_argument(&conf, text));
}

#define CHECK_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(check_lease_comes_in_only_while_it_is_here_and_ready),
        CHECK_TEST(check_lease_comes_in_only_while_noded_lives),
        CHECK_TEST(check_verdict_comes_with_the_lease),
        CHECK_TEST(check_only_its_own_name_comes_in),
        CHECK_TEST(check_services_are_a_list),
        CHECK_TEST(check_without_a_map_nobody_comes_in),
        CHECK_TEST(check_arguments_say_what_is_ours_without_a_map),
        CHECK_TEST(check_map_that_lags_behind_is_not_the_whole_truth),
        CHECK_TEST(check_prefix_is_that_of_the_map),
        CHECK_TEST(check_damaged_record_lets_nobody_in),
        cmocka_unit_test(check_arguments_accepted_and_refused),
        cmocka_unit_test(check_too_many_ranges_are_refused),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
