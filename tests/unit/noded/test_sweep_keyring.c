/* Keys that outlive all processes of a uid. The registry is the kernel's: each test has uids of its own. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/clock.h"
#include "noded/sweep/uids.h"

#define ALL_OF_POSSESSOR 0x3f000000L
#define ALL_OF_ALL       0x3f3f3f3fL
/* Its possessor may view, read and search, its owner view. */
#define LOOKED_INTO 0x0b010000L
#define VIEWED      0x00010000L

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
    int64_t deadline_ms = clock_mono_ms() + 60000;

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
    f->sweep.wait_ms = 20000; /* the kernel collects keys when it comes to it */
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

/* One that has waited in vain waits no more; another one does. */
static void another_sweep_is_clean(struct fixture *f)
{
    f->sweep.slow = 0;
    f->sweep.wait_ms = 20000;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
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
    another_sweep_is_clean(f);
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
    another_sweep_is_clean(f);
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

/* What the uid has opened: the kernel keeps the credentials of who opened a file, and with them his session. */
static void become_keeper_of_open_file(uint32_t uid)
{
    pid_t pid;

    /* One that shares descriptors, and is the uid for a moment; it has a keyring of its process, too. */
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0L);
    if (pid == 0) {
        become(uid);
        die_unless(keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) > 0);
        die_unless(keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1) > 0);
        _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1);
    }
    die_unless(fixture_reap(pid) == 0);
}

static void keyrings_without_keys_that_an_open_file_keeps_are_clean(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t keeper = fixture_plant(become_keeper_of_open_file, f->uids[0]);

    run_as(leave_keys, f->uids[0]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 2);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
}

/* ---- what its owner says of a key ---- */

/* One key, as many lines of keyrings that count for none. */
static void leave_keys_with_lines(uint32_t uid)
{
    char text[1024], lines[512] = "";
    int len = 0;

    for (int i = 0; i < 10; i++)
        len += snprintf(lines + len, sizeof(lines) - (size_t)len,
                        "%x I 1 perm 00010000 %u 0 keyring _ses\n", i + 1, uid);
    become(uid);
    (void)snprintf(text, sizeof(text), "x\n%s", lines);
    die_unless(key_add(text, KEY_SPEC_USER_KEYRING) > 0);
}

static void keys_described_as_lines_of_others_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keys_with_lines, f->uids[0]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

/* A keyring that is there, twice; and what means the session keyring of whoever asks. */
static void become_keeper_of_open_file_and_line(uint32_t uid)
{
    int told[2];
    char text[256];
    long ring = 0;
    pid_t pid;

    die_unless(pipe(told) == 0);
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0L);
    if (pid == 0) {
        become(uid);
        ring = keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0);
        die_unless(ring > 0 && write(told[1], &ring, sizeof(ring)) == (ssize_t)sizeof(ring));
        _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1);
    }
    die_unless(fixture_reap(pid) == 0);
    die_unless(read(told[0], &ring, sizeof(ring)) == (ssize_t)sizeof(ring));
    (void)snprintf(text, sizeof(text),
                   "x\n%lx I 1 perm 00010000 %u 0 keyring _ses\n"
                   "%lx I 1 perm 00010000 %u 0 keyring _ses\n"
                   "fffffffd I 1 perm 3f3f0000 %u 0 user y\n",
                   ring, uid, ring, uid, uid);
    ring = keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0);
    die_unless(ring > 0 && keyctl(KEYCTL_SETPERM, ring, ALL_OF_ALL) == 0);
    pid = fork();
    if (pid == 0) {
        become(uid);
        long one = key_add(text, ring);
        die_unless(one > 0 && keyctl(KEYCTL_SETPERM, one, 0x3f010000L) == 0);
        _exit(0);
    }
    die_unless(fixture_reap(pid) == 0);
}

static void keys_described_as_lines_that_are_true_count_once(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t keeper = fixture_plant(become_keeper_of_open_file_and_line, f->uids[0]);

    f->sweep.wait_ms = 200;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    assert_keys(f->uids[0], 2);
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
    another_sweep_is_clean(f);
}

/* What another has put into the uid's own keyring is found there by the next one. */
static void leave_keyrings_to_be_looked_into(uint32_t uid)
{
    leave_key_of_another(uid);
    die_unless(keyctl(KEYCTL_SETPERM, KEY_SPEC_USER_SESSION_KEYRING, LOOKED_INTO) == 0);
    die_unless(keyctl(KEYCTL_SETPERM, KEY_SPEC_USER_KEYRING, LOOKED_INTO) == 0);
}

static void find_key_of_another(uint32_t uid)
{
    become(uid);
    die_unless(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", "of-root", 0L) >
               0);
}

static void keyrings_that_may_only_be_looked_into_go(void **state)
{
    struct fixture *f = fixture_with_keys(state);

    run_as(leave_keyrings_to_be_looked_into, f->uids[0]);
    run_as(find_key_of_another, f->uids[0]);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_keys(f->uids[0], 0);
}

/* Those of a user namespace, as they end with it. */
static void become_holder_of_locked_keyrings(uint32_t uid)
{
    long rings[2];

    become(uid);
    die_unless(unshare(CLONE_NEWUSER) == 0);
    rings[0] = keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
    rings[1] = keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_SESSION_KEYRING, 1);
    for (int i = 0; i < 2; i++)
        die_unless(rings[i] > 0 && keyctl(KEYCTL_SETPERM, rings[i], VIEWED) == 0);
}

static void keyrings_of_a_user_that_are_locked_are_dirty(void **state)
{
    struct fixture *f = fixture_with_keys(state);
    pid_t holder = fixture_plant(become_holder_of_locked_keyrings, f->uids[0]);

    f->sweep.wait_ms = 200;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_dirty(f);
    (void)kill(holder, SIGKILL);
    (void)fixture_reap(holder);
    another_sweep_is_clean(f);
}

/* ---- the child ---- */

#define ASKED_MAX 64

static _Atomic int *n_asked;
static uint32_t dies_as;

static int act_or_die(void)
{
    (void)atomic_fetch_add(n_asked, 1);
    if (!dies_as || getuid() == dies_as)
        (void)kill(getpid(), SIGKILL);
    return 7;
}

static void counter_make(void)
{
    n_asked = mmap(NULL, sizeof(*n_asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    assert_ptr_not_equal((void *)n_asked, MAP_FAILED);
}

static void uids_after_one_whose_child_has_died_are_asked(void **state)
{
    struct fixture *f = fixture_get(state);
    int results[2] = {0};

    f->list.n = 2;
    f->sweep.ids.max = f->uids[1];
    counter_make();
    dies_as = f->uids[0];
    assert_true(uids_act(&f->sweep, f->uids, 2, act_or_die, results) < 0);
    assert_true(results[0] < 0);
    assert_int_equal(results[1], 7);
    (void)munmap((void *)n_asked, sizeof(*n_asked));
}

/* Each may take as long as one that is stopped. */
static void uids_whose_children_all_die_end_it(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t uids[ASKED_MAX];

    for (int i = 0; i < ASKED_MAX; i++)
        uids[i] = f->uids[0];
    counter_make();
    dies_as = 0;
    assert_true(uids_act(&f->sweep, uids, ASKED_MAX, act_or_die, NULL) < 0);
    assert_in_range(*n_asked, 2, 10);
    (void)munmap((void *)n_asked, sizeof(*n_asked));
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
    f->sweep.ids.has = sweep_list_has;
    f->sweep.ids.arg = &f->list;
    another_sweep_is_clean(f);
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
        SWEEP_TEST(keys_described_as_lines_of_others_go),
        SWEEP_TEST(keys_described_as_lines_that_are_true_count_once),
        SWEEP_TEST(keyrings_that_may_only_be_looked_into_go),
        SWEEP_TEST(keyrings_of_a_user_that_are_locked_are_dirty),
        SWEEP_TEST(uids_after_one_whose_child_has_died_are_asked),
        SWEEP_TEST(uids_whose_children_all_die_end_it),
        SWEEP_TEST(keys_of_what_has_become_here_meanwhile_stay),
        SWEEP_TEST(keys_that_can_not_be_counted_are_dirty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
