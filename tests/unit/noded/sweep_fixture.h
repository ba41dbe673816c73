/* What the sweep tests share: uids of their own, planted processes, a temporary folder. */
#ifndef TESTS_UNIT_NODED_SWEEP_FIXTURE_H
#define TESTS_UNIT_NODED_SWEEP_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "noded/sweep/sweep.h"

#define FIXTURE_UIDS 4

struct fixture {
    uint32_t uids[FIXTURE_UIDS]; /* nobody else's: by the test's pid */
    char dir[64];
    const char *roots[2], *none[1];
    struct sweep_places places;
    struct sweep_list list;
    struct sweep sweep;
};

/* cmocka setup and teardown; a test whose state is NULL is skipped by fixture_get (not root). */
int fixture_setup(void **state);
int fixture_teardown(void **state);
struct fixture *fixture_get(void **state);

/* A child that calls become(uid, gid) and stays until killed. Its pid, once it is what it should be. */
pid_t fixture_plant(void (*become)(uint32_t uid), uint32_t uid);
/* In the child, by one that does not return: it has become so. */
void fixture_ready(void);
/* Wait for a child; the signal it died of, 0 = it ended by itself. */
int fixture_reap(pid_t pid);
/* Whether it is alive still. */
bool fixture_alive(pid_t pid);

/* Create a file below dir, owned by uid:gid. */
void fixture_file(const char *path, uint32_t uid, uint32_t gid, mode_t mode);
void fixture_folder(const char *path, uint32_t uid, uint32_t gid, mode_t mode);
bool fixture_exists(const char *path);
/* "<dir>/name": valid for the next three calls. */
const char *fixture_in(const struct fixture *f, const char *name);

/* Nothing of the first uid was found; else what was is said. */
void fixture_assert_clean(const struct fixture *f);

#endif
