/* The walk that changes: each file of the uid or gid goes to the new one, folders when all in them has gone. */
#ifndef XCE_NORMALISE_CHANGE_H
#define XCE_NORMALISE_CHANGE_H

#include "normalise/walk.h"

/* Its argument is a struct inode_task. */
extern const struct walk_ops change_ops;

#endif
