/* Keys that outlive all processes of a uid. The registry is the kernel's: each test has uids of its own. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/clock.h"
#include "noded/sweep/uids.h"

#define ALL_OF_POSSESSOR 0x3f000000L
#define ALL_OF_ALL       0x3f3f3f3fL

static long keyctl(int operation, long a, long b)
{
    return syscall(SYS_keyctl, operation, a, b, 0L, 0L);
}

/* May fail: the quota, or what the test is about. */
static long key_add(const char *name, long ring)
{
    return syscall(SYS_add_key, "user", name, "secret", 6L, ring);
}

static void die_unless(bool well)
{
    if (!well)
        _exit(98);
}

static void become(uint32_t uid)
{
    die_unless(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
}

/* How many keys the kernel counts for a uid. */
static unsigned keys_of(uint32_t uid)
{
    FILE *file = fopen("/proc/key-users", "re");
    unsigned one, keys, found = 0;

    assert_non_null(file);
    while (fscanf(file, " %u: %*d %u/%*d %*d/%*d %*d/%*d", &one, &keys) == 2)
        if (one == uid)
            found = keys;
    (void)fclose(file);
    return found;
}

/* The session keyring of who has ended is collected a moment later. */
static void assert_keys(uint32_t uid, unsigned n)
{
    int64_t deadline_ms = clock_mono_ms() + 10000;

    while (keys_of(uid) != n && clock_mono_ms() < deadline_ms)
        (void)usleep(1000);
    assert_int_equal(keys_of(uid), n);
}

static struct fixture *fixture_with_keys(void **state)
{
    struct fixture *f = fixture_get(state);

    if (keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) < 0) {
        print_message("needs keys: %s\n", strerror(errno));
        skip();
    }
    f->places.roots = f->none;
    return f;
}

/* Done by a child that has ended when this comes back. */
static void run_as(void (*work)(uint32_t uid), uint32_t uid)
{
    pid_t pid = fork();

    if (pid == 0) {
        work(uid);
        _exit(0);
    }
    assert_int_equal(fixture_reap(pid), 0);
}

static void leave_keys(uint32_t uid)
{
    become(uid);
    die_unless(keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) > 0);
    die_unless(key_add("in-user", KEY_SPEC_USER_KEYRING) > 0);
    die_unless(key_add("in-session", KEY_SPEC_USER_SESSION_KEYRING) > 0);
    die_unless(
        key_add("in-persistent", keyctl(KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_SESSION_KEYRING)) > 0);
}

static void leave_keys_to_possessors(uint32_t uid)
{
    leave_keys(uid);
    die_unless(keyctl(KEYCTL_SETPERM, KEY_SPEC_USER_KEYRING, ALL_OF_POSSESSOR) == 0);
    die_unless(keyctl(KEYCTL_SETPERM, KEY_SPEC_USER_SESSION_KEYRING, ALL_OF_POSSESSOR) == 0);
}

static void leave_keys_in_user_namespace(uint32_t uid)
{
    become(uid);
    die_unless(unshare(CLONE_NEWUSER) == 0);
    die_unless(keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) > 0);
    die_unless(key_add("in-user", KEY_SPEC_USER_KEYRING) > 0);
}

/* All that it may have. */
static void leave_too_many_keys(uint32_t uid)
{
    char name[32];

    leave_keys(uid);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof(name), "key-%d", i);
        if (key_add(name, KEY_SPEC_USER_KEYRING) < 0) {
            die_unless(errno == EDQUOT);
            return;
        }
    }
    die_unless(false);
}

/* A key of root's, in its own. */
static void leave_key_of_another(uint32_t uid)
{
    long one = key_add("of-root", KEY_SPEC_PROCESS_KEYRING);

    die_unless(one > 0 && keyctl(KEYCTL_SETPERM, one, ALL_OF_ALL) == 0);
    become(uid);
    die_unless(keyctl(KEYCTL_LINK, one, KEY_SPEC_USER_KEYRING) == 0);
}

/* As a fresh uid: no key is found, and all can be made. */
static void find_none(uint32_t uid)
{
    become(uid);
    die_unless(keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) > 0);
    die_unless(keyctl(KEYCTL_READ, KEY_SPEC_USER_KEYRING, 0) == 0);
    die_unless(syscall(SYS_request_key, "user", "in-user", NULL, 0L) < 0 && errno == ENOKEY);
    leave_keys(uid);
}

static void assert_dirty(struct fixture *f)
{
    const struct sweep_finding *finding = sweep_verdict(&f->sweep, f->uids[0]);

    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_KEYRING);
}

static void keys_of_its_keyrings_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keys, f->uids[0]);
    run_as(leave_keys, f->uids[1]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    assert_true(keys_of(f->uids[0]) >= 6);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
    assert_true(keys_of(f->uids[1]) >= 6);

    run_as(find_none, f->uids[0]);
    f->list.n = 2;
    f->sweep.ids.max = f->uids[1];
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
    assert_keys(f->uids[1], 0);
}

static void keys_that_only_a_possessor_may_touch_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keys_to_possessors, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

static void keys_of_a_user_namespace_that_has_ended_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keys_in_user_namespace, f->uids[0]);
    f->sweep.wait_ms = 10000;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

static void keys_of_another_in_its_keyrings_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_key_of_another, f->uids[0]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

static void keys_that_use_up_the_quota_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_too_many_keys, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

/* root's session keyring, with a key of the uid in it. */
static void keep(uint32_t uid, long permissions)
{
    long ring = keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0);
    pid_t pid;

    die_unless(ring > 0 && keyctl(KEYCTL_SETPERM, ring, ALL_OF_ALL) == 0);
    pid = fork();
    if (pid == 0) {
        become(uid);
        long one = key_add("kept", ring);
        die_unless(one > 0 && keyctl(KEYCTL_SETPERM, one, permissions) == 0);
        _exit(0);
    }
    die_unless(fixture_reap(pid) == 0);
}

static void become_keeper(uint32_t uid)
{
    keep(uid, ALL_OF_POSSESSOR);
}

static void become_keeper_of_open_key(uint32_t uid)
{
    keep(uid, ALL_OF_ALL);
}

static void keys_in_a_keyring_of_another_are_dirty_until_it_is_gone(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t keeper = fixture_plant(become_keeper, f->uids[0]);

    run_as(leave_keys, f->uids[0]);
    f->sweep.wait_ms = 200;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    assert_keys(f->uids[0], 1);
    assert_true(fixture_alive(keeper));
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
    f->sweep.wait_ms = 10000;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
}

static void keys_in_a_keyring_of_another_that_the_uid_may_use_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t keeper = fixture_plant(become_keeper_of_open_key, f->uids[0]);

    assert_keys(f->uids[0], 1);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
    assert_true(fixture_alive(keeper));
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
}

/* A pipe that the uid has made: the kernel keeps the credentials of who opened a file, and with them his session. */
static void become_keeper_of_pipe(uint32_t uid)
{
    pid_t pid;
    int ends[2];

    /* One that shares descriptors, and is the uid for a moment. */
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0L);
    if (pid == 0) {
        become(uid);
        die_unless(keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) > 0);
        _exit(pipe(ends) == 0 ? 0 : 1);
    }
    die_unless(fixture_reap(pid) == 0);
}

static void keyrings_without_keys_that_an_open_file_keeps_are_clean(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t keeper = fixture_plant(become_keeper_of_pipe, f->uids[0]);

    run_as(leave_keys, f->uids[0]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 1);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
}

static bool wanted_till_in_hand(uint32_t id, void *arg)
{
    struct fixture *f = arg;

    return id == f->uids[0] && !uids_in_hand(id);
}

static void keys_of_what_has_become_here_meanwhile_stay(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keys, f->uids[0]);
    f->sweep.wait_ms = 0;
    f->sweep.ids.has = wanted_till_in_hand;
    f->sweep.ids.arg = f;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_true(keys_of(f->uids[0]) >= 6);
    f->sweep.wait_ms = 10000;
    f->sweep.ids.has = sweep_list_has;
    f->sweep.ids.arg = &f->list;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
}

static void keys_that_can_not_be_counted_are_dirty(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    const char *path = fixture_in(f, "key-users");
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    (void)fprintf(file, "    0:     2 2/2 2/200 30/20000\nwhatever\n");
    (void)fclose(file);
    f->places.proc = f->dir;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_SCAN_FAILED);
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(keys_of_its_keyrings_go),
        SWEEP_TEST(keys_that_only_a_possessor_may_touch_go),
        SWEEP_TEST(keys_of_another_in_its_keyrings_go),
        SWEEP_TEST(keys_that_use_up_the_quota_go),
        SWEEP_TEST(keys_in_a_keyring_of_another_that_the_uid_may_use_go),
        SWEEP_TEST(keyrings_without_keys_that_an_open_file_keeps_are_clean),
        SWEEP_TEST(keys_of_a_user_namespace_that_has_ended_go),
        SWEEP_TEST(keys_in_a_keyring_of_another_are_dirty_until_it_is_gone),
        SWEEP_TEST(keys_of_what_has_become_here_meanwhile_stay),
        SWEEP_TEST(keys_that_can_not_be_counted_are_dirty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
