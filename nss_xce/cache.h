/* The uid map of this process: opened once, found again when its writer replaced it, never a burden to the host.
 *
 * A guest in a foreign process: no lock, allocation, thread-local storage, environment, descriptor that stays open. Any
 * number of threads, a signal handler, the child of a fork or vfork, a thread that is cancelled. errno is left alone.
 *
 * Once there is a map, a uid that no range has and a name of another form cost no system call. Look-ups of what is ours,
 * or of a uid above those of containers, where nobody else's are, cost one stat(2) a second for the whole process, to find
 * a map that was removed behind its writer's back. Without a map, or with one
 * that cannot be trusted, a uid or name that might be a lease's costs one attempt a second to open it. */
#ifndef XCE_NSS_CACHE_H
#define XCE_NSS_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "map/read.h"

/* As the functions of map/read.h; false is: not found, for whatever reason. */
bool cache_find_uid(uint32_t uid, unsigned want, struct map_entry *ret);
bool cache_find_name(const char *name, unsigned want, struct map_entry *ret);
bool cache_next(uint32_t from, unsigned want, struct map_entry *ret);

#endif
