/* What the process may do. Owner, mode and access list of any file, and to read any folder: no more than that, for good. */
#ifndef XCE_NORMALISE_PRIVILEGE_H
#define XCE_NORMALISE_PRIVILEGE_H

#include "common/err.h"

/* 0; -EPERM it may not do what it is for, err names what is missing. */
int privilege_check(struct err *err);

/* Give up all else. Before there are threads. 0; -errno. */
int privilege_drop(void);

#endif
