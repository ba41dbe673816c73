/* From state to the map and back: takeover, repair, a reader on the side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noded/map_writer.h"

#define UID 2046820352u

struct fixture {
    char dir[64], path[96];
    struct node_map *map;
    struct node_map_past past;
    struct node_map_reader reader;
    struct err err;
    struct state_lease seen[8];
    bool seen_closed[8];
    size_t n_seen;
};

static const struct state_pool pools[] = {
    {.name = "a", .first = UID, .last = UID + 99},
    {.name = "b", .first = UID + 1000, .last = UID + 1099},
};

static int setup(void **state)
{
    struct fixture *f;

    if (geteuid() != 0)
        return 0;
    f = calloc(1, sizeof(*f));
    memcpy(f->dir, "/tmp/xce-test-nodemap.XXXXXX", 29);
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof(f->path), "%s/uidmap", f->dir);
    f->reader.path = f->path;
    assert_int_equal(node_map_open(f->path, &f->map, &f->past, &f->err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char lock[128];

    if (!f)
        return 0;
    node_map_close(f->map, false);
    node_map_reader_done(&f->reader);
    (void)snprintf(lock, sizeof(lock), "%s.lock", f->path);
    (void)unlink(lock);
    (void)unlink(f->path);
    (void)rmdir(f->dir);
    free(f);
    return 0;
}

static struct fixture *get(void **state)
{
    if (!*state)
        skip();
    return *state;
}

static void reopen(struct fixture *f, bool in_order)
{
    node_map_close(f->map, in_order);
    f->map = NULL;
    assert_int_equal(node_map_open(f->path, &f->map, &f->past, &f->err), 0);
}

static int set(struct fixture *f, uint32_t uid, uint32_t epoch, enum state_phase phase,
               uint8_t flags)
{
    struct state_lease lease = {.lease = uid,
                                .revision = 5,
                                .uid = uid,
                                .epoch = epoch,
                                .phase = phase,
                                .gecos = "g",
                                .home = "/h",
                                .shell = "/s"};
    return node_map_set(f->map, &lease, flags);
}

static void see(const struct state_lease *lease, bool closed, void *arg)
{
    struct fixture *f = arg;

    assert_true(f->n_seen < 8);
    f->seen_closed[f->n_seen] = closed;
    f->seen[f->n_seen++] = *lease;
}

static void node_map_without_pools_has_nothing_here(void **state)
{
    struct fixture *f = get(state);

    assert_false(node_map_exists(f->map));
    assert_false(f->past.taken);
    assert_int_equal(set(f, UID, 1, STATE_ACTIVE, XCE_MAP_MEMBER), -ERANGE);
    f->reader.none = true;
    assert_false(node_map_here(&f->reader, UID));
    assert_false(f->reader.unsure);
}

static void node_map_here_is_member_live_and_open(void **state)
{
    struct fixture *f = get(state);

    assert_int_equal(node_map_shape(f->map, "xce-", pools, 2), 0);
    assert_int_equal(set(f, UID, 1, STATE_GRANTED, XCE_MAP_MEMBER), 0);
    assert_int_equal(set(f, UID + 1, 1, STATE_ACTIVE, 0), 0);
    assert_int_equal(set(f, UID + 2, 1, STATE_DRAINING, XCE_MAP_MEMBER), 0);
    assert_int_equal(set(f, UID + 1000, 9, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_true(node_map_here(&f->reader, UID));
    assert_false(node_map_here(&f->reader, UID + 1));
    assert_false(node_map_here(&f->reader, UID + 2));
    assert_false(node_map_here(&f->reader, UID + 3));
    assert_true(node_map_here(&f->reader, UID + 1000));
    node_map_mark(f->map, UID, 1, XCE_MAP_CLOSED, 0);
    assert_false(node_map_here(&f->reader, UID));
    /* For good. */
    assert_int_equal(set(f, UID, 1, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_false(node_map_here(&f->reader, UID));
    assert_int_equal(set(f, UID, 0xffffffff, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_true(node_map_here(&f->reader, UID));
    node_map_retire(f->map, UID, 0xffffffff, 7);
    assert_false(node_map_here(&f->reader, UID));
    assert_int_equal(set(f, UID, 4, STATE_ACTIVE, XCE_MAP_MEMBER), -ESTALE);
    assert_false(f->reader.unsure);
}

static void node_map_outlives_its_writer(void **state)
{
    struct fixture *f = get(state);
    struct stat before, after;

    assert_int_equal(node_map_shape(f->map, "xce-", pools, 2), 0);
    assert_int_equal(set(f, UID + 7, 3, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_int_equal(set(f, UID + 8, 4, STATE_DRAINING, XCE_MAP_MEMBER | XCE_MAP_CLOSED), 0);
    node_map_incarnation(f->map, (const uint8_t *)"0123456789abcdef", 16);
    node_map_progress(f->map, 42, true);
    assert_int_equal(node_map_beat(f->map, 1000, 900), 0);
    assert_int_equal(stat(f->path, &before), 0);
    reopen(f, true);
    assert_int_equal(stat(f->path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_true(f->past.taken && f->past.in_order && f->past.complete);
    assert_int_equal(f->past.revision, 42);
    assert_int_equal(f->past.heard_boot_ms, 900);
    assert_memory_equal(f->past.incarnation, "0123456789abcdef", 16);
    assert_string_equal(f->past.prefix, "xce-");
    node_map_each(f->map, see, f);
    assert_int_equal(f->n_seen, 2);
    assert_int_equal(f->seen[0].epoch, 3);
    assert_true(f->seen[0].member);
    assert_false(f->seen_closed[0]);
    assert_int_equal(f->seen[1].phase, STATE_DRAINING);
    assert_true(f->seen_closed[1]);
    reopen(f, false);
    assert_false(f->past.in_order);
}

static void node_map_killed_writer_leaves_a_map_that_is_taken_over(void **state)
{
    struct fixture *f = get(state);
    uint32_t n = 0;

    assert_int_equal(node_map_shape(f->map, "xce-", pools, 1), 0);
    node_map_close(f->map, false);
    f->map = NULL;
    for (int turn = 0; turn < 30; turn++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (node_map_open(f->path, &f->map, &f->past, &f->err) < 0)
                _exit(1);
            for (uint32_t i = 0;; i++)
                (void)set(f, UID + i % 100, 1 + i / 100, STATE_ACTIVE, XCE_MAP_MEMBER);
        }
        (void)usleep(500 + 700 * (useconds_t)turn % 5000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(node_map_open(f->path, &f->map, &f->past, &f->err), 0);
        assert_true(f->past.taken && f->past.complete);
        n += f->past.repaired;
        node_map_close(f->map, false);
        f->map = NULL;
    }
    print_message("%u records repaired\n", n);
    assert_int_equal(node_map_open(f->path, &f->map, &f->past, &f->err), 0);
}

static void node_map_reader_follows_a_new_shape(void **state)
{
    struct fixture *f = get(state);

    assert_int_equal(node_map_shape(f->map, "xce-", pools, 1), 0);
    assert_int_equal(set(f, UID, 1, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_true(node_map_here(&f->reader, UID));
    assert_false(node_map_here(&f->reader, UID + 1000));
    assert_int_equal(node_map_shape(f->map, "xce-", pools, 2), 0);
    assert_int_equal(set(f, UID + 1000, 1, STATE_ACTIVE, XCE_MAP_MEMBER), 0);
    assert_true(node_map_here(&f->reader, UID));
    assert_true(node_map_here(&f->reader, UID + 1000));
}

static void node_map_taken_away_is_unsure_not_empty(void **state)
{
    struct fixture *f = get(state);

    assert_int_equal(node_map_shape(f->map, "xce-", pools, 1), 0);
    assert_int_equal(unlink(f->path), 0);
    /* Nothing may be killed over somebody's rm. */
    assert_true(node_map_here(&f->reader, UID));
    assert_true(f->reader.unsure);
    f->reader.unsure = false;
    assert_int_equal(node_map_beat(f->map, 5000, 0), 0);
    assert_false(node_map_here(&f->reader, UID));
    assert_false(f->reader.unsure);
}

static void node_map_tells_its_ranges(void **state)
{
    struct fixture *f = get(state);
    struct xce_map_range ranges[XCE_RANGES_MAX];

    assert_int_equal(node_map_ranges(f->map, ranges), 0);
    assert_int_equal(node_map_shape(f->map, "xce-", pools, 2), 0);
    assert_int_equal(node_map_ranges(f->map, ranges), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ranges[i].first, pools[i].first);
        assert_int_equal(ranges[i].count, pools[i].last - pools[i].first + 1);
    }
}

static void node_map_second_writer_is_refused(void **state)
{
    struct fixture *f = get(state);
    struct node_map *other = NULL;
    struct node_map_past past;

    assert_int_equal(node_map_open(f->path, &other, &past, &f->err), -EBUSY);
    assert_non_null(strstr(f->err.text, f->path));
}

static void full_child(struct fixture *f)
{
    struct state_pool big = {.name = "big", .first = UID, .last = UID + 65535};

    node_map_close(f->map, false);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", f->dir, "tmpfs", 0, "size=1m") < 0)
        _exit(77);
    if (node_map_open(f->path, &f->map, &f->past, &f->err) < 0)
        _exit(1);
    if (node_map_shape(f->map, "xce-", &big, 1) != -ENOSPC || node_map_exists(f->map))
        _exit(2);
    if (node_map_shape(f->map, "xce-", pools, 2) != 0 ||
        set(f, UID, 1, STATE_ACTIVE, XCE_MAP_MEMBER) != 0)
        _exit(3);
    /* One that can not grow stays as it is. */
    if (node_map_shape(f->map, "xce-", &big, 1) != -ENOSPC || !node_map_here(&f->reader, UID))
        _exit(4);
    if (mount("none", f->dir, "tmpfs", MS_REMOUNT, "size=32m") < 0 ||
        node_map_shape(f->map, "xce-", &big, 1) != 0 || !node_map_here(&f->reader, UID))
        _exit(5);
    _exit(0);
}

static void node_map_full_file_system_is_an_error_and_passes(void **state)
{
    struct fixture *f = get(state);
    pid_t pid = fork();
    int status;

    if (pid == 0)
        full_child(f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
#define MAP_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        MAP_TEST(node_map_without_pools_has_nothing_here),
        MAP_TEST(node_map_here_is_member_live_and_open),
        MAP_TEST(node_map_outlives_its_writer),
        MAP_TEST(node_map_killed_writer_leaves_a_map_that_is_taken_over),
        MAP_TEST(node_map_reader_follows_a_new_shape),
        MAP_TEST(node_map_taken_away_is_unsure_not_empty),
        MAP_TEST(node_map_tells_its_ranges),
        MAP_TEST(node_map_second_writer_is_refused),
        MAP_TEST(node_map_full_file_system_is_an_error_and_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
