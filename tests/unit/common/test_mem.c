#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/mem.h"
#include "tests/lib/fault.h"

static int open_null(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void mem_auto_close_closes_and_keeps_errno(void **state)
{
    int seen;

    {
        auto_close int fd = open_null();

        seen = fd;
        errno = EXDEV;
    }
    assert_int_equal(errno, EXDEV);
    assert_int_equal(fcntl(seen, F_GETFD), -1);
    {
        auto_close int none = -1;

        (void)none;
    }
}

static void mem_take_leaves_nothing_behind(void **state)
{
    int fd = open_null(), taken;
    char *text = strdup("x"), *kept;

    taken = mem_take_fd(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(mem_close(taken), -1);
    assert_int_equal(mem_close(-1), -1);
    kept = mem_take(text);
    assert_null(text);
    assert_string_equal(kept, "x");
    free(kept);
}

static void mem_auto_free_takes_null(void **state)
{
    auto_free char *none = NULL, *some = strdup("x");
    auto_fclose FILE *file = NULL;
    auto_closedir DIR *dir = NULL;

    assert_non_null(some);
    (void)none;
    (void)file;
    (void)dir;
}

static void mem_grow_is_bounded(void **state)
{
    uint32_t *array = NULL, *before;
    size_t cap = 0, i;

    for (i = 0; i < 100; i++) {
        assert_int_equal(mem_grow(&array, &cap, i + 1, 100, sizeof(*array)), 0);
        array[i] = (uint32_t)i;
    }
    assert_int_equal(cap, 100);
    before = array;
    assert_int_equal(mem_grow(&array, &cap, 101, 100, sizeof(*array)), -ENOBUFS);
    assert_ptr_equal(array, before);
    for (i = 0; i < 100; i++)
        assert_int_equal(array[i], i);
    free(array);
}

static void mem_grow_overflow_is_enomem(void **state)
{
    char *array = NULL;
    size_t cap = 0, bytes;

    assert_int_equal(mem_grow(&array, &cap, SIZE_MAX / 2, SIZE_MAX, 16), -ENOMEM);
    assert_null(array);
    assert_int_equal(cap, 0);
    assert_int_equal(mem_size(SIZE_MAX / 2, 3, &bytes), -EOVERFLOW);
    assert_int_equal(mem_size(3, 4, &bytes), 0);
    assert_int_equal(bytes, 12);
}

static void mem_dup_ends_in_nul(void **state)
{
    char *copy = mem_dup("ab\0c", 4);

    assert_memory_equal(copy, "ab\0c\0", 5);
    free(copy);
    copy = mem_dup(NULL, 0);
    assert_string_equal(copy, "");
    free(copy);
}

static void must_alloc(void *arg)
{
    fault_memory(1);
    (void)mem_must_alloc(10);
}

static void must_calloc(void *arg)
{
    fault_memory(1);
    (void)mem_must_calloc(10, 10);
}

static void must_realloc(void *arg)
{
    (void)mem_must_realloc(NULL, SIZE_MAX / 2, 4);
}

static void must_strdup(void *arg)
{
    fault_memory(1);
    (void)mem_must_strdup("x");
}

static void must_grow(void *arg)
{
    char *array = NULL;
    size_t cap = 0;

    fault_memory(1);
    mem_must_grow(&array, &cap, 1, 1);
}

static void mem_must_without_memory_aborts(void **state)
{
    assert_true(fault_aborts(must_alloc, NULL));
    assert_true(fault_aborts(must_calloc, NULL));
    assert_true(fault_aborts(must_realloc, NULL));
    assert_true(fault_aborts(must_strdup, NULL));
    assert_true(fault_aborts(must_grow, NULL));
}

static void mem_must_gives_memory(void **state)
{
    char *p = mem_must_alloc(0);
    uint64_t *array = NULL;
    size_t cap = 0;

    p = mem_must_realloc(p, 10, 1);
    free(p);
    p = mem_must_calloc(0, 0);
    free(p);
    p = mem_must_strdup("abc");
    assert_string_equal(p, "abc");
    free(p);
    mem_must_grow(&array, &cap, 3, sizeof(*array));
    assert_true(cap >= 3);
    free(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_auto_close_closes_and_keeps_errno),
        cmocka_unit_test(mem_take_leaves_nothing_behind),
        cmocka_unit_test(mem_auto_free_takes_null),
        cmocka_unit_test(mem_grow_is_bounded),
        cmocka_unit_test(mem_grow_overflow_is_enomem),
        cmocka_unit_test(mem_dup_ends_in_nul),
        cmocka_unit_test(mem_must_without_memory_aborts),
        cmocka_unit_test(mem_must_gives_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
