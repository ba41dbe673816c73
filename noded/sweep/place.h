/* A folder of the machine by its path, unless a server answers for it or for what leads there: to touch that may hang. */
#ifndef XCE_NODED_SWEEP_PLACE_H
#define XCE_NODED_SWEEP_PLACE_H

#include "noded/sweep/folder.h"

struct sweep;

/* As folder_each. Of one that is not entered nobody knows what lies there: that is reported. */
void place_each(struct sweep *sweep, const char *path, folder_entry_fn entry, const void *arg);

#endif
