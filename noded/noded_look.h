/* Looks at this machine, on threads of their own, and what such a thread uses. */
#ifndef XCE_NODED_NODED_LOOK_H
#define XCE_NODED_NODED_LOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "map/name.h"
#include "noded/map_writer.h"
#include "noded/sweep/sweep.h"
#include "noded/unit/bus.h"

struct noded;

#define ROOTS_MAX 80

/* What a guard or sweep thread uses, and nobody else meanwhile. One whose thread hangs stays with that. */
struct looker {
    struct noded *n;
    atomic_bool given_up; /* its thread hangs: it touches nothing any more */
    struct sweep_progress progress;
    char *acl_roots[ROOTS_MAX]; /* of its own: settings may change while it hangs */
    struct bus *bus;
    struct sweep_units units;
    struct sweep_places places;
    char prefix[NAME_PREFIX_MAX + 1];
    struct node_map_reader map;
    atomic_bool stale; /* since it was asked about accounts one has come: nothing more is touched */
    uint32_t min, max; /* uids */
};

/* What is to be done on a look's thread, and on the loop when it has come to its end: exactly one of done and hung, and late
 * after hung, when the thread has come back at last. */
struct look_fns {
    void (*work)(void *arg);
    void (*done)(int r, void *arg);
    /* It hangs, where says at what. arg is the thread's until late. */
    void (*hung)(void *arg, const char *where);
    void (*late)(void *arg);
    /* It goes to where files lie, or may: what can hang. While one hangs there no other begins, and hung is told of its place.
     * Of others eight may hang. */
    bool walks;
};

/* A looker of its own; the caller's to free when no thread uses it. */
struct looker *looker_new(struct noded *n);
void looker_free(struct looker *looker);
/* Another one takes the place of one that hangs. */
void noded_looker_replace(struct noded *n, const struct looker *looker);
/* Whether it may still touch anything. From its thread. */
bool looker_may_touch(const struct looker *looker);
/* Get a looker ready for its next job. */
void noded_looker_ready(struct noded *n, struct looker *looker);

/* Run it on a thread of its own, which uses that looker. fns is static. */
void noded_look(struct noded *n, struct looker *looker, const struct look_fns *fns, void *arg);

/* What a look at what lies around hangs at, as "files: /scratch: no answer for 60 s"; NULL = nothing. It lives until the loop
 * goes on. */
const char *noded_look_hangs(const struct noded *n);

#endif
