/* What the process may do. Owner, mode and access list of any file, and to read any folder: no more than that, for good; and, if it was
 * asked for, to have a file system's list of inodes. */
#ifndef XCE_NORMALISE_PRIVILEGE_H
#define XCE_NORMALISE_PRIVILEGE_H

#include <stdbool.h>

#include "common/err.h"

/* 0; -EPERM it may not do what it is for, err names what is missing. scan: the list, too. */
int privilege_check(bool scan, struct err *err);

/* Give up all else. Before there are threads. 0; -errno. */
int privilege_drop(bool scan);

#endif
