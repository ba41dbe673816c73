/* The proof, which changes nothing and shares no decision with what does.
 *
 * Double collect: all is looked at, beginning at a moment of the file system's clock; then each folder's time of change is looked
 * at again. If none is younger than that moment, then no name has come, gone or turned to another inode from before the look until
 * after it: there was an instant at which all was as it was seen. Nobody but root can set that time back. What is moved out of
 * the roots before the look, or is open without a name, no walk sees. */
#ifndef XCE_NORMALISE_VERIFY_H
#define XCE_NORMALISE_VERIFY_H

#include <linux/stat.h>
#include <stdbool.h>

#include "normalise/inode.h"
#include "normalise/walk.h"

struct verify {
    struct inode_task task;
    struct statx_timestamp since; /* what changed then or later may have changed during the look */
    int64_t step_ns;              /* the machine's clock against time since boot, then */
};

/* Before a look: waits until what was changed before now is older than `since`. */
void verify_begin(struct verify *verify);

/* Both take a struct verify. Look counts what is left in tally.left, compare the folders that changed in tally.moved. */
extern const struct walk_ops verify_look_ops, verify_compare_ops;

/* Whether the clock has been set meanwhile: then times say nothing. */
bool verify_clock_was_set(const struct verify *verify);

#endif
