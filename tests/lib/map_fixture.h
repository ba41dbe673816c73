/* A uid map in a folder of its own, for tests and benches. Needs root: readers trust no other owner. */
#ifndef XCE_TESTS_LIB_MAP_FIXTURE_H
#define XCE_TESTS_LIB_MAP_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "map/read.h"
#include "map/write.h"

#define FIXTURE_BASE 0x78000000u

struct map_fixture {
    char dir[64], path[96];
    struct map_writer *writer;
    struct map_takeover how; /* of the last fixture_start */
};

/* For main: prints why and gives 77 if these tests cannot run here, else 0. */
int fixture_cannot_run(void);

/* True if long runs were asked for (XCE_TEST_LONG=1), and this is not a build with sanitizers. */
bool fixture_long(void);

/* An empty folder; no writer yet. Ends the test on failure, like all below. */
void fixture_begin(struct map_fixture *f);
/* Become the writer of f->path. */
void fixture_start(struct map_fixture *f);
/* Give the map one range of n uids from FIXTURE_BASE on, prefix "xce-". */
void fixture_shape(struct map_fixture *f, uint32_t n);
/* A sound lease of that uid. */
struct map_lease fixture_lease(uint32_t uid, uint32_t epoch);
/* Set it: active, member. */
void fixture_set(struct map_fixture *f, uint32_t uid, uint32_t epoch);
/* Stop the writer if there is one, and take the folder away with what is in it. */
void fixture_end(struct map_fixture *f);

#endif
