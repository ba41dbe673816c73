/* The nth write or sync of a file fails, also inside shared libraries (fault.h: in our own objects). A program that takes
 * src_test_disk_fault stands before libc: write, pwrite, fsync and fdatasync of the whole process come here first.
 * Any thread. */
#ifndef XCE_TESTS_LIB_DISK_FAULT_H
#define XCE_TESTS_LIB_DISK_FAULT_H

#include <stdbool.h>

enum disk_op {
    DISK_WRITE = 1,
    DISK_SYNC = 2,
};

struct disk_fault {
    enum disk_op op;
    const char *suffix; /* of the file's path; borrowed while armed */
    unsigned after;     /* so many succeed first */
    unsigned times;     /* then so many fail; 0 = all */
    int error;          /* errno */
    bool done_all_same; /* the call is carried out, and then said to have failed */
};

/* Replaces what was armed. */
void disk_fault_arm(const struct disk_fault *fault);
void disk_fault_disarm(void);
/* Calls that failed since it was armed. */
unsigned disk_fault_hits(void);
/* Syncs of files whose path ends so, since the process began or the last reset. */
unsigned disk_fault_syncs(const char *suffix);

/* ---- power cuts ---- */

/* From now on remember what each written sector of 512 bytes held when its file was last synced. */
void disk_power_watch(void);
/* As if the power had failed: every sector written since its file was last synced holds, by chance, the new or the old
 * bytes, and a file may have lost what was appended. The process should _exit then. */
void disk_power_cut(unsigned seed);

#endif
