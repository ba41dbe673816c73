/* Folders are found again: by handle wherever they are by now, by name only where they were. */
#include "normalise/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "normalise/handle.h"
#include "tests/lib/tmp.h"

struct kit {
    struct root root;
    struct unit *top, *above, *below; /* top/above/below */
    const char *dir;
};

static struct unit *child(struct unit *parent, const char *name)
{
    int fd = unit_open(parent);
    struct unit *unit;

    assert_true(fd >= 0);
    assert_int_equal(unit_new(parent, fd, name, &unit), 0);
    assert_int_equal(close(fd), 0);
    return unit;
}

/* Skips the test where there are no handles, or not for us. */
static void kit_make(struct kit *kit, bool handles)
{
    kit->dir = tmp_dir();
    assert_int_equal(mkdir(tmp_path(kit->dir, "above"), 0755), 0);
    assert_int_equal(mkdir(tmp_path(kit->dir, "above/below"), 0755), 0);
    kit->root = (struct root){.handles = handles};
    kit->root.fd = open(kit->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(kit->root.fd >= 0);
    if (handles && !handle_try(kit->root.fd)) {
        (void)close(kit->root.fd);
        skip();
    }
    assert_int_equal(unit_new_root(&kit->root, &kit->top), 0);
    kit->above = child(kit->top, "above");
    kit->below = child(kit->above, "below");
}

static void kit_done(struct kit *kit)
{
    unit_free(kit->below);
    unit_free(kit->above);
    unit_free(kit->top);
    assert_int_equal(close(kit->root.fd), 0);
    tmp_remove(kit->dir);
}

/* Whether it opens as that folder; else the error. */
static int opens_as(const struct unit *unit, const char *path)
{
    struct stat is, wanted;
    int fd = unit_open(unit);

    if (fd < 0)
        return fd;
    assert_int_equal(fstat(fd, &is), 0);
    assert_int_equal(stat(path, &wanted), 0);
    assert_int_equal(is.st_ino, wanted.st_ino);
    assert_int_equal(close(fd), 0);
    return 0;
}

static void found_where_it_was(bool handles)
{
    struct kit kit;

    kit_make(&kit, handles);
    assert_int_equal(opens_as(kit.below, tmp_path(kit.dir, "above/below")), 0);
    assert_int_equal(opens_as(kit.top, kit.dir), 0);
    kit_done(&kit);
}

static void unit_by_name_is_found_where_it_was(void **state)
{
    (void)state;
    found_where_it_was(false);
}

static void unit_by_handle_is_found_where_it_was(void **state)
{
    (void)state;
    found_where_it_was(true);
}

static void unit_that_was_moved_is_found_by_its_handle(void **state)
{
    struct kit kit;

    (void)state;
    kit_make(&kit, true);
    assert_int_equal(rename(tmp_path(kit.dir, "above"), tmp_path(kit.dir, "moved")), 0);
    assert_int_equal(mkdir(tmp_path(kit.dir, "above"), 0755), 0);
    assert_int_equal(opens_as(kit.below, tmp_path(kit.dir, "moved/below")), 0);
    assert_int_equal(rmdir(tmp_path(kit.dir, "moved/below")), 0);
    assert_int_equal(unit_open(kit.below), -ENOENT);
    kit_done(&kit);
}

/* Another folder by the same name, or a symlink to the right one, is none. */
static void unit_by_name_is_no_other_folder(void **state)
{
    struct kit kit;

    (void)state;
    kit_make(&kit, false);
    assert_int_equal(rename(tmp_path(kit.dir, "above"), tmp_path(kit.dir, "moved")), 0);
    assert_int_equal(unit_open(kit.below), -ENOENT);
    assert_int_equal(mkdir(tmp_path(kit.dir, "above"), 0755), 0);
    assert_int_equal(mkdir(tmp_path(kit.dir, "above/below"), 0755), 0);
    assert_int_equal(unit_open(kit.below), -ENOENT);
    tmp_remove(tmp_path(kit.dir, "above"));
    assert_int_equal(symlink("moved", tmp_path(kit.dir, "above")), 0);
    assert_int_equal(unit_open(kit.below), -ENOTDIR);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_by_name_is_found_where_it_was),
        cmocka_unit_test(unit_by_handle_is_found_where_it_was),
        cmocka_unit_test(unit_that_was_moved_is_found_by_its_handle),
        cmocka_unit_test(unit_by_name_is_no_other_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
