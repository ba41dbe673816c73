/* The nth allocation, or the nth disk call, fails. For test programs that take dep_test_fault: the linker sends the calls
 * of our own objects (not those inside shared libraries) through here (-Wl,--wrap).
 *
 *     fault_memory(3);      the third allocation from here on fails, once
 *     r = engine_open(...);
 *     assert_true(fault_end());     true = it came to that, and the fault is no longer set
 * One fault at a time; for the whole process: calls of the test itself and of tests/lib count, too. */
#ifndef XCE_TESTS_LIB_FAULT_H
#define XCE_TESTS_LIB_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* malloc, calloc, realloc, reallocarray, strdup, strndup, asprintf, vasprintf, posix_memalign, aligned_alloc: the nth from
 * now (from 1) fails with ENOMEM. */
void fault_memory(size_t nth);
/* The nth from now and every later one. */
void fault_memory_from(size_t nth);

/* Which calls fault_disk counts. */
enum fault_disk {
    FAULT_WRITE = 1 << 0,  /* write, writev, pwrite, pwritev */
    FAULT_SYNC = 1 << 1,   /* fsync, fdatasync, syncfs, msync */
    FAULT_OPEN = 1 << 2,   /* open, openat, creat, mkdir, mkdirat */
    FAULT_RENAME = 1 << 3, /* rename, renameat, renameat2, unlink, unlinkat */
    FAULT_SPACE = 1 << 4,  /* ftruncate, fallocate, posix_fallocate */
    FAULT_ANY = 31,
};
/* With it, a write that is struck takes half of its bytes (a short write) instead of failing; what comes after it fails if
 * the fault is for good. */
#define FAULT_SHORT (1 << 8)
/* The nth call of those kinds fails with error (ENOSPC, EIO), and every later one if for_good. Descriptors 0 to 2 are
 * left alone. */
void fault_disk(unsigned kinds, size_t nth, int error, bool for_good);

/* Take the fault away. Whether it struck. */
bool fault_end(void);
/* Calls counted since the fault was set. */
size_t fault_count(void);

/* Run body with its 1st, 2nd, ... allocation failing until one run gets by without. Each run that was struck must give
 * `expected` (-ENOMEM), the last one 0; else the program fails, naming the run. Gives the number of runs. */
size_t fault_each_allocation(int (*body)(void *arg), void *arg, int expected);

/* Whether body aborts (SIGABRT), tried in a child; its stderr is thrown away. */
bool fault_aborts(void (*body)(void *arg), void *arg);

#endif
