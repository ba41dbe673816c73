#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noded/epochs.h"

#define UIDS 64

struct fixture {
    char dir[64], path[96];
    uint32_t epoch[UIDS]; /* as told by the last open */
    bool closed[UIDS], swept[UIDS];
    int told;
    bool torn;
    struct err err;
    struct epochs *epochs;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    memcpy(f->dir, "/tmp/xce-test-epochs.XXXXXX", 28);
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof(f->path), "%s/epochs", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    epochs_close(f->epochs);
    (void)unlink(f->path);
    (void)rmdir(f->dir);
    free(f);
    return 0;
}

static void told(const struct epoch_entry *entry, void *arg)
{
    struct fixture *f = arg;

    assert_in_range(entry->uid, 1, UIDS - 1);
    f->epoch[entry->uid] = entry->epoch;
    f->closed[entry->uid] = entry->closed;
    f->swept[entry->uid] = entry->swept;
    f->told++;
}

static int reopen(struct fixture *f)
{
    epochs_close(f->epochs);
    f->epochs = NULL;
    memset(f->epoch, 0, sizeof(f->epoch));
    f->told = 0;
    f->torn = false;
    return epochs_open(f->path, told, f, &f->epochs, &f->torn, &f->err);
}

static void append(struct fixture *f, uint32_t uid, uint32_t epoch, bool closed)
{
    assert_int_equal(epochs_append(f->epochs, &(struct epoch_entry){uid, epoch, closed, false}, 1),
                     0);
}

static void epochs_fresh_file_is_empty(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->told, 0);
    assert_false(f->torn);
    assert_int_equal(reopen(f), 0);
}

static void epochs_appended_are_told_in_order(void **state)
{
    struct fixture *f = *state;
    struct epoch_entry batch[3] = {{3, 7, false, false}, {4, 1, false, false}, {3, 8, true, true}};

    assert_int_equal(reopen(f), 0);
    append(f, 3, 6, false);
    assert_int_equal(epochs_append(f->epochs, batch, 3), 0);
    assert_int_equal(epochs_append(f->epochs, batch, 0), 0);
    append(f, 5, UINT32_MAX, true);
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->told, 5);
    assert_int_equal(f->epoch[3], 8);
    assert_true(f->closed[3]);
    assert_true(f->swept[3]);
    assert_int_equal(f->epoch[4], 1);
    assert_false(f->closed[4]);
    assert_false(f->swept[4]);
    assert_int_equal(f->epoch[5], UINT32_MAX);
    assert_true(f->closed[5]);
    assert_false(f->swept[5]);
    /* And it goes on from there. */
    append(f, 6, 2, false);
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->epoch[6], 2);
}

/* However a crash cuts the last batch, the ones before hold, and new ones can follow. */
static void epochs_torn_end_is_cut_off_at_every_byte(void **state)
{
    struct fixture *f = *state;
    struct stat before, after;

    assert_int_equal(reopen(f), 0);
    append(f, 1, 11, false);
    assert_int_equal(stat(f->path, &before), 0);
    append(f, 2, 22, false);
    assert_int_equal(stat(f->path, &after), 0);
    for (off_t size = after.st_size - 1; size > before.st_size; size--) {
        assert_int_equal(truncate(f->path, size), 0);
        assert_int_equal(reopen(f), 0);
        assert_true(f->torn);
        assert_int_equal(f->epoch[1], 11);
        assert_int_equal(f->epoch[2], 0);
        append(f, 2, 22, false);
        assert_int_equal(reopen(f), 0);
        assert_false(f->torn);
        assert_int_equal(f->epoch[2], 22);
    }
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char c;

    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 0x10;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    (void)close(fd);
}

static void epochs_damage_in_the_middle_is_an_error_that_names_the_file(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    assert_int_equal(reopen(f), 0);
    append(f, 1, 11, false);
    assert_int_equal(stat(f->path, &st), 0);
    append(f, 2, 22, false);
    for (off_t at = 0; at < st.st_size; at++) {
        flip(f->path, at);
        assert_int_equal(reopen(f), -EBADMSG);
        assert_non_null(strstr(f->err.text, f->path));
        flip(f->path, at);
    }
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->epoch[2], 22);
}

static void epochs_grown_file_is_rewritten(void **state)
{
    struct fixture *f = *state;
    struct epoch_entry all[2] = {{1, 5000, false, false}, {2, 9, true, true}};
    struct stat st;

    assert_int_equal(reopen(f), 0);
    assert_false(epochs_grown(f->epochs, 2));
    for (uint32_t i = 1; i <= 5000; i++)
        append(f, 1, i, false);
    assert_true(epochs_grown(f->epochs, 2));
    assert_int_equal(epochs_rewrite(f->epochs, all, 2), 0);
    assert_false(epochs_grown(f->epochs, 2));
    append(f, 3, 4, false);
    assert_int_equal(stat(f->path, &st), 0);
    assert_in_range(st.st_size, 1, 200);
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->told, 3);
    assert_int_equal(f->epoch[1], 5000);
    assert_true(f->closed[2]);
    assert_true(f->swept[2]);
    assert_int_equal(f->epoch[3], 4);
}

static void epochs_large_rewrite_spans_batches(void **state)
{
    struct fixture *f = *state;
    size_t n = 70000;
    struct epoch_entry *all = calloc(n, sizeof(*all));

    assert_int_equal(reopen(f), 0);
    for (size_t i = 0; i < n; i++)
        all[i] = (struct epoch_entry){1 + (uint32_t)i % (UIDS - 1), (uint32_t)i + 1, false, false};
    assert_int_equal(epochs_rewrite(f->epochs, all, n), 0);
    append(f, 1, 80000, false);
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->told, n + 1);
    assert_int_equal(f->epoch[1], 80000);
    free(all);
}

/* Nothing can be done with the file any more, not even cut off what was begun; then it can. */
static void epochs_file_that_can_not_be_changed_for_a_while_goes_on(void **state)
{
    struct fixture *f = *state;
    const struct epoch_entry entry = {2, 9, false, false};
    int flags = 0, immutable, fd, first, second;

    assert_int_equal(reopen(f), 0);
    append(f, 1, 7, false);
    fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0) {
        (void)close(fd);
        skip();
    }
    immutable = flags | FS_IMMUTABLE_FL;
    if (ioctl(fd, FS_IOC_SETFLAGS, &immutable) < 0) {
        (void)close(fd);
        skip();
    }
    first = epochs_append(f->epochs, &entry, 1);
    second = epochs_append(f->epochs, &entry, 1);
    assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
    assert_int_equal(first, -EPERM);
    assert_int_equal(second, -EPERM);
    (void)close(fd);
    append(f, 3, 4, false);
    assert_int_equal(reopen(f), 0);
    assert_int_equal(f->told, 2);
    assert_int_equal(f->epoch[3], 4);
}

static void full_disk_child(struct fixture *f)
{
    struct epoch_entry many[1000] = {{1, 1, false, false}};
    char junk[16384] = {0};
    int r, fd;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", f->dir, "tmpfs", 0, "size=64k") < 0)
        _exit(77);
    for (int i = 0; i < 1000; i++)
        many[i] = (struct epoch_entry){1 + (uint32_t)i % 60, (uint32_t)i + 1, false, false};
    if (reopen(f) < 0)
        _exit(1);
    append(f, 1, 7, false);
    if (chdir(f->dir) < 0)
        _exit(5);
    fd = open("junk", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, junk, sizeof(junk)) > 0)
        ;
    r = epochs_append(f->epochs, many, 1000);
    if (r != -ENOSPC)
        _exit(2);
    /* With room again it goes on, and nothing of the failed one is there. */
    if (unlink("junk") < 0 || close(fd) < 0)
        _exit(3);
    append(f, 2, 9, false);
    if (reopen(f) < 0 || f->told != 2 || f->epoch[1] != 7 || f->epoch[2] != 9)
        _exit(4);
    _exit(0);
}

static void epochs_full_disk_is_an_error_and_passes(void **state)
{
    struct fixture *f = *state;
    pid_t pid = fork();
    int status;

    if (pid == 0)
        full_disk_child(f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
#define EPOCHS_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        EPOCHS_TEST(epochs_fresh_file_is_empty),
        EPOCHS_TEST(epochs_appended_are_told_in_order),
        EPOCHS_TEST(epochs_torn_end_is_cut_off_at_every_byte),
        EPOCHS_TEST(epochs_damage_in_the_middle_is_an_error_that_names_the_file),
        EPOCHS_TEST(epochs_grown_file_is_rewritten),
        EPOCHS_TEST(epochs_large_rewrite_spans_batches),
        EPOCHS_TEST(epochs_file_that_can_not_be_changed_for_a_while_goes_on),
        EPOCHS_TEST(epochs_full_disk_is_an_error_and_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
