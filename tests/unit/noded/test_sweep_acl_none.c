/* That a file has no access list is remembered, and only of that file as it was: on a disk and in memory. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/le.h"
#include "noded/sweep/acl_none.h"
#include "noded/sweep/inode.h"

#define ACCESS   "system.posix_acl_access"
#define DEFAULT  "system.posix_acl_default"
#define LIST_LEN (4 + 5 * 8)
#define OLD_MS   3000 /* by then a file may be remembered */
#define WALL_MS  1700000000000
#define MONO_MS  100000

static char memory[64];

static int setup(void **state)
{
    if (geteuid() == 0) {
        memcpy(memory, "/dev/shm/xce-test-lists.XXXXXX", sizeof("/dev/shm/xce-test-lists.XXXXXX"));
        assert_non_null(mkdtemp(memory));
    }
    return fixture_setup(state);
}

static int teardown(void **state)
{
    static const char *const names[] = {"file", "other", "folder"};
    char path[128];

    for (size_t i = 0; *memory && i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", memory, names[i]);
        (void)remove(path);
    }
    (void)rmdir(memory);
    return fixture_teardown(state);
}

/* ---- one place to look at ---- */

struct place {
    struct fixture *f;
    const char *roots[2];
    int fd;
};

static void place_begin(struct place *p, struct fixture *f, const char *dir)
{
    *p = (struct place){.f = f, .roots = {dir}};
    p->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(p->fd, errno);
}

static const char *in(const struct place *p, const char *name)
{
    static char path[2][160];
    static unsigned turn;
    char *ret = path[turn++ % 2];

    (void)snprintf(ret, sizeof(path[0]), "%s/%s", p->roots[0], name);
    return ret;
}

static void look(struct place *p, bool remove)
{
    p->f->places.roots = NULL;
    p->f->places.acl_roots = p->roots;
    p->f->sweep.remove = remove;
    sweep_run(&p->f->sweep, SWEEP_LYING);
}

static bool remembered(const struct place *p, const char *name)
{
    struct acl_none none = acl_none_begin(p->fd);
    struct statx st;

    assert_int_equal(inode_stat(p->fd, name, &st), 0);
    return acl_none_has(&none, &st);
}

static bool may_be_remembered(const struct place *p)
{
    struct acl_none none = acl_none_begin(p->fd);

    if (!none.kept)
        print_message("skipped: a file system like that of %s is asked each time\n", p->roots[0]);
    return none.kept;
}

/* user::rw- user:UID:r-- group::r-- mask::r-- other::--- */
static void list_give(const char *path, const char *attribute, uint32_t uid)
{
    static const uint8_t tags[] = {1, 2, 4, 0x10, 0x20}, rights[] = {6, 4, 4, 4, 0};
    uint8_t value[LIST_LEN] = {2};

    for (size_t i = 0; i < 5; i++) {
        value[4 + i * 8] = tags[i];
        value[4 + i * 8 + 2] = rights[i];
        le_put_u32(value + 4 + i * 8 + 4, tags[i] == 2 ? uid : UINT32_MAX);
    }
    assert_return_code(setxattr(path, attribute, value, sizeof(value), 0), errno);
}

static bool list_names(const char *path, const char *attribute, uint32_t uid)
{
    uint8_t value[LIST_LEN * 2];
    ssize_t len = getxattr(path, attribute, value, sizeof(value));

    for (ssize_t at = 4; at < len; at += 8)
        if (value[at] == 2 && le_get_u32(value + at + 4) == uid)
            return true;
    return false;
}

/* Until nothing of it has changed for so long. */
static void grow_old(const struct place *p, const char *name)
{
    struct stat st;

    assert_return_code(fstatat(p->fd, name, &st, AT_SYMLINK_NOFOLLOW), errno);
    while (clock_wall_ms() - (int64_t)st.st_ctim.tv_sec * 1000 < OLD_MS + 1000)
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* ---- lists that come later ---- */

static void given_later_plant(struct place *p)
{
    fixture_file(in(p, "file"), 0, 0, 0640);
    fixture_folder(in(p, "folder"), 0, 0, 0755);
}

static void given_later_look(struct place *p)
{
    uint32_t uid = p->f->uids[0];

    grow_old(p, "folder");
    look(p, true);
    fixture_assert_clean(p->f);
    assert_true(remembered(p, "file"));
    assert_true(remembered(p, "folder"));
    list_give(in(p, "file"), ACCESS, uid);
    look(p, false);
    assert_non_null(sweep_verdict(&p->f->sweep, uid));
    look(p, true);
    assert_false(list_names(in(p, "file"), ACCESS, uid));
    list_give(in(p, "folder"), DEFAULT, uid);
    look(p, false);
    assert_non_null(sweep_verdict(&p->f->sweep, uid));
    look(p, true);
    fixture_assert_clean(p->f);
    assert_false(list_names(in(p, "folder"), DEFAULT, uid));
}

static void sweep_list_given_after_a_look_is_found(void **state)
{
    struct fixture *f = fixture_get(state);
    struct place places[2];

    place_begin(&places[0], f, f->dir);
    place_begin(&places[1], f, memory);
    for (size_t i = 0; i < 2; i++)
        given_later_plant(&places[i]);
    for (size_t i = 0; i < 2; i++) {
        if (may_be_remembered(&places[i]))
            given_later_look(&places[i]);
        (void)close(places[i].fd);
    }
}

/* ---- names that mean another file for a moment ---- */

static void exchange(const struct place *p)
{
    assert_return_code((int)renameat2(p->fd, "file", p->fd, "other", RENAME_EXCHANGE), errno);
}

/* Asked of whoever owns the file that has just been seen, before its list is. */
static bool exchange_has(uint32_t id, void *arg)
{
    struct place *p = arg;
    struct stat st;

    if (id == p->f->uids[1] && fstatat(p->fd, "file", &st, 0) == 0 && st.st_uid == id)
        exchange(p);
    return id == p->f->uids[0];
}

static void exchanged_plant(struct place *p)
{
    fixture_file(in(p, "file"), p->f->uids[1], p->f->uids[1], 0640);
    list_give(in(p, "file"), ACCESS, p->f->uids[0]);
    fixture_file(in(p, "other"), p->f->uids[2], p->f->uids[2], 0640);
}

/* The look met "other" by both names, or took the entry out by the other name. */
static void exchanged_look(struct place *p)
{
    struct sweep_ids ids = p->f->sweep.ids;

    grow_old(p, "file");
    p->f->sweep.ids = (struct sweep_ids){p->f->uids[0], p->f->uids[1], exchange_has, p};
    look(p, true);
    p->f->sweep.ids = ids;
    exchange(p);
    look(p, true);
    assert_false(list_names(in(p, "file"), ACCESS, p->f->uids[0]));
    assert_false(list_names(in(p, "other"), ACCESS, p->f->uids[0]));
}

static void sweep_list_of_a_file_exchanged_meanwhile_is_not_taken_for_none(void **state)
{
    struct fixture *f = fixture_get(state);
    struct place places[2];

    place_begin(&places[0], f, f->dir);
    place_begin(&places[1], f, memory);
    for (size_t i = 0; i < 2; i++)
        exchanged_plant(&places[i]);
    for (size_t i = 0; i < 2; i++) {
        if (may_be_remembered(&places[i]))
            exchanged_look(&places[i]);
        (void)close(places[i].fd);
    }
}

/* ---- what is remembered ---- */

static struct statx old_file(void)
{
    struct statx st = {.stx_ino = 77, .stx_dev_major = 8, .stx_dev_minor = 1};

    st.stx_ctime.tv_sec = WALL_MS / 1000 - 60;
    st.stx_ctime.tv_nsec = 500;
    return st;
}

static void acl_none_other_states_are_not_remembered(void **state)
{
    struct acl_none none = acl_none_begin_at(EXT4_SUPER_MAGIC, WALL_MS, MONO_MS);
    struct statx st = old_file(), other[] = {st, st, st, st, st};

    (void)state;
    assert_false(acl_none_has(&none, &st));
    acl_none_add(&none, &st);
    assert_true(acl_none_has(&none, &st));
    other[0].stx_ctime.tv_nsec++;
    other[1].stx_ctime.tv_sec++;
    other[2].stx_ino++;
    other[3].stx_dev_minor++;
    other[4].stx_dev_major++;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_false(acl_none_has(&none, &other[i]));
}

/* A change to it now might bear the same time. */
static void acl_none_what_has_just_changed_is_not_remembered(void **state)
{
    struct acl_none none = acl_none_begin_at(TMPFS_MAGIC, WALL_MS, MONO_MS);
    static const int64_t changed_ms[] = {WALL_MS, WALL_MS - 1000, WALL_MS - 1500,
                                         WALL_MS + 3600 * 1000};
    struct statx st = old_file();

    (void)state;
    for (size_t i = 0; i < sizeof(changed_ms) / sizeof(changed_ms[0]); i++) {
        st.stx_ctime.tv_sec = changed_ms[i] / 1000;
        st.stx_ctime.tv_nsec = (uint32_t)(changed_ms[i] % 1000) * 1000000;
        acl_none_add(&none, &st);
        assert_false(acl_none_has(&none, &st));
    }
}

static void acl_none_other_file_systems_are_asked_each_time(void **state)
{
    static const int64_t types[] = {XFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, 0};
    struct statx st = old_file();

    (void)state;
    st.stx_ino++;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct acl_none none = acl_none_begin_at(types[i], WALL_MS, MONO_MS);
        acl_none_add(&none, &st);
        assert_false(acl_none_has(&none, &st));
    }
}

/* What changes then may bear a time that has been before. */
static void acl_none_all_is_forgotten_when_the_clock_was_put_back(void **state)
{
    struct acl_none none = acl_none_begin_at(BTRFS_SUPER_MAGIC, WALL_MS, MONO_MS);
    struct statx st = old_file();

    (void)state;
    acl_none_add(&none, &st);
    none = acl_none_begin_at(BTRFS_SUPER_MAGIC, WALL_MS + 5000, MONO_MS + 5000);
    assert_true(acl_none_has(&none, &st));
    none = acl_none_begin_at(BTRFS_SUPER_MAGIC, WALL_MS + 3600 * 1000, MONO_MS + 6000);
    assert_true(acl_none_has(&none, &st));
    none = acl_none_begin_at(BTRFS_SUPER_MAGIC, WALL_MS + 7000, MONO_MS + 7000);
    assert_false(acl_none_has(&none, &st));
}

int main(void)
{
#define LISTS_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        LISTS_TEST(sweep_list_given_after_a_look_is_found),
        LISTS_TEST(sweep_list_of_a_file_exchanged_meanwhile_is_not_taken_for_none),
        cmocka_unit_test(acl_none_other_states_are_not_remembered),
        cmocka_unit_test(acl_none_what_has_just_changed_is_not_remembered),
        cmocka_unit_test(acl_none_other_file_systems_are_asked_each_time),
        cmocka_unit_test(acl_none_all_is_forgotten_when_the_clock_was_put_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
