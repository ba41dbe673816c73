#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmp.h"

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void fs_read_file_limit_is_exact(void **state)
{
    const char *dir = tmp_dir(), *path;
    char bytes[10000], *text;
    size_t len, n;

    memset(bytes, 'x', sizeof(bytes));
    for (n = 4090; n < 4100; n++) {
        path = tmp_write_bytes(dir, "f", bytes, n);
        assert_int_equal(fs_read_file(AT_FDCWD, path, n, &text, &len), 0);
        assert_int_equal(len, n);
        assert_int_equal(text[n], '\0');
        free(text);
        assert_int_equal(fs_read_file(AT_FDCWD, path, n - 1, &text, &len), -EFBIG);
    }
    path = tmp_write(dir, "empty", "");
    assert_int_equal(fs_read_file(AT_FDCWD, path, 0, &text, NULL), 0);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(fs_read_file(AT_FDCWD, path, SIZE_MAX, &text, NULL), -EFBIG);
}

static void fs_read_file_odd_things_refused(void **state)
{
    const char *dir = tmp_dir();
    char *text = NULL;
    size_t len;

    tmp_write_bytes(dir, "nul", "a\0b", 3);
    assert_int_equal(fs_read_file(AT_FDCWD, tmp_path(dir, "nul"), 10, &text, NULL), -EBADMSG);
    assert_int_equal(fs_read_file(AT_FDCWD, tmp_path(dir, "nul"), 10, &text, &len), 0);
    assert_int_equal(len, 3);
    free(text);
    assert_int_equal(fs_read_file(AT_FDCWD, dir, 10, &text, &len), -EISDIR);
    assert_int_equal(fs_read_file(AT_FDCWD, tmp_path(dir, "none"), 10, &text, &len), -ENOENT);
    assert_int_equal(mkfifo(tmp_path(dir, "fifo"), 0600), 0);
    assert_int_equal(fs_read_file(AT_FDCWD, tmp_path(dir, "fifo"), 10, &text, &len), -ENXIO);
    assert_int_equal(fs_read_file(AT_FDCWD, "/dev/zero", 10, &text, &len), -ENXIO);
    /* Files of /proc say that their size is 0. */
    assert_int_equal(fs_read_file(AT_FDCWD, "/proc/self/status", 65536, &text, &len), 0);
    assert_non_null(strstr(text, "Pid:"));
    free(text);
}

static void fs_write_file_replaces_whole(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_path(dir, "f");
    auto_close int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *text;
    mode_t old = umask(077);

    assert_int_equal(fs_write_file(AT_FDCWD, path, "one", 3, 0644), 0);
    assert_int_equal(mode_of(path), 0644);
    assert_int_equal(fs_write_file(dirfd, "f", "two two", 7, 0640), 0);
    umask(old);
    assert_int_equal(mode_of(path), 0640);
    text = tmp_read(path);
    assert_string_equal(text, "two two");
    free(text);
    assert_int_equal(fs_write_file(dirfd, "none/f", "x", 1, 0644), -ENOENT);
    assert_int_equal(fs_write_file(dirfd, "", "x", 1, 0644), -ENOENT);
    assert_int_equal(fs_write_file(dirfd, "f/", "x", 1, 0644), -EISDIR);
    assert_int_equal(fs_sync_parent(AT_FDCWD, path), 0);
    assert_int_equal(fs_sync_parent(dirfd, "f"), 0);
    assert_int_equal(fs_sync_parent(AT_FDCWD, "/"), -EISDIR);
}

static void fs_write_file_symlink_is_replaced_not_followed(void **state)
{
    const char *dir = tmp_dir(), *target = tmp_write(dir, "target", "old"),
               *link = tmp_path(dir, "link");
    char *text;

    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(fs_write_file(AT_FDCWD, link, "new", 3, 0600), 0);
    text = tmp_read(target);
    assert_string_equal(text, "old");
    free(text);
    text = tmp_read(link);
    assert_string_equal(text, "new");
    free(text);
}

static size_t count_entries(const char *path)
{
    auto_closedir DIR *dir = opendir(path);
    size_t n = 0;

    while (readdir(dir))
        n++;
    return n - 2;
}

/* Whichever disk call fails: the old file is there whole, or the new one, and no temporary. */
static void fs_write_file_each_disk_call_failing_loses_nothing(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_path(dir, "f");
    char *text;
    size_t nth;
    bool struck = true;
    int r;

    for (nth = 1; struck; nth++) {
        tmp_write(dir, "f", "old");
        fault_disk(FAULT_ANY, nth, ENOSPC, false);
        r = fs_write_file(AT_FDCWD, path, "new", 3, 0644);
        struck = fault_end();
        assert_int_equal(r, struck ? -ENOSPC : 0);
        text = tmp_read(path);
        assert_true(strcmp(text, "old") == 0 || strcmp(text, "new") == 0);
        assert_true(struck || strcmp(text, "new") == 0);
        free(text);
        assert_int_equal(count_entries(dir), 1);
    }
    assert_true(nth > 6);
}

static void fs_write_file_short_write_goes_on(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_path(dir, "f");
    char *text;

    fault_disk(FAULT_WRITE | FAULT_SHORT, 1, EIO, false);
    assert_int_equal(fs_write_file(AT_FDCWD, path, "0123456789", 10, 0644), 0);
    assert_true(fault_end());
    text = tmp_read(path);
    assert_string_equal(text, "0123456789");
    free(text);
    fault_disk(FAULT_WRITE | FAULT_SHORT, 1, EIO, true);
    assert_int_equal(fs_write_file(AT_FDCWD, path, "abcdefghij", 10, 0644), -EIO);
    fault_end();
    assert_int_equal(count_entries(dir), 1);
}

static void fs_mkdir_p_makes_what_is_missing(void **state)
{
    const char *dir = tmp_dir();
    mode_t old = umask(077);

    assert_int_equal(mkdir(tmp_path(dir, "a"), 0700), 0);
    assert_int_equal(fs_mkdir_p(tmp_path(dir, "a/b//c/"), 0755), 0);
    umask(old);
    assert_int_equal(mode_of(tmp_path(dir, "a")), 0700);
    assert_int_equal(mode_of(tmp_path(dir, "a/b")), 0755);
    assert_int_equal(mode_of(tmp_path(dir, "a/b/c")), 0755);
    assert_int_equal(fs_mkdir_p(tmp_path(dir, "a/b/c"), 0700), 0);
    assert_int_equal(mode_of(tmp_path(dir, "a/b/c")), 0755);
    tmp_write(dir, "file", "");
    assert_int_equal(fs_mkdir_p(tmp_path(dir, "file/x"), 0755), -ENOTDIR);
    assert_int_equal(fs_mkdir_p(tmp_path(dir, "file"), 0755), -ENOTDIR);
    assert_int_equal(fs_mkdir_p("", 0755), -ENOENT);
    assert_int_equal(fs_mkdir_p("/", 0755), 0);
    assert_int_equal(symlink("a", tmp_path(dir, "link")), 0);
    assert_int_equal(fs_mkdir_p(tmp_path(dir, "link/d"), 0755), 0);
    assert_int_equal(mode_of(tmp_path(dir, "a/d")), 0755);
}

static void fs_lock_file_second_one_is_told_who_holds_it(void **state)
{
    const char *path = tmp_path(tmp_dir(), "lock");
    int fd = -1, other = -1;
    char expected[400];
    struct err err = {0};

    assert_int_equal(fs_lock_file(path, &fd, &err), 0);
    assert_int_equal(fs_lock_file(path, &other, &err), -EBUSY);
    snprintf(expected, sizeof(expected), "%s is in use by process %d", path, (int)getpid());
    assert_string_equal(err.text, expected);
    mem_close(fd);
    assert_int_equal(fs_lock_file(path, &other, &err), 0);
    mem_close(other);
    assert_int_equal(fs_lock_file("/nonexistent/lock", &fd, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/lock: No such file or directory");
}

/* A holder that is killed leaves no lock behind. */
static void fs_lock_file_ends_with_its_process(void **state)
{
    const char *path = tmp_path(tmp_dir(), "lock");
    int fd = -1, ends[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        byte = (char)(fs_lock_file(path, &fd, NULL) == 0);
        (void)!write(ends[1], &byte, 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    assert_int_equal(fs_lock_file(path, &fd, NULL), -EBUSY);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(fs_lock_file(path, &fd, NULL), 0);
    mem_close(fd);
    mem_close(ends[0]);
    mem_close(ends[1]);
}

static void fs_free_bytes_are_of_the_file_system(void **state)
{
    uint64_t free_bytes = 0, total = 0;

    assert_int_equal(fs_free_bytes("/", &free_bytes, &total), 0);
    assert_true(total > 0 && free_bytes <= total);
    assert_int_equal(fs_free_bytes("/nonexistent", &free_bytes, &total), -ENOENT);
}

static void fs_read_id_table(void **state)
{
    static const struct {
        const char *text;
        int r;
    } rows[] = {
        {"0123456789abcdef0123456789abcdef\n", 0},
        {"0123456789ABCDEF0123456789abcdef", 0},
        {"01234567-89ab-cdef-0123-456789abcdef\n", 0},
        {"", -ENOMEDIUM},
        {"\n", -ENOMEDIUM},
        {"uninitialized\n", -ENOMEDIUM},
        {"00000000000000000000000000000000\n", -EBADMSG},
        {"0123456789abcdef0123456789abcde\n", -EBADMSG},
        {"0123456789abcdef0123456789abcdef0\n", -EBADMSG},
        {"0123456789abcdef0123456789abcdeg\n", -EBADMSG},
        {"0123456789abcdef0123456789abcdef\n\n", -EBADMSG},
        {"0123456-789ab-cdef-0123-456789abcdef\n", -EBADMSG},
        {"01234567-89ab-cdef-0123-456789ab-def\n", -EBADMSG},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123\n", -EBADMSG},
    };
    const char *dir = tmp_dir();
    char id[FS_ID_BUF];
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        memset(id, '#', sizeof(id));
        assert_int_equal(fs_read_id(tmp_write(dir, "id", rows[i].text), id), rows[i].r);
        if (rows[i].r == 0)
            assert_string_equal(id, "0123456789abcdef0123456789abcdef");
        else
            assert_int_equal(id[0], '#');
    }
    assert_int_equal(fs_read_id(tmp_path(dir, "none"), id), -ENOENT);
    assert_int_equal(fs_boot_id(id), 0);
    assert_int_equal(strlen(id), 32);
}

static int read_some(void *arg)
{
    char *text = NULL;
    int r = fs_read_file(AT_FDCWD, "/proc/self/maps", 1 << 20, &text, NULL);

    free(text);
    return r;
}

static void fs_read_file_without_memory_is_enomem(void **state)
{
    assert_true(fault_each_allocation(read_some, NULL, -ENOMEM) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fs_read_file_limit_is_exact),
        cmocka_unit_test(fs_read_file_odd_things_refused),
        cmocka_unit_test(fs_write_file_replaces_whole),
        cmocka_unit_test(fs_write_file_symlink_is_replaced_not_followed),
        cmocka_unit_test(fs_write_file_each_disk_call_failing_loses_nothing),
        cmocka_unit_test(fs_write_file_short_write_goes_on),
        cmocka_unit_test(fs_mkdir_p_makes_what_is_missing),
        cmocka_unit_test(fs_lock_file_second_one_is_told_who_holds_it),
        cmocka_unit_test(fs_lock_file_ends_with_its_process),
        cmocka_unit_test(fs_free_bytes_are_of_the_file_system),
        cmocka_unit_test(fs_read_id_table),
        cmocka_unit_test(fs_read_file_without_memory_is_enomem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
