/* Who has to go when there is no place, and when nothing moves. */
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/userdb/kit.h"
#include "userdb/clients.h"

#define CALL                                                                                       \
    "{\"method\":\"io.systemd.UserDatabase.GetUserRecord\",\"parameters\":{\"uid\":2013265920,"    \
    "\"service\":\"io.xce.Lease\"}}"

struct crowd {
    struct kit *kit;
    struct clients clients;
    int ends[4 * CLIENTS_MAX]; /* of those who ask */
    unsigned n;
};

static int crowd_setup(void **state)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    int r = kit_setup((void **)&crowd->kit);

    leases_refresh(&crowd->kit->leases, 1);
    clients_init(&crowd->clients);
    *state = crowd;
    return r;
}

static int crowd_teardown(void **state)
{
    struct crowd *crowd = *state;
    int r;

    clients_done(&crowd->clients);
    for (unsigned i = 0; i < crowd->n; i++)
        (void)close(crowd->ends[i]);
    r = kit_teardown((void **)&crowd->kit);
    free(crowd);
    return r;
}

/* Its number. */
static unsigned come(struct crowd *crowd, uid_t uid, int64_t now_ms)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    clients_add(&crowd->clients, fds[0], uid, now_ms);
    crowd->ends[crowd->n] = fds[1];
    return crowd->n++;
}

static bool is_cut(struct crowd *crowd, unsigned i)
{
    char c;

    return recv(crowd->ends[i], &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static void all_turn(struct crowd *crowd, int64_t now_ms)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (crowd->clients.all[i].fd >= 0)
            client_turn(&crowd->clients, &crowd->clients.all[i], &crowd->kit->answers, now_ms);
}

static void say(struct crowd *crowd, unsigned i, const char *bytes, size_t len)
{
    assert_int_equal(send(crowd->ends[i], bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL), len);
}

/* Whether there is a whole reply, and take it. */
static bool hear(struct crowd *crowd, unsigned i)
{
    char bytes[4096];
    ssize_t n = recv(crowd->ends[i], bytes, sizeof(bytes), MSG_DONTWAIT);

    return n > 0 && bytes[n - 1] == '\0';
}

static void clients_are_answered_and_leave(void **state)
{
    struct crowd *crowd = *state;
    unsigned one = come(crowd, 1000, 1), other = come(crowd, 1001, 1);

    say(crowd, one, CALL, sizeof(CALL));
    say(crowd, other, CALL, 10);
    all_turn(crowd, 2);
    assert_true(hear(crowd, one));
    assert_false(hear(crowd, other));
    say(crowd, other, &CALL[10], sizeof(CALL) - 10);
    all_turn(crowd, 3);
    assert_true(hear(crowd, other));
    (void)shutdown(crowd->ends[one], SHUT_WR);
    say(crowd, other, "x", 2);
    all_turn(crowd, 4);
    assert_true(is_cut(crowd, one) && is_cut(crowd, other));
    assert_int_equal(crowd->clients.n, 0);
}

static void clients_of_the_greediest_go_first_the_quietest_of_them(void **state)
{
    struct crowd *crowd = *state;
    unsigned root = come(crowd, 0, 1), alice = come(crowd, 1001, 1), first = come(crowd, 1000, 2);
    unsigned late;

    while (crowd->clients.n < CLIENTS_MAX)
        (void)come(crowd, 1000, 2);
    say(crowd, first, CALL, sizeof(CALL));
    all_turn(crowd, 3);
    /* Whoever comes: it is one of the many that goes, but not the one that has just asked. */
    late = come(crowd, 1001, 4);
    assert_int_equal(crowd->clients.n, CLIENTS_MAX);
    assert_false(is_cut(crowd, root) || is_cut(crowd, alice) || is_cut(crowd, late));
    assert_true(hear(crowd, first));
    assert_false(is_cut(crowd, first));
    assert_true(is_cut(crowd, first + 1));
    assert_false(is_cut(crowd, first + 2));
    for (unsigned i = 0; i < 2 * CLIENTS_MAX; i++)
        (void)come(crowd, 1000, 5);
    assert_false(is_cut(crowd, root) || is_cut(crowd, alice) || is_cut(crowd, late));
    say(crowd, root, CALL, sizeof(CALL));
    all_turn(crowd, 6);
    assert_true(hear(crowd, root));
}

/* As a user does who has a range of uids of his own. */
static void clients_of_many_uids_do_not_drive_out_root(void **state)
{
    struct crowd *crowd = *state;
    unsigned root = come(crowd, 0, 1), alice = come(crowd, 1001, 1);

    for (uid_t i = 0; i < 2 * CLIENTS_MAX; i++)
        (void)come(crowd, 100000 + i, 2);
    assert_int_equal(crowd->clients.n, CLIENTS_MAX);
    say(crowd, root, CALL, sizeof(CALL));
    say(crowd, alice, CALL, sizeof(CALL));
    all_turn(crowd, 3);
    assert_true(hear(crowd, root));
    assert_true(hear(crowd, alice));
}

static void clients_that_do_not_move_are_cut(void **state)
{
    struct crowd *crowd = *state;
    unsigned silent = come(crowd, 1, 0), half = come(crowd, 1, 0), alive = come(crowd, 1, 0);

    say(crowd, half, CALL, 20);
    all_turn(crowd, 5000);
    clients_tidy(&crowd->clients, CLIENTS_IDLE_MS - 1);
    assert_int_equal(crowd->clients.n, 3);
    say(crowd, alive, CALL, sizeof(CALL));
    all_turn(crowd, CLIENTS_IDLE_MS - 1);
    clients_tidy(&crowd->clients, CLIENTS_IDLE_MS);
    assert_true(is_cut(crowd, silent));
    assert_false(is_cut(crowd, half));
    clients_tidy(&crowd->clients, CLIENTS_IDLE_MS + 5000);
    assert_true(is_cut(crowd, half));
    assert_true(hear(crowd, alive));
    assert_false(is_cut(crowd, alive));
}

/* One that asks and asks, and never reads. */
static void clients_that_do_not_read_are_not_read(void **state)
{
    struct crowd *crowd = *state;
    unsigned deaf = come(crowd, 1, 0), other = come(crowd, 1, 0);
    struct client *client = &crowd->clients.all[0];
    bool full = false;
    int unread;

    for (unsigned i = 0; i < 100000 && !full; i++) {
        (void)send(crowd->ends[deaf], CALL, sizeof(CALL), MSG_DONTWAIT | MSG_NOSIGNAL);
        all_turn(crowd, i + 1);
        full = client->fd >= 0 && client_events(client) == POLLOUT && !client_busy(client);
    }
    assert_true(full);
    assert_true(client->session.in.len <= 2 * SESSION_CALL_MAX);
    assert_true(client->session.out.len <= SESSION_OUT_MAX);
    assert_int_equal(ioctl(crowd->ends[deaf], FIONREAD, &unread), 0);
    assert_in_range(unread, 1, 32768); /* the kernel has as much at most; it counts as ours */
    say(crowd, other, CALL, sizeof(CALL));
    all_turn(crowd, 200000);
    assert_true(hear(crowd, other));
    clients_tidy(&crowd->clients, 200000 + CLIENTS_IDLE_MS - 1);
    assert_int_equal(client->fd, -1);
    assert_int_equal(crowd->clients.n, 1);
}

int main(void)
{
#define CLIENTS_TEST(fn) cmocka_unit_test_setup_teardown(fn, crowd_setup, crowd_teardown)
    const struct CMUnitTest tests[] = {
        CLIENTS_TEST(clients_are_answered_and_leave),
        CLIENTS_TEST(clients_of_the_greediest_go_first_the_quietest_of_them),
        CLIENTS_TEST(clients_of_many_uids_do_not_drive_out_root),
        CLIENTS_TEST(clients_that_do_not_move_are_cut),
        CLIENTS_TEST(clients_that_do_not_read_are_not_read),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
