/* The proof, which changes nothing and looks again for itself. What counts as the uid's is one decision for both (inode.h).
 *
 * Double collect: all is looked at, and of each folder the time of its last change is taken as it is opened; then those times are
 * taken again. If all are the same, then no name has come, gone or turned to another inode between the two: there was an instant at
 * which all was as it was seen. On the file systems that are known to keep it (root.h) nobody but root can set that time. They are compared by a sum over all folders, under a key that
 * nobody knows, so that it does not matter how many there are. A change in the same tick of the clock as the last one before it, or in the same second where times have no more, can not be told
 * by the time: a folder that has changed so lately is no proof either. What is moved out of the roots before the look, or is open
 * without a name, no walk sees. */
#ifndef XCE_NORMALISE_VERIFY_H
#define XCE_NORMALISE_VERIFY_H

#include <linux/stat.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "normalise/inode.h"
#include "normalise/walk.h"

struct verify {
    struct inode_task task;
    struct statx_timestamp
        since;                /* what changed then or later may change again without another time */
    _Atomic int64_t youngest; /* in ns: the last of those that the comparison found */
    uint8_t key[16];
    struct verify_sum {
        _Atomic uint64_t low, high;
    } looked, compared;
};

/* Before a look: how long to wait until what has been changed is older than a tick, than its second, if times may have no more,
 * and than what the last comparison found too young, by a server's clock that is ahead of ours. */
int64_t verify_wait_ms(const struct verify *verify, bool whole_seconds);

/* After a comparison: such a clock is too far ahead to be waited for. */
bool verify_is_ahead(const struct verify *verify);

/* Then the look. */
void verify_begin(struct verify *verify);

/* Both take a struct verify. Look counts what is left in tally.left, compare the folders that changed in tally.moved. */
extern const struct walk_ops verify_look_ops, verify_compare_ops;

/* After both: whether each folder was as it had been. */
bool verify_is_same(const struct verify *verify);

#endif
