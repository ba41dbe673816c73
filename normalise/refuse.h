/* What is refused before anything is opened: ids of a pool, and a view of ids that is not the machine's own. */
#ifndef XCE_NORMALISE_REFUSE_H
#define XCE_NORMALISE_REFUSE_H

#include "common/err.h"
#include "normalise/options.h"

/* 0; -EPERM an id is of a pool: its files belong to a lease; -errno the map can not be believed. No map: there are no pools. */
int refuse_pools(const char *map_path, const struct ids *ids, struct err *err);

/* 0; -EPERM ids are mapped here, so that a uid is not what the file systems have it for. */
int refuse_mapped(struct err *err);

#endif
