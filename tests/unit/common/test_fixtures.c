/* What other tests rest on: folders go away however the process ends, faults strike exactly where they are told to. */
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
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmp.h"

/* In a child that has made no folder yet: make one, tell its path, end as told. The path is in ret. */
static void make_folder_and_end(int how, char *ret, size_t size)
{
    int ends[2];
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        const char *dir = tmp_dir();

        tmp_write(dir, "file", "x");
        (void)mkdir(tmp_path(dir, "locked"), 0000);
        (void)!write(ends[1], dir, strlen(dir));
        if (how == 0)
            exit(0);
        raise(how);
    }
    close(ends[1]);
    n = read(ends[0], ret, size - 1);
    assert_true(n > 0);
    ret[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool is_gone(const char *path)
{
    return access(path, F_OK) < 0 && errno == ENOENT;
}

static void wait_until_gone(const char *path)
{
    const struct timespec step = {.tv_nsec = 5000000};
    int64_t until = clock_mono_ms() + 60000;

    while (!is_gone(path) && clock_mono_ms() < until)
        nanosleep(&step, NULL);
    assert_true(is_gone(path));
}

/* First of all tests: its children must be the first to make a folder. */
static void tmp_dir_is_gone_however_the_process_ends(void **state)
{
    char path[256];

    make_folder_and_end(0, path, sizeof(path));
    assert_true(is_gone(path));
    make_folder_and_end(SIGKILL, path, sizeof(path));
    wait_until_gone(path);
}

static void tmp_files_hold_what_was_written(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_write(dir, "a", "text");
    char *text = tmp_read(path);

    assert_string_equal(text, "text");
    free(text);
    assert_string_not_equal(dir, tmp_dir());
    tmp_remove(dir);
    assert_true(is_gone(dir));
}

static void fault_memory_strikes_the_nth_alone(void **state)
{
    void *a, *b, *c;

    fault_memory(2);
    a = malloc(1);
    b = calloc(1, 1);
    c = realloc(NULL, 1);
    assert_true(fault_end());
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_int_equal(fault_count(), 3);
    free(a);
    free(c);
    fault_memory(5);
    assert_false(fault_end());
}

static void fault_memory_reaches_each_kind(void **state)
{
    char *text = NULL;
    void *p = NULL;

    fault_memory_from(1);
    assert_null(strdup("x"));
    assert_null(strndup("x", 1));
    assert_int_equal(asprintf(&text, "%d", 1), -1);
    assert_int_equal(posix_memalign(&p, 64, 64), ENOMEM);
    p = reallocarray(NULL, 3, 3);
    assert_null(p);
    assert_true(fault_end());
    assert_int_equal(fault_count(), 5);
}

static void fault_disk_strikes_its_kinds_alone(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_path(dir, "f"), *folder = tmp_path(dir, "d");
    auto_close int fd = -1;

    fault_disk(FAULT_SYNC | FAULT_RENAME, 2, EIO, true);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "ab", 2), 2);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(fdatasync(fd), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(unlink(path), -1);
    assert_true(fault_end());
    fault_disk(FAULT_WRITE | FAULT_SHORT, 1, ENOSPC, true);
    assert_int_equal(write(fd, "abcd", 4), 2);
    assert_int_equal(write(fd, "cd", 2), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(pwrite(fd, "cd", 2, 0), -1);
    assert_true(fault_end());
    fault_disk(FAULT_OPEN, 1, EACCES, false);
    assert_int_equal(mkdir(folder, 0700), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(fault_end());
}

static void returns(void *arg)
{
}

static void aborts(void *arg)
{
    abort();
}

static void fault_aborts_tells_them_apart(void **state)
{
    assert_true(fault_aborts(aborts, NULL));
    assert_false(fault_aborts(returns, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tmp_dir_is_gone_however_the_process_ends),
        cmocka_unit_test(tmp_files_hold_what_was_written),
        cmocka_unit_test(fault_memory_strikes_the_nth_alone),
        cmocka_unit_test(fault_memory_reaches_each_kind),
        cmocka_unit_test(fault_disk_strikes_its_kinds_alone),
        cmocka_unit_test(fault_aborts_tells_them_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
