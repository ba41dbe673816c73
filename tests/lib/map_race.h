/* Readers against the writer of a map: 8 threads read records while they change; each answer must be one that was written,
 * whole, and not older than what was there when the look-up began. Needs root. */
#ifndef XCE_TESTS_LIB_MAP_RACE_H
#define XCE_TESTS_LIB_MAP_RACE_H

#include <stdint.h>

struct race_result {
    uint64_t reads, changes;
    /* parts of two records; no record although there always was one; older than when the read began, or never written */
    uint64_t torn, missing, stale;
    double seconds;
};

/* reads: of all threads together. per_second: changes; 0 = as many as there can be. */
struct race_result race_run(uint64_t reads, uint32_t per_second);

#endif
