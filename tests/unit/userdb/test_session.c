/* The bytes of one client: cut anywhere, too many, bad, never read. */
#include <errno.h>

#include "tests/unit/userdb/kit.h"

#define CALL                                                                                       \
    "{\"method\":\"io.systemd.UserDatabase.GetUserRecord\",\"parameters\":{\"uid\":2013265920,"    \
    "\"service\":\"io.xce.Lease\"}}"
#define LIST                                                                                       \
    "{\"method\":\"io.systemd.UserDatabase.GetUserRecord\",\"more\":true,"                         \
    "\"parameters\":{\"service\":\"io.xce.Lease\"}}"

static unsigned lines(const char *text)
{
    unsigned n = *text ? 1 : 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void session_call_may_come_in_pieces(void **state)
{
    struct kit *kit = *state;

    for (size_t step = 1; step < 40; step++) {
        size_t at = 0;

        while (at < sizeof(CALL)) {
            size_t n = sizeof(CALL) - at < step ? sizeof(CALL) - at : step;

            assert_true(session_hungry(&kit->session));
            assert_int_equal(session_work(&kit->session, &kit->answers), 0);
            assert_int_equal(session_feed(&kit->session, &CALL[at], n), 0);
            at += n;
        }
        assert_false(session_hungry(&kit->session));
        assert_int_equal(lines(kit_replies(kit)), 1);
        assert_non_null(strstr(kit->text, "xce-1w00000-1"));
    }
}

static void session_calls_that_come_together_are_answered_in_order(void **state)
{
    static const char three[] = CALL "\0{\"method\":\"a.B\"}\0" CALL;
    struct kit *kit = *state;
    const char *text;

    assert_int_equal(session_feed(&kit->session, three, sizeof(three)), 0);
    text = kit_replies(kit);
    assert_int_equal(lines(text), 3);
    text = strchr(text, '\n') + 1;
    assert_int_equal(strncmp(text, "{\"error\": \"org.varlink.service.InterfaceNotFound", 48), 0);
    assert_true(session_hungry(&kit->session));
    /* Nothing is kept for a client that is idle. */
    assert_null(kit->session.in.data);
    assert_null(kit->session.out.data);
}

static void session_answers_no_second_call_before_the_first_is_read(void **state)
{
    static const char two[] = CALL "\0" CALL;
    struct kit *kit = *state;
    size_t len;

    leases_refresh(&kit->leases, 1);
    assert_int_equal(session_feed(&kit->session, two, sizeof(two)), 0);
    assert_int_equal(session_work(&kit->session, &kit->answers), 1);
    len = kit->session.out.len;
    assert_int_equal(session_work(&kit->session, &kit->answers), 0);
    assert_int_equal(kit->session.out.len, len);
    session_sent(&kit->session, len - 1);
    assert_int_equal(session_work(&kit->session, &kit->answers), 0);
    assert_false(session_hungry(&kit->session));
    session_sent(&kit->session, 1);
    assert_int_equal(session_work(&kit->session, &kit->answers), 1);
    assert_int_equal(kit->session.out.len, len);
}

static void session_call_that_is_too_long_ends_it(void **state)
{
    static char bytes[SESSION_CALL_MAX + 2];
    struct kit *kit = *state;

    memset(bytes, ' ', sizeof(bytes));
    assert_int_equal(session_feed(&kit->session, bytes, SESSION_CALL_MAX), 0);
    assert_int_equal(session_feed(&kit->session, bytes, 1), -EMSGSIZE);
    session_done(&kit->session);
    session_init(&kit->session);
    /* The longest that may be. */
    memcpy(bytes, CALL, sizeof(CALL) - 1);
    bytes[SESSION_CALL_MAX] = '\0';
    assert_int_equal(session_feed(&kit->session, bytes, SESSION_CALL_MAX + 1), 0);
    assert_int_equal(lines(kit_replies(kit)), 1);
}

static void session_bad_call_ends_it(void **state)
{
    static const char *const bad[] = {"", "x", "{}", "{\"method\":1}", "[]"};
    struct kit *kit = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(session_feed(&kit->session, bad[i], strlen(bad[i]) + 1), 0);
        assert_int_equal(session_work(&kit->session, &kit->answers), -EBADMSG);
        session_done(&kit->session);
        session_init(&kit->session);
    }
}

static void session_list_waits_for_its_reader(void **state)
{
    struct kit *kit = *state;
    unsigned n = 0;

    for (uint32_t i = 0; i < 1000; i++)
        fixture_set(&kit->map, BASE + i, 40);
    kit->answers.enumerate = true;
    leases_refresh(&kit->leases, 1);
    assert_int_equal(session_feed(&kit->session, LIST, sizeof(LIST)), 0);
    for (size_t sent = 1; n < 1000; sent = sent % 5000 + 77) {
        const struct buf *out = &kit->session.out;

        while (session_work(&kit->session, &kit->answers) > 0)
            assert_true(out->len < SESSION_OUT_FULL + 1024);
        assert_true(out->len > 0);
        sent = sent < out->len ? sent : out->len;
        for (size_t i = 0; i < sent; i++)
            n += out->data[i] == '\0';
        session_sent(&kit->session, sent);
    }
    assert_int_equal(n, 1000);
    assert_int_equal(kit->session.out.len, 0);
    assert_int_equal(session_work(&kit->session, &kit->answers), 0);
    assert_true(session_hungry(&kit->session));
}

static void session_list_goes_on_in_another_map(void **state)
{
    struct kit *kit = *state;

    for (uint32_t i = 0; i < 1000; i++)
        fixture_set(&kit->map, BASE + i, 40);
    kit->answers.enumerate = true;
    leases_refresh(&kit->leases, 1);
    assert_int_equal(session_feed(&kit->session, LIST, sizeof(LIST)), 0);
    while (session_work(&kit->session, &kit->answers) > 0)
        ;
    fixture_shape(&kit->map, 2000); /* another file */
    leases_refresh(&kit->leases, 2);
    assert_int_equal(lines(kit_replies(kit)), 1000);
    assert_non_null(strstr(kit->text, "\"uid\": 2013266919,"));
}

static void session_that_ends_in_a_list_keeps_nothing(void **state)
{
    struct kit *kit = *state;

    kit->answers.enumerate = true;
    leases_refresh(&kit->leases, 1);
    assert_int_equal(session_feed(&kit->session, LIST, sizeof(LIST)), 0);
    assert_int_equal(session_work(&kit->session, &kit->answers), 1);
    assert_int_equal(session_work(&kit->session, &kit->answers), 1);
    assert_non_null(kit->session.walk.held);
    session_done(&kit->session);
    assert_null(kit->session.walk.held);
}

int main(void)
{
#define SESSION_TEST(fn) cmocka_unit_test_setup_teardown(fn, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        SESSION_TEST(session_call_may_come_in_pieces),
        SESSION_TEST(session_calls_that_come_together_are_answered_in_order),
        SESSION_TEST(session_answers_no_second_call_before_the_first_is_read),
        SESSION_TEST(session_call_that_is_too_long_ends_it),
        SESSION_TEST(session_bad_call_ends_it),
        SESSION_TEST(session_list_waits_for_its_reader),
        SESSION_TEST(session_list_goes_on_in_another_map),
        SESSION_TEST(session_that_ends_in_a_list_keeps_nothing),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
